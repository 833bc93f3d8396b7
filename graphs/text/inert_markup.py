"""Inert markup: answers link to their sources, and nothing else of them links, loads or is HTML.

A page may tell a model to write an image whose address holds the conversation, and frontends load
images by themselves. Code is left alone where every renderer takes it for code: spans that close
on their line, and fences that no list, quote or formula may end otherwise. Beyond the first fence
that is doubtful no code of the answer is trusted, for live text might pass for it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from unicodedata import category

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
_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)\Z")
_PLAIN_INFO = re.compile(r"[^|<>&$\\]*")  # bars make it a table to some
_FENCE_MARK = re.compile(r"`{3}|~{3}")
# It belongs to a list, a quote or a directive, and ends where they end.
_CONTAINED_FENCE = re.compile(
    r"[ \t]*+(?:(?!:::)(?:[>:*+-]|\w{1,9}[.)]|\[.\])[ \t]*+)*+(?:`{3}|~{3}|:::)"
)
_ITEM = re.compile(r"( *)(?:[*+-]|(\d{1,9})[.)])( {1,4})(?=\S)")
# Formulas, in which some renderers see no code.
_FORMULA = re.compile(r"\$|\\[()\[\]]")
_FORMULA_IN_BRACES = re.compile(r"\\(?:ce|pu)\{")
_DISPLAY = re.compile(r"\$\$|(?<!\\)\\[\[\]]|\\begin\{equation")
_DISPLAY_ENDS = {"$$": "$$", "\\[": "\\]"}


@dataclass(frozen=True, slots=True)
class _Fence:
    """A block of code: its mark, how far in it stands, and how far in its end may stand."""

    mark: str
    indent: int
    end_indent: int
    is_drawn: bool


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
        self._fence: _Fence | None = None
        self._opened: _Fence | None = None
        self._trusts_code = self._trusts_paragraph = True
        self._has_formula = False
        self._display_end = ""
        self._item_offset = 0  # where the content of the latest list item begins
        self._is_after_blank = True

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
        pieces = []
        for line in whole:
            pieces += [self._take(line, has_end=True), "\n"]
            self._end_line()
        return "".join([*pieces, self._take(rest, has_end=is_last)])

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
        if self._fence is not None and not self._ends_item(line, self._fence):
            taken, at = self._code(line, at, has_end, self._fence)
        else:
            taken, at = self._prose(line, at, has_end)
        self._line, self._held = line[:at], line[at:]
        return taken

    def _ends_item(self, line: str, fence: _Fence) -> bool:
        """Whether the line stands before the fence: in a list that ends item and fence."""
        if not line.strip() or _indent(line) >= fence.indent:
            return False
        self._fence, self._trusts_code = None, False
        return True

    def _code(self, line: str, at: int, has_end: bool, fence: _Fence) -> tuple[str, int]:
        if not fence.is_drawn:
            return line[at:], len(line)
        stop = len(line) if has_end else max(at, len(line.rstrip(GRAPHIC + "`")))
        return self._defanger.harmless(line, at, stop, is_drawn=True), stop

    def _prose(self, line: str, at: int, has_end: bool) -> tuple[str, int]:
        pieces, indent = list[str](), _indent(line)
        while at < len(line):
            is_mark = at == indent and _FENCE_MARK.match(line, at)
            if at < indent:
                stop, is_code = indent, True
            elif is_mark and not has_end:
                break
            elif is_mark and self._opens_fence(line, at):
                stop, is_code = len(line), True
            elif line[at] == "`":
                stop, is_code = self._end_of_backticks(line, at, has_end), True
            else:
                stop, is_code = self._end_of_text(line, at, has_end), False
            if stop <= at:
                break
            if not is_code:
                self._has_formula |= _FORMULA.search(line, at, stop) is not None
                self._trusts_paragraph &= not _FORMULA_IN_BRACES.search(line, at, stop)
            pieces.append(line[at:stop] if is_code else self._defanger.harmless(line, at, stop))
            at = stop
        return "".join(pieces), at

    def _end_of_text(self, line: str, at: int, has_end: bool) -> int:
        """Up to the next backtick, or as far as it is settled."""
        stop = line.find("`", at)
        if stop >= 0:
            return stop
        return len(line) if has_end else self._defanger.settled(line, at)

    def _end_of_backticks(self, line: str, at: int, has_end: bool) -> int:
        """The end of the code that begins here, or of the backticks; `at` while nobody knows."""
        _, end = _BACKTICKS.match(line, at).span()  # type: ignore[union-attr]
        mark = line[at:end]
        ends = (it.span() for it in _BACKTICKS.finditer(line, end) if it[0] == mark)
        code_end, stop = next(ends, (end, 0))
        if not has_end and stop in (0, len(line)):
            return at
        if not stop and len(mark) >= 3:  # some may take it for a fence
            self._trusts_code = False
        code = line[end:code_end]
        is_sure = stop and line[at - 1 : at] != "\\" and "|" not in code  # cells end at bars
        is_sure = is_sure and not (self._has_formula and _FORMULA.search(code))
        if is_sure and self._trusts_code and self._trusts_paragraph and not self._display_end:
            return stop
        self._trusts_paragraph = False
        return end

    def _opens_fence(self, line: str, at: int) -> bool:
        """Whether its mark opens a fence to every renderer; a doubtful one ends all trust."""
        if not (fence := _FENCE.match(line, at)):
            self._trusts_code &= line[at] == "`"  # code within the line, if anything
            return False
        offset = self._item_offset if at >= self._item_offset else 0
        is_sure = (at <= 3 or offset <= at <= offset + 3) if offset else at <= 3
        is_plain = _PLAIN_INFO.fullmatch(fence["info"]) and not self._defanger.finds(line, at)
        if not (is_sure and is_plain) or self._display_end:
            self._trusts_code = False
        if self._trusts_code:
            words = re.findall(r"[\w-]+", fence["info"].casefold())
            end_indent = 3 if at <= 3 else offset + 3
            self._opened = _Fence(fence["mark"], at, end_indent, not DRAWN.isdisjoint(words))
            self._item_offset = offset
        return self._trusts_code

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        if self._opened is not None:
            self._fence, self._opened = self._opened, None
            self._trusts_paragraph, self._has_formula = True, False
        elif self._fence is not None:
            self._end_line_of_code(line, self._fence)
        elif line.strip(" \t"):
            self._end_line_of_prose(line)
            self._is_after_blank = False
        else:
            self._trusts_paragraph, self._has_formula = True, False
            self._is_after_blank = True

    def _end_line_of_code(self, line: str, fence: _Fence) -> None:
        """Ends the fence; what only some renderers take for its end ends all trust."""
        if line.strip(" \t`~") or not line.lstrip(" \t").startswith(fence.mark):
            return
        is_end = not line.strip(" ").strip(fence.mark[0]) and _indent(line) <= fence.end_indent
        self._fence, self._trusts_code = None, is_end

    def _end_line_of_prose(self, line: str) -> None:
        if _CONTAINED_FENCE.match(line) and not _FENCE_MARK.match(line, _indent(line)):
            self._trusts_code = False
        if marks := _DISPLAY.findall(line):
            self._follow_display(line.strip(), marks)
        self._find_item(line)

    def _follow_display(self, line: str, marks: Sequence[str]) -> None:
        """Keeps what ends the formula that lines are within; its marks stand alone, or in pairs."""
        if line == self._display_end:
            self._display_end = ""
        elif not self._display_end and not _is_paired(marks):
            self._display_end = _DISPLAY_ENDS.get(line, "")
            self._trusts_code &= bool(self._display_end)
        elif self._display_end:
            self._trusts_code = False

    def _find_item(self, line: str) -> None:
        """Keeps where the latest list item's content begins; 0 where it is not sure to go on."""
        item, offset, indent = _ITEM.match(line), self._item_offset, _indent(line)
        is_near = indent <= 3 or offset <= indent <= offset + 3 if offset else indent <= 3
        begins_list = item and (item[2] in (None, "1") or offset or self._is_after_blank)
        if item and begins_list and is_near:
            self._item_offset = item.end()
        elif indent < offset:
            self._item_offset = 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


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
