"""`selfcrag mcp`."""

from app.cli.interrupt import interruptible


def mcp() -> None:
    """Serve the Model Context Protocol on standard input and output, for an assistant."""
    from app.extensions.mcp.stdio import serve_stdio

    with interruptible("documents brought in and runs are kept"):
        serve_stdio()
