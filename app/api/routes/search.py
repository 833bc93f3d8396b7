"""`POST /search`: corrected knowledge without an answer, for whoever writes one elsewhere."""

from fastapi import APIRouter, Request, Response

from app.api.dependencies import CurrentCaller, LiveCollections, LiveRuns
from app.api.problems import problem_response, problems
from app.api.sse import while_client_stays
from app.runs.request import RunRequest
from app.runs.run import Run
from app.runs.search import SEARCH, corrected_knowledge
from app.schemas.ask import ErrorEvent, SearchRequest, SearchResponse
from graphs.state import Question

router = APIRouter(tags=["ask"])


@router.post(
    "/search", response_model=SearchResponse, responses=problems(404, 413, 422, 429, 500, 503)
)
async def search(
    body: SearchRequest,
    request: Request,
    caller: CurrentCaller,
    runs: LiveRuns,
    collections: LiveCollections,
) -> Response:
    """Find, grade and correct knowledge as `crag` does, for whoever answers from it elsewhere.

    No language model is asked, but for a grader that is one.
    """
    scope = await collections.scope(caller, body.collection)
    question = Question(question=body.question)
    run = await runs.start(RunRequest(SEARCH, question, body.options, scope))

    async def reply(run: Run) -> Response:
        result = await corrected_knowledge(run)
        if isinstance(result, ErrorEvent):
            return problem_response(request.scope, result.problem)
        return Response(result.model_dump_json(), media_type="application/json")

    return await while_client_stays(request, reply(run), run, runs)
