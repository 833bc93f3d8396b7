"""POST /ask as JSON: the answer's fields and what every wrong request is told."""

import typing
from typing import Any

import pytest

from app.schemas.ask import AskResponse
from tests.app.serving import BEGINNING, Serving
from tests.umbra import CHINESE, ENGLISH

NUMBER = (int, float)

# The contract, field by field; a tuple is a choice of types.
ANSWER: dict[str, Any] = {
    "run_id": str,
    "thread_id": str,
    "workflow": str,
    "answer": str,
    "verdict": str,
    "confidence": (float, type(None)),
    "sentences": list,
    "missing": list,
    "citations": list,
    "standalone_question": (str, type(None)),
    "queries": list,
    "retrieval": (dict, type(None)),
    "action": (str, type(None)),
    "thresholds": dict,
    "documents": list,
    "rewritten_query": (str, type(None)),
    "web_results": list,
    "strips": list,
    "candidates": list,
    "critique": list,
    "stopped_by": str,
    "degraded": list,
    "images": list,
    "image_threshold": (float, type(None)),
    "models": dict,
    "timings_ms": dict,
    "usage": dict,
}
CITATION = {
    "n": int,
    "strip_id": str,
    "origin": str,
    "title": str,
    "source": str,
    "text": str,
    "score": NUMBER,
    "spans": list,
}
DOCUMENT = {"id": str, "title": str, "source": str, "origin": str, "score": NUMBER}
STRIP = {
    "id": str,
    "document_id": str,
    "text": str,
    "score": NUMBER,
    "similarity": (float, type(None)),
    "kept": bool,
}
TOKENS = {"llm_calls", "input_tokens", "output_tokens"}
GRADING = {"grading_calls", "grading_tokens"}
USAGE = TOKENS | GRADING | {"scored_pairs", "web_searches", "discarded_searches"}


def assert_typed(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert set(found) == set(wanted)
    wrong = {name: value for name, value in found.items() if not isinstance(value, wanted[name])}
    assert wrong == {}


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_the_answer_of_crag_has_the_fields_of_the_contract(service: Serving, question: str) -> None:
    answer = service.ask(question, workflow="crag")

    assert_typed(answer, ANSWER)
    assert answer["workflow"] == "crag"
    assert answer["retrieval"] is None
    assert answer["action"] == "correct"
    assert answer["stopped_by"] == "answered"
    assert answer["candidates"] == answer["critique"] == answer["degraded"] == []
    assert set(answer["thresholds"]) == {"upper", "lower", "strip_floor"}
    assert set(answer["models"]) == {"generator", "evaluator", "embedder"}
    assert all(answer["models"].values())
    assert set(answer["usage"]) == USAGE
    assert answer["usage"]["scored_pairs"] > 0
    assert answer["usage"]["llm_calls"] == answer["usage"]["web_searches"] == 0
    assert set(answer["timings_ms"]) == {*BEGINNING, "grade", "refine", "generate"}
    assert ("87" if question == ENGLISH else "八十七米") in answer["answer"]


def assert_cited(answer: dict[str, Any]) -> None:
    """Every citation leads to a kept strip and from there to a document or a page."""
    strips = {strip["id"]: strip for strip in answer["strips"]}
    sources = {document["id"]: document["source"] for document in answer["documents"]}
    sources |= {page["url"]: page["url"] for page in answer["web_results"]}
    assert answer["citations"]
    for citation in answer["citations"]:
        assert_typed(citation, CITATION)
        strip = strips[citation["strip_id"]]
        assert strip["kept"]
        assert (strip["text"], strip["score"]) == (citation["text"], citation["score"])
        assert sources[strip["document_id"]] == citation["source"]
        assert all(f"[{citation['n']}]" in answer["answer"][a:b] for a, b in citation["spans"])


@pytest.mark.parametrize(("workflow", "question"), [("rag", CHINESE), ("crag", ENGLISH)])
def test_citations_resolve_to_strips_and_documents(
    service: Serving, workflow: str, question: str
) -> None:
    answer = service.ask(question, workflow=workflow)

    assert_cited(answer)
    for citation in answer["citations"]:
        assert citation["source"].endswith("tower.md")
        assert citation["origin"] == "internal"
    for document in answer["documents"]:
        assert_typed(document, DOCUMENT)
    scores = [document["score"] for document in answer["documents"]]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True), "the best first"
    for strip in answer["strips"]:
        assert_typed(strip, STRIP)


def test_rag_takes_no_action(service: Serving) -> None:
    answer = service.ask(ENGLISH, workflow="rag")

    assert_typed(answer, ANSWER)
    assert answer["workflow"] == "rag"
    assert answer["action"] is answer["rewritten_query"] is answer["retrieval"] is None
    assert set(answer["timings_ms"]) == {"prepare", "retrieve", "search", "generate"}


@pytest.mark.parametrize(
    ("workflow", "question", "word"),
    [("crag", "谁写了歌剧？", "。"), ("self_crag", "Who composed the opera Zyxwv?", "know")],
)
def test_an_abstention_is_a_sentence_without_citations(
    service: Serving, workflow: str, question: str, word: str
) -> None:
    options = {"ablation": {"only_action": "incorrect"}, "web": "never"}
    answer = service.ask(question, workflow=workflow, options=options)

    assert word in answer["answer"]
    assert answer["citations"] == []
    assert answer["stopped_by"] == "no_evidence"
    assert answer["degraded"] == [], "the web was not wanted"


def test_options_override_the_evaluators_thresholds(service: Serving) -> None:
    own = service.ask(ENGLISH)["thresholds"]
    options = {"upper": 19.5, "lower": -20, "retrieve_k": 2, "max_critic": 0}
    answer = service.ask(ENGLISH, options=options)

    assert answer["thresholds"] == {**own, "upper": 19.5, "lower": -20.0}
    assert answer["action"] == "ambiguous"
    assert len(answer["documents"]) == 2


def test_the_model_of_the_answer_is_the_contract() -> None:
    assert list(AskResponse.model_fields) == list(ANSWER)
    hints = typing.get_type_hints(AskResponse)
    assert "budget" in typing.get_args(hints["stopped_by"])
