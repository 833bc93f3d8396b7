"""LangGraph's API: what its clients send, and runs as values, updates, messages and state.

An assistant is a workflow, a thread a conversation, a checkpoint a turn of it. Custom events are
those of `POST /ask`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    convert_to_messages,
)
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.errors import InvalidRequest
from app.integrations.langchain import ai_message
from app.protocols.messages import DialogueTurn, checked, prefer_thread, question_of
from app.schemas import ask
from app.storage.runs import RunRecord
from graphs.options import Context
from graphs.state import Question

Mode = Literal["values", "updates", "messages", "messages-tuple", "custom", "tasks"]
MODES: tuple[Mode, ...] = ("values", "updates", "messages", "messages-tuple", "custom", "tasks")
MAX_MESSAGES_GIVEN = 1000
ROLES = {"human": "user", "ai": "assistant"}
STATUSES = {
    "running": "running",
    "done": "success",
    "cancelled": "interrupted",
    "failed": "error",
    "lost": "error",
}
"""Of a run, in LangGraph's words."""
NOT_OFFERED = {
    "command": "nothing waits to be resumed",
    "interrupt_before": "runs cannot be paused here; LangGraph Studio can",
    "interrupt_after": "runs cannot be paused here; LangGraph Studio can",
    "webhook": "no address is called when a run has ended",
    "after_seconds": "runs begin at once",
    "checkpoint": "runs begin at a thread's latest turn",
    "checkpoint_id": "runs begin at a thread's latest turn",
}
_OPTIONS: TypeAdapter[Context] = TypeAdapter(Context)
_COLLECTION: TypeAdapter[str] = TypeAdapter(ask.CollectionName)
_PASSAGES: TypeAdapter[list[ask.GivenPassage]] = TypeAdapter(list[ask.GivenPassage])
_QUESTION: TypeAdapter[str] = TypeAdapter(ask.UserText)


class GraphInput(BaseModel):
    """The state keys that a workflow reads; other keys of a larger graph's state are its own."""

    question: str | None = Field(None, description="1 to 8,000 characters after trimming.")
    messages: list[Any] | None = Field(
        None, description="A dialogue; its last message of the user is the question."
    )
    passages: list[Any] = Field(
        default_factory=list,
        max_length=ask.MAX_PASSAGES,
        description="Knowledge in place of the knowledge base, as POST /ask takes it.",
    )


class GraphOutput(ask.AskResponse):
    """The state keys that a workflow writes: the body of POST /ask, and the dialogue."""

    question: str
    messages: list[AnyMessage]


class RunConfig(BaseModel):
    configurable: dict[str, Any] = Field(default_factory=dict)


class RunPayload(BaseModel):
    """What creates a run; fields that change nothing here are left out."""

    model_config = ConfigDict(extra="allow")

    assistant_id: str
    input: GraphInput | None = None
    config: RunConfig = Field(default_factory=RunConfig)
    context: dict[str, Any] = Field(default_factory=dict)
    stream_mode: str | list[str] = "values"
    stream_subgraphs: bool = False
    stream_resumable: bool = False
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "cancel"
    multitask_strategy: str | None = None

    def modes(self) -> list[Mode]:
        """Raises InvalidRequest for one that is not offered."""
        requested = [self.stream_mode] if isinstance(self.stream_mode, str) else self.stream_mode
        return modes_of(requested)

    def check(self) -> None:
        """Raises InvalidRequest for what would change the run and cannot be done here."""
        for name, why in NOT_OFFERED.items():
            if (self.model_extra or {}).get(name):
                raise InvalidRequest(f"#/{name}", why)
        if self.multitask_strategy not in (None, "reject"):
            raise InvalidRequest(
                "#/multitask_strategy", "only reject: a busy thread is answered with 409"
            )

    def options(self) -> Context:
        """Of `context`, strictly, and of what `configurable` names among the options."""
        configured = self.config.configurable
        named = {name: configured[name] for name in Context.model_fields if name in configured}
        pointer = "#/context" if self.context else "#/config/configurable"
        return checked(_OPTIONS, {**named, **self.context}, pointer)

    def collection(self) -> str | None:
        name = self.config.configurable.get("collection")
        if name is None:
            return None
        return checked(_COLLECTION, name, "#/config/configurable/collection")


