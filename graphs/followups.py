"""Follow-up questions made to stand alone, by rule: with the words of what they follow."""

import re
from collections.abc import Sequence

from graphs.function_words import RIVALS
from graphs.leaning import (
    LONGEST_READ,
    asks_more,
    is_courtesy,
    leans,
    topic_of,
    without_correction,
)
from graphs.ports import KeywordExtractor
from graphs.text.language import language_of
from graphs.text.sentences import sentences
from graphs.types import Message

LATEST_QUESTIONS = 6
MOST_WORDS, MOST_KEYWORDS = 6, 3
LONGEST_ADDED = 200

_DEFINES = re.compile(
    r"^(?:what(?: is|'s| are)|who (?:is|was|are|were)|tell me about|explain|describe)"
    r"(?: an?)? (?P<en>[^?.!,;]{2,60}?)[?.!\s]*$"
    r"|^(?:请问|请)?(?:什[么麼]是|介[绍紹](?:一下)?|解[释釋](?:一下)?|[谁誰]是)(?P<zh>[^？?。！，,]{2,20}?)[？?。！\s]*$"
    r"|^(?P<zh_first>[^？?。！，,]{2,20}?)(?:是什[么麼]|是[谁誰]|指什[么麼]|是指什[么麼]|是什[么麼]意思)[？?。！\s]*$",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|they|them|this|that|these|those|he|she|him)\b(?!')", re.IGNORECASE)
_OWNS = re.compile(r"\b(?:its|their|his)\b", re.IGNORECASE)
_PRONOUN_ZH = re.compile(r"它们|它|他们|(?<!其)他|她们|她")
_PERSON = re.compile(r"\b(?:he|she|him|her|his|hers)\b|(?<!其)他(?!们)|她(?!们)", re.IGNORECASE)
_CHOOSES = re.compile(
    r"\bthe (\w++)(?: ones?)?[?.!\s]*+$|([上下]限)[呢吗嗎]?[？?。！\s]*+$", re.IGNORECASE
)
_NAME = re.compile(
    r"`([^`\n]{2,60})`|《([^》]{2,40})》|「([^」]{2,40})」|\b(\w*_\w+|[A-Za-z]+\d\w*|[A-Z]\w*[A-Z]\w*)\b"
)


async def standalone(
    question: str, history: Sequence[Message], extractor: KeywordExtractor
) -> str | None:
    """The question with the topic of those before it; None where it stands alone already.

    The forms that earlier follow-ups were given are not kept: they are made anew, in order.
    """
    if not leans(question):
        return None
    turns = [turn for turn in _with_answers(history) if not is_courtesy(turn[0])]
    turns = turns[-LATEST_QUESTIONS:]
    said = ""
    for earlier, _ in turns:
        if not asks_more(earlier):
            joins = said and leans(earlier)
            said = await _joined(earlier, said, "", extractor) if joins else earlier
    if not said:
        return None
    return await _joined(question, said, turns[-1][1], extractor)


def _with_answers(history: Sequence[Message]) -> list[tuple[str, str]]:
    """The questions before, each with its answer, or "" where it has none."""
    turns: list[tuple[str, str]] = []
    for turn in history:
        if turn["role"] == "user":
            turns.append((without_correction(turn["content"].strip()), ""))
        elif turns:
            turns[-1] = (turns[-1][0], turn["content"])
    return [turn for turn in turns if turn[0]]


async def _joined(question: str, said: str, answer: str, extractor: KeywordExtractor) -> str:
    """In the pronoun's place where the topic is one thing, else its words behind the question."""
    defined = _DEFINES.match(said)
    if defined and not leans(said):
        topic = next(group for group in defined.groups() if group).strip()
        replaced = _replaced(question, topic)
        if replaced != question:
            return replaced
        words = [topic]
    else:
        words = await _topic_of(said, extractor)
    words = _without_rivals(words, question)
    told = question.casefold()
    # More of the same is about what was asked, not about a name that the answer happens to tell.
    if not asks_more(question):
        words += await _names_in(answer, said, extractor, is_person=bool(_PERSON.search(question)))
    added = [word for word in words if word.casefold() not in told]
    return f"{question} {' '.join(added)[:LONGEST_ADDED]}".strip()


def _replaced(question: str, topic: str) -> str:
    """The first pronoun replaced by what it stands for."""
    if language_of(question) == "zh":
        return _PRONOUN_ZH.sub(lambda _: topic, question, count=1)
    owned = _OWNS.sub(lambda _: f"{topic}'s", question, count=1)
    return owned if owned != question else _PRONOUN.sub(lambda _: topic, question, count=1)


async def _topic_of(said: str, extractor: KeywordExtractor) -> list[str]:
    """The words of a short question; of a longer one those that tell it best."""
    words = list(dict.fromkeys(topic_of(said)))
    if len(words) <= MOST_WORDS:
        return words
    return list(await extractor.keywords(said[:LONGEST_READ], MOST_KEYWORDS)) or words[:MOST_WORDS]


def _without_rivals(words: list[str], question: str) -> list[str]:
    """Where "the lower one" is asked about, nothing is upper."""
    found = _CHOOSES.search(question)
    chosen = (found[1] or found[2]).lower() if found else ""
    rivals = next((group - {chosen} for group in RIVALS if chosen in group), None)
    if not rivals:
        return words
    told = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(rivals))})(?![a-z])", re.IGNORECASE)
    return [left for word in words if (left := " ".join(told.sub("", word).split()))]


async def _names_in(
    answer: str, said: str, extractor: KeywordExtractor, *, is_person: bool
) -> list[str]:
    """What the answer's first sentence names that was not asked about; at most one."""
    first = next(iter(sentences(answer[:LONGEST_READ])), "")
    if is_person:
        names = list(await extractor.keywords(first, 1))
    else:
        names = [next(part for part in match.groups() if part) for match in _NAME.finditer(first)]
    return [name for name in names if name.casefold() not in said.casefold()][:1]
