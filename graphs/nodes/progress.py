"""Progress within a step: an event for each text as it is graded."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from graphs.grading.relevance import OnGraded
from graphs.state import Context
from graphs.types import Passage, Strip


def told_as_graded(
    runtime: Runtime[Context], step: str, texts: Sequence[Passage | Strip], bar: float
) -> OnGraded:
    """Emits a `progress` event of this step for each of `texts`; `kept` is at or above the bar.

    The step's end has the last word on what is kept: strips are kept up to a number, too.
    """
    done = 0

    def graded(index: int, score: float | None) -> None:
        nonlocal done
        done += 1
        item = {"id": texts[index].id, "score": score, "kept": score is not None and score >= bar}
        event = {"step": step, "done": done, "total": len(texts), "item": item}
        runtime.stream_writer({"progress": event})

    return graded
