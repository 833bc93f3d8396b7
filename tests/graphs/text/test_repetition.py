"""Loops of a language model: seen while they are written, cut off where they begin."""

from pathlib import Path

import pytest

from graphs.text.repetition import LoopWatch, before_repeats

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
        ("A.\nStep 1: wait.\nStep 2: wait.\nStep 3: wa", "A.\nStep 1: wait."),
        ('{\n "a": {\n  "a": {\n   "a": {', '{\n "a": {'),
        ("Yes. It is lit. Yes. It is red.", "Yes. It is lit. Yes. It is red."),
        ("```\nmake\n```\n```\nrun\n```", "```\nmake\n```\n```\nrun\n```"),
        ("| a |\n|---|\n|---|", "| a |\n|---|\n|---|"),
        ("", ""),
    ],
)
def test_of_a_loop_one_round_stays(text: str, kept: str) -> None:
    assert before_repeats(text) == kept


def test_what_is_said_twice_is_no_loop_of_three() -> None:
    steps = "Step 1: wait. Step 2: wait. Step 3: wait."
    assert before_repeats(steps, rounds=3, may_count=False) == steps
    code = "```\ntry:\n    return load()\nexcept OSError:\n    return None\n```\n"
    assert before_repeats(code * 2, rounds=3) == code * 2
    assert before_repeats(code * 3, rounds=3) == code.strip()
