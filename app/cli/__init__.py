"""`selfcrag`: the command line of the service."""

import signal

from app.cli.interrupt import exit_at_once


def main() -> None:
    """Runs a command; Ctrl-C ends it without a traceback, also while it is being loaded."""
    signal.signal(signal.SIGINT, exit_at_once)
    from app.cli.main import cli  # noqa: PLC0415 -- what this imports may be interrupted

    cli()
