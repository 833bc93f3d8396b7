"""Citations: markers in the answer, the sentences that carry them, the streaming filter."""

import re
import time
from collections.abc import AsyncIterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.text.citations import (
    citations_in,
    cited_numbers,
    renumbered,
    with_closed_code,
    with_marker,
    without_markers,
    without_unknown_markers,
)
from graphs.types import Strip

KNOWLEDGE = [
    Strip(f"p#{n}", "p", f"text {n}", f"Title {n}", "a.md", "internal", (0, n), 0.5)
    for n in range(3)
]


def cited(answer: str) -> dict[int, list[str]]:
    return {
        citation.n: [answer[start:end] for start, end in citation.spans]
        for citation in citations_in(answer, KNOWLEDGE)
    }


def test_spans_are_the_sentences_that_carry_the_marker() -> None:
    expected: dict[str, dict[int, list[str]]] = {
        "One [1]. Two [2].": {1: ["One [1]."], 2: ["Two [2]."]},
        "一[1]。二[2][3]。": {1: ["一[1]。"], 2: ["二[2][3]。"], 3: ["二[2][3]。"]},
        "One. [1] Two. [2]": {1: ["One. [1]"], 2: ["Two. [2]"]},
        "One.[1] Two.[2]": {1: ["One.[1]"], 2: ["Two.[2]"]},
        "一。[1]二。[2]": {1: ["一。[1]"], 2: ["二。[2]"]},
        "One. [1] [2]. Two": {1: ["One. [1] [2]"], 2: ["One. [1] [2]"]},
        "[1] says so.": {1: ["[1] says so."]},
        "One [1]. Two. Six [1].": {1: ["One [1].", "Six [1]."]},
        "Twice [1] here [1].": {1: ["Twice [1] here [1]."]},
        "- one [1]\n- two [2]": {1: ["- one [1]"], 2: ["- two [2]"]},
        "Run `a. b` now [1]. Done.": {1: ["Run `a. b` now [1]."]},
        "运行 `a。b` 即可[1]。好。": {1: ["运行 `a。b` 即可[1]。"]},
        "None [0] [4] [99] [1234].": {},
        "No marker.": {},
        "": {},
    }
    assert {answer: cited(answer) for answer in expected} == expected


@given(st.lists(st.sampled_from(["A b", ". ", "。", "[1]", " [2]", "[3]", "[9]", "\n", "好"])))
def test_every_span_holds_its_marker_and_every_known_marker_is_cited(pieces: list[str]) -> None:
    answer = "".join(pieces)
    found = cited(answer)

    assert set(found) == {n for n in (1, 2, 3) if f"[{n}]" in answer}
    assert all(f"[{n}]" in sentence for n, said in found.items() for sentence in said)


def test_a_citation_shows_its_strip() -> None:
    [citation] = citations_in("x [2].", KNOWLEDGE)

    assert (citation.strip_id, citation.title, citation.source) == ("p#1", "Title 1", "a.md")
    assert (citation.text, citation.score, citation.origin) == ("text 1", 0.5, "internal")


def test_the_marker_stands_before_the_end_mark() -> None:
    marked = {
        "It is so.": "It is so [1].",
        "是这样。": "是这样[1]。",
        "Is it?!": "Is it [1]?!",
        "Port 8000": "Port 8000 [1]",
        "他说“好。”": "他说“好。”[1]",
        "Run it:\n```sh\nls\n```": "Run it:\n```sh\nls\n```\n[1]",
    }
    assert {sentence: with_marker(sentence, 1) for sentence in marked} == marked
    for answer in marked.values():
        assert cited(answer) == {1: [answer]}


def test_a_sources_own_footnotes_are_removed() -> None:
    assert without_markers("Born in 1912.[3] He wrote [12] much[4].") == (
        "Born in 1912. He wrote much."
    )


async def streamed(chunks: Sequence[str], known: int) -> str:
    async def source() -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    return "".join([text async for text in without_unknown_markers(source(), known)])


PIECES = ["[", "]", "【", "】", "［", "］", ",", "，", "、", "-", "1", "3", "12", "99", " ", "\n"]
PIECES += [
    "a",
    "。",
    "[2]",
    " [7]",
    "[0]",
    "【1】",
    " [1, 9]",
    "[2-3]",
    "`",
    "``",
    "```",
    "````",
    "a[1]",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25), st.integers(0, 3))
async def test_the_filter_does_not_depend_on_how_the_text_is_cut(
    chunks: list[str], known: int
) -> None:
    whole = "".join(chunks)
    expected = await streamed([whole], known)

    assert await streamed(chunks, known) == expected
    assert await streamed(list(whole), known) == expected


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["[1]", " [2]", "[9]", " [0]", "a", " ", "。", "["]), max_size=25),
    st.integers(0, 3),
)
async def test_unknown_markers_leave_with_the_blank_before_them(
    chunks: list[str], known: int
) -> None:
    whole = "".join(chunks)
    expected = re.sub(r"\s?\[([1-9]\d{0,2})\]", lambda m: m[0] if int(m[1]) <= known else "", whole)

    assert await streamed(chunks, known) == expected
    assert await streamed(list(whole), known) == expected


