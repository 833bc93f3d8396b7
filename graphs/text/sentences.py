"""Sentences and strips of English and Chinese text, without dictionaries or models."""

import re

IDEOGRAPHS = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HAN = re.compile(f"[{IDEOGRAPHS}]")
WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W_{IDEOGRAPHS}]+")
"""A word, or one ideograph."""

# Marks that end a sentence, with the quotes and brackets that close after them and the numbers
# of footnotes. Possessive, for a long row of dots would else be tried from every dot.
_END = re.compile(
    r"[。！？；]+[”’」』）】》\"']*(?:\[\d{1,3}\])*"
    r"|(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?:\[\d{1,3}\])*+(?=\s|$|[\u3400-\u9fff])"
    r"|\n+"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|al|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Inc|Ltd|Co|No|Nos|Fig|Figs|Eq|"
    r"Sec|Ch|Vol|pp|approx|ca|a\.m|p\.m|U\.S|U\.K|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    r"|(?:^|[\s(])[A-Z](?:\.[A-Z])*|^\s*\d{1,3})\.$"
)
_CLOSES_SENTENCE = frozenset({"a.m", "p.m", "etc", "al", "Inc", "Ltd", "Co", "Jr", "Sr"})
MAX_ABBREVIATION_CHARS = 16
_GOES_ON = frozenset("…,;:，；：、")
"""No sentence begins with these: the mark before them is part of a name or a quotation."""
# Printable all the same: of Default_Ignorable_Code_Point, and Braille's blank.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]+"
)


def word_count(text: str) -> float:
    """English words; two ideographs count as one word."""
    ideographs = len(HAN.findall(text))
    return len(HAN.sub(" ", text).split()) + ideographs / 2


def token_count(text: str) -> int:
    """About as many tokens as a language model makes of it: four for three words."""
    return round(word_count(text) * 4 / 3) + 1


def sentences(text: str) -> list[str]:
    """The sentences in order, each as it stands in the text, outer blanks removed.

    They end at 。！？； and . ! ? alike and at line ends; abbreviations, initials, decimals and
    list numbers end none, nor does a quotation or an ellipsis that goes on in lower case.
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """[start, end) of each sentence."""
    cuts = [match.end() for match in _END.finditer(text) if _ends_sentence(text, match)]
    spans = zip([0, *cuts], [*cuts, len(text)], strict=True)
    return [span for start, end in spans if (span := _trimmed(text, start, end))]


def _ends_sentence(text: str, mark: re.Match[str]) -> bool:
    follows = text[mark.end() : mark.end() + 3].lstrip()[:1]
    if mark[0] != ".":
        may_go_on = mark[0][-1] not in "!?" and follows.islower()
        return not (mark[0][0] in ".!?…" and (may_go_on or follows in _GOES_ON))
    line = text.rfind("\n", 0, mark.start()) + 1
    before = text[max(line, mark.start() - MAX_ABBREVIATION_CHARS) : mark.end()]
    abbreviation = _ABBREVIATION.search(before)
    if not abbreviation:
        return True
    return abbreviation[0].strip(" (").rstrip(".") in _CLOSES_SENTENCE and (
        not follows or follows.isupper() or bool(HAN.match(follows))
    )


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    piece = text[start:end]
    stripped = piece.strip()
    if not stripped:
        return None
    start += piece.index(stripped)
    return start, start + len(stripped)


def stands_in(sentence: str, text: str) -> bool:
    """Whether the sentence stands in the text word for word, marks around it aside."""
    wording = plain(sentence)
    whole = re.compile(rf"(?<![0-9a-z]){re.escape(wording)}(?![0-9a-z])")
    return bool(wording) and whole.search(plain(text)) is not None


def plain(answer: str) -> str:
    """What makes two answers the same: case, blanks and outer marks aside."""
    return " ".join(answer.casefold().split()).strip(" .。!！?？;；,，:：\"'“”‘’()（）[]*`")


def without_invisible(text: str) -> str:
    """The text without them: tag characters, joiners, marks of direction; blanks stay."""
    if text.isascii() and text.isprintable():
        return text
    unseen = {ord(it): None for it in set(text) if not (it.isprintable() or it.isspace())}
    return _FILLERS.sub("", text.translate(unseen))
