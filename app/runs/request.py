"""Request of a run: what every protocol makes of its own and the run manager starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.runs.fork import Fork
from app.storage.runs import IdempotencyKey
from graphs.options import Scope
from graphs.state import Context, Question


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A question for a workflow, and whose documents it is asked of: `scope.owner` owns the run.

    On a thread that is known, its latest turns are the history if the question has none. A
    `resumable` run, one that is detached, a fork, and one with a `key` are taken up by another
    process if this one dies. Of one that is not kept the store learns nothing, neither events nor a
    turn. `protocol` is what its client's protocol tells again with the run; it is kept with the
    request, and so is the run that a `fork` goes on from.
    """

    workflow: str
    question: Question
    context: Context
    scope: Scope
    thread_id: str | None = None
    detach: bool = False
    resumable: bool = False
    keep: bool = True
    protocol: Mapping[str, Any] | None = None
    fork: Fork | None = None
    key: IdempotencyKey | None = None

    @property
    def is_resumable(self) -> bool:
        return self.keep and bool(self.resumable or self.detach or self.fork or self.key)
