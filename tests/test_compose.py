"""Compose files fit their specification, the images and the settings; nothing is started."""

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
    VARIABLES,
    check_variables,
    composed,
    given,
    ran,
    services,
)

OURS = ("setup", "app", "worker")
PARTS = {"postgres", "searxng", "milvus", "vllm"}
SERVICES = services()
EXAMPLE = (DOCKER / ".env.example").read_text(encoding="utf-8")
VARIABLE = r"\$\{(\w+)(:-)?"


def test_these_are_the_compose_files_and_they_follow_their_specification() -> None:
    files = sorted(DOCKER.glob("compose*.yaml"))
    assert {path.name for path in files} == {ALONE, ON_GPU}
    told = ran("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, files))
    assert told.returncode == 0, told.stdout


def test_by_default_the_service_and_a_worker_run() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == set(OURS)
    chosen = {name for service in SERVICES.values() for name in service.get("profiles", [])}
    assert chosen == PARTS


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_writes_to_its_volume_and_its_memory_alone(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert [mount.split(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    for volume in service.get("volumes", []):
        assert volume == f"state:{given('app.Dockerfile')['SELFCRAG_DATA_DIR']}"
    check_variables(service["environment"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_kept_within_bounds(name: str) -> None:
    service = SERVICES[name]
    assert "memory" in service["deploy"]["resources"]["limits"]
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc"}
    # The image of the service checks itself.
    assert "healthcheck" in service or name == "app"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_needs_is_there(name: str) -> None:
    volumes = {*composed(ALONE)["volumes"], *composed(ON_GPU)["volumes"]}
    for mounted in SERVICES[name].get("volumes", []):
        source = mounted.split(":")[0]
        assert source in volumes or (DOCKER / source).is_file(), source
    for other, how in SERVICES[name].get("depends_on", {}).items():
        chosen = SERVICES[other].get("profiles")
        assert chosen == SERVICES[name].get("profiles") or how["required"] is False, other


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("file", [ALONE, ON_GPU])
def test_what_is_built_is_one_of_our_images(name: str, file: str) -> None:
    service = composed(file)["services"].get(name, {})
    if build := service.get("build"):
        assert (DOCKER / build["context"]).resolve() == ROOT
        assert build["dockerfile"] in {f"docker/{image}" for image in IMAGES}
        assert service["image"].startswith("self-crag")


def test_there_is_time_to_end() -> None:
    assert _seconds("app") > Settings(_env_file=None).shutdown_grace_s + STOP_WITHIN_S + 5
    # The worker gives open requests ten seconds.
    assert _seconds("worker") > 10


def _seconds(name: str) -> int:
    return int(SERVICES[name]["stop_grace_period"].removesuffix("s"))


def test_only_the_service_can_be_reached_from_outside() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {
        "app": [f"{_default('ADDRESS', '127.0.0.1')}:{_default('PORTS', 8000)}:8000"]
    }
    assert PORTS["selfcrag"] == 8000


def _default(what: str, value: object) -> str:
    return f"${{PUBLISH_{what}:-{value}}}"


def test_the_worker_and_the_stores_reach_nothing_outside() -> None:
    assert composed(ALONE)["networks"] == {"inner": {"internal": True}}
    ways = {name: set(service["networks"]) for name, service in SERVICES.items()}
    inside = {name for name, networks in ways.items() if networks == {"inner"}}
    assert inside == {"worker", "postgres", "milvus", "etcd", "minio"}


def test_the_service_has_a_key_before_it_serves() -> None:
    assert "selfcrag keys ensure " in SERVICES["setup"]["command"][-1]
    assert SERVICES["app"]["command"] == ["selfcrag", "serve"]
    needed = SERVICES["app"]["depends_on"]["setup"]
    assert needed["condition"] == "service_completed_successfully"


def test_the_service_asks_the_worker_beside_it() -> None:
    port = PORTS["selfcrag-evaluator"]
    asked = SERVICES["app"]["environment"]["SELFCRAG_WORKER_URL"]
    assert asked == f"${{SELFCRAG_WORKER_URL:-http://worker:{port}}}"
    assert SERVICES["app"]["depends_on"]["worker"]["condition"] == "service_healthy"
    worker = SERVICES["worker"]
    assert worker["environment"]["SELFCRAG_EVALUATOR_PORT"] == str(port)
    assert f":{port}/health/ready" in worker["healthcheck"]["test"][-1]


def test_on_a_gpu_the_worker_is_of_the_other_image() -> None:
    worker = composed(ON_GPU)["services"]["worker"]
    (device,) = worker["deploy"]["resources"]["reservations"]["devices"]
    assert (device["count"], device["capabilities"]) == (1, ["gpu"])
    assert worker["build"]["dockerfile"] == "docker/evaluator.Dockerfile"
    assert worker["image"] != SERVICES["worker"]["image"]
    check_variables(worker["environment"])


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


def test_addresses_in_the_example_are_those_of_services() -> None:
    hosts = {*re.findall(r"=http://(\w+):\d+", EXAMPLE), *re.findall(r"@(\w+)/", EXAMPLE)}
    assert hosts == PARTS


def test_searxng_answers_in_json_and_knows_no_limit() -> None:
    (mounted, *_) = SERVICES["searxng"]["volumes"]
    chosen = yaml.safe_load((DOCKER / Path(mounted.split(":")[0])).read_text(encoding="utf-8"))
    assert "json" in chosen["search"]["formats"]
    assert chosen["server"]["limiter"] is False
