"""What a language model replies, made fit to be used: whole characters, no thoughts, no tags.

Reasoning models think before they answer, and some servers leave that in the reply. Small models
repeat the tags of the prompt. Half of a surrogate pair is legal JSON, but it is no text.
"""

import re
from collections.abc import AsyncIterator

from graphs.text.prompt_injection import OUR_TAGS

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]")
_FENCE = re.compile(r"```\w*+[ \t\r]*+\n|```")
_PROMPT_TAG = re.compile(rf"</?(?:{OUR_TAGS})-[0-9a-f]{{16}}>", re.IGNORECASE)
MAX_TAG_CHARS = 30
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


def without_reasoning(text: str) -> str:
    """What the model says; nothing where it never came to an end with thinking.

    Some chat templates open the thoughts in the prompt, so that the reply only closes them.
    """
    output = text.rpartition(THINK_CLOSE)[2].strip()
    return "" if output.startswith(THINK_OPEN) else output


async def without_opening_reasoning(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The streamed text without thoughts that open it, and without blanks before it."""
    held, thinks, speaks = "", False, False
    async for chunk in chunks:
        if speaks:
            yield chunk
            continue
        held = (held + chunk).lstrip()
        if not thinks and THINK_OPEN.startswith(held[: len(THINK_OPEN)]):
            thinks = len(held) >= len(THINK_OPEN)
        elif not thinks:
            speaks = True
        if thinks:
            _, closed, rest = held.partition(THINK_CLOSE)
            held = rest.lstrip() if closed else held[-len(THINK_CLOSE) :]
            thinks, speaks = not closed, bool(closed and held)
        if speaks:
            yield held
    if held and not thinks and not speaks:
        yield held


def without_prompt_tags(text: str) -> str:
    """Without those that carry a nonce; others belong to what is said, such as XML."""
    return _PROMPT_TAG.sub("", text)


async def prompt_tags_removed(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The streamed text without them; what may become one is held."""
    held = ""
    async for chunk in chunks:
        text = without_prompt_tags(held + chunk)
        cut = text.rfind("<", max(0, len(text) - MAX_TAG_CHARS))
        cut = len(text) if cut < 0 or ">" in text[cut:] else cut
        held = text[cut:]
        if cut:
            yield text[:cut]
    if held:
        yield held


def without_fence(reply: str) -> str:
    """The reply without the marks of a code block, which some models put around what they say."""
    return _FENCE.sub("\n", reply).strip()


def whole_characters(text: str) -> str:
    """The text with its pairs joined; U+FFFD stands for a half, which nothing could store."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def printable(text: str) -> str:
    """The text made whole, with blanks for control characters, which a terminal would obey."""
    return _CONTROL.sub(" ", whole_characters(text))


async def joined_characters(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The streamed text made whole; a pair may be split between two chunks."""
    held = ""
    async for chunk in chunks:
        text = held + chunk
        held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if text := text.removesuffix(held):
            yield whole_characters(text)
    if held:
        yield whole_characters(held)
