"""Ctrl-C: ends a command without a traceback, with a line that says what remains."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
_summary = "nothing was begun"


@contextmanager
def interruptible(summary: str) -> Iterator[None]:
    """Work that Ctrl-C ends in order; `summary`, the last line, says what remains of it."""
    global _summary
    _summary = summary
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.stdout.flush()
        exit_at_once()
    finally:
        signal.signal(signal.SIGINT, before)


def exit_at_once(*_: object) -> None:
    """At once: imports and the interpreter's own end would show where they were interrupted."""
    os.write(2, f"selfcrag: interrupted; {_summary}\n".encode())
    os._exit(INTERRUPTED)
