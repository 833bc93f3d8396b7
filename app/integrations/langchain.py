"""LangChain: the service as a retriever of corrected knowledge and as a chat model that cites.

One file that imports nothing but httpx, pydantic and langchain-core, and nothing of the service.
"""

from collections.abc import Mapping
from typing import Any

import httpx
from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForLLMRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, SecretStr

TIMEOUT = httpx.Timeout(620, connect=10)
"""A run may last its deadline, which is 600 s at most."""
TOLD = (
    *("run_id", "thread_id", "workflow", "verdict", "confidence", "action", "stopped_by"),
    *("missing", "degraded", "models"),
)
"""What a message tells of its run."""


class SelfCragRetriever(BaseRetriever):
    """Corrected knowledge: the strips that were kept of documents and of the web, best first.

    `options` are those of `POST /ask`. The metadata of a document are its `score`, `origin`,
    `title`, `source`, `strip_id` and `document_id`, and the `action`, `degraded` and `run_id` of
    the search. Raises httpx.HTTPStatusError with the service's own words.
    """

    url: str = "http://127.0.0.1:8000"
    api_key: SecretStr | None = None
    collection: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        with httpx.Client(timeout=TIMEOUT, headers=_headers(self.api_key)) as client:
            return documents_of(_body(client.post(f"{self.url}/search", json=self._payload(query))))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        async with httpx.AsyncClient(timeout=TIMEOUT, headers=_headers(self.api_key)) as client:
            response = await client.post(f"{self.url}/search", json=self._payload(query))
        return documents_of(_body(response))

    def _payload(self, query: str) -> dict[str, Any]:
        return {"question": query, "collection": self.collection, "options": self.options}


class SelfCragChat(BaseChatModel):
    """A chat model whose answers cite their sources; the last message of the user is the question.

    The content of an answer is a text block whose `annotations` are its citations; `text` is the
    answer alone. `response_metadata` are the fields TOLD of the body of `POST /ask`.
    Raises httpx.HTTPStatusError with the service's own words.
    """

    url: str = "http://127.0.0.1:8000"
    api_key: SecretStr | None = None
    workflow: str = "self_crag"
    thread_id: str | None = None
    collection: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self) -> str:
        return "self-crag"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with httpx.Client(timeout=TIMEOUT, headers=_headers(self.api_key)) as client:
            return _result(_body(client.post(self._address(), json=self._payload(messages))))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        async with httpx.AsyncClient(timeout=TIMEOUT, headers=_headers(self.api_key)) as client:
            response = await client.post(self._address(), json=self._payload(messages))
        return _result(_body(response))

    def _address(self) -> str:
        thread = f"/threads/{self.thread_id}" if self.thread_id else ""
        return f"{self.url}{thread}/runs/wait"

    def _payload(self, messages: list[BaseMessage]) -> dict[str, Any]:
        chosen = {"collection": self.collection} if self.collection else {}
        return {
            "assistant_id": self.workflow,
            "input": {"messages": [message.model_dump(mode="json") for message in messages]},
            "config": {"configurable": chosen},
            "context": self.options,
            "if_not_exists": "create",
        }


def documents_of(result: Mapping[str, Any]) -> list[Document]:
    """The passages of a search."""
    about = {name: result[name] for name in ("run_id", "action", "degraded")}
    return [
        Document(
            passage["text"],
            id=passage["strip_id"],
            metadata={**{k: v for k, v in passage.items() if k != "text"}, **about},
        )
        for passage in result["passages"]
    ]


def ai_message(answer: Mapping[str, Any], id: str | None = None) -> AIMessage:
    """An answer as a message, one annotation for every sentence of every citation."""
    text = {"type": "text", "text": answer["answer"], "annotations": _annotations(answer)}
    about = {name: answer[name] for name in TOLD if name in answer}
    return AIMessage([text], id=id, response_metadata=about)


def _annotations(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    spans = [(span, cited) for cited in answer["citations"] for span in cited["spans"]]
    return [
        {
            "type": "citation",
            **({"url": cited["source"]} if _is_web(cited["source"]) else {}),
            "title": cited["title"],
            "start_index": start,
            "end_index": end,
            "cited_text": cited["text"],
            "extras": {key: cited[key] for key in ("n", "source", "origin", "strip_id", "score")},
        }
        for (start, end), cited in sorted(spans, key=lambda pair: pair[0][0])
    ]


def _is_web(source: str) -> bool:
    return source.startswith(("https://", "http://"))


def _result(values: Mapping[str, Any]) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=ai_message(values, values["run_id"]))])


def _headers(api_key: SecretStr | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}


def _body(response: httpx.Response) -> dict[str, Any]:
    """Raises httpx.HTTPStatusError."""
    payload = response.json() if "json" in response.headers.get("content-type", "") else {}
    failure = payload.get("__error__")
    if response.is_error or failure:
        detail = failure["message"] if failure else payload.get("detail", response.reason_phrase)
        raise httpx.HTTPStatusError(
            f"self-crag at {response.url.host}: {detail}",
            request=response.request,
            response=response,
        )
    return dict(payload)
