"""`selfcrag`: the command line of the service."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
_kept = "nothing was begun"


def main() -> None:
    """Runs a command; Ctrl-C ends it without a traceback, also while it is being loaded."""
    signal.signal(signal.SIGINT, _exit)
    from app.cli.main import cli  # noqa: PLC0415 -- what this imports may be interrupted

    cli()


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """Work that Ctrl-C ends in order; the command's last line says what was kept of it."""
    global _kept
    _kept = kept
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()
        _exit()
    finally:
        signal.signal(signal.SIGINT, before)


def _exit(*_: object) -> None:
    """At once: imports and the interpreter's own end would show where they were interrupted."""
    os.write(2, f"selfcrag: interrupted; {_kept}\n".encode())
    os._exit(INTERRUPTED)
