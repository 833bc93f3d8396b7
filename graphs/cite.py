"""Citations: the `[n]` in an answer and the sentences they stand behind."""

import re
from collections.abc import AsyncIterator, Sequence

from graphs.text import sentence_spans
from graphs.types import Citation, Strip

_MARKER = re.compile(r"\[([1-9]\d{0,2})\]")  # `items[0]` cites nothing
_MARKER_AND_BLANK = re.compile(r"\s?\[([1-9]\d{0,2})\]")
# What may still become a marker when more text arrives.
_UNFINISHED = re.compile(r"\s?\[\d{0,3}$|\s$")
_LEADING_MARKERS = re.compile(r"(?:\s*\[[1-9]\d{0,2}\])+")
_END_MARKS = "。！？；.!?"


def with_marker(sentence: str, n: int) -> str:
    """The sentence with `[n]` before its end mark."""
    body = sentence.rstrip(_END_MARKS)
    blank = " " if body[-1:].isascii() else ""
    return f"{body}{blank}[{n}]{sentence[len(body) :]}"


def cited_numbers(text: str) -> list[int]:
    """The n of every `[n]`, each once, in order."""
    return list(dict.fromkeys(int(marker[1]) for marker in _MARKER.finditer(text)))


def without_markers(text: str) -> str:
    """The text without `[n]`: a source's own footnotes would pass for citations of ours."""
    return _drop_unknown(text, known=0)


async def without_unknown_markers(chunks: AsyncIterator[str], known: int) -> AsyncIterator[str]:
    """The streamed text without markers above `known`; one cut in two by the stream is held."""
    held = ""
    async for chunk in chunks:
        held += chunk
        unfinished = _UNFINISHED.search(held)
        cut = unfinished.start() if unfinished else len(held)
        ready, held = held[:cut], held[cut:]
        if text := _drop_unknown(ready, known):
            yield text
    if text := _drop_unknown(held, known):
        yield text


def _drop_unknown(text: str, known: int) -> str:
    return _MARKER_AND_BLANK.sub(
        lambda marker: marker[0] if 1 <= int(marker[1]) <= known else "", text
    )


def citations_in(answer: str, knowledge: Sequence[Strip]) -> list[Citation]:
    """One citation for every strip the answer names, by number, with the sentences it names it in.

    `[n]` is the n-th strip of `knowledge`, counted from 1; other numbers cite nothing.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    for start, end in _cited_sentences(answer):
        for n in cited_numbers(answer[start:end]):
            spans.setdefault(n, []).append((start, end))
    return [
        _citation(n, knowledge[n - 1], spans[n]) for n in sorted(spans) if 1 <= n <= len(knowledge)
    ]


def _cited_sentences(answer: str) -> list[tuple[int, int]]:
    """Sentences of the answer; markers that follow an end mark belong to the sentence before."""
    spans: list[tuple[int, int]] = []
    for start, end in sentence_spans(answer):
        leading = _LEADING_MARKERS.match(answer, start, end)
        if leading and spans:
            spans[-1] = (spans[-1][0], leading.end())
            start = end - len(answer[leading.end() : end].lstrip())
        if start < end and answer[start:end].strip(_END_MARKS):
            spans.append((start, end))
    return spans


def _citation(n: int, strip: Strip, spans: Sequence[tuple[int, int]]) -> Citation:
    return Citation(
        n=n,
        strip_id=strip.id,
        origin=strip.origin,
        title=strip.title,
        source=strip.source,
        text=strip.whole or strip.text,
        score=strip.score,
        spans=tuple(spans),
    )
