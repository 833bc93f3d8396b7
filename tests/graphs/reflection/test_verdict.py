"""The verdict on an answer, from its citations and what a critic said of it."""

from dataclasses import replace

import pytest

from graphs.generation.extractive import candidate_sentences, compose
from graphs.nodes.revise import quoted_in
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer
from graphs.text.citations import citations_in
from graphs.types import Draft, Judgement, StoppedBy, Strip

SOURCE = "The red tower of Umbra is 87 metres tall. It was built in 1904."
QUOTED = "The red tower of Umbra is 87 metres tall [1]."
WRITTEN = "Umbra's tower reaches 87 metres [1]."
LOOSE = "It is lovely."


def state(
    answer: str, judgement: Judgement | None = None, stopped_by: StoppedBy = "answered"
) -> Answer:
    strip = Strip("p#0", "p", SOURCE, "Towers", "a.md", "internal", (0, 0), 0.9, kept=True)
    return {
        "answer": answer,
        "citations": citations_in(answer, [strip]),
        "judgement": judgement,
        "stopped_by": stopped_by,
    }


def judged(*supports: tuple[str, float], uncovered: tuple[str, ...] = ()) -> Judgement:
    weak = tuple(text for text, support in supports if support < 0.5)
    return Judgement(0.9, 0.6, 0.8, supports=supports, weak=weak, uncovered=uncovered)


def test_a_quotation_that_nobody_judged_is_supported_by_its_sentence_alone() -> None:
    found = verdict_of(state(QUOTED))
    assert (found.verdict, found.confidence) == ("not_judged", None)
    (sentence,) = found.sentences
    assert (sentence.label, sentence.support, sentence.citations) == ("supported", 1.0, (1,))
    assert QUOTED[sentence.start : sentence.end] == QUOTED


def test_of_other_sentences_the_critic_tells() -> None:
    text = WRITTEN.replace(" [1]", "")
    assert verdict_of(state(WRITTEN)).verdict == "not_judged"
    assert verdict_of(state(WRITTEN, judged((text, 0.9)))).verdict == "supported"
    assert verdict_of(state(WRITTEN, judged((text, 0.1)))).verdict == "unsupported"
    both = verdict_of(state(f"{WRITTEN} {LOOSE}", judged((text, 0.9), (LOOSE, 0.2))))
    assert both.verdict == "partly"
    assert [sentence.label for sentence in both.sentences] == ["supported", "unsupported"]
    assert [sentence.support for sentence in both.sentences] == [0.9, 0.2]


def test_a_critic_may_judge_the_whole_and_name_the_weak() -> None:
    whole = Judgement(0.9, 0.8, 0.8, weak=(LOOSE,))
    found = verdict_of(state(f"{WRITTEN} {LOOSE}", whole))
    assert [sentence.label for sentence in found.sentences] == ["supported", "unsupported"]
    assert found.verdict == "partly"


def test_a_part_that_was_not_found_is_missing() -> None:
    found = verdict_of(state(QUOTED, judged(uncovered=("Who built it?",))))
    assert (found.verdict, found.missing) == ("partly", ("Who built it?",))


@pytest.mark.parametrize("why", ["no_evidence", "budget", "deadline", "cancelled"])
def test_an_abstention_is_one(why: StoppedBy) -> None:
    text = "The documents do not tell."
    found = verdict_of(state(text, stopped_by=why))
    assert found.verdict == "abstained"
    assert [(s.start, s.end, s.label) for s in found.sentences] == [(0, len(text), "not_checked")]


def test_an_answer_that_ended_early_keeps_its_sources() -> None:
    (sentence,) = verdict_of(state(QUOTED, stopped_by="deadline")).sentences
    assert sentence.citations == (1,)


@pytest.mark.parametrize(
    "text",
    [
        "Set it up in two steps:\n- Run the setup.\n- Start the service.",
        "name | default\nmax_rows | 100 rows",
        "Create the index so:\n```\nCREATE INDEX i ON t (a);\n```\nIt takes a while.",
    ],
)
def test_lists_tables_and_code_that_are_quoted_are_supported(text: str) -> None:
    strip = Strip("p#0", "p", text, "Setup", "a.md", "internal", (0, 0), relevance=0.9)
    lead, _, rest = text.partition("\n")
    for each in (strip, replace(strip, text=rest, lead=lead)):
        answer = "".join(compose(candidate_sentences([each])))
        found = verdict_of({"answer": answer, "citations": citations_in(answer, [each])})
        assert {sentence.label for sentence in found.sentences} == {"supported"}, answer
        draft = Draft(answer, (each,))
        assert "".join(compose(quoted_in(draft))) == answer
