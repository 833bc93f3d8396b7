"""Speaks OpenAI's images API and a chat that sees: draws one picture, and describes any by size."""

import base64
import io
from collections.abc import Sequence

from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.app.pictures import drawn, encoded
from tests.loopback.server import LoopbackServer, json_error


class ImagesServer(LoopbackServer):
    """`refuses_form`: the model takes no `response_format`; `sends` is what it draws."""

    refuses_form = False
    sends = encoded(drawn(77))

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/v1/images/generations", self.make, methods=["POST"]),
            Route("/v1/chat/completions", self.describe, methods=["POST"]),
        ]

    async def make(self, request: Request) -> Response:
        body = await request.json()
        self.record(request, body)
        if self.refuses_form and "response_format" in body:
            return json_error(400, "Unknown parameter: 'response_format'.")
        image = {"b64_json": base64.b64encode(self.sends).decode()}
        return JSONResponse({"created": 0, "data": [image]})

    async def describe(self, request: Request) -> Response:
        body = await request.json()
        self.record(request, body)
        if self.status != 200:
            return json_error(self.status, "failing")
        _, shown = body["messages"][-1]["content"]
        content = base64.b64decode(shown["image_url"]["url"].partition(",")[2])
        width, height = Image.open(io.BytesIO(content)).size
        said = f"Discs on a sheet of {width} by {height}. ![x](https://evil.example/x)"
        choice = {"index": 0, "message": {"role": "assistant", "content": said}}
        usage = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        return JSONResponse(
            {
                **{"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]},
                **{"choices": [{**choice, "finish_reason": "stop"}], "usage": usage},
            }
        )
