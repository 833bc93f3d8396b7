"""LlamaIndex: the service as a retriever of corrected knowledge, for a query engine.

One file that imports nothing but httpx and llama-index-core, which its user installs, and nothing
of the service.
"""

from collections.abc import Mapping
from typing import Any

import httpx
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

TIMEOUT = httpx.Timeout(620, connect=10)
"""A run may last its deadline, which is 600 s at most."""
UNSEEN = ["score", "strip_id", "document_id", "run_id", "action", "degraded", "origin"]
"""Metadata that a language model is not told; title and source it is."""


class SelfCragNodeRetriever(BaseRetriever):  # type: ignore[misc]
    """Corrected knowledge: the strips that were kept of documents and of the web, best first.

    `options` are those of `POST /ask`. The metadata of a node are its `origin`, `title`, `source`,
    `strip_id` and `document_id`, and the `action`, `degraded` and `run_id` of the search. Raises
    httpx.HTTPStatusError with the service's own words.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._url, self._collection, self._options = url, collection, dict(options or {})
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        with httpx.Client(timeout=TIMEOUT, headers=self._headers) as client:
            response = client.post(f"{self._url}/search", json=self._payload(query_bundle))
        return nodes_of(_body(response))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        async with httpx.AsyncClient(timeout=TIMEOUT, headers=self._headers) as client:
            response = await client.post(f"{self._url}/search", json=self._payload(query_bundle))
        return nodes_of(_body(response))

    def _payload(self, query: QueryBundle) -> dict[str, Any]:
        return {
            "question": query.query_str,
            "collection": self._collection,
            "options": self._options,
        }


def nodes_of(result: Mapping[str, Any]) -> list[NodeWithScore]:
    """The passages of a search."""
    about = {name: result[name] for name in ("run_id", "action", "degraded")}
    return [
        NodeWithScore(
            node=TextNode(
                id_=passage["strip_id"],
                text=passage["text"],
                metadata={**{k: v for k, v in passage.items() if k != "text"}, **about},
                excluded_llm_metadata_keys=UNSEEN,
                excluded_embed_metadata_keys=UNSEEN,
            ),
            score=passage["score"],
        )
        for passage in result["passages"]
    ]


def _body(response: httpx.Response) -> dict[str, Any]:
    """Raises httpx.HTTPStatusError."""
    payload = response.json() if "json" in response.headers.get("content-type", "") else {}
    if response.is_error:
        raise httpx.HTTPStatusError(
            f"self-crag at {response.url.host}: {payload.get('detail', response.reason_phrase)}",
            request=response.request,
            response=response,
        )
    return dict(payload)
