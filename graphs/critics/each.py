"""Drafts judged by a call each, side by side."""

from collections.abc import Awaitable, Callable, Sequence

from langchain_core.runnables.utils import gather_with_concurrency

from graphs.errors import CriticFailed, GeneratorFailed
from graphs.types import Draft, Judgement, Usage

Judged = tuple[Judgement, Usage]


async def each_judged(
    judged: Callable[[Draft], Awaitable[Judged]], drafts: Sequence[Draft]
) -> tuple[Sequence[Judgement], Usage]:
    """A judgement a draft, in order; an empty one where its call fails or says nothing readable.

    Raises CriticFailed where all of them do.
    """
    failures: list[str] = []

    async def attempted(draft: Draft) -> Judged:
        try:
            return await judged(draft)
        except (GeneratorFailed, CriticFailed) as error:
            failures.append(str(error))
            return Judgement(), Usage(llm_calls=1)

    told = await gather_with_concurrency(None, *map(attempted, drafts))
    if failures and len(failures) == len(drafts):
        raise CriticFailed(failures[0])
    return [judgement for judgement, _ in told], sum((used for _, used in told), Usage())
