"""The plan of a run: what options, question and services come to, settled once."""

from dataclasses import replace

from graphs.nodes.prepare import make_plan, parts_to_grade, plan_of
from graphs.options import Ablation
from graphs.state import Context, State
from graphs.types import Bars, Message
from tests.fakes import THRESHOLDS, FakeChat, FakeCritic, FakeWebSearch, services

ASKED: State = {"question": "When did it open?"}
TURNS: list[Message] = [{"role": "user", "content": "What is the mill?"}]
PARTS = services(web_search=FakeWebSearch(), critic=FakeCritic(bars=Bars(0.1, 2.0, 0.3)))


def test_thresholds_and_bars_are_the_parts_own_unless_the_run_sets_them() -> None:
    plan = make_plan(ASKED, Context(), PARTS)
    assert (plan.thresholds, plan.bars) == (THRESHOLDS, Bars(0.1, 2.0, 0.3))

    for options, thresholds, bars in [
        ({"upper": 0.9}, replace(plan.thresholds, upper=0.9), plan.bars),
        ({"lower": 0.0}, replace(plan.thresholds, lower=0.0), plan.bars),
        ({"min_support": 0.0}, plan.thresholds, replace(plan.bars, support=0.0)),
        ({"min_utility": 1.0}, plan.thresholds, replace(plan.bars, utility=1.0)),
        ({"retrieval_threshold": 0.0}, plan.thresholds, replace(plan.bars, retrieval=0.0)),
    ]:
        own = make_plan(ASKED, Context(**options), PARTS)
        assert (own.thresholds, own.bars) == (thresholds, bars)


def test_the_web_is_searched_only_where_it_can_be() -> None:
    for options, has_engine, web in [
        ({}, True, "auto"),
        ({"web": "always"}, True, "always"),
        ({"web": "never"}, True, "never"),
        ({"web": "always"}, False, "never"),
        ({"web": "always", "max_web_searches": 0}, True, "never"),
    ]:
        parts = PARTS if has_engine else services()

        assert make_plan(ASKED, Context(**options), parts).web == web


def test_a_step_is_gone_through_where_the_run_asks_for_it() -> None:
    for options, step in [
        ({"expand": ["hyde"]}, "expands"),
        ({"rerank": "lexical"}, "reranks"),
        ({"beam_depth": 2}, "drafts_segments"),
        ({"reflect": True}, "reflects"),
    ]:
        assert getattr(make_plan(ASKED, Context(**options), PARTS), step)
        assert not getattr(make_plan(ASKED, Context(), PARTS), step)


def test_of_a_closed_set_no_long_answer_is_drafted() -> None:
    assert not make_plan(ASKED, Context(beam_depth=2, choices=["a"]), PARTS).drafts_segments


def test_a_follow_up_is_worded_only_by_a_language_model() -> None:
    follow_up: State = {**ASKED, "history": TURNS}
    able = replace(PARTS, chat=FakeChat())

    assert make_plan(follow_up, Context(), able).contextualises
    assert not make_plan(follow_up, Context(), PARTS).contextualises
    assert not make_plan(follow_up, Context(follow_ups=False), able).contextualises
    assert not make_plan(ASKED, Context(), able).contextualises


def test_parts_of_the_question_are_graded_where_there_are_any() -> None:
    question = "Who built the mill, and when did it open?"

    assert parts_to_grade(question, Context()) == ("Who built the mill", "when did it open?")
    assert parts_to_grade("When did it open?", Context()) == ()
    assert parts_to_grade(question, Context(ablation=Ablation(grade_parts=False))) == ()


def test_the_plan_that_stands_is_used_and_a_missing_one_made() -> None:
    standing = make_plan(ASKED, Context(reflect=True), PARTS)

    assert plan_of({**ASKED, "plan": standing}, Context(), PARTS) is standing
    assert plan_of({**ASKED, "plan": None}, Context(), PARTS) == make_plan(ASKED, Context(), PARTS)
    chinese: State = {"question": "它何时开业？", "standalone_question": "mill when, and who?"}
    assert plan_of(chinese, Context(), PARTS).language == "zh"
