"""Knowledge made shorter, as pure functions: order, share and what is left of each strip."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.generation.compression import (
    MIN_SUMMARY_WORDS,
    as_summary,
    best_sentences,
    by_document,
    compression_of,
    in_place_of,
    judged_sentences,
    merged,
    words_for,
)
from graphs.text.sentences import sentences
from graphs.types import Strip

ENGLISH = "One is {n}. Two is {n}. Three is {n}."
CHINESE = "第一是{n}。第二是{n}。第三是{n}。"


def strips(form: str, count: int) -> list[Strip]:
    return [
        Strip(f"p{n}#0", f"p{n}", form.format(n=n), "T", "a.md", "internal", (n, 0), 0.5, True)
        for n in range(count)
    ]


def shortened(knowledge: list[Strip], ratio: float, *worth: float | None) -> list[Strip]:
    """The n-th sentence of all is worth the n-th number."""
    texts = [text for strip in knowledge for text in judged_sentences(strip, with_title=False)]
    scores = dict(zip(texts, worth, strict=True))
    return best_sentences(knowledge, scores, ratio, with_title=False)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (ENGLISH, ["One is 0. Three is 0.", "Three is 1."]),
        (CHINESE, ["第一是0。第三是0。", "第三是1。"]),
    ],
)
def test_the_best_of_all_sentences_stay_in_document_order(form: str, expected: list[str]) -> None:
    found = shortened(strips(form, 2), 0.4, 0.7, 0.1, 0.8, 0.2, 0.3, 0.9)

    assert [strip.text for strip in found] == expected
    assert [strip.whole for strip in found] == [strip.text for strip in strips(form, 2)]


def test_a_strip_without_a_kept_sentence_disappears() -> None:
    found = shortened(strips(ENGLISH, 2), 0.5, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9)

    assert [(strip.id, strip.text, strip.whole) for strip in found] == [
        ("p1#0", strips(ENGLISH, 2)[1].text, "")
    ]


def test_a_sentence_without_a_score_is_worth_least() -> None:
    assert [s.text for s in shortened(strips(ENGLISH, 1), 0.6, None, -0.9, -0.8)] == [
        "Two is 0. Three is 0."
    ]


def test_a_share_is_counted_as_written() -> None:
    """0.1 * 30 is a little more than 3 in binary."""
    found = shortened(strips(ENGLISH, 10), 0.1, *(n / 100 for n in range(30)))

    assert sum(len(sentences(strip.text)) for strip in found) == 3


def test_the_same_sentence_is_told_apart_by_its_title() -> None:
    one, two = strips("It is long.", 2)
    two = replace(two, title="Other")
    scores = {"T // It is long.": 0.1, "Other // It is long.": 0.9}

    assert best_sentences([one, two], scores, 0.5, with_title=True) == [two]


@given(
    st.lists(st.lists(st.sampled_from(["A b.", "它长。", "C d!", "好？"]), max_size=5), max_size=5),
    st.floats(0.01, 1),
    st.randoms(),
)
def test_what_is_kept_is_a_share_in_order(
    texts: list[list[str]], ratio: float, random: object
) -> None:
    knowledge = [
        Strip(f"{n}", f"{n}", " ".join(lines), "", "a", "internal", (n, 0))
        for n, lines in enumerate(texts)
        if lines
    ]
    all_texts = {t for strip in knowledge for t in judged_sentences(strip, with_title=False)}
    scores: dict[str, float | None] = {t: random.random() for t in sorted(all_texts)}  # type: ignore[attr-defined]
    found = best_sentences(knowledge, scores, ratio, with_title=False)

    total = sum(len(sentences(strip.text)) for strip in knowledge)
    left = [sentences(strip.text) for strip in found]
    assert sum(map(len, left)) == math.ceil(round(ratio * total, 9))
    assert [strip.id for strip in found] == sorted((s.id for s in found), key=int)
    whole = {strip.id: iter(sentences(strip.text)) for strip in knowledge}
    for strip in found:
        assert all(line in whole[strip.id] for line in sentences(strip.text))  # in order
    assert best_sentences(knowledge, scores, 1, with_title=False) == knowledge


def test_a_longer_text_is_no_compression() -> None:
    (strip,) = strips("Short.", 1)

    assert in_place_of(strip, "This one is a good deal longer than that.") is strip
    assert in_place_of(strip, strip.text) is strip


def test_compressed_twice_the_citation_is_still_whole() -> None:
    (strip,) = strips(ENGLISH, 1)
    twice = in_place_of(in_place_of(strip, "One is 0. Two is 0."), "One is 0.")

    assert (twice.text, twice.whole) == ("One is 0.", strip.text)


def test_a_documents_strips_are_joined_under_the_first() -> None:
    a, b = strips(ENGLISH, 2)
    again = replace(a, id="p0#1", text="More.", score=0.9)
    (first, second) = by_document([a, b, again])

    assert merged(first) == replace(a, text=f"{a.text}\nMore.", score=0.9)
    assert second == [b]


def test_tokens_are_counted_over_all_candidates() -> None:
    before = [strips(ENGLISH, 2), strips(ENGLISH, 1)]
    told = compression_of(before, [before[0][:1], []])

    assert 0 < told.after_tokens * 3 == told.before_tokens


@pytest.mark.parametrize("reply", ["", " \n", "NONE", "None.", "“无”", "无。", "Summary: none"])
def test_nothing_to_say_is_empty(reply: str) -> None:
    assert as_summary(reply) == ""


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Summary: It opened.", "It opened."),
        ("摘要：开业。", "开业。"),
        ("None knew.", "None knew."),
    ],
)
def test_a_summary_is_what_was_said(reply: str, text: str) -> None:
    assert as_summary(reply) == text


def test_a_summary_may_have_its_sentence() -> None:
    assert words_for("word " * 200, 0.4) == 80
    assert words_for("字" * 400, 0.4) == 80
    assert words_for("word", 0.01) == MIN_SUMMARY_WORDS
