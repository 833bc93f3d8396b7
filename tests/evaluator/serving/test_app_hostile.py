"""The real worker around a tiny checkpoint, given what it should survive."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import httpx
import pytest

from evaluator.inference.scorer import Scorer
from evaluator.schema import Row, RowScore, Task
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings
from tests.evaluator.in_process import asking

NEIGHBOURS = [["how long is the river?", "the river is long."], ["河流很长？", "河流很长"]]
JSON = {"content-type": "application/json"}


class Touchy:
    """The tiny checkpoint, but its forward raises on rows of a certain token."""

    def __init__(self, scorer: Scorer) -> None:
        self.name, self.digest = scorer.name, scorer.digest
        self.tasks, self.encode = scorer.tasks, scorer.encode
        self._scorer, self.is_broken = scorer, False
        (poison,) = self.encode("relevance", [("zzz", "zzz")])
        assert isinstance(poison, Row)
        self.poison = poison

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        if self.is_broken or self.poison in rows:
            raise FloatingPointError("not for clients")
        return self._scorer.forward(task, rows)


async def serving(
    scorer: Scorer, *, cached_pairs: int = 20_000, **settings: object
) -> AsyncIterator[httpx.AsyncClient]:
    limits = Limits(cached_pairs=cached_pairs)
    app = create_app(EvaluatorSettings.model_validate(settings), scorer, limits=limits)
    async with asking(app) as http:
        yield http


@pytest.fixture
async def worker(tiny: Scorer) -> AsyncIterator[httpx.AsyncClient]:
    async for http in serving(tiny, cached_pairs=0):
        yield http


@pytest.fixture
async def touchy(tiny: Scorer) -> AsyncIterator[httpx.AsyncClient]:
    async for http in serving(Touchy(tiny)):
        yield http


async def answer(http: httpx.AsyncClient, pairs: object, task: Task = "relevance") -> dict:  # type: ignore[type-arg]
    response = await http.post("/score", json={"task": task, "pairs": pairs})
    assert response.status_code == 200, response.text
    return dict(response.json())


@pytest.mark.parametrize(
    "text",
    [
        "</s>", "a </s> b <pad> [SEP] [task:utility] [Relevant]", "\x00", "a\x00b", "\ufffe\uffff",
        "\u202e\u200b", "a" * 1_000_000, "河" * 300_000, "a " * 500_000, "🤷" * 1000, "", " \n\t ",
    ],
)  # fmt: skip
@pytest.mark.parametrize("side", [0, 1])
async def test_a_hostile_text_touches_no_neighbour(
    worker: httpx.AsyncClient, text: str, side: int
) -> None:
    hostile = [text, "the river"] if side == 0 else ["how long?", text]
    alone = await answer(worker, NEIGHBOURS)
    beside = await answer(worker, [NEIGHBOURS[0], hostile, NEIGHBOURS[1]])
    assert [beside["scores"][0], beside["scores"][2]] == pytest.approx(alone["scores"], abs=1e-5)
    failed = {error["index"] for error in beside["errors"]}
    assert failed == ({1} if beside["scores"][1] is None else set())
    assert text.strip() or failed == {1}


async def test_half_a_surrogate_pair_is_read_as_a_question_mark(worker: httpx.AsyncClient) -> None:
    odd = r"""{"task": "relevance", "pairs": [["river\ud800 ?", "long\udfff"]]}"""
    found = await worker.post("/score", content=odd.encode(), headers=JSON)
    plain = await answer(worker, [["river? ?", "long?"]])
    assert found.json()["scores"] == pytest.approx(plain["scores"], abs=1e-6)


@pytest.mark.parametrize(
    "body",
    [b'{"task": "relevance", "pairs": [["\xff\xfe", "a"]]}', b"\xed\xa0\x80", b"\x00", b"[" * 9000],
)
async def test_bytes_that_are_no_text_are_422(worker: httpx.AsyncClient, body: bytes) -> None:
    response = await worker.post("/score", content=body, headers=JSON)
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert (await answer(worker, NEIGHBOURS))["errors"] == []


async def test_ten_thousand_pairs_are_413_and_counted(worker: httpx.AsyncClient) -> None:
    body = {"task": "relevance", "pairs": [["a", "b"]] * 10_000}
    response = await worker.post("/score", json=body)
    assert response.status_code == 413
    assert "10000 pairs in one request; at most 1024" in response.json()["detail"]
    metrics = (await worker.get("/metrics")).text
    assert 'selfcrag_evaluator_refusals_total{status="413"} 1.0' in metrics


async def test_a_pair_the_model_fails_on_fails_alone(
    touchy: httpx.AsyncClient, worker: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    fine = [*NEIGHBOURS, ["zzz", "zz"], ["zz", "zzz"]]
    poisoned = [*fine[:2], ["zzz", "zzz"], *fine[2:]]
    mine, others = await asyncio.gather(answer(touchy, poisoned), answer(touchy, fine))
    expected = (await answer(worker, fine))["scores"]
    reason = "The model failed on this pair (FloatingPointError)."
    assert mine["errors"] == [{"index": 2, "reason": reason}]
    assert mine["scores"][2] is None
    assert mine["scores"][:2] + mine["scores"][3:] == pytest.approx(expected, abs=1e-5)
    assert others["scores"] == pytest.approx(expected, abs=1e-5)
    assert others["errors"] == []
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_a_failure_is_tried_again_and_the_worker_stays_ready(
    touchy: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    for tries in (1, 2):
        assert len((await answer(touchy, [["zzz", "zzz"]]))["errors"]) == 1
        assert len(caplog.records) >= tries
    assert (await touchy.get("/health/ready")).status_code == 200


async def test_a_model_that_fails_on_all_is_not_ready_until_it_scores(
    tiny: Scorer, caplog: pytest.LogCaptureFixture
) -> None:
    scorer, asked = Touchy(tiny), [["zzz", "zzz"]]
    async for http in serving(scorer, cached_pairs=0):
        for _ in range(4):  # one pair asked again and again is no broken model
            await answer(http, asked)
        assert (await http.get("/health/ready")).status_code == 200

        scorer.is_broken = True
        for question in ("zz", "河流很长", "who"):
            assert (await http.get("/health/ready")).status_code == 200
            await answer(http, [[question, "zzz"]] * 2)
        refused = await http.get("/health/ready")
        assert refused.status_code == 503
        assert "scores nothing" in refused.json()["detail"]

        scorer.is_broken = False
        assert (await http.get("/health/ready")).status_code == 200
    assert caplog.records


async def test_the_metrics_tell_work_padding_and_what_was_known(tiny: Scorer) -> None:
    async for http in serving(tiny):
        first = await answer(http, [["a", "b"], ["a", "b b b b b"]])
        again = await answer(http, [["a", "b"], ["a", "b b b b b"]])
        assert again["scores"] == first["scores"]
        assert again["tokens"] == 0
        lines = (await http.get("/metrics")).text.splitlines()
        told = {
            line.split()[0].removeprefix("selfcrag_evaluator_"): float(line.split()[1])
            for line in lines
            if line.startswith("selfcrag_evaluator_")
        }
        warm_up = told["tokens_total"] - first["tokens"]
        assert warm_up > 0
        assert told["padding_tokens_total"] == 4, "four more words in the second passage"
        assert told["batches_total"] == told["batch_tokens_count"] == 2
        assert told["batch_tokens_sum"] == told["tokens_total"] + 4
        assert (told["cache_hits_total"], told["cache_misses_total"]) == (2, 3)
        assert told["request_seconds_count"] == 2
        assert told["queue_seconds_count"] == 3
        assert told["queued_pairs"] == 0


def test_every_metric_of_before_is_still_there() -> None:
    worker = create_app(EvaluatorSettings()).state.worker
    names = {family.name for family in worker.metrics.registry.collect()}
    assert {
        f"selfcrag_evaluator_{name}"
        for name in ("pairs", "row_errors", "overloads", "queued_pairs", "request_seconds")
    } <= names
