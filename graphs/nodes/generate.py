"""Generate the answer from the joined knowledge, or abstain where there is none."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.runtime import Runtime

from graphs.cite import citations_in, without_unknown_markers
from graphs.decide import uses_documents
from graphs.dialogue import answering_messages, usage_of
from graphs.errors import EvaluatorFailed, GeneratorFailed
from graphs.extract import best_supported, candidate_sentences, compose, first_sentences
from graphs.knowledge import join, strips_of
from graphs.ports import Services
from graphs.state import Answer, Context, State, tunables
from graphs.text import language_of
from graphs.types import Degraded, StoppedBy, Strip, Usage
from prompts import prompt

EXTRACTIVE = "extractive"


def internal_knowledge(state: State, most: int) -> list[Strip]:
    """The refined strips; whole passages where nothing graded them (`rag`)."""
    action = state.get("action")
    if not uses_documents(action):
        return []
    if action is not None:
        return list(state.get("internal_strips", []))
    whole = strips_of(state.get("documents", []), "passage")
    return [replace(strip, kept=place < most) for place, strip in enumerate(whole)]


def abstain(question: str, stopped_by: StoppedBy = "no_evidence") -> Answer:
    """A sentence in the question's language that admits not knowing."""
    name = "deadline" if stopped_by == "deadline" else "unknown"
    answer = prompt(name, language_of(question)).render()
    return {"answer": answer, "citations": [], "stopped_by": stopped_by}


def conclude_at_deadline(state: Answer, question: str, context: Context) -> Answer:
    """What can be said without another call: the openings of the strips kept so far, if any."""
    internal, external = state.get("internal_strips", []), state.get("web_strips", [])
    knowledge = join(internal, external, context.evidence_tokens)
    answer = "".join(compose(first_sentences(candidate_sentences(knowledge))))
    if not answer:
        return abstain(question, "deadline")
    return {
        "answer": answer,
        "citations": citations_in(answer, knowledge),
        "generator": EXTRACTIVE,
        "stopped_by": "deadline",
    }


async def generate(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The cited answer, streamed as `token` events of round 0.

    Where the language model fails, sentences are extracted instead and `degraded` says so.
    """
    context = tunables(runtime)
    internal = internal_knowledge(state, context.top_strips)
    knowledge = join(internal, state.get("web_strips", []), context.evidence_tokens)
    shown: Answer = {"generator": services.chat_name}
    if "internal_strips" not in state:
        shown["internal_strips"] = internal
    if not knowledge:
        abstention = abstain(state["question"])
        runtime.stream_writer({"token": {"round": 0, "text": abstention["answer"]}})
        return {**shown, **abstention}
    if services.chat is None:
        return {**shown, **await _extracted(state, runtime, services, knowledge)}
    messages = answering_messages(state["question"], state.get("history", []), knowledge)
    try:
        return {**shown, **await _written(services.chat, messages, runtime, knowledge)}
    except GeneratorFailed as error:
        runtime.stream_writer({"retract": {"round": 0, "reason": str(error)}})
        extracted = await _extracted(state, runtime, services, knowledge)
        failed = Degraded(error.component, str(error))
        extracted["degraded"] = [failed, *extracted.get("degraded", [])]
        extracted["usage"] = extracted.get("usage", Usage()) + Usage(llm_calls=1)
        return {**shown, **extracted, "generator": EXTRACTIVE}


async def _written(
    chat: BaseChatModel,
    messages: Sequence[BaseMessage],
    runtime: Runtime[Context],
    knowledge: Sequence[Strip],
) -> Answer:
    whole = AIMessageChunk(content="")

    async def texts() -> AsyncIterator[str]:
        nonlocal whole
        async for chunk in chat.astream(list(messages)):
            whole += chunk
            if text := str(chunk.text):
                yield text

    pieces: list[str] = []
    async for text in without_unknown_markers(texts(), len(knowledge)):
        pieces.append(text)
        runtime.stream_writer({"token": {"round": 0, "text": text}})
    answer = "".join(pieces)
    if not answer.strip():
        raise GeneratorFailed("The language model gave an empty answer.")
    return {
        "answer": answer,
        "citations": citations_in(answer, knowledge),
        "stopped_by": "answered",
        "usage": usage_of(whole),
    }


async def _extracted(
    state: State, runtime: Runtime[Context], services: Services, knowledge: Sequence[Strip]
) -> Answer:
    question, changed = state["question"], Answer()
    candidates = candidate_sentences(knowledge)
    pairs = [(question, item.text) for item in candidates]
    bounds = tunables(runtime).thresholds(services.evaluator.thresholds)
    # Scored like a passage that makes the action Incorrect, a sentence supports nothing.
    floor = max(bounds.strip_floor, bounds.lower)
    try:
        scores = (await services.evaluator.score("relevance", pairs)).values if pairs else ()
    except EvaluatorFailed as error:
        # Graded strips may be quoted; of ungraded ones nobody knows whether they answer anything.
        chosen = first_sentences(candidates) if state.get("action") else []
        changed["degraded"] = [Degraded(error.component, str(error))]
    else:
        action = state.get("action")
        chosen = best_supported(
            candidates,
            scores,
            floor,
            graded=action is not None,
            keep_best=action == "correct",
        )
        changed["usage"] = Usage(scored_pairs=len(pairs))
    pieces = compose(chosen)
    if pieces:
        answer = "".join(pieces)
        changed |= {
            "answer": answer,
            "citations": citations_in(answer, knowledge),
            "stopped_by": "answered",
        }
    else:
        changed |= abstain(question)
        pieces = [changed["answer"]]
    for text in pieces:
        runtime.stream_writer({"token": {"round": 0, "text": text}})
    return changed
