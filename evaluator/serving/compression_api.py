"""`POST /compress`: texts shortened by what a causal language model finds in them.

The model tells how surprising each token is; what is kept is decided here, without PyTorch.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Protocol, cast

from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException

from evaluator.errors import TooManyPairs, UnknownModel
from evaluator.inference.scorer import import_torch
from evaluator.schema import CompressRequest, CompressResponse
from evaluator.serving.disconnect import while_connected
from evaluator.serving.load_shedding import Admission
from evaluator.serving.self_information import (
    Token,
    clauses,
    fitting,
    kept,
    mean_nats,
    minus,
    shares,
    weighed,
    words,
)
from evaluator.settings import EvaluatorSettings

MOST_CHARACTERS = 200_000
"""Of all texts of a request: minutes of work for a small model on a CPU."""

_LEADS = {
    False: "We can get the answer to this question in the given text.",
    True: "从给定的文字中可以得到这个问题的答案。",
}


class LanguageModel(Protocol):
    """A loaded model; `tokens` is CPU work: call it in a thread."""

    name: str

    def tokens(self, text: str, before: str = "") -> list[Token]:
        """Each token of the text with its self-information, read after `before`."""


class Compressing:
    """One text after another in a thread of its own; a request that has left stops between two."""

    def __init__(self, model: LanguageModel, most_texts: int) -> None:
        self.model = model
        self._admission = Admission(most_texts)
        self._inside = 0
        self._thread = ThreadPoolExecutor(1, "evaluator-compressing")

    async def compress(self, asked: CompressRequest) -> CompressResponse:
        """Raises Overloaded where too many texts wait."""
        self._admission.enter(len(asked.texts), others_wait=self._inside > 1)
        self._inside += 1
        try:
            if asked.method == "selective_context":
                return await self._selected(asked)
            return await self._contrasted(asked)
        finally:
            self._inside -= 1
            self._admission.leave(len(asked.texts))

    async def _selected(self, asked: CompressRequest) -> CompressResponse:
        """Of every text the clauses that say most (Li et al., arXiv 2310.06201)."""
        found, before, after = [], 0, 0
        for text in asked.texts:
            tokens = await self._tokens(text)
            units = weighed(clauses(text), tokens)
            chosen = fitting(units, asked.ratio)
            found.append(kept(text, chosen))
            before += len(tokens)
            after += sum(unit.tokens for unit in chosen)
        return self._told(found, before, after)

    async def _contrasted(self, asked: CompressRequest) -> CompressResponse:
        """The words that the question makes likelier, more of them from those texts that make the
        question likelier (LongLLMLingua, Jiang et al., arXiv 2310.06839, 4.1 and 4.2).
        """
        question = f"{asked.question}\n{_LEADS[_is_chinese(asked.question)]}"
        surprise = [mean_nats(await self._tokens(question, text)) for text in asked.texts]
        found, before, after = [], 0, 0
        for text, ratio in zip(asked.texts, shares(surprise, asked.ratio), strict=True):
            alone = await self._tokens(text)
            asked_for = await self._tokens(text, f"{asked.question}\n")
            chosen = fitting(weighed(words(text, alone), minus(alone, asked_for)), ratio)
            found.append(kept(text, chosen))
            before += len(alone)
            after += sum(unit.tokens for unit in chosen)
        return self._told(found, before, after)

    def _told(self, texts: list[str], before: int, after: int) -> CompressResponse:
        return CompressResponse(
            texts=texts, model=self.model.name, before_tokens=before, after_tokens=after
        )

    async def _tokens(self, text: str, before: str = "") -> list[Token]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.model.tokens, text, before)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


@contextlib.asynccontextmanager
async def running(settings: EvaluatorSettings) -> AsyncIterator[Compressing | None]:
    """The configured language model, warm; None where none is. Raises WeightsError."""
    if settings.compressor is None:
        yield None
        return
    model = await asyncio.to_thread(_loaded, settings)
    with contextlib.closing(Compressing(model, settings.max_queued_pairs)) as compressing:
        yield compressing


def _loaded(settings: EvaluatorSettings) -> LanguageModel:
    model = cast("LanguageModel", import_torch("causal_lm").load(settings))
    model.tokens("It is warm.", "Is it warm?")
    return model


def _is_chinese(question: str) -> bool:
    return any("\u4e00" <= sign <= "\u9fff" for sign in question)


def _compressing(request: Request) -> Compressing:
    worker = request.app.state.worker
    if not worker.batchers:
        raise HTTPException(503, "The worker is still starting.", {"Retry-After": "1"})
    found: Compressing | None = worker.compressor
    if found is None:
        raise UnknownModel(
            "This worker has no language model to compress with: name its folder by "
            "SELFCRAG_EVALUATOR_COMPRESSOR."
        )
    return found


Loaded = Annotated[Compressing, Depends(_compressing)]
router = APIRouter()


@router.post("/compress")
async def compress(asked: CompressRequest, loaded: Loaded, connection: Request) -> CompressResponse:
    """One shorter text for each, in the order asked; empty where nothing of it was kept."""
    characters = sum(map(len, asked.texts)) + len(asked.question)
    if characters > MOST_CHARACTERS:
        raise TooManyPairs(
            f"{characters:,} characters in one request; at most {MOST_CHARACTERS:,}."
        )
    most = connection.app.state.worker.settings.max_pairs
    if len(asked.texts) > most:
        raise TooManyPairs(f"{len(asked.texts)} texts in one request; at most {most}.")
    return await while_connected(connection, loaded.compress(asked))
