"""A PostgreSQL server of its own for tests: Debian's, on a free port, as a user who is not root."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 60.0


def programs() -> Path:
    """Debian keeps them out of PATH, a folder a version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise FileNotFoundError("PostgreSQL is not installed: make test-extra installs it")
    return found[-1].parent if found else Path(on_path or "").parent


@contextmanager
def postgres() -> Iterator[str]:
    """The address of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="selfcrag-postgres-"))
    user = "postgres" if os.getuid() == 0 else None
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data, bin_ = folder / "data", programs()
    try:
        flags = ["-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8"]
        initialise = [str(bin_ / "initdb"), *flags]
        subprocess.run(initialise, user=user, check=True, capture_output=True, cwd=folder)
        flags = ["-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        serve = [str(bin_ / "postgres"), *flags]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(serve, user=user, stderr=log, cwd=folder)
        try:
            _wait_for(bin_ / "pg_isready", port)
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(START_S)
    finally:
        shutil.rmtree(folder)


def _wait_for(asking: Path, port: int) -> None:
    end = time.monotonic() + START_S
    asked: list[str | Path] = [asking, "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(asked, check=False).returncode != 0:
        assert time.monotonic() < end, "PostgreSQL did not start"
        time.sleep(0.1)
