"""Characters of what a model says: half of a surrogate pair is legal JSON, but it is no text."""

from collections.abc import AsyncIterator


def whole(text: str) -> str:
    """The text with its pairs joined; U+FFFD stands for a half, which nothing could store."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


async def joined(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    """The streamed text made whole; a pair may be split between two chunks."""
    held = ""
    async for chunk in chunks:
        text = held + chunk
        held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        if text := text.removesuffix(held):
            yield whole(text)
    if held:
        yield whole(held)
