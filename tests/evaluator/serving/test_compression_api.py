"""`POST /compress`, around a tiny causal language model."""

import asyncio
import math
import re
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from evaluator.client import EvaluatorClient
from evaluator.errors import EvaluatorError, Overloaded, WeightsError, WorkerRefused
from evaluator.inference.scorer import (
    LanguageModel,
    ScoredToken,
    Scorer,
    load_language_model,
)
from evaluator.inference.torch_scorer import load_tokenizer
from evaluator.schema import CompressMethod, CompressRequest
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
from evaluator.serving.compression_api import (
    MAX_CHARS,
    Compressing,
    Unit,
    clauses,
    excerpt,
    fitting,
    minus,
    shares,
    weighed,
    words,
)
from evaluator.settings import EvaluatorSettings
from tests.evaluator.in_process import asking
from tests.evaluator.tiny_language_model import tiny_language_model
from tests.evaluator.tiny_pretrained import tiny_t5

METHODS: list[CompressMethod] = ["longllmlingua", "selective_context"]
ENGLISH = "The mill did open in 1852, they say. It burned twice; nobody was hurt. Cats sleep there."
CHINESE = "造纸厂于1852年开业，人们这样说。它烧过两次；没有人受伤。猫睡在那里。"
BOTH = pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])


def settings(**more: object) -> EvaluatorSettings:
    return EvaluatorSettings.model_validate({"device": "cpu"} | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_language_model(tmp_path_factory.mktemp("compressor") / "tiny")


def language_model(chosen: EvaluatorSettings) -> LanguageModel:
    model = load_language_model(chosen)
    assert model
    return model


@pytest.fixture
async def http(folder: Path, tiny: Scorer) -> AsyncIterator[httpx.AsyncClient]:
    limits = Limits(max_pairs=8, max_queued_pairs=8)
    app = create_app(settings(compressor=folder), tiny, limits=limits)
    async with asking(app, is_raising=False) as client:
        yield client


@BOTH
@pytest.mark.parametrize("method", METHODS)
async def test_a_text_keeps_about_its_share_in_order(
    http: httpx.AsyncClient, method: CompressMethod, text: str
) -> None:
    client = EvaluatorClient(http)
    told = await client.compress(method, "When did it open?", [text], 0.5)

    (short,) = told.texts
    rest = iter(text)
    assert all(sign in rest for sign in short if not sign.isspace())
    assert 0.3 * told.before_tokens < told.after_tokens < 0.7 * told.before_tokens
    assert told.model == "tiny"
    again = await client.compress(method, "When did it open?", [text, ENGLISH], 1.0)
    assert again.texts == [text, ENGLISH]


@BOTH
async def test_selective_context_leaves_out_unsurprising_clauses(
    http: httpx.AsyncClient, folder: Path, text: str
) -> None:
    model = language_model(settings(compressor=folder))
    tokens = model.tokens(text)
    told = await EvaluatorClient(http).compress("selective_context", "?", [text], 0.01)

    (short,) = told.texts
    start = text.index(short)
    inside = [t.nats for t in tokens if start <= t.start < start + len(short)]
    assert sum(inside) / len(inside) > sum(t.nats for t in tokens) / len(tokens)


async def test_longllmlingua_heeds_the_question(http: httpx.AsyncClient) -> None:
    client = EvaluatorClient(http)
    said = {
        tuple((await client.compress("longllmlingua", question, [ENGLISH, CHINESE], 0.4)).texts)
        for question in ("When did the mill open?", "猫睡在哪里？", "Who was hurt?")
    }

    assert len(said) > 1


def test_information_is_the_cross_entropy_of_each_token(folder: Path) -> None:
    model = language_model(settings(compressor=folder))
    text, before = "The mill.", "When?"
    tokens = model.tokens(text, before)

    assert [text[token.start : token.end] for token in tokens] == list(text)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = load_tokenizer(folder)
    ids = torch.tensor([[0, *tokenizer(before + text).input_ids]])
    logs = network(ids).logits.detach().log_softmax(-1)[0]
    expected = [
        -float(logs[n - 1, ids[0, n]]) for n in range(ids.shape[1] - len(text), ids.shape[1])
    ]
    assert [token.nats for token in tokens] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("before", ["", "Why? " * 60])
def test_a_long_text_is_read_window_by_window(folder: Path, before: str) -> None:
    model = language_model(settings(compressor=folder))
    tokens = model.tokens("ab cd. " * 40, before)

    assert [token.start for token in tokens] == list(range(280))
    assert all(token.nats > 0 for token in tokens)
    assert model.tokens("") == []


@pytest.mark.parametrize("method", METHODS)
async def test_odd_texts_harm_nobody(http: httpx.AsyncClient, method: CompressMethod) -> None:
    texts = ["", " ", "。", "</s><s>", "\x00", "🙂🙂", "a" * 500]
    told = await EvaluatorClient(http).compress(method, "When?", [*texts, ENGLISH], 0.5)

    assert all(len(short) <= len(text) for short, text in zip(told.texts, texts, strict=False))
    assert told.texts[-1]


async def test_too_much_is_refused(http: httpx.AsyncClient) -> None:
    body = {"method": "longllmlingua", "question": "q", "ratio": 0.5}
    for texts in (["a"] * 9, ["a" * MAX_CHARS]):
        response = await http.post("/compress", json={**body, "texts": texts})
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"
    for wrong in ({"ratio": 0}, {"method": "zip"}, {"more": 1}):
        response = await http.post("/compress", json={**body, "texts": ["a"], **wrong})
        assert response.status_code == 422


async def test_a_worker_says_what_it_can(http: httpx.AsyncClient, tiny: Scorer) -> None:
    assert (await EvaluatorClient(http).abilities()).compressor == "tiny"
    app = create_app(settings(), tiny)
    async with asking(app) as plain:
        client = EvaluatorClient(plain)
        assert (await client.abilities()).compressor is None
        with pytest.raises(WorkerRefused, match="SELFCRAG_EVALUATOR_COMPRESSOR"):
            await client.compress("longllmlingua", "q", ["a"], 0.5)


class Slow:
    """Reads nothing until told to."""

    name = "slow"

    def __init__(self) -> None:
        self.begun, self.go, self.read = threading.Event(), threading.Event(), 0

    def tokens(self, text: str, before: str = "") -> list[ScoredToken]:
        del before
        self.read += 1
        self.begun.set()
        assert self.go.wait(10)
        return [ScoredToken(n, n + 1, 1.0) for n in range(len(text))]


def selecting(*texts: str) -> CompressRequest:
    return CompressRequest(method="selective_context", question="q", texts=list(texts), ratio=0.5)


async def test_one_at_a_time_and_who_leaves_stops_between_two_texts() -> None:
    model = Slow()
    compressing = Compressing(model, max_texts=4)
    first = asyncio.create_task(compressing.compress(selecting("a", "b", "c")))
    assert await asyncio.to_thread(model.begun.wait, 10)
    second = asyncio.create_task(compressing.compress(selecting("d")))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await compressing.compress(selecting("e", "f"))
    assert model.read == 1
    first.cancel()
    model.go.set()

    assert (await second).texts == ["d"]
    assert model.read == 2
    compressing.close()


def test_what_is_no_language_model_is_refused_by_name(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(WeightsError, match="SELFCRAG_EVALUATOR_COMPRESSOR"):
        load_language_model(settings(compressor=tmp_path / "none"))
    t5 = tiny_t5(tmp_path / "t5")
    with pytest.raises(WeightsError, match="names T5ForConditionalGeneration"):
        load_language_model(settings(compressor=t5))
    pickled = tiny_language_model(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(WeightsError, match="pickled"):
        load_language_model(settings(compressor=pickled))
    assert language_model(settings(compressor=folder)).name == "tiny"


def test_a_model_without_numbers_is_told(tmp_path: Path) -> None:
    broken = tiny_language_model(tmp_path / "nan")
    network = transformers.AutoModelForCausalLM.from_pretrained(broken)
    torch.nn.init.constant_(network.lm_head.weight, math.nan)
    network.save_pretrained(broken)
    with pytest.raises(EvaluatorError, match="no number"):
        language_model(settings(compressor=broken)).tokens("text")


def signs(text: str, *nats: float) -> list[ScoredToken]:
    """A token a sign."""
    told = nats or (1.0,) * len(text)
    return [ScoredToken(n, n + 1, value) for n, value in zip(range(len(text)), told, strict=True)]


def cut(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It opened, they say, in 1,852.5 m.", ["It opened,", "they say,", "in 1,852.5 m."]),
        (
            "它于1852年开业，人们说：“好！”后来关了。",
            ["它于1852年开业，", "人们说：", "“好！”", "后来关了。"],
        ),
        ("one\n\ntwo", ["one", "two"]),
        (" \n", []),
        ("", []),
    ],
)
def test_clauses_end_at_marks(text: str, expected: list[str]) -> None:
    assert cut(text, clauses(text)) == expected


def test_words_are_whole_and_ideographs_apart() -> None:
    text = "Mills 造纸 open."

    assert cut(text, words(text, signs(text))) == ["Mills", "造", "纸", "open."]
    pieces = [
        ScoredToken(0, 3, 1.0),
        ScoredToken(3, 6, 1.0),
        ScoredToken(6, 7, 1.0),
        ScoredToken(6, 8, 1.0),
    ]
    assert cut(text, words(text, [*pieces, ScoredToken(8, 16, 1.0)])) == ["Mills", "造纸", "open."]


def test_a_unit_is_worth_the_mean_of_its_tokens() -> None:
    assert weighed([(0, 2), (3, 4)], signs("ab c", 1.0, 2.0, 9.0, 4.0)) == [
        Unit(0, 2, 1.5, 2),
        Unit(3, 4, 4.0, 1),
    ]
    assert weighed([(0, 1)], []) == [Unit(0, 1, 0.0, 0)]


def test_what_the_question_makes_likelier_tells_most() -> None:
    told = minus(signs("abc", 3.0, 3.0, 3.0), signs("abc", 3.0, 1.0, 4.0))

    assert [token.nats for token in told] == [0.0, 2.0, -1.0]


def test_the_most_telling_units_fill_the_share() -> None:
    units = [Unit(n, n + 1, nats, 2) for n, nats in enumerate([0.1, 0.9, 0.5, 0.7])]

    assert [unit.start for unit in fitting(units, 0.5)] == [1, 3]
    assert [unit.start for unit in fitting(units, 0.01)] == [1]
    assert fitting(units, 1) == units
    assert fitting(units, 0) == fitting([], 0.5) == []


@pytest.mark.parametrize(
    ("text", "spans", "expected"),
    [
        ("one two three", [(0, 3), (8, 13)], "one three"),
        ("one two three", [(0, 3), (4, 7)], "one two"),
        ("一，二，三。", [(0, 2), (4, 6)], "一，三。"),
        ("a\nb", [(0, 1), (2, 3)], "a\nb"),
        ("a", [], ""),
    ],
)
def test_what_is_kept_reads_on(text: str, spans: list[tuple[int, int]], expected: str) -> None:
    assert excerpt(text, [Unit(start, end, 1.0, 1) for start, end in spans]) == expected


def test_the_likeliest_source_of_the_question_keeps_most() -> None:
    assert shares([3.0, 1.0, 2.0], 0.4) == pytest.approx([0.15, 0.65, 0.4])
    assert shares([2.0, 1.0], 0.9) == pytest.approx([0.65, 1.0])
    assert shares([5.0], 0.4) == [0.4]
    assert shares([2.0, 1.0], 1) == [1, 1]
    assert shares([], 0.4) == []


@given(st.text("ab，。, .\n造纸", max_size=40), st.floats(0.01, 1), st.booleans())
def test_units_are_parts_of_the_text_in_order(text: str, ratio: float, by_words: bool) -> None:
    tokens = signs(text)
    spans = words(text, tokens) if by_words else clauses(text)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    chosen = fitting(weighed(spans, tokens), ratio)
    short = excerpt(text, chosen)

    rest = iter(re.sub(r"\s", "", text))
    assert all(sign in rest for sign in re.sub(r"\s", "", short))
    if spans:
        assert chosen
    if ratio == 1:
        assert short == text.strip() or not by_words
