"""LangGraph's API: what its clients send, and runs as values, updates, messages and states.

An assistant is a workflow, a thread a conversation, a checkpoint a turn of it. Custom events are
those of `POST /ask`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessageChunk, AnyMessage, HumanMessage, convert_to_messages
from langgraph_sdk.schema import Checkpoint, DisconnectMode, IfNotExists, RunStatus, ThreadState
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from app.integrations.langchain import ai_message
from app.protocols.messages import DialogueTurn, prefer_thread, question_of
from app.schemas import ask
from app.storage.runs import RunRecord
from graphs.options import Context
from graphs.state import Question


def _as_list(modes: object) -> object:
    """The SDK sends one alone as a string, and none as an empty one or as no item."""
    given = [modes] if isinstance(modes, str) else modes
    return [mode for mode in given if mode] or ["values"] if isinstance(given, list) else given


Mode = Literal["values", "updates", "messages-tuple", "custom"]
StreamModes = Annotated[list[Mode], BeforeValidator(_as_list)]
Turn = Mapping[str, Any]
ROLES = {"human": "user", "ai": "assistant"}
STATUSES: dict[str, RunStatus] = {
    "running": "running",
    "done": "success",
    "cancelled": "interrupted",
    "failed": "error",
    "lost": "error",
}
"""Of a run, in LangGraph's words."""


def _as_messages(given: list[Any]) -> list[Any]:
    try:
        return list(convert_to_messages(given))
    except (ValueError, TypeError, KeyError, NotImplementedError):
        raise ValueError("are no messages of LangChain's") from None


class GraphInput(BaseModel):
    """The state keys that a workflow reads; other keys of a larger graph's state are its own."""

    question: ask.UserText | None = None
    messages: Annotated[list[Any], Field(max_length=1000), AfterValidator(_as_messages)] = []
    passages: list[ask.GivenPassage] = Field([], max_length=ask.MAX_PASSAGES)

    def as_question(self) -> Question:
        """What the graphs are asked. Raises InvalidRequest."""
        if self.question is not None:
            question = Question(question=self.question)
        else:
            turns = [_turn(number, message) for number, message in enumerate(self.messages)]
            question = question_of(turns, "#/input/messages")
            prefer_thread(question)
        request = ask.AskRequest(question=question["question"], passages=self.passages)
        return {**question, **request.as_question()}


def _turn(number: int, message: AnyMessage) -> DialogueTurn:
    blocks = message.content if isinstance(message.content, list) else []
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    return DialogueTurn(
        role=ROLES.get(message.type, message.type),
        text=str(message.text),
        pointer=f"#/input/messages/{number}",
        unread=kinds - {"text"},
    )


class Configurable(Context, extra="ignore"):
    """Options may stand here too, for a node of a larger graph is given no context."""

    collection: ask.CollectionName | None = None


class RunConfig(BaseModel):
    configurable: Configurable = Field(default_factory=Configurable)


class RunPayload(BaseModel):
    """What creates a run. What is None would change the run and cannot be done here."""

    assistant_id: str
    input: GraphInput
    config: RunConfig = Field(default_factory=RunConfig)
    context: Context = Field(default_factory=Context)
    stream_mode: StreamModes = ["values"]
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    if_not_exists: IfNotExists = "reject"
    on_disconnect: DisconnectMode = "cancel"
    multitask_strategy: Literal["reject"] | None = None
    command: None = None
    interrupt_before: None = None
    interrupt_after: None = None
    checkpoint: None = None
    checkpoint_id: None = None
    webhook: None = None
    after_seconds: None = None

    def options(self) -> Context:
        """Those of `context`, and of `configurable` those that it leaves out."""
        configured, context = self.config.configurable, self.context
        named = {name: getattr(configured, name) for name in configured.model_fields_set}
        named.pop("collection", None)
        return Context(**{**named, **{n: getattr(context, n) for n in context.model_fields_set}})


def dialogue(turns: Sequence[Turn]) -> list[AnyMessage]:
    """The turns of a thread as messages, as the runs told them."""
    return [
        message
        for turn in turns
        for message in (
            HumanMessage(turn["question"], id=_question_id(turn["run_id"])),
            ai_message(turn, id=turn["run_id"]),
        )
    ]


def _question_id(run_id: str) -> str:
    return f"{run_id}-question"


