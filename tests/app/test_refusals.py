"""What every wrong request to POST /ask is told: problem details, never a stack trace."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from graphs.state import Context
from tests import fakes
from tests.app.serving import Serve, Serving, app_of

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def fake() -> Iterator[Serving]:
    parts = fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")]))
    with Serving(app_of(parts)) as serving:
        yield serving
        assert serving.runs_under_way() == 0


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem, which must tell nothing of our code."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail"} <= set(problem)
    assert problem["status"] == status
    assert problem["detail"]
    assert "Traceback" not in response.text
    assert ".py" not in response.text
    return problem


def pointers(problem: dict[str, Any]) -> list[str]:
    assert all(error["detail"] for error in problem["errors"])
    return [error["pointer"] for error in problem["errors"]]


def sent(fake: Serving, body: str | bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    return fake.client.post("/ask", content=body, headers=headers or JSON)


WRONG_OPTIONS: list[tuple[str, Any]] = [
    ("upper", "0.5"),
    ("upper", True),
    ("upper", 20.5),
    ("upper", 10**400),
    ("lower", -20.5),
    ("retrieve_k", 0),
    ("retrieve_k", 101),
    ("retrieve_k", 10.0),
    ("retrieve_k", "10"),
    ("retrieve_k", True),
    ("retrieve_k", None),
    ("max_critic", 11),
    ("max_web_searches", -1),
    ("web", "sometimes"),
    ("deadline_ms", 99),
    ("deadline_ms", 600_001),
    ("ablation/refinement", 1),
    ("ablation/only_action", "maybe"),
    ("ablation/without_action", None),
    ("unheard_of", 1),
    ("Upper", 0.5),
    ("上限", 1),
]


@pytest.mark.parametrize(("name", "value"), WRONG_OPTIONS)
def test_a_wrong_option_is_named(fake: Serving, name: str, value: Any) -> None:
    group, _, inner = name.rpartition("/")
    options = {group: {inner: value}} if group else {name: value}
    body = {"question": "How tall?", "stream": name > "s", "options": options}
    problem = problem_of(sent(fake, json.dumps(body)), 422)

    assert pointers(problem) == [f"#/options/{name}"]


def test_every_option_is_held_to_its_type(fake: Serving) -> None:
    for name in Context.model_fields:
        body = {"question": "How tall?", "options": {name: {"no": "such"}}}
        (pointer,) = pointers(problem_of(sent(fake, json.dumps(body)), 422))
        # Of options with fields of their own it is the field that is named.
        assert pointer in (f"#/options/{name}", f"#/options/{name}/no")


def test_a_slash_in_an_options_name_is_escaped(fake: Serving) -> None:
    body = json.dumps({"question": "How tall?", "options": {"a/b~c": 1}})
    assert pointers(problem_of(sent(fake, body), 422)) == ["#/options/a~1b~0c"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("name", ["upper", "retrieve_k"])
def test_an_option_is_a_finite_number(fake: Serving, name: str, value: str) -> None:
    body = f'{{"question": "How tall?", "options": {{"{name}": {value}}}}}'
    assert pointers(problem_of(sent(fake, body), 422)) == [f"#/options/{name}"]


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"upper": 0.1, "lower": 0.2}, "#/options/lower"),
        ({"lower": fakes.THRESHOLDS.upper + 0.1}, "#/options/lower"),
        ({"upper": fakes.THRESHOLDS.lower - 0.1}, "#/options/upper"),
    ],
)
def test_lower_may_not_lie_above_upper(
    fake: Serving, options: dict[str, float], pointer: str
) -> None:
    body = json.dumps({"question": "How tall?", "options": options})
    assert pointers(problem_of(sent(fake, body), 422)) == [pointer]


def test_equal_thresholds_are_allowed(fake: Serving) -> None:
    assert fake.ask("How tall?", options={"upper": 0.2, "lower": 0.2})["thresholds"]["lower"] == 0.2


@pytest.mark.parametrize(
    "question",
    [
        *("", " \n\t\r ", "\u3000\u00a0", "a" * 8001, "塔" * 8001, "a" * 100_000),
        *("a\x00b", "\x0bab", "ab\x0c", "\x1fab", "a\x1bb", "a\x7fb", "ab\x85", "\x9fab"),
        *(3, None, True, ["How?"], {"text": "How?"}),
    ],
)
def test_a_question_is_text_of_bounded_length(fake: Serving, question: Any) -> None:
    problem = problem_of(sent(fake, json.dumps({"question": question})), 422)

    assert pointers(problem) == ["#/question"]
    assert len(json.dumps(problem)) < 1000, "what was sent is not sent back"


@pytest.mark.parametrize("question", ["a" * 8000, "塔" * 8000, f"{' ' * 9000}How?\n", "a\tb\r\nc"])
def test_a_question_is_measured_after_trimming(fake: Serving, question: str) -> None:
    assert fake.ask(question)["answer"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ("{}", "#/question"),
        ('{"question": "a\\ud800b"}', "#/question"),
        ('{"question": "How?", "workflow": "nope"}', "#/workflow"),
        ('{"question": "How?", "workflow": "reflect"}', "#/workflow"),
        ('{"question": "How?", "workflow": "\\ud800"}', "#/workflow"),
        ('{"question": "How?", "workflow": 1}', "#/workflow"),
        ('{"question": "How?", "stream": "true"}', "#/stream"),
        ('{"question": "How?", "detach": 1}', "#/detach"),
        ('{"question": "How?", "thread_id": ""}', "#/thread_id"),
        ('{"question": "How?", "thread_id": "a b"}', "#/thread_id"),
        ('{"question": "How?", "thread_id": "../../etc"}', "#/thread_id"),
        ('{"question": "How?", "thread_id": "a\\n"}', "#/thread_id"),
        ('{"question": "How?", "options": null}', "#/options"),
        ('{"question": "How?", "options": {"\\ud800": 1}}', "#/options"),
        ('{"question": "How?", "top_k": 3}', "#/top_k"),
        ('{"question": "How?", "\\ud800": 3}', "#"),
        ("[]", "#"),
        ("null", "#"),
        ("", "#"),
        ('{"question": "How?"', "#"),
        ('{"question": "How?",}', "#"),
        ("question=How", "#"),
    ],
)
def test_a_wrong_body_is_pointed_at(fake: Serving, body: str, pointer: str) -> None:
    assert pointers(problem_of(sent(fake, body), 422)) == [pointer]


def test_all_that_is_wrong_is_told_at_once(fake: Serving) -> None:
    body = json.dumps({"question": "", "options": {"upper": "x", "web": 1, "nope": 2}})
    assert set(pointers(problem_of(sent(fake, body), 422))) == {
        *("#/question", "#/options/upper", "#/options/web", "#/options/nope")
    }


def test_a_thousand_wrong_fields_do_not_make_a_huge_answer(fake: Serving) -> None:
    body = json.dumps({"question": "How?", "options": {f"x{n}": n for n in range(1000)}})
    assert len(sent(fake, body).content) < 10_000


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, '{"question":' * 15_000, b'{"question": "\xff\xfe"}', '{"question": 9e' * 99],
    ids=["lists", "objects", "no UTF-8", "no end"],
)
def test_a_body_that_cannot_be_parsed_is_a_problem(fake: Serving, body: str | bytes) -> None:
    response = sent(fake, body)
    problem_of(response, response.status_code)
    assert response.status_code in {400, 422}


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_the_body_must_be_sent_as_json(fake: Serving, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    response = fake.client.post("/ask", content=b'{"question": "How?"}', headers=headers)
    assert problem_of(response, 422)["errors"]


def test_unknown_paths_and_methods_are_problems(fake: Serving) -> None:
    problem_of(fake.client.get("/nowhere"), 404)
    response = fake.client.get("/ask")
    problem_of(response, 405)
    assert response.headers["allow"] == "POST"
    problem_of(fake.client.delete("/workflows"), 405)


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/documents/x", "GET, DELETE"), ("/documents", "GET, POST"), ("/page/main.mjs", "GET, HEAD")],
)
def test_a_refused_method_names_all_that_its_path_has(
    fake: Serving, path: str, methods: str
) -> None:
    response = fake.client.put(path)
    problem_of(response, 405)
    assert response.headers["allow"] == methods


def test_a_body_over_the_limit_is_413_announced_or_not(fake: Serving) -> None:
    large = json.dumps({"question": "a" * 1_000_001}).encode()
    announced = problem_of(sent(fake, large), 413)
    chunks = (large[start : start + 10_000] for start in range(0, len(large), 10_000))
    chunked = problem_of(fake.client.post("/ask", content=chunks, headers=JSON), 413)

    assert announced == chunked
    assert "1,000,000 bytes" in announced["detail"]


def test_a_fault_of_ours_tells_no_details(serve: Serve) -> None:
    retriever = fakes.FakeRetriever([fakes.passage("Tall.")])
    serving = serve(fakes.services(retriever, evaluator=fakes.BrokenEvaluator()))
    response = serving.client.post("/ask", json={"question": "How tall?"})
    problem = problem_of(response, 500)

    assert "a fault of ours" not in response.text
    assert "ZeroDivisionError" not in response.text
    assert "run" in problem["detail"], "says what to quote"
    events = serving.stream("How tall?")
    names = [event.name for event in events]
    assert (names[0], names[-2:]) == ("run", ["error", "done"])
    assert "answer" not in names
    assert [event.number for event in events] == list(range(len(events)))
    assert {"type", "title", "status", "detail"} <= set(events[-2].data)
    assert events[-2].data["status"] == 500
    assert "a fault of ours" not in json.dumps([event.data for event in events])


@pytest.mark.parametrize(
    ("languages", "title"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "请求无效"),
        ("fr, zh", "请求无效"),
        ("en-GB,zh", "Invalid request"),
        ("fr", "Invalid request"),
        (";,,zh-", "请求无效"),
    ],
)
def test_refusals_speak_the_client_s_language(fake: Serving, languages: str, title: str) -> None:
    headers = {**JSON, "Accept-Language": languages}
    problem = problem_of(sent(fake, '{"question": "q", "options": {"upper": 21}}', headers), 422)

    assert problem["title"] == title
    assert problem["detail"] == f"#/options/upper: {problem['errors'][0]['detail']}"
    is_chinese = title == "请求无效"
    assert problem["errors"][0]["detail"].startswith("应小于" if is_chinese else "Input should")
