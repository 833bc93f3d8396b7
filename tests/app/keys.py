"""Keys of a service's state, made as another process makes them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncEngine

from app.settings import Settings
from app.storage.api_keys import add_key
from app.storage.database import open_engine

T = TypeVar("T")


def within(state: Path, act: Callable[[AsyncEngine], Awaitable[T]]) -> T:
    async def acted() -> T:
        async with open_engine(Settings(_env_file=None, data_dir=state)) as engine:
            return await act(engine)

    return asyncio.run(acted())


def key_of(state: Path, owner: str, name: str = "", **narrowed: Any) -> str:
    """The secret of a new key."""
    return within(state, lambda engine: add_key(engine, owner, name, **narrowed))[1]
