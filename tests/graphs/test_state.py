"""What flows through a graph: channels that take JSON, and what a new run forgets."""

from dataclasses import asdict
from typing import get_type_hints

import pytest
from langgraph.types import Overwrite
from pydantic import ValidationError

from graphs.state import (
    Answer,
    Context,
    State,
    effective_question,
    reset_run_state,
    total_usage,
    typed,
)
from graphs.types import Citation, Draft, Plan, Strip, Usage
from tests.graphs.languages import EN
from tests.graphs.workflows.threads import GRAPHS, on_threads, parts, thread

STRIP = Strip("p#0", "p", "Text.", "T", "a.md", "internal", (0, 1), relevance=0.5)


def test_a_typed_channel_keeps_the_latest_as_a_value_of_ours() -> None:
    for kind, value, result in [
        (list[Strip], [asdict(STRIP), STRIP], [STRIP, STRIP]),
        (list[Strip], [], []),
        (Draft, asdict(Draft("x [1].", (STRIP,))), Draft("x [1].", (STRIP,))),
        (Plan | None, None, None),
        (Usage, {"llm_calls": 2}, Usage(llm_calls=2)),
    ]:
        assert typed(kind)("whatever was there before", value) == result


def test_positions_and_spans_given_as_json_are_tuples_again() -> None:
    [strip] = typed(list[Strip])([], [{**asdict(STRIP), "position": [0, 1]}])
    citation = {
        **asdict(Citation(1, "p#0", "internal", "T", "a.md", "Text.", 0.5)),
        "spans": [[0, 4]],
    }

    assert strip == STRIP
    assert hash(strip) == hash(STRIP)
    assert typed(list[Citation])([], [citation])[0].spans == ((0, 4),)


def test_what_is_no_such_value_is_refused() -> None:
    for kind, value in [
        (list[Strip], [{"id": "p#0"}]),
        (list[Strip], None),
        (Plan | None, {"web": "sometimes"}),
    ]:
        with pytest.raises(ValidationError):
            typed(kind)([], value)


def test_a_fresh_thread_has_nothing_to_forget() -> None:
    assert reset_run_state({"question": "Why?"}) == {}


async def test_a_new_run_forgets_all_that_the_one_before_found() -> None:
    """But what every run says anew, and what the thread remembers on purpose."""
    forgotten = reset_run_state({"question": "Why?", "last_question": "Who?"})
    said_anew = {"answer", "citations", "plan", "generator", "stopped_by"}
    remembered = {"question", "history"}
    assert set(get_type_hints(Answer)) - said_anew <= set(forgotten)
    assert not remembered & set(forgotten)

    graph = on_threads(GRAPHS["self_crag"], parts().services)
    context, question = Context(follow_ups=False), {"question": EN.question}
    before = await graph.ainvoke(question, thread(), context=context)
    await graph.ainvoke(question, thread(), context=context, interrupt_after=["prepare"])
    values = (await graph.aget_state(thread())).values
    for key, value in forgotten.items():
        expected = value.value if isinstance(value, Overwrite) else value
        assert values.get(key) == expected, key
    after = await graph.ainvoke(None, thread(), context=context)
    assert len(after["candidates"]) == len(before["candidates"]), "of its own drafts alone"


def test_the_effective_question_is_the_one_that_stands_alone() -> None:
    state: State = {"question": "And when?"}

    assert effective_question(state) == "And when?"
    assert effective_question({**state, "standalone_question": "When?"}) == "When?"
    assert effective_question({**state, "standalone_question": None}) == "And when?"


def test_within_a_subgraph_the_runs_usage_counts_too() -> None:
    spent, used = Usage(llm_calls=2, input_tokens=5), Usage(llm_calls=1, scored_pairs=3)

    total = total_usage({"question": "x", "spent": spent, "usage": used})
    assert total == Usage(llm_calls=3, input_tokens=5, scored_pairs=3)
    assert total_usage({"question": "x"}) == Usage()
