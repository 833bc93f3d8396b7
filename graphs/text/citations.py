"""Citations: the `[n]` in an answer and the sentences they stand behind.

Models also write `【1】`, `[1, 2]` or `[1-3]`, which become `[1]`, `[1][2]` and `[1][2][3]`.
In code between backticks a number in brackets is a subscript and stays as it is.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from graphs.text.sentences import sentence_spans, without_invisible
from graphs.types import Citation, Strip

# What runs from three or more backticks to as many, or to the end, and short code within a line.
MAX_INLINE_CODE_CHARS = 300
_CODE = (
    r"(?P<fence>`{3,})[\s\S]*?(?:(?P<closed>(?P=fence)`*)|\Z)"
    rf"|(?<!`)(?P<ticks>`{{1,2}})(?!`)[^\n]{{1,{MAX_INLINE_CODE_CHARS}}}?(?<!`)(?P=ticks)(?!`)"
)
_NUMBER = r"[1-9１-９]\d{0,2}"  # `items[0]` cites nothing
_ITEM = rf"{_NUMBER}(?: ?[-–—~～] ?{_NUMBER})?"
_COMMA = "[,，、;；]"
_ITEMS = rf"(?P<items>{_ITEM}(?: ?{_COMMA} ?{_ITEM}){{0,9}})"
_GROUP = rf"(?P<blank>\s?)[\[［【]{_ITEMS}[\]］】]"
# What a model that copies it may take for one.
_LOOSE_GROUP = rf"(?P<blank>\s?)[\[［【]\s{{0,3}}{_ITEMS}\s{{0,3}}[\]］】]"
# What may still become code or a group when more text arrives; a group has at most 117 characters.
_UNSETTLED = (
    rf"(?P<unsettled>(?<!`)`{{1,2}}(?!`)[^\n]{{0,{MAX_INLINE_CODE_CHARS}}}\Z"
    r"|\s?[\[［【](?:\d[-–—~～,，、;；\d ]{0,117})?\Z|\s\Z)"
)
_MARKER = re.compile(r"\[([1-9]\d{0,2})\]")
_SUBSCRIPT = re.compile(r"(?<!\w)\w+(?:\[[\w.:+*-]{1,30}\])+", re.ASCII)
_SUBSCRIPT_OR_GROUP = re.compile(rf"(?a:{_SUBSCRIPT.pattern})|{_LOOSE_GROUP}")
_LEADING_MARKERS = re.compile(r"(?:\s*\[[1-9]\d{0,2}\])+")
_CODE_ALONE = re.compile(_CODE)
_CODE_OR_BACKTICKS = re.compile(rf"{_CODE}|`+")
_CODE_OR_GROUP = re.compile(f"{_CODE}|{_GROUP}")
_CODE_OR_LOOSE_GROUP = re.compile(f"{_CODE}|{_LOOSE_GROUP}")
_PIECE = re.compile(f"{_CODE}|{_GROUP}|{_UNSETTLED}")
_END_MARKS = "。！？；.!?"


def with_marker(sentence: str, n: int) -> str:
    """The sentence with `[n]` before its end mark; a block of code is closed by its own line.

    A row of a table bears it in its last cell.
    """
    body = sentence.rstrip(f"{_END_MARKS}| ")
    blank = "\n" if body.endswith("\n```") else " " if body[-1:].isascii() else ""
    return f"{body}{blank}[{n}]{sentence[len(body) :]}"


def cited_numbers(text: str) -> list[int]:
    """The n of every `[n]`, each once, in order."""
    return list(dict.fromkeys(int(marker[1]) for marker in _MARKER.finditer(_without_code(text))))


def renumbered(text: str, numbers: Mapping[int, int]) -> str:
    """The text with every `[n]` that has another number under that one."""
    pieces, at = list[str](), 0
    for marker in _MARKER.finditer(_without_code(text)):
        n = int(marker[1])
        pieces += [text[at : marker.start()], f"[{numbers.get(n, n)}]"]
        at = marker.end()
    return "".join([*pieces, text[at:]])


def with_sources(answer: str, sources: Mapping[str, int]) -> str:
    """The answer with these sentences, named without markers, citing their number alone."""
    pieces, at = list[str](), 0
    for start, end in answer_sentences(answer):
        sentence = without_markers(answer[start:end]).strip()
        if sentence in sources and with_closed_code(sentence) == sentence:
            pieces += [answer[at:start], with_marker(sentence, sources[sentence])]
            at = end
    return "".join([*pieces, answer[at:]])


def without_markers(text: str) -> str:
    """The text without `[n]`: a source's own footnotes would pass for citations of ours."""
    bare = _known_alone(text, known=0)
    # Where one stood within another, what is left of them is a marker as well.
    return _CODE_OR_GROUP.sub(
        lambda left: _rounded(left) if (left["items"] or "").isdigit() else left[0], bare
    )


