"""Inert markup: answers link to their sources, and nothing else of them links, loads or is HTML.

A page may tell a model to write an image whose address holds the conversation, and frontends load
images by themselves. Code is left alone where every renderer takes it for code: spans that close
on their line, and fences that a parser of CommonMark finds and other renderers find where it does.
Beyond the first fence that is doubtful no code of the answer is trusted, for live text might pass
for it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from unicodedata import category

from markdown_it import MarkdownIt
from markdown_it.token import Token

from graphs.text.defanging import GRAPHIC, KINDS, Defanger
from graphs.text.prompt_injection import as_quotation
from graphs.text.sentences import stands_in
from graphs.types import AnswerLinks, Degraded, Draft, Strip

DRAWN = frozenset(
    [
        *("mermaid", "svg", "html", "htm", "xhtml", "xml", "css", "markdown", "md", "mdx", "vega"),
        *("vega-lite", "plantuml", "puml", "dot", "graphviz", "d2", "markmap", "echarts", "chart"),
        *("plotly", "drawio", "geojson", "topojson", "iframe", "image", "react"),
    ]
)
"""Languages of fences that some frontend draws: they keep no address."""

SHOWN_AS_TEXT = "Shown as text, for the answer links to its sources alone"
"""How a reason in `degraded` begins that tells what was made inert."""

_HIDDEN = ("Cc", "Cf")
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029\x85\x0b\x0c]")
_JOINERS = "\u200c\u200d"  # of emoji, and of scripts that join their letters
_STRAY_JOINERS = re.compile(rf"(?<![^\x00-\x7f])[{_JOINERS}]|[{_JOINERS}](?![^\x00-\x7f])")
_ROW_OF_JOINERS = re.compile(rf"(?<=[{_JOINERS}])[{_JOINERS}]+")
# What settles nothing where a word is held, and where code is.
_WORD, _CODE = re.compile(r"[!-_a-~]*"), re.compile(r"[^`\n]*")

_BACKTICKS = re.compile(r"`+")
_PLAIN_INFO = re.compile(r"[^|<>&$\\`]*")  # bars make it a table to some
_DELIMITER_ROW, _MAY_BE_ONE = re.compile(r"[ \t>|:-]*-[ \t>|:-]*"), re.compile(r"[ \t>|:-]*")
_FENCE_MARK = re.compile(r"~{3}|:{3}")
# Formulas, in which some renderers see no code.
_FORMULA = re.compile(r"\$|\\[()\[\]]")
_FORMULA_IN_BRACES = re.compile(r"\\(?:ce|pu)\{")
_DISPLAY = re.compile(r"\$\$|(?<!\\)\\[\[\]]|\\begin\{equation")
_DISPLAY_ENDS = {"$$": "$$", "\\[": "\\]"}

_BLOCKS = MarkdownIt("commonmark")
_BLOCKS.core.ruler.enableOnly(["normalize", "block"])


class InertMarkup:
    """Makes a text inert while it is written; what `feed` and `end` give out is so at any time.

    `sources` are the addresses that may be linked; None: any, and the text stays as it is.
    """

    def __init__(self, sources: Iterable[str] | None) -> None:
        self._is_off = sources is None
        self._defanger = Defanger(sources or ())
        self._waiting: list[str] = []
        self._line = ""  # what of it is given out, as it was
        self._held = self._pending = ""
        self._shown = ""  # what it became
        self._lines: list[str] = []  # before it, from the latest block or item of a list on
        self._fence: Token | None = None
        self._is_drawn = False
        self._trusts_code = self._trusts_paragraph = True
        self._has_formula = self._has_mark = self._is_table = False
        self._display_end = ""

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """How much was made inert, by kind; nothing of it is repeated."""
        counts = self._defanger.counts
        parts = [f"{n} {names[n != 1]}" for kind, names in KINDS.items() if (n := counts[kind])]
        reason = f"{SHOWN_AS_TEXT}: {', '.join(parts)}."
        return (Degraded("generator", reason),) if parts else ()

    def feed(self, text: str) -> str:
        """What can be given out by now: all but the last word, and code that is not whole."""
        if self._is_off:
            return text
        self._waiting.append(text)
        if (_CODE if self._held.startswith("`") else _WORD).fullmatch(text):
            return ""  # what is held is read again but where it may have an end
        return self._advance(is_last=False)

    def end(self) -> str:
        """The rest."""
        return self._advance(is_last=True)

    def whole(self, text: str) -> str:
        """A whole text at once."""
        return self.feed(text) + self.end()

    def _advance(self, *, is_last: bool) -> str:
        text = "".join([self._held, self._pending, *self._waiting])
        self._waiting.clear()
        *whole, rest = self._visible(text, is_last).split("\n")
        tail = ""
        if whole and not is_last and {*"`|"} <= {*whole[-1]} and _MAY_BE_ONE.fullmatch(rest):
            tail, rest = f"\n{rest}", whole.pop()  # its code may be cells, as the next line says
        pieces = []
        for lines in pairwise([*whole, rest]):
            self._is_table |= any(map(_DELIMITER_ROW.fullmatch, lines))
            pieces += [self._take(lines[0], has_end=True), "\n"]
            self._end_line()
        pieces.append(self._take(rest, has_end=is_last))
        self._held += tail
        return "".join(pieces)

    def _visible(self, text: str, is_last: bool) -> str:
        """Without what is not seen; joiners stay between characters beyond ASCII.

        All that some reader takes for the end of a line is one.
        """
        stays = {*_JOINERS, *"\t\n\r\x85\x0b\x0c"}
        hidden = {it for it in set(text) - stays if category(it) in _HIDDEN}
        text = text.translate(dict.fromkeys(map(ord, hidden))) if hidden else text
        text = _ROW_OF_JOINERS.sub("", text)
        settled = text if is_last else text.rstrip(f"\r{_JOINERS}")
        self._pending = text[len(settled) :]
        settled = _LINE_ENDS.sub("\n", settled)
        before = self._line[-1:]
        return _STRAY_JOINERS.sub("", before + settled)[len(before) :]

    def _take(self, text: str, *, has_end: bool) -> str:
        """The line's next part, as far as no later text changes it; the rest is held."""
        line, at = self._line + text, len(self._line)
        if self._fence is not None and self._is_within(line, self._fence):
            taken, at = self._code(line, at, has_end)
        else:
            taken, at = self._prose(line, at, has_end)
        self._line, self._held = line[:at], line[at:]
        self._shown += taken
        return taken

    def _is_within(self, line: str, fence: Token) -> bool:
        """Whether the line stands in the block of code; one that is left open ends all trust."""
        if not fence.level or not line.strip(" \t>") or self._line.strip(" \t>"):
            return True
        if _fence_at_end([*self._lines, line])[1]:
            return True
        self._fence, self._trusts_code = None, False
        return False

    def _code(self, line: str, at: int, has_end: bool) -> tuple[str, int]:
        if not self._is_drawn:
            return line[at:], len(line)
        stop = len(line) if has_end else max(at, len(line.rstrip(GRAPHIC + "`")))
        return self._defanger.harmless(line, at, stop, is_drawn=True), stop

    def _prose(self, line: str, at: int, has_end: bool) -> tuple[str, int]:
        pieces = list[str]()
        while at < len(line):
            if is_code := line[at] == "`":
                stop = self._end_of_backticks(line, at, has_end)
            elif (stop := line.find("`", at)) < 0:
                stop = len(line) if has_end else self._defanger.settled(line, at)
            if stop <= at:
                break
            if not is_code:
                self._has_formula |= _FORMULA.search(line, at, stop) is not None
                self._has_mark |= _FENCE_MARK.search(line, at, stop) is not None
                self._trusts_paragraph &= not _FORMULA_IN_BRACES.search(line, at, stop)
            pieces.append(line[at:stop] if is_code else self._defanger.harmless(line, at, stop))
            at = stop
        return "".join(pieces), at

    def _end_of_backticks(self, line: str, at: int, has_end: bool) -> int:
        """The end of the code that begins here, or of the backticks; `at` while nobody knows."""
        _, end = _BACKTICKS.match(line, at).span()  # type: ignore[union-attr]
        mark = line[at:end]
        ends = (it.span() for it in _BACKTICKS.finditer(line, end) if it[0] == mark)
        code_end, stop = next(ends, (end, 0))
        code = line[end:code_end]
        if not has_end and (stop in (0, len(line)) or "|" in code):
            return at
        self._has_mark |= not stop and len(mark) >= 3
        self._trusts_paragraph &= stop > 0 and line[at - 1 : at] != "\\" and self._is_sure(code)
        return stop if self._trusts_paragraph else end

    def _is_sure(self, code: str) -> bool:
        """Whether no renderer takes it for cells, which end at bars, or for part of a formula."""
        if not self._trusts_code or self._display_end or (self._is_table and "|" in code):
            return False
        return not (self._has_formula and _FORMULA.search(code))

    def _end_line(self) -> None:
        line, self._line, self._shown = self._shown, "", ""
        if self._fence is not None:
            self._end_line_of_code(line, self._fence)
            return
        self._lines.append(line)
        if not line.strip(" \t"):
            self._trusts_paragraph, self._has_formula, self._is_table = True, False, False
        elif marks := _DISPLAY.findall(line):
            self._follow_display(line.strip(), marks)
        if self._has_mark and self._trusts_code:
            self._open_fence()
        self._has_mark = False

    def _end_line_of_code(self, line: str, fence: Token) -> None:
        """Ends the fence; what only some renderers take for its end ends all trust."""
        mark = line.strip(" \t>" if fence.level else " \t")
        if not mark:
            self._lines.append(line)  # other lines of code say nothing on what they stand in
        elif not mark.strip("`~") and mark.startswith(fence.markup):
            self._lines.append(line)
            (latest, above), self._fence = _fence_at_end(self._lines), None
            is_end = latest is not None and latest.content.count("\n") < above
            self._trusts_code = is_end and "\t" not in line and not mark.strip(fence.markup[0])

    def _open_fence(self) -> None:
        """Where the line begins one to every renderer; anything else like it ends all trust."""
        blocks = _BLOCKS.parse("\n".join(self._lines))
        begins = [
            it.map[0] for it in blocks if it.map and it.level <= (it.type == "list_item_open")
        ]
        del self._lines[: max(begins, default=0)]
        # A quote that a line without its mark goes on is read in many ways.
        is_lazy = len({line.lstrip(" ").startswith(">") for line in self._lines}) > 1
        is_doubtful = self._display_end or is_lazy
        fence = None if is_doubtful else _fence_at_end(self._lines)[0]
        if fence and _PLAIN_INFO.fullmatch(fence.info) and not self._defanger.finds(fence.info, 0):
            self._fence, self._trusts_paragraph, self._has_formula = fence, True, False
            words = re.findall(r"[\w-]+", fence.info.casefold())
            self._is_drawn = not DRAWN.isdisjoint(words)
        else:
            self._trusts_code = False

    def _follow_display(self, line: str, marks: Sequence[str]) -> None:
        """Keeps what ends the formula that lines are within; its marks stand alone, or in pairs."""
        if line == self._display_end:
            self._display_end = ""
        elif not self._display_end and not _is_paired(marks):
            self._display_end = _DISPLAY_ENDS.get(line, "")
            self._trusts_code &= bool(self._display_end)
        elif self._display_end:
            self._trusts_code = False


