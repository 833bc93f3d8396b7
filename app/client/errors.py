"""What goes wrong for a client.

ClientError
 ├─ ProblemError        the service refused; `.problem` says why
 ├─ ServiceUnreachable  no connection, or it broke
 └─ UnexpectedResponse  whoever answered is not the service (a proxy, a portal, another version)
"""

from app.schemas import Problem


class ClientError(Exception):
    """`str(error)` is fit to be shown to a user."""


class ProblemError(ClientError):
    """The service answered with a problem; `retry_after_s` where it says when to ask again."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem, self.retry_after_s = problem, retry_after_s


class ServiceUnreachable(ClientError):
    """There is no connection to the service, or it broke."""


class UnexpectedResponse(ClientError):
    """The answer is none that this service gives."""
