"""Services opened once in this process, by whoever comes first, and kept until it ends.

LangGraph's development server loads a file once for every graph it names and enters a graph's
factory once per run; this module is loaded once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from app.composition.services import open_services
from app.settings import Settings
from graphs.ports import Services

_opening = asyncio.Lock()
_open_for_good = AsyncExitStack()
_services: list[Services] = []


@asynccontextmanager
async def shared_services(settings: Settings) -> AsyncIterator[Services]:
    """The same services for everyone; the first caller's settings count. Raises StartFailed."""
    async with _opening:
        if not _services:
            _services.append(await _open_for_good.enter_async_context(open_services(settings)))
    yield _services[0]
