"""`/health/live` says the process answers, `/health/ready` that index and worker are warm."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from app.api.dependencies import LiveServices
from app.errors import problem_response, problems
from app.schemas.ask import Health, Problem

router = APIRouter(prefix="/health", tags=["operation"])


@router.get("/live")
async def live() -> Health:
    """Say that the process answers."""
    return Health(status="live")


@router.get("/ready", response_model=Health, responses=problems(503))
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
