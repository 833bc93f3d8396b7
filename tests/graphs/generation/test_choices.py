"""Whatever a generator writes of a closed set, the caller's own words come back."""

import pytest

from graphs.errors import EvaluatorFailed
from graphs.generation.answer import NO_LISTENER, generate_answer
from graphs.generation.choices import choice_of, supported_choice
from graphs.generation.prompts import DraftRequest
from graphs.types import Strip
from tests.fakes import FakeChat, FakeEvaluator, services

YES_NO = ("Yes", "No")
CLAIM = ("supported", "not supported", "unclear")
TOWN = Strip("p#0", "p", "Port and Elm meet.", "T", "a.md", "internal", (0, 0))
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
    with pytest.raises(EvaluatorFailed):
        await supported_choice("Which town?", text, TOWNS, broken)


async def test_a_worker_that_is_gone_is_told_where_it_was_to_choose() -> None:
    chat = FakeChat(chunks=["It lies on the coast, where Port and Elm meet [1]."])
    request = DraftRequest("Which town?", [], [TOWN], floor=0.0, language="en", choices=TOWNS)
    given = services(evaluator=FakeEvaluator(fails_from_call=1), chat=chat)
    found = await generate_answer(request, given, NO_LISTENER)
    assert found.answer == ""
    assert [entry.component for entry in found.degraded] == ["evaluator"]


def test_a_choice_that_is_denied_is_not_chosen() -> None:
    assert choice_of("不是的", ["是", "否"]) is None
    assert choice_of("是的", ["是", "否"]) == "是"
