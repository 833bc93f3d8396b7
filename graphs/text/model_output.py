"""What a reasoning model thinks before it answers, where its server leaves that in the reply."""

from collections.abc import AsyncIterator

OPENS, CLOSES = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """What the model says; nothing where it never came to an end with thinking.

    Some chat templates open the thoughts in the prompt, so that the reply only closes them.
    """
    said = text.rpartition(CLOSES)[2].strip()
    return "" if said.startswith(OPENS) else said


async def spoken(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The streamed text without thoughts that open it, and without blanks before it."""
    held, thinks, speaks = "", False, False
    async for chunk in chunks:
        if speaks:
            yield chunk
            continue
        held = (held + chunk).lstrip()
        if not thinks and OPENS.startswith(held[: len(OPENS)]):
            thinks = len(held) >= len(OPENS)
        elif not thinks:
            speaks = True
        if thinks:
            _, closed, rest = held.partition(CLOSES)
            held = rest.lstrip() if closed else held[-len(CLOSES) :]
            thinks, speaks = not closed, bool(closed and held)
        if speaks:
            yield held
    if held and not thinks and not speaks:
        yield held
