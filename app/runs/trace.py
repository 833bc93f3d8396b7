"""From the graphs' state to the contract's words: used for step details and for the answer."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from app.schemas.ask import AskResponse, Candidate, Document, GradedStrip, WebResult
from graphs.ports import Services
from graphs.state import Answer, Context
from graphs.types import Draft, Judgement, Usage

_AS_THEY_ARE = (
    *("standalone_question", "queries", "action", "rewritten_query", "answer", "stopped_by"),
    "generator",
)


def detail_of(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What a node changed, as JSON in the words of the answer; empty for nodes of no interest.

    Of the rounds of reflection the latest alone: each has had its own step.
    """
    lists = _lists(changed)
    detail = {name: changed[name] for name in _AS_THEY_ARE if name in changed}
    if "documents" in changed:
        detail["documents"] = lists["documents"]
    if compression := changed.get("compression"):
        detail["compression"] = compression
    if "web_pages" in changed:
        detail["web_results"] = lists["web_results"]
    others = {
        "retrieval": changed.get("retrieval"),
        "candidates": lists["candidates"],
        "critique": next(reversed(changed.get("critique") or ()), None),
        "strips": lists["strips"],
        "citations": changed.get("citations"),
        "degraded": changed.get("degraded"),
        "speculative_search": _speculative_search(changed),
        "kept_below_floor": changed.get("kept_below_floor"),
    }
    detail |= {name: value for name, value in others.items() if value}
    jsonable: dict[str, Any] = to_jsonable_python(detail)
    return jsonable


def response(
    state: Answer,
    *,
    run_id: str,
    thread_id: str,
    workflow: str,
    context: Context,
    services: Services,
    timings_ms: dict[str, float],
) -> AskResponse:
    """The body of `POST /ask`; what the workflow does not have is null or empty."""
    models = {
        "generator": state.get("generator", services.chat_name),
        "evaluator": services.evaluator.name,
        "embedder": services.embedder_name,
    }
    return AskResponse.model_validate(
        {
            **_lists(state),
            "run_id": run_id,
            "thread_id": thread_id,
            "workflow": workflow,
            "answer": state["answer"],
            "citations": list(state["citations"]),
            "standalone_question": state.get("standalone_question"),
            "queries": list(state.get("queries", ())),
            "retrieval": state.get("retrieval"),
            "action": state.get("action"),
            "thresholds": context.thresholds(services.evaluator.thresholds),
            "rewritten_query": state.get("rewritten_query"),
            "critique": list(state.get("critique", ())),
            "stopped_by": state["stopped_by"],
            # What failed twice is told once.
            "degraded": list(dict.fromkeys(state.get("degraded", ()))),
            "models": models,
            "timings_ms": timings_ms,
            "usage": state.get("usage", Usage()),
        }
    )


def _lists(state: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Those that the contract tells in other words than the graphs."""
    strips = [*state.get("internal_strips", ()), *state.get("web_strips", ())]
    return {
        "documents": [Document.model_validate(found) for found in state.get("documents", ())],
        "web_results": [WebResult.model_validate(page) for page in state.get("web_pages", ())],
        "strips": [GradedStrip.model_validate(strip) for strip in strips],
        "candidates": [_candidate(draft) for draft in state.get("candidates", ())],
    }


def _candidate(draft: Draft) -> Candidate:
    judged = draft.judgement or Judgement()
    return Candidate(
        n=draft.n,
        origin=draft.origin,
        document_ids=list(draft.document_ids),
        answer=draft.answer,
        relevance=judged.relevance,
        support=judged.support,
        utility=judged.utility,
        score=draft.critique_score,
        chosen=draft.chosen,
    )


def _speculative_search(changed: Mapping[str, Any]) -> str:
    """What became of the web search that began beside this node; empty where none did."""
    if changed.get("search_ahead"):
        return "kept"
    return "discarded" if changed.get("usage", Usage()).discarded_searches else ""
