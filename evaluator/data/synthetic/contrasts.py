"""Contrasts: texts made to look right and to be wrong for a question, in English and Chinese.

They teach what the topic cannot: a statement that nobody knows, the question itself, headings,
navigation and code that repeat its words, the passage without its answer, names or numbers
exchanged, names that change their places, a negated statement. Made entries of manuals teach which
parameter, attribute and version a question is about.
"""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.data.hard_negatives import terms
from evaluator.data.synthetic.wording import NUMBER, renumbered, shape_of
from evaluator.data.text import contains_answer, sentences

Wordings = dict[str, dict[str, Any]]
WORDINGS: Wordings = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By language: `nobody` knows, `pointers` that only point, `negated`, and `parameters`."""

_CAPITALS = re.compile(r"(?<=[\w,] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_QUESTION_WORDS = {
    "en": re.compile(
        r"\b(?:what|which|who|whom|whose|when|where|why|how|many|much|is|are|was|were|did|does|"
        r"do|the|of|in|a|an)\b",
        re.I,
    ),
    "zh": re.compile(
        r"什么时候|什麼時候|什么|什麼|哪[一]?[个個年些里裡儿兒位种種]?|谁|誰|多少|几|幾|"
        r"如何|怎[么麼样樣]*|为何|為何|为什么|為什麼|是|的|呢|吗|嗎|何时|何時"
    ),
}


@dataclass(frozen=True, slots=True)
class Contrast:
    """A wrong twin of a question with a passage that answers it; `kind` says how it was made."""

    kind: str
    question: str
    passage: str


class Contrasts:
    """Makes wrong twins of answering texts, with names of other records to put in their place."""

    def __init__(
        self, names: Sequence[str], language: str, rng: random.Random, wordings: Wordings = WORDINGS
    ) -> None:
        self._wordings, self._language, self._rng = wordings[language], language, rng
        self._alike: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            self._alike.setdefault(shape_of(name), []).append(name)

    def of(
        self, question: str, text: str, answers: Sequence[str], names: Sequence[str] = ()
    ) -> list[Contrast]:
        """One twin of each kind that the texts allow; `names` are some the text may hold."""
        held = [name for name in (*names, *_CAPITALS.findall(text)) if self._is_name(name)]
        folded = question.casefold()
        mentioned = [n for n in dict.fromkeys(held) if n.casefold() in folded and n in text]
        holding = [part for part in sentences(text) if contains_answer(part, answers)]
        made = [
            ("nobody knows", question, self._worded("nobody", question)),
            ("only points", question, self._worded("pointers", question)),
            ("answer removed", question, self._without(text, answers)),
            ("name exchanged", *self._renamed(question, text, mentioned, answers)),
            ("number exchanged", *self._renumbered(question, text, answers)),
            ("roles exchanged", question, self._swapped(text, held, mentioned, answers)),
            ("negated", question, self._negated(holding)),
        ]
        return [Contrast(*each) for each in made if each[2]]

    def _is_name(self, name: str) -> bool:
        return len(name) >= 2 and not NUMBER.search(name) and len(name) <= 40

    def _worded(self, kind: str, question: str) -> str:
        return filled(self._rng.choice(self._wordings[kind]), question, self._language)

    def _without(self, text: str, answers: Sequence[str]) -> str:
        """The text's sentences that hold no answer; "" where that is nothing."""
        rest = [part for part in sentences(text) if not contains_answer(part, answers)]
        joined = ("" if self._language == "zh" else " ").join(rest)
        return joined if answers and len(joined) > 15 else ""

    def _renamed(
        self, question: str, text: str, mentioned: Sequence[str], answers: Sequence[str]
    ) -> tuple[str, str]:
        """A name of the question exchanged for another one, there or in the text."""
        mentioned = [name for name in mentioned if not any(name in a or a in name for a in answers)]
        if not mentioned:
            return question, ""
        name = self._rng.choice(mentioned)
        pool = self._alike.get(shape_of(name), [])
        others = [n for n in self._rng.sample(pool, min(6, len(pool))) if n not in text + question]
        if not others:
            return question, ""
        if self._rng.random() < 0.5:
            name_pattern = re.compile(re.escape(name), re.IGNORECASE)
            return name_pattern.sub(lambda _: others[0], question), text
        return question, text.replace(name, others[0])

    def _renumbered(self, question: str, text: str, answers: Sequence[str]) -> tuple[str, str]:
        """A number that question and text share changed in one of them: a year, a version."""
        shared = set(NUMBER.findall(question)) & set(NUMBER.findall(text))
        shared = {number for number in shared if not any(number in answer for answer in answers)}
        if not shared:
            return question, ""
        number = self._rng.choice(sorted(shared))
        new = renumbered(number, "", self._rng) or ""
        whole = re.compile(rf"(?<!\d){re.escape(number)}(?!\d)")
        if self._rng.random() < 0.5:
            return whole.sub(new, question), text
        return question, whole.sub(new, text)

    def _swapped(
        self, text: str, held: Sequence[str], mentioned: Sequence[str], answers: Sequence[str]
    ) -> str:
        """The text with a name of the question and the answer, or a second name, in swapped places.

        Who did it then has it done to them.
        """
        others = [n for n in (*answers[:1], *held) if n in text and self._is_name(n)]
        pairs = [
            (one, two)
            for one in mentioned
            for two in others
            if one not in two and two not in one and shape_of(one) == shape_of(two)
        ]
        if not pairs:
            return ""
        one, two = self._rng.choice(pairs)
        both = re.compile(f"{re.escape(one)}|{re.escape(two)}")
        return both.sub(lambda match: two if match.group() == one else one, text)

    def _negated(self, holding: Sequence[str]) -> str:
        if not holding:
            return ""
        sentence = self._rng.choice(holding)
        bare = sentence.rstrip(" .。！!；;")
        keeps_capital = bool(re.match(r"[A-Z][\w'-]* [A-Z]|[A-Z]{2}", sentence))
        lowered = sentence if keeps_capital else sentence[:1].lower() + sentence[1:]
        template: str = self._rng.choice(self._wordings["negated"])
        return template.format(
            sentence=sentence, bare=bare, lowered=lowered, lowered_bare=lowered.rstrip(" .")
        )


