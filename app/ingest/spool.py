"""Spool: what was read of documents waits here to be stored, beyond some megabytes on disk."""

import pickle
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Lock

from app.ingest.files import Listed
from app.ingest.ray import Outcome

MAX_MEMORY_BYTES = 16_000_000


class Spool:
    """Outcomes by document; `close` frees them.

    The file in `folder` has no name: nobody else can open it, and it ends with the process.
    """

    def __init__(self, folder: Path) -> None:
        self._file: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(  # noqa: SIM115
            max_size=MAX_MEMORY_BYTES, dir=str(folder)
        )
        self._places: dict[Listed, int] = {}
        self._lock = Lock()

    def __contains__(self, item: Listed) -> bool:
        return item in self._places

    def keep(self, item: Listed, outcome: Outcome) -> None:
        with self._lock:
            self._places[item] = self._file.seek(0, 2)
            pickle.dump(outcome, self._file)

    def read(self, item: Listed) -> Outcome:
        with self._lock:
            self._file.seek(self._places[item])
            outcome: Outcome = pickle.load(self._file)  # what `keep` has written
            return outcome

    def close(self) -> None:
        with self._lock:
            self._file.close()
