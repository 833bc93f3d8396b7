"""What commands have in common: extras that may be missing, Ctrl-C, and lines with the time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from evaluator.errors import EvaluatorError, Interrupted


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Raises EvaluatorError, naming the extra, where a package of it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise EvaluatorError(
            f"This command needs {error.name}: pip install 'self-crag[{extra}]'."
        ) from error


@contextmanager
def when_interrupted(outcome: str) -> Iterator[None]:
    """What Ctrl-C says of the work: whether it goes on later, or nothing was written."""
    try:
        yield
    except Interrupted:
        raise Interrupted(outcome) from None


def timed() -> Callable[[str], None]:
    """Prints lines with the seconds since now."""
    started = time.monotonic()
    return lambda text: typer.echo(f"{time.monotonic() - started:7.0f} s  {text}")
