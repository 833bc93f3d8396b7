"""Filters: who may see what, as conditions of the two index languages; values are quoted."""

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from graphs.options import Filters
from graphs.types import Language

SHARED = ""
LAST_CHARACTER = "\U0010ffff"

visible_to: ContextVar[str] = ContextVar("visible_to", default=SHARED)
"""The owner whose documents are seen beside the shared ones; tasks begun here inherit it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language of conditions: `values` and `has_any` take the place of a list of literals."""

    quote: Callable[[str], str]
    values: str
    has_any: str

    def among(self, column: str, values: Sequence[str]) -> str:
        return f"{column} in {self.values.format(self._listed(values))}"

    def condition(self, filters: Filters, language: Language | None = None) -> str:
        """What may be seen, what the run filters, and this language."""
        parts = [self.among("owner", list(dict.fromkeys((SHARED, visible_to.get()))))]
        # Both are asked where both are given, and then may have nothing in common.
        languages = {language, filters.language} - {None}
        parts += [self.among("language", [str(given)]) for given in languages]
        if filters.document_ids:
            parts.append(self.among("document_id", filters.document_ids))
        if filters.sources:
            parts.append(f"({' or '.join(map(self._source, filters.sources))})")
        if filters.keywords:
            parts.append(self.has_any.format(self._listed(filters.keywords)))
        return " and ".join(parts)

    def _listed(self, values: Sequence[str]) -> str:
        return ", ".join(map(self.quote, values))

    def _source(self, source: str) -> str:
        """Sources that start with it, as a range, or match it as a glob."""
        start, end = self.quote(source), self.quote(source + LAST_CHARACTER)
        condition = f"source >= {start} and source < {end}"
        if {"*", "?"} & set(source):
            condition = f"({condition}) or source like {self.quote(_like(source))}"
        return f"({condition})"


def _like(glob: str) -> str:
    """`*` and `?` as LIKE says them; what LIKE would read as more than itself is escaped."""
    for sign in "\\%_":
        glob = glob.replace(sign, f"\\{sign}")
    return glob.replace("*", "%").replace("?", "_")


LANCE = Dialect(
    lambda value: "'" + value.replace("'", "''") + "'", "({})", "array_has_any(keywords, [{}])"
)
"""DataFusion's SQL."""
MILVUS = Dialect(
    lambda value: json.dumps(value, ensure_ascii=False),
    "[{}]",
    "array_contains_any(keywords, [{}])",
)
