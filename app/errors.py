"""What the service answers when it cannot: one tree; `app.api.problems` maps it to HTTP.

ServiceError
 ├─ StartFailed        the service cannot start as configured (told on the terminal, no HTTP)
 ├─ InvalidRequest     422, names the fields
 ├─ AccessDenied       whoever asks is not let in; nothing of the request was read
 │   ├─ KeyRequired    401
 │   ├─ KeyRefused     401
 │   ├─ AddressRefused 401
 │   ├─ ScopeMissing   403
 │   ├─ HostRefused    403
 │   ├─ OriginRefused  403
 │   └─ KeysUnreadable 503
 ├─ CollectionRefused  403, the key is limited to other collections
 ├─ NotFound           404, unknown or another owner's
 │   └─ CollectionUnknown
 ├─ ThreadBusy         409
 ├─ ThreadExists       409
 ├─ AlreadyBegun       409
 ├─ StoreFailed        503
 ├─ DocumentsProblem   403, 409, 413 or 503: documents cannot be changed
 ├─ EmbeddingFailed    503
 └─ TooManyRuns        503

Answers with 409, 429 and 503 tell by Retry-After when to come back.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError

from app.schemas.ask import FieldError, Problem


class ServiceError(Exception):
    """`str(error)` is fit to be shown to a user; `title` is left out where the status names it."""

    status: int = HTTPStatus.INTERNAL_SERVER_ERROR
    title: str = ""
    headers: Mapping[str, str] = {}

    @property
    def problem(self) -> Problem:
        title = self.title or HTTPStatus(self.status).phrase
        return Problem(title=title, status=self.status, detail=str(self))


class StartFailed(ServiceError):
    """A part the service was told to use is missing or does not work."""


class InvalidRequest(ServiceError):
    """Fields of the request that are wrong, and why."""

    status = HTTPStatus.UNPROCESSABLE_ENTITY

    def __init__(self, pointer: str, detail: str, *others: FieldError) -> None:
        super().__init__(detail)
        self._errors = [FieldError(pointer=pointer, detail=detail), *others]

    @property
    def problem(self) -> Problem:
        return Problem(
            title="Invalid request",
            status=self.status,
            detail=detail_of(self._errors),
            errors=self._errors,
        )


class AccessDenied(ServiceError):
    """Whoever asks is not let in; `challenge` tells a client what would be asked of it."""

    status = HTTPStatus.FORBIDDEN
    detail = ""
    challenge: str | None = None

    def __init__(self) -> None:
        super().__init__(self.detail)
        if self.challenge is not None:
            realm = ", ".join(filter(None, ('Bearer realm="self-crag"', self.challenge)))
            self.headers = {"WWW-Authenticate": realm}


class KeyRequired(AccessDenied):
    status = HTTPStatus.UNAUTHORIZED
    detail, challenge = "Send a key as `Authorization: Bearer KEY`.", ""


class KeyRefused(AccessDenied):
    status = HTTPStatus.UNAUTHORIZED
    detail = "This key is not known here, or it was revoked."
    challenge = 'error="invalid_token"'


class AddressRefused(AccessDenied):
    """Not which of these: whoever has the address learns nothing of the key."""

    status = HTTPStatus.UNAUTHORIZED
    detail = (
        "The signature of this address has expired, or it was made for another one or by a key"
        " that was revoked. Ask again for a new address, or send a key."
    )
    challenge = 'error="invalid_token"'


class ScopeMissing(AccessDenied):
    def __init__(self, scope: str) -> None:
        self.detail = f"This key does not allow it: the scope {scope!r} is missing."
        self.challenge = f'error="insufficient_scope", scope="{scope}"'
        super().__init__()


class HostRefused(AccessDenied):
    """Without keys, a name that is not this machine's may be an attacker's that leads here."""

    detail = (
        "The service has no keys and answers to this machine's own names alone;"
        " SELFCRAG_ALLOWED_HOSTS lists others."
    )


class OriginRefused(AccessDenied):
    detail = (
        "A page of another origin may not ask this; SELFCRAG_CORS_ORIGINS lists those that may."
    )


class KeysUnreadable(AccessDenied):
    """API keys cannot be read; all requests are rejected with 503."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    detail = "The keys cannot be read at the moment."


