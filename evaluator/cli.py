"""Entry point of `selfcrag-evaluator`: an expected failure or Ctrl-C ends it in one line."""

import signal
import sys
from importlib import import_module
from types import FrameType

from evaluator.errors import EvaluatorError, Interrupted

INTERRUPTED_STATUS = 130
AGAIN_S = 2.0


def main() -> None:
    """Run the command line: status 1 after an expected failure, 130 after Ctrl-C."""
    interrupts: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends the process at once
        interrupts.append(signum)
        if sys.platform != "win32":  # some library may swallow what is raised here
            signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
    try:
        import_module("evaluator.commands").app()
    except BaseException as error:
        if interrupts and sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, 0)
        if interrupts:  # whatever it became on its way, as in the import of an extension
            interruption = error if isinstance(error, Interrupted) else Interrupted()
            sys.stderr.write(f"\nselfcrag-evaluator: interrupted; {interruption}\n")
            sys.exit(INTERRUPTED_STATUS)
        if isinstance(error, EvaluatorError):
            sys.exit(f"selfcrag-evaluator: {error}")
        raise
