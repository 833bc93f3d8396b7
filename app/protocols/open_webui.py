"""Open WebUI: its chat as the thread, its event lines, and its small tasks beside the chat.

Open WebUI keeps the text of content deltas itself and shows it again with every one, so a draft
told in this way could not be taken back: drafts go out as `message` events, and the answer alone
as content.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.protocols.openai import Chunks, data
from app.schemas.ask import (
    LONGEST_QUESTION,
    AskResponse,
    Citation,
    Event,
    RetractEvent,
    ThreadId,
    TokenEvent,
)
from graphs.ports import KeywordExtractor
from graphs.text.citations import renumbered
from graphs.text.language import language_of, script_of
from graphs.text.sentences import sentences

HEADER = "x-openwebui-"
MOST_TAGS = 3
TITLE_WORDS, TITLE_IDEOGRAPHS = 8, 16
GENERAL = {"en": "General", "zh": "综合"}
NEW_CHAT = {"en": "New chat", "zh": "新对话"}
DONE = {"en": "Answered.", "zh": "已回答。"}
_THREAD: TypeAdapter[str] = TypeAdapter(ThreadId)
# What a task asks for: by the key of the JSON it wants, or by the header's name for it.
_TASK = re.compile(r"\A\s*#{2,3} Task:")
_WANTED = re.compile(r"\{\s*\"(title|tags|follow_ups|queries|text|prompt|emoji)\"\s*:")
_BEGINS, _ENDS = "<chat_history>", "</chat_history>"
_ROLE = re.compile(r"^(ASSISTANT|USER|SYSTEM): ", re.MULTILINE)
BY_HEADER = {
    "title_generation": "title",
    "tags_generation": "tags",
    "follow_up_generation": "follow_ups",
    "query_generation": "queries",
    "autocomplete_generation": "text",
    "image_prompt_generation": "prompt",
    "emoji_generation": "emoji",
    "function_calling": "tool_calls",
}


def speaks(headers: Mapping[str, str]) -> bool:
    """Whether the request is Open WebUI's; its header names come in lower case."""
    return any(name.startswith(HEADER) for name in headers)


def thread_of(headers: Mapping[str, str]) -> str | None:
    """The chat's id; None where there is none, or a placeholder that nobody filled."""
    try:
        return _THREAD.validate_python(headers.get(f"{HEADER}chat-id"))
    except ValidationError:
        return None


def task_of(headers: Mapping[str, str], prompt: str) -> str | None:
    """What is to be made beside the chat, `title` or `tags` for example; None for a question."""
    if named := BY_HEADER.get(headers.get(f"{HEADER}task", "")):
        return named
    if _TASK.match(prompt) and _dialogue(prompt) is not None:
        wanted = _WANTED.findall(prompt)
        return wanted[-1] if wanted else None
    return None


async def done_task(task: str, prompt: str, keywords: KeywordExtractor) -> str:
    """The task's answer, from the words of the dialogue alone; no run, no model."""
    asked = _asked(prompt)
    latest, language = (asked or [""])[-1], language_of((asked or [""])[-1])
    match task:
        case "title":
            made: object = _title(asked[0]) if asked else NEW_CHAT[language]
        case "tags":
            found = list(await keywords.keywords(latest, MOST_TAGS)) if latest else []
            made = found or [GENERAL[language]]
        case "queries":
            made = [latest] if latest else []
        case "follow_ups" | "tool_calls":
            made = []
        case "emoji":
            return "💬"
        case _:
            made = ""
    return json.dumps({task: made}, ensure_ascii=False)


def _dialogue(prompt: str) -> str | None:
    """What stands between the marks; None where there are none."""
    _, begun, rest = prompt.partition(_BEGINS)
    dialogue, ended, _ = rest.partition(_ENDS)
    return dialogue.strip() if begun and ended else None


def _asked(prompt: str) -> list[str]:
    """What the user said, one line each, oldest first; of a long dialogue its two ends are read."""
    dialogue = _dialogue(prompt) or ""
    if len(dialogue) > 2 * LONGEST_QUESTION:
        # Between them a turn of the other side: what is left of the one cut is nobody's question.
        dialogue = f"{dialogue[:LONGEST_QUESTION]}\nASSISTANT: {dialogue[-LONGEST_QUESTION:]}"
    _, *told = _ROLE.split(dialogue)
    said = [text for role, text in zip(told[::2], told[1::2], strict=True) if role == "USER"]
    lines = (" ".join(text[:LONGEST_QUESTION].split()) for text in said)
    return [line for line in lines if line]


def _title(question: str) -> str:
    first = (sentences(question) or [question])[0].rstrip("。！？；.!?… ")
    if language_of(first) == "zh":
        return first[:TITLE_IDEOGRAPHS]
    return " ".join(first.split()[:TITLE_WORDS])


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
        places = {source: n for n, source in enumerate(_by_source(response), start=1)}
        numbers = {cited.n: places[cited.source] for cited in response.citations}
        for citations in _by_source(response).values():
            yield _event("source", _source(citations))
        yield _event("status", {"description": DONE[script_of(response.answer)], "done": True})
        yield self.chunk({"content": renumbered(response.answer, numbers)})
        yield from self.end(response)


def _by_source(response: AskResponse) -> dict[str, list[Citation]]:
    grouped: dict[str, list[Citation]] = {}
    for cited in response.citations:
        grouped.setdefault(cited.source, []).append(cited)
    return grouped


def _source(citations: list[Citation]) -> dict[str, Any]:
    """One source with all passages cited of it; a file is named by its path, which is unique."""
    first = citations[0]
    page = {"url": first.source} if first.origin == "web" else {}
    name = first.title if first.origin == "web" else first.source
    return {
        "source": {"id": first.source, "name": name, **page},
        "document": [cited.text for cited in citations],
        "metadata": [{"source": cited.source, "title": cited.title} for cited in citations],
    }


def _event(kind: str, value: dict[str, Any]) -> str:
    return data({"event": {"type": kind, "data": value}})
