"""A run's steps as short lines for people, in the language of the question."""

from collections.abc import Iterator
from typing import Any

from app.runs.run import ANOTHER_WAS_BETTER
from app.schemas.ask import Event, RetractEvent, StepEvent
from graphs.generation.answer import WERE_THOUGHTS
from graphs.text.language import language_of
from graphs.types import Language

LONGEST = 300

# Begun steps that take a while; the others are told by what they found.
BEGUN: dict[Language, dict[str, str]] = {
    "en": {
        "retrieve": "Searching the knowledge base …",
        "search_web": "Searching the web …",
        "generate": "Writing the answer …",
        "draft": "Drafting the answer …",
        "revise": "Revising the answer …",
    },
    "zh": {
        "retrieve": "正在检索知识库……",
        "search_web": "正在搜索网络……",
        "generate": "正在撰写答案……",
        "draft": "正在起草答案……",
        "revise": "正在修订答案……",
    },
}
FOUND: dict[Language, dict[str, str]] = {
    "en": {
        "needed": "Retrieval is needed (p {p:.2f}).",
        "not_needed": "Retrieval is not needed (p {p:.2f}).",
        "understood": "Understood as: {question}",
        "queries": "Queries: {queries}",
        "graded": "Passages graded: {count} (best {best:.2f}).",
        "decided": "Passages graded: {count}, {action} (best {best:.2f}, upper {upper:.2f}, "
        "lower {lower:.2f}).",
        "query": "Search query: {query}",
        "pages": "Web pages found: {count}.",
        "strips": "Knowledge strips kept: {kept} of {count}.",
        "chosen": "Chose draft {n} of {count}.",
        "accepted": "Critique round {round}: accepted ({judged}).",
        "rejected": "Critique round {round}: rejected ({judged}).",
        "criticism": "Criticism: {criticism}",
        "withdrawn": "The draft is withdrawn.",
        "withdrawn_for": "The draft is withdrawn: {reason}",
        "degraded": "Degraded: {component}: {reason}",
        "support": "support {value:.2f}",
        "utility": "utility {value:.2f}",
        "score": "score {value:.2f}",
        "comma": ", ",
        "semicolon": "; ",
        "correct": "correct",
        "incorrect": "incorrect",
        "ambiguous": "ambiguous",
    },
    "zh": {
        "needed": "需要检索（p {p:.2f}）。",
        "not_needed": "不需要检索（p {p:.2f}）。",
        "understood": "理解为：{question}",
        "queries": "检索语句：{queries}",
        "graded": "已给 {count} 个段落评分（最高 {best:.2f}）。",
        "decided": "已给 {count} 个段落评分：{action}（最高 {best:.2f}，上阈值 {upper:.2f}，"
        "下阈值 {lower:.2f}）。",
        "query": "搜索词：{query}",
        "pages": "找到 {count} 个网页。",
        "strips": "{count} 个知识条中保留了 {kept} 个。",
        "chosen": "从 {count} 份草稿中选择了第 {n} 份。",
        "accepted": "第 {round} 轮评判：接受（{judged}）。",
        "rejected": "第 {round} 轮评判：拒绝（{judged}）。",
        "criticism": "批评：{criticism}",
        "withdrawn": "草稿已撤回。",
        "withdrawn_for": "草稿已撤回：{reason}",
        "degraded": "功能降级：{component}：{reason}",
        "support": "支持度 {value:.2f}",
        "utility": "有用度 {value:.2f}",
        "score": "得分 {value:.2f}",
        "comma": "，",
        "semicolon": "；",
        "correct": "正确",
        "incorrect": "错误",
        "ambiguous": "模糊",
    },
}
# Why a draft is withdrawn, where no criticism says so.
REASONS: dict[Language, dict[str, str]] = {
    "en": {},
    "zh": {
        ANOTHER_WAS_BETTER: "另一份草稿更好",
        WERE_THOUGHTS: "那是模型的思考过程",
        "deadline": "到了截止时间",
        "cancelled": "运行被取消",
    },
}
# Steps whose details repeat what other steps have told.
REPEATING = {"judge", "prune", "revise", "reflect"}


class Narrator:
    """Keeps in mind what was said, so that parallel drafts are announced once."""

    def __init__(self, question: str) -> None:
        language = language_of(question)
        self._begun, self._words = BEGUN[language], FOUND[language]
        self._reasons = REASONS[language]
        self._drafting = False
        self._criticism = ""

    def lines(self, event: Event) -> list[str]:
        """What there is to say of an event, without line breaks; often nothing."""
        match event:
            case StepEvent(phase="start"):
                return self._start(event.step)
            case StepEvent(phase="end"):
                return [*self._end(event.step, event.detail), *self._degraded(event.detail)]
            case RetractEvent():
                return [self._withdrawn(event.reason)]
        return []

    def _start(self, step: str) -> list[str]:
        told = [] if step == "draft" and self._drafting else [self._begun.get(step, "")]
        self._drafting = step == "draft" or self._drafting
        return [line for line in told if line]

    def _end(self, step: str, detail: dict[str, Any]) -> Iterator[str]:
        if step in REPEATING:
            return
        yield from self._asked(detail)
        if "action" in detail:
            yield from self._graded(detail)
        if step in ("search_web", "collect") and "web_results" in detail:
            yield self._say("pages", count=len(detail["web_results"]))
        if step in ("refine", "select") and (strips := detail.get("strips")):
            kept = sum(strip["kept"] for strip in strips)
            yield self._say("strips", kept=kept, count=len(strips))
        if step == "choose":
            yield from self._chosen(detail.get("candidates", []))
        if entry := detail.get("critique"):
            yield from self._judged(step, entry)

    def _asked(self, detail: dict[str, Any]) -> Iterator[str]:
        if found := detail.get("retrieval"):
            yield self._say("needed" if found["decision"] else "not_needed", p=found["probability"])
        if question := detail.get("standalone_question"):
            yield self._say("understood", question=question)
        if len(queries := detail.get("queries") or ()) > 1:
            yield self._say("queries", queries=self._words["semicolon"].join(queries))
        if query := detail.get("rewritten_query"):
            yield self._say("query", query=query)

    def _graded(self, detail: dict[str, Any]) -> Iterator[str]:
        if documents := detail.get("documents"):
            figures = {"count": len(documents), "best": max(d["score"] for d in documents)}
            if action := detail["action"]:
                bounds = detail["thresholds"]
                figures |= {"upper": bounds["upper"], "lower": bounds["lower"]}
                yield self._say("decided", action=self._words[action], **figures)
            else:
                yield self._say("graded", **figures)

    def _chosen(self, candidates: list[dict[str, Any]]) -> Iterator[str]:
        for candidate in candidates:
            if candidate["chosen"] and len(candidates) > 1:
                yield self._say("chosen", n=candidate["n"], count=len(candidates))

    def _judged(self, step: str, entry: dict[str, Any]) -> Iterator[str]:
        if step == "critique":
            judged = self._words["comma"].join(
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
        return self._say("withdrawn_for", reason=self._reasons.get(reason, reason))

    def _degraded(self, detail: dict[str, Any]) -> Iterator[str]:
        for entry in detail.get("degraded", ()):
            yield self._say("degraded", **entry)

    def _say(self, what: str, **values: Any) -> str:
        line = " ".join(self._words[what].format(**values).split())
        return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
