"""Recorded search results: the same every time, without a network.

The file is a JSON object, UTF-8, from queries to lists of results:

    {
      "light, chlorophyll": [
        {"url": "https://…", "title": "…", "text": "…", "score": 0.9}
      ],
      "*": []
    }

Case and white space of a query do not matter; "*" answers every query that is not recorded.
`title`, `text` and `score` may be left out.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from app.websearch.engine import SearchResult, score_of
from graphs.errors import SearchFailed

ANY_QUERY = "*"


class RecordedResult(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    title: str = ""
    text: str = ""
    score: float | None = None


class Recording(RootModel[dict[str, list[RecordedResult]]]):
    pass


class FixtureSearch:
    """Reads the file at once, so that a wrong one shows at start. Raises SearchFailed then."""

    def __init__(self, path: Path) -> None:
        try:
            recording = Recording.model_validate_json(path.read_bytes())
        except OSError as error:
            raise SearchFailed(
                f"The recorded searches {path} could not be read: {error.strerror}."
            ) from None
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"])
            raise SearchFailed(
                f"The recorded searches {path} are not in the expected format"
                f" ({where or 'top level'}: {error.errors()[0]['msg']})."
            ) from None
        self._recorded = {_key(query): results for query, results in recording.root.items()}

    async def search(self, query: str, max_results: int) -> list[SearchResult]:
        recorded = self._recorded.get(_key(query), self._recorded.get(ANY_QUERY, []))
        return [
            SearchResult(hit.url, hit.title, hit.text, score_of(hit.score, rank))
            for rank, hit in enumerate(recorded[:max_results])
        ]

    async def aclose(self) -> None:
        """There is nothing to release."""


def _key(query: str) -> str:
    return " ".join(query.casefold().split())
