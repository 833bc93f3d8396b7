"""Error messages in the languages of users: the catalogue of translations.

As in gettext, a message is known by its English text. `{}` stands for what differs from case to
case, so that messages of libraries are translated too.
"""

import json
import re
from functools import cache
from importlib.resources import files

from prompts import Language

LONGEST = 2_000
"""Longer messages, in characters, are left as they are."""


def translated(message: str, language: Language) -> str:
    """The message in the language; unchanged where the catalogue lacks it."""
    if len(message) > LONGEST:
        return message
    for pattern, translation in _catalogue(language):
        if match := pattern.fullmatch(message):
            return translation.format(*(translated(part, language) for part in match.groups()))
    return message


@cache
def _catalogue(language: Language) -> list[tuple[re.Pattern[str], str]]:
    if language == "en":
        return []
    text = (files("prompts") / f"messages_{language}.json").read_text(encoding="utf-8")
    return [(_pattern(english), other) for english, other in json.loads(text).items()]


def _pattern(english: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(map(re.escape, english.split("{}"))), re.DOTALL)
