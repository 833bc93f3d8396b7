"""Which parts of a text are kept, given how surprising its tokens are."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.serving.self_information import (
    Token,
    Unit,
    clauses,
    fitting,
    kept,
    minus,
    shares,
    weighed,
    words,
)


def signs(text: str, *nats: float) -> list[Token]:
    """A token a sign."""
    told = nats or (1.0,) * len(text)
    return [Token(n, n + 1, value) for n, value in zip(range(len(text)), told, strict=True)]


def cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It opened, they say, in 1,852.5 m.", ["It opened,", "they say,", "in 1,852.5 m."]),
        (
            "它于1852年开业，人们说：“好！”后来关了。",
            ["它于1852年开业，", "人们说：", "“好！”", "后来关了。"],
        ),
        ("one\n\ntwo", ["one", "two"]),
        (" \n", []),
        ("", []),
    ],
)
def test_clauses_end_at_marks(text: str, expected: list[str]) -> None:
    assert cut(text, clauses(text)) == expected


def test_words_are_whole_and_ideographs_apart() -> None:
    text = "Mills 造纸 open."

    assert cut(text, words(text, signs(text))) == ["Mills", "造", "纸", "open."]
    pieces = [Token(0, 3, 1.0), Token(3, 6, 1.0), Token(6, 7, 1.0), Token(6, 8, 1.0)]
    assert cut(text, words(text, [*pieces, Token(8, 16, 1.0)])) == ["Mills", "造纸", "open."]


def test_a_unit_is_worth_the_mean_of_its_tokens() -> None:
    assert weighed([(0, 2), (3, 4)], signs("ab c", 1.0, 2.0, 9.0, 4.0)) == [
        Unit(0, 2, 1.5, 2),
        Unit(3, 4, 4.0, 1),
    ]
    assert weighed([(0, 1)], []) == [Unit(0, 1, 0.0, 0)]


def test_what_the_question_makes_likelier_tells_most() -> None:
    told = minus(signs("abc", 3.0, 3.0, 3.0), signs("abc", 3.0, 1.0, 4.0))

    assert [token.nats for token in told] == [0.0, 2.0, -1.0]


def test_the_most_telling_units_fill_the_share() -> None:
    units = [Unit(n, n + 1, nats, 2) for n, nats in enumerate([0.1, 0.9, 0.5, 0.7])]

    assert [unit.start for unit in fitting(units, 0.5)] == [1, 3]
    assert [unit.start for unit in fitting(units, 0.01)] == [1]
    assert fitting(units, 1) == units
    assert fitting(units, 0) == fitting([], 0.5) == []


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("one two three", [(0, 3), (8, 13)], "one three"),
        ("one two three", [(0, 3), (4, 7)], "one two"),
        ("一，二，三。", [(0, 2), (4, 6)], "一，三。"),
        ("a\nb", [(0, 1), (2, 3)], "a\nb"),
        ("a", [], ""),
    ],
)
def test_what_is_kept_reads_on(text: str, spans: list[tuple[int, int]], expected: str) -> None:
    assert kept(text, [Unit(start, end, 1.0, 1) for start, end in spans]) == expected


def test_the_likeliest_source_of_the_question_keeps_most() -> None:
    assert shares([3.0, 1.0, 2.0], 0.4) == pytest.approx([0.15, 0.65, 0.4])
    assert shares([2.0, 1.0], 0.9) == pytest.approx([0.65, 1.0])
    assert shares([5.0], 0.4) == [0.4]
    assert shares([2.0, 1.0], 1) == [1, 1]
    assert shares([], 0.4) == []


@given(st.text("ab，。, .\n造纸", max_size=40), st.floats(0.01, 1), st.booleans())
def test_units_are_parts_of_the_text_in_order(text: str, ratio: float, by_words: bool) -> None:
    tokens = signs(text)
    spans = words(text, tokens) if by_words else clauses(text)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    chosen = fitting(weighed(spans, tokens), ratio)
    short = kept(text, chosen)

    rest = iter(re.sub(r"\s", "", text))
    assert all(sign in rest for sign in re.sub(r"\s", "", short))
    if spans:
        assert chosen
    if ratio == 1:
        assert short == text.strip() or not by_words
