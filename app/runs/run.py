"""A run: one question through a graph, in a task of its own, emitted as events.

What nodes change becomes step details and, at the end, the answer, in the words of the contract.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic_core import to_jsonable_python

from app.errors import internal_problem
from app.observability import model_calls
from app.observability.model_calls import ModelCall
from app.resilience.deadline import run_ends_at
from app.runs.fork import Fork
from app.runs.prompts import PromptRecorder
from app.runs.request import RunRequest
from app.schemas import ask
from app.schemas.runs import SentPrompt
from app.storage.runs import RunRecord
from graphs.errors import RetrieverFailed
from graphs.generation.prompts import one_nonce
from graphs.ports import Services
from graphs.reflection.scores import early_answer
from graphs.reflection.verdict import verdict_of
from graphs.state import Answer, Question
from graphs.text.citations import without_markers
from graphs.text.inert_markup import told_once
from graphs.text.sentences import plain
from graphs.types import Component, Degraded, Draft, Image, Judgement, Passage, Usage
from graphs.workflows.registry import Graph

log = logging.getLogger(__name__)

TOGETHER_S = 0.02
"""Tokens that come within it are told as one event; the first after a silence at once."""
MAX_IMAGES = 8
"""Of the cited documents, told with an answer."""
SUMS = ("usage", "degraded")
SUBGRAPHS = ("retrieve", "draft_segments", "reflect")
"""Nodes that sum up what nodes in them have told already."""
STOPPED = ask.Problem(title="Stopped", status=503, detail="The run was stopped before its answer.")
HANDED_OVER = ask.Problem(
    title="Handed over",
    status=503,
    detail="Another process goes on with the run: follow it at GET /runs/{run_id}/events.",
)
INTERRUPTED = "the step was interrupted and is done again"
"""The reason of a retraction where a run is taken up by another process; its step ends with the
detail `interrupted`."""

_AS_THEY_ARE = (
    *("standalone_question", "queries", "action", "rewritten_query", "answer", "stopped_by"),
    "generator",
)
"""What answers and steps tell as the graphs do."""

_ABSENT = {
    **{"retrieval": None, "action": None, "rewritten_query": None},
    **{"critique": (), "usage": Usage()},
}
"""What an answer tells of steps that its workflow does not have."""

_WAITS_FOR: Mapping[str, tuple[Component, str]] = {
    "decide_retrieval": ("critic", "the need for retrieval was decided"),
    "contextualise": ("generator", "the question was made to stand alone"),
    "expand": ("generator", "further queries were written"),
    "search": ("retriever", "the knowledge base was searched"),
    "rerank": ("evaluator", "the passages were reranked"),
    "grade": ("evaluator", "the passages were graded"),
    "refine": ("evaluator", "the strips were graded"),
    "rewrite_query": ("generator", "the search query was written"),
    "search_web": ("web_search", "the web was searched"),
    "select_web_strips": ("evaluator", "the web pages were graded"),
    "build_candidates": ("generator", "the knowledge was compressed"),
    "generate": ("generator", "the answer was written"),
    "cite": ("evaluator", "the answer was cited"),
    "draft": ("generator", "a draft was written"),
    "extend": ("generator", "the next segment was written"),
    "judge": ("critic", "the drafts were judged"),
    "prune": ("critic", "the segments were judged"),
    "retrieve_more": ("retriever", "more passages were retrieved"),
    "search_images": ("retriever", "the images were searched"),
    "match_image": ("retriever", "the image was compared with those stored"),
    "make_image": ("generator", "the image was made"),
    "describe_image": ("generator", "the image was described"),
    "critique": ("critic", "the draft was judged"),
    "criticise": ("critic", "the criticism was written"),
    "revise": ("generator", "the answer was revised"),
    "quote": ("evaluator", "the knowledge was quoted"),
}
"""By step: the component that it waits for, and what is going on meanwhile."""

Tell = Callable[["Run", int, float, ask.Event], None]
"""Takes in a run's events as they happen: the run, the event's number, when in ms, the event."""
Ended = Sequence[tuple[int, float, ask.Event]]
"""The last events of a run: their numbers, when in ms, the events."""
Finish = Callable[["Run", ask.AskResponse | None, Ended], Awaitable[bool]]
"""Keeps how a run ended before anybody hears it, so that the next question knows of it; False where
another process has taken the run over."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where the steps of a run are kept: the saver, and the run's own thread in it."""

    saver: BaseCheckpointSaver[Any]
    thread: str


