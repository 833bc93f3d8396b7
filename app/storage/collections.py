"""Collections of documents: each is there once it was named, or has a document."""

from contextlib import suppress

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import CollectionRefused, CollectionUnknown
from app.ingest.uploads import SharedDocument, Uploads
from app.retrieval.index import (
    STORAGE_ERRORS,
    IndexMismatch,
    StoredCollection,
)
from app.storage.api_keys import Caller
from app.storage.database import execute, metadata, now, values_of
from graphs.options import DEFAULT_COLLECTION, Scope

SAMPLE_COLLECTION = "sample"
"""The handbook that `make run` ingests: searched by default until there are own documents."""
NAMED = sa.Table(
    "collections",
    metadata,
    sa.Column("owner", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("created_at", sa.Float, nullable=False),
)
"""Those that owners have named, which may be empty."""


class CollectionStore:
    """The collections that a caller sees; those of a limited key are always there."""

    def __init__(self, engine: AsyncEngine, uploads: Uploads | None) -> None:
        self._engine, self._uploads = engine, uploads
        self._with_documents = set[str]()  # owners whose default collection was not empty once

    async def scope(self, caller: Caller, name: str | None) -> Scope:
        """What a question of the caller's is asked of. Raises as `chosen` does."""
        return Scope(caller.owner, (await self.chosen(caller, name),))

    async def chosen(self, caller: Caller, name: str | None) -> str:
        """The one to ask or list, the caller's default where none is named.

        Raises CollectionRefused, CollectionUnknown.
        """
        if name is None and await self._has_sample_alone(caller):
            return SAMPLE_COLLECTION
        chosen = self.writable(caller, name)
        if chosen == DEFAULT_COLLECTION or chosen in caller.collections:
            return chosen
        if chosen not in await self._named(caller.owner) and not await self._has(chosen, caller):
            raise CollectionUnknown(chosen, [each.name for each in await self.all(caller)])
        return chosen

    def writable(self, caller: Caller, name: str | None) -> str:
        """The one to bring documents into, which makes it. Raises CollectionRefused."""
        chosen = name or caller.default_collection
        if caller.collections and chosen not in caller.collections:
            raise CollectionRefused(caller.collections)
        return chosen

    async def all(self, caller: Caller) -> list[StoredCollection]:
        """By name, first the one that a question is asked of where it names none."""
        known = set(caller.collections or await self._named(caller.owner))
        by_name = {name: StoredCollection(name) for name in known | {caller.default_collection}}
        if self._uploads is not None:
            stored = await self._uploads.collections(caller.owner, caller.collections)
            by_name |= {collection.name: collection for collection in stored}
        first = await self.chosen(caller, None)
        return sorted(by_name.values(), key=lambda each: (each.name != first, each.name))

    async def add(self, caller: Caller, name: str) -> StoredCollection:
        """The collection, empty where it is new. Raises CollectionRefused."""
        name = self.writable(caller, name)
        if name not in await self._named(caller.owner):
            row = {"owner": caller.owner, "name": name, "created_at": now()}
            with suppress(IntegrityError):  # another request was first
                await execute(self._engine, NAMED.insert(), row)
        return next(each for each in await self.all(caller) if each.name == name)

    async def delete(self, caller: Caller, name: str) -> None:
        """With the caller's documents in it; those of others stay, and it with them.

        Raises SharedDocument where all in it is others', CollectionRefused, CollectionUnknown.
        """
        name = await self.chosen(caller, name)
        was_named = name in await self._named(caller.owner)
        if self._uploads is not None:
            try:
                await self._uploads.delete_collection(name, caller.owner)
            except SharedDocument:
                if not was_named:
                    raise
        of_owner = (NAMED.c.owner == caller.owner) & (NAMED.c.name == name)
        await execute(self._engine, NAMED.delete().where(of_owner))

    async def _has_sample_alone(self, caller: Caller) -> bool:
        """Whether the default collection is empty, and the sample is not."""
        if caller.collections or caller.owner in self._with_documents:
            return False
        if await self._has(DEFAULT_COLLECTION, caller):
            self._with_documents.add(caller.owner)
            return False
        return await self._has(SAMPLE_COLLECTION, caller)

    async def _has(self, name: str, caller: Caller) -> bool:
        """Whether the caller sees documents in it; taken for granted where none can be read."""
        if self._uploads is None:
            return False
        try:
            return await self._uploads.has(name, caller.owner)
        except (*STORAGE_ERRORS, IndexMismatch):  # whoever reads on tells it
            return True

    async def _named(self, owner: str) -> set[str]:
        query = sa.select(NAMED.c.name).where(NAMED.c.owner == owner)
        return set(await values_of(self._engine, query))
