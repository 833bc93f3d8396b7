"""LangSmith tracing: whole questions and answers are exported only where our setting says so."""

import langsmith


def set_tracing(enabled: bool) -> None:
    """For this process, whatever LANGSMITH_TRACING or LANGCHAIN_TRACING_V2 say.

    Where it is on, LangSmith's own variables say where to and with which key.
    """
    langsmith.configure(enabled=enabled)
