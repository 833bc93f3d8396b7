"""Counts the product's files and functions that one streamed self_crag request enters.

python benchmarks/house_request.py [CHECKOUT]    of this checkout, or of another one

The service runs in this process with its default parts, on the checkout's handbook in a scratch
data folder, with the web off. A profile function notes every function entered between the request
and the end of its stream, in all threads; what was loaded or opened before does not count.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("app", "graphs", "evaluator", "prompts")
QUESTION = "What does the upper threshold decide?"


class Tracer:
    """Notes (file, function) of every call into the checkout's packages while it `counts`."""

    def __init__(self, root: Path) -> None:
        self._roots = tuple(f"{root / package}{os.sep}" for package in PACKAGES)
        self.entered: set[tuple[str, str]] = set()
        self.counts = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.counts and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(self._roots):
                self.entered.add((code.co_filename, code.co_qualname))


async def traced(tracer: Tracer) -> None:
    # Of the checkout that was named, which need not be this one.
    import httpx  # noqa: PLC0415

    from app.main import create_app  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    app = create_app(Settings(_env_file=None))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        body = {"question": QUESTION, "workflow": "self_crag", "stream": True}
        await client.post("/ask", json=body, timeout=300)  # what is made once is made
        tracer.counts = True
        response = await client.post("/ask", json=body, timeout=300)
        tracer.counts = False
    assert "event: answer" in response.text, response.text[-2000:]


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    sys.path.insert(0, str(root))
    os.chdir(root)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SELFCRAG_DATA_DIR": folder, "SELFCRAG_SEARCH": "off"}
        command = [sys.executable, "-c", "from app.cli import main; main()", "ingest", "docs"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(root)})
        tracer = Tracer(root)
        threading.setprofile(tracer)
        sys.setprofile(tracer)
        asyncio.run(traced(tracer))
        sys.setprofile(None)
    files = sorted({file for file, _ in tracer.entered})
    for file in files:
        print(Path(file).relative_to(root))  # noqa: T201
    print(f"{len(files)} files, {len(tracer.entered)} functions")  # noqa: T201


if __name__ == "__main__":
    main()
