"""Whatever a generator writes of a closed set, the caller's own words come back."""

import pytest

from graphs.generation.choices import choice_of, supported_choice
from tests.fakes import FakeEvaluator

YES_NO = ("Yes", "No")
CLAIM = ("supported", "not supported", "unclear")
TOWNS = ("Port Elm", "Oakfield", "Ashby")
ZH = ("支持", "不支持", "无法判断")


@pytest.mark.parametrize(
    ("text", "choices", "chosen"),
    [
        ("yes", YES_NO, "Yes"),
        ("(yes) [1]", YES_NO, "Yes"),
        ("**No.**", YES_NO, "No"),
        ("B", TOWNS, "Oakfield"),
        ("(b) Oakfield", TOWNS, "Oakfield"),
        ("3.", TOWNS, "Ashby"),
        ("Option C [2]", TOWNS, "Ashby"),
        ("The capital is Port Elm, on the coast [1].", TOWNS, "Port Elm"),
        ("The claim is not supported by the text.", CLAIM, "not supported"),
        ("该说法不支持[1]。", ZH, "不支持"),
        ("答案：B", ZH, "不支持"),
        ("Either Oakfield or Ashby.", TOWNS, None),
        ("A river flows there.", TOWNS, None),
        ("Nobody said so.", YES_NO, None),
        ("", YES_NO, None),
    ],
)
def test_a_text_is_one_of_the_choices_or_none(
    text: str, choices: tuple[str, ...], chosen: str | None
) -> None:
    assert choice_of(text, choices) == chosen


async def test_of_an_unclear_text_the_evaluator_tells() -> None:
    evaluator = FakeEvaluator()
    text = "It lies on the coast, where Port and Elm meet."
    chosen, usage = await supported_choice("Which town?", text, TOWNS, evaluator)
    assert (chosen, usage.scored_pairs) == ("Port Elm", 3)
    broken = FakeEvaluator(fails_from_call=1)
    assert (await supported_choice("Which town?", text, TOWNS, broken))[0] is None
