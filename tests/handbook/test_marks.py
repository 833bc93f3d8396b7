"""Every fenced block says what it is, and what it needs that a test does not have."""

import json
from io import StringIO
from itertools import groupby
from typing import Any

import jsonschema_rs
import pytest
import yaml
from dotenv import dotenv_values

from app.main import create_app
from app.settings import Settings
from tests.handbook.blocks import BLOCKS, Block, runnable

KINDS = {"sh", "python", "js", "json", "jsonl", "yaml", "env", "text"}
REASONS = {"key", "network", "docker", "gpu", "terminal", "llama-index", "llama-index-core"}
MARKS = {"sh": {"needs", "serves"}, "python": {"needs"}, "js": {"needs"}, "json": {"of"}}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_names_its_kind_and_marks(block: Block) -> None:
    assert block.kind in KINDS
    assert block.marks.keys() <= MARKS.get(block.kind, set())
    assert block.needs <= REASONS
    assert "needs" not in block.marks or block.needs


def test_both_languages_have_the_same_kinds_and_marks() -> None:
    def outline(language: str) -> list[tuple[str, str, dict[str, str]]]:
        begin = f"docs/{language}/"
        found = [block for block in BLOCKS if block.page.startswith(begin)]
        return [(block.page.removeprefix(begin), block.kind, block.marks) for block in found]

    assert outline("en") == outline("zh")


def test_most_commands_run_in_a_test() -> None:
    """Marks are the exception."""
    commands = [block for block in BLOCKS if block.kind in {"sh", "python", "js"}]
    for language, blocks in groupby(commands, key=lambda block: block.page.split("/")[1:2]):
        marked = [bool(block.needs) for block in blocks]
        assert sum(marked) * 2 < len(marked), language


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    components: dict[str, Any] = create_app(Settings(_env_file=None)).openapi()["components"]
    return components


@pytest.mark.parametrize("block", runnable("json"), ids=lambda block: block.place)
def test_json_fits_its_schema(block: Block, schemas: dict[str, Any]) -> None:
    example = json.loads(block.text)
    if "of" in block.marks:
        named = {"$ref": f"#/components/schemas/{block.marks['of']}", "components": schemas}
        jsonschema_rs.validate(named, example)


@pytest.mark.parametrize(
    "block",
    [*runnable("jsonl"), *runnable("yaml"), *runnable("env")],
    ids=lambda block: block.place,
)
def test_data_can_be_read(block: Block) -> None:
    if block.kind == "jsonl":
        assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())
    elif block.kind == "yaml":
        assert isinstance(yaml.safe_load(block.text), dict)
    else:
        values = dotenv_values(stream=StringIO(block.text))
        assert values
        assert None not in values.values()
