"""Rewrite the question into keywords for the web search (CRAG 4.5, appendix A)."""

import re

from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import rewriting_messages, text_of, usage_of
from graphs.generation.query_expansion import LIST_MARK, without_fence
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Answer, Context, State, asked, tunables
from graphs.types import Degraded, Usage

MOST_KEYWORDS = 3
LONGEST_KEYWORD = 80
_LABEL = re.compile(
    r"^\s*(?:(?:search )?keywords?|(?:搜索|搜[寻尋])?[关關][键鍵][词詞字])\s*[:：]\s*",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[,，;；]")
_QUOTES = " \t\"'`“”「」。."


def as_query(reply: str) -> str:
    """At most three comma-separated keywords from a model's reply; empty where it holds none."""
    lines = without_fence(reply).replace("**", "").splitlines()
    # A line that ends in a colon says what follows, and is no keyword itself.
    told = [line for line in lines[:-1] if not line.rstrip().endswith((":", "："))] + lines[-1:]
    items = [item for line in told for item in _SEPARATOR.split(_LABEL.sub("", line))]
    # The mark goes before the cut at 、, which is part of it in Chinese: 1、法国.
    parts = [part.strip(_QUOTES) for item in items for part in LIST_MARK.sub("", item).split("、")]
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
