"""From the graphs' state to the contract's words: used for step details and for the answer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from app.schemas import ask as schemas
from graphs.ports import Services
from graphs.state import Answer, Context
from graphs.types import Critique, Draft, Judgement, Passage, Retrieval, Strip, Usage, WebPage


def document(passage: Passage) -> schemas.Document:
    return schemas.Document(
        id=passage.id,
        title=passage.title,
        source=passage.source,
        origin=passage.origin,
        score=passage.score,
    )


def strip(value: Strip) -> schemas.Strip:
    return schemas.Strip(
        id=value.id,
        document_id=value.document_id,
        text=value.text,
        score=value.score,
        kept=value.kept,
    )


def web_result(page: WebPage) -> schemas.WebResult:
    return schemas.WebResult(url=page.url, title=page.title, score=page.score)


def candidate(draft: Draft) -> schemas.Candidate:
    judged = draft.judgement or Judgement()
    return schemas.Candidate(
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


def critique(entry: Critique) -> schemas.Critique:
    return schemas.Critique(**asdict(entry))


def retrieval(found: Retrieval | None) -> schemas.Retrieval | None:
    return None if found is None else schemas.Retrieval(**asdict(found))


def speculation(changed: Mapping[str, Any]) -> str:
    """What became of the web search that began beside this node; empty where none did."""
    if changed.get("search_ahead"):
        return "kept"
    return "discarded" if changed.get("usage", Usage()).discarded_searches else ""


def detail_of(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What a node changed, as JSON in the words of the answer; empty for nodes of no interest."""
    told = {
        key: changed[key]
        for key in (
            "standalone_question",
            "queries",
            "action",
            "rewritten_query",
            "answer",
            "stopped_by",
            "generator",
        )
        if key in changed
    }
    strips = [*changed.get("internal_strips", ()), *changed.get("web_strips", ())]
    lists = {
        "strips": _dump(map(strip, strips)),
        "citations": [asdict(citation) for citation in changed.get("citations", ())],
        "degraded": [asdict(entry) for entry in changed.get("degraded", ())],
        "speculative_search": speculation(changed),
        "kept_below_floor": changed.get("kept_below_floor"),
    }
    return told | _graded(changed) | _reflected(changed) | {k: v for k, v in lists.items() if v}


def _graded(changed: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if "documents" in changed:
        told["documents"] = _dump(map(document, changed["documents"]))
    if compression := changed.get("compression"):
        told["compression"] = asdict(compression)
    if "web_pages" in changed:
        told["web_results"] = _dump(map(web_result, changed["web_pages"]))
    return told


def _reflected(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Of the rounds the latest alone: each has had its own step."""
    told: dict[str, Any] = {}
    if found := retrieval(changed.get("retrieval")):
        told["retrieval"] = found.model_dump()
    if changed.get("candidates"):
        told["candidates"] = _dump(map(candidate, changed["candidates"]))
    if changed.get("critique"):
        told["critique"] = critique(changed["critique"][-1]).model_dump()
    return told


def response(
    state: Answer,
    *,
    run_id: str,
    thread_id: str,
    workflow: str,
    context: Context,
    services: Services,
    timings_ms: dict[str, float],
) -> schemas.AskResponse:
    """The body of `POST /ask`; what the workflow does not have is null or empty."""
    bounds = context.thresholds(services.evaluator.thresholds)
    strips = [*state.get("internal_strips", ()), *state.get("web_strips", ())]
    degraded = dict.fromkeys(state.get("degraded", ()))  # what failed twice is told once
    return schemas.AskResponse(
        run_id=run_id,
        thread_id=thread_id,
        workflow=workflow,
        answer=state["answer"],
        citations=[
            schemas.Citation.model_validate(asdict(citation)) for citation in state["citations"]
        ],
        standalone_question=state.get("standalone_question"),
        queries=list(state.get("queries", ())),
        retrieval=retrieval(state.get("retrieval")),
        action=state.get("action"),
        thresholds=schemas.Thresholds(**asdict(bounds)),
        documents=[document(passage) for passage in state.get("documents", ())],
        rewritten_query=state.get("rewritten_query"),
        web_results=[web_result(page) for page in state.get("web_pages", ())],
        strips=[strip(value) for value in strips],
        candidates=[candidate(draft) for draft in state.get("candidates", ())],
        critique=[critique(entry) for entry in state.get("critique", ())],
        stopped_by=state["stopped_by"],
        degraded=[schemas.Degraded(**asdict(entry)) for entry in degraded],
        models=_models(state, services),
        timings_ms=timings_ms,
        usage=schemas.Usage(**asdict(state.get("usage", Usage()))),
    )


def _models(state: Answer, services: Services) -> schemas.Models:
    return schemas.Models(
        generator=state.get("generator", services.chat_name),
        evaluator=services.evaluator.name,
        embedder=services.embedder_name,
    )


def _dump(models: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [model.model_dump() for model in models]
