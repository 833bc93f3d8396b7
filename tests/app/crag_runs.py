"""Runs of crag without HTTP around them."""

from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.runs.run import Run
from app.storage.lifecycle import Store
from graphs.options import Scope
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.workflows.crag import build_crag
from tests.umbra import ENGLISH


def runs_of(services: Services, store: Store | None = None, most: int = 1) -> Runs:
    """A manager of at most so many runs at once."""
    return Runs({"crag": build_crag(services)}, services, most, store)


async def begun(
    runs: Runs, question: str = ENGLISH, thread_id: str | None = None, owner: str = ""
) -> Run:
    asked = Question(question=question)
    return await runs.start(RunRequest("crag", asked, Context(), Scope(owner), thread_id))
