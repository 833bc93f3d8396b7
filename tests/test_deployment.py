"""Deployment and operating in the handbook tell of containers, files and metrics that there are."""

import re

import pytest

from app.observability.metrics import ServiceMetrics
from evaluator.serving.metrics import WorkerMetrics
from tests.docker_files import ROOT, services

EXAMPLE = (ROOT / "docker/.env.example").read_text(encoding="utf-8")
LANGUAGES = ("en", "zh")
SERVICES = services()


def page(language: str, name: str = "deployment") -> str:
    return (ROOT / "docs" / language / f"{name}.md").read_text(encoding="utf-8")


def commands(language: str) -> list[list[str]]:
    return [line.split() for line in re.findall(r"docker compose (.*)$", page(language), re.M)]


def test_commands_are_the_same_in_both_languages() -> None:
    assert commands("en") == commands("zh")
    assert len(commands("en")) > 10


@pytest.mark.parametrize("words", commands("en"), ids=" ".join)
def test_a_command_names_files_and_containers_that_are_there(words: list[str]) -> None:
    while words[0] == "-f":
        assert (ROOT / words[1]).is_file()
        words = words[2:]
    verb, *rest = words
    assert verb in {"up", "build", "logs", "run", "exec", "stop", "start"}
    if verb in {"logs", "run", "exec", "stop", "start"}:
        assert SERVICES.keys() & set(rest)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_part_is_told_with_what_it_needs(language: str) -> None:
    told = dict(re.findall(r"^- (?:The profile )?`(\w+)` (.*)$", page(language), re.M))
    for part in {name for service in SERVICES.values() for name in service.get("profiles", [])}:
        variables = re.findall(r"`([A-Z_]+)`", told[part])
        assert variables
        assert all(f"#{name}=" in EXAMPLE for name in variables)


@pytest.mark.parametrize("language", LANGUAGES)
def test_metrics_that_are_watched_exist(language: str) -> None:
    text = page(language) + page(language, "operating")
    named = set(re.findall(r"\bselfcrag_[a-z_]+", text))
    series = {
        sample
        for metrics in (ServiceMetrics(), WorkerMetrics())
        for family in metrics.registry.collect()
        for sample in _samples(family.name, family.type)
    }
    assert len(named) > 5
    assert named <= series


def _samples(name: str, kind: str) -> set[str]:
    return {name, f"{name}_total"} if kind == "counter" else {name, f"{name}_bucket"}
