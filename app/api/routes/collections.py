"""`/collections`: the named sets that documents are in, made, listed and deleted."""

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.dependencies import CurrentCaller, LiveCollections
from app.api.problems import problems
from app.api.routes.documents import mapped
from app.schemas import documents as schemas
from app.schemas.ask import CollectionName

router = APIRouter(tags=["documents"], prefix="/collections")


@router.get("", responses=problems(500, 503))
async def list_collections(
    collections: LiveCollections, caller: CurrentCaller
) -> schemas.Collections:
    """The collections that the caller may ask, the default one first."""
    with mapped():
        stored = await collections.all(caller)
    return schemas.Collections(
        collections=[schemas.Collection.model_validate(each) for each in stored]
    )


@router.post("", status_code=201, responses=problems(413, 422, 500, 503))
async def add_collection(
    body: schemas.CollectionRequest, collections: LiveCollections, caller: CurrentCaller
) -> schemas.Collection:
    """Name a collection, which may stay empty; one that is there already stays as it is."""
    with mapped():
        return schemas.Collection.model_validate(await collections.add(caller, body.name))


@router.delete("/{name}", status_code=204, responses=problems(404, 409, 422, 500, 503))
async def delete_collection(
    name: Annotated[CollectionName, Path(description="The collection's name.")],
    collections: LiveCollections,
    caller: CurrentCaller,
) -> None:
    """Remove the caller's documents of a collection, the files they were uploaded as, and its name.

    Documents of others stay, and so does a collection that has some.
    """
    with mapped():
        await collections.delete(caller, name)