class NotFound(ServiceError):
    """Unknown, or another owner's: nobody learns which."""

    status, title = HTTPStatus.NOT_FOUND, "Not found"


class CollectionUnknown(NotFound):
    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"There is no collection {name!r}; there are: {', '.join(known)}."
            " POST /collections makes one, and so does the first document."
        )


class CollectionRefused(ServiceError):
    """Whether there is such a collection is not told."""

    status = HTTPStatus.FORBIDDEN

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(f"This key is limited to the collections: {', '.join(allowed)}.")


class ThreadBusy(ServiceError):
    """A run is under way on the thread."""

    status, title = HTTPStatus.CONFLICT, "Thread busy"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"A run is under way on thread {thread_id}; wait for it, or cancel it.")


class ThreadExists(ServiceError):
    """A thread that was to be new is there already."""

    status, title = HTTPStatus.CONFLICT, "Thread exists"

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"Thread {thread_id} is there already.")


class AlreadyBegun(ServiceError):
    """The request's idempotency key has a run, begun in the same moment."""

    status, title = HTTPStatus.CONFLICT, "Already begun"

    def __init__(self) -> None:
        super().__init__("A request with this Idempotency-Key is under way; send it again.")


class StoreFailed(ServiceError):
    """Runs and threads cannot be read or written."""

    status, title = HTTPStatus.SERVICE_UNAVAILABLE, "Store unavailable"

    def __init__(self) -> None:
        super().__init__("The database of runs and threads cannot be used at the moment.")


class DocumentsProblem(ServiceError):
    """Documents cannot be brought in or removed, for the reason its status stands for."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class EmbeddingFailed(ServiceError):
    """The embedder gave no vectors for texts of a caller's own."""

    status, title = HTTPStatus.SERVICE_UNAVAILABLE, "Embedding failed"


class TooManyRuns(ServiceError):
    """As many runs are under way as can be finished in time, and as many wait as may."""

    status, title = HTTPStatus.SERVICE_UNAVAILABLE, "Too many runs"

    def __init__(self, at_work: int, waiting: int, retry_after_s: int) -> None:
        super().__init__(
            f"{at_work} runs are under way and {waiting} wait; try again in {retry_after_s} s."
        )
        self.headers = {"Retry-After": str(retry_after_s)}


class QuotaExceeded(ServiceError):
    """The owner of the key has used up what the settings allow for a while."""

    status, title = HTTPStatus.TOO_MANY_REQUESTS, "Quota exceeded"

    def __init__(self, allowed: str, retry_after_s: int) -> None:
        super().__init__(f"The quota of {allowed} is used up; try again in {retry_after_s} s.")
        self.headers = {"Retry-After": str(retry_after_s)}


def internal_problem(run_id: str | None = None) -> Problem:
    """What a client learns of a fault of ours: no trace, only what to quote when reporting it."""
    where = f" Quote run {run_id} when reporting it." if run_id else ""
    return Problem(
        title="Internal error", status=500, detail=f"The service failed at this request.{where}"
    )


def detail_of(errors: Sequence[FieldError]) -> str:
    """The first few wrong fields in a line."""
    return "; ".join(f"{error.pointer}: {error.detail}" for error in errors[:3])


def message_of(item: Mapping[str, Any]) -> str:
    """What pydantic found wrong, without the name of its exception and without the value."""
    if isinstance(item.get("input"), bytes):
        return "is not JSON by its Content-Type; send application/json"
    if item.get("type") == "json_invalid":
        return "cannot be read as JSON in UTF-8"
    return str(item["msg"]).removeprefix("Value error, ")


def wrong_fields(error: ValidationError) -> str:
    """Which fields are wrong and why, in a line, without their values."""
    items = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {message_of(item)}" for item in items)
