"""Sentences and strips of English and Chinese text, without dictionaries or models."""

import re
from collections.abc import Iterator, Sequence

from graphs.options import StripMode

IDEOGRAPHS = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HAN = re.compile(f"[{IDEOGRAPHS}]")

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
_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")

# About 60 subword tokens: short enough to be about one thing, long enough to be understood alone.
STRIP_WORDS = 45
FIXED_WORDS, MIN_TAIL_WORDS = 50, 10
GROUP = 3


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
        goes_on = mark[0][0] in ".!?…" and mark[0][-1] not in "!?" and follows.islower()
        return not goes_on
    line = text.rfind("\n", 0, mark.start()) + 1
    before = text[max(line, mark.start() - MAX_ABBREVIATION_CHARS) : mark.end()]
    found = _ABBREVIATION.search(before)
    if not found:
        return True
    return found[0].strip(" (").rstrip(".") in _CLOSES_SENTENCE and (
        not follows or follows.isupper() or bool(HAN.match(follows))
    )


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    piece = text[start:end]
    stripped = piece.strip()
    if not stripped:
        return None
    start += piece.index(stripped)
    return start, start + len(stripped)


def split_strips(text: str, mode: StripMode = "sentences") -> list[str]:
    """Knowledge strips in reading order (CRAG 4.4).

    sentences: one or two sentences are one strip, longer text is cut every few sentences by
    length. groups: every three sentences. words: every 50 words, a tail under 10 joins the strip
    before. passage: the whole text.
    """
    if mode == "passage":
        return [text.strip()] if text.strip() else []
    if mode == "words":
        return _fixed_windows(text)
    spans = sentence_spans(text)
    if mode == "groups":
        groups = [spans[at : at + GROUP] for at in range(0, len(spans), GROUP)]
    else:
        groups = [spans] if 0 < len(spans) <= 2 else list(_grouped_by_length(text, spans))
    return [text[group[0][0] : group[-1][1]] for group in groups if group]


def _grouped_by_length(
    text: str, spans: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    """Sentences in runs of about STRIP_WORDS; a short last run joins the one before."""
    groups: list[list[tuple[int, int]]] = []
    size = 0.0
    for start, end in spans:
        length = word_count(text[start:end])
        if groups and size + length / 2 <= STRIP_WORDS:
            groups[-1].append((start, end))
            size += length
        else:
            groups.append([(start, end)])
            size = length
    if len(groups) > 1 and size < MIN_TAIL_WORDS:
        groups[-2:] = [groups[-2] + groups[-1]]
    yield from groups


def _fixed_windows(text: str) -> list[str]:
    units = [(match.start(), match.end(), match[0]) for match in _WORD.finditer(text)]
    windows: list[list[tuple[int, int, str]]] = []
    size = 0.0
    for unit in units:
        weight = 0.5 if HAN.match(unit[2]) else 1.0
        if not windows or size + weight > FIXED_WORDS:
            windows.append([])
            size = 0.0
        windows[-1].append(unit)
        size += weight
    if len(windows) > 1 and size < MIN_TAIL_WORDS:
        windows[-2:] = [windows[-2] + windows[-1]]
    return [text[window[0][0] : window[-1][1]] for window in windows]
