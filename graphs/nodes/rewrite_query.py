"""Rewrite the question into keywords for the web search (CRAG 4.5, appendix A)."""

import re

from langgraph.runtime import Runtime

from graphs.errors import GeneratorFailed
from graphs.generation.prompts import rewriting_messages, text_of, usage_of
from graphs.generation.query_expansion import LIST_MARK
from graphs.ports import Services
from graphs.reflection.budget import within_budget
from graphs.state import Context, State, effective_question, options_of
from graphs.text.model_output import without_fence
from graphs.types import Usage

MAX_KEYWORDS = 3
MAX_KEYWORD_CHARS = 80
_LABEL = re.compile(
    r"^\s*(?:(?:search )?keywords?|(?:搜索|搜[寻尋])?[关關][键鍵][词詞字])\s*[:：]\s*",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[,，;；]")
_QUOTES = " \t\"'`“”「」。."


async def rewrite_query(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The search query; the question itself stays what it was.

    Without a language model, or where it fails, the keyword extractor's serve. A search that began
    beside grading needs none.
    """
    context = options_of(runtime)
    if not context.ablation.rewriting or state.get("speculative_search"):
        return {"rewritten_query": None}
    return await rewritten(state, context, services)


async def rewritten(state: State, context: Context, services: Services) -> State:
    """At most three keywords for the search engine, and what they cost."""
    question = effective_question(state)
    update, query = State(), ""
    chat = within_budget(state.get("usage", Usage()), context, services).chat
    if chat is not None:
        try:
            reply = await chat.ainvoke(rewriting_messages(question, state.get("history", [])))
        except GeneratorFailed as error:
            update["usage"] = Usage(llm_calls=1)
            update["degraded"] = [error.degraded]
        else:
            update["usage"] = usage_of(reply)
            query = as_keywords(text_of(reply))
    if not query:
        query = ", ".join(await services.keyword_extractor.keywords(question, MAX_KEYWORDS))
    return {**update, "rewritten_query": query or None}


def as_keywords(reply: str) -> str:
    """At most three comma-separated keywords from a model's reply; empty where it holds none."""
    lines = without_fence(reply).replace("**", "").splitlines()
    # A line that ends in a colon says what follows, and is no keyword itself.
    kept = [line for line in lines[:-1] if not line.rstrip().endswith((":", "："))] + lines[-1:]
    items = [item for line in kept for item in _SEPARATOR.split(_LABEL.sub("", line))]
    # The mark goes before the cut at 、, which is part of it in Chinese: 1、法国.
    parts = [part.strip(_QUOTES) for item in items for part in LIST_MARK.sub("", item).split("、")]
    keywords = [part for part in parts if 0 < len(part) <= MAX_KEYWORD_CHARS]
    return ", ".join(keywords[:MAX_KEYWORDS])
