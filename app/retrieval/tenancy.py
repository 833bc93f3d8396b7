"""Who is asking: set once a request, obeyed by every index, unknown to the graphs."""

from contextvars import ContextVar

SHARED = ""

visible_to: ContextVar[str] = ContextVar("visible_to", default=SHARED)
"""The owner whose documents are seen beside the shared ones; tasks begun here inherit it."""


def owners() -> list[str]:
    """The owners whose documents may be seen now."""
    return list(dict.fromkeys((SHARED, visible_to.get())))
