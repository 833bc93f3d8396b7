"""Illustrate (arXiv 2407.01219, section 5.2): images and captions are retrieved before generated.

Text to image: the stored image nearest to the question, else one that a model makes. Image to text:
the caption of the stored image nearest to the question's, else a description by a model.
"""

from functools import partial

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.nodes.images import (
    abstain_image,
    describe_image,
    grade_images,
    make_image,
    match_image,
    return_stored,
    search_images,
)
from graphs.nodes.prepare import prepare
from graphs.ports import Services
from graphs.state import Answer, Context, Question, State
from graphs.workflows.breakpoints import pausable


def build_illustrate(services: Services) -> CompiledStateGraph[State, Context, Question, Answer]:
    graph = StateGraph(State, context_schema=Context, input_schema=Question, output_schema=Answer)
    graph.add_node("prepare", partial(prepare, services=services))
    graph.add_node("search_images", partial(search_images, services=services))
    graph.add_node("match_image", partial(match_image, services=services))
    graph.add_node("grade_images", grade_images)
    graph.add_node("return_stored", partial(return_stored, services=services))
    graph.add_node("make_image", partial(make_image, services=services))
    graph.add_node("describe_image", partial(describe_image, services=services))
    graph.add_node("abstain_image", abstain_image)

    graph.add_edge(START, "prepare")
    graph.add_conditional_edges("prepare", by_direction, ["search_images", "match_image"])
    graph.add_edge("search_images", "grade_images")
    graph.add_edge("match_image", "grade_images")
    graph.add_conditional_edges(
        "grade_images",
        by_grade,
        ["return_stored", "make_image", "describe_image", "abstain_image"],
    )
    for last in ("return_stored", "make_image", "describe_image", "abstain_image"):
        graph.add_edge(last, END)
    return pausable(graph.compile(name="illustrate"))


def by_direction(state: State) -> str:
    """An image asks for a text, a text alone for an image."""
    return "match_image" if state.get("image") else "search_images"


def by_grade(state: State) -> str:
    """What is stored and similar enough is returned; a model is asked below that alone."""
    if state.get("action") == "correct":
        return "return_stored"
    plan = state.get("plan")
    if plan is None or not plan.generates_image:
        return "abstain_image"
    return "describe_image" if state.get("image") else "make_image"
