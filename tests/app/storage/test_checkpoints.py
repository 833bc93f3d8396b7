"""Checkpoints of a database that somebody else can write: what they name is not executed."""

import asyncio
import json
import pickle
import zlib
from pathlib import Path

import ormsgpack
import pytest
import sqlalchemy as sa

from app.storage.checkpoints import open_checkpoints
from graphs.types import Usage

CALLS = (0, 1, 2, 3, 4, 6)
"""Extensions of msgpack by which LangGraph's serialiser names something to be called."""


def attacks(file: Path) -> dict[str, tuple[str, bytes]]:
    """Values as a database holds them, each of which would make the file."""
    command = f"touch {file}"

    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            import os  # noqa: PLC0415

            return os.system, (command,)

    arguments = {1: [command], 2: {"command": command}, 3: command, 4: command, 6: command}
    packed = {
        f"msgpack-{code}": ormsgpack.packb(
            ormsgpack.Ext(code, ormsgpack.packb(["os", "system", arguments.get(code, command)]))
        )
        for code in CALLS
    }
    constructed = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": [command]}
    found = {name: ("msgpack", value) for name, value in packed.items()}
    found["json"] = ("json", json.dumps(constructed).encode())
    found["pickle"] = ("pickle", pickle.dumps(Malicious()))
    zipped = {
        f"{name}+zlib": (f"{kind}+zlib", zlib.compress(value))
        for name, (kind, value) in found.items()
    }
    return found | zipped


@pytest.mark.parametrize("name", sorted(attacks(Path("x"))))
async def test_what_a_checkpoint_names_is_not_called(tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    url = sa.make_url(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")
    async with open_checkpoints(url) as saver:
        try:
            value = saver.serde.loads_typed(attacks(made)[name])
        except Exception as error:  # noqa: BLE001 - refused in the library's own words
            value = error
        await asyncio.sleep(0)

    assert not made.exists()
    assert value != 0, "the exit status of a command"


async def test_values_of_ours_are_read_as_they_were(tmp_path: Path) -> None:
    async with open_checkpoints(sa.make_url(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")) as saver:
        kept = saver.serde.dumps_typed(Usage(llm_calls=3))
        assert saver.serde.loads_typed(kept) == Usage(llm_calls=3)
