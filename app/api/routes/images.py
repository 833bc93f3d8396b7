"""`/images`: the pixels of what answers and documents show."""

from fastapi import APIRouter, Response

from app.api.dependencies import CurrentCaller, LiveUploads
from app.api.problems import problems
from app.api.routes.documents import mapped
from app.errors import NotFound
from app.retrieval.images import MEDIA_TYPE

router = APIRouter(tags=["documents"])
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Content-Disposition": "inline",
    # An id names one version of one document for good; who may see it can change.
    "Cache-Control": "private, max-age=300",
}
_BINARY = {"schema": {"type": "string", "format": "binary"}, "example": "RIFF…WEBP…"}
PIXELS = {"description": "The image, without metadata.", "content": {MEDIA_TYPE: _BINARY}}


@router.get(
    "/images/{image_id}",
    response_class=Response,
    responses={200: PIXELS, **problems(404, 422, 500, 503)},
)
async def image(image_id: str, uploads: LiveUploads, caller: CurrentCaller) -> Response:
    """An image of the caller's documents or of shared ones, encoded anew as WebP.

    A signed address from an answer needs no key.
    """
    with mapped():
        content = await uploads.image(image_id, caller.owner, caller.collections)
    if content is None:
        raise NotFound(f"There is no image {image_id}.")
    return Response(content, media_type=MEDIA_TYPE, headers=HEADERS)
