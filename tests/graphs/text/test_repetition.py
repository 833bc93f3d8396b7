"""Loops of a language model: seen while they are written, cut off where they begin."""

from pathlib import Path

import pytest

from graphs.text.repetition import LoopWatch, before_repeats, ends_in_repeat

DOCS = Path(__file__).parents[3] / "docs"
LOOPS = {
    "a phrase": "The lamp is red. " + "It is lit at dusk, and it is put out at dawn. " * 99,
    "汉字": "灯是红的。" + "黄昏点灯，黎明熄灯。\n" * 200,
    "one letter": "a" * 2000,
    "one that counts": "".join(
        f"Step {n}: open the valve, and wait until the pressure has fallen.\n" for n in range(99)
    ),
    "one that nests": "".join(f'{"  " * n}"lamp": {{\n' for n in range(80)),
}


def seen_after(text: str) -> int | None:
    """Characters until the loop is seen, in pieces of three."""
    watch = LoopWatch()
    ends = range(3, len(text) + 3, 3)
    return next((end for end in ends if watch.is_looping(text[end - 3 : end])), None)


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_is_seen_soon(text: str) -> None:
    assert 800 <= (seen_after(text) or 0) <= 3000


def test_pages_of_tables_code_and_prose_are_none() -> None:
    pages = [page.read_text("utf-8") for page in sorted(DOCS.rglob("*.md"))]
    assert len(pages) > 50
    assert [text[:80] for text in pages if seen_after(text)] == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The lamp is red. It is lit. It is lit. It is", "The lamp is red. It is lit."),
        ("灯是红的。黄昏点灯。黄昏点灯。", "灯是红的。黄昏点灯。"),
        ("```\nmake run\n```\n\n```\nmake run\n```", "```\nmake run\n```\n\n```"),
        (
            "| a | b |\n|---|---|\n|---|---|\n| 1 | 2 |",
            "| a | b |\n|---|---|\n|---|---|\n| 1 | 2 |",
        ),
    ],
)
def test_a_loop_ends_before_its_second_round(text: str, kept: str) -> None:
    assert before_repeats(text) == kept


def test_only_what_was_said_before_is_a_repeat() -> None:
    assert ends_in_repeat("The lamp is red. It is lit. The lamp is red.")
    assert not ends_in_repeat("The lamp is red. The lamp is red. It is lit.")
    assert not ends_in_repeat("Run it:\n```\nmake\n```")
    assert not ends_in_repeat("")
