"""Each request has an id: its own or a new one, told in the response and in the lines it logs."""

import logging
from collections.abc import Iterator

import pytest

from app.observability.logging import TextFormatter, request_fields
from graphs.ports import Services
from tests import fakes
from tests.app.serving import Serve, Serving

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Lines(logging.Handler):
    """What is logged, as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(TextFormatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler, log = Lines(), logging.getLogger("app")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler.lines
    log.removeHandler(handler)
    log.setLevel(level)


def parts() -> Services:
    return fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is 87 m tall.")]))


@pytest.mark.parametrize("sent", ["req-1", "~" * 128, 'a"b=c;d'])
def test_a_sane_id_is_taken(service: Serving, sent: str) -> None:
    response = service.client.get("/health/live", headers={"X-Request-ID": sent})
    assert response.headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", "~" * 129, "two words", "灯塔", "a\tb"])
def test_another_is_replaced(service: Serving, sent: str) -> None:
    headers = {b"X-Request-ID": sent.encode()}
    response = service.client.get("/health/live", headers=headers)
    made = response.headers["x-request-id"]
    assert len(made) == 32
    assert made.isalnum()


def test_refusals_and_faults_have_one_as_well(serve: Serve, lines: list[str]) -> None:
    """Of a fault of ours the line with the request tells what it was, and that line alone."""
    client = serve(fakes.services(fakes.BrokenRetriever())).client
    for path, status in (("/nowhere", 404), ("/runs/none", 422), ("/health/ready", 500)):
        response = client.get(path, headers={"X-Request-ID": "mine"})
        assert response.status_code == status
        assert response.headers.get_list("x-request-id") == ["mine"]
        assert "ZeroDivision" not in response.text

    (line,) = (line for line in lines if "failed" in line)
    assert line.splitlines()[0] == "ERROR GET /health/ready failed request_id=mine"
    assert "ZeroDivisionError" in line


def test_lines_of_a_run_tell_the_request_and_its_trace(serve: Serve, lines: list[str]) -> None:
    client = serve(parts()).client
    headers = {"X-Request-ID": "req-7", "traceparent": TRACEPARENT}
    client.post("/ask", json={"question": "How tall is the tower?"}, headers=headers)
    client.post("/ask", json={"question": "How tall is the tower?"})

    first, second = (line for line in lines if "run ended" in line)
    assert first.endswith(f" request_id=req-7 trace_id={TRACE}")
    assert "req-7" not in second
    assert "trace_id" not in second


def test_what_is_no_trace_is_not_told(serve: Serve, lines: list[str]) -> None:
    client = serve(parts()).client
    for sent in (f"00-{'0' * 32}-00f067aa0ba902b7-01", "none", TRACEPARENT.upper()):
        client.post("/ask", json={"question": "How tall?"}, headers={"traceparent": sent})
    assert not any("trace_id" in line for line in lines)


def test_outside_of_requests_there_is_none() -> None:
    assert request_fields.get({}) == {}