def filled(template: str, question: str, language: str) -> str:
    """A wording with the question, or what is left of it, in its place."""
    zh = language == "zh"
    bare = question.strip().rstrip("?？ ")
    words = [part.strip(" ，,。.") for part in _QUESTION_WORDS[language].split(bare)]
    words = [word for word in words if word]
    subject = max(words, key=len, default=bare)
    keys = words if zh else [term for word in words for term in terms(word) if term != "-"]
    keys = list(dict.fromkeys(keys))[:6] or [bare]
    clause = bare if zh else bare[:1].lower() + bare[1:]
    title = "".join(words) if zh else " ".join(word[:1].upper() + word[1:] for word in keys)
    return template.format(
        question=question.strip(),
        clause=clause,
        subject=subject,
        title=title or bare,
        listed=("、" if zh else ", ").join(keys),
        listed_by_angle=" > ".join(keys),
        listed_by_bar=" | ".join(keys),
        listed_by_number=" 2. ".join(keys),
        snake="_".join(keys),
        dashed="-".join(keys),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One made entry of a manual: text, its value, and what a question about it says."""

    text: str
    value: str
    question: str
    bare: str  # the entry without its value


def entries(
    language: str, rng: random.Random, count: int, wordings: Wordings = WORDINGS
) -> list[Entry]:
    """Neighbouring parameters of one made manual, of one form; no two share name and value."""
    w = wordings[language]["parameters"]
    english = wordings["en"]["parameters"]
    form, ask = rng.choice(w["entries"]), rng.choice(w["asks"])
    prefix = rng.choice(["", "", "max_", "min_", "default_", "wal_", "net.", "io."])
    made: list[Entry] = []
    chosen = rng.sample(range(len(w["things"])), count)
    aspect_place = rng.randrange(len(w["aspects"]))
    for place in chosen:
        if rng.random() < 0.5:
            aspect_place = rng.randrange(len(w["aspects"]))
        thing, aspect = w["things"][place], w["aspects"][aspect_place]
        joint = rng.choice(["_", "_", "-", "."])
        words = f"{english['things'][place]} {english['aspects'][aspect_place]}"
        name = words.replace(" ", joint)
        numbers = rng.randint(2, 99), 10 * rng.randint(1, 90), 2 ** rng.randint(2, 14)
        value = str(rng.choice(numbers))
        fields = {
            "name": prefix + name, "thing": thing, "aspect": aspect, "value": value,
            "type": rng.choice(["integer", "int", "number", "string"]),
            "unit": rng.choice(w["units"][aspect]),
            "extra": rng.choice([*w["extras"], ""]),
        }  # fmt: skip
        made.append(
            Entry(
                form.format(**fields).strip(), value, ask.format(**fields),
                rng.choice(w["bare"]).format(**fields).strip(),
            )
        )  # fmt: skip
    return made


def versioned(
    entry: Entry, version: str, language: str, rng: random.Random, wordings: Wordings = WORDINGS
) -> Entry:
    """The entry said of one version of the product, and the question about it."""
    w = wordings[language]["parameters"]
    lowered = entry.text[:1].lower() + entry.text[1:]
    text = rng.choice(w["versioned"]).format(entry=entry.text, lowered=lowered, version=version)
    ask = rng.choice(w["asks_versioned"]).format(ask=entry.question, version=version)
    return Entry(text, entry.value, ask, entry.bare)
