"""`/`: the playground, a page in the browser that shows a run thinking.

The page is plain files and a client of the public interface like any other.
"""

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.gzip import GZipMiddleware

router = APIRouter()
PATH = "/page"
FOLDER = Path(__file__).parents[2] / "page"
# Some systems' lists of media types do not know modules; browsers run nothing else as one.
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".mjs": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept, but asked for again: a new version of the service shows at once.
    "Cache-Control": "no-cache",
}


class PageFiles(StaticFiles):
    """The page's files, which run nothing and load nothing but each other."""

    def file_response(self, full_path: Any, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(full_path, *args, **kwargs)
        if media_type := MEDIA_TYPES.get(Path(full_path).suffix):
            response.headers["Content-Type"] = f"{media_type}; charset=utf-8"
        response.headers.update(HEADERS)
        return response


_files = PageFiles(directory=FOLDER)
files = GZipMiddleware(_files)
"""To be mounted at PATH."""


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def page(request: Request) -> Response:
    """The playground."""
    return await _files.get_response("index.html", request.scope)
