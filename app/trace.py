"""From the graphs' state to the contract's words: used for step details and for the answer."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from app import schemas
from graphs.ports import Services
from graphs.state import Answer, Context
from graphs.types import Passage, Strip, Usage, WebPage


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


def speculation(changed: Mapping[str, Any]) -> str:
    """What became of the web search that began beside this node; empty where none did."""
    if changed.get("search_ahead"):
        return "kept"
    return "discarded" if changed.get("usage", Usage()).discarded_searches else ""


def detail_of(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What a node changed, as JSON in the words of the answer; empty for nodes of no interest."""
    told: dict[str, Any] = {}
    for key in ("action", "rewritten_query", "answer", "stopped_by", "generator"):
        if key in changed:
            told[key] = changed[key]
    if changed.get("kept_below_floor"):
        told["kept_below_floor"] = True
    if outcome := speculation(changed):
        told["speculative_search"] = outcome
    if "documents" in changed:
        told["documents"] = _dump(map(document, changed["documents"]))
    if "web_pages" in changed:
        told["web_results"] = _dump(map(web_result, changed["web_pages"]))
    strips = [*changed.get("internal_strips", ()), *changed.get("web_strips", ())]
    if strips:
        told["strips"] = _dump(map(strip, strips))
    if changed.get("citations"):
        told["citations"] = [asdict(citation) for citation in changed["citations"]]
    if changed.get("degraded"):
        told["degraded"] = [asdict(entry) for entry in changed["degraded"]]
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
        retrieval=None,
        action=state.get("action"),
        thresholds=schemas.Thresholds(**asdict(bounds)),
        documents=[document(passage) for passage in state.get("documents", ())],
        rewritten_query=state.get("rewritten_query"),
        web_results=[web_result(page) for page in state.get("web_pages", ())],
        strips=[strip(value) for value in strips],
        candidates=[],
        critique=[],
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
