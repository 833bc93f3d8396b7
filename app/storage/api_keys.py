"""API keys: owners' keys stored as hashes, and the key ring that checks them while serving.

A key is 256 random bits, so a plain SHA-256 of it is safe to keep and quick to look up.
"""

import asyncio
import hashlib
import json
import logging
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Column, Float, ForeignKey, String, Table, Text, bindparam, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.errors import (
    AddressRefused,
    KeyRefused,
    KeyRequired,
    KeysUnreadable,
    ServiceError,
)
from app.observability.audit import audit
from app.schemas.ask import COLLECTION_RULE, CollectionName
from app.storage.database import metadata, now, rows_of
from app.storage.signed_addresses import AddressSigner, SignedQuery
from graphs.options import DEFAULT_COLLECTION

log = logging.getLogger(__name__)

Scope = Literal["ask", "documents", "metrics"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "scrag_"
FRESH_S = 1.0
"""Longest time a revoked key still works in a process that serves."""
NOTED_EVERY_S = 60.0
# Owners become filters of the index: no quotes, no blanks.
_OWNER = re.compile(r"[\w.@+-]{1,64}")
_COLLECTIONS = TypeAdapter(list[CollectionName])

KEYS = Table(
    "keys",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("owner", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("last_used_at", Float),
    Column("revoked_at", Float),
)

KEY_COLLECTIONS = Table(
    "key_collections",
    metadata,
    Column("key_id", String(16), ForeignKey("keys.id", ondelete="CASCADE"), primary_key=True),
    Column("collections", Text, nullable=False),
)
"""Keys that are limited to collections; the table of keys is older than they are."""
_LISTED = select(KEYS, KEY_COLLECTIONS.c.collections).outerjoin(KEY_COLLECTIONS)


class InvalidKey(ServiceError):
    """What a key was to be made of is not allowed."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; without keys everyone is the one owner "", who may do everything.

    `collections` are those the caller is limited to, the default one first; () is no limit.
    `signer` signs addresses for clients that load them without a key.
    """

    owner: str = ""
    scopes: frozenset[str] = frozenset(SCOPES)
    collections: tuple[str, ...] = ()
    signer: AddressSigner | None = field(default=None, repr=False, compare=False)

    @property
    def default_collection(self) -> str:
        return (*self.collections, DEFAULT_COLLECTION)[0]


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is listed; times are Unix seconds, the key itself is not known any more."""

    id: str
    owner: str
    name: str
    scopes: tuple[str, ...]
    created_at: float
    last_used_at: float | None
    revoked_at: float | None
    collections: tuple[str, ...] = ()


async def add_key(
    engine: AsyncEngine,
    owner: str,
    name: str = "",
    scopes: Collection[Scope] = SCOPES,
    collections: Sequence[str] = (),
) -> tuple[Key, str]:
    """The new key and its secret, returned only here. Raises InvalidKey."""
    async with engine.begin() as connection:
        key, secret = await _add(connection, owner, name, scopes, collections)
    audit("key added", key.owner, [key.id])
    return key, secret


async def ensure_key(engine: AsyncEngine, owner: str) -> str | None:
    """The secret of a first key, or None where there is a key already, revoked or not."""
    async with engine.begin() as connection:
        if (await connection.execute(select(KEYS.c.id).limit(1))).first() is not None:
            return None
        key, secret = await _add(connection, owner, "first key", SCOPES)
    audit("key added", key.owner, [key.id])
    return secret


async def _add(
    connection: AsyncConnection,
    owner: str,
    name: str,
    scopes: Collection[Scope],
    collections: Sequence[str] = (),
) -> tuple[Key, str]:
    if not _OWNER.fullmatch(owner):
        raise InvalidKey("an owner has 1 to 64 letters, digits or . _ @ + - and no blanks")
    if unknown := set(scopes) - set(SCOPES):
        raise InvalidKey(f"unknown scope {min(unknown)!r}; there are: {', '.join(SCOPES)}")
    try:
        limits = list(dict.fromkeys(_COLLECTIONS.validate_python(collections)))
    except ValidationError:
        raise InvalidKey(f"a collection's name has {COLLECTION_RULE}") from None
    secret = PREFIX + secrets.token_urlsafe(32)
    granted = [scope for scope in SCOPES if scope in scopes]
    row = {
        "id": secrets.token_hex(4),
        "owner": owner,
        "name": name[:200],
        "created_at": now(),
        "last_used_at": None,
        "revoked_at": None,
    }
    stored = {**row, "digest": _digest(secret), "scopes": json.dumps(granted)}
    await connection.execute(KEYS.insert().values(stored))
    if limits:
        limited = {"key_id": row["id"], "collections": json.dumps(limits)}
        await connection.execute(KEY_COLLECTIONS.insert().values(limited))
    return _key({**stored, "collections": json.dumps(limits)}), secret


async def list_keys(engine: AsyncEngine) -> list[Key]:
    """All keys, oldest first."""
    listed = _LISTED.order_by(KEYS.c.created_at, KEYS.c.id)
    return [_key(row) for row in await rows_of(engine, listed)]


async def revoke_key(engine: AsyncEngine, key_id: str) -> bool:
    """Ends a key for good; False where there is none of that id."""
    async with engine.begin() as connection:
        changed = await connection.execute(
            KEYS.update()
            .where(KEYS.c.id == key_id, KEYS.c.revoked_at.is_(None))
            .values(revoked_at=now())
        )
        result = await connection.execute(select(KEYS.c.owner).where(KEYS.c.id == key_id))
        owner = result.scalar_one_or_none()
    if changed.rowcount and owner is not None:
        audit("key revoked", owner, [key_id])
    return owner is not None


class KeyRing:
    """The keys of a running service, read again when older than `fresh_s`.

    Held whole, so that guessing costs the database nothing.
    """

    def __init__(self, engine: AsyncEngine, fresh_s: float = FRESH_S) -> None:
        self._engine, self._fresh_s = engine, fresh_s
        self._by_digest: dict[str, Key] = {}
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()
        self._used: dict[str, float] = {}
        self._noted_at_s = asyncio.get_running_loop().time()
        self._noting: asyncio.Task[None] | None = None

    async def are_kept(self) -> bool:
        """Whether requests need a key: always, once a first key was made. Raises KeysUnreadable."""
        return bool(await self._keys())

    async def holder(self, secret: str) -> Caller:
        """Whose key it is. Raises KeyRequired, KeyRefused or KeysUnreadable."""
        keys = await self._keys()
        if not secret:
            raise KeyRequired
        digest = _digest(secret)
        key = keys.get(digest)
        if key is None or key.revoked_at is not None:
            raise KeyRefused
        self._used[key.id] = now()
        return _caller(key, AddressSigner(key.id, digest))

    async def signer_of(self, path: str, signed: SignedQuery) -> Caller:
        """Whose key signed the address. Raises AddressRefused or KeysUnreadable."""
        for digest, key in (await self._keys()).items():
            if key.id == signed.key_id and key.revoked_at is None:
                signer = AddressSigner(key.id, digest)
                if signed.expires_at >= now() and signer.has_signed(path, signed):
                    return _caller(key, signer)
        raise AddressRefused

    async def aclose(self) -> None:
        """Writes down which keys were used."""
        if self._noting is not None:
            await self._noting
        await self._note()

    async def _keys(self) -> Mapping[str, Key]:
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() - self._read_at_s >= self._fresh_s:
                self._by_digest = await self._read()
                self._read_at_s = loop.time()
        if self._used and loop.time() - self._noted_at_s >= NOTED_EVERY_S:
            self._noted_at_s = loop.time()
            self._noting = asyncio.create_task(self._note())
        return self._by_digest

    async def _read(self) -> dict[str, Key]:
        try:
            rows = await rows_of(self._engine, _LISTED)
        except (SQLAlchemyError, OSError) as error:
            log.exception("the keys cannot be read")
            raise KeysUnreadable from error
        return {row["digest"]: _key(row) for row in rows}

    async def _note(self) -> None:
        """Last uses, a minute late at most: requests do not wait for the database to write."""
        used, self._used = self._used, {}
        if not used:
            return
        noted = KEYS.update().where(KEYS.c.id == bindparam("key")).values(
            last_used_at=bindparam("at")
        )  # fmt: skip
        try:
            async with self._engine.begin() as connection:
                rows = [{"key": key, "at": at} for key, at in used.items()]
                await connection.execute(noted, rows)
        except (SQLAlchemyError, OSError):
            log.warning("the last uses of %d keys could not be written", len(used), exc_info=True)


def _caller(key: Key, signer: AddressSigner) -> Caller:
    return Caller(key.owner, frozenset(key.scopes), key.collections, signer)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _key(row: Mapping[Any, Any]) -> Key:
    named = {field: row[field] for field in Key.__slots__}
    named["scopes"] = tuple(json.loads(row["scopes"]))
    named["collections"] = tuple(json.loads(row["collections"] or "[]"))
    return Key(**named)
