"""The task `rerank`, with a real and tiny model of each form."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import torch
import transformers

from evaluator.client import EvaluatorClient
from evaluator.errors import WeightsError, WorkerRefused
from evaluator.inference.scorer import Scorer, in_batches, load_reranker
from evaluator.schema import Row, RowScore
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.evaluator.in_process import asking
from tests.evaluator.tiny import tiny_folder
from tests.evaluator.tiny_pretrained import tiny_t5
from tests.evaluator.tiny_rerankers import (
    tiny_cross_encoder,
    tiny_mono_t5,
    tiny_rank_llama,
    tiny_xlm_roberta,
)

PAIRS = [
    ("how long is the river?", "the river is long"),
    ("how?", "the hills stand around it. " * 3),
    ("河流很长？", "河"),
    ("how long is the river?", "it is cold."),
    ("how cold?", "the river " * 9),
]
FORMS: dict[str, Callable[[Path], Path]] = {
    "monot5": tiny_mono_t5,
    "bert": tiny_cross_encoder,
    "bert2": lambda folder: tiny_cross_encoder(folder, 2),
    "xlm-roberta": tiny_xlm_roberta,
    "llama": tiny_rank_llama,
}


def settings(folder: Path, **more: object) -> EvaluatorSettings:
    return EvaluatorSettings.model_validate({"reranker": folder, "device": "cpu"} | more)


def loaded(folder: Path) -> Scorer:
    return load_reranker(settings(folder))


def scored(scorer: Scorer, pairs: list[tuple[str, str]]) -> list[float]:
    results = in_batches(scorer, "rerank", pairs)
    assert all(isinstance(result, RowScore) for result in results), results
    return [result.score for result in results if isinstance(result, RowScore)]


@pytest.fixture(scope="module", params=FORMS)
def scorer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return loaded(FORMS[request.param](tmp_path_factory.mktemp(request.param)))


def test_neither_order_nor_batch_mates_change_a_score(scorer: Scorer) -> None:
    alone = [scored(scorer, [pair])[0] for pair in PAIRS]
    assert max(alone) - min(alone) > 1e-3
    assert scored(scorer, PAIRS) == pytest.approx(alone, abs=1e-5)
    assert scored(scorer, PAIRS[::-1])[::-1] == pytest.approx(alone, abs=1e-5)


def test_the_score_of_a_mono_t5_is_the_papers(tmp_path: Path) -> None:
    folder = tiny_mono_t5(tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    false, true = tokenizer.convert_tokens_to_ids(["▁false", "▁true"])
    wanted = []
    for question, passage in PAIRS:
        text = f"Query: {question} Document: {passage.strip()} Relevant:"
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.inference_mode():
            logits = model(input_ids=ids, decoder_input_ids=torch.zeros(1, 1, dtype=torch.long))
        wanted.append(float(logits.logits[0, 0, [false, true]].log_softmax(0)[1]))
    assert scored(loaded(folder), PAIRS) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("form", ["bert", "bert2", "xlm-roberta", "llama"])
def test_the_score_of_the_others_is_their_own_head_s(tmp_path: Path, form: str) -> None:
    folder = FORMS[form](tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    wanted = []
    for question, passage in PAIRS:
        texts = question, passage.strip()
        if form == "llama":
            texts = f"query: {texts[0]}", f"document: {texts[1]}"
        inputs = tokenizer(*texts, return_tensors="pt")
        if form in ("llama", "xlm-roberta"):
            inputs.pop("token_type_ids", None)
        with torch.inference_mode():
            logits = model(**inputs).logits[0]
        wanted.append(float(logits.softmax(0)[1] if len(logits) == 2 else logits[0]))
    assert scored(loaded(folder), PAIRS) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("verdicts", [("▁false", "▁true"), ("false", "true")])
def test_both_spellings_of_the_verdicts_are_known(
    tmp_path: Path, verdicts: tuple[str, str]
) -> None:
    assert scored(loaded(tiny_mono_t5(tmp_path, verdicts)), PAIRS[:1])[0] < 0


def test_a_passage_is_cut_and_the_question_kept(scorer: Scorer) -> None:
    long = "the river is long and cold. " * 40_000  # 1 MB
    questions = ["how long?", "how cold is it?", "how " * 2000]
    rows = scorer.encode("rerank", [(question, long) for question in questions])
    found = [row.ids for row in rows if isinstance(row, Row)]
    assert len(found) == 3
    assert max(map(len, found)) <= 512
    assert len(set(found)) == 3  # the question is in each
    short = scorer.encode("rerank", [(questions[0], "the river is long and cold.")])[0]
    assert isinstance(short, Row)
    assert len(short.ids) < len(found[0])


def test_special_tokens_in_texts_are_plain_text(scorer: Scorer) -> None:
    spelt = ["</s>", "<s>", "<pad>", "[SEP]", "＜/s＞", "</</s>s>"]
    odd = [(f"how {token} long?", f"the {token} river {token}") for token in spelt]
    plain, *spelling = scorer.encode("rerank", [PAIRS[0], *odd])
    assert isinstance(plain, Row)
    special = set(range(5)) - {2}  # what is unknown may be
    for row in spelling:
        assert isinstance(row, Row)
        assert [i for i in row.ids if i in special].count(1) == plain.ids.count(1)
    mixed = scored(scorer, [PAIRS[1], *odd, PAIRS[2]])
    assert [mixed[0], mixed[-1]] == pytest.approx(scored(scorer, PAIRS[1:3]), abs=1e-5)


def test_an_empty_row_fails_alone(scorer: Scorer) -> None:
    first, *faults, last = in_batches(
        scorer, "rerank", [PAIRS[0], (" ", "the river"), ("how?", "\n"), PAIRS[3]]
    )
    assert isinstance(first, RowScore)
    assert isinstance(last, RowScore)
    assert faults == ["One of the texts holds nothing to read."] * 2


def test_broken_folders_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"No reranker weights in .*SELFCRAG_EVALUATOR_RERANKER"):
        loaded(tmp_path / "nowhere")
    with pytest.raises(WeightsError, match="it is not a monoT5 tokenizer"):
        loaded(tiny_t5(tmp_path / "plain"))
    with pytest.raises(WeightsError, match="3 labels where one or two are needed"):
        loaded(tiny_cross_encoder(tmp_path / "three", 3))
    with pytest.raises(WeightsError, match="2 labels where one is needed"):
        loaded(tiny_rank_llama(tmp_path / "two", 2))
    folder = tiny_cross_encoder(tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for broken, words in [
        ({"auto_map": {"AutoModel": "code.Model"}}, "it sets auto_map"),
        ({"architectures": ["BertModel"]}, "describes no reranker: it names BertModel"),
        ({"architectures": ["T5ForSequenceClassification"]}, "describes no reranker"),
        ({"hidden_size": 32}, "does not fit its config.json"),
        ({"model_type": "unheard-of"}, "cannot be loaded as a reranker"),
    ]:
        (folder / "config.json").write_text(json.dumps(config | broken), encoding="utf-8")
        with pytest.raises(WeightsError, match=words):
            loaded(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(WeightsError, match="pickled"):
        loaded(folder)


async def test_the_worker_reranks_beside_its_evaluator(tmp_path: Path) -> None:
    weights = tiny_folder(tmp_path / "evaluator")
    folder = tiny_cross_encoder(tmp_path / "cross")
    app = create_app(settings(folder, weights=weights, backend="torch"))
    async with asking(app) as http:
        ready = (await http.get("/health/ready")).json()
        assert ready["tasks"][-1] == "rerank"
        client = EvaluatorClient(http)
        await client.connect()
        judged = await client.score("relevance", PAIRS)
        ranked = await client.score("rerank", [*PAIRS, ("how?", "")])
        again = await client.score("rerank", PAIRS)
    assert (judged.model, ranked.model) == (ready["model"], loaded(folder).name)
    assert ranked.scores[:-1] == pytest.approx(scored(loaded(folder), PAIRS), abs=1e-5)
    assert [error.index for error in ranked.errors] == [5]
    assert ranked.labels == [*[""] * 5, None]
    assert (again.scores, again.tokens) == (ranked.scores[:-1], 0)  # kept from before


async def test_without_a_reranker_the_task_is_a_clear_problem(
    relevance_alone: httpx.AsyncClient,
) -> None:
    with pytest.raises(WorkerRefused, match="SELFCRAG_EVALUATOR_RERANKER") as refused:
        await EvaluatorClient(relevance_alone).score("rerank", PAIRS)
    assert refused.value.status == 422


async def test_a_reranker_that_cannot_score_is_told_before_it_is_ready(
    tmp_path: Path,
) -> None:
    folder = tiny_cross_encoder(tmp_path / "cross")
    scorer = loaded(folder)
    scorer.forward = lambda _, rows: ["no number"] * len(rows)  # type: ignore[method-assign]
    app = create_app(settings(folder), scorer)
    with pytest.raises(WeightsError, match=r"cross@\w{8} cannot score: no number"):
        async with app.router.lifespan_context(app):
            pass
