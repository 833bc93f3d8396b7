"""`/health` and `/metrics` for supervisors; `/`, the playground, and `/docs`, the API's page."""

import mimetypes
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import LiveMetrics, LiveReadiness, LiveRuns, LiveServices
from app.api.problems import problem_response, problems
from app.schemas.ask import Health, Problem

router = APIRouter(tags=["operation"])
OPEN: dict[str, Any] = {"security": []}
"""Asks for no key."""
NOT_READY: dict[int | str, dict[str, Any]] = {503: problems(503)[503]}
PAGE_PATH, API_PAGE_PATH = "/page", "/docs"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept, but asked for again: a new version of the service shows at once.
    "Cache-Control": "no-cache",
}
# Some systems' lists of media types do not know modules; browsers run nothing else as one.
mimetypes.add_type("text/javascript", ".mjs")


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
async def metrics(metrics: LiveMetrics, services: LiveServices, runs: LiveRuns) -> Response:
    """Counters, histograms and gauges of this process in Prometheus' text format."""
    await metrics.measure(services.retriever)
    metrics.show_circuits(services.circuits)
    metrics.show_admission(runs.admission.places, runs.admission.waiting)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


class PageFiles(StaticFiles):
    """The page's files, which run nothing and load nothing but each other."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(PAGE_HEADERS)
        return response


page_files = PageFiles(directory=Path(__file__).parents[2] / "page")
"""To be mounted at PAGE_PATH."""


api_page_files = PageFiles(directory=Path(__file__).parents[2] / "api_page")
"""To be mounted at API_PAGE_PATH, behind `api_page`."""


@router.api_route(API_PAGE_PATH, methods=["GET", "HEAD"], include_in_schema=False)
async def api_page(request: Request) -> Response:
    """Every operation with a form to try it; loads nothing from elsewhere."""
    return await api_page_files.get_response("index.html", request.scope)


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def playground(request: Request) -> Response:
    """A page that shows a run thinking; a client of the public interface like any other."""
    return await page_files.get_response("index.html", request.scope)
