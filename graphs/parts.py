"""The parts of a question that asks for more than one thing."""

import re

from graphs.text import language_of, sentences, word_count

_ASKING = (
    r"(?:what|who|whom|whose|where|when|why|how|which|is|are|was|were|do|does|did|can|could|"
    r"should|would|will|has|have|must|may)\b"
)
_ENGLISH = re.compile(
    rf"\s*[,;]\s*(?:and|but|or|then|also)?\s*(?=(?:(?:to|in|at|for|by|from|with|on) )?{_ASKING})"
    rf"|\s+and\s+(?=(?:also )?{_ASKING})",
    re.IGNORECASE,
)
_ASKS = re.compile(
    rf"^(?:(?:to|in|at|for|by|from|with|on) )?{_ASKING}|\b(?:what|who|whose|where|why|how|which)\b",
    re.IGNORECASE,
)
# "When it stops, …" sets the scene; "When does it stop" asks.
_SETS_SCENE = re.compile(
    r"^(?:if|while|once"
    r"|when(?! (?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|must|may)\b))\b",
    re.IGNORECASE,
)
_CHINESE = re.compile(r"[，,；;]|(?:以及|还有|并且|而且|另外|同时)")
_CHINESE_ASKS = re.compile(
    r"什么|怎|如何|为何|哪|谁|多少|多久|多大|多长|多远|多高|几|何时|何处|何种|是否|能否|可否|有没有|能不能"
    r"|是不是|可不可以|吗"
)
_LEADS = re.compile(
    r"^(?:and|also|then|but|besides|additionally|以及|还有|并且|而且|另外|同时|又|那么|那|再者|此外)[，,\s]*",
    re.IGNORECASE,
)
SHORTEST_PART_WORDS = 2
# A pasted text has no end of sentences; each part is graded, and looked up, on its own.
MOST_PARTS = 6


def parts_of(question: str) -> list[str]:
    """What is asked, one by one, in order, without the words that join it.

    The question as it is where it has no parts, or more than MOST_PARTS.
    """
    lines = sentences(question)
    asks = [line for line in lines if line[-1:] in "?？"] or lines
    found = [
        part
        for line in asks
        for part in (_chinese if language_of(line) == "zh" else _english)(line)
    ]
    named = [_LEADS.sub("", part).strip(" ,;，；") for part in found]
    long = [part for part in named if word_count(part) >= SHORTEST_PART_WORDS]
    apart = list(dict.fromkeys(long))
    return apart if len(long) > 1 and len(apart) <= MOST_PARTS else [question.strip()]


def _english(line: str) -> list[str]:
    """Cut before a word that asks; a clause before it that asks nothing stays with what follows."""
    pieces = _ENGLISH.split(line)
    asks = [bool(_ASKS.search(piece)) and not _SETS_SCENE.match(piece) for piece in pieces]
    return _joined(pieces, asks, ", ")


def _chinese(line: str) -> list[str]:
    pieces = [piece for piece in _CHINESE.split(line) if piece.strip()]
    return _joined(pieces, [bool(_CHINESE_ASKS.search(piece)) for piece in pieces], "，")


def _joined(pieces: list[str], asks: list[bool], glue: str) -> list[str]:
    parts: list[str] = []
    waiting: list[str] = []
    for piece, does in zip(pieces, asks, strict=True):
        waiting.append(piece)
        if does:
            parts.append(glue.join(waiting))
            waiting = []
    if waiting and parts:
        parts[-1] = glue.join([parts[-1], *waiting])
    return parts or [glue.join(waiting)]
