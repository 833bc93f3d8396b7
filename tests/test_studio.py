"""LangGraph Studio's server over our graphs, as `make studio` starts it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graphs.state import Context
from tests.app.conftest import NOWHERE
from tests.app.processes import BIN, ROOT, Process, checkout, environment
from tests.loopback.server import free_port
from tests.umbra import CHINESE, ENGLISH

pytestmark = pytest.mark.slow

CONFIG = ROOT / "langgraph.json"
QUIET = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Started by the recipe of `make studio`, which has no port of its own to set."""
    home = checkout(tmp_path_factory.mktemp("studio"))
    env = environment(search=NOWHERE)
    dry_run = subprocess.run(
        ["make", "--dry-run", "studio"],
        cwd=home,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    # The server watches its folder: a log in there would be told of itself.
    log = tmp_path_factory.mktemp("log") / "log"
    port = free_port()
    recipe = f"{dry_run.stdout.rstrip()} --port {port}"
    process = Process(["bash", "-euc", recipe], log, home, env)
    process.url = f"http://127.0.0.1:{port}"
    try:
        yield process.wait_for(f"{process.url}/ok")
    finally:
        process.end()


@pytest.fixture(scope="module")
def client(server: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        yield client


def run(client: httpx.Client, graph: str, given: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"assistant_id": graph, "input": given, **fields}
    response = client.post("/runs/wait", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert "__error__" not in answer
    return answer


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    checked = subprocess.run(
        [str(BIN / "langgraph"), "validate", "--config", str(CONFIG)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=environment() | QUIET,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "7 graphs" in checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("graph", "question", "said"),
    [
        ("rag", ENGLISH, "87 metres"),
        ("crag", CHINESE, "八十七米"),
        ("self_rag", CHINESE, "八十七米"),
        ("self_crag", ENGLISH, "87 metres"),
        ("reflect", ENGLISH, "87 metres"),
    ],
)
def test_a_graph_answers(client: httpx.Client, graph: str, question: str, said: str) -> None:
    answer = run(client, graph, {"question": question})

    assert said in answer["answer"]
    assert answer["citations"][0]["source"].endswith("tower.md")
    assert answer.get("action") == ("correct" if graph in {"crag", "self_crag"} else None)
    assert bool(answer.get("critique")) == (graph not in {"rag", "crag"})


def test_tunables_are_the_runs_context(client: httpx.Client) -> None:
    context = {"retrieve_k": 2, "ablation": {"only_action": "incorrect"}}
    answer = run(client, "crag", {"question": ENGLISH}, context=context)

    assert len(answer["documents"]) == 2
    assert answer["action"] == "incorrect"
    assert answer["stopped_by"] == "no_evidence"


def test_the_chat_view_answers_with_its_sources(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": ENGLISH}]
    answer = run(client, "messages", {"messages": messages})
    said = answer["messages"][-1]

    assert said["type"] == "ai"
    assert "87 metres" in said["content"]
    assert "tower.md" in said["content"]


def test_a_thread_is_answered_afresh_each_time(client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "crag", "input": {"question": ENGLISH}}
    first, second = (
        client.post(f"/threads/{thread}/runs/wait", json=body).json() for _ in range(2)
    )

    assert first["answer"] == second["answer"]
    assert first["usage"] == second["usage"], "only what the run itself spent"


def test_a_state_edited_after_grading_goes_on_from_there(client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "crag", "input": {"question": ENGLISH}, "interrupt_after": ["grade"]}
    client.post(f"/threads/{thread}/runs/wait", json=body)
    paused = client.get(f"/threads/{thread}/state").json()
    edit = {"values": {"action": "incorrect"}, "as_node": "grade"}
    client.post(f"/threads/{thread}/state", json=edit).raise_for_status()
    edited = client.get(f"/threads/{thread}/state").json()
    answer = client.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "crag"}).json()

    assert (paused["values"]["action"], paused["next"]) == ("correct", ["refine"])
    assert edited["next"] != ["refine"]
    assert (answer["action"], answer["stopped_by"]) == ("incorrect", "no_evidence")


def test_documents_edited_as_json_are_refined(client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "crag", "input": {"question": ENGLISH}, "interrupt_after": ["grade"]}
    client.post(f"/threads/{thread}/runs/wait", json=body)
    documents = client.get(f"/threads/{thread}/state").json()["values"]["documents"][:1]
    documents[0]["text"] = "The red tower of Umbra is 88 metres tall since last year."
    edit = {"values": {"documents": documents}, "as_node": "grade"}
    client.post(f"/threads/{thread}/state", json=edit).raise_for_status()
    answer = client.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "crag"}).json()

    assert "88 metres" in answer["answer"]


def test_a_breakpoint_inside_reflect_holds(client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": "reflect", "input": {"question": ENGLISH}}
    client.post(f"/threads/{thread}/runs/wait", json=body | {"interrupt_before": ["critique"]})
    paused = client.get(f"/threads/{thread}/state", params={"subgraphs": True}).json()
    answer = client.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "reflect"}).json()

    assert paused["next"] == ["reflect"]
    assert paused["tasks"][0]["state"]["next"] == ["critique"]
    assert answer["critique"]


