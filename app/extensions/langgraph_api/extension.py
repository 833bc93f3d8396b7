"""LangGraph's API as an extension."""

from collections.abc import Sequence

from starlette.routing import BaseRoute

from app.extension import Extension


class LangGraphApi(Extension):
    is_server = True

    def routes(self) -> Sequence[BaseRoute]:
        from app.extensions.langgraph_api.routes import router

        return router.routes


extension = LangGraphApi()
