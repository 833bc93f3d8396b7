"""Progress texts: a run's steps as short lines for people, in the language of the question.

One catalogue for the reasoning of OpenAI's clients and of the AI SDK, Open WebUI's statuses and the
terminal.
"""

from collections.abc import Iterator
from typing import Any

from app.runs.run import SUBGRAPHS
from app.schemas.ask import ANOTHER_WAS_BETTER, CITATIONS_ADDED, Event, RetractEvent, StepEvent
from graphs.text.inert_markup import inert
from graphs.text.language import language_of, script_of
from graphs.types import Language, Verdict

MAX_CHARS = 300

TEXTS: dict[str, tuple[str, str]] = {
    # Begun steps that take a while; the others are told by what they found.
    "retrieve": ("Searching the knowledge base …", "正在检索知识库……"),
    "search_images": ("Searching the images …", "正在检索图片……"),
    "match_image": ("Comparing the image with those stored …", "正在与已存的图片比对……"),
    "make_image": ("Making an image …", "正在生成图片……"),
    "describe_image": ("Describing the image …", "正在描述图片……"),
    "search_web": ("Searching the web …", "正在搜索网络……"),
    "generate": ("Writing the answer …", "正在撰写答案……"),
    "draft": ("Drafting the answer …", "正在起草答案……"),
    "revise": ("Revising the answer …", "正在修订答案……"),
    # What a step found.
    "needed": ("Retrieval is needed (p {p:.2f}).", "需要检索（p {p:.2f}）。"),
    "not_needed": ("Retrieval is not needed (p {p:.2f}).", "不需要检索（p {p:.2f}）。"),
    "understood": ("Understood as: {question}", "理解为：{question}"),
    "queries": ("Queries: {queries}", "检索语句：{queries}"),
    "graded": (
        "Passages graded: {count} (best {best:.2f}).",
        "已给 {count} 个段落评分（最高 {best:.2f}）。",
    ),
    "decided": (
        "Passages graded: {count}, {action} (best {best:.2f}, upper {upper:.2f}, "
        "lower {lower:.2f}).",
        "已给 {count} 个段落评分：{action}（最高 {best:.2f}，上阈值 {upper:.2f}，"
        "下阈值 {lower:.2f}）。",
    ),
    "query": ("Search query: {query}", "搜索词：{query}"),
    "pages": ("Web pages found: {count}.", "找到 {count} 个网页。"),
    "strips": ("Knowledge strips kept: {kept} of {count}.", "{count} 个知识条中保留了 {kept} 个。"),
    "chosen": ("Chose draft {n} of {count}.", "从 {count} 份草稿中选择了第 {n} 份。"),
    "accepted": (
        "Critique round {round}: accepted ({judged}).",
        "第 {round} 轮评判：接受（{judged}）。",
    ),
    "rejected": (
        "Critique round {round}: rejected ({judged}).",
        "第 {round} 轮评判：拒绝（{judged}）。",
    ),
    "criticism": ("Criticism: {criticism}", "批评：{criticism}"),
    "withdrawn": ("The draft is withdrawn.", "草稿已撤回。"),
    "withdrawn_for": ("The draft is withdrawn: {reason}", "草稿已撤回：{reason}"),
    "degraded": ("Degraded: {component}: {reason}", "功能降级：{component}：{reason}"),
    "supported": ("Answered: supported by its sources.", "已回答：有来源支持。"),
    "partly": (
        "Answered in part or not for sure: check its sources.",
        "已回答，但不完整或不确定，请核对来源。",
    ),
    "unsupported": (
        "Answered, but nothing clearly supports it: do not rely on it.",
        "已回答，但没有明确的依据，请勿依赖。",
    ),
    "caution": (
        "No source clearly answers this. Do not rely on it.",
        "来源没有明确回答，请勿依赖。",
    ),
    "not_judged": ("Answered; nobody judged it.", "已回答，未经评判。"),
    "abstained": ("No answer was found.", "没有找到答案。"),
    # Parts of these.
    "support": ("support {value:.2f}", "支持度 {value:.2f}"),
    "utility": ("utility {value:.2f}", "有用度 {value:.2f}"),
    "score": ("score {value:.2f}", "得分 {value:.2f}"),
    "comma": (", ", "，"),
    "semicolon": ("; ", "；"),
    "correct": ("correct", "正确"),
    "incorrect": ("incorrect", "错误"),
    "ambiguous": ("ambiguous", "模糊"),
    # Why a draft is withdrawn, where no criticism says so.
    ANOTHER_WAS_BETTER: (ANOTHER_WAS_BETTER, "另一份草稿更好"),
    CITATIONS_ADDED: (CITATIONS_ADDED, "补上了引用"),
    "the model's reasoning is removed": ("the model's reasoning is removed", "那是模型的思考过程"),
    "deadline": ("deadline", "到了截止时间"),
    "cancelled": ("cancelled", "运行被取消"),
}
"""English and Chinese."""
BEGUN = (
    *("retrieve", "search_web", "generate", "draft", "revise"),
    *("search_images", "match_image", "make_image", "describe_image"),
)
# Steps whose details repeat what other steps have told.
REPEATING = {"judge", "prune", "revise", "quote", *SUBGRAPHS}


