"""Errors of the evaluator, one tree.

EvaluatorError
|- SettingsError         a variable of the environment is wrong; names it, never its value
|- WeightsError          a weights folder is missing, refused by name, or its tensors do not fit
|- DataError             a training or calibration file is unusable (names the file and line)
|- UnknownTask           the loaded checkpoint was not trained for the task asked
|- UnknownModel          another embedder was asked for than the one that is loaded, if any
|- InvalidTexts          texts that cannot be embedded, named by their places
|- TooManyPairs          more pairs or texts in one request than the worker takes
|- Overloaded            the worker's queue is full; nothing of the request was kept
`- WorkerError           what a client of the worker meets
   |- WorkerUnreachable  no connection, or no answer in time
   |- WorkerOverloaded   429 or 503, with `retry_after_s`
   |- WorkerRefused      another 4xx: the request is at fault, with the worker's own words
   |- WorkersDisagree    other weights than those of the other workers, or than before
   `- WorkerFailed       5xx, or an answer that is not what the contract promises

Interrupted              Ctrl-C in a command; beside the tree, so that nothing catches it by chance
"""


class EvaluatorError(Exception):
    """Root of everything this package raises on purpose."""


class SettingsError(EvaluatorError): ...


class WeightsError(EvaluatorError): ...


class DataError(EvaluatorError): ...


class UnknownTask(EvaluatorError): ...


class UnknownModel(EvaluatorError): ...


class InvalidTexts(EvaluatorError): ...


class TooManyPairs(EvaluatorError): ...


class Overloaded(EvaluatorError):
    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"The evaluator is busy; try again in {retry_after_s} s.")
        self.retry_after_s = retry_after_s


class WorkerError(EvaluatorError): ...


class WorkerUnreachable(WorkerError): ...


class WorkerOverloaded(WorkerError):
    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class WorkerRefused(WorkerError):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkersDisagree(WorkerError): ...


class WorkerFailed(WorkerError): ...


class Interrupted(BaseException):
    def __str__(self) -> str:
        return super().__str__() or "nothing more was written"
