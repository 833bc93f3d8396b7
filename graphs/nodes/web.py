"""Web search (CRAG 4.5): rewrite the query, search the web, select the strips of its pages."""

import re
from collections.abc import Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed, SearchFailed
from graphs.generation.prompts import LIST_MARK, rewriting_messages
from graphs.generation.replies import reply_to
from graphs.grading.actions import searches_again
from graphs.grading.relevance import relevance_of, told_as_graded
from graphs.grading.strips import evaluator_text, paragraphs_of, select, with_relevance
from graphs.nodes.prepare import plan_of
from graphs.ports import Services
from graphs.state import Context, State, effective_question, options_of
from graphs.text.model_output import without_fence
from graphs.text.questions import keeps_identifiers
from graphs.text.sentences import without_invisible
from graphs.types import Degraded, Strip, Usage

MAX_KEYWORDS = 3
MAX_KEYWORD_CHARS = 80
MAX_WORD_CHARS = 30
_LABEL = re.compile(
    r"^\s*(?:(?:search )?keywords?|(?:搜索|搜[寻尋])?[关關][键鍵][词詞字])\s*[:：]\s*",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"[,，;；]")
_QUOTES = " \t\"'`“”「」。."
_ORDINARY = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d{1,4}[年月日]?")
_ADDRESS_OR_OPERATOR = re.compile(r"\w+:/|www\.|[a-z]+:\w|(?-i:AND|OR|NOT)\Z", re.IGNORECASE)


