"""For supervisors: `/health/live`, `/health/ready` (index and worker are warm), `/metrics`."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import LiveMetrics, LiveServices
from app.api.problems import problem_response, problems
from app.schemas.ask import Health, Problem

router = APIRouter(tags=["operation"])
OPEN: dict[str, Any] = {"security": []}
"""Asks for no key."""
NOT_READY: dict[int | str, dict[str, Any]] = {503: problems(503)[503]}


@router.get("/health/live", openapi_extra=OPEN)
async def live() -> Health:
    """Say that the process answers."""
    return Health(status="live")


@router.get("/health/ready", response_model=Health, openapi_extra=OPEN, responses=NOT_READY)
async def ready(request: Request, services: LiveServices) -> Response:
    """Say that index and evaluator are warm, or which of them is not."""
    waiting = [
        name
        for name, part in (("index", services.retriever), ("evaluator", services.evaluator))
        if not await part.ready()
    ]
    if waiting:
        problem = Problem(title="Not ready", status=503, detail=f"Not ready: {', '.join(waiting)}.")
        return problem_response(request.scope, problem)
    return JSONResponse(Health(status="ready").model_dump())


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problems()},
)
async def metrics(metrics: LiveMetrics, services: LiveServices) -> Response:
    """Counters, histograms and gauges of this process in Prometheus' text format."""
    await metrics.measure(services.retriever)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
