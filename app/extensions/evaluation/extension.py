"""Evaluation on the user's own questions as an extension."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from fastapi import FastAPI

from app.extension import ServiceExtension


class Evaluation(ServiceExtension):
    def add_to(self, app: FastAPI) -> None:
        from app.extensions.evaluation.routes import router

        app.include_router(router)

    @asynccontextmanager
    async def opened(self, app: FastAPI) -> AsyncIterator[None]:
        from app.extensions.evaluation.jobs import EvaluationJobs

        async with aclosing(EvaluationJobs(app.state.parts)) as jobs:
            app.state.evaluations = jobs
            yield


extension = Evaluation()
