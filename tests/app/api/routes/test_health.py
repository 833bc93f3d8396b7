"""Live is the process, ready is index and worker."""

from collections.abc import Callable

import pytest

from tests import fakes
from tests.app.serving import Serving

Serve = Callable[..., Serving]


def test_the_service_is_live_and_ready(service: Serving) -> None:
    for name in ("live", "ready"):
        response = service.client.get(f"/health/{name}")
        assert response.status_code == 200
        assert response.json() == {"status": name}


@pytest.mark.parametrize(
    ("retriever_fails", "evaluator_fails", "named", "unnamed"),
    [(True, False, "index", "evaluator"), (False, True, "evaluator", "index")],
)
def test_a_part_that_is_not_warm_is_named(
    serve: Serve, retriever_fails: bool, evaluator_fails: bool, named: str, unnamed: str
) -> None:
    parts = fakes.services(
        fakes.FakeRetriever(fails=retriever_fails),
        evaluator=fakes.FakeEvaluator(fails_from_call=1 if evaluator_fails else None),
    )
    client = serve(parts).client
    response = client.get("/health/ready")

    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) > 0
    assert named in response.json()["detail"]
    assert unnamed not in response.json()["detail"]
    assert client.get("/health/live").status_code == 200


def test_readiness_comes_back(serve: Serve) -> None:
    retriever = fakes.FakeRetriever(fails=True)
    client = serve(fakes.services(retriever)).client

    assert client.get("/health/ready").status_code == 503
    retriever.fails = False
    assert client.get("/health/ready").status_code == 200