def text(name: str, language: Language) -> str:
    return TEXTS[name][language == "zh"]


def caution(verdict: Verdict, answer: str) -> str:
    """What an unsupported answer begins with where its text alone is shown; else empty."""
    return text("caution", script_of(answer)) + "\n\n" if verdict == "unsupported" else ""


def without_caution(answer: str) -> str:
    """The answer as it was given: its caution is no part of the dialogue."""
    english, chinese = (f"{each}\n\n" for each in TEXTS["caution"])
    return answer.removeprefix(english).removeprefix(chinese)


class ProgressText:
    """Remembers what was announced, so that parallel drafts are announced once."""

    def __init__(self, question: str) -> None:
        self._language = language_of(question)
        self._drafting = False
        self._criticism = ""

    def lines(self, event: Event) -> list[str]:
        """What there is to say of an event, without line breaks; often nothing."""
        match event:
            case StepEvent(phase="start"):
                return list(self._start(event.step))
            case StepEvent(phase="end") if event.step not in SUBGRAPHS:
                failed = event.detail.get("degraded", ())
                lines = (self._say("degraded", **entry) for entry in failed)
                return [*self._end(event.step, event.detail), *lines]
            case RetractEvent():
                return [self._withdrawn(event.reason)]
        return []

    def _start(self, step: str) -> Iterator[str]:
        if step in BEGUN and not (step == "draft" and self._drafting):
            yield self._say(step)
        self._drafting = step == "draft" or self._drafting

    def _end(self, step: str, detail: dict[str, Any]) -> Iterator[str]:
        if step in REPEATING:
            return
        yield from self._decided(detail)
        if step == "search_web" and "web_results" in detail:
            yield self._say("pages", count=len(detail["web_results"]))
        if step in ("refine", "select_web_strips") and (strips := detail.get("strips")):
            kept_count = sum(strip["kept"] for strip in strips)
            yield self._say("strips", kept=kept_count, count=len(strips))
        drafts = detail.get("candidates", ()) if step == "select_candidate" else ()
        for draft in drafts:
            if draft["chosen"] and len(drafts) > 1:
                yield self._say("chosen", n=draft["n"], count=len(drafts))
        if entry := detail.get("critique"):
            yield from self._judged(step, entry)

    def _decided(self, detail: dict[str, Any]) -> Iterator[str]:
        if retrieval := detail.get("retrieval"):
            name = "needed" if retrieval["decision"] else "not_needed"
            yield self._say(name, p=retrieval["probability"])
        if question := detail.get("standalone_question"):
            yield self._say("understood", question=question)
        if len(queries := detail.get("queries") or ()) > 1:
            yield self._say("queries", queries=self._text("semicolon").join(queries))
        if query := detail.get("rewritten_query"):
            yield self._say("query", query=query)
        if "action" in detail and detail.get("documents"):
            yield self._graded(detail)

    def _graded(self, detail: dict[str, Any]) -> str:
        scores = [document["score"] for document in detail["documents"]]
        figures = {"count": len(scores), "best": max(scores)}
        if not (action := detail["action"]):
            return self._say("graded", **figures)
        bounds = detail["thresholds"]
        figures |= {"upper": bounds["upper"], "lower": bounds["lower"]}
        return self._say("decided", action=self._text(action), **figures)

    def _judged(self, step: str, entry: dict[str, Any]) -> Iterator[str]:
        if step == "critique":
            judged = self._text("comma").join(
                self._say(name, value=entry[name])
                for name in ("support", "utility", "score")
                if entry[name] is not None
            )
            verdict = "accepted" if entry["accepted"] else "rejected"
            yield self._say(verdict, round=entry["round"], judged=judged)
        elif step == "criticise" and entry["criticism"]:
            self._criticism = entry["criticism"]
            yield self._say("criticism", criticism=self._criticism)

    def _withdrawn(self, reason: str) -> str:
        """Why only where the criticism has not just said so."""
        if reason == self._criticism:
            return self._say("withdrawn")
        reason = self._text(reason) if reason in TEXTS else reason
        return self._say("withdrawn_for", reason=reason)

    def _text(self, name: str) -> str:
        return text(name, self._language)

    def _say(self, name: str, **values: object) -> str:
        line = " ".join(self._text(name).format(**values).split())
        return inert(line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…")
