"""The answer without a language model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.generation.answer import NO_LISTENER, generate_answer
from graphs.generation.extractive import (
    MAX_PIECE_WORDS,
    MAX_STRIPS,
    Quotable,
    Sentence,
    best_pieces,
    candidate_sentences,
    compose,
    first_sentences,
    pieces_of,
    quoted_sentences,
    with_each_part,
)
from graphs.generation.prompts import DraftRequest
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer
from graphs.text.citations import citations_in
from graphs.text.questions import unnamed_in
from graphs.types import Draft, Strip
from tests.fakes import FakeEvaluator, services

SCORE = st.none() | st.floats(-1, 1)


def strip(text: str, number: int = 0) -> Strip:
    return Strip(f"p#{number}", "p", text, "T", "a.md", "internal", (0, number), 0.5, kept=True)


def graded(text: str, grade: float | None, n: int = 1) -> Quotable:
    return Quotable(n, replace(strip(text, n), relevance=grade), grade)


async def quoted(*knowledge: Strip, evaluator: FakeEvaluator) -> tuple[str, int]:
    """The answer, and how many pairs it took."""
    request = DraftRequest("How tall?", [], knowledge, floor=0.0, language="en")
    found = await generate_answer(request, services(evaluator=evaluator), NO_LISTENER)
    return found.answer, found.usage.scored_pairs


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


def test_a_source_that_grades_itself_is_quoted_without_its_tokens() -> None:
    """In code they are shown as they are; the quotation stands in its source all the same."""
    knowledge = [
        strip("[Fully supported][Utility:5] The tower is 87 metres tall."),
        strip("标记 `[Relevant]` 表示段落相关。", 1),
    ]
    answer = "".join(compose(candidate_sentences(knowledge)))
    assert answer == (
        "(Fully supported)(Utility:5) The tower is 87 metres tall [1]. "
        "标记 `[Relevant]` 表示段落相关[2]。"
    )
    state = Answer(answer=answer, citations=citations_in(answer, knowledge))
    assert [sentence.label for sentence in verdict_of(state).sentences] == ["supported"] * 2


async def test_graded_strips_are_quoted_whole_the_best_first_without_grading_anew() -> None:
    knowledge = [
        replace(strip("It stands there. Nobody knows since when.", 0), relevance=0.8),
        replace(strip("The tower is tall. It has 87 metres.", 1), relevance=0.9),
    ]
    answer, pairs = await quoted(*knowledge, evaluator=FakeEvaluator())

    assert answer.startswith("The tower is tall [2]. It has 87 metres [2]. It stands there [1].")
    assert pairs == 0


async def test_passages_that_nothing_graded_are_quoted_by_their_strips() -> None:
    tall, items = (
        "The tower is 87 metres tall. It was built so.",
        "- a market hall\n- a fish market",
    )
    evaluator = FakeEvaluator(known={tall: 0.9, items: -0.9})
    answer, pairs = await quoted(strip(f"{tall}\n{items}"), evaluator=evaluator)

    assert answer == "The tower is 87 metres tall [1]. It was built so [1]."
    assert pairs == 2


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Yes. It is 87 metres tall.", "Yes [1]. It is 87 metres tall [1]."),
        ("是的。塔高八十七米。", "是的[1]。塔高八十七米[1]。"),
        ("Tower\n\nIt is 87 metres tall. No.", "It is 87 metres tall [1]."),
    ],
)
def test_a_short_sentence_that_opens_a_text_is_quoted_with_it(text: str, answer: str) -> None:
    assert "".join(compose(candidate_sentences([strip(text)]))) == answer


async def test_nothing_below_the_floor_is_quoted() -> None:
    knowledge = [
        replace(strip(f"It is said on page {n}.", n), relevance=-0.1 * n) for n in (2, 1, 3)
    ]
    assert (await quoted(*knowledge, evaluator=FakeEvaluator()))[0] == ""


@pytest.mark.parametrize(
    ("question", "answered"),
    [
        ("What is the default of max_rows?", True),
        ("What is the default of max_columns?", False),
        ("What is the default in version 15.2?", True),
        ("What is the default in version 5.2?", False),
        ("列表的选项 --all 默认是什么？", False),
        ("Which is the U.S. default, e.g. by law?", True),
    ],
)
async def test_what_the_knowledge_does_not_name_is_not_answered(
    question: str, answered: bool
) -> None:
    text = "The default of max_rows is 100 since version 15.2."
    knowledge = [replace(strip(text), relevance=0.9)]
    request = DraftRequest(question, [], knowledge, floor=0.0, language="en")
    found = await generate_answer(request, services(), NO_LISTENER)

    assert bool(found.answer) == answered


async def test_a_part_that_names_what_the_knowledge_does_not_is_open() -> None:
    knowledge = [replace(strip("The default of max_rows is 100."), relevance=0.9)]
    parts = ("What is the default of max_rows?", "What is that of max_columns?")
    request = DraftRequest(
        " ".join(parts), [], knowledge, floor=-1.0, language="en", subquestions=parts
    )
    found = await generate_answer(request, services(), NO_LISTENER)

    assert "max_rows is 100 [1]" in found.answer
    assert found.missing == (parts[1],)


async def test_of_a_follow_up_the_names_of_its_own_words_count() -> None:
    knowledge = [replace(strip("The default of core.autocrlf is false."), relevance=0.9)]
    asked = "What about core.autocrlf?"
    request = DraftRequest(
        f"{asked} (What does core.fileMode do)", [], knowledge, floor=0.0, language="en",
        original_question=asked,
    )  # fmt: skip
    found = await generate_answer(request, services(), NO_LISTENER)
    assert "is false" in found.answer
    other = replace(request, original_question="And its default?")
    assert (await generate_answer(other, services(), NO_LISTENER)).answer == ""


@pytest.mark.parametrize(
    ("evidence", "question"),
    [
        ("v2.4 is out", "What is in 2.4?"),
        ("doc/python3.11/html", "What is new in Python 3.11?"),
        ("Python 3.11", "What is new in Python3.11?"),
        ("foo.bar_baz() returns", "What does bar_baz return?"),
        ("The option –all with max\\_rows", "What does --all do to max_rows?"),
        ("A file", "Are 2.5 GB enough for 30.5% of it, e.g. in the U.S., this -or- that?"),
    ],
)
def test_names_are_found_in_the_forms_they_are_written_in(evidence: str, question: str) -> None:
    assert unnamed_in(evidence, question) == []
    assert unnamed_in("--all-progress of 2.40 and 3.1", f"{question} --all? 2.4? 3.11?")


async def test_a_strip_that_answers_only_an_unnamed_part_is_not_quoted() -> None:
    tall = replace(strip("The tower of Umbra is tall.", 0), relevance=0.2)
    flag = replace(strip("The flag flies over the tower.", 1), relevance=0.9)
    parts = ("How tall is the tower of Umbra?", "What does --flag of the tower do?")
    request = DraftRequest(
        " ".join(parts), [], [tall, flag], floor=0.0, language="en", subquestions=parts
    )
    known = {tall.text: 0.8, flag.text: -0.8}
    evaluator = FakeEvaluator(
        known={f"T // {text}": score for text, score in known.items()} | known
    )
    found = await generate_answer(request, services(evaluator=evaluator), NO_LISTENER)
    assert "is tall" in found.answer
    assert "flies" not in found.answer
    assert found.missing == (parts[1],)


def test_what_holds_nothing_to_quote_is_no_piece() -> None:
    code = "```\nx = 1\n```"
    assert pieces_of([replace(strip(code), relevance=0.9), strip("Why so?", 1)]) == []
    rows = "\n".join(f"row_{n} = {n}" for n in range(100))
    led = replace(strip(f"```\n{rows}\n```"), relevance=0.9, lead="Set the rows:")
    assert pieces_of([led])


def test_long_strips_are_graded_in_pieces() -> None:
    long = replace(strip("One more sentence of it stands here. " * 40), relevance=0.9)
    pieces = pieces_of([long, replace(strip("It is short."), relevance=0.5)])

    assert len(pieces) > 3
    assert {piece.n for piece in pieces if piece.grade is None} == {1}
    assert pieces[-1].grade == 0.5
    assert all(len(piece.strip.text.split()) <= MAX_PIECE_WORDS for piece in pieces)


@given(st.lists(SCORE, max_size=8), st.floats(-1, 1))
def test_chosen_pieces_are_few_near_the_best_and_in_order(
    grades: list[float | None], floor: float
) -> None:
    pieces = [graded(f"s{n}", grade, n) for n, grade in enumerate(grades, start=1)]
    chosen = [piece.grade for piece in best_pieces(pieces, floor) if piece.grade is not None]
    known = [grade for grade in grades if grade is not None]

    assert len(chosen) <= MAX_STRIPS
    assert chosen == pytest.approx(sorted(known, reverse=True)[: len(chosen)])
    assert bool(chosen) == (bool(known) and max(known) >= floor)
    assert all(grade >= floor for grade in chosen)


def test_a_heading_alone_is_not_quoted() -> None:
    heading, *answers = (
        replace(graded(text, 0.9).strip, title=f"Shell › {title}")
        for text, title in (
            ("2.1 Accessing On-Line Help.", "2.1 Accessing On-Line Help"),
            ("Accessing help takes the key ESC h.", "2.1 Accessing On-Line Help"),
            ("It does need a shell.", "Does it need a shell?"),
            ("可以关闭。", "可以关闭吗？"),
        )
    )

    assert [piece.strip for piece in pieces_of([heading, *answers])] == answers


def test_of_units_graded_alike_the_one_nearest_to_the_question_comes_first() -> None:
    far, near, odd = graded("Far.", 0.8), graded("Near.", 0.75, 2), graded("Odd.", -0.5, 3)
    pieces = [
        replace(piece, strip=replace(piece.strip, similarity=similarity))
        for piece, similarity in ((far, 0.05), (near, 0.12), (odd, 0.2))
    ]

    assert [piece.strip.text for piece in best_pieces(pieces, -0.9)] == ["Near.", "Far."]


def test_a_sentence_of_two_strips_is_quoted_once() -> None:
    said = quoted_sentences([graded("Same words here.", 0.2), graded("same words here.", 0.6, 2)])
    assert [(item.n, item.text) for item in said] == [(1, "Same words here.")]


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
    pieces = [graded("It is so tall.", 0.9), graded("It was built in 1904.", 0.2, 2)]
    grades = {"How tall?": (0.9, -0.9), "When built?": (-0.9, 0.3), "At what price?": (-0.8, None)}
    chosen, missing = with_each_part(pieces[:1], pieces, grades, -0.5)
    quoted = quoted_sentences(chosen)
    assert [item.text for item in quoted] == ["It is so tall.", "It was built in 1904."]
    assert missing == ["At what price?"]
    answer = "".join(compose(quoted, missing))
    assert answer.endswith(
        "It was built in 1904 [2].\n\nNot found in the documents: At what price."
    )
    zh = "".join(compose(quoted, ["价格是多少？"], "zh"))
    assert zh.endswith("\n\n在文档中没有找到：价格是多少。")
    draft = Draft(answer, missing=tuple(missing))
    assert draft.answer_body.endswith("[2].")


def test_where_no_part_is_answered_nothing_is_quoted() -> None:
    pieces = [graded("It is tall.", -0.9)]
    assert with_each_part(pieces, pieces, {"How tall?": (-0.9,)}, -0.5) == ([], [])