class Run:
    """Started by `Runs.start`. `follow` may be read by any number of clients, at any time.

    With `checkpoints` another process can take it up; `past` is what was told of one taken up. A
    `fork` begins within its graph and needs checkpoints.
    """

    def __init__(
        self,
        graph: Graph,
        services: Services,
        request: RunRequest,
        record: RunRecord,
        *,
        tell: Tell,
        finish: Finish,
        waited_s: float = 0.0,
        checkpoints: Checkpoints | None = None,
        past: Sequence[tuple[float, ask.Event]] = (),
        keeps_prompts: bool = False,
    ) -> None:
        self.id, self.thread_id, self.workflow = record.id, record.thread_id, record.workflow
        self.request, self.record, self.question = request, record, request.question
        self._context = request.context.within(request.scope)
        self.beginning = ask.RunEvent(
            run_id=self.id, thread_id=self.thread_id, workflow=self.workflow, owner=record.owner
        )
        self.response: ask.AskResponse | None = None
        self.is_cancelled = False
        self.is_ending = False
        self.is_handed_over = False
        self.is_shared = False
        """Another request waits for it: it goes on when the client that began it leaves."""
        self.is_kept = request.keep
        self.is_resumable = checkpoints is not None
        self.is_detached = request.detach and self.is_resumable
        self._graph, self._services, self._waited_s = graph, services, waited_s
        self._thresholds = self._context.thresholds(services.evaluator.thresholds)
        self._tell_others, self._finish, self._checkpoints = tell, finish, checkpoints
        self._events: list[ask.Event] = []
        self._more, self._done = asyncio.Event(), asyncio.Event()
        self._worked_before_s = past[-1][0] / 1000 if past else 0.0
        self._started = time.perf_counter() - self._worked_before_s
        self._under_way: dict[str, tuple[str, float]] = {}
        self._timings_ms: dict[str, float] = {}
        self.state: Answer = {}
        """The graph's, as it is known, for a fork of the run."""
        self._drafts: list[Draft] = []
        self._spent, self._failed = Usage(), list[Degraded]()
        self._texts: dict[int, str] = {}
        self._held: ask.TokenEvent | None = None
        self._holding: asyncio.TimerHandle | None = None
        self._is_taken_up, self._fork = bool(past), request.fork
        self._prompts = PromptRecorder() if keeps_prompts else None
        for _, event in past:
            self._recall(event)

    def _recall(self, event: ask.Event) -> None:
        self._events.append(event)
        if isinstance(event, ask.TokenEvent):
            self._texts[event.round] = self._texts.get(event.round, "") + event.text
        elif isinstance(event, ask.RetractEvent):
            self._texts.pop(event.round, None)
        elif isinstance(event, ask.StepEvent) and event.took_ms is not None:
            took = self._timings_ms.get(event.step, 0) + event.took_ms
            self._timings_ms[event.step] = round(took, 3)

    async def execute(self) -> None:
        """Runs the graph to its end or its deadline; every outcome becomes events."""
        if not self._is_taken_up:
            self._tell(self.beginning)
        if self._prompts is not None:
            model_calls.listen(self._prompts.hear)
        model_calls.listen(self._count_broken_off)
        response: ask.AskResponse | None = None
        try:
            with one_nonce():
                await self._until_it_ends()
            await self._find_images()
            self._settle_text()
            response = self._response()
            last: ask.Event = ask.AnswerEvent(response=response)
        except Exception as error:
            log.error("run %s failed", self.id, exc_info=error)
            last = ask.ErrorEvent(problem=internal_problem(self.id))
        self.is_ending = True
        if await self._finish(self, response, self._numbered(last, ask.DoneEvent())):
            self.response = response
            self._tell(last)
            self._tell(ask.DoneEvent())
        else:
            self.hand_over()

    def _numbered(self, *last: ask.Event) -> Ended:
        self._tell_held()
        at_ms = self._elapsed_ms()
        return [(n, at_ms, event) for n, event in enumerate(last, len(self._events))]

    async def _until_it_ends(self) -> None:
        """By itself, at its deadline, or because somebody cancelled it."""
        try:
            deadline_s = self._context.deadline_ms / 1000
            left_s = deadline_s - self._waited_s - self._worked_before_s
            ends_at = asyncio.get_running_loop().time() + left_s
            async with asyncio.timeout_at(ends_at) as deadline:
                with run_ends_at(ends_at):
                    await self._through_graph()
        except TimeoutError:
            if not deadline.expired():
                raise
            self._stop_early("deadline")
        except asyncio.CancelledError:
            if not self.is_cancelled:
                raise
            cast("asyncio.Task[None]", asyncio.current_task()).uncancel()
            self._stop_early("cancelled")

    def conclude_stopped(self) -> Ended:
        """Tells whoever follows still that a stopped run has no more to say; what it told."""
        if self._done.is_set():
            return []
        last = self._numbered(ask.ErrorEvent(problem=STOPPED), ask.DoneEvent())
        for _, _, event in last:
            self._tell(event)
        return last

    def hand_over(self) -> None:
        """Ends it here alone, without a last word: another process goes on with it."""
        self.is_handed_over, self._held = True, None
        self._done.set()
        self._more.set()

    @property
    def prompts(self) -> Sequence[SentPrompt]:
        """What was sent to language models so far; nothing where that is not kept."""
        return self._prompts.prompts if self._prompts is not None else ()

    @property
    def passages(self) -> Sequence[Passage]:
        """Those behind the answer's `documents`, with their texts."""
        return self.state.get("documents", [])

    async def follow(self, start: int = 0) -> AsyncGenerator[tuple[int, ask.Event]]:
        """The numbered events from `start` on, as they come, until the run is done."""
        async with aclosing(self.follow_together(start)) as batches:
            async for batch in batches:
                for numbered in batch:
                    yield numbered

    async def follow_together(self, start: int = 0) -> AsyncGenerator[list[tuple[int, ask.Event]]]:
        """The same, each time all that has happened: what comes at once can be sent at once."""
        while not self._done.is_set() or start < len(self._events):
            if batch := list(enumerate(self._events[start:], start)):
                start += len(batch)
                yield batch
            else:
                await self._more.wait()

    async def all_events(self) -> Sequence[ask.Event]:
        """Once the run is done, for those who want its end alone."""
        await self._done.wait()
        return self._events

    async def outcome(self) -> ask.AnswerEvent | ask.ErrorEvent:
        """The final event, once the run is done."""
        events = await self.all_events()
        outcomes = (it for it in events if isinstance(it, ask.AnswerEvent | ask.ErrorEvent))
        return next(outcomes, ask.ErrorEvent(problem=HANDED_OVER))

    async def _through_graph(self) -> None:
        graph, given = self._graph, cast("Question | None", self.question)
        config: RunnableConfig | None = None
        if self._checkpoints is not None:
            graph = copy(graph)
            graph.checkpointer = self._checkpoints.saver
            config = {"configurable": {"thread_id": self._checkpoints.thread}}
        if self._fork is not None and config is not None:
            await graph.aupdate_state(config, self._fork.state, as_node=self._fork.step)
            reached = await graph.aget_state(config)
            self.state, given = cast("Answer", reached.values), None
            self._tell_kept(self._fork)
        if self._is_taken_up:
            self._close_interrupted()
            reached = await graph.aget_state(cast("RunnableConfig", config))
            if reached.created_at is not None:
                self.state, given = cast("Answer", reached.values), None
                if not reached.next:
                    return
        stream = graph.astream(
            given,
            config,
            context=self._context,
            stream_mode=["tasks", "custom", "values"],
            subgraphs=True,
            version="v2",
            durability="sync" if config else None,
        )
        async for part in stream:
            if part["type"] == "tasks":
                self._tell_step(part["ns"], part["data"])
                self._keep(part["ns"], part["data"])
            elif part["type"] == "custom":
                self._tell_custom(part["ns"], part["data"])
            elif not part["ns"]:
                self.state = cast("Answer", part["data"])
                self._spent, self._failed = Usage(), []

    def _tell_kept(self, fork: Fork) -> None:
        """The step after which a fork starts, with its reused results."""
        detail = {**detail_of(fork.state), "thresholds": asdict(self._thresholds), "reused": True}
        event = {"step": fork.step, "path": [fork.step], "at_ms": self._elapsed_ms()}
        self._tell(ask.StepEvent(**event, phase="start", detail={"reused": True}))
        self._tell(ask.StepEvent(**event, phase="end", took_ms=0.0, detail=detail))

    def _close_interrupted(self) -> None:
        """Ends the steps that were under way, for they are done again, and retracts their text."""
        open_ = _unended(self._events)
        outer = [event.path[:n] for event in open_.values() for n in range(len(event.path))]
        since = min((n for n, event in open_.items() if event.path not in outer), default=0)
        late = [event.round for event in self._events[since:] if isinstance(event, ask.TokenEvent)]
        for round_ in sorted(set(late) & self._texts.keys()) if since else ():
            self._tell_text({"retract": {"round": round_, "reason": INTERRUPTED}})
        now = self._elapsed_ms()
        for event in reversed(open_.values()):
            took_ms, detail = round(now - event.at_ms, 3), {"interrupted": True}
            ended_now = {"phase": "end", "at_ms": now, "took_ms": took_ms, "detail": detail}
            self._tell(event.model_copy(update=ended_now))

    def _keep(self, namespace: tuple[str, ...], task: Mapping[str, Any]) -> None:
        """What a step found counts at the deadline though a step beside it goes on.

        Within subgraphs, too: of reflection the best draft so far. Sums are left to the graph,
        whose values follow when all steps side by side have ended; what was spent and what failed
        until then is kept apart.
        """
        result = task.get("result") or {}
        self._drafts += [draft for draft in result.get("drafts", ()) if draft.answer]
        if namespace or task["name"] not in SUBGRAPHS:
            self._spent += result.get("usage", Usage())
            self._failed += result.get("degraded", ())
        values = {key: value for key, value in result.items() if key not in SUMS}
        self.state = cast("Answer", {**self.state, **values})

    def _tell_step(self, namespace: tuple[str, ...], task: Mapping[str, Any]) -> None:
        self._tell_held()
        now, name = self._elapsed_ms(), task["name"]
        path = _path(namespace, name)
        if "input" in task:
            self._under_way[task["id"]] = name, now
            if self._prompts is not None:
                self._prompts.step_began(task["id"], len(self._events))
            event = ask.StepEvent(step=name, path=path, phase="start", at_ms=now, detail={})
        else:
            _, began = self._under_way.pop(task["id"], (name, now))
            took = round(now - began, 3)
            self._timings_ms[name] = round(self._timings_ms.get(name, 0) + took, 3)
            detail = detail_of(task["result"] or {})
            if plan := (task["result"] or {}).get("plan"):
                self._thresholds = plan.thresholds
            if "action" in detail or name == "prepare":
                bar = detail.get("image_threshold")
                at_bar = {"upper": bar, "lower": bar, "strip_floor": bar}
                detail["thresholds"] = asdict(self._thresholds) if bar is None else at_bar
            event = ask.StepEvent(
                step=name, path=path, phase="end", at_ms=now, took_ms=took, detail=detail
            )
        self._tell(event)

    def _tell_custom(self, namespace: tuple[str, ...], payload: Mapping[str, Any]) -> None:
        """Emit what a node streams while it runs: progress, or text."""
        if "progress" in payload:
            progress = payload["progress"]
            path = _path(namespace, progress["step"])
            self._tell(ask.StepProgress(**progress, path=path))
        else:
            self._tell_text(payload)

    def _tell_text(self, payload: Mapping[str, Any]) -> None:
        """Tokens add up to a round's draft; a retraction of what nobody heard is not told."""
        if "token" in payload:
            event = ask.TokenEvent(**payload["token"])
            self._texts[event.round] = self._texts.get(event.round, "") + event.text
            self._tell_together(event)
        elif "retract" in payload:
            retraction = ask.RetractEvent(**payload["retract"])
            if self._texts.pop(retraction.round, ""):
                self._tell(retraction)

    def _tell_together(self, token: ask.TokenEvent) -> None:
        """A chunk is dear: each event is kept, observed, encoded and sent."""
        if self._holding is None:
            self._tell(token)
            self._hold()
        elif self._held is not None and self._held.round == token.round:
            self._held.text += token.text
        else:
            self._tell_held()
            self._held = token

    def _hold(self) -> None:
        self._holding = asyncio.get_running_loop().call_later(TOGETHER_S, self._held_enough)

    def _held_enough(self) -> None:
        self._holding = None
        if self._held is not None:
            self._tell_held()
            self._hold()

    def _tell_held(self) -> None:
        if (token := self._held) is not None:
            self._held = None
            self._tell(token)

    async def _find_images(self) -> None:
        """Those that the cited documents show, where the run did not ask for images itself."""
        index, cited = self._services.images, self.state.get("citations", [])
        if index is None or not cited or self.state.get("images"):
            return
        places = [Passage(it.strip_id, it.text, it.title, it.source) for it in cited]
        try:
            images = await index.images_of(places, self.request.scope)
        except RetrieverFailed as error:
            self.state["degraded"] = [*self.state.get("degraded", ()), error.degraded]
        else:
            self.state["images"] = list(images)[:MAX_IMAGES]

    def _settle_text(self) -> None:
        """End the stream with the answer: the best draft need not be the last one streamed."""
        answer, streamed = self.state["answer"], "".join(self._texts.values())
        if streamed == answer:
            return
        why: str = self.state["stopped_by"]
        if why not in ("deadline", "cancelled"):
            is_cited_now = plain(without_markers(streamed)) == plain(without_markers(answer))
            why = ask.CITATIONS_ADDED if is_cited_now else ask.ANOTHER_WAS_BETTER
        latest = max(self._texts, default=0)
        for round_ in list(self._texts):
            self._tell_text({"retract": {"round": round_, "reason": why}})
        self._tell_text({"token": {"round": latest, "text": answer}})

    def _stop_early(self, why: Literal["deadline", "cancelled"]) -> None:
        """The best draft so far; where none is whole, what was kept is quoted."""
        judged = [draft for draft in self.state.get("candidates", ()) if draft.answer]
        drafts = judged or sorted(self._drafts, key=lambda draft: draft.n)
        spent = self.state.get("usage", Usage()) + self._spent
        failed = [*self.state.get("degraded", ()), *self._failed]
        if why == "deadline":
            failed += self._awaited()
        steps = (event for event in self._events if isinstance(event, ask.StepEvent))
        is_writing = any(event.step == "generate" for event in steps)
        ending: Answer = {"candidates": drafts, "usage": spent}
        ending |= early_answer(
            self.state,
            self.question,
            drafts,
            self._context,
            why,
            is_writing=is_writing,
            links=self._services.answer_links,
        )
        failed += ending.get("degraded", [])
        self.state = {**self.state, **ending, "degraded": failed}

    def _count_broken_off(self, call: ModelCall) -> None:
        """One that ends with its step, which no longer tells what it has used."""
        if call.error == "CancelledError" and call.operation != "embeddings":
            self._spent += Usage(1, call.input_tokens or 0, call.output_tokens or 0)

    def _awaited(self) -> Sequence[Degraded]:
        """What the steps under way were waiting for."""
        names = [name for name, _ in self._under_way.values()]
        waits = [_WAITS_FOR[name] for name in names if name in _WAITS_FOR]
        return [
            Degraded(component, f"The deadline came while {doing}.") for component, doing in waits
        ]

    def _response(self) -> ask.AskResponse:
        """The body of `POST /ask`; what the workflow does not have is null or empty."""
        state = self.state
        return ask.AskResponse.model_validate(
            {
                **_ABSENT,
                **state,
                **asdict(verdict_of(state)),
                **_lists(state),
                "run_id": self.id,
                "thread_id": self.thread_id,
                "workflow": self.workflow,
                "thresholds": self._thresholds,
                "degraded": told_once(state.get("degraded", ())),
                "models": {
                    "generator": state.get("generator", self._services.chat_name),
                    "evaluator": self._services.evaluator.name,
                    "embedder": self._services.embedder_name,
                },
                "timings_ms": self._timings_ms,
            }
        )

    def _elapsed_ms(self) -> float:
        return round((time.perf_counter() - self._started) * 1000, 3)

    def _tell(self, event: ask.Event) -> None:
        self._tell_held()
        self._tell_others(self, len(self._events), self._elapsed_ms(), event)
        self._events.append(event)
        self._more.set()
        self._more = asyncio.Event()
        if isinstance(event, ask.DoneEvent):
            self._done.set()


