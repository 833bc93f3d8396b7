"""How the knowledge base is searched: what a run may choose (arXiv 2407.01219, retrieval)."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from graphs.types import Language

SearchMode = Literal["hybrid", "bm25", "dense"]
Fusion = Literal["weighted", "rrf"]

Text = Annotated[str, Field(min_length=1, max_length=500)]


class Filters(BaseModel):
    """Which chunks may be found; what is left empty restricts nothing, all that is given holds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    language: Language | None = Field(None, description="Chunks in this language only.")
    sources: list[Text] = Field(
        [], max_length=50, description="Sources that start with, or match as a glob, one of these."
    )
    document_ids: list[Text] = Field([], max_length=200, description="These documents only.")
    keywords: list[Text] = Field(
        [], max_length=20, description="Chunks with at least one of these among their keywords."
    )


@dataclass(frozen=True, slots=True)
class Search:
    """One search: `alpha` weighs BM25 against a dense weight of 1, None is the embedder's own.

    `depth` is how many candidates each of the two searches brings at least.
    """

    mode: SearchMode = "hybrid"
    alpha: float | None = None
    fusion: Fusion = "weighted"
    filters: Filters = field(default_factory=Filters)
    depth: int = 50
