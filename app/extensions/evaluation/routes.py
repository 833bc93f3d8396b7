"""`/evaluations`: question sets measured on the caller's documents, and their reports."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BeforeValidator, Field, WithJsonSchema

from app.api.dependencies import CurrentCaller, LiveCollections, live
from app.api.pages import PAGE_HEADERS
from app.api.problems import problems
from app.api.routes.documents import mapped
from app.errors import NotFound
from app.extensions.evaluation.comparison import Results, compare
from app.extensions.evaluation.jobs import EvaluationJobs
from app.extensions.evaluation.questions import MAX_QUESTIONS, EvaluationQuestion, read_questions
from app.extensions.evaluation.report import style_source
from app.extensions.evaluation.runner import EvaluationRequest
from app.extensions.evaluation.schemas import (
    EvaluationComparison,
    EvaluationList,
    EvaluationState,
    EvaluationSummary,
)
from app.runs.replay import iso

router = APIRouter(prefix="/evaluations", tags=["evaluations"])
LiveEvaluations = Annotated[EvaluationJobs, live("evaluations")]

ID = "^[0-9a-f]{32}$"
EvaluationId = Annotated[str, Path(pattern=ID, description="The evaluation's id.")]
PAGE = 50
HTML = "text/html; charset=utf-8"
NO_RESULTS = "The evaluation has no results yet: see GET /evaluations/{id}."


class EvaluationBody(EvaluationRequest):
    """A question set as rows, or as the text of a file of JSON lines or CSV."""

    questions: Annotated[
        list[EvaluationQuestion],
        Field(min_length=1, max_length=MAX_QUESTIONS),
        BeforeValidator(lambda given: read_questions(given) if isinstance(given, str) else given),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"$ref": "#/components/schemas/EvaluationQuestion"}},
                ],
                "description": f"At most {MAX_QUESTIONS:,} rows, or a file's text.",
            }
        ),
    ]


@router.post("", status_code=202, responses=problems(404, 413, 422, 503))
async def begin_evaluation(
    body: EvaluationBody,
    caller: CurrentCaller,
    evaluations: LiveEvaluations,
    collections: LiveCollections,
) -> EvaluationSummary:
    """Ask every question under every variant in the background; known answers are not asked again.

    Each answer counts as a run of the caller's quota. An evaluation that was interrupted goes on
    when the same one is begun again.
    """
    with mapped():
        scope = await collections.scope(caller, body.collection)
    evaluation_id = await evaluations.begin(body, scope)
    return _summary(await evaluations.store.get(evaluation_id, caller.owner))


@router.get("", responses=problems(422, 503))
async def list_evaluations(
    caller: CurrentCaller,
    evaluations: LiveEvaluations,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> EvaluationList:
    """The caller's evaluations, newest first, those under way among them."""
    rows, total = await evaluations.store.page(caller.owner, limit, offset)
    listed = [_summary(row) for row in rows]
    return EvaluationList(evaluations=listed, total=total, limit=limit, offset=offset)


@router.get("/{evaluation_id}", responses=problems(404, 422, 503))
async def get_evaluation(
    evaluation_id: EvaluationId, caller: CurrentCaller, evaluations: LiveEvaluations
) -> EvaluationState:
    """How far it is, and its results once it has ended."""
    row = await evaluations.store.get(evaluation_id, caller.owner)
    data = row["results"] or {"results": None, "times": None}
    return EvaluationState(
        **_summary(row).model_dump(), results=data["results"], times=data["times"]
    )


@router.get(
    "/{evaluation_id}/report",
    response_class=Response,
    responses={
        200: {"content": {"text/html": {"schema": {"type": "string"}}}},
        **problems(404, 422, 503),
    },
)
async def evaluation_report(
    evaluation_id: EvaluationId,
    caller: CurrentCaller,
    evaluations: LiveEvaluations,
    language: Literal["en", "zh"] | None = None,
    calibrate: bool = False,
    baseline: Annotated[
        str | None, Query(pattern=ID, description="Another evaluation to compare.")
    ] = None,
) -> Response:
    """One page with its pictures, which opens without a network."""
    compared = None if baseline is None else await _results(evaluations, baseline, caller.owner)
    report = await evaluations.report(
        evaluation_id, caller.owner, calibrates=calibrate, baseline=compared
    )
    if report is None:
        raise NotFound(NO_RESULTS)
    policy = f"default-src 'none'; style-src {style_source()}; frame-ancestors 'none'"
    headers = {**PAGE_HEADERS, "Content-Security-Policy": policy}
    page = await asyncio.to_thread(report.html, language)
    return Response(page, media_type=HTML, headers=headers)


@router.get("/{evaluation_id}/comparison", responses=problems(404, 422, 503))
async def compare_evaluations(
    evaluation_id: EvaluationId,
    baseline: Annotated[str, Query(pattern=ID, description="The evaluation to compare with.")],
    caller: CurrentCaller,
    evaluations: LiveEvaluations,
) -> EvaluationComparison:
    """Hold it against an older one: measures in pairs with intervals, and changed answers."""
    after = await _results(evaluations, evaluation_id, caller.owner)
    before = await _results(evaluations, baseline, caller.owner)
    return await asyncio.to_thread(compare, before, after)


@router.post("/{evaluation_id}/cancel", status_code=202, responses=problems(404, 422, 503))
async def cancel_evaluation(
    evaluation_id: EvaluationId, caller: CurrentCaller, evaluations: LiveEvaluations
) -> EvaluationSummary:
    """Stop it; answers so far are kept."""
    await evaluations.store.get(evaluation_id, caller.owner)
    await evaluations.cancel(evaluation_id)
    return _summary(await evaluations.store.get(evaluation_id, caller.owner))


@router.delete("/{evaluation_id}", status_code=204, responses=problems(404, 422, 503))
async def delete_evaluation(
    evaluation_id: EvaluationId, caller: CurrentCaller, evaluations: LiveEvaluations
) -> None:
    """Forget it, with its answers."""
    await evaluations.store.get(evaluation_id, caller.owner)
    await evaluations.cancel(evaluation_id)
    await evaluations.store.delete(evaluation_id)


def _summary(row: Mapping[str, Any]) -> EvaluationSummary:
    times = {key: row[key] and iso(row[key]) for key in ("created_at", "ended_at")}
    return EvaluationSummary.model_validate({**row, **times, "evaluation_id": row["id"]})


async def _results(evaluations: EvaluationJobs, evaluation_id: str, owner: str) -> Results:
    row = await evaluations.store.get(evaluation_id, owner)
    if row["results"] is None:
        raise NotFound(NO_RESULTS)
    results: Results = row["results"]["results"]
    return results
