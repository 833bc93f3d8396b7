"""Reads what a model wrote that was trained on reflection tokens (Self-RAG 3.2, 3.3).

Scores come from the probabilities at the place where a token of the group stands: Retrieve and
IsRel at the first token, IsSup after each segment, IsUse at the end. What is missing counts 0, so
the 20 likeliest tokens of a place suffice.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphs.ports import Reflected
from graphs.reflection import scores
from graphs.text.sentences import HAN, sentences
from graphs.types import Judgement, Usage

PARAGRAPH = ("<paragraph>", "</paragraph>")
_FULL, _PARTIAL, NO_SUPPORT = scores.SUPPORT
_ALIASES = {
    "[Fully support]": _FULL,
    "[Partially support]": _PARTIAL,
    "[No support]": NO_SUPPORT,
    "[Contradictory]": NO_SUPPORT,
}
_RETRIEVE = (*scores.RETRIEVE, scores.CONTINUE)
_KNOWN = {
    **{
        token.casefold(): token
        for token in (*_RETRIEVE, *scores.RELEVANT, *scores.SUPPORT, *scores.UTILITY)
    },
    **{alias.casefold(): token for alias, token in _ALIASES.items()},
}
_MARKS = (*_KNOWN, *PARAGRAPH, "<s>", "</s>", "<unk>", "<pad>", "[pad]")
_TOKEN = re.compile("|".join([*map(re.escape, _MARKS), r"<\|[a-z_]+\|>"]), re.IGNORECASE)
# Begun where blanks begin and possessive, for a long row of blanks would else be tried from each.
_ROW = re.compile(rf"(?<!\s)\s*+(?:(?:{_TOKEN.pattern})\s*+)++", re.IGNORECASE)
_QUOTED = re.compile(r"<paragraph>.*?(?:</paragraph>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it was generated; `top` are the likeliest of its place with their logarithms."""

    text: str
    log_probability: float
    top: Mapping[str, float]


def read(
    tokens: Sequence[Token], text: str, *, grounded: bool, one_segment: bool = False
) -> Reflected:
    """The judged reply, its cost aside; of its segments only the first where `one_segment`.

    `text` is the reply as the server joined it, for a token may be a part of a character.
    `grounded`: a passage stood in the prompt, so relevance and support can be told.
    """
    ending = None
    if one_segment:
        tokens, ending = _first_segment(tokens)
        text = _first_segment_of(text)
    # A model that was not made to say a token first still gives its probability there.
    first = _probabilities(tokens[0]) if tokens else {}
    useful = _at(scores.UTILITY, tokens)
    judgement = Judgement(
        utility=scores.utility(useful[-1]) if useful else 0.0, likelihood=_likelihood(tokens)
    )
    if grounded:
        judgement = replace(
            judgement,
            relevance=scores.relevance(next(iter(_at(scores.RELEVANT, tokens)), first)),
            support=_mean([scores.support(p) for p in _at(scores.SUPPORT, tokens)]),
            weak=tuple(_unsupported(text)),
        )
        retrieval = None if ending is None else retrieval_at(ending)
    else:
        retrieval = scores.retrieval_share(first)
    continues = ending is not None and _known(ending.text) == scores.CONTINUE
    return Reflected(clean(text), judgement, Usage(), retrieval, continues)


def retrieval_at(token: Token) -> float:
    """p(Retrieval) normalised at this place, 0…1."""
    return scores.retrieval_share(_probabilities(token))


def judged_after(tokens: Sequence[Token]) -> tuple[float, float]:
    """(support, utility) of a text that ends where these tokens begin."""
    if not tokens:
        return 0.0, 0.0
    first = _probabilities(tokens[0])
    return (
        scores.support(next(iter(_at(scores.SUPPORT, tokens)), first)),
        scores.utility(next(iter(_at(scores.UTILITY, tokens)), first)),
    )


def relevance_at(token: Token) -> float:
    """p(Relevant) normalised at this place, 0…1."""
    return scores.relevance(_probabilities(token))


def holds_reflection(tokens: Sequence[Token]) -> bool:
    """Whether a reflection token was written or weighed anywhere."""
    return any(_known(text) for token in tokens for text in (token.text, *token.top))


def clean(text: str) -> str:
    """The text without quoted paragraphs and without any special token."""
    return without_tokens(_QUOTED.sub(" ", text))


def without_tokens(text: str) -> str:
    """The text without special tokens; where English words would run together, a blank is left."""
    while _TOKEN.search(text):  # what stood around one may make another
        text = _ROW.sub(_joint, text)
    return text.strip()


def _joint(match: re.Match[str]) -> str:
    before = match.string[: match.start()][-1:]
    after = match.string[match.end() : match.end() + 1]
    touches = any(HAN.match(sign) or sign in "。！？；，" for sign in (before, after))
    return "" if touches or after in ".,;:!?)" else " "


def _known(text: str) -> str | None:
    """The reflection token that this is, under its own name."""
    return _KNOWN.get(text.strip().casefold())


def _at(group: Sequence[str], tokens: Sequence[Token]) -> list[dict[str, float]]:
    """The probabilities wherever a token of the group was written."""
    return [_probabilities(token) for token in tokens if _known(token.text) in group]


def _probabilities(token: Token) -> dict[str, float]:
    p: dict[str, float] = defaultdict(float)
    for text, log_probability in {token.text: token.log_probability, **token.top}.items():
        if name := _known(text):
            p[name] += _exp(log_probability)
    return p


def _exp(log_probability: float) -> float:
    """0…1, whatever a server tells."""
    return 0.0 if math.isnan(log_probability) else math.exp(min(log_probability, 0.0))


def _likelihood(tokens: Sequence[Token]) -> float:
    """exp of the mean log-probability of the output; 0 where it is empty."""
    quoting, plain = False, list[float]()
    for token in tokens:
        mark = token.text.strip().casefold()
        quoting = mark == PARAGRAPH[0] or (quoting and mark != PARAGRAPH[1])
        if not quoting and not _TOKEN.fullmatch(mark):
            plain.append(token.log_probability)
    return _exp(_mean(plain)) if plain else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _first_segment(tokens: Sequence[Token]) -> tuple[Sequence[Token], Token | None]:
    """The tokens before the first Retrieve token that follows words, and that token."""
    text = ""
    for place, token in enumerate(tokens):
        if _known(token.text) in _RETRIEVE and clean(text):
            return tokens[:place], token
        text += token.text
    return tokens, None


def _first_segment_of(text: str) -> str:
    for match in _TOKEN.finditer(text):
        if _known(match[0]) in _RETRIEVE and clean(text[: match.start()]):
            return text[: match.start()]
    return text


def _unsupported(text: str) -> list[str]:
    """The sentences of the segments that the model itself calls unsupported."""
    weak, start = list[str](), 0
    for match in _TOKEN.finditer(text):
        if _known(match[0]) in scores.SUPPORT:
            if _known(match[0]) == NO_SUPPORT:
                weak += sentences(clean(text[start : match.start()]))
            start = match.end()
    return weak