async def rewrite_query(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """The search query; the question itself stays what it was.

    Without a language model, or where it fails, the keyword extractor's serve. A search that began
    beside grading needs none.
    """
    context = options_of(runtime)
    if not context.ablation.rewriting or state.get("speculative_search"):
        return {"rewritten_query": None}
    return await keywords_for(state, context, services)


async def keywords_for(state: State, context: Context, services: Services) -> State:
    """At most three keywords for the search engine, and what they cost."""
    question = effective_question(state)
    affordable = services.within_budget(state.get("usage", Usage()), context)
    history = state.get("history", [])
    reply = await reply_to(rewriting_messages(question, history), affordable)
    inputs = "\n".join([question, *(turn["content"] for turn in history if turn["role"] == "user")])
    query = as_keywords(reply.text, inputs) if reply.text else ""
    if not query or not keeps_identifiers(query, question, all_of_them=False):
        query = ", ".join(await services.keyword_extractor.keywords(question, MAX_KEYWORDS))
    return {
        "usage": reply.usage,
        "degraded": list(reply.degraded),
        "rewritten_query": query or None,
    }


def as_keywords(reply: str, inputs: str) -> str:
    """At most three comma-separated keywords from a model's reply; empty where it holds none.

    Their words are ordinary ones, or stand in the user's `inputs`: what the model has read may
    have asked it to send more, or elsewhere.
    """
    lines = without_fence(reply).replace("**", "").splitlines()
    # A line that ends in a colon says what follows, and is no keyword itself.
    lines = [line for line in lines[:-1] if not line.rstrip().endswith((":", "："))] + lines[-1:]
    items = [item for line in lines for item in _SEPARATOR.split(_LABEL.sub("", line))]
    # The mark goes before the cut at 、, which is part of it in Chinese: 1、法国.
    parts = [part.strip(_QUOTES) for item in items for part in LIST_MARK.sub("", item).split("、")]
    known = inputs.casefold()
    keywords = [_plain_words(part, known) for part in parts if len(part) <= MAX_KEYWORD_CHARS]
    return ", ".join([keyword for keyword in keywords if keyword][:MAX_KEYWORDS])


def _plain_words(keyword: str, known: str) -> str:
    """Without addresses, operators of search engines, and words from nowhere."""
    words = (word.lstrip("-+(").strip("\"'“”‘’()?!") for word in without_invisible(keyword).split())
    return " ".join(
        word
        for word in words
        if not _ADDRESS_OR_OPERATOR.match(word)
        and (
            (_ORDINARY.fullmatch(word) and len(word) <= MAX_WORD_CHARS) or word.casefold() in known
        )
    ).strip()


MAX_QUERY_CHARS = 300
"""A search engine reads no more of a query than this."""


async def search_web(state: State, runtime: Runtime[Context], *, services: Services) -> State:
    """Result pages in paragraphs; none, and `degraded`, where the search fails.

    Where a search began beside grading its pages are these. If it found none, keywords are searched
    after it, as far as the run may.
    """
    context, ticket = options_of(runtime), state.get("speculative_search")
    if not ticket:
        return await _searched(state, context, services)
    update, failed = await _collected(ticket, services)
    spent = state.get("usage", Usage()) + update["usage"]
    if update["web_pages"] or not searches_again(spent, context):
        return {**update, "degraded": [*update["degraded"], *failed]}
    query = State(rewritten_query=None)
    if context.ablation.rewriting:
        query = await keywords_for(state, context, services)
    again = await _searched(State(**{**state, **query}), context, services)
    return {
        **again,
        "rewritten_query": query["rewritten_query"],
        "degraded": [*update["degraded"], *query.get("degraded", []), *again["degraded"]],
        "usage": update["usage"] + query.get("usage", Usage()) + again["usage"],
    }


async def _searched(state: State, context: Context, services: Services) -> State:
    if services.web_search is None:
        return {"web_pages": [], "degraded": [], "usage": Usage()}
    usage = Usage(web_searches=1)
    try:
        pages, degraded = await services.web_search.search(web_query(state), context.web_pages)
    except SearchFailed as error:
        return {"web_pages": [], "degraded": [error.degraded], "usage": usage}
    return {"web_pages": list(pages), "degraded": list(degraded), "usage": usage}


async def _collected(ticket: str, services: Services) -> tuple[State, list[Degraded]]:
    """What the search found that began beside grading, and how it failed, if it did.

    A run that goes on in another process has lost its search: none was made, none is counted.
    """
    nothing: State = {"web_pages": [], "degraded": [], "usage": Usage()}
    ahead = services.search_ahead
    try:
        results = await ahead.take(ticket) if ahead is not None else None
    except SearchFailed as error:
        return {**nothing, "usage": Usage(web_searches=1)}, [error.degraded]
    if results is None:
        return nothing, []
    pages, degraded = results
    usage = Usage(web_searches=1)
    return {"web_pages": list(pages), "degraded": list(degraded), "usage": usage}, []


def web_query(state: State) -> str:
    """The keywords with their commas, which each engine reads in its way; else the question."""
    query = state.get("rewritten_query") or effective_question(state)
    return " ".join(query.split())[:MAX_QUERY_CHARS]


MAX_PARAGRAPHS = 200
"""Five long pages hold thousands of paragraphs; the answer is in the first of each."""


async def select_web_strips(
    state: State, runtime: Runtime[Context], *, services: Services
) -> State:
    """The graded web paragraphs, the relevant ones kept.

    They are graded against the original question. Web text that cannot be graded is not used.
    """
    context = options_of(runtime)
    plan = plan_of(state, context, services)
    services = services.judging(plan)
    strips = openings(paragraphs_of(state.get("web_pages", [])))
    if not context.ablation.selection:
        return {"web_strips": [replace(strip, kept=True) for strip in strips]}
    questions = [effective_question(state), *plan.subquestions]
    texts = [evaluator_text(strip, context.ablation.grade_titles) for strip in strips]
    on_graded = told_as_graded(runtime, "select_web_strips", strips, plan.thresholds.strip_floor)
    try:
        graded = await relevance_of(questions, texts, services.evaluator, on_graded)
    except EvaluatorFailed as error:
        return {"web_strips": strips, "degraded": [error.degraded], "usage": error.usage}
    selected = select(
        with_relevance(strips, graded), plan.thresholds.strip_floor, context.top_strips
    )
    update: State = {"web_strips": selected, "usage": graded.usage}
    if unscored := len(strips) - len(selected):
        reason = f"{unscored} web paragraphs could not be graded."
        update["degraded"] = [Degraded("evaluator", reason)]
    return update


def openings(strips: Sequence[Strip]) -> list[Strip]:
    """At most 200 paragraphs in document order, an equal share of every page's first."""
    first = sorted(strips, key=lambda strip: strip.position[::-1])[:MAX_PARAGRAPHS]
    return sorted(first, key=lambda strip: strip.position)
