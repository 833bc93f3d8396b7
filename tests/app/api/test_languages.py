"""Translated error messages: the catalogue names messages of the service, and fills them."""

import ast
import json
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from pydantic_core._pydantic_core import list_all_errors

from app.api.languages import CATALOGUES, LONGEST, translated

APP = CATALOGUES.parent
CATALOGUE: dict[str, str] = json.loads((CATALOGUES / "messages_zh.json").read_text("utf-8"))
UNITS = {"second", "minute", "hour", "day", "{} runs per {message}", "{} uploads per {message}"}
"""Parts of messages: how the library `limits` calls spans, and what is counted in them."""


def said() -> Iterator[str]:
    """Every text of the service, with {} for values, and what libraries say of wrong requests."""
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else "{}" for p in node.values]
                yield "".join(map(str, parts))
    yield from (status.phrase for status in HTTPStatus)


def test_every_message_of_the_catalogue_is_one_of_the_service() -> None:
    known = set(said())
    stems = [error["message_template_python"].split("{")[0] for error in list_all_errors()]

    def is_said(entry: str) -> bool:
        message = entry.replace("{message}", "{}")
        whole = message[:1].lower() + message[1:].removesuffix(".")
        return (
            not {message, whole, message.removeprefix("{}")}.isdisjoint(known)
            or f"{message.removesuffix(' Quote run {} when reporting it.')}{{}}" in known
            or any(stem.strip() and message.startswith(stem) for stem in stems)
        )

    assert [m for m in CATALOGUE if m not in UNITS and not is_said(m)] == []


def test_every_translation_has_the_values_of_its_message() -> None:
    for entry, chinese in CATALOGUE.items():
        english = entry.replace("{message}", "{}")
        values = [f"<{n}>" for n in range(english.count("{}"))]
        message = english.replace("{}", "%s") % tuple(values)

        assert sorted(values) == [v for v in values if v in translated(message, "zh")], english
        if "{message}" not in entry:
            assert translated(message, "zh") == chinese.format(*values), english
        assert translated(message, "en") == message
        assert any("\u4e00" <= c <= "\u9fff" for c in chinese), english


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (
            "The quota of 60 runs per minute is used up; try again in 12 s.",
            "配额（每分钟 60 次运行）已用完；请 12 秒后再试。",
        ),
        ("There is no document a\nb {}.", "没有文档 a\nb {}。"),
        ("There is no document empty.", "没有文档 empty。"),
        ("Nobody wrote this.", "Nobody wrote this."),
        ("There is no document " + LONGEST * "a", "There is no document " + LONGEST * "a"),
    ],
)
def test_messages_are_translated_with_their_values(english: str, chinese: str) -> None:
    assert translated(english, "zh") == chinese
