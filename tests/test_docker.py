"""Images and compose files fit the repository; nothing is built here."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings import Settings
from evaluator.settings import EvaluatorSettings

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
IMAGES = sorted(path.name for path in DOCKER.glob("*.Dockerfile"))
COMPOSED = sorted(path.name for path in DOCKER.glob("compose*.yaml"))
VARIABLES = {
    f"{settings.model_config['env_prefix']}{name}".upper(): (settings, name)
    for settings in (Settings, EvaluatorSettings)
    for name in settings.model_fields
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(name: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of a Dockerfile, continued lines joined."""
    text = (DOCKER / name).read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, rest in re.findall(r"^([A-Z]+) (.*)$", text, re.M)]


def of(name: str, instruction: str) -> list[str]:
    return [rest for word, rest in instructions(name) if word == instruction]


def services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))["services"]
    return found


def check_variables(given: dict[str, str]) -> None:
    for variable, value in given.items():
        if variable.startswith("SELFCRAG_"):
            settings, name = VARIABLES[variable]
            settings(_env_file=None, **{name: value})


def test_there_are_images_and_compose_files() -> None:
    assert IMAGES == ["app.Dockerfile", "evaluator.Dockerfile"]
    assert COMPOSED == ["compose.gpu.yaml", "compose.yaml"]


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_made_of_what_is_there(name: str) -> None:
    assert of(name, "FROM") == ["python:3.11-slim"]
    for copied in of(name, "COPY"):
        *sources, _ = copied.split()
        assert all((ROOT / source).exists() for source in sources), copied
    installed = " ".join(of(name, "RUN"))
    for extra in re.findall(r"\.\[(\w+)\]", installed):
        assert extra in PROJECT["optional-dependencies"]
    for lock in re.findall(r"(?:-r|--constraint) (\S+)", installed):
        assert lock in " ".join(of(name, "COPY"))


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_a_command_of_ours_without_rights(name: str) -> None:
    (user,) = of(name, "USER")
    assert f"useradd --system {user}" in " ".join(of(name, "RUN"))
    words = [word for word, _ in instructions(name)]
    assert words.index("USER") > max(n for n, word in enumerate(words) if word == "RUN")
    assert any(program in of(name, "CMD")[0] for program in PROJECT["scripts"])


@pytest.mark.parametrize(
    ("name", "settings", "prefix"),
    [("app.Dockerfile", Settings, ""), ("evaluator.Dockerfile", EvaluatorSettings, "EVALUATOR_")],
)
def test_an_image_serves_and_is_checked_on_its_own_port(
    name: str, settings: type[Settings] | type[EvaluatorSettings], prefix: str
) -> None:
    given = dict(pair.split("=", 1) for pair in " ".join(of(name, "ENV")).split())
    check_variables(given)
    port = settings.model_fields["port"].default
    assert given[f"SELFCRAG_{prefix}HOST"] == "0.0.0.0"
    assert of(name, "EXPOSE") == [str(port)]
    assert f"http://127.0.0.1:{port}/health/ready" in of(name, "HEALTHCHECK")[0]


def test_the_evaluators_image_has_what_a_gpu_needs() -> None:
    assert "[gpu]" in " ".join(of("evaluator.Dockerfile", "RUN"))
    assert "SELFCRAG_EVALUATOR_BACKEND=torch" in of("evaluator.Dockerfile", "ENV")[0]
    gpu = services("compose.gpu.yaml")["evaluator"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert (device["count"], device["capabilities"]) == (1, ["gpu"])


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_services_fit_their_images(name: str) -> None:
    composed = services(name)
    for service in composed.values():
        context = (DOCKER / service["build"]["context"]).resolve()
        assert context == ROOT
        image = Path(service["build"]["dockerfile"]).name
        assert (context / service["build"]["dockerfile"]).is_file()
        check_variables(service.get("environment", {}))
        for published in service.get("ports", []):
            host, _, inner = published.split(":")
            assert host == "127.0.0.1", "no port is open to others unasked"
            assert of(image, "EXPOSE") == [inner]
        for mounted in service.get("volumes", []):
            assert f"SELFCRAG_DATA_DIR={mounted.split(':')[1]}" in of(image, "ENV")[0]
        assert set(service.get("depends_on", {})) <= set(composed)


def test_the_service_has_a_key_before_it_serves() -> None:
    """It listens for other machines, and refuses to without one."""
    command = of("app.Dockerfile", "CMD")[0]
    assert 0 < command.index("selfcrag keys ensure ") < command.index("selfcrag serve")


def test_the_service_asks_the_worker_beside_it() -> None:
    composed = services("compose.gpu.yaml")
    port = EvaluatorSettings.model_fields["port"].default
    assert composed["app"]["environment"]["SELFCRAG_WORKER_URL"] == f"http://evaluator:{port}"
    assert composed["app"]["depends_on"]["evaluator"]["condition"] == "service_healthy"