def _path(namespace: Sequence[str], step: str) -> list[str]:
    """The names of the nodes down to a step; LangGraph adds ids to those of subgraphs."""
    return [*(place.split(":")[0] for place in namespace), step]


def _unended(events: Sequence[ask.Event]) -> dict[int, ask.StepEvent]:
    """The steps without an end, by the number of their start; an end closes the oldest."""
    open_: dict[int, ask.StepEvent] = {}
    for number, event in enumerate(events):
        if isinstance(event, ask.StepEvent) and event.phase == "start":
            open_[number] = event
        elif isinstance(event, ask.StepEvent):
            open_.pop(next((n for n, each in open_.items() if each.path == event.path), -1), None)
    return open_


def detail_of(changed: Mapping[str, Any]) -> dict[str, Any]:
    """What a node changed, as JSON in the words of the answer; empty for nodes of no interest.

    Of the rounds of reflection the latest alone: each has had its own step.
    """
    lists = _lists(changed)
    detail = {name: changed[name] for name in _AS_THEY_ARE if name in changed}
    if "documents" in changed:
        detail["documents"] = lists["documents"]
    if len(changed.get("grades", ())) > 1:
        detail["grades"] = changed["grades"]
    if "web_pages" in changed:
        detail["web_results"] = lists["web_results"]
    others = {
        "compression": changed.get("compression"),
        "retrieval": changed.get("retrieval"),
        "candidates": lists["candidates"],
        "critique": next(reversed(changed.get("critique") or ()), None),
        "strips": lists["strips"],
        "citations": changed.get("citations"),
        "degraded": changed.get("degraded"),
        "speculative_search": _speculative_search(changed),
        "kept_below_floor": changed.get("kept_below_floor"),
        "images": [_without_pixels(image) for image in changed.get("images") or ()],
        "image_threshold": changed.get("image_threshold"),
    }
    detail |= {name: value for name, value in others.items() if value}
    jsonable: dict[str, Any] = to_jsonable_python(detail)
    return jsonable


