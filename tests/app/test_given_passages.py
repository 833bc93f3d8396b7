"""Knowledge of the caller's own, asked in place of the knowledge base."""

from collections.abc import Iterator

import pytest

from tests import fakes
from tests.app.serving import Serving, app_of
from tests.umbra import CHINESE, ENGLISH

STORED = fakes.passage("The red tower of Umbra is 87 metres tall.", 1)
GIVEN = {
    ENGLISH: ("The red tower of Umbra is 99 metres tall.", "99 metres"),
    CHINESE: ("乌木城的红塔高九十九米。", "九十九米"),
}


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(app_of(fakes.services(fakes.FakeRetriever([STORED])))) as serving:
        yield serving


@pytest.mark.parametrize("workflow", ["rag", "crag", "self_rag", "self_crag"])
@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_the_answer_comes_from_the_given_passages(
    serving: Serving, question: str, workflow: str
) -> None:
    text, fact = GIVEN[question]
    given = [{"text": text, "title": "Towers", "source": "https://towers.example/umbra"}]
    answer = serving.ask(question, workflow=workflow, passages=given)
    assert fact in answer["answer"]
    assert [it["id"] for it in answer["documents"]] == ["given-1"]
    (citation,) = answer["citations"]
    assert (citation["title"], citation["source"]) == ("Towers", given[0]["source"])
    assert "87" not in answer["answer"]


def test_passages_are_read_in_their_order_as_many_as_the_run_retrieves(serving: Serving) -> None:
    given = [{"text": f"Fact {n} of the red tower of Umbra."} for n in range(30)]
    answer = serving.ask(ENGLISH, workflow="rag", passages=given, options={"retrieve_k": 4})
    assert [it["id"] for it in answer["documents"]] == [f"given-{n}" for n in range(1, 5)]


@pytest.mark.parametrize(
    ("passages", "pointer"),
    [([{"text": ""}], "#/passages/0/text"), ([{"title": "Towers"}], "#/passages/0/text"),
     ([{"text": "a", "score": 1}], "#/passages/0/score"), ([{"text": "a"}] * 101, "#/passages")],
)  # fmt: skip
def test_what_is_no_passage_is_refused(
    serving: Serving, passages: list[dict[str, str]], pointer: str
) -> None:
    refused = serving.client.post("/ask", json={"question": ENGLISH, "passages": passages})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == pointer
