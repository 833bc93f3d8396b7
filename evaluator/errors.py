"""Errors of the evaluator, one tree.

EvaluatorError
|- SettingsError         a variable of the environment is wrong; the message names it
|- WeightsError          a weights folder is missing, refused or does not fit
|- DataError             a training or calibration file is unusable (names the file and line)
|- UnknownTask           the loaded checkpoint was not trained for the task asked
|- UnknownModel          another embedder was asked for than the one that is loaded
|- InvalidTexts          texts that cannot be embedded, named by their places
|- TooManyPairs          more pairs in one request than the worker takes
|- Overloaded            the worker's queue is full; try again after `retry_after_s`
`- WorkerError           what a client of the worker meets
   |- WorkerUnreachable  no connection, or no answer in time
   |- WorkerOverloaded   429 or 503, with `retry_after_s`
   |- WorkerRefused      another 4xx: the request is at fault, with the worker's own words
   |- WorkersDisagree    other weights than those of the other workers, or than before
   `- WorkerFailed       5xx, or an answer that is not what the contract promises

Interrupted               Ctrl-C in a command; beside the tree, so that nothing catches it by chance
"""


class EvaluatorError(Exception):
    """Root of everything this package raises on purpose."""


class SettingsError(EvaluatorError):
    """A setting is wrong; the message names its variable, never its value."""


class WeightsError(EvaluatorError):
    """A weights folder is missing, refused by name, or its tensors do not fit."""


class DataError(EvaluatorError):
    """A data file is empty, unreadable or mislabelled; the message names file and line."""


class UnknownTask(EvaluatorError):
    """The loaded checkpoint was not trained for the task asked."""


class UnknownModel(EvaluatorError):
    """Another embedder was asked for than the one that is loaded, if any."""


class InvalidTexts(EvaluatorError):
    """A text to embed holds nothing to read; nothing of the request was embedded."""


class TooManyPairs(EvaluatorError):
    """One request carries more pairs or texts than the worker takes."""


class Overloaded(EvaluatorError):
    """The queue is full; nothing of the request was kept."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"The evaluator is busy; try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class WorkerError(EvaluatorError):
    """A call to the worker did not bring scores."""


class WorkerUnreachable(WorkerError):
    """No connection to the worker, or no answer in time."""


class WorkerOverloaded(WorkerError):
    """The worker asks to come back later."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class WorkerRefused(WorkerError):
    """The worker found the request at fault and says why."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkersDisagree(WorkerError):
    """A worker has other weights than those whose scores and thresholds are in use."""


class WorkerFailed(WorkerError):
    """The worker broke, or answered something the contract does not know."""


class Interrupted(BaseException):
    """Ctrl-C; its text says what was kept."""

    def __str__(self) -> str:
        return super().__str__() or "nothing more was written"