def modes_of(requested: Sequence[str]) -> list[Mode]:
    for name in requested:
        if name not in MODES:
            raise InvalidRequest("#/stream_mode", f"{name!r} is none of {', '.join(MODES)}")
    return [mode for mode in MODES if mode in requested]


class Asked:
    """A run's input: the question for the workflow, and the messages that came with it."""

    def __init__(self, given: GraphInput | None) -> None:
        """Raises InvalidRequest."""
        given = given or GraphInput()
        self.messages = _messages(given.messages or [])
        if given.question is not None:
            self.question = Question(
                question=checked(_QUESTION, given.question, "#/input/question")
            )
        elif self.messages:
            self.question = question_of([_turn(n, each) for n, each in enumerate(self.messages)])
            prefer_thread(self.question)
        else:
            raise InvalidRequest("#/input", "holds neither a question nor messages")
        if given.passages:
            passages = checked(_PASSAGES, given.passages, "#/input/passages")
            request = ask.AskRequest(question=self.question["question"], passages=passages)
            self.question["passages"] = request.as_question()["passages"]


def _messages(given: list[Any]) -> list[AnyMessage]:
    if len(given) > MAX_MESSAGES_GIVEN:
        raise InvalidRequest("#/input/messages", f"more than {MAX_MESSAGES_GIVEN:,} messages")
    try:
        return cast("list[AnyMessage]", convert_to_messages(given))
    except (ValueError, TypeError, KeyError, NotImplementedError):
        raise InvalidRequest("#/input/messages", "are no messages of LangChain's") from None


def _turn(number: int, message: AnyMessage) -> DialogueTurn:
    blocks = message.content if isinstance(message.content, list) else []
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    return DialogueTurn(
        role=ROLES.get(message.type, message.type),
        text=str(message.text),
        pointer=f"#/input/messages/{number}",
        unread=kinds - {"text"},
    )


def dialogue(turns: Sequence[Mapping[str, Any]]) -> list[AnyMessage]:
    """The turns of a thread as messages, as the runs told them."""
    return [
        message
        for turn in turns
        for message in (
            HumanMessage(turn["question"], id=_question_id(turn["run_id"])),
            ai_message(turn, id=turn["run_id"]),
        )
    ]


class RunValues:
    """The state of one run as its events change it: `values` of LangGraph."""

    def __init__(self, run: RunRecord, messages: Sequence[AnyMessage]) -> None:
        """`messages` are those before the answer; the question's may be left out."""
        dialogue = list(messages)
        if not (dialogue and dialogue[-1].type == "human"):
            dialogue.append(HumanMessage(run.question, id=_question_id(run.id)))
        self._messages = dialogue
        self.values: dict[str, Any] = {"question": run.question, "messages": _dumped(dialogue)}

    def change(self, event: ask.Event) -> bool:
        """Takes in what a step of the workflow itself found, or the answer; whether it did."""
        if isinstance(event, ask.AnswerEvent):
            payload = event.response.model_dump(mode="json")
            self.values |= payload
            answer = ai_message(payload, id=payload["run_id"])
            self.values["messages"] = _dumped([*self._messages, answer])
        elif isinstance(event, ask.StepEvent) and event.phase == "end" and len(event.path) == 1:
            self.values |= event.detail
        else:
            return False
        return True


def _question_id(run_id: str) -> str:
    return f"{run_id}-question"


