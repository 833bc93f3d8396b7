"""The typed client: `SelfCrag`, and `AsyncSelfCrag` with the same methods.

    with SelfCrag("https://rag.example.org", api_key) as rag:
        print(rag.ask("What does the upper threshold decide?").answer)
        for event in rag.stream("What is a strip?"):
            ...

Methods raise ProblemError where the service refuses, ServiceUnreachable and UnexpectedResponse
otherwise. 429 and 503 are asked again up to `retries` times, after the time the service names.

Only httpx, pydantic and the wire types are needed here.
"""

from app.client.asynchronous import AsyncSelfCrag
from app.client.errors import (
    ClientError,
    ProblemError,
    ServiceUnreachable,
    UnexpectedResponse,
)
from app.client.plain import SelfCrag

__all__ = [
    "AsyncSelfCrag",
    "ClientError",
    "ProblemError",
    "SelfCrag",
    "ServiceUnreachable",
    "UnexpectedResponse",
]
