"""Strips are made, selected and joined (CRAG 4.4; golden checks of refinement)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evaluator.schema import ANSWER_MARK
from graphs.grading.relevance import Relevance
from graphs.grading.strips import join, paragraphs_of, select, strips_of, with_relevance
from graphs.nodes.candidates import knowledge_apart
from graphs.nodes.web import MAX_PARAGRAPHS, openings
from graphs.ports import with_answer
from graphs.text.sentences import token_count
from graphs.types import Origin, Strip, Usage, WebPage
from tests.fakes import passage


def strips(*scores: float, origin: Origin = "internal", kept: bool = False) -> list[Strip]:
    return [
        Strip(
            f"{origin}#{n}", "p", f"{origin} text {n}", "T", "a.md", origin, (0, n),
            relevance=score, kept=kept,
        )
        for n, score in enumerate(scores)
    ]  # fmt: skip


def kept(chosen: list[Strip]) -> list[int]:
    return [strip.position[1] for strip in chosen if strip.kept]


def test_the_floor_itself_is_kept() -> None:
    assert kept(select(strips(-0.5, -0.5001, -0.4999), -0.5, 5)) == [0, 2]


def test_the_best_survives_the_floor_only_when_asked() -> None:
    low = strips(-0.9, -0.6, -0.7)

    assert kept(select(low, -0.5, 5)) == []
    assert kept(select(low, -0.5, 5, keep_best=True)) == [1]
    assert select([], -0.5, 5, keep_best=True) == []


def test_of_equal_texts_the_best_is_kept_and_takes_one_place() -> None:
    first, second, third = strips(0.2, 0.9, 0.1)
    twin = replace(second, text=" INTERNAL  text 0")

    assert kept(select([first, twin, third], -0.5, 2)) == [1, 2]


@given(st.lists(st.floats(-1, 1), max_size=30), st.floats(-1, 1), st.integers(1, 8), st.randoms())
def test_selection(scores: list[float], floor: float, most: int, random: object) -> None:
    given_ = strips(*scores)
    shuffled = given_.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen = select(shuffled, floor, most)

    assert [strip.id for strip in chosen] == [strip.id for strip in given_]
    best = [strip for strip in chosen if strip.kept]
    assert len(best) <= most
    assert all(strip.score >= floor for strip in best)
    dropped = [strip.score for strip in chosen if not strip.kept and strip.score >= floor]
    assert not dropped or (len(best) == most and max(dropped) <= min(s.score for s in best))


def test_strips_know_their_place_and_origin() -> None:
    made = strips_of([passage("One. Two. Three.", 7), passage("四。", 8)], "passage")

    assert [(strip.id, strip.document_id, strip.position) for strip in made] == [
        ("p7#0", "p7", (0, 0)),
        ("p8#0", "p8", (1, 0)),
    ]
    assert not any(strip.kept for strip in made)


def test_paragraphs_are_strips_with_their_address() -> None:
    pages = [WebPage("u", "T", 0.9, ("a", "b")), WebPage("v", "S", 0.1, ("c",))]

    assert [
        (strip.source, strip.text, strip.position, strip.origin) for strip in paragraphs_of(pages)
    ] == [
        ("u", "a", (0, 0), "web"),
        ("u", "b", (0, 1), "web"),
        ("v", "c", (1, 0), "web"),
    ]


def test_a_long_page_does_not_crowd_out_the_others() -> None:
    pages = [
        WebPage(f"u{n}", "T", 0.5, tuple(f"{n}-{place}" for place in range(count)))
        for n, count in enumerate([1000, 10, 1000])
    ]
    first = openings(paragraphs_of(pages))

    assert len(first) == MAX_PARAGRAPHS
    assert [sum(strip.source == f"u{n}" for strip in first) for n in range(3)] == [95, 10, 95]
    assert [strip.position for strip in first] == sorted(strip.position for strip in first)


def test_unscored_strips_are_left_out() -> None:
    graded = Relevance(((0.3, None, 0.1),), Usage(), ((0.2, None, None),))

    kept = with_relevance(strips(0, 0, 0), graded)

    assert [(strip.score, strip.similarity) for strip in kept] == [(0.3, 0.2), (0.1, None)]


def test_internal_comes_before_external_without_repeats() -> None:
    internal = strips(0.1, 0.2, kept=True)
    external = strips(0.9, 0.8, origin="web", kept=True)
    external[1] = replace(external[1], text="Internal TEXT  0")

    assert [strip.id for strip in join(internal, external, 1000)] == [
        "internal#0",
        "internal#1",
        "web#0",
    ]


def test_of_strips_that_say_the_same_the_better_one_is_joined() -> None:
    long, short = strips(0.1, 0.9, kept=True)
    long = replace(long, text=f"{short.text} and much more")
    assert join([long, short], [], 1000) == [long, short], "the longer one adds words"
    same = replace(long, text=f"{short.text}.")
    assert join([same, short], [], 1000) == [short]


def test_dropped_strips_are_not_joined() -> None:
    assert join(strips(0.9), strips(0.9, origin="web"), 1000) == []


def test_the_budget_goes_to_the_best_and_order_stays() -> None:
    internal = strips(0.1, 0.9, 0.5, kept=True)
    budget = 2 * token_count(internal[0].text)

    assert [strip.id for strip in join(internal, [], budget)] == ["internal#1", "internal#2"]


def test_a_first_strip_over_the_budget_is_cut_to_it() -> None:
    for text in ["word " * 500, "字" * 1000]:
        long = replace(strips(0.9, kept=True)[0], text=text)
        [cut] = join([long], strips(0.1, origin="web", kept=True), 50)

        assert text.startswith(cut.text)
        assert 45 <= token_count(cut.text) <= 50


def test_a_cut_strip_ends_with_a_sentence() -> None:
    long = replace(
        strips(0.9, kept=True)[0], text="Ten words are in this one sentence, so say we. " * 20
    )
    [cut] = join([long], [], 50)

    assert cut.text.endswith("so say we.")
    assert 30 <= token_count(cut.text) <= 50


@given(st.lists(st.floats(-1, 1), max_size=12), st.integers(50, 60))
def test_knowledge_fits_its_budget(scores: list[float], budget: int) -> None:
    chosen = join(strips(*scores, kept=True), [], budget)

    assert sum(token_count(strip.text) for strip in chosen) <= budget
    assert bool(chosen) == bool(scores)


def test_a_page_s_paragraphs_stay_in_its_order() -> None:
    """The best page comes first; within it nothing is shuffled by score."""
    found = [
        Strip(
            f"{page}{n}", page, f"{page}, paragraph {n}.", "", page, "web", (rank, n),
            relevance=score, kept=True,
        )
        for rank, page in enumerate(["a", "b"])
        for n, score in enumerate([0.1, 0.5 + rank, 0.3])
    ]  # fmt: skip
    apart = knowledge_apart(found, 5, 1000)
    assert [[strip.id for strip in page] for page in apart] == [
        ["b0", "b1", "b2"],
        ["a0", "a1", "a2"],
    ]


def test_a_question_about_the_mark_keeps_its_answer_apart() -> None:
    asked = with_answer("What does [SEP] separate? [SEP]", "It separates texts.")
    assert asked.partition(ANSWER_MARK)[2] == "It separates texts."
    assert asked.count(ANSWER_MARK) == 1
