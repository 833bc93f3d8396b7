"""Open WebUI: its chat as the thread, and its event lines beside a completion's chunks.

Open WebUI keeps the text of content deltas itself and shows it again with every one, so a draft
told in this way could not be taken back: drafts go out as `message` events, and the answer alone
as content.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.extensions.openai.chat import Chunks, NotOffered, shown_images
from app.protocols.answers import address_of, data, is_web_address
from app.protocols.progress_text import text
from app.schemas.ask import AskResponse, Event, RetractEvent, ThreadId, TokenEvent
from graphs.text.citations import renumbered
from graphs.text.inert_markup import inert
from graphs.text.language import script_of
from graphs.types import Citation

HEADER = "x-openwebui-"
NO_TASKS = (
    "Titles, tags and follow-up questions are not written here: choose another task model in Open"
    " WebUI, or switch them off there."
)
THREAD: TypeAdapter[str] = TypeAdapter(ThreadId)


def speaks(headers: Mapping[str, str]) -> bool:
    """Whether the request is Open WebUI's; its header names come in lower case."""
    return any(name.startswith(HEADER) for name in headers)


def thread_of(headers: Mapping[str, str]) -> str | None:
    """The chat's id; None where there is none, or a placeholder that nobody filled."""
    try:
        return THREAD.validate_python(headers.get(f"{HEADER}chat-id"))
    except ValidationError:
        return None


def refuse_task(prompt: str, param: str) -> None:
    """Raises NotOffered where a title, tags or other text about the chat is to be written."""
    if prompt.lstrip().startswith("### Task:") and "<chat_history>" in prompt:
        raise NotOffered(400, NO_TASKS, param=param, code="unsupported_value")


class WebUIChunks(Chunks):
    """Steps as statuses, drafts live, sources in the order of the answer's markers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._drafts: dict[int, str] = {}

    def lines(self, event: Event) -> Iterator[str]:
        match event:
            case TokenEvent():
                self._drafts[event.round] = self._drafts.get(event.round, "") + event.text
                yield _event("message", {"content": event.text})
            case RetractEvent():
                self._drafts.pop(event.round, None)
                yield _event("replace", {"content": "".join(self._drafts.values())})
                yield from super().lines(event)
            case _:
                yield from super().lines(event)

    def step(self, line: str) -> str:
        return _event("status", {"description": line, "done": False})

    def answer(self, response: AskResponse) -> Iterator[str]:
        """Open WebUI reads `[n]` as its n-th source, so the markers count sources here."""
        grouped: dict[str, list[Citation]] = {}
        for cited in response.citations:
            grouped.setdefault(cited.source, []).append(cited)
        places = {source: n for n, source in enumerate(grouped, start=1)}
        numbers = {cited.n: places[cited.source] for cited in response.citations}
        for citations in grouped.values():
            yield _event("source", _source(citations, self._addresses.page))
        verdict = text(response.verdict, script_of(response.answer))
        yield _event("status", {"description": verdict, "done": True})
        shown = shown_images(response, self._addresses)
        yield self.chunk({"content": renumbered(response.answer, numbers) + shown})
        yield from self.end(response)


def _source(citations: list[Citation], base_url: str) -> dict[str, Any]:
    """One source with all passages cited of it; a file is named by its path, which is unique."""
    first = citations[0]
    address = address_of(first, base_url)
    page = {"url": address} if is_web_address(address) else {}
    name = first.title if first.origin == "web" else first.source
    return {
        "source": {"id": first.source, "name": name, **page},
        # Its dialogue on a source shows passages as Markdown.
        "document": [inert(cited.text, [cited.source]) for cited in citations],
        "metadata": [{"source": cited.source, "title": cited.title} for cited in citations],
    }


def _event(kind: str, value: dict[str, Any]) -> str:
    return data({"event": {"type": kind, "data": value}})
