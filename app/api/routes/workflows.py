"""`GET /workflows`: what can be asked, how it is drawn, what may be tuned."""

import asyncio
from functools import lru_cache

from fastapi import APIRouter, Response

from app.api.dependencies import LiveGraphs
from app.schemas.ask import WorkflowInfo, Workflows
from graphs.state import Context
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS, Graph

router = APIRouter(tags=["ask"])


@router.get("/workflows", response_model=Workflows)
async def workflows(graphs: LiveGraphs) -> Response:
    """What can be asked: each workflow with its drawing and the schema of its options."""
    told = await asyncio.to_thread(_told, tuple(graphs.items()))
    return Response(told, media_type="application/json")


@lru_cache(maxsize=1)
def _told(graphs: tuple[tuple[str, Graph], ...]) -> str:
    """The same for every caller; drawing takes long enough to hold up others."""
    schema = Context.model_json_schema()
    infos = [
        WorkflowInfo(
            name=name,
            description=WORKFLOWS[name].description,
            mermaid=graph.get_graph(xray=1).draw_mermaid(),
            context_schema=schema,
        )
        for name, graph in graphs
    ]
    return Workflows(workflows=infos, default=DEFAULT_WORKFLOW).model_dump_json()