def _fence_at_end(lines: Sequence[str]) -> tuple[Token | None, int]:
    """The block of code that the last line is of, and how many of its lines are above that."""
    last = len(lines) - 1
    for it in _BLOCKS.parse("\n".join([*lines, ""])):
        if it.type == "fence" and it.map and it.map[0] <= last < it.map[1]:
            return it, last - it.map[0]
    return None, 0


def _is_paired(marks: Sequence[str]) -> bool:
    """Whether a line ends all formulas that it begins."""
    ends = [_DISPLAY_ENDS.get(mark) for mark in marks[::2]]
    return len(marks) % 2 == 0 and ends == list(marks[1::2])


def told_once(degraded: Iterable[Degraded]) -> list[Degraded]:
    """Without repetitions; of markup made inert in several drafts the latest is reported."""
    by_reason = {
        (it.component, SHOWN_AS_TEXT if it.reason.startswith(SHOWN_AS_TEXT) else it.reason): it
        for it in degraded
    }
    return list(by_reason.values())


def inert(text: str, sources: Iterable[str] = ()) -> str:
    """The whole text, made inert."""
    return InertMarkup(sources).whole(text)


def is_quoted(sentence: str, text: str, sources: Iterable[str]) -> bool:
    """Whether it stands in the text word for word, or in what an answer would show of that."""
    if stands_in(sentence, text):
        return True
    shown = as_quotation(text)
    return stands_in(sentence, shown) or stands_in(sentence, inert(shown, sources))


def markup_of(knowledge: Sequence[Strip], links: AnswerLinks) -> InertMarkup:
    """For an answer from this knowledge."""
    return InertMarkup(None if links == "all" else [strip.source for strip in knowledge])


def inert_draft(draft: Draft, links: AnswerLinks) -> tuple[Draft, tuple[Degraded, ...]]:
    """The draft made inert, and the degradations to report."""
    markup = markup_of(draft.knowledge, links)
    return replace(draft, answer=markup.whole(draft.answer)), markup.degraded
