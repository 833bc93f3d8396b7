"""Filters: who may see what, as conditions of the two index languages; values are quoted."""

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from graphs.search import Filters
from graphs.types import Language

GLOB = frozenset("*?")
LAST_CHARACTER = "\U0010ffff"
Quote = Callable[[str], str]

SHARED = ""

visible_to: ContextVar[str] = ContextVar("visible_to", default=SHARED)
"""The owner whose documents are seen beside the shared ones; tasks begun here inherit it."""


def lance_condition(filters: Filters, language: Language | None = None) -> str:
    """A DataFusion condition: what may be seen, what the run filters, and this language."""
    parts = _among(filters, language, sql_literal, "({})")
    if filters.sources:
        found = [f"starts_with(source, {sql_literal(source)})" for source in filters.sources]
        found += [
            f"source LIKE {sql_literal(like(source))}"
            for source in filters.sources
            if GLOB & set(source)
        ]
        parts.append(f"({' OR '.join(found)})")
    if filters.keywords:
        parts.append(f"array_has_any(keywords, [{listed(filters.keywords, sql_literal)}])")
    return " AND ".join(parts)


def milvus_condition(filters: Filters, language: Language | None = None) -> str:
    """The same as a Milvus boolean expression."""
    parts = _among(filters, language, milvus_literal, "[{}]")
    if filters.sources:
        found = [_milvus_prefix(source) for source in filters.sources]
        found += [
            f"source like {milvus_literal(like(source))}"
            for source in filters.sources
            if GLOB & set(source)
        ]
        parts.append(f"({' or '.join(found)})")
    if filters.keywords:
        wanted = listed(filters.keywords, milvus_literal)
        parts.append(f"array_contains_any(keywords, [{wanted}])")
    return " and ".join(parts)


def listed(values: Sequence[str], quote: Quote) -> str:
    return ", ".join(quote(value) for value in values)


def sql_literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def milvus_literal(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def like(glob: str) -> str:
    """`*` and `?` as LIKE says them; what LIKE would read as more than itself is escaped."""
    return _escaped(glob).replace("*", "%").replace("?", "_")


def _milvus_prefix(prefix: str) -> str:
    """As a range: Milvus Lite knows no escapes in LIKE."""
    start, end = milvus_literal(prefix), milvus_literal(prefix + LAST_CHARACTER)
    return f"(source >= {start} and source < {end})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _among(filters: Filters, language: Language | None, quote: Quote, form: str) -> list[str]:
    chosen = [("owner", list(dict.fromkeys((SHARED, visible_to.get()))))]
    # Both are asked where both are given, and then may have nothing in common.
    chosen += [("language", [given]) for given in {language, filters.language} if given]
    if filters.document_ids:
        chosen.append(("document_id", filters.document_ids))
    return [f"{column} in {form.format(listed(values, quote))}" for column, values in chosen]
