"""Which thresholds go with which evaluator, asked of the real worker."""

import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from app.composition.services import WorkerEvaluator
from app.errors import StartFailed
from evaluator.client import EvaluatorClient
from evaluator.errors import WorkerRefused
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.grading.relevance import TEXTS_A_REQUEST
from tests.app.conftest import Loaded
from tests.evaluator.in_process import asking
from tests.evaluator.tiny import tiny_folder
from tests.fakes import FakeChat
from tests.graphs.languages import EN
from tests.graphs.traced import traced


@pytest.mark.parametrize(
    ("action", "requests"),
    [("correct", ["passages", "strips"]), ("ambiguous", ["passages", "strips", "web strips"])],
)
async def test_requests_carry_a_few_texts_each_side_by_side_and_none_twice(
    tmp_path: Path, action: str, requests: list[str]
) -> None:
    """Web strips are not yet there when local ones are graded, so they have one of their own."""
    sizes: list[int] = []

    async def count_pairs(request: httpx.Request) -> None:
        sizes.append(len(json.loads(request.content)["pairs"]))

    sentences = " ".join(f"The paper mill of Bergen made {word} of paper." for word in "abcdefghi")
    texts = [f"{sentences} Page {number}." for number in range(10)]
    parts = EN.parts(*texts, chat=FakeChat(chunks=["a [1]"], keywords="mill"))
    tiny = EvaluatorSettings(weights=tiny_folder(tmp_path / "tiny"), backend="torch")
    async with asking(create_app(tiny)) as http:
        http.event_hooks["request"].append(count_pairs)
        worker = WorkerEvaluator(EvaluatorClient(http), "tiny", PAPER_THRESHOLDS["popqa"])
        trace = await traced(
            replace(parts.services, evaluator=worker), EN.question, ablation={"only_action": action}
        )

    output = trace.output
    pairs = {
        "passages": len(output["documents"]),
        "strips": len(output["internal_strips"]),
        "web strips": len(output.get("web_strips", [])),
    }
    expected = [pairs[name] for name in requests]
    assert sorted(sizes, reverse=True) == sorted(
        (min(TEXTS_A_REQUEST, many - start) for many in expected
         for start in range(0, many, TEXTS_A_REQUEST)),
        reverse=True,
    )  # fmt: skip
    assert pairs["strips"] > pairs["passages"] == 10
    assert output["usage"].scored_pairs == sum(sizes)


async def test_a_preset_for_another_evaluator_is_refused(loaded: Loaded) -> None:
    async with asking(loaded.create_worker(EvaluatorSettings())) as http:
        with pytest.raises(StartFailed, match="choose calibrated"):
            await WorkerEvaluator.connect(EvaluatorClient(http), PAPER_THRESHOLDS["popqa"])


async def test_thresholds_of_other_weights_are_refused(tmp_path: Path) -> None:
    tiny = EvaluatorSettings(weights=tiny_folder(tmp_path), backend="torch")
    foreign = {"upper": 0.3, "lower": -0.3, "strip_floor": -0.4, "evaluator": "sha256:0"}
    (tmp_path / "thresholds.json").write_text(json.dumps(foreign), encoding="utf-8")
    async with asking(create_app(tiny)) as http:
        with pytest.raises(WorkerRefused, match="belongs to other weights"):
            await WorkerEvaluator.connect(EvaluatorClient(http), None)
