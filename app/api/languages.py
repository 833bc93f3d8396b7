"""Error messages in the language that the client asks for by Accept-Language."""

from typing import cast, get_args

from starlette.datastructures import Headers
from starlette.types import Scope

from app.errors import detail_of
from app.schemas.ask import Problem
from prompts import Language
from prompts.messages import translated


def language_of(scope: Scope) -> Language:
    """The first listed language that the service speaks; English where there is none."""
    listed = Headers(scope=scope).get("accept-language", "").lower().split(",")
    tags = (entry.strip()[:2] for entry in listed)
    return next((cast(Language, tag) for tag in tags if tag in get_args(Language)), "en")


def in_language(problem: Problem, language: Language) -> Problem:
    """The problem's title, detail and reasons of fields, each translated."""
    errors = [
        error.model_copy(update={"detail": translated(error.detail, language)})
        for error in problem.errors or []
    ]
    update = {
        "title": translated(problem.title, language),
        "detail": detail_of(errors) if errors else translated(problem.detail, language),
        "errors": errors or None,
    }
    return problem.model_copy(update=update)
