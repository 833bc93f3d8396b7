"""Steps as lines for people: both languages know the same, and nothing is said twice."""

import string
from typing import Any

import pytest

from app.protocols.progress_text import BEGUN, MAX_CHARS, TEXTS, ProgressText
from app.schemas.ask import ANOTHER_WAS_BETTER, RetractEvent, StepEvent
from graphs.generation.answer import REASONING_REMOVED
from tests.exfiltration import U, live
from tests.umbra import CHINESE, ENGLISH


def ended(step: str, **detail: Any) -> StepEvent:
    return StepEvent(step=step, path=[step], phase="end", at_ms=2.0, took_ms=1.0, detail=detail)


def began(step: str) -> StepEvent:
    return StepEvent(step=step, path=[step], phase="start", at_ms=1.0, detail={})


def slots(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_say_the_same() -> None:
    assert [name for name, (en, zh) in TEXTS.items() if slots(en) != slots(zh)] == []
    assert {*BEGUN, REASONING_REMOVED} <= TEXTS.keys()


def test_no_line_links_or_loads_anything() -> None:
    """Clients show them as Markdown."""
    event = ended("prepare", standalone_question=f"What shows ![a]({U})?", queries=["a", U])
    lines = ProgressText(ENGLISH).lines(event)
    assert len(lines) == 2
    assert [found for line in lines for found in live(line)] == []


@pytest.mark.parametrize(
    ("event", "english", "chinese"),
    [
        (began("search_web"), "Searching the web …", "正在搜索网络……"),
        (
            ended("decide_retrieval", retrieval={"decision": False, "probability": 0.04}),
            "Retrieval is not needed (p 0.04).",
            "不需要检索（p 0.04）。",
        ),
        (
            ended("contextualise", standalone_question="Who built it?"),
            "Understood as: Who built it?",
            "理解为：Who built it?",
        ),
        (ended("expand", queries=["a", "b"]), "Queries: a; b", "检索语句：a；b"),
        (ended("rewrite_query", rewritten_query="a, b"), "Search query: a, b", "搜索词：a, b"),
        (
            ended("assess", action=None, documents=[{"score": 0.25}, {"score": 0.5}]),
            "Passages graded: 2 (best 0.50).",
            "已给 2 个段落评分（最高 0.50）。",
        ),
        (
            ended(
                "select_candidate", candidates=[{"n": 1, "chosen": False}, {"n": 2, "chosen": True}]
            ),
            "Chose draft 2 of 2.",
            "从 2 份草稿中选择了第 2 份。",
        ),
        (
            ended("search_web", degraded=[{"component": "fetch", "reason": "gone"}]),
            "Degraded: fetch: gone",
            "功能降级：fetch：gone",
        ),
        (
            RetractEvent(round=0, reason="deadline"),
            "The draft is withdrawn: deadline",
            "草稿已撤回：到了截止时间",
        ),
        (
            RetractEvent(round=0, reason=ANOTHER_WAS_BETTER),
            "The draft is withdrawn: another draft was better",
            "草稿已撤回：另一份草稿更好",
        ),
        (
            RetractEvent(round=0, reason="the model is gone"),
            "The draft is withdrawn: the model is gone",
            "草稿已撤回：the model is gone",
        ),
    ],
)
def test_what_is_said(event: Any, english: str, chinese: str) -> None:
    assert ProgressText(ENGLISH).lines(event) == [english]
    assert ProgressText(CHINESE).lines(event) == [chinese]


def test_parallel_drafts_are_announced_once() -> None:
    progress = ProgressText(ENGLISH)
    told = [line for _ in range(3) for line in progress.lines(began("draft"))]
    assert told == ["Drafting the answer …"]


def test_steps_that_say_nothing_new_are_silent() -> None:
    progress = ProgressText(ENGLISH)
    assert progress.lines(ended("judge", candidates=[{"n": 1, "chosen": True}])) == []
    assert progress.lines(ended("expand", queries=["alone"])) == []
    assert progress.lines(began("unheard_of")) == []


def test_a_line_is_one_short_line() -> None:
    """Whatever a page or a model has said."""
    (line,) = ProgressText(ENGLISH).lines(
        ended("rewrite_query", rewritten_query="data: {x}\n\nevent: done\n" * 99)
    )
    assert len(line) == MAX_CHARS
    assert "\n" not in line
