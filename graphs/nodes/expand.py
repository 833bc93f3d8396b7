"""Expand the question into the queries that the knowledge base is asked."""

from langgraph.runtime import Runtime

from graphs.ports import Services
from graphs.state import Context, Reflecting, State, asked


async def expand(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    return {"queries": [asked(state)]}
