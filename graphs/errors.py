"""What can fail outside the graphs, as the ports tell it.

PortError
 ├─ RetrieverFailed      the index could not be searched
 ├─ EvaluatorFailed      the worker could not score
 ├─ SearchFailed         the web search gave no answer
 ├─ GeneratorFailed      the chat endpoint gave no answer
 │   └─ RequestRefused   it does not take the request as it was put
 ├─ CriticFailed         the critic gave no judgement
 └─ CompressorFailed     the knowledge was not shortened

Adapters raise these, once, with a message for the user: what failed and what would help, without
secrets. The node that called the port turns them into an entry of `degraded` and goes on.
"""

from graphs.types import Component


class PortError(Exception):
    """A dependency failed; `str(error)` is fit to be shown to a user."""

    component: Component


class RetrieverFailed(PortError):
    component: Component = "retriever"


class EvaluatorFailed(PortError):
    component: Component = "evaluator"


class SearchFailed(PortError):
    component: Component = "web_search"


class GeneratorFailed(PortError):
    component: Component = "generator"


class RequestRefused(GeneratorFailed):
    """Too long, or with a part this endpoint does not know: without it, it may be taken."""


class CriticFailed(PortError):
    component: Component = "critic"


class CompressorFailed(PortError):
    component: Component = "generator"
