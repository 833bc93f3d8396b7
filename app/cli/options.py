"""Options that several commands take."""

from typing import Annotated

import typer


def _checked(collection: str | None) -> str | None:
    from app.cli.terminal import checked_collection

    return collection and checked_collection(collection)


Collection = Annotated[
    str | None,
    typer.Option(help="Collection of documents; left out: default.", callback=_checked),
]
