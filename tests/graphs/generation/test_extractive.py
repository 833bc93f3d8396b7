"""The answer without a language model."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from graphs.generation.extractive import (
    MAX_SENTENCES,
    Sentence,
    best_supported,
    candidate_sentences,
    compose,
    first_sentences,
    with_each_part,
)
from graphs.text.citations import citations_in
from graphs.types import Draft, Strip

SCORE = st.none() | st.floats(-1, 1)


def strip(text: str, number: int = 0) -> Strip:
    return Strip(f"p#{number}", "p", text, "T", "a.md", "internal", (0, number), 0.5, kept=True)


def of_graded(n: int, text: str, relevance: float) -> Sentence:
    return Sentence(n, text, relevance, relevance)


def best(
    candidates: list[Sentence], scores: list[float | None], *, keep_best: bool = False
) -> list[str]:
    return [item.text for item in best_supported(candidates, scores, -0.5, keep_best=keep_best)]


def test_questions_marks_and_fragments_are_not_quoted() -> None:
    lines = ("## How is it done?", 'ask "How is it done?"', "- The worker is started first.")
    text = "\n".join((*lines, "> It then warms up.", "| --- | --- |"))
    found = candidate_sentences([strip(text), strip("它如何工作？先检索，再评分。", 1)])

    assert [(item.n, item.text) for item in found] == [
        (1, "The worker is started first."),
        (1, "It then warms up."),
        (2, "先检索，再评分。"),
    ]


def test_fragments_serve_where_there_is_nothing_longer() -> None:
    assert [item.text for item in candidate_sentences([strip("1852.")])] == ["1852."]
    assert candidate_sentences([strip("Why?"), strip("***")]) == []


def test_what_a_sentence_introduces_is_quoted_with_it() -> None:
    text = (
        "Without locking writes:\n```\nCREATE INDEX CONCURRENTLY i ON t (a);\n```\nIt takes longer."
    )
    unit, after = [item.text for item in candidate_sentences([strip(text)])]

    assert unit.startswith("Without locking writes:\n```\nCREATE")
    assert after == "It takes longer."
    answer = "".join(compose([Sentence(1, unit), Sentence(1, after)]))
    assert answer.endswith("\n```\n[1]\nIt takes longer [1].")


def test_code_and_introductions_alone_are_not_quoted() -> None:
    code = '```\n{"upper": "It is tall. It is old."}\n```'
    assert candidate_sentences([strip(code), strip("It has these parts:", 1)]) == []
    led = replace(strip(code), lead="Set it in the file:")
    assert [item.text for item in candidate_sentences([led])] == [f"Set it in the file:\n{code}"]


def test_rows_and_items_are_quoted_one_by_one() -> None:
    table = "name | default\nmax_rows | 100 rows\nmin_rows | 7 rows"
    found = candidate_sentences([strip(f"{table}\n- the first item of all\n- 第二项在这里写着")])
    assert [item.text for item in found] == [
        "name | default\nmax_rows | 100 rows",
        "name | default\nmin_rows | 7 rows",
        "the first item of all",
        "第二项在这里写着",
    ]


def test_footnotes_of_a_source_do_not_become_citations() -> None:
    knowledge = [strip("He was born there in 1912.[3]"), strip("甲乙丙丁戊己。[1]", 1)]
    answer = "".join(compose(candidate_sentences(knowledge)))

    assert answer == "He was born there in 1912 [1]. 甲乙丙丁戊己[2]。"
    assert [citation.n for citation in citations_in(answer, knowledge)] == [1, 2]


def test_support_is_the_mean_with_the_strips_grade() -> None:
    candidates = [of_graded(1, "a", 0.9), of_graded(2, "b", -0.9)]

    assert best(candidates, [0.0, 0.9]) == ["a", "b"]
    assert best(candidates, [0.1, 0.1]) == ["a"]


def test_a_retrievers_score_is_no_support() -> None:
    candidates = [Sentence(1, "a", 5.0), of_graded(2, "b", 5.0)]

    assert best(candidates, [-0.6, None]) == []
    assert best(candidates, [-0.5, None]) == ["a"]
    assert best(candidates, [None, -0.6]) == ["b"], "a graded strip carries its sentences"


def test_below_the_floor_only_the_best_is_kept_when_asked() -> None:
    candidates = [of_graded(1, "a", -0.9), of_graded(1, "b", -0.9)]

    assert best(candidates, [-0.9, -0.8]) == []
    assert best(candidates, [-0.9, -0.8], keep_best=True) == ["b"]
    assert best(candidates, [None, None], keep_best=True) == []


def test_a_sentence_of_two_strips_is_quoted_once() -> None:
    candidates = [of_graded(1, "Same words.", 0.2), of_graded(2, "same words.", 0.6)]
    twice = [of_graded(1, "Same words.", 0.2)] * 2

    assert best(candidates, [0.5, 0.5]) == ["same words."]
    assert best(twice, [0.5, 0.5]) == ["Same words."]
    assert [item.n for item in first_sentences(candidates)] == [2]


@given(
    st.lists(st.tuples(st.integers(1, 4), SCORE, SCORE), max_size=12),
    st.floats(-1, 1),
)
def test_chosen_sentences_are_few_and_supported_the_best_strips_first(
    given_: list[tuple[int, float | None, float | None]], floor: float
) -> None:
    candidates = [Sentence(n, f"s{i}", 9.0, grade) for i, (n, grade, _) in enumerate(given_)]
    scores = [own for _, _, own in given_]
    chosen = best_supported(candidates, scores, floor, keep_best=False)

    assert len(chosen) <= MAX_SENTENCES
    assert all(item.score >= floor for item in chosen)
    best = {n: max(item.score for item in chosen if item.n == n) for n in {i.n for i in chosen}}
    assert [best[item.n] for item in chosen] == sorted((best[i.n] for i in chosen), reverse=True)
    for n in best:
        places = [int(item.text[1:]) for item in chosen if item.n == n]
        assert places == sorted(places)


def test_unscored_openings_come_from_the_best_strips_in_order() -> None:
    candidates = [
        Sentence(n, f"{n}{part}", score)
        for n, score in enumerate([0.1, 0.9, 0.5, 0.7], start=1)
        for part in "ab"
    ]

    assert [item.text for item in first_sentences(candidates)] == ["2a", "3a", "4a"]


def test_pieces_join_so_that_each_sentence_can_be_found_again() -> None:
    for texts, answer in [
        ([], ""),
        (["One.", "Two."], "One [1]. Two [2]."),
        (["一。", "二。"], "一[1]。二[2]。"),
        (["One.", "二。", "Three."], "One [1]. 二[2]。Three [3]."),
        (["Port: 8000", "It is open."], "Port: 8000 [1]\nIt is open [2]."),
        (["他说“好。”", "走了。"], "他说“好。”[1]走了[2]。"),
    ]:
        pieces = compose([Sentence(n, text) for n, text in enumerate(texts, start=1)])

        assert "".join(pieces) == answer
        knowledge = [strip(text, n) for n, text in enumerate(texts)]
        spans = [citation.spans for citation in citations_in(answer, knowledge)]
        assert [len(own) for own in spans] == [1] * len(texts)
        assert len({own[0] for own in spans}) == len(texts)


def test_code_is_quoted_whole() -> None:
    for text, answer in [
        ("The first argument is `argv[1]`.[1]", "The first argument is `argv[1]` [1]."),
        ("第一个参数是 `argv[1]`。[1]", "第一个参数是 `argv[1]` [1]。"),
        ("It runs `x is done. Then b` there.", "It runs x is done [1]. Then b there [1]."),
    ]:
        knowledge = [strip(text)]
        said = "".join(compose(candidate_sentences(knowledge)))

        assert said == answer
        assert [citation.n for citation in citations_in(said, knowledge)] == [1]


def test_each_part_has_its_sentence_or_is_named_as_missing() -> None:
    candidates = [of_graded(1, "It is tall.", 0.9), of_graded(2, "It was built in 1904.", 0.2)]
    scores = {"How tall?": (0.9, -0.9), "When built?": (-0.9, 0.3), "At what price?": (-0.8, None)}
    quoted, missing = with_each_part(candidates[:1], candidates, scores, -0.5)
    assert [item.text for item in quoted] == ["It is tall.", "It was built in 1904."]
    assert missing == ["At what price?"]
    answer = "".join(compose(quoted, missing))
    assert answer.endswith(
        "It was built in 1904 [2].\n\nNot found in the documents: At what price."
    )
    zh = "".join(compose(quoted, ["价格是多少？"], "zh"))
    assert zh.endswith("\n\n在文档中没有找到：价格是多少。")
    draft = Draft(answer, missing=tuple(missing))
    assert draft.said.endswith("[2].")


def test_where_nothing_is_quoted_no_part_is_named() -> None:
    candidates = [of_graded(1, "It is tall.", -0.9)]
    assert with_each_part([], candidates, {"How tall?": (-0.9,)}, -0.5) == ([], [])
