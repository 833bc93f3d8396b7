"""Synthetic answers: right and wrong values of one type, put into words (English and Chinese)."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from evaluator.data.synthetic.material import Material, ended
from evaluator.data.text import is_chinese, normal_form

WORDINGS: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""By language: `frames` for a value, `empty_talk` and `echoes` that answer nothing."""

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WHO_ZH = "谁|誰|哪位|什么人|什麼人"
_WHEN_ZH = "什么时候|什麼時候|何时|何時|哪一?年|何年"
_WHERE_ZH = "哪里|哪裡|哪儿|哪兒|何处|何處|什么地方|什麼地方"
_MANY_ZH = "多少|几|幾"
_QUESTION_WORD = {
    "en": re.compile(
        r"\b(?:(?P<who>whom?)|(?P<when>when|(?:what|which) (?:year|date))|"
        r"how (?:many|much|long|old|far)|whose|where|why|how|"
        r"(?:what|which) (?:day|month|century)|what|which)\b"
    ),
    "zh": re.compile(
        rf"为什么|為什麼|为何|為何|(?P<who>{_WHO_ZH})|(?P<many>{_MANY_ZH})|多[长久大高远長遠]|"
        rf"(?P<when>{_WHEN_ZH})|{_WHERE_ZH}|哪[个個国國省市]|如何|怎[么麼样樣]|(?P<what>什么|什麼)|"
        r"何|哪"
    ),
}
"""A group's words ask for the same kind of answer; any other word asks for one of its own."""
_ACTED = re.compile(r"^who \s*(?!(?:did|do|does|were|are|is|was)\b)(\w+)\s+(.+)$", re.I)
_DEFINED = re.compile(r"^(?:who|what) (is|was|are|were) ((?:the|a|an|his|her|its|their) .+)$", re.I)
_PLACE_ZH = rf"{_WHERE_ZH}|哪一?[个個](?:国家|國家|城市|省份|地区|地區)"
_END_ZH = "(?:什么|什麼|何)(?=[？?呢]*$)"
_CLAUSE_ZH = re.compile(r"[也是由被因但把将將让讓为為而从從]|如今|可以")


def asked_for(question: str, language: str) -> str:
    """The kind of answer a question asks for: "who", "when", "how far", 为什么 ..., or ""."""
    word = _QUESTION_WORD[language].search(question.lower())
    return word.lastgroup or word.group() if word else ""


def shape_of(value: str) -> str:
    """A value's looks: digits, name or words, with its rough length."""
    chinese = is_chinese(value)
    length = len(value) if chinese else 3 * len(value.split())
    size = "short" if length <= 5 else "middle" if length <= 12 else "long"
    if NUMBER.search(value):
        digits = max(len(number) for number in NUMBER.findall(value))
        return f"digits {min(digits, 5)} {size}"
    words = [word for word in re.findall(r"[^\W\d_]+", value) if len(word) > 3 or word[0].isupper()]
    return f"name {size}" if words and all(w[0].isupper() for w in words) else f"words {size}"


class Values:
    """The short answers of all material, to be swapped among questions that ask for the same."""

    def __init__(self, materials: Sequence[Material]) -> None:
        self._alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._at: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for material in materials:
            if material.answers:
                value = material.answers[0]
                kind = asked_for(material.question, material.language)
                self._alike[material.source, kind, shape_of(value)].append(value)
                self._at[material.passage].append((kind, value))

    def wrong(self, material: Material, like: str, rng: random.Random) -> str | None:
        """Another answer in the place of `like`: mostly one that the passage itself holds.

        Of the same type where there is one, else what another question found in the passage.
        """
        known = [normal_form(answer) for answer in (like, *material.answers)]
        pools = self._pools(material, like)
        if rng.random() < 0.3:
            pools.reverse()
        for pool in pools:
            for value in rng.sample(pool, min(5, len(pool))):
                form = normal_form(value)
                if form and not any(form in own or own in form for own in known):
                    return value
        return renumbered(like, material.passage, rng)

    def _pools(self, material: Material, like: str) -> list[list[str]]:
        """Values to put for `like`: this passage's of its type, names and others; the source's."""
        shape, kind = shape_of(like), asked_for(material.question, material.language)
        here, of_source = self._at[material.passage], self._alike[material.source, kind, shape]
        if shape.startswith("digits"):
            return [[value for _, value in here if shape_of(value) == shape], [], of_source]
        alike = [value for other, value in here if shape_of(value) == shape and other == kind]
        named: list[str] = _NAME.findall(material.passage) if shape.startswith("name") else []
        wordy = [value for _, value in here if not shape_of(value).startswith("digits")]
        return [alike, named, wordy, of_source]

    def for_unanswerable(self, material: Material, rng: random.Random) -> str | None:
        """An answer that another question found in this passage."""
        pool = self._at[material.passage]
        return rng.choice(pool)[1] if pool else None


