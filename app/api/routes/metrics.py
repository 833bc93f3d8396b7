"""`GET /metrics`: what Prometheus reads of this process."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from app.api.dependencies import LiveMetrics, LiveServices

router = APIRouter(tags=["operation"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(metrics: LiveMetrics, services: LiveServices) -> Response:
    """Counters, histograms and gauges of this process in Prometheus' text format."""
    await metrics.measure(services.retriever)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)
