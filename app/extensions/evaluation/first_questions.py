"""A first question set from the user's own documents, marked as written by a machine."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from langchain_core.language_models import BaseChatModel

from app.extensions.evaluation.questions import EvaluationQuestion
from app.retrieval.index import Index, StoredDocument
from graphs.errors import GeneratorFailed
from graphs.generation.prompts import (
    as_hypothetical_questions,
    hypothetical_messages,
    question_about,
    question_what,
)
from graphs.generation.replies import short_reply
from graphs.options import Scope
from graphs.text.language import language_of
from graphs.text.sentences import sentences, word_count

MIN_WORDS = 12
"""A shorter chunk is a heading or a remnant: nobody would ask for it."""
MAX_TRIES = 5
"""For each question that is wanted; documents whose chunks are all too short end it otherwise."""


async def first_questions(
    index: Index, scope: Scope, most: int, chat: BaseChatModel | None = None
) -> list[EvaluationQuestion]:
    """At most `most`, spread over the documents, the same for the same documents.

    The language model writes them where there is one. Else they are made of headings: an entry,
    whose text begins with its heading, has its first sentence as gold answer. Their gold source is
    the document.
    """
    documents = sorted(await index.documents(scope), key=lambda it: _order(it.id))
    questions: dict[str, EvaluationQuestion] = {}
    async for document, chunk in _chunks(index, scope, documents, most * MAX_TRIES):
        if len(questions) == most:
            break
        text, answers = await _question(document.title, chunk, chat)
        if text and text not in questions:
            questions[text] = EvaluationQuestion(
                question=text,
                answers=answers,
                sources=[document.source],
                generated=True,
            )
    return list(questions.values())


async def _chunks(
    index: Index, scope: Scope, documents: Sequence[StoredDocument], most: int
) -> AsyncIterator[tuple[StoredDocument, Mapping[str, Any]]]:
    """One of each document, then another of each, those first that have headings; `most` tries."""
    upcoming = deque((document, 0) for document in documents)
    while upcoming and most:
        most -= 1
        document, turn = upcoming.popleft()
        chunks = await index.chunks_of(document.id, ["id", "text", "heading"], scope)
        long = [chunk for chunk in chunks if word_count(chunk["text"]) >= MIN_WORDS]
        long.sort(key=lambda chunk: (not chunk["heading"], _order(chunk["id"])))
        if turn < len(long):
            yield document, long[turn]
            upcoming.append((document, turn + 1))


async def _question(
    title: str, chunk: Mapping[str, Any], chat: BaseChatModel | None
) -> tuple[str, list[str]]:
    """A question, empty where nothing can be asked, and its gold answers where they are known."""
    text, language = chunk["text"], language_of(chunk["text"])
    if chat is not None:
        messages = hypothetical_messages(title, text, 1, language)
        try:
            reply, _ = await short_reply(chat, messages)
        except GeneratorFailed:
            return "", []
        return next(iter(as_hypothetical_questions(reply, 1)), ""), []
    topic = chunk["heading"].rpartition(" > ")[2].strip() or title.strip()
    if not topic or topic.endswith(("?", "？")):
        return topic, []
    first = next(iter(sentences(text)), "")
    if first.casefold().startswith(topic.casefold()):
        return question_what(topic, language), [first]
    return question_about(topic, language), []


def _order(text: str) -> str:
    return sha256(text.encode()).hexdigest()
