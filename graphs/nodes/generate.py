"""Generate the answer from the joined knowledge, or abstain where there is none."""

from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.generation.answer import (
    Listener,
    abstention,
    answer_directly,
    generate_answer,
    request_of,
    streamed,
)
from graphs.generation.compression import compress_knowledge
from graphs.grading.strips import internal_knowledge, knowledge_of
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.text.citations import citations_in
from graphs.types import Plan, StoppedBy, Strip, Usage


async def generate(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The cited answer, streamed as `token` events of round 0.

    A question found to need no retrieval is answered directly, from no knowledge. Otherwise it is
    written from internal and external knowledge, compressed where the run wants that.
    """
    context, retrieval = options_of(runtime), state.get("retrieval")
    plan, listener = plan_of(state, context, services), streamed(runtime)
    is_direct = retrieval is not None and not retrieval.decision
    knowledge, update = list[Strip](), State(generator=services.chat_name)
    if not is_direct:
        knowledge, update = await _knowledge(state, plan, context, services)
        if not knowledge:
            return {**update, **_abstained(state, plan, listener)}
    spent = state.get("usage", Usage()) + update.get("usage", Usage())
    affordable = services.within_budget(spent, context)
    request = request_of(state, knowledge, plan, context)
    write = answer_directly if is_direct else generate_answer
    written = await write(request, affordable, listener)
    draft = replace(written.as_draft(knowledge), budget_exhausted=affordable is not services)
    update |= {
        "generator": written.generator,
        "usage": update.get("usage", Usage()) + written.usage,
        "degraded": [*update.get("degraded", []), *written.degraded],
    }
    if not written.answer:
        why: StoppedBy = "budget" if draft.budget_exhausted else "no_evidence"
        return {**update, **_abstained(state, plan, listener, why)}
    return {
        **update,
        "answer": written.answer,
        "citations": citations_in(written.answer, knowledge, written.cites),
        "judgement": written.judgement,
        "missing": list(written.missing),
        "stopped_by": draft.stopped_by,
        "draft": draft,
        "spent": spent + written.usage,
    }


async def _knowledge(
    state: State, plan: Plan, context: Context, services: Services
) -> tuple[list[Strip], State]:
    """What is answered from, and what making it changed."""
    spent, knowledge = state.get("usage", Usage()), knowledge_of(state, context)
    spare = 0 if context.is_spent(spent) else context.calls_left(spent) - 1
    questions = [effective_question(state), *plan.subquestions]
    result = await compress_knowledge(questions, [knowledge], context, services, spare)
    update: State = {"generator": services.chat_name, **result.update}
    if not state.get("internal_strips"):
        update["internal_strips"] = internal_knowledge(state, context.top_strips)
    return list(result.knowledge[0]), update


def _abstained(
    state: State, plan: Plan, listener: Listener, why: StoppedBy = "no_evidence"
) -> State:
    answer = abstention(state["question"], plan.language, why)
    listener.token(answer)
    return {"answer": answer, "citations": [], "stopped_by": why}


async def abstain(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """A sentence in the language of the answer that admits not knowing.

    The budget stopped the run where a model might have written what could not be quoted.
    """
    context = options_of(runtime)
    plan = plan_of(state, context, services)
    strips = [*state.get("internal_strips", []), *state.get("web_strips", [])]
    affordable = services.within_budget(state.get("spent", Usage()), context)
    lacked_calls = affordable is not services and any(strip.kept for strip in strips)
    why: StoppedBy = "budget" if lacked_calls else "no_evidence"
    abstained = _abstained(state, plan, streamed(runtime), why)
    return {**abstained, "candidates": [], "generator": services.chat_name}
