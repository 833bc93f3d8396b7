"""State folder: readable by the service's own user alone, and whole, or refused."""

import os
import shutil
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

RESTORING = "restore-under-way"
"""Lies in the state folder while a restore exchanges its parts."""


PROBE_BYTES, MIN_FREE_BYTES = 4096, 16_000_000
"""With less room uploads, the index and the database soon fail."""


INCOMING = ".incoming-"
"""Begins the names of folders in which uploads are being received."""


def make_private(folder: Path) -> None:
    """The folder with mode 700 where it is new; what is there already keeps its mode."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def create_private(file: Path) -> BinaryIO:
    """A new file with mode 600, open for writing. Raises FileExistsError."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def why_unwritable(state: Path) -> str:
    """Why the state folder cannot take what a service writes; "" where it can.

    Some bytes are written to a file without a name, which never comes to the disk.
    """
    try:
        with TemporaryFile(dir=state) as probe:
            probe.write(bytes(PROBE_BYTES))
        free = shutil.disk_usage(state).free
    except FileNotFoundError:  # a service whose parts are all elsewhere has none
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return "" if free >= MIN_FREE_BYTES else f"{free / 1e6:.1f} MB are free on its disk"


def what_is_unfinished(state: Path) -> str:
    """What to do about a restore that was cut off on the way; "" where there is none."""
    if not (state / RESTORING).exists():
        return ""
    return (
        f"a restore into {state} was cut off: repeat it with"
        " `selfcrag restore FROM --force`, or nothing there can be used"
    )