def test_a_second_question_is_understood_from_the_first(client: httpx.Client) -> None:
    thread = client.post("/threads", json={}).json()["thread_id"]
    for question in (ENGLISH, "How tall is it?"):
        body = {"assistant_id": "crag", "input": {"question": question}}
        answer = client.post(f"/threads/{thread}/runs/wait", json=body).json()

    assert "red tower of Umbra" in answer["standalone_question"]
    assert "87 metres" in answer["answer"]


def test_steps_can_be_watched(client: httpx.Client) -> None:
    body = {
        "assistant_id": "crag",
        "input": {"question": ENGLISH},
        "stream_mode": ["updates", "custom"],
    }
    with client.stream("POST", "/runs/stream", json=body) as response:
        text = response.read().decode()
    for node in ("retrieve", "grade", "refine", "generate"):
        assert f'data: {{"{node}":' in text
    assert '"token"' in text


@pytest.mark.parametrize("graph", ["rag", "crag", "self_rag", "self_crag", "reflect", "messages"])
def test_studio_is_told_the_tunables_with_their_ranges(client: httpx.Client, graph: str) -> None:
    found = client.post("/assistants/search", json={"graph_id": graph}).json()
    schemas = client.get(f"/assistants/{found[0]['assistant_id']}/schemas").json()
    properties = schemas["context_schema"]["properties"]

    assert set(properties) == set(Context.model_fields)
    assert all(field["description"] for field in properties.values())
    assert (properties["max_critic"]["minimum"], properties["max_critic"]["maximum"]) == (0, 10)
    assert properties["web"]["enum"] == ["auto", "never", "always"]


def test_our_service_is_mounted_beside(client: httpx.Client) -> None:
    told = client.get("/workflows").json()["workflows"]
    names = ["rag", "crag", "self_rag", "self_crag", "illustrate"]
    assert [workflow["name"] for workflow in told] == names
    assert client.get("/health/ready").json() == {"status": "ready"}
    answer = client.post("/ask", json={"question": CHINESE}).json()
    assert "八十七米" in answer["answer"]
    problem = client.post("/ask", json={"question": CHINESE, "options": {"upper": "x"}})
    assert problem.status_code == 422
    assert problem.json()["errors"][0]["pointer"] == "#/options/upper"


def test_nothing_blocked_the_event_loop(server: Process, client: httpx.Client) -> None:
    run(client, "crag", {"question": CHINESE})

    assert "BlockingError" not in server.said
    assert "Blocking call" not in server.said
    assert "Traceback" not in server.said


# Last, for the server logs the traceback of what a graph raises.
@pytest.mark.parametrize("question", [{}, {"question": " "}])
def test_an_empty_question_is_one_clear_error(
    client: httpx.Client, question: dict[str, str]
) -> None:
    body = {"assistant_id": "crag", "input": question}
    failed = client.post("/runs/wait", json=body).json()

    assert failed["__error__"]["message"].startswith("question is empty")
