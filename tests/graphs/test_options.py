"""Options of a run: what is refused, what a preset fills, what the evaluator and critic set."""

from dataclasses import replace
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from graphs.options import PRESETS, Ablation, Context, Preset, Scope, Search
from tests.fakes import FakeChat, FakeCritic
from tests.graphs.languages import EN, World, every_workflow
from tests.graphs.traced import traced


def test_wrong_options_are_refused() -> None:
    for options in [
        {"upper": float("nan")},
        {"expand": ["rewrite", "translate"]},
        {"expand": ["hyde"] * 4},
        {"ablation": {"refinement": "yes"}},
        {"ablation": {"beam_width": 0}},
        {"weights": {"utility": -1.0}},
        {"weights": {"usefulness": 1.0}},
        {"unknown": 1},
        {"scope": {"owner": "ann"}},
        {"_scope": Scope("ann")},
        {"only_action": "correct"},
    ]:
        with pytest.raises(ValidationError):
            Context(**options)


def test_nested_options_are_taken_as_plain_json() -> None:
    given = {"ablation": {"only_action": "correct"}, "weights": {"support": 2.0}}
    context = Context.model_validate(given)

    assert context.ablation == Ablation(only_action="correct")
    assert (context.weights.relevance, context.weights.support) == (1.0, 2.0)
    assert context.model_dump(exclude_unset=True) == given


def test_every_field_says_what_it_means_and_names_its_group() -> None:
    kinds: list[type[BaseModel]] = [Context, Ablation, type(Context().weights)]
    fields = {name: field for kind in kinds for name, field in kind.model_fields.items()}
    assert [name for name, field in fields.items() if not field.description] == []

    properties = Context.model_json_schema()["properties"]
    assert next(iter(properties)) == "preset"
    assert properties["upper"]["title"] == "grading: upper"
    assert properties["ablation"]["group"] == "ablation"
    assert {option["group"] for option in properties.values()} >= {"retrieval", "limits", "web"}


def test_a_run_searches_as_its_options_say() -> None:
    context = Context(search="bm25", alpha=2.0, ablation=Ablation(fusion="rrf"))

    assert context.searching() == Search("bm25", 2.0, "rrf", scope=Scope(collections=()))
    scope = Scope("ann", ("manuals",))
    assert context.within(scope).searching() == Search("bm25", 2.0, "rrf", scope=scope)
    assert context.scope == Scope(collections=()), "the options that were given stay as they are"


def test_every_option_of_a_preset_is_one_of_a_run() -> None:
    for preset in get_args(Preset):
        filled = Context(preset=preset)

        for name, value in PRESETS[preset].items():
            assert getattr(filled, name) == value
            assert getattr(Context(**{name: value}), name) == value
        assert filled.model_fields_set == {"preset"}


def test_none_changes_nothing() -> None:
    assert Context(preset="none").model_dump() == Context().model_dump()


def test_what_is_given_wins() -> None:
    context = Context(preset="best", rerank="none", expand=[])

    assert (context.rerank, context.expand, context.repack) == ("none", [], "reverse")
    assert context.wants("rerank", "none")
    assert not context.wants("repack", "reverse")


def test_the_services_preset_fills_a_run_without_one() -> None:
    assert Context(retrieve_k=3).with_default_preset("fast") == Context(retrieve_k=3, preset="fast")
    assert Context(preset="none").with_default_preset("fast") == Context(preset="none")
    given = Context(search="bm25").with_default_preset("balanced")
    assert (given.search, given.rerank) == ("bm25", "lexical")
    assert given.model_fields_set == {"preset", "search"}


@every_workflow
async def test_the_best_preset_answers_without_any_part_it_might_want(
    workflow: str, world: World
) -> None:
    trace = await world.parts(world.full).ask(workflow, preset="best")

    assert world.full.rstrip("。.") in trace.answer
    assert trace.output["degraded"] == []


async def test_best_takes_the_path_it_names() -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="It opened in 1852.")
    parts = EN.parts(EN.full, chat=chat, critic=FakeCritic())
    ranking = replace(parts.services, reranks=True)
    trace = await traced(ranking, EN.question, preset="best")

    assert trace.nodes == [
        "prepare", "decide_retrieval", "retrieve", "grade", "refine", "generate",
    ]  # fmt: skip
    assert trace.inner["retrieve"] == ["expand", "search", "rerank"]
    assert trace.output["queries"] == [EN.question, f"{EN.question}\nIt opened in 1852."]
    assert trace.output["degraded"] == []
