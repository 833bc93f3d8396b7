"""Rewrite the question into keywords for the web search (CRAG 4.5, appendix A)."""

import re

from langgraph.runtime import Runtime

from graphs.budget import within_budget
from graphs.dialogue import rewriting_messages, text_of, usage_of
from graphs.errors import GeneratorFailed
from graphs.ports import Services
from graphs.queries import without_fence
from graphs.state import Answer, Context, State, asked, tunables
from graphs.types import Degraded, Usage

MOST_KEYWORDS = 3
LONGEST_KEYWORD = 80
_SEPARATOR = re.compile(r"[,，、;；\n]+")
# What chat models put before the keywords: a label, a list mark.
_LABEL = re.compile(
    r"^\s*(?:(?:search )?keywords?|(?:搜索|搜[寻尋])?[关關][键鍵][词詞字])\s*[:：]"
    r"|^\s*(?:[-*•]|\d[.)])\s+",
    re.IGNORECASE,
)


def as_query(reply: str) -> str:
    """At most three comma-separated keywords from a model's reply; empty where it holds none."""
    plain = without_fence(reply).replace("**", "")
    parts = [_LABEL.sub("", part).strip(" \t\"'`“”「」。.") for part in _SEPARATOR.split(plain)]
    keywords = [part for part in parts if 0 < len(part) <= LONGEST_KEYWORD]
    return ", ".join(keywords[:MOST_KEYWORDS])


async def rewrite(state: State, runtime: Runtime[Context], *, services: Services) -> Answer:
    """The search query; the question itself stays what it was.

    Without a language model, or where it fails, named spans and rare terms serve.
    """
    question, changed = asked(state), Answer()
    if not tunables(runtime).rewriting:
        return {"rewritten_query": None}
    query = ""
    if (chat := within_budget(state, tunables(runtime), services).chat) is not None:
        try:
            reply = await chat.ainvoke(rewriting_messages(question, state.get("history", [])))
        except GeneratorFailed as error:
            changed["usage"] = Usage(llm_calls=1)
            changed["degraded"] = [Degraded(error.component, str(error))]
        else:
            changed["usage"] = usage_of(reply)
            query = as_query(text_of(reply))
    if not query:
        query = ", ".join(await services.keyword_extractor.keywords(question, MOST_KEYWORDS))
    return {**changed, "rewritten_query": query or None}
