"""`.env.example` begins with what most set, then names every setting with its default."""

import re
from pathlib import Path

import pytest
from dotenv import dotenv_values
from pydantic_core import PydanticUndefined

from app.settings import Settings
from evaluator.settings import EvaluatorSettings, ServeSettings
from tests.variables import DEFAULTS

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / ".env.example"
ASSIGNMENT = re.compile(r"^#([A-Z_]+)=(.*)$", re.MULTILINE)
MOST_SET, ALL = EXAMPLE.read_text(encoding="utf-8").split("# Below are all settings")


@pytest.fixture(scope="module")
def example() -> dict[str, str]:
    found = ASSIGNMENT.findall(ALL)
    assert len(found) == len(dict(found)), "named once"
    return dict(found)


def test_all_is_commented_out() -> None:
    assert dotenv_values(EXAMPLE) == {}


def test_what_most_set_is_short_and_starts_uncommented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line says what it is for; all together are settings that fit together."""
    for name in DEFAULTS:
        monkeypatch.delenv(name, raising=False)
    lines = [line for line in MOST_SET.splitlines() if ASSIGNMENT.match(line)]
    assert 8 <= len(lines) <= 12
    assert all(re.search(r"\S +# \w", line) for line in lines)
    file = tmp_path / ".env"
    file.write_text("\n".join(line[1:] for line in lines), encoding="utf-8")

    assert dotenv_values(file).keys() <= DEFAULTS.keys()
    settings = Settings(_env_file=file)
    chosen = (settings.generator, settings.chat_model, settings.search, settings.port)
    assert chosen == ("chat", "openai:qwen3@http://127.0.0.1:11434/v1", "tavily", 8000)


def test_the_values_are_the_defaults(
    example: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uncommented as it stands, the file changes nothing."""
    monkeypatch.chdir(ROOT)
    for name in example:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / ".env"
    lines = [f"{name}={value}" for name, value in example.items()]
    file.write_text("\n".join(lines), encoding="utf-8")

    assert Settings(_env_file=file) == Settings(_env_file=None)
    assert ServeSettings(_env_file=file) == ServeSettings(_env_file=None)
    read = EvaluatorSettings(_env_file=file)
    read.weights = read.weights.absolute()
    assert read == EvaluatorSettings(_env_file=None)
    assert PydanticUndefined not in DEFAULTS.values()
