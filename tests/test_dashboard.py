"""The dashboard for Grafana shows metrics that the service has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.observability.metrics import ServiceMetrics

DASHBOARD = Path(__file__).parents[1] / "docker" / "grafana-dashboard.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
SHOWN = (
    *("runs", "verdicts", "degraded", "run_seconds", "first_token_seconds", "step_seconds"),
    *("run_places", "runs_waiting", "circuit_open", "input_tokens", "output_tokens"),
    "web_searches",
)


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def told() -> list[Metric]:
    """What GET /metrics tells of."""
    text = generate_latest(ServiceMetrics().registry).decode()
    return list(text_string_to_metric_families(text))


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_exists(dashboard: dict[str, Any], told: list[Metric]) -> None:
    known = {f"{metric.name}{end}" for metric in told for end in SUFFIXES[metric.type]}
    named = set(re.findall(r"\bselfcrag_\w+", "\n".join(expressions(dashboard))))
    assert named <= known
    for name in SHOWN:
        assert any(each.startswith(f"selfcrag_{name}") for each in named), name


def test_series_are_told_apart_by_labels_they_have(dashboard: dict[str, Any]) -> None:
    collectors = ServiceMetrics().registry._names_to_collectors
    for expression in expressions(dashboard):
        (metric,) = {*re.findall(r"\bselfcrag_\w+", expression)}
        has = {*collectors[metric.removesuffix("_bucket")]._labelnames, "le"}
        wanted = {
            label.strip()
            for labels in re.findall(r"(?:by|ignoring) \(([^)]*)\)", expression)
            for label in labels.split(",")
        }
        assert wanted <= has, expression


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}
