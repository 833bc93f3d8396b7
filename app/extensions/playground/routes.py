"""`/`, the playground, `/docs`, the API's page, and `/handbook` where its site is built."""

import mimetypes
from pathlib import Path
from typing import Any, ClassVar

from fastapi import APIRouter, Request, Response
from fastapi.staticfiles import StaticFiles

from app.api.pages import BUILT_POLICY, PAGE_HEADERS

router = APIRouter(tags=["operation"])
PAGE_PATH, API_PAGE_PATH, HANDBOOK_PATH = "/page", "/docs", "/handbook"
# Some systems' lists of media types do not know modules; browsers run nothing else as one.
mimetypes.add_type("text/javascript", ".mjs")


class PageFiles(StaticFiles):
    """The page's files, which run nothing and load nothing but each other."""

    headers: ClassVar = PAGE_HEADERS

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(self.headers)
        return response


class HandbookFiles(PageFiles):
    """The handbook's site (`make handbook`)."""

    headers: ClassVar = {**PAGE_HEADERS, "Content-Security-Policy": BUILT_POLICY}


page_files = PageFiles(directory=Path(__file__).with_name("page"))
"""To be mounted at PAGE_PATH."""


api_page_files = PageFiles(directory=Path(__file__).with_name("api_page"))
"""To be mounted at API_PAGE_PATH, behind `api_page`."""


@router.api_route(API_PAGE_PATH, methods=["GET", "HEAD"], include_in_schema=False)
async def api_page(request: Request) -> Response:
    """Every operation with a form to try it; loads nothing from elsewhere."""
    return await api_page_files.get_response("index.html", request.scope)


@router.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
async def playground(request: Request) -> Response:
    """A page that shows a run thinking; a client of the public interface like any other."""
    return await page_files.get_response("index.html", request.scope)
