"""`selfcrag keys`: add, list, revoke, ensure. A key is shown once, when it is made."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar, cast

import typer
from rich.table import Table
from sqlalchemy.ext.asyncio import AsyncEngine

from app.cli.terminal import errors, fail, show_table
from app.errors import ServiceError
from app.settings import StateSettings, load_settings_of
from app.storage.api_keys import SCOPES, Key, Scope, add_key, ensure_key, list_keys, revoke_key
from app.storage.database import open_engine

T = TypeVar("T")


def add(owner: str, name: str, scopes: list[str] | None) -> None:
    chosen = cast("list[Scope]", scopes or list(SCOPES))
    key, secret = _with_engine(lambda engine: add_key(engine, owner, name, chosen))
    errors.print(f"key {key.id} of {key.owner}; it is not shown again:", highlight=False)
    typer.echo(secret)


def list_all() -> None:
    keys = _with_engine(list_keys)
    table = Table("id", "owner", "name", "scopes", "created", "last used", "revoked", box=None)
    for key in keys:
        table.add_row(*_row(key))
    if keys:
        show_table(table)
    else:
        typer.echo("no keys")


def revoke(key_id: str) -> None:
    if not _with_engine(lambda engine: revoke_key(engine, key_id)):
        fail(f"there is no key {key_id}")
    errors.print(f"key {key_id} is revoked", highlight=False)


def ensure(owner: str) -> None:
    secret = _with_engine(lambda engine: ensure_key(engine, owner))
    if secret is not None:
        errors.print(f"the first key, of {owner}; it is not shown again:", highlight=False)
        typer.echo(secret)


def _row(key: Key) -> tuple[str, ...]:
    times = (key.created_at, key.last_used_at, key.revoked_at)
    return (key.id, key.owner, key.name, " ".join(key.scopes), *map(_shown, times))


def _shown(at: float | None) -> str:
    return "-" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}Z"


def _with_engine(act: Callable[[AsyncEngine], Awaitable[T]]) -> T:
    async def acted() -> T:
        async with open_engine(load_settings_of(StateSettings)) as engine:
            return await act(engine)

    try:
        return asyncio.run(acted())
    except ServiceError as error:
        fail(str(error))
