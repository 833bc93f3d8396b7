"""First questions from documents without a language model: of entries and of headings."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.extensions.evaluation.first_questions import first_questions
from app.retrieval.index import StoredDocument
from graphs.options import Scope

QUAY = "Quay: a stone wall along the water where ships are loaded. The quay is 240 metres long."
SESSION = (
    "会话是用户登录之后与服务保持的连接。最后一次请求之后，会话保留三十分钟，然后必须重新登录。"
)
LAMP = "The keeper lights the lamp at dusk and puts it out when the sun has come up in the east."


CHUNKS = {
    "a": [("Quay", QUAY), ("Harbour > The lamp", LAMP), ("Coast", "Too short.")],
    "b": [("会话", SESSION), ("如何登录？", SESSION)],
    "c": [("How the lamp burns", LAMP), ("Light the lamp", LAMP.replace("lamp", "fire"))],
}


class Shelf:
    """Three documents; headings lead down to their last part."""

    async def documents(self, scope: Scope) -> Sequence[StoredDocument]:
        return [
            StoredDocument(
                id=name,
                source=f"docs/{name}.md",
                path="",
                title=name,
                sha256="",
                chunks=2,
                bytes=0,
                added_at="",
            )
            for name in CHUNKS
        ]

    async def chunks_of(
        self, document_id: str, names: Sequence[str], scope: Scope
    ) -> Sequence[Mapping[str, Any]]:
        return [
            {"id": f"{document_id}{n}", "heading": heading, "text": text}
            for n, (heading, text) in enumerate(CHUNKS[document_id])
        ]


def test_each_document_is_asked_about_in_its_own_language() -> None:
    made = asyncio.run(first_questions(Shelf(), Scope(), 10))
    assert {(it.question, *it.sources) for it in made} == {
        ('What is "Quay"?', "docs/a.md"),
        ('What should I know about "The lamp"?', "docs/a.md"),
        ("“会话”是什么？", "docs/b.md"),
        ("如何登录？", "docs/b.md"),
        ('What should I know about "How the lamp burns"?', "docs/c.md"),
        ('What should I know about "Light the lamp"?', "docs/c.md"),
    }
    gold = {it.question: it.answers for it in made if it.answers}
    assert gold == {
        'What is "Quay"?': ["Quay: a stone wall along the water where ships are loaded."],
        "“会话”是什么？": ["会话是用户登录之后与服务保持的连接。"],
    }
    assert all(it.generated for it in made)
    assert len(asyncio.run(first_questions(Shelf(), Scope(), 2))) == 2
