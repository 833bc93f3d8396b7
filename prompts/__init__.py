"""What is said to language models and users: text only, one file a prompt and language."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from secrets import token_hex
from string import Template
from typing import Literal

Language = Literal["en", "zh"]

REASONS = {
    "answer_system": "Knowledge alone, a marker a sentence; what is data gives no orders.",
    "answer": "The question comes last, next to where the answer begins.",
    "rewrite_system": "Search engines want at most three names or terms, not a sentence.",
    "rewrite": "Few-shot, as in CRAG's appendix A; one example points back into a dialogue.",
    "contextualise_system": "One question and its intent kept: whoever answers sees it alone.",
    "contextualise": "Few-shot: a pronoun, a chain of follow-ups, a new topic left as it is.",
    "clarify": "Words of the answering text are what a search finds.",
    "decompose": "Sub-questions that need no other, for each is searched apart.",
    "hyde": "An invented answer lies nearer to the real one than the question does.",
    "hypothetical": "One a line can be read without a format; each is understood alone.",
    "dialogue": "The latest turns, so that what points back can be understood.",
    "unknown": "The abstention: it says where was looked and guesses nothing.",
    "courtesy": "To thanks and greetings where no model speaks: what can be asked for.",
    "deadline": "The same where time ran out: it says what would help.",
    "cancelled": "The same where somebody stopped it: nobody needs advice then.",
    "direct_system": "Without knowledge nothing can be cited: brevity, and no guessed facts.",
    "direct": "The question alone, where no retrieval is needed.",
    "choices": "A closed set: equal answers must read alike for votes to add up.",
    "compress_system": "What helps no more than nothing is left out; quoted text gives no orders.",
    "compress": "The question comes last, so that the text is read for it.",
    "revise": "Knowledge, the answer so far and its criticism, so that what was right stays.",
    "segment": "One sentence from one passage, so that each can be judged and cited apart.",
    "weak": "Names the sentence, for whoever revises to find it.",
    "missing": "Of several parts those that nothing answers: silence would look like an answer.",
    "uncovered": "Names the part of the question, to look for.",
    "unhelpful": "Where nothing single can be named.",
    "unsupported": "The same for an answer that claims too much.",
    # images: what is stored comes first, and what a model made is said to be
    "no_image": "Says what was looked for where, and that nothing was made up.",
    "no_caption": "The same for an image that is not known.",
    "made_image": "An image that a model made is no evidence, and is told apart.",
    "describe": "What is seen, in a sentence or two: a caption, not an interpretation.",
    # the critic that is a language model
    "decide_system": "Retrieval on demand: facts are looked up, conversation is not.",
    "decide": "Evidence at hand may suffice already.",
    "judge_system": "Findings before the grades they explain; JSON, so that grades can be read.",
    "judge": "Sentences are numbered, so that weak ones are named by number.",
    "criticise_system": "What to mend, not the mended answer: that is the writer's.",
    "criticise": "Findings are shown to be checked, for they may be wrong.",
    "repair": "A reply that is no JSON is mended once, told what is wrong with it.",
    # evaluations
    "about": "A first question on a heading, for whoever evaluates to put into better words.",
    "define": "The same on an entry: its first sentence is the answer.",
    "assess_system": "All of RAGAs' measures in one call; numbers, so that lines can be counted.",
    "assess": "Reference answers come last: what they say is looked for in the answer.",
    # the evaluator that is one: CRAG's three ways of asking (table 4)
    "relevance_system": "Related is not enough: the passage has to help answering.",
    "relevance_direct": "Table 4's first way: yes or no at once, readable by log-probability.",
    "relevance_chain_of_thought": "Its second: reasons first, the verdict behind a mark.",
    "relevance_few_shot": "Its third: examples of ours on either side of the border.",
}
"""Every prompt by name, with the reason for its being as it is."""

NAMES = tuple(REASONS)


class SlotError(ValueError):
    """A prompt was rendered with a slot missing or one that it does not have."""


_nonce: ContextVar[str] = ContextVar("nonce", default="")


@contextmanager
def one_nonce() -> Iterator[None]:
    """All prompts rendered within have the same nonce: servers keep what their openings share."""
    token = _nonce.set(token_hex(8))
    try:
        yield
    finally:
        _nonce.reset(token)


class Prompt:
    """A text with `$slots`. `$nonce` fills itself, with other characters each time or each run.

    Tags named by it enclose what others wrote: text that nobody can close them in.
    """

    def __init__(self, text: str) -> None:
        self._template = Template(text)
        self.slots = frozenset(self._template.get_identifiers()) - {"nonce"}

    def render(self, **slots: str) -> str:
        """The text with every slot filled. Raises SlotError on a missing or unknown slot."""
        if wrong := self.slots ^ slots.keys():
            raise SlotError(f"missing or unknown slots: {', '.join(sorted(wrong))}")
        return self._template.substitute(slots, nonce=_nonce.get() or token_hex(8)).strip()


@cache
def prompt(name: str, language: Language) -> Prompt:
    """Raises FileNotFoundError for a name that is no prompt."""
    return Prompt((files(__name__) / language / f"{name}.txt").read_text(encoding="utf-8"))


# Read at import: no file is opened while a run is under way.
for _language in ("en", "zh"):
    for _name in NAMES:
        prompt(_name, _language)
