"""For supervisors: `/health/live`, `/health/ready` (index and worker are warm), `/metrics`."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import LiveMetrics, LiveServices
from app.api.problems import problem_response, problems
from app.schemas.ask import Health, Problem

router = APIRouter(tags=["operation"])


@router.get("/health/live")
async def live() -> Health:
    """Say that the process answers."""
    return Health(status="live")


@router.get("/health/ready", response_model=Health, responses=problems(503))
async def ready(services: LiveServices) -> Response:
    """Say that index and evaluator are warm, or which of them is not."""
    waiting = [
        name
        for name, part in (("index", services.retriever), ("evaluator", services.evaluator))
        if not await part.ready()
    ]
    if waiting:
        problem = Problem(title="Not ready", status=503, detail=f"Not ready: {', '.join(waiting)}.")
        return problem_response(problem)
    return JSONResponse(Health(status="ready").model_dump())


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(metrics: LiveMetrics, services: LiveServices) -> Response:
    """Counters, histograms and gauges of this process in Prometheus' text format."""
    await metrics.measure(services.retriever)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
