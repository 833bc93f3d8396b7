"""`selfcrag backup` and `restore`: the state folder as a whole."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from app.cli.terminal import errors, fail
from app.errors import ServiceError
from app.extensions.backup.backup import Summary, back_up, restore
from app.retrieval.index import IndexMismatch, IngestBusy
from app.settings import StateSettings, load_settings


def make_backup(target: str) -> None:
    with _ends_at_failure():
        summary = asyncio.run(back_up(load_settings(StateSettings), target))
    _tell(summary, f"backed up to {target}")


def restore_backup(source: str, force: bool) -> None:
    with _ends_at_failure():
        settings = load_settings(StateSettings)
        summary = asyncio.run(restore(settings, source, force=force))
    _tell(summary, f"restored into {settings.data_dir}")


@contextmanager
def _ends_at_failure() -> Iterator[None]:
    """Ends the command with one line on what went wrong."""
    try:
        yield
    except (ServiceError, IndexMismatch, IngestBusy) as error:
        fail(str(error))
    except sqlite3.Error as error:
        fail(f"the database cannot be read ({error}): `selfcrag check` tells the way out")
    except OSError as error:
        fail(f"{error.filename or 'the backup'}: {error.strerror or error}")


def _tell(summary: Summary, what: str) -> None:
    database = "the database" if summary.has_database else "no database"
    errors.print(
        f"{what}: {summary.documents} documents, {summary.uploads} uploaded files, {database}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    for note in summary.notes:
        errors.print(note, style="yellow", highlight=False, markup=False, soft_wrap=True)