def with_round_markers(text: str) -> str:
    """The text with `(n)` for `[n]`, which would cite; in code a subscript stays: `argv[1]`."""
    return _CODE_OR_LOOSE_GROUP.sub(
        lambda piece: (
            _SUBSCRIPT_OR_GROUP.sub(_rounded, piece[0])
            if piece["items"] is None
            else _rounded(piece)
        ),
        text,
    )


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with what is no code of it changed."""
    pieces, at = list[str](), 0
    for code in _CODE_ALONE.finditer(text):
        pieces += [change(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*pieces, change(text[at:])])


def _rounded(group: re.Match[str]) -> str:
    return f"{group['blank']}({group['items']})" if group["items"] else group[0]


def with_closed_code(text: str) -> str:
    """The text without backticks that open no code: what is put behind it would pass for code."""
    return _CODE_OR_BACKTICKS.sub(
        lambda code: code[0] if code["closed"] or code["ticks"] else code[0].replace("`", ""), text
    )


async def without_unknown_markers(chunks: AsyncIterator[str], known: int) -> AsyncIterator[str]:
    """The streamed text without markers above `known`; one cut in two by the stream is held."""
    held = fence = ""
    backticks: list[str] = []
    async for chunk in chunks:
        if not chunk.strip("`"):  # settles nothing; a long row of them is read but once
            backticks.append(chunk)
            continue
        ready, held, fence = _settled(fence, "".join([held, *backticks, chunk]), known)
        backticks.clear()
        if ready:
            yield ready
    if text := _known_alone("".join([fence, held, *backticks]), known)[len(fence) :]:
        yield text


def _settled(fence: str, text: str, known: int) -> tuple[str, str, str]:
    """What no later text can change, what is held, and the line that opened the code it is in.

    `fence` is that line where the text begins within code, else empty. Backticks at the end are
    held: there may come more of them.
    """
    whole = fence + text
    body = fence + text.rstrip("`")
    last = next(reversed(list(_PIECE.finditer(body))), None)
    cut = last.start() if last and last["unsettled"] else len(body)
    is_open = last is not None and last["fence"] and not last["closed"]
    ready = _known_alone(body[:cut], known)[len(fence) :]
    return ready, whole[cut:], f"{last['fence']}\n" if last and is_open else ""


def _known_alone(text: str, known: int) -> str:
    return _CODE_OR_GROUP.sub(lambda piece: _as_markers(piece, known), text)


def _as_markers(piece: re.Match[str], known: int) -> str:
    """`[n]` for each number where all are known; code and what cites nothing stay as they are.

    `[1, 2, 9]` is a list with a mistake where at least two of three or more are known: the others
    are left out, as `[9]` alone is. Otherwise `[18-65]` and `[10, 20]` are figures.
    """
    if piece["items"] is None:
        return piece[0]
    items = [list(map(int, re.findall(r"\d+", it))) for it in re.split(_COMMA, piece["items"])]
    numbers = dict.fromkeys(n for ends in items for n in range(ends[0], ends[-1] + 1))
    valid = [n for n in numbers if n <= known]
    are_single = max(map(len, items)) == 1
    has_mistake = are_single and len(numbers) >= 3 and len(valid) >= 2
    if valid and (has_mistake or len(valid) == len(numbers)):
        return piece["blank"] + "".join(f"[{n}]" for n in valid)
    return "" if are_single and len(items) == 1 else piece[0]


def _without_code(text: str) -> str:
    """The text, as long as before, with its code crossed out."""
    return _CODE_ALONE.sub(lambda code: "x" * len(code[0]), text)


def prose_of(text: str) -> str:
    """The text, as long as before, with line ends for blocks of code and x for code in a line.

    A line with backticks that open no code stays: nobody knows which of them belong together.
    """
    return "\n".join(
        _without_code(line) if with_closed_code(line) == line else line
        for line in without_blocks(text).split("\n")
    )


def without_blocks(text: str) -> str:
    """The text, as long as before, with line ends for blocks of code."""
    return _CODE_ALONE.sub(lambda code: "\n" * len(code[0]) if _is_block(code) else code[0], text)


def _is_block(code: re.Match[str]) -> bool:
    """Whether it is more than part of a line; a block that is left open begins its line."""
    if code["ticks"] or code["closed"]:
        return "\n" in code[0]
    line = code.string.rfind("\n", 0, code.start()) + 1
    return not any(map(str.isalpha, code.string[line : code.start()]))


def citations_in(
    answer: str, knowledge: Sequence[Strip], cites: Sequence[int] = ()
) -> list[Citation]:
    """One citation for every strip the answer names, by number, with the sentences it names it in.

    `[n]` is the n-th strip of `knowledge`, counted from 1; other numbers cite nothing, and neither
    do subscripts quoted from the code of a strip. `cites` are those behind the whole of an answer
    without markers.
    """
    spans: dict[int, list[tuple[int, int]]] = {n: [(0, len(answer))] for n in cites}
    prose = _without_subscripts(prose_of(answer), knowledge)
    for start, end in answer_sentences(answer):
        for n in cited_numbers(prose[start:end]):
            spans.setdefault(n, []).append((start, end))
    return [
        _citation(n, knowledge[n - 1], spans[n]) for n in sorted(spans) if 1 <= n <= len(knowledge)
    ]


def _without_subscripts(prose: str, knowledge: Sequence[Strip]) -> str:
    """The text, as long as before, with x for the subscripts that the knowledge was shown with."""
    if not (subscripts := set(_SUBSCRIPT.findall(prose))):
        return prose
    shown = (with_round_markers(without_invisible(strip.full_text)) for strip in knowledge)
    quoted = subscripts & {it for text in shown for it in _SUBSCRIPT.findall(text)}
    return _SUBSCRIPT.sub(lambda it: "x" * len(it[0]) if it[0] in quoted else it[0], prose)


def answer_sentences(answer: str) -> list[tuple[int, int]]:
    """Sentences of the answer; markers that follow an end mark belong to the sentence before."""
    spans, prose = list[tuple[int, int]](), prose_of(answer)
    for start, end in sentence_spans(prose):
        leading = _LEADING_MARKERS.match(prose, start, end)
        if leading and spans:
            spans[-1] = (spans[-1][0], leading.end())
            start = end - len(answer[leading.end() : end].lstrip())
        if start < end and answer[start:end].strip(_END_MARKS):
            spans.append((start, end))
    return spans


def whole_sentences(answer: str) -> str:
    """The answer up to its last whole sentence; empty where none is whole."""
    spans = answer_sentences(answer)
    if spans and not _is_whole(answer[slice(*spans[-1])]):
        return answer[: spans[-2][1]] if len(spans) > 1 else ""
    return answer.rstrip()


def _is_whole(sentence: str) -> bool:
    """Whether it ends with its mark, and is no number of a list."""
    text = without_markers(sentence).rstrip("\"'”’」』）)】]*_ ")
    return text.endswith(tuple(_END_MARKS + "…")) and any(map(str.isalpha, text))


def _citation(n: int, strip: Strip, spans: Sequence[tuple[int, int]]) -> Citation:
    return Citation(
        n=n,
        strip_id=strip.id,
        origin=strip.origin,
        title=strip.title,
        source=strip.source,
        text=strip.whole or strip.full_text,
        score=strip.score,
        spans=tuple(spans),
    )
