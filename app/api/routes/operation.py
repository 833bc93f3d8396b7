"""`/health` and `/metrics` for supervisors."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import LiveMetrics, LiveParts, LiveReadiness
from app.api.problems import problem_response, problems
from app.schemas.ask import Health, Problem

router = APIRouter(tags=["operation"])
OPEN: dict[str, Any] = {"security": []}
"""Asks for no key."""
NOT_READY: dict[int | str, dict[str, Any]] = {503: problems(503)[503]}


@router.get("/health/live", response_model_exclude_defaults=True, openapi_extra=OPEN)
async def live() -> Health:
    """Say that the process answers."""
    return Health(status="live")


@router.get("/health/ready", response_model=Health, openapi_extra=OPEN, responses=NOT_READY)
async def ready(request: Request, readiness: LiveReadiness) -> Response:
    """Say that index and database can be used, or which cannot; and what runs go on without."""
    state = await readiness.state()
    if state.failures:
        detail = f"Not ready: {' and '.join(state.failures)}."
        problem = Problem(title="Not ready", status=503, detail=detail)
        return problem_response(request.scope, problem)
    health = Health(status="ready", degraded=list(state.degraded))
    return JSONResponse(health.model_dump(exclude_defaults=True))


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problems()},
)
async def metrics(metrics: LiveMetrics, parts: LiveParts) -> Response:
    """Counters, histograms and gauges of this process in Prometheus' text format."""
    await metrics.measure(parts.services.retriever)
    metrics.show_circuits(parts.services.circuits)
    metrics.show_admission(parts.runs.admission.places, parts.runs.admission.waiting)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
