"""A run done again from one of its steps on: what was found before is kept, the rest is anew."""

from collections.abc import Sequence
from typing import Any

import pytest

from graphs.types import Scores, Task
from tests import fakes
from tests.app.serving import Serve, Serving
from tests.umbra import ENGLISH, TOWER

BREAD = fakes.passage("Harbour bread dough rests for fourteen hours.", 2)


class GradesByPart(fakes.FakeEvaluator):
    """A text that answers one part of a question answers little of the whole."""

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        return Scores(tuple(self._score(question, text) for question, text in pairs))

    def _score(self, question: str, text: str) -> float:
        if "tower" in question and "bread" in question:
            return 0.1
        if "tower" in question:
            return 0.5 if "tower" in text else -0.9
        return 0.7 if "bread" in text else -0.9


class Watched:
    def __init__(self) -> None:
        self.retriever = fakes.FakeRetriever([TOWER, BREAD])
        self.evaluator = fakes.FakeEvaluator(known={TOWER.text: 0.5, BREAD.text: -0.9})
        self.services = fakes.services(self.retriever, evaluator=self.evaluator)


@pytest.fixture
def parts() -> Watched:
    return Watched()


@pytest.fixture
def serving(parts: Watched, serve: Serve) -> Serving:
    return serve(parts.services)


def fork(serving: Serving, run_id: str, **body: Any) -> Any:
    return serving.client.post(f"/runs/{run_id}/fork", json=body)


def steps_of(serving: Serving, forked: Any) -> list[tuple[str, bool]]:
    """Each step that ended, and whether it was reused."""
    told = serving.client.get(f"/runs/{forked.json()['run_id']}").json()["events"]
    ended = [it["data"] for it in told if it["data"].get("phase") == "end"]
    return [(it["step"], bool(it["detail"].get("reused"))) for it in ended]


@pytest.mark.parametrize("workflow", ["crag", "self_crag"])
def test_other_thresholds_make_another_action_of_the_same_grades(
    serving: Serving, parts: Watched, workflow: str
) -> None:
    first = serving.ask(ENGLISH, workflow=workflow, options={"upper": 0.4, "retrieve_k": 7})
    assert (first["action"], first["documents"][0]["id"]) == ("correct", TOWER.id)
    parts.evaluator.calls.clear()
    again = fork(serving, first["run_id"], options={"upper": 0.9, "lower": 0.8}).json()

    assert again["action"] == "incorrect"
    assert again["verdict"] == "abstained"
    assert again["documents"] == first["documents"]
    assert again["thresholds"]["upper"] == 0.9
    assert parts.evaluator.calls == [], "nothing is graded again"
    assert len(parts.retriever.asked) == 1, "nor searched"
    assert again["usage"]["scored_pairs"] == 0
    told = serving.client.get(f"/runs/{again['run_id']}").json()
    assert told["request"]["from_run"] == {"run_id": first["run_id"], "step": "grade"}
    assert told["request"]["options"] == {"upper": 0.9, "lower": 0.8, "retrieve_k": 7}
    assert told["thread_id"] != first["thread_id"]
    assert told["answer"] == again
    begun, kept = [event["data"] for event in told["events"] if event["name"] == "step"][:2]
    assert (begun["step"], begun["phase"], kept["phase"]) == ("grade", "start", "end")
    assert kept["detail"]["reused"]
    assert kept["detail"]["action"] == "incorrect"
    changed = serving.client.get(f"/runs/{first['run_id']}/diff/{again['run_id']}").json()
    assert "action" in [it["name"] for it in changed["decided"]]
    back = fork(serving, again["run_id"], options={"upper": 0.4, "lower": 0.3}).json()
    assert back["answer"] == first["answer"], "a fork is forked like any run"


def test_from_retrieval_on_the_same_passages_are_graded_anew(
    serving: Serving, parts: Watched
) -> None:
    first = serving.ask(ENGLISH, workflow="crag")
    parts.evaluator.calls.clear()
    again = fork(serving, first["run_id"], step="retrieve", stream=True)

    assert again.headers["content-type"].startswith("text/event-stream")
    assert "event: progress" in again.text
    assert parts.evaluator.calls
    assert len(parts.retriever.asked) == 1


def test_a_question_of_several_parts_is_graded_by_each_of_them_once(serve: Serve) -> None:
    evaluator = GradesByPart()
    found = fakes.FakeRetriever([TOWER, BREAD])
    serving = serve(fakes.services(found, evaluator=evaluator))
    question = "How tall is the red tower, and how long does the bread dough rest?"
    first = serving.ask(question, workflow="crag", options={"upper": 0.6, "lower": 0.2})
    events = serving.client.get(f"/runs/{first['run_id']}").json()["events"]
    graded = next(it["data"] for it in events if it["data"].get("detail", {}).get("grades"))
    assert graded["detail"]["grades"] == [[0.1, 0.1], [0.5, -0.9], [-0.9, 0.7]]
    assert first["action"] == "ambiguous", "of its parts one is answered"

    unrefined = {"upper": 0.5, "ablation": {"refinement": False}}
    again = fork(serving, first["run_id"], options=unrefined)
    assert again.json()["action"] == "correct", "each part is answered, though not the whole"
    assert again.json()["documents"] == first["documents"]
    assert steps_of(serving, again)[0] == ("grade", True), "the grades by each part are kept, too"
    whole_alone = fork(serving, first["run_id"], options={"ablation": {"grade_parts": False}})
    assert ("grade", False) in steps_of(serving, whole_alone), "other parts are graded anew"


def test_what_cannot_be_forked_is_refused(serving: Serving) -> None:
    plain = serving.ask(ENGLISH, workflow="rag")["run_id"]
    graded = serving.ask(ENGLISH, workflow="crag")["run_id"]
    refused = {
        "ungraded": fork(serving, plain),
        "crossed": fork(serving, graded, options={"upper": 0.1, "lower": 0.2}),
        "unknown step": fork(serving, graded, step="generate"),
        "unknown option": fork(serving, graded, options={"uper": 0.1}),
    }
    assert {name: it.status_code for name, it in refused.items()} == dict.fromkeys(refused, 422)
    assert refused["ungraded"].json()["errors"][0]["pointer"] == "#/step"
    assert fork(serving, "0" * 32).status_code == 404


def test_runs_are_found_by_question_and_outcome(serving: Serving) -> None:
    good = serving.ask(ENGLISH, workflow="crag", options={"upper": 0.4})["run_id"]
    poor = serving.ask("What is 100% of_it?", workflow="crag", options={"upper": 1, "lower": 1})

    def found(**wanted: str) -> list[str]:
        told = serving.client.get("/runs", params=wanted).json()
        assert told["total"] == len(told["runs"])
        return [run["run_id"] for run in told["runs"]]

    assert found(action="correct") == found(q="RED TOWER") == found(q=" umbra? ") == [good]
    assert found(q="100% of_it") == found(verdict="abstained") == [poor["run_id"]]
    assert found(status="failed") == found(q="%")[1:] == found(q="red_tower") == []
    assert found(workflow="crag", action="correct") == [good]
    listed = serving.client.get("/runs").json()["runs"]
    assert (listed[0]["action"], listed[0]["verdict"]) == ("incorrect", "abstained")
    assert serving.client.get("/runs", params={"action": "fine"}).status_code == 422