def _without_pixels(image: Image) -> Image:
    """Generated images are sent with the answer alone."""
    return replace(image, url="") if image.origin == "generated" else image


def _lists(state: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The lists whose items have another form in the contract than in the graphs."""
    strips = [*state.get("internal_strips", ()), *state.get("web_strips", ())]
    return {
        "documents": [ask.Document.model_validate(it) for it in state.get("documents", ())],
        "web_results": [ask.WebResult.model_validate(page) for page in state.get("web_pages", ())],
        "strips": [ask.GradedStrip.model_validate(strip) for strip in strips],
        "candidates": [_candidate(draft) for draft in state.get("candidates", ())],
    }


def _candidate(draft: Draft) -> ask.Candidate:
    judged = draft.judgement or Judgement()
    return ask.Candidate(
        n=draft.n,
        origin=draft.origin,
        document_ids=list(draft.document_ids),
        answer=draft.answer,
        relevance=judged.relevance,
        support=judged.support,
        utility=judged.utility,
        score=draft.critique_score,
        chosen=draft.chosen,
    )


def _speculative_search(changed: Mapping[str, Any]) -> str:
    """What became of the web search that began beside this node; empty where none did."""
    if changed.get("speculative_search"):
        return "kept"
    return "discarded" if changed.get("usage", Usage()).discarded_searches else ""
