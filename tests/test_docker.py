"""Images fit the repository; their commands are run here, the images are not built."""

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.app.knowledge import write_pages
from tests.app.processes import BIN, Process, environment
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
from tests.loopback.server import free_port
from tests.reachable import OURS, distributions, reachable


def copied(name: str) -> set[str]:
    """What an image takes from the repository."""
    lines = [rest for stage in stages(name) for rest in of(stage, "COPY")]
    return {source for line in lines if "--from" not in line for source in line.split()[:-1]}


def test_images_pass_their_linter() -> None:
    told = ran("hadolint", *map(str, DOCKER.glob("*.Dockerfile")))
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("name", IMAGES)
def test_what_is_copied_is_there_and_reaches_the_builder(name: str) -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = [line[1:] for line in lines if line.startswith("!")]
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


def test_optional_parts_are_installed_as_tested() -> None:
    service, tested = named(ROOT / "requirements.lock"), ROOT / "requirements-dev.lock"
    pins = {line for line in tested.read_text(encoding="utf-8").splitlines() if line}
    extras = PROJECT["project"]["optional-dependencies"]
    gpu, otel = ({name_of(line) for line in extras[name]} for name in ("gpu", "otel"))
    core = {name_of(line) for line in PROJECT["project"]["dependencies"]}

    assert not service & {"torch", "transformers"}
    assert gpu <= named(DOCKER / "evaluator.txt") <= (gpu | core) & named(tested)
    assert otel <= named(DOCKER / "otel.txt")
    assert set((DOCKER / "otel.txt").read_text(encoding="utf-8").splitlines()[1:]) <= pins
    (milvus,) = re.findall(r'"(pymilvus==\S+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert milvus in (DOCKER / "milvus.txt").read_text(encoding="utf-8").splitlines()
    assert not service & (named(DOCKER / "milvus.txt") | named(DOCKER / "otel.txt"))


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_without_rights_on_its_port(name: str) -> None:
    *_, final = stages(name)
    port = str(PORTS[IMAGES[name][0][0]])

    assert int(of(final, "USER")[-1]) > 1000
    assert of(final, "EXPOSE") == [port]
    assert f"http://127.0.0.1:{port}/health/ready" in of(final, "HEALTHCHECK")[0]
    check_variables(given(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("app.Dockerfile", ""), ("evaluator.Dockerfile", "evaluator_")]
)
def test_what_an_image_starts_gets_ready(name: str, kind: str, tmp_path: Path) -> None:
    """Its command in its environment, on loopback; the service has a key before it serves."""
    write_pages(tmp_path / "docs")
    port, chosen = free_port(), given(name)
    own = {f"{kind}host": "127.0.0.1", f"{kind}port": port, "data_dir": tmp_path / "state"}
    assert chosen.pop(f"SELFCRAG_{kind}HOST".upper()) == "0.0.0.0"
    env = {**chosen, **environment(**own, search="off")}
    command = json.loads(of(stages(name)[-1], "CMD")[0])
    process = Process(command, tmp_path / "log", tmp_path, {**env, "PATH": f"{BIN}:{env['PATH']}"})
    url = f"http://127.0.0.1:{port}"
    try:
        process.wait_for(f"{url}/health/ready")
        if not kind:
            body = {"question": "How tall is the red tower of Umbra?"}
            assert httpx.post(f"{url}/ask", json=body, trust_env=False).status_code == 401
    finally:
        assert process.end() < 20


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
