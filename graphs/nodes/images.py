"""Images: search or match what is stored, grade it, return it, or ask a model for a new one."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed, RetrieverFailed
from graphs.generation.answer import streamed
from graphs.grading.strips import strips_of
from graphs.nodes.prepare import plan_of
from graphs.ports import ImageIndex, Services
from graphs.state import Context, State, effective_question, options_of
from graphs.text.citations import citations_in
from graphs.text.inert_markup import inert
from graphs.text.language import script_of
from graphs.types import Plan, Usage
from prompts import prompt

NO_IMAGES = "This service keeps no images."


async def search_images(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Text to image: captions near the question, with their similarity."""
    context = options_of(runtime)
    try:
        passages = await _index(services).search(
            effective_question(state), context.retrieve_k, context.searching()
        )
    except RetrieverFailed as error:
        return {"documents": [], "degraded": [error.degraded]}
    return {"documents": list(passages)}


async def match_image(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Image to text: captions of the images near the question's. Raises InvalidImage."""
    context = options_of(runtime)
    try:
        passages = await _index(services).match(state["image"], context.retrieve_k, context.scope)
    except RetrieverFailed as error:
        return {"documents": [], "degraded": [error.degraded]}
    return {"documents": list(passages)}


def _index(services: Services) -> ImageIndex:
    """Raises RetrieverFailed where there is none."""
    if services.images is None:
        raise RetrieverFailed(NO_IMAGES)
    return services.images


async def grade_images(state: State, runtime: Runtime[Context]) -> State:
    """Correct where one is similar enough, else Incorrect; best first.

    Of equal ones those whose caption is in the language of the answer come first.
    """
    del runtime  # plan and documents say all
    plan = state.get("plan")
    threshold, language = (plan.image_threshold, plan.language) if plan else (1.0, "en")
    documents = sorted(
        state.get("documents", []),
        key=lambda passage: (-passage.score, script_of(passage.text) != language),
    )
    is_near = bool(documents) and documents[0].score >= threshold
    return {
        "documents": documents,
        "action": "correct" if is_near else "incorrect",
        "image_threshold": threshold,
    }


async def return_stored(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The nearest stored image, and its caption with its source as the answer."""
    best = state["documents"][:1]
    try:
        images = await _index(services).images_of(best, options_of(runtime).scope)
    except RetrieverFailed as error:
        plan = plan_of(state, options_of(runtime), services)
        return {**_abstained(plan, runtime, "no_image"), "degraded": [error.degraded]}
    (strip,) = strips_of(best, "passage")
    answer = f"{inert(strip.text)} [1]"
    streamed(runtime).token(answer)
    return {
        "answer": answer,
        "citations": citations_in(answer, [strip]),
        "internal_strips": [replace(strip, kept=True)],
        "images": [replace(image, score=best[0].score) for image in images[:1]],
        "generator": "stored",
        "stopped_by": "answered",
        "image": "",
    }


async def make_image(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """A new image, marked as generated; none where the model fails."""
    assert services.image_maker is not None
    plan = plan_of(state, options_of(runtime), services)
    try:
        made = await services.image_maker.make(effective_question(state))
    except GeneratorFailed as error:
        return {**_abstained(plan, runtime, "no_image"), "degraded": [error.degraded]}
    answer = prompt("made_image", plan.language).render()
    streamed(runtime).token(answer)
    return {
        "answer": answer,
        "citations": [],
        "images": [made],
        "generator": services.image_maker.name,
        "stopped_by": "answered",
        "usage": Usage(llm_calls=1),
    }


async def describe_image(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """A caption by a model that sees; none where it fails."""
    assert services.captioner is not None
    plan = plan_of(state, options_of(runtime), services)
    question = effective_question(state)
    try:
        caption, usage = await services.captioner.describe(state["image"], question, plan.language)
    except GeneratorFailed as error:
        return {**_abstained(plan, runtime, "no_caption"), "degraded": [error.degraded]}
    answer = inert(caption)
    streamed(runtime).token(answer)
    return {
        "answer": answer,
        "citations": [],
        "generator": services.captioner.name,
        "stopped_by": "answered",
        "usage": usage,
        "image": "",
    }


async def abstain_image(state: State, runtime: Runtime[Context]) -> State:
    """A sentence that says there is none."""
    plan = state["plan"]
    assert plan is not None
    return _abstained(plan, runtime, "no_caption" if state.get("image") else "no_image")


def _abstained(plan: Plan, runtime: Runtime[Context], why: str) -> State:
    answer = prompt(why, plan.language).render()
    streamed(runtime).token(answer)
    return {"answer": answer, "citations": [], "stopped_by": "no_evidence", "image": ""}
