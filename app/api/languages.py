"""Error messages in the language that the client asks for by Accept-Language.

As in gettext, a message is known by its English text, so that messages of libraries are translated
too. In the catalogue `{}` stands for a value, left as it is, and `{message}` for another message.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import cast, get_args

from starlette.datastructures import Headers
from starlette.types import Scope

from app.errors import detail_of
from app.schemas.ask import Problem
from graphs.types import Language

CATALOGUES = Path(__file__).parent
LONGEST = 2_000
"""Longer messages, in characters, are left as they are."""


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


def translated(message: str, language: Language) -> str:
    """The message in the language; unchanged where the catalogue lacks it."""
    if len(message) > LONGEST:
        return message
    for pattern, translation in _catalogue(language):
        if match := pattern.fullmatch(message):
            inner = {name: translated(part, language) for name, part in match.groupdict().items()}
            return translation.format(*match.groups(), **inner)
    return message


@cache
def _catalogue(language: Language) -> list[tuple[re.Pattern[str], str]]:
    if language == "en":
        return []
    text = (CATALOGUES / f"messages_{language}.json").read_text(encoding="utf-8")
    messages = json.loads(text)
    # "less than or equal to {}" before "less than {}", which would match it, too.
    most_words_first = sorted(messages, key=lambda english: -len(english))
    return [(_pattern(english), messages[english]) for english in most_words_first]


def _pattern(english: str) -> re.Pattern[str]:
    pattern = re.escape(english).replace(r"\{\}", "(.+?)")
    return re.compile(pattern.replace(r"\{message\}", "(?P<message>.+?)"), re.DOTALL)
