"""Text and Markdown: what is read takes time in proportion to its size, hostile or not."""

import time
from collections.abc import Callable

import pytest

from app.ingest.loaders.markup import markdown_blocks, text_blocks


def cpu_s(read: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    read(text)
    return time.process_time() - began


@pytest.mark.parametrize(
    "line", ["word " * 16, "水泵在三月检修过一次而且还会再检修一次因为它很旧了没有人管它"]
)
def test_a_long_wrapped_paragraph_takes_time_in_proportion(line: str) -> None:
    text = f"{line}\n" * (100_000 // len(line))
    few, many = cpu_s(text_blocks, text), cpu_s(text_blocks, 8 * text)
    assert many < 24 * few
    (block,) = text_blocks(text)
    assert "\n" not in block.text


def test_lines_before_a_wrapped_one_stay_lines() -> None:
    wrapped = "The lamp of Quorra is lit at nine each evening\nand put out again at dawn."
    (block,) = text_blocks(f"Lamp\n- a first item\n{wrapped}")
    assert block.text == f"Lamp\n- a first item\n{wrapped.replace(chr(10), ' ')}"


@pytest.mark.parametrize("open_ended", ["[", "![", "[[]", "[x "])
def test_brackets_that_never_close_cost_no_more_than_those_that_do(open_ended: str) -> None:
    size = 40_000
    closed = cpu_s(markdown_blocks, "[]" * (size // 2))
    assert cpu_s(markdown_blocks, (open_ended * size)[:size]) < 3 * closed


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("see [a `]` b](u), ![c](v) and [r]", "see a ] b, c and r"),
        ("[open [a](u) and [b] c] (d)", "[open a and [b] c] (d)"),
        ("[![badge](i.png)](u) [a [b] c](u \"t\")", "badge a [b] c"),
        ("[" * 30 + "deep" + "](u)" * 30, None),
    ],
)  # fmt: skip
def test_links_are_read_by_their_words(text: str, read: str | None) -> None:
    _, blocks = markdown_blocks(f"Told: {text}\n\n[r]: http://x.example\n")
    told = next(block.text for block in blocks if block.picture is None)
    assert told == f"Told: {read}" if read else "deep" in told
