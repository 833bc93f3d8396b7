"""Images fit the repository; nothing is built here."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from http.server import HTTPServer, SimpleHTTPRequestHandler
from threading import Thread

import pytest

from tests.docker_files import (
    CHOSEN,
    DOCKER,
    IMAGES,
    LIBRARIES,
    PORTS,
    PROGRAMS,
    PROJECT,
    ROOT,
    check_variables,
    given,
    name_of,
    named,
    of,
    ran,
    services,
    stages,
)
from tests.reachable import OURS, distributions, reachable

A_VERSION = re.compile(r"\d+\.\d+[.-]\w|RELEASE\.\d{4}-")


def copied(name: str) -> set[str]:
    """What an image takes from the repository."""
    lines = [rest for stage in stages(name) for rest in of(stage, "COPY")]
    return {source for line in lines if "--from" not in line for source in line.split()[:-1]}


def test_these_are_the_images() -> None:
    assert {path.name for path in DOCKER.glob("*.Dockerfile")} == set(IMAGES)


def test_images_pass_their_linter() -> None:
    told = ran("hadolint", *(str(DOCKER / name) for name in IMAGES))
    assert told.returncode == 0, told.stdout


def test_every_foreign_image_is_of_a_named_version() -> None:
    built_on = {of(stage, "FROM")[0].split()[0] for name in IMAGES for stage in stages(name)}
    assert len(built_on) == 1
    ran_beside = {service["image"] for service in services().values() if "build" not in service}
    for image in built_on | ran_beside:
        assert A_VERSION.search(image.rpartition("/")[2].partition(":")[2]), image


@pytest.mark.parametrize("name", IMAGES)
def test_what_is_copied_is_there_and_reaches_the_builder(name: str) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    for source in copied(name):
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, path) or path.startswith(f"{source}/") for path in let_in)


@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_imports_is_in_it(name: str) -> None:
    programs, requirements = IMAGES[name]
    modules, foreign = reachable([*(PROGRAMS[program] for program in programs), *CHOSEN[name]])

    assert {module.split(".")[0] for module in modules} == copied(name) & set(OURS)
    assert distributions(foreign | LIBRARIES.get(name, set())) <= named(ROOT / requirements)


def test_every_file_of_the_packages_is_installed() -> None:
    """Images hold an installed copy, not the source tree."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    for package in OURS:
        for path in (ROOT / package).rglob("*.*"):
            if path.is_file() and path.suffix not in {".py", ".pyc"}:
                names = (path.name, f"{path.parent.name}/{path.name}")
                assert any(fnmatch(name, wanted) for name in names for wanted in patterns), path


def test_the_services_image_has_no_torch() -> None:
    assert not {"torch", "transformers"} & named(ROOT / "requirements.lock")


def test_the_evaluators_image_has_what_a_gpu_needs() -> None:
    extra = {name_of(line) for line in PROJECT["project"]["optional-dependencies"]["gpu"]}
    known = extra | {name_of(line) for line in PROJECT["project"]["dependencies"]}
    installed = named(DOCKER / "evaluator.txt")
    assert extra <= installed <= known
    assert installed <= named(ROOT / "requirements-dev.lock")
    assert given("evaluator.Dockerfile")["SELFCRAG_EVALUATOR_BACKEND"] == "torch"


def test_the_client_of_milvus_is_the_tested_one() -> None:
    tested = re.findall(r'"(pymilvus==\S+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert tested
    assert tested[0] in (DOCKER / "milvus.txt").read_text(encoding="utf-8").splitlines()
    assert not named(DOCKER / "milvus.txt") & named(ROOT / "requirements.lock")


def test_the_export_of_spans_is_the_tested_one() -> None:
    lines = set((DOCKER / "otel.txt").read_text(encoding="utf-8").splitlines()[1:])
    assert lines <= set((ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines())
    extra = {name_of(line) for line in PROJECT["project"]["optional-dependencies"]["otel"]}
    assert extra <= named(DOCKER / "otel.txt")
    assert not named(DOCKER / "otel.txt") & named(ROOT / "requirements.lock")


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_without_rights_and_ends_when_told(name: str) -> None:
    *_, final = stages(name)
    words = [word for word, _ in final]
    (user,) = of(final, "USER")
    assert int(user) > 1000
    assert f"useradd --system --uid {user} " in of(final, "RUN")[0]
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN")
    assert of(final, "STOPSIGNAL") == ["SIGTERM"]
    assert IMAGES[name][0][0] in " ".join(json.loads(of(final, "CMD")[0]))


@pytest.mark.parametrize(
    ("name", "host"),
    [("app.Dockerfile", "SELFCRAG_HOST"), ("evaluator.Dockerfile", "SELFCRAG_EVALUATOR_HOST")],
)
def test_an_image_serves_and_is_checked_on_its_own_port(name: str, host: str) -> None:
    *_, final = stages(name)
    port = PORTS[IMAGES[name][0][0]]
    assert given(name)[host] == "0.0.0.0"
    check_variables(given(name))
    assert of(final, "EXPOSE") == [str(port)]
    assert f"http://127.0.0.1:{port}/health/ready" in of(final, "HEALTHCHECK")[0]


def test_no_check_of_health_goes_through_a_proxy() -> None:
    checks = [json.loads(of(stages(name)[-1], "HEALTHCHECK")[0].split("CMD")[1]) for name in IMAGES]
    checks += [services()[name]["healthcheck"]["test"][1:] for name in ("worker", "vllm")]
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for *_, code in checks:
            here = re.sub(r"http://[\w.:]+/[\w/]+", f"http://127.0.0.1:{server.server_port}/", code)
            command = [sys.executable, "-c", here]
            asked = subprocess.run(command, env={"http_proxy": "http://127.0.0.1:1"}, check=False)
            assert (here != code, asked.returncode) == (True, 0), code
        server.shutdown()


def test_the_service_has_a_key_before_it_serves() -> None:
    """It listens for other machines, and refuses to without one."""
    command = of(stages("app.Dockerfile")[-1], "CMD")[0]
    assert 0 < command.index("selfcrag keys ensure ") < command.index("exec selfcrag serve")
