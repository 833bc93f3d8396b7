"""Compose files fit their specification, the images, the settings and the handbook."""

import json
import re
from pathlib import Path

import pytest
import yaml

from app.main import STOP_WITHIN_S
from app.settings import Settings
from tests.docker_files import (
    ALONE,
    DOCKER,
    IMAGES,
    ON_GPU,
    PORTS,
    ROOT,
    check_variables,
    composed,
    given,
    of,
    ran,
    services,
    stages,
)
from tests.variables import VARIABLES

OURS = ("setup", "app", "worker")
SERVICES = services()
EXAMPLE = (DOCKER / ".env.example").read_text(encoding="utf-8")
VARIABLE = r"\$\{(\w+)(:-)?"


def test_compose_files_follow_their_specification() -> None:
    files = map(str, DOCKER.glob("compose*.yaml"))
    told = ran("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)
    assert told.returncode == 0, told.stdout


@pytest.mark.parametrize("name", OURS)
def test_our_containers_write_to_their_state_alone(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert [mount.split(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    for volume in service.get("volumes", []):
        assert volume == f"state:{given('app.Dockerfile')['SELFCRAG_DATA_DIR']}"


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_kept_within_bounds(name: str) -> None:
    service = SERVICES[name]
    assert "memory" in service["deploy"]["resources"]["limits"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc"}
    assert "healthcheck" in service or name == "app", "whose image checks itself"
    assert "build" in service or re.search(r":\D*\d+[.-]\d+", service["image"]), "a version"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_needs_is_there(name: str) -> None:
    volumes = {*composed(ALONE)["volumes"], *composed(ON_GPU)["volumes"]}
    for mounted in SERVICES[name].get("volumes", []):
        source = mounted.split(":")[0]
        assert source in volumes or (DOCKER / source).is_file(), source
    for other, how in SERVICES[name].get("depends_on", {}).items():
        chosen = SERVICES[other].get("profiles")
        assert chosen == SERVICES[name].get("profiles") or how["required"] is False, other


@pytest.mark.parametrize("file", [ALONE, ON_GPU])
def test_our_containers_are_built_of_our_images(file: str) -> None:
    for name, service in composed(file)["services"].items():
        if build := service.get("build"):
            assert (DOCKER / build["context"]).resolve() == ROOT
            assert build["dockerfile"] in {f"docker/{image}" for image in IMAGES}
        if name in OURS:
            check_variables(service.get("environment", {}))


def test_there_is_time_to_end() -> None:
    assert _seconds("app") > Settings(_env_file=None).shutdown_grace_s + STOP_WITHIN_S + 5
    # The worker gives open requests ten seconds.
    assert _seconds("worker") > 10


def _seconds(name: str) -> int:
    return int(SERVICES[name]["stop_grace_period"].removesuffix("s"))


def test_only_the_service_can_be_reached_from_outside() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    port = PORTS["selfcrag"]
    address = "${PUBLISH_ADDRESS:-127.0.0.1}:${PUBLISH_PORTS:-"
    assert published == {"app": [f"{address}{port}}}:{port}"]}


def test_the_worker_and_the_stores_reach_nothing_outside() -> None:
    assert composed(ALONE)["networks"] == {"inner": {"internal": True}}
    ways = {name: set(service["networks"]) for name, service in SERVICES.items()}
    inside = {name for name, networks in ways.items() if networks == {"inner"}}
    assert inside == {"worker", "postgres", "milvus", "etcd", "minio"}


def test_the_service_starts_after_its_key_and_its_worker() -> None:
    app, worker = SERVICES["app"], SERVICES["worker"]
    needed = {name: how["condition"] for name, how in app["depends_on"].items()}
    assert needed["setup"] == "service_completed_successfully"
    assert needed["worker"] == "service_healthy"
    port = worker["environment"]["SELFCRAG_EVALUATOR_PORT"]
    assert f"http://worker:{port}" in app["environment"]["SELFCRAG_WORKER_URL"]
    assert f":{port}/health/ready" in worker["healthcheck"]["test"][-1]
    of_image = " ".join(json.loads(of(stages("app.Dockerfile")[-1], "CMD")[0]))
    assert SERVICES["setup"]["command"][-1] in of_image


def test_the_example_names_every_variable_and_no_other() -> None:
    """All have defaults: a part that is not chosen asks for nothing."""
    texts = [(DOCKER / name).read_text(encoding="utf-8") for name in (ALONE, ON_GPU)]
    used = dict(found for text in texts for found in re.findall(VARIABLE, text))
    assert all(used.values())
    example = dict(re.findall(r"^#([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert used.keys() - example.keys() == {"SELFCRAG_WORKER_URL"}
    for name in example.keys() - used.keys():
        assert name == "COMPOSE_PROFILES" or name in VARIABLES
    check_variables(example)
    hosts = {*re.findall(r"[=@]http://(\w+):\d+", EXAMPLE), *re.findall(r"@(\w+)/", EXAMPLE)}
    assert hosts <= SERVICES.keys()


def test_searxng_answers_in_json_without_a_limit() -> None:
    (mounted, *_) = SERVICES["searxng"]["volumes"]
    chosen = yaml.safe_load((DOCKER / Path(mounted.split(":")[0])).read_text(encoding="utf-8"))
    assert "json" in chosen["search"]["formats"]
    assert chosen["server"]["limiter"] is False


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_handbook_names_files_and_containers_there_are(language: str) -> None:
    text = (ROOT / "docs" / language / "how-to" / "deploy.md").read_text(encoding="utf-8")
    commands = re.findall(r"docker compose ((?:-f \S+ )*)(\w+)(.*)$", text, re.MULTILINE)
    assert commands
    for files, verb, rest in commands:
        assert all((ROOT / file).is_file() for file in files.split()[1::2])
        assert verb in {"up", "build"} or SERVICES.keys() & set(rest.split()), (verb, rest)
    profiles = {name for service in SERVICES.values() for name in service.get("profiles", [])}
    assert [name for name in profiles if f"`{name}`" not in text] == []
    assert {name for name, it in SERVICES.items() if "profiles" not in it} == set(OURS)