def renumbered(text: str, passage: str, rng: random.Random) -> str | None:
    """The text with one number changed, to one of the passage's own where one is like it."""
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    chosen = rng.choice(numbers)
    old, unit = chosen.group(), text[chosen.end() : chosen.end() + 1]
    mine = set(NUMBER.findall(text))
    alike = [n for n in NUMBER.finditer(passage) if len(n.group()) == len(old)]
    others = sorted({n.group() for n in alike if passage[n.end() : n.end() + 1] == unit} - mine)
    if others:
        new = rng.choice(others)
    else:  # as many digits, of which the last or the one before it differs
        place = len(old) - 1
        place -= rng.random() < 0.5 and place > 1 and old[place - 1].isdigit()
        digit = rng.choice([d for d in "123456789" if d != old[place]])
        new = f"{old[:place]}{digit}{old[place + 1 :]}"
    return f"{text[: chosen.start()]}{new}{text[chosen.end() :]}"


def joined(one: str, two: str, language: str, rng: random.Random) -> str:
    """Both values as one, in either order."""
    values = [one.strip(" .。"), two.strip(" .。")]
    rng.shuffle(values)
    return ("和" if language == "zh" else " and ").join(values)


def is_brief(value: str) -> bool:
    """Whether a value is a phrase of a few words and no clause."""
    if is_chinese(value):
        return len(value) <= 15 and not _CLAUSE_ZH.match(value)
    return len(value.split()) <= 8 and len(value) <= 60


def framed(value: str, language: str, rng: random.Random) -> str:
    """The value in a short sentence that says nothing else; a clause as a sentence of its own."""
    if not is_brief(value):
        return ended(value[0].upper() + value[1:], language)
    return rng.choice(WORDINGS[language]["frames"]).format(value.strip(" .。"))


def worded(material: Material, value: str, rng: random.Random, *, stated: bool) -> str:
    """The value as an answer in words, where `stated` and a rule fits as a statement."""
    text = statement(material.question, value, material.language) if stated else None
    return text or framed(value, material.language, rng)


def statement(question: str, value: str, language: str) -> str | None:
    """The question turned into a statement of the value; None where no rule fits its wording."""
    value = value.strip(" .。")
    if not is_brief(value):
        return None
    return (_stated_zh if language == "zh" else _stated_en)(question.strip(), value)


def _stated_en(question: str, value: str) -> str | None:
    question = question.rstrip("? ")
    defined = _DEFINED.match(question)
    if defined and not re.search(r" (?:to|of|in|for|by|with)$", question):
        subject = defined.group(2)
        return f"{subject[0].upper()}{subject[1:]} {defined.group(1).lower()} {value}."
    acted = _ACTED.match(question)
    return f"{value[0].upper()}{value[1:]} {acted.group(1)} {acted.group(2)}." if acted else None


def _stated_zh(question: str, value: str) -> str | None:
    for pattern in (_WHO_ZH, _WHEN_ZH, _PLACE_ZH, _END_ZH):
        matches = list(re.finditer(pattern, question))
        if len(matches) == 1:
            return _in_place(question, matches[0].start(), matches[0].end(), value)
    many = re.search(rf"(?:{_MANY_ZH})(?![十百千次]{{2}})", question)
    if not many:
        return None
    tail = re.sub(r"^.*\d", "", value)
    if not value[0].isdigit() or not question.startswith(tail, many.end()):
        return None
    return _in_place(question, many.start(), many.end() + len(tail), value)


def _in_place(question: str, start: int, end: int, value: str) -> str:
    text = f"{question[:start]}{value}{question[end:]}"
    return re.sub(r"[呢吗嗎]?[？?]*$", "", text) + "。"