class RunValues:
    """The state of one run as its events change it: `values` of LangGraph."""

    def __init__(self, run: RunRecord, before: Sequence[AnyMessage]) -> None:
        """`before` are the messages before the answer; the question's may be left out."""
        messages = [message.model_dump(mode="json") for message in before]
        if not (messages and messages[-1]["type"] == "human"):
            question = HumanMessage(run.question, id=_question_id(run.id))
            messages.append(question.model_dump(mode="json"))
        self.values: dict[str, Any] = {"question": run.question, "messages": messages}

    def change(self, event: ask.Event) -> bool:
        """Takes in what a step of the workflow itself found, or the answer; whether it did."""
        match event:
            case ask.AnswerEvent():
                payload = event.response.model_dump(mode="json")
                answer = ai_message(payload, id=payload["run_id"]).model_dump(mode="json")
                self.values |= {**payload, "messages": [*self.values["messages"], answer]}
            case ask.StepEvent(phase="end", path=[_]):
                self.values |= event.detail
            case _:
                return False
        return True


class StreamParts:
    """One run's events as the server-sent events of LangGraph; called with each in turn.

    Only the last part of an event carries its number: a client that comes back with it has missed
    none. Each draft is a message of its own; one that was rejected is told as `retract` among the
    custom events.
    """

    def __init__(
        self,
        run: RunRecord,
        before: Sequence[AnyMessage],
        modes: Sequence[Mode],
        *,
        subgraphs: bool = False,
        after: int = -1,
    ) -> None:
        self._run = {"run_id": run.id, "thread_id": run.thread_id}
        self._state = RunValues(run, before)
        self._modes, self._subgraphs, self._after = modes, subgraphs, after
        self._node, self._has_failed = "", False
        self._retracted = Counter[int]()

    def __call__(self, number: int, event: ask.Event) -> str:
        parts = list(self.parts(event))
        if number <= self._after or not parts:
            return ""
        texts = [f"event: {name}\ndata: {ask.as_json(data)}\n" for name, data in parts]
        return "\n".join(texts) + f"id: {number}\n\n"

    def parts(self, event: ask.Event) -> Iterator[tuple[str, Any]]:
        """Names and data, in order."""
        is_custom = isinstance(
            event, ask.StepEvent | ask.StepProgress | ask.TokenEvent | ask.RetractEvent
        )
        if is_custom and "custom" in self._modes:
            yield "custom", {"event": event.name, **event.content.model_dump(mode="json")}
        match event:
            case ask.RunEvent():
                yield "metadata", {**self._run, "attempt": 1}
            case ask.StepEvent():
                yield from self._step(event)
            case ask.RetractEvent():
                self._retracted[event.round] += 1
            case ask.TokenEvent() if "messages-tuple" in self._modes:
                chunk = AIMessageChunk(content=event.text, id=self._draft_id(event.round))
                about = {**self._run, "langgraph_node": self._node, "round": event.round}
                yield "messages", [chunk.model_dump(mode="json"), about]
            case ask.ErrorEvent():
                self._has_failed = True
                yield "error", failure(event.problem)
            case ask.DoneEvent() if not self._has_failed:
                yield "end", {"run_id": self._run["run_id"], "status": "success"}
        has_changed = self._state.change(event) or isinstance(event, ask.RunEvent)
        if has_changed and "values" in self._modes:
            yield "values", self._state.values

    def _draft_id(self, round_: int) -> str:
        """What is told anew after a retraction is another message."""
        retracted = self._retracted[round_]
        return f"{self._run['run_id']}-{round_}" + (f".{retracted}" if retracted else "")

    def _step(self, event: ask.StepEvent) -> Iterator[tuple[str, Any]]:
        outer = [f"{name}:{self._run['run_id']}" for name in event.path[:-1]]
        if event.phase == "start":
            self._node = event.step
        elif "updates" in self._modes and (self._subgraphs or not outer):
            yield "|".join(["updates", *outer]), {event.step: event.detail}


def failure(problem: ask.Problem) -> dict[str, str]:
    """Why a run has failed."""
    return {"error": problem.title, "message": problem.detail}


def thread_state(thread_id: str, turns: Sequence[Turn], answer: Mapping[str, Any]) -> ThreadState:
    """A thread's state after the last of these turns; `answer` is the whole one, where kept."""
    before, last = [None, None, *turns][-2:]
    values: dict[str, Any] = {}
    if last is not None:
        summary = {name: last[name] for name in ("answer", "citations")}
        messages = [message.model_dump(mode="json") for message in dialogue(turns)]
        values = {**summary, **answer, "question": last["question"], "messages": messages}
    about = {"source": "loop", "step": len(turns), "run_id": last["run_id"]} if last else {}
    return ThreadState(
        values=values,
        next=[],
        tasks=[],
        interrupts=[],
        checkpoint=_checkpoint(thread_id, last),
        parent_checkpoint=_checkpoint(thread_id, before) if before else None,
        metadata=about,
        created_at=last["answered_at"] if last else None,
    )


def _checkpoint(thread_id: str, turn: Turn | None) -> Checkpoint:
    run_id = turn["run_id"] if turn else None
    return {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": run_id,
        "checkpoint_map": None,
    }
