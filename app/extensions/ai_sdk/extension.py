"""The AI SDK's message stream as an extension."""

from fastapi import FastAPI

from app.extension import ServiceExtension


class AiSdk(ServiceExtension):
    def add_to(self, app: FastAPI) -> None:
        from app.extensions.ai_sdk.routes import router

        app.include_router(router)


extension = AiSdk()
