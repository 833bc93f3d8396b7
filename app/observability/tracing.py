"""Tracing by LangSmith, which exports whole texts: off unless a setting of ours chooses it."""

import langsmith


def set_tracing(enabled: bool) -> None:
    """For this process, whatever LANGSMITH_TRACING or LANGCHAIN_TRACING_V2 say.

    Where it is on, LangSmith's own variables say where to and with which key.
    """
    langsmith.configure(enabled=enabled)
