"""`GET /workflows`: what can be asked, how it is drawn, what may be tuned."""

from fastapi import APIRouter

from app.routes.deps import LiveGraphs
from app.schemas import WorkflowInfo, Workflows
from graphs.state import Context
from graphs.workflows import DEFAULT_WORKFLOW, WORKFLOWS

router = APIRouter(tags=["ask"])


@router.get("/workflows")
async def workflows(graphs: LiveGraphs) -> Workflows:
    """What can be asked: each workflow with its drawing and the schema of its options."""
    return Workflows(
        workflows=[
            WorkflowInfo(
                name=name,
                description=WORKFLOWS[name].description,
                mermaid=graph.get_graph(xray=1).draw_mermaid(),
                context_schema=Context.model_json_schema(),
            )
            for name, graph in graphs.items()
        ],
        default=DEFAULT_WORKFLOW,
    )
