"""Generate the answer from the joined knowledge, or abstain where there is none."""

from dataclasses import replace
from typing import Literal

from langgraph.runtime import Runtime

from graphs.generation.answer import EXTRACTIVE, Asked, Listener, answer_directly, draft_from
from graphs.generation.extractive import candidate_sentences, compose, first_sentences
from graphs.generation.repack import repacked
from graphs.grading.actions import uses_documents
from graphs.grading.strips import join, strips_of
from graphs.leaning import is_courtesy
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Answer, Context, Question, Reflecting, State, asked, tunables
from graphs.text.citations import citations_in
from graphs.text.language import answer_language
from graphs.types import Draft, Language, StoppedBy, Strip, Usage
from prompts import prompt


def internal_knowledge(state: Answer, most: int) -> list[Strip]:
    """The refined strips; whole passages where nothing graded them (`rag`)."""
    action = state.get("action")
    if not uses_documents(action):
        return []
    if action is not None:
        return list(state.get("internal_strips", []))
    whole = strips_of(state.get("documents", []), "passage")
    return [replace(strip, kept=place < most) for place, strip in enumerate(whole)]


def knowledge_of(state: State, context: Context) -> list[Strip]:
    """What is answered from, in the order shown: compressed, where the run went that way."""
    compressed = state.get("knowledge")
    if compressed is not None:
        return list(compressed)
    internal = internal_knowledge(state, context.top_strips)
    joined = join(internal, state.get("web_strips", []), context.evidence_tokens)
    return repacked(joined, context.repack)


def abstention(question: Question, stopped_by: StoppedBy = "no_evidence") -> Reflecting:
    """A sentence in the language of the answer: it admits not knowing, or returns a greeting."""
    unknown = "courtesy" if is_courtesy(question["question"]) else "unknown"
    name = stopped_by if stopped_by in {"deadline", "cancelled"} else unknown
    answer = prompt(name, _language_of(question)).render()
    return {"answer": answer, "citations": [], "stopped_by": stopped_by}


def _language_of(question: Question) -> Language:
    return answer_language(question["question"], question.get("history", []))


def conclude_early(
    state: Answer,
    question: Question,
    context: Context,
    why: Literal["deadline", "cancelled"],
    *,
    is_writing: bool,
) -> Answer:
    """What can be said without another call: the openings of the strips kept so far, if any.

    Passages that nothing grades count once an answer is being written from them.
    """
    internal = list(state.get("internal_strips", []))
    if is_writing and not internal:
        internal = internal_knowledge(state, context.top_strips)
    knowledge = join(internal, state.get("web_strips", []), context.evidence_tokens)
    answer = "".join(compose(first_sentences(candidate_sentences(knowledge))))
    if not answer:
        return abstention(question, why)
    return {
        "answer": answer,
        "internal_strips": internal,
        "citations": citations_in(answer, knowledge),
        "generator": EXTRACTIVE,
        "stopped_by": why,
    }


def streamed(runtime: Runtime[Context], round_: int = 0) -> Listener:
    """Tells a draft as `token` events of this round."""
    return Listener(
        tell=lambda text: runtime.stream_writer({"token": {"round": round_, "text": text}}),
        retract=lambda why: runtime.stream_writer({"retract": {"round": round_, "reason": why}}),
    )


def asked_of(state: State, knowledge: list[Strip], context: Context, services: Services) -> Asked:
    """The question with this knowledge, and how much of it may be quoted."""
    bounds, action = context.thresholds(services.evaluator.thresholds), state.get("action")
    return Asked(
        question=asked(state),
        history=state.get("history", []),
        knowledge=knowledge,
        # Scored like a passage that makes the action Incorrect, a sentence supports nothing.
        floor=max(bounds.strip_floor, bounds.lower),
        graded=state.get("is_graded", False),
        keep_best=action == "correct",
        by_parts=context.grade_parts,
        choices=context.choices,
        language=_language_of(state),
    )


async def generate(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """The cited answer, streamed as `token` events of round 0.

    A question found to need no retrieval is answered directly, from no knowledge.
    """
    context, changed = tunables(runtime), Reflecting(generator=services.chat_name)
    direct = (found := state.get("retrieval")) is not None and not found.decision
    internal = [] if direct else internal_knowledge(state, context.top_strips)
    knowledge = [] if direct else knowledge_of(state, context)
    whole, listener = asked_of(state, knowledge, context, services), streamed(runtime)
    if not direct and not state.get("internal_strips"):
        changed["internal_strips"] = internal
    if not knowledge and not direct:
        return _abstained(changed, state, listener)
    able = within_budget(state, context, services)
    written = await (answer_directly if direct else draft_from)(whole, able, listener)
    draft = Draft(
        written.answer,
        tuple(knowledge),
        generator=written.generator,
        judgement=written.judgement,
        for_want_of_calls=able is not services,
    )
    changed |= {
        "generator": written.generator,
        "usage": written.usage,
        "degraded": list(written.degraded),
    }
    if not written.answer:
        why: StoppedBy = "budget" if draft.for_want_of_calls else "no_evidence"
        return _abstained(changed, state, listener, why)
    changed |= {
        "answer": written.answer,
        "citations": citations_in(written.answer, knowledge),
        "stopped_by": draft.stopped_by,
        "draft": draft,
        "spent": state.get("usage", Usage()) + written.usage,
    }
    return changed


def _abstained(
    changed: Reflecting, state: State, listener: Listener, why: StoppedBy = "no_evidence"
) -> Reflecting:
    said = abstention(state, why)
    listener.tell(said["answer"])
    changed |= said
    return changed
