"""The Makefile: what `make help` lists and what the targets would do; nothing is made here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = {"run", "test", "test-extra", "install", "check"} | {
    *("serve", "worker", "studio", "ingest", "bench", "bench-night", "help")
}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Makefile in which nothing is installed, or seems to be."""
    folder = tmp_path_factory.mktemp("make")
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


def told(folder: Path, *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        ["make", *words],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def seem_installed(folder: Path, *stamps: str) -> None:
    """As after an installation: the stamps are newer than what they depend on."""
    shutil.rmtree(folder / ".venv", ignore_errors=True)
    (folder / ".venv/bin").mkdir(parents=True)
    for name in ("bin/python", *stamps):
        (folder / ".venv" / name).touch()


@pytest.mark.parametrize("words", [(), ("help",)])
def test_help_lists_every_target_with_what_it_does(make: Path, words: tuple[str, ...]) -> None:
    lines = told(make, *words).splitlines()
    listed = dict(re.fullmatch(r"(\S+)\s{2,}(\S.*)", line).groups() for line in lines)  # type: ignore[union-attr]

    assert set(listed) >= TARGETS
    assert all(len(text) > 10 for text in listed.values())


def test_every_target_is_phony(make: Path) -> None:
    text = (make / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()) >= TARGETS


def test_run_installs_ingests_and_serves_in_this_order(make: Path) -> None:
    shutil.rmtree(make / ".venv", ignore_errors=True)
    plan = told(make, "--dry-run", "run")
    order = [
        plan.index(step)
        for step in (
            "-m venv .venv",
            "install --quiet -r requirements.lock",
            "exec .venv/bin/selfcrag serve --ingest docs",
        )
    ]

    assert order == sorted(order)
    assert "requirements-dev" not in plan
    assert "torch" not in plan
    assert not (make / ".venv").exists(), "a dry run"


def test_run_again_installs_nothing(make: Path) -> None:
    seem_installed(make, ".run")
    plan = told(make, "--dry-run", "run")

    assert "pip" not in plan
    assert "venv .venv" not in plan
    assert "selfcrag serve --ingest docs" in plan


def test_a_changed_lock_is_installed(make: Path) -> None:
    seem_installed(make, ".run")
    os.utime(make / ".venv/.run", (1, 1))
    assert "install --quiet -r requirements.lock" in told(make, "--dry-run", "run")


def test_serve_neither_installs_nor_ingests(make: Path) -> None:
    shutil.rmtree(make / ".venv", ignore_errors=True)
    assert told(make, "--dry-run", "serve").split() == ["exec", ".venv/bin/selfcrag", "serve"]


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("worker", "exec .venv/bin/selfcrag-evaluator serve"),
        ("studio", "langgraph dev"),
        ("ingest", ".venv/bin/selfcrag ingest docs"),
        ("bench", "-m benchmarks.first_answer"),
        ("bench-night", "-m benchmarks.$part || exit 1"),
        ("test", "-m pytest"),
        (
            "test-extra",
            "pytest -n 2 --dist loadfile --max-worker-restart=0 "
            '-m "(slow or postgres or browser or node) and not gpu"',
        ),
        ("check", ".venv/bin/mypy"),
    ],
)
def test_a_target_runs_its_command(make: Path, target: str, command: str) -> None:
    seem_installed(make, ".run", ".dev", ".extra")
    plan = told(make, "--dry-run", target)

    assert command in plan
    assert "pip" not in plan


def test_the_tests_need_pip_alone(make: Path) -> None:
    shutil.rmtree(make / ".venv", ignore_errors=True)
    plan = told(make, "--dry-run", "test")

    assert "requirements-dev.lock" in plan
    assert not {"apt", "apt-get", "npm", "sudo", "docker"} & set(plan.split())


def test_the_ci_script_checks_and_tests_everything() -> None:
    script = ROOT / ".ci/run"
    text = script.read_text(encoding="utf-8")

    assert os.access(script, os.X_OK)
    assert "make check test test-extra" in text
    assert "--no-skips" in text
