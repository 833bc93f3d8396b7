"""The images and compose files, read for the tests that hold them to the repository."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from app.settings import Settings
from evaluator.settings import EvaluatorSettings
from tests.variables import KINDS, VARIABLES

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
ALONE, ON_GPU = "compose.yaml", "compose.gpu.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROGRAMS = {name: at.split(":")[0] for name, at in PROJECT["project"]["scripts"].items()}
PORTS = {
    "selfcrag": Settings.model_fields["port"].default,
    "selfcrag-evaluator": EvaluatorSettings.model_fields["port"].default,
}
# The programs each image is for, the one it starts first, and the list of what it installs.
IMAGES = {
    "app.Dockerfile": (("selfcrag", "selfcrag-evaluator"), "requirements.lock"),
    "evaluator.Dockerfile": (("selfcrag-evaluator",), "docker/evaluator.txt"),
}
# What settings make a program load by name in an image; the others start with what they import.
CHOSEN = {
    "app.Dockerfile": (
        *("app.cli.serve", "app.cli.keys", "app.cli.runs"),
        "evaluator.inference.onnx_scorer",
    ),
    "evaluator.Dockerfile": (
        "evaluator.inference.torch_scorer",
        "evaluator.inference.pretrained",
    ),
}
LIBRARIES = {"evaluator.Dockerfile": {"sentence_transformers"}}  # loaded by name as well

Stage = list[tuple[str, str]]
Service = dict[str, Any]


def stages(name: str) -> list[Stage]:
    """(instruction, arguments) of each stage of an image, continued lines joined."""
    text = (DOCKER / name).read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found: list[Stage] = []
    for word, rest in re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE):
        if word == "FROM":
            found.append([])
        found[-1].append((word, " ".join(rest.split())))
    return found


def of(stage: Stage, instruction: str) -> list[str]:
    return [rest for word, rest in stage if word == instruction]


def given(name: str) -> dict[str, str]:
    """The environment an image sets."""
    return dict(pair.split("=", 1) for pair in " ".join(of(stages(name)[-1], "ENV")).split())


def composed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text(encoding="utf-8"))
    return found


def services() -> dict[str, Service]:
    """All services; what the second file changes of the first's is left out."""
    return {**composed(ON_GPU)["services"], **composed(ALONE)["services"]}


def named(path: Path) -> set[str]:
    """The distributions a requirements file names, in lower case."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name_of(line) for line in lines if line and not line.startswith("#")}


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def check_variables(variables: dict[str, str]) -> None:
    """Fails where one is no setting of ours, or the settings refuse their values together."""
    chosen = {
        VARIABLES[variable]: value
        for variable, value in variables.items()
        if variable.startswith("SELFCRAG_") and value and "${" not in value
    }
    for kind in KINDS:
        values: dict[str, Any] = {name: value for (of, name), value in chosen.items() if of is kind}
        kind(_env_file=None, **values)


def ran(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment the tests run in, run to its end."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
