"""What is said to language models and users: text only, one file a prompt and language."""

from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

Language = Literal["en", "zh"]

NAMES = (
    "answer_system",
    "answer",
    "rewrite_system",
    "rewrite",
    "dialogue",
    "unknown",
    "deadline",
    "direct_system",
    "direct",
    "choices",
    "revise",
    "segment",
    "weak",
    "uncovered",
    "unhelpful",
    "unsupported",
    # the critic that is a language model
    "decide_system",
    "decide",
    "judge_system",
    "judge",
    "criticise_system",
    "criticise",
    "repair",
    # the evaluator that is one: CRAG's three ways of asking (table 4)
    "relevance_system",
    "relevance_direct",
    "relevance_cot",
    "relevance_few_shot",
)


class SlotError(ValueError):
    """A prompt was rendered with a slot missing or one that it does not have."""


class Prompt:
    """A text with `$slots`."""

    def __init__(self, text: str) -> None:
        self._template = Template(text)
        self.slots = frozenset(self._template.get_identifiers())

    def render(self, **slots: str) -> str:
        """The text with every slot filled. Raises SlotError on a missing or unknown slot."""
        if wrong := self.slots ^ slots.keys():
            raise SlotError(f"missing or unknown slots: {', '.join(sorted(wrong))}")
        return self._template.substitute(slots).strip()


@cache
def prompt(name: str, language: Language) -> Prompt:
    """Raises FileNotFoundError for a name that is no prompt."""
    return Prompt((files(__name__) / language / f"{name}.txt").read_text(encoding="utf-8"))


# Read at import: no file is opened while a run is under way.
for _language in ("en", "zh"):
    for _name in NAMES:
        prompt(_name, _language)
