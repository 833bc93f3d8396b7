"""`selfcrag mcp`: an MCP server on standard input and output, with parts of its own."""

import asyncio
import logging
import signal

from mcp.server.stdio import stdio_server

from app.cli.interrupt import exit_at_once
from app.cli.serve import open_runs
from app.cli.terminal import ends_at_failure
from app.extensions.mcp.server import mcp_server
from app.settings import Settings, load_settings


def serve_stdio() -> None:
    """Until standard input ends."""
    logging.basicConfig(level=logging.ERROR)
    # What reads standard input cannot be cancelled: a silent client would hold Ctrl-C up.
    signal.signal(signal.SIGINT, exit_at_once)
    with ends_at_failure():
        asyncio.run(_serve(load_settings(Settings)))


async def _serve(settings: Settings) -> None:
    # First of all, so that nothing that is printed meanwhile is taken for a message.
    async with stdio_server() as (read, write), open_runs(settings, settings.max_runs) as parts:
        server = mcp_server(parts)
        await server.run(read, write, server.create_initialization_options())
