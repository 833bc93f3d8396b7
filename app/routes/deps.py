"""What routes ask for, as annotated aliases; async, for FastAPI sends others to a thread."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.runs import Runs
from graphs.ports import Services
from graphs.workflows import Graph


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _runs(request: Request) -> Runs:
    runs: Runs = request.app.state.runs
    return runs


async def _graphs(request: Request) -> dict[str, Graph]:
    graphs: dict[str, Graph] = request.app.state.graphs
    return graphs


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; without keys everyone is the one owner ""."""

    owner: str = ""


async def _caller() -> Caller:
    return Caller()


CurrentCaller = Annotated[Caller, Depends(_caller)]
LiveServices = Annotated[Services, Depends(_services)]
LiveRuns = Annotated[Runs, Depends(_runs)]
LiveGraphs = Annotated[dict[str, Graph], Depends(_graphs)]
