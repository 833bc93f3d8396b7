"""Paths of documents' files: kept relative where a file lies in the state folder, else absolute.

So a state folder that was moved, copied or restored elsewhere still knows its uploads.
"""

import os
from pathlib import Path

UPLOADS = "uploads"
SHARED_FOLDER = "shared"


def owner_folder(owner: str) -> str:
    """The folder of an owner's uploads, below that of all uploads."""
    return f"@{owner}" if owner else SHARED_FOLDER


class DocumentPaths:
    """Between the paths that an index in a state folder, links resolved, keeps and those here."""

    def __init__(self, state: Path) -> None:
        self._state = str(state)

    def stored(self, path: str) -> str:
        """The stored form of an absolute path; "" of a page, which has none."""
        inside = path.startswith(os.path.join(self._state, ""))
        return os.path.relpath(path, self._state) if inside else path

    def here(self, stored: str, owner: str) -> str:
        """The absolute path of a stored one."""
        if not stored or not os.path.isabs(stored):
            return os.path.join(self._state, stored) if stored else ""
        if stored.startswith(os.path.join(self._state, "")):
            return stored
        return self._moved(stored, owner) or stored

    def _moved(self, path: str, owner: str) -> str:
        """Where an upload lies now whose path was kept absolute in a state folder elsewhere.

        Earlier versions kept them so. Nothing but uploads has an owner; a shared one is told
        from any other file by its lying here, and no longer there unless in a state folder.
        """
        old_state, *tail = path.rsplit(os.sep, 3)
        if tail[:2] != [UPLOADS, owner_folder(owner)] or len(tail) != 3:
            return ""
        moved = os.path.join(self._state, *tail)
        left = os.path.exists(path) and not os.path.isdir(os.path.join(old_state, "index"))
        return moved if owner or (os.path.exists(moved) and not left) else ""
