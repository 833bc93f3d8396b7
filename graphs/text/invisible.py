"""Invisible characters: format and control characters, and letters that show nothing."""

import re

# Printable all the same: of Default_Ignorable_Code_Point, and Braille's blank.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]+"
)


def without_invisible(text: str) -> str:
    """The text without them: tag characters, joiners, marks of direction; blanks stay."""
    if text.isascii() and text.isprintable():
        return text
    unseen = {ord(it): None for it in set(text) if not (it.isprintable() or it.isspace())}
    return _FILLERS.sub("", text.translate(unseen))
