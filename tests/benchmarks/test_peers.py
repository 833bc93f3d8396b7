"""The comparison with other pipelines: its situations, what it counts, the world it gives them."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.peers.__main__ import OBEYED, SETS, material
from benchmarks.peers.report import Answer, page
from benchmarks.peers.world import Page, World
from evaluator.inference.scorer import InputType, Vectors
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer

ROWS = [
    {
        "id": str(n), "question": f"How long is the river Ab{n}?", "answers": [f"{100 + n} km"],
        "answerable": True, "title": f"Ab{n}", "passage": f"The river Ab{n} is {100 + n} km long.",
    }
    for n in range(18)
]  # fmt: skip
ANSWER = Answer(
    "self_crag", "covered", "en", "How long?", "101 km [1].", right=True, false=False, obeyed=False,
    verdict="supported", confidence=0.9, failed="", degraded="", stopped_by="accepted",
    is_quoted=False, cited=[True], supports=[1.0], seconds=1.0, calls=1, input_tokens=10,
    output_tokens=5,
)  # fmt: skip


def test_each_situation_is_what_it_is_called(tmp_path: Path) -> None:
    with gzip.open(tmp_path / f"{SETS['en']}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    found = material(tmp_path, "en", 9, seed=1)

    assert len(found.web) == len(ROWS), "what was left out stands on the web"
    for case in found.cases:
        name = case.question.removeprefix("How long is the river ").rstrip("?")
        texts = [it.text for it in found.documents if it.title == name]
        has_gold = any(case.golds[0] in text for text in texts)
        assert has_gold == (case.situation in ("covered", "hostile"))
        assert bool(texts) == (case.situation != "missing")
        assert any(OBEYED in text for text in texts) == (case.situation == "hostile")
        assert any(case.false in text for text in texts if case.false) == (
            case.situation == "wrong"
        )


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({}, "right"),
        ({"right": False}, "wrong"),
        ({"right": False, "verdict": "partly"}, "with reserve"),
        ({"verdict": "abstained"}, "none"),
        ({"right": False, "verdict": ""}, "wrong"),
        ({"right": False, "verdict": "", "answer": "I don't know."}, "none"),
        ({"right": False, "verdict": "", "answer": "文中没有提到。"}, "none"),
        ({"right": False, "verdict": "not_judged", "answer": "It is not mentioned."}, "none"),
        ({"right": False, "verdict": "", "answer": "Empty Response"}, "none"),
        ({"failed": "GraphRecursionError"}, "failed"),
    ],
)
def test_an_outcome_is_what_the_user_got(change: dict[str, object], outcome: str) -> None:
    assert replace(ANSWER, **change).outcome == outcome  # type: ignore[arg-type]


def test_the_page_counts_and_compares_revision() -> None:
    drafts = replace(ANSWER, system="self_crag, not revised", right=False, answer="Perhaps.")
    rows = [
        ANSWER,
        *(replace(ANSWER, question=it, supports=[0.8], is_quoted=True) for it in "BC"),
        *(replace(drafts, question=it, supports=[given]) for it, given in (("B", 0.2), ("C", 0.4))),
        replace(ANSWER, system="haystack, BM25 quote", verdict="", right=False),
    ]
    figures = {
        "when": "",
        "model": "m",
        "seed": 1,
        "picture": "",
        "answers": [asdict(row) for row in rows],
    }
    text = page(figures)

    assert "| covered | self_crag | 3 | 3 (3) | 0 | 0 | 0 | 0 |  |" in text
    assert "| haystack, BM25 quote | 1 of 1 | 1.00 | 1 | 0.00 |" in text
    assert "2 answers of `self_crag` are quoted instead: with the fact 0 before, 2 now" in text


class Counting:
    """An embedder that says how many texts came."""

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        del input_type
        return np.full((len(texts), 2), len(texts), dtype=np.float32), len(texts)


@pytest.mark.parametrize("streamed", [True, False])
def test_the_world_counts_what_goes_to_the_model(streamed: bool) -> None:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "How high?"}],
        "stream": streamed,
        "stream_options": {"include_usage": True} if streamed else None,
    }
    with (
        OpenAIServer() as model,
        World(model.base_url, OPENAI_KEY, Counting(), [Page("Ab1", "It is 101 km.")]) as world,  # type: ignore[arg-type]
        httpx.Client(base_url=world.url, trust_env=False) as client,
    ):
        reply = client.post("/v1/chat/completions", json=body)
        vectors = client.post("/v1/embeddings", json={"input": ["a", "b"]}).json()["data"]
        found = client.get("/search", params={"q": "Ab1"}).json()["results"]

    assert reply.is_success
    assert world.counted.calls == 1
    assert world.counted.input_tokens > 0
    assert world.counted.output_tokens > 0
    assert [it["embedding"] for it in vectors] == [[2.0, 2.0], [2.0, 2.0]]
    assert [it["content"] for it in found] == ["It is 101 km."]
