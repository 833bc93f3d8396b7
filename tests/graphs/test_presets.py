"""Presets fill what a run leaves unset, and nothing else."""

from dataclasses import replace

import pytest

from graphs.state import Context
from tests.fakes import FakeChat, FakeCritic
from tests.graphs.languages import EN, World, both_languages
from tests.graphs.traced import traced


@pytest.mark.parametrize("preset", list(OPTIONS))
def test_every_option_of_a_preset_is_one_of_a_run(preset: str) -> None:
    filled = Context(preset=preset)

    for name, value in OPTIONS[filled.preset].items():
        assert getattr(filled, name) == value
        assert getattr(Context(**{name: value}), name) == value
    assert filled.model_fields_set == {"preset"}


def test_none_changes_nothing() -> None:
    assert Context(preset="none").model_dump() == Context().model_dump()


def test_what_is_given_wins() -> None:
    context = Context(preset="best", rerank="none", hyde=False)

    assert (context.rerank, context.hyde, context.compress) == ("none", False, "extractive")
    assert context.wants("rerank", "none")
    assert not context.wants("compress", "extractive")


def test_the_services_preset_fills_a_run_without_one() -> None:
    assert Context(retrieve_k=3).with_default_preset("fast") == Context(retrieve_k=3, preset="fast")
    assert Context(preset="none").with_default_preset("fast") == Context(preset="none")
    given = Context(search="bm25").with_default_preset("balanced")
    assert (given.search, given.rerank) == ("bm25", "lexical")
    assert given.model_fields_set == {"preset", "search"}


@both_languages
@pytest.mark.parametrize("preset", ["best", "balanced", "fast"])
@pytest.mark.parametrize("workflow", ["rag", "crag", "self_rag", "self_crag"])
async def test_every_preset_answers_without_any_part_it_might_want(
    world: World, preset: str, workflow: str
) -> None:
    trace = await traced(world.parts(world.full).services, world.question, workflow, preset=preset)

    assert world.full.rstrip("。.") in trace.answer
    assert trace.output["degraded"] == []


async def test_best_takes_the_path_it_names() -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="It opened in 1852.")
    parts = EN.parts(EN.full, chat=chat, critic=FakeCritic())
    ranking = replace(parts.services, reranks=True)
    trace = await traced(ranking, EN.question, preset="best")

    assert trace.nodes == [
        "decide", "expand", "retrieve", "rerank", "grade", "refine", "compress", "generate",
    ]  # fmt: skip
    assert trace.output["degraded"] == []