def _dumped(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    return [message.model_dump(mode="json") for message in messages]


class StreamParts:
    """One run's events as the server-sent events of LangGraph; called with each in turn.

    Only the last part of an event carries its number: a client that comes back with it has missed
    none. Each draft is a message of its own; one that was rejected is told as `retract` among the
    custom events.
    """

    def __init__(
        self,
        run: RunRecord,
        messages: Sequence[AnyMessage],
        modes: Sequence[Mode],
        *,
        subgraphs: bool = False,
        after: int = -1,
    ) -> None:
        self._run_id, self._thread_id = run.id, run.thread_id
        self._state = RunValues(run, messages)
        self._modes, self._subgraphs, self._after = modes, subgraphs, after
        self._node, self._texts, self._has_failed = "", dict[int, str](), False

    def __call__(self, number: int, event: ask.Event) -> str:
        parts = list(self.parts(event))
        if number <= self._after or not parts:
            return ""
        texts = [f"event: {name}\ndata: {ask.as_json(data)}\n" for name, data in parts]
        return "\n".join(texts) + f"id: {number}\n\n"

    def parts(self, event: ask.Event) -> Iterator[tuple[str, Any]]:
        """Names and data, in order."""
        if isinstance(event, ask.RunEvent):
            yield "metadata", {"run_id": self._run_id, "thread_id": self._thread_id, "attempt": 1}
            yield from self._values()
            return
        if isinstance(event, ask.ErrorEvent):
            self._has_failed = True
            yield "error", {"error": event.problem.title, "message": event.problem.detail}
            return
        if isinstance(event, ask.DoneEvent):
            if not self._has_failed:
                yield "end", {"run_id": self._run_id, "status": "success"}
            return
        if "custom" in self._modes and not isinstance(event, ask.AnswerEvent):
            yield "custom", {"event": event.name, **event.content.model_dump(mode="json")}
        if isinstance(event, ask.StepEvent):
            yield from self._step(event)
        elif isinstance(event, ask.TokenEvent):
            yield from self._token(event)
        elif isinstance(event, ask.AnswerEvent) and "messages" in self._modes:
            answer = ai_message(event.response.model_dump(mode="json"), id=self._run_id)
            yield "messages/complete", _dumped([answer])
        if self._state.change(event):
            yield from self._values()

    def _values(self) -> Iterator[tuple[str, Any]]:
        if "values" in self._modes:
            yield "values", self._state.values

    def _step(self, event: ask.StepEvent) -> Iterator[tuple[str, Any]]:
        outer = [f"{name}:{self._run_id}" for name in event.path[:-1]]
        if event.phase == "start":
            self._node = event.step
        if outer and not self._subgraphs:
            return
        place = "|".join(outer)
        suffix = f"|{place}" if place else ""
        task = {"id": f"{'/'.join(event.path)}:{self._run_id}", "name": event.step}
        if "tasks" in self._modes and event.phase == "start":
            yield f"tasks{suffix}", {**task, "input": None, "triggers": []}
        elif "tasks" in self._modes:
            ended: dict[str, Any] = {"error": None, "result": event.detail, "interrupts": []}
            yield f"tasks{suffix}", {**task, **ended}
        if "updates" in self._modes and event.phase == "end":
            yield f"updates{suffix}", {event.step: event.detail}

    def _token(self, event: ask.TokenEvent) -> Iterator[tuple[str, Any]]:
        name = f"{self._run_id}-{event.round}"
        about = {
            "run_id": self._run_id,
            "thread_id": self._thread_id,
            "langgraph_node": self._node,
            "round": event.round,
        }
        if "messages-tuple" in self._modes:
            chunk = AIMessageChunk(content=event.text, id=name)
            yield "messages", [chunk.model_dump(mode="json"), about]
        if "messages" in self._modes:
            if event.round not in self._texts:
                yield "messages/metadata", {name: {"metadata": about}}
            text = self._texts[event.round] = self._texts.get(event.round, "") + event.text
            yield "messages/partial", _dumped([AIMessage(text, id=name)])


def thread_state(
    thread_id: str, turns: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]
) -> dict[str, Any]:
    """A thread's state after the last of these turns; `answer` is the whole one, where kept."""
    turn, before = turns[-1], turns[-2] if len(turns) > 1 else None
    values = {
        "answer": turn["answer"],
        "citations": turn["citations"],
        **answer,
        "question": turn["question"],
        "messages": _dumped(dialogue(turns)),
    }
    return _state(
        values,
        checkpoint_of(thread_id, turn["run_id"]),
        checkpoint_of(thread_id, before["run_id"]) if before else None,
        facts_of(turn, len(turns)),
        turn["answered_at"],
    )


def facts_of(turn: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The metadata of a thread's n-th checkpoint."""
    return {"source": "loop", "step": number, "run_id": turn["run_id"]}


def empty_state(thread_id: str) -> dict[str, Any]:
    """Of a thread without a turn."""
    return _state({}, checkpoint_of(thread_id, None), None, {}, None)


def checkpoint_of(thread_id: str, run_id: str | None) -> dict[str, Any]:
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": run_id}


def _state(
    values: dict[str, Any],
    checkpoint: dict[str, Any],
    before: dict[str, Any] | None,
    about: dict[str, Any],
    created_at: str | None,
) -> dict[str, Any]:
    return {
        "values": values,
        "next": [],
        "tasks": [],
        "interrupts": [],
        "checkpoint": checkpoint,
        "parent_checkpoint": before,
        "metadata": about,
        "created_at": created_at,
    }
