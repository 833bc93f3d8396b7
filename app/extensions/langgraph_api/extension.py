"""LangGraph's API as an extension."""

from fastapi import FastAPI

from app.extension import ServiceExtension


class LangGraphApi(ServiceExtension):
    is_server = True

    def add_to(self, app: FastAPI) -> None:
        from app.extensions.langgraph_api.routes import router

        app.include_router(router)


extension = LangGraphApi()