FORMS = [
    ("灯塔建于1656年【1】。", "灯塔建于1656年[1]。"),
    ("灯塔【1】【2】高【9】。", "灯塔[1][2]高。"),
    ("灯塔［1］高[1，2]白[1、3]。", "灯塔[1]高[1][2]白[1][3]。"),
    ("Built [1, 2] in 1656 [1; 3].", "Built [1][2] in 1656 [1][3]."),
    ("Built [1-2] of stone [2–3].", "Built [1][2] of stone [2][3]."),
    ("Built [2, 1, 2] so [9].", "Built [2][1] so."),
    ("Take values in [10, 20] now.",) * 2,
    ("坐标是 [12, 34]。",) * 2,
    ("Ages [1-99], one of [1, 9].",) * 2,
    ("年龄【1～99】，取［3、7］。",) * 2,
    ("【重要】［注］看这里[1]。", "【重要】［注］看这里[1]。"),
    ("See [1, 2, 9]. So [1;2;3;9] and [9, 3, 1].", "See [1][2]. So [1][2][3] and [3][1]."),
    ("见[1、2、9]。参见【9，3，1】。", "见[1][2]。参见[3][1]。"),
    ("Of [1, 10], [1, 10, 20], [1, 1, 9] and [1, 2, 8-9].",) * 2,
    ("取值[1，10]、【1、10、20】与［1、2、8～9］。",) * 2,
    ("War [1999-2003], ages [18-65], [3-1], [0, 1].",) * 2,
    ("`a = [1, 2]` and ``b[9]`` [1].",) * 2,
    ("```py\na = [1, 2]\nb[9]\n```\nSo [1, 3].", "```py\na = [1, 2]\nb[9]\n```\nSo [1][3]."),
    ("````\n```\nb[9]\n````\n[9]", "````\n```\nb[9]\n````"),
    ("Left `open [9].\nIt is` so [9].", "Left `open.\nIt is` so."),
    ("一个 ` 也行【2】。", "一个 ` 也行[2]。"),
    ("```\nb[9]",) * 2,
    ("Cut [1, 2",) * 2,
    ("切断【1",) * 2,
]


async def test_markers_of_other_forms_become_those_of_ours() -> None:
    for said, told in FORMS:
        assert await streamed([said], 3) == told
        assert await streamed(list(said), 3) == told


async def test_where_there_is_nothing_to_cite_no_list_cites() -> None:
    for said in ("The list [1, 2, 3] is sorted; see `argv[1]`.", "列表 [1, 2] 与 `argv[1]` 一样。"):
        assert await streamed(list(f"{said[:-1]} [1]{said[-1]}"), 0) == said


def test_a_subscript_in_code_cites_nothing() -> None:
    expected: dict[str, dict[int, list[str]]] = {
        "It is `argv[1]` [2].": {2: ["It is `argv[1]` [2]."]},
        "它是 `argv[1]`[2]。": {2: ["它是 `argv[1]`[2]。"]},
        "`a`. `[1]` b [2].": {2: ["`[1]` b [2]."]},
        "So [2]:\n```\n[1]\nx[3]\n```\nDone [3].": {2: ["So [2]:"], 3: ["Done [3]."]},
    }
    for answer, sentences in expected.items():
        assert cited(answer) == sentences
        assert set(cited_numbers(answer)) == set(sentences)
        assert "[1]" in without_markers(answer)


def test_markers_are_numbered_anew_but_not_in_code() -> None:
    assert renumbered("`a[1]` [1]. 二[2][3]。", {1: 2, 2: 1}) == "`a[1]` [2]. 二[1][3]。"


def test_code_that_is_left_open_is_none() -> None:
    closed = {
        "`a` and `b": "`a` and b",
        "``a` b": "a b",
        "```py x `y`": "py x y",
        "```x``` 与 ``y``": "```x``` 与 ``y``",
    }
    assert {text: with_closed_code(text) for text in closed} == closed
    for text in closed.values():
        assert cited_numbers(f"{text} [1]") == [1]


async def test_backticks_that_come_one_by_one_are_read_but_once() -> None:
    started, row = time.process_time(), "`" * 40_000

    assert await streamed([*row, "\n", "b[9]", *row, "[9]"], 3) == f"{row}\nb[9]{row}"
    assert time.process_time() - started < 2


async def test_code_is_not_held_back_until_it_ends() -> None:
    seen = [text async for text in without_unknown_markers(_each("```\n", "a[9]\n", "b"), 1)]

    assert seen == ["```\n", "a[9]\n", "b"]


async def _each(*chunks: str) -> AsyncIterator[str]:
    for chunk in chunks:
        yield chunk


async def test_text_is_not_held_back_longer_than_needed() -> None:
    seen: list[str] = []

    async def source() -> AsyncIterator[str]:
        for chunk in ("It is", " so", " [1", "]", " and"):
            seen.append(f"<{chunk}>")
            yield chunk

    async for text in without_unknown_markers(source(), 1):
        seen.append(text)

    assert seen == ["<It is>", "It is", "< so>", " so", "< [1>", "<]>", " [1]", "< and>", " and"]


def test_a_subscript_of_nought_is_no_marker() -> None:
    for line in ("Use items[0] and argv[0].", "用 items[0] 取第一个。"):
        assert without_markers(line) == line
        assert cited_numbers(line) == []
