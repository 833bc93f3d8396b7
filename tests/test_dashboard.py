"""The dashboard for Grafana and the handbook name metrics that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from app.observability.metrics import ServiceMetrics
from evaluator.serving.metrics import WorkerMetrics

ROOT = Path(__file__).parents[1]
DASHBOARD = ROOT / "docker" / "grafana-dashboard.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_metrics_that_are_shown_or_told_of_exist(dashboard: dict[str, Any]) -> None:
    texts = (generate_latest(it.registry).decode() for it in (ServiceMetrics(), WorkerMetrics()))
    families = [it for text in texts for it in text_string_to_metric_families(text)]
    series = {f"{it.name}{end}" for it in families for end in SUFFIXES[it.type]}
    shown = set(re.findall(r"\bselfcrag_\w+", "\n".join(expressions(dashboard))))
    assert shown
    assert shown <= series
    for page in (ROOT / "docs").rglob("*.md"):
        told = set(re.findall(r"\bselfcrag_[a-z_]*[a-z]\b", page.read_text(encoding="utf-8")))
        assert told <= series | {it.name for it in families}, page


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
