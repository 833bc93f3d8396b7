"""Quotas: what each owner may use in a while, and how its clients learn that it is used up."""

import pytest
from pydantic import ValidationError

from app.errors import QuotaExceeded
from app.runs.admission import Quotas
from app.settings import Settings
from graphs.types import Usage
from tests import fakes
from tests.app.serving import Serve
from tests.umbra import ENGLISH, TOWER


def test_a_run_beyond_the_quota_is_refused_with_the_time_to_wait(
    serve: Serve,
) -> None:
    serving = serve(
        fakes.services(fakes.FakeRetriever([TOWER])), Settings(_env_file=None, quota_runs="2/hour")
    )
    for _ in range(2):
        serving.ask(ENGLISH)
    refused = serving.client.post("/ask", json={"question": ENGLISH})
    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert 0 < int(refused.headers["Retry-After"]) <= 3600
    assert "2 runs per hour" in refused.json()["detail"]
    message = {"model": "crag", "messages": [{"role": "user", "content": ENGLISH}]}
    assert serving.client.post("/v1/chat/completions", json=message).status_code == 429


async def test_what_a_run_has_used_counts_for_its_owner_alone() -> None:
    quotas = Quotas({"tokens": "100/hour", "searches": "1/day"})
    await quotas.take("runs", "ann")
    await quotas.spend("ann", Usage(input_tokens=90, output_tokens=20))
    with pytest.raises(QuotaExceeded, match="100 tokens per hour"):
        await quotas.take("runs", "ann")
    await quotas.take("uploads", "ann")
    await quotas.spend("bob", Usage(web_searches=1))
    with pytest.raises(QuotaExceeded, match="1 searches per day"):
        await quotas.take("runs", "bob")
    await quotas.take("runs", "eve")


@pytest.mark.parametrize("text", ["many", "0/hour", "5/year", "-1/day", "5"])
def test_what_is_no_quota_is_refused_at_start(text: str) -> None:
    with pytest.raises(ValidationError):
        Settings(_env_file=None, quota_runs=text)
