"""`selfcrag keys`: add, list, revoke, ensure. A key is shown once, when it is made."""

from datetime import UTC, datetime
from typing import cast

import typer
from rich.table import Table

from app.cli.terminal import errors, fail, show_table, with_engine
from app.storage.api_keys import SCOPES, Scope, add_key, ensure_key, list_keys, revoke_key


def add(owner: str, name: str, scopes: list[str] | None, collections: list[str] | None) -> None:
    chosen = cast("list[Scope]", scopes or list(SCOPES))
    key, secret = with_engine(
        lambda engine: add_key(engine, owner, name, chosen, collections or ())
    )
    errors.print(f"key {key.id} of {key.owner}; it is not shown again:", highlight=False)
    typer.echo(secret)


def list_all() -> None:
    keys = with_engine(list_keys)
    head = ("id", "owner", "name", "scopes", "collections", "created", "last used", "revoked")
    table = Table(*head, box=None)
    for key in keys:
        times = (key.created_at, key.last_used_at, key.revoked_at)
        limits = (" ".join(key.scopes), " ".join(key.collections) or "all")
        table.add_row(key.id, key.owner, key.name, *limits, *map(_shown, times))
    if keys:
        show_table(table)
    else:
        typer.echo("no keys")


def revoke(key_id: str) -> None:
    if not with_engine(lambda engine: revoke_key(engine, key_id)):
        fail(f"there is no key {key_id}")
    errors.print(f"key {key_id} is revoked", highlight=False)


def ensure(owner: str) -> None:
    secret = with_engine(lambda engine: ensure_key(engine, owner))
    if secret is not None:
        errors.print(f"the first key, of {owner}; it is not shown again:", highlight=False)
        typer.echo(secret)


def _shown(at: float | None) -> str:
    return "-" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}Z"
