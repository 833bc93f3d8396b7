"""What can fail: outside the graphs, as the ports tell it, and the question itself.

InvalidQuestion         it is empty or too long
 └─ InvalidImage         its image cannot be read

PortError
 ├─ RetrieverFailed      the index could not be searched, or not in full
 ├─ EvaluatorFailed      the worker could not score
 ├─ SearchFailed         the web search gave no answer
 ├─ GeneratorFailed      the chat endpoint gave no answer
 │   ├─ RequestRefused   it does not take the request as it was put
 │   └─ AnswerInterrupted  the run's time ended before the answer did
 ├─ CriticFailed         the critic gave no judgement
 └─ CompressorFailed     the knowledge was not shortened

Adapters raise these, once, with a message for the user: what failed and what would help, without
secrets. The node that called the port turns them into an entry of `degraded` and goes on.
"""

from collections.abc import Sequence

from graphs.types import Component, Degraded, Passage, Usage


class InvalidQuestion(ValueError):
    """A run was started without a question that could be answered."""


class InvalidImage(InvalidQuestion):
    """The question's image is broken, too large, or of a kind that is not read."""


class PortError(Exception):
    """A dependency failed; `str(error)` is fit to be shown to a user.

    `usage` is what it has cost all the same.
    """

    component: Component

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage()

    @property
    def degraded(self) -> Degraded:
        """What the run says of it in `degraded`."""
        return Degraded(self.component, str(self))

    def answered_by(self, fallback: str) -> Degraded:
        """The same where the fallback model of this name stood in."""
        return Degraded(self.component, f"{self} The fallback model {fallback} stood in.")

    def judged_by(self, evaluator: str) -> Degraded:
        """The same where the evaluator of this name stood in for the language model that judges."""
        return Degraded(self.component, f"{self} The evaluator {evaluator} stood in.")


class RetrieverFailed(PortError):
    """`passages` were found all the same, such as by words where meaning could not be asked."""

    component: Component = "retriever"

    def __init__(self, reason: str, passages: Sequence[Passage] = ()) -> None:
        super().__init__(reason)
        self.passages = passages


class EvaluatorFailed(PortError):
    component: Component = "evaluator"


class SearchFailed(PortError):
    component: Component = "web_search"


class GeneratorFailed(PortError):
    """`usage` is the one call that failed, unless it is given."""

    component: Component = "generator"

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason, usage or Usage(llm_calls=1))


class RequestRefused(GeneratorFailed):
    """Too long, or with a part this endpoint does not know: without it, it may be taken."""


class AnswerInterrupted(GeneratorFailed):
    """Whatever had come of it may be kept."""


class CriticFailed(PortError):
    component: Component = "critic"


class CompressorFailed(PortError):
    component: Component = "generator"
