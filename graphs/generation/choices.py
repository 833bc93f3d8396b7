"""Closed answer sets: what a generator wrote becomes one of the caller's choices."""

import math
import re
from collections.abc import Sequence

from graphs.grading.relevance import best_place
from graphs.ports import Evaluator, with_answer
from graphs.text.citations import without_markers
from graphs.text.sentences import HAN, plain
from graphs.types import Usage

_LETTER = re.compile(r"^\W*(?:option |choice |answer |选项|答案)?\W*([a-z]|\d{1,2})\b\W*", re.I)


def choice_of(text: str, choices: Sequence[str]) -> str | None:
    """The choice that the text is, numbers, or names alone; None where it is not clear.

    In that order: the choice itself, its letter or number (`B`, `2)`, `(b) ...`), the only choice
    that occurs in it; one within a longer one that occurs counts as that.
    """
    answer, known = (
        plain(without_markers(text)),
        {plain(choice): choice for choice in reversed(choices)},
    )
    if answer in known:
        return known[answer]
    letter = _LETTER.match(answer)
    if letter:
        mark, rest = letter[1], plain(answer[letter.end() :])
        place = int(mark) - 1 if mark.isdigit() else ord(mark) - ord("a")
        if 0 <= place < len(choices) and rest in ("", plain(choices[place])):
            return choices[place]
    named = [each for each in known if _occurs(each, answer)]
    longest = [one for one in named if not any(one != other and one in other for other in named)]
    return known[longest[0]] if len(longest) == 1 else None


def _occurs(choice: str, answer: str) -> bool:
    """As words of its own; Chinese has none."""
    if not choice:
        return False
    if HAN.search(choice):
        return re.search(rf"(?<![不没非未]){re.escape(choice)}", answer) is not None
    return re.search(rf"(?<!\w){re.escape(choice)}(?!\w)", answer) is not None


async def supported_choice(
    question: str, text: str, choices: Sequence[str], evaluator: Evaluator
) -> tuple[str | None, Usage]:
    """The choice that the text supports best; None where nothing can be scored.

    Raises EvaluatorFailed.
    """
    pairs = [(with_answer(question, choice), text) for choice in choices]
    scores = (await evaluator.score("support", pairs)).values
    at = best_place(scores, -math.inf)
    return None if at is None else choices[at], Usage(scored_pairs=len(pairs))
