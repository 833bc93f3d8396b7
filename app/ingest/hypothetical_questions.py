"""Hypothetical questions for chunks on their way to the index (arXiv 2407.01219, metadata)."""

import asyncio
import logging
from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel

from app.ingest.rows import Row, with_words
from app.retrieval.tokenizer import Segmenter
from graphs.errors import GeneratorFailed
from graphs.generation.query_expansion import as_hypothetical_questions, hypothetical_messages

# After so many failures the endpoint is taken for down, and the rest goes in without questions.
MAX_FAILURES = 3

log = logging.getLogger(__name__)


class Questioner:
    """Asks a chat model for `count` questions a chunk; the model bounds the calls under way.

    Chunks for which it fails go in without; `note` says how many they are, and why.
    """

    def __init__(self, chat: BaseChatModel, count: int, segmenter: Segmenter) -> None:
        self._chat = chat
        self._count = count
        self._segmenter = segmenter
        self._failures = 0
        self._without = 0
        self._reason = ""

    @property
    def note(self) -> str:
        if not self._without:
            return ""
        return f"{self._without} chunks without hypothetical questions: {self._reason}"

    async def added(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with questions and the words of these; their vectors must be made anew."""
        questions = await asyncio.gather(*map(self._questions, rows))
        fresh = [
            {name: value for name, value in row.items() if name != "vector"} | {"questions": own}
            for row, own in zip(rows, questions, strict=True)
        ]
        return await asyncio.to_thread(with_words, fresh, self._segmenter)

    async def _questions(self, row: Row) -> list[str]:
        if self._failures < MAX_FAILURES:
            messages = hypothetical_messages(
                row["title"], row["text"], self._count, row["language"]
            )
            try:
                reply = await self._chat.ainvoke(messages)
            except GeneratorFailed as error:
                self._failures += 1
                self._reason = str(error)
                log.warning("no hypothetical questions: %s", error)
            else:
                self._failures = 0
                return as_hypothetical_questions(reply.text, self._count)
        self._without += 1
        return []
