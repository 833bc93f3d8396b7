"""What a language model replies, made fit to be used: whole characters, no thoughts.

Reasoning models think before they answer, and some servers leave that in the reply. Half of a
surrogate pair is legal JSON, but it is no text.
"""

import re
from collections.abc import AsyncIterator

_FENCE = re.compile(r"```\w*+[ \t\r]*+\n|```")
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


def without_fence(reply: str) -> str:
    """The reply without the marks of a code block, which some models put around what they say."""
    return _FENCE.sub("\n", reply).strip()


def whole_characters(text: str) -> str:
    """The text with its pairs joined; U+FFFD stands for a half, which nothing could store."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
