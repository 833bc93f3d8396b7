"""OpenAI's chat completions, responses and embeddings as an extension."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from app.extension import ServiceExtension
from app.schemas.ask import Problem


class OpenAI(ServiceExtension):
    errors_below = "/v1"

    def add_to(self, app: FastAPI) -> None:
        from app.extensions.openai import chat_routes, embeddings, responses_routes
        from app.extensions.openai.chat import NotOffered

        for router in (chat_routes.router, responses_routes.router, embeddings.router):
            app.include_router(router)

        @app.exception_handler(NotOffered)
        async def not_offered(_: Request, error: NotOffered) -> JSONResponse:
            return JSONResponse(error.body, error.status)

    def error_body(self, problem: Problem) -> object:
        from app.extensions.openai.chat import error_of

        return error_of(problem)


extension = OpenAI()
