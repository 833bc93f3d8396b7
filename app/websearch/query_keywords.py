"""Search words of a question without a language model: named spans and rare terms."""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jieba import posseg
from tokenizers import Tokenizer

from app.retrieval.embedders.static import TABLE
from app.retrieval.tokenizer import STOP_WORDS_EN, STOP_WORDS_ZH, Segmenter, word_set
from graphs.text.language import language_of
from graphs.text.sentences import HAN

QUOTED = re.compile(r"《([^》]+)》|「([^」]+)」|『([^』]+)』|“([^”]+)”|\"([^\"]+)\"|`([^`]+)`")
WORD = re.compile(r"\d[\d,.]*\d(?:\s?[%°])?|\w+(?:[-'’.+#/]\w+)*[+#]*")
# Words that hold a name together: University of Oxford, Charles de Gaulle.
CONNECTORS = word_set("of the de la le von van da di du del al bin ibn and &")
# Words that are asked with rather than asked about, beside the stop words.
EMPTY_EN = word_set(
    "also between during happen happened happens many mean means much name named new old one"
    " people called kind type get got give gave goes made make makes take took come came use used"
    " using go done different difference explain describe list find work works"
)
EMPTY_ZH = word_set("请问 介绍 解释 说明 区别 意思 叫做 叫 名字 时候 时间 问题 人 年 月 日"
                    " 多 多大 多长 多高 多久 多远")  # fmt: skip
# What jieba would cut at its marks: self-crag, Node.js, gpt-4o.
CODE = re.compile(r"[A-Za-z0-9_]+(?:[-.+#]+[A-Za-z0-9_]+)*[+#]*")
NUMERALS = frozenset("一二三四五六七八九十百千万亿两几半零")
# What jieba's dictionary tags as an adverb.
NOUNS_ZH = word_set("首都")
MAX_PLAIN_WORDS = 4
# A question is told by its beginning; tagging unknown Chinese takes milliseconds a character.
MOST_CHARACTERS, MOST_CHINESE = 500, 200
MAX_CHINESE_SPAN = 10

QUOTE_RANK, NAME_RANK, NOUN_RANK, OTHER_RANK = 3, 2, 1, 0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the question; of higher `rank` first, then the rarer."""

    start: int
    end: int
    rank: int
    rarity: float


class QuestionKeywords:
    """The `KeywordExtractor` of the graphs. `load` takes a second; an answer takes microseconds.

    How rare a word is comes from the word counts of the shipped vocabularies: the web is searched
    with these words, so what is rare in general counts, not what is rare in this knowledge base.
    """

    def __init__(self, segmenter: Segmenter, folder: Path = TABLE) -> None:
        self._segmenter = segmenter
        self._folder = folder

    def load(self) -> None:
        """Reads dictionaries, which the first question would do otherwise."""
        self._segmenter.load()
        _ = self._tokenizer
        list(self._tagger.cut("词性"))

    async def keywords(self, question: str, most: int) -> Sequence[str]:
        return await asyncio.to_thread(self.find, question, most)

    def find(self, question: str, most: int = 3) -> Sequence[str]:
        """`keywords` on the calling thread: up to half a second of CPU for a long question."""
        question = question[:MOST_CHARACTERS]
        spans = self._chinese if language_of(question) == "zh" else self._english
        quoted = [
            Span(match.start(match.lastindex), match.end(match.lastindex), QUOTE_RANK, 0.0)
            for match in QUOTED.finditer(question)
            if match.lastindex
        ]
        free = [
            span
            for span in spans(question)
            if not any(span.start < taken.end and taken.start < span.end for taken in quoted)
        ]
        best = sorted([*quoted, *free], key=lambda span: (-span.rank, -span.rarity))
        chosen: dict[str, int] = {}
        for span in best:
            text = question[span.start : span.end].strip()
            if text and len(chosen) < most and text.lower() not in map(str.lower, chosen):
                chosen[text] = span.start
        return sorted(chosen, key=lambda text: chosen[text])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self._folder / "en_tokenizer.json"))

    @cached_property
    def _tagger(self) -> posseg.POSTokenizer:
        return posseg.POSTokenizer(self._segmenter.cutter)

    def _english(self, question: str) -> Iterator[Span]:
        """Runs of names, and runs of other telling words between them."""
        words = list(WORD.finditer(question))
        at = 0
        while at < len(words):
            end = self._name_end(words, at)
            rank = NAME_RANK
            if end == at:
                end, rank = self._plain_end(words, at), NOUN_RANK
            if end == at:
                at += 1
                continue
            rarity = max(self._rarity(word[0]) for word in words[at:end])
            start, stop = words[at].start(), words[end - 1].end()
            stop -= 2 if re.search(r"['’]s$", question[start:stop]) else 0
            yield Span(start, stop, rank, rarity)
            at = end

    def _name_end(self, words: Sequence[re.Match[str]], at: int) -> int:
        """Where the name beginning at word `at` ends; `at` itself where none begins there."""
        end = at
        for here in range(at, len(words)):
            word = words[here][0]
            if _is_name(word, first=here == 0) or _opens_title(words, here):
                end = here + 1
            elif here == at or word.lower() not in CONNECTORS or not _touch(words, here):
                break
        return end

    def _plain_end(self, words: Sequence[re.Match[str]], at: int) -> int:
        end = at
        while end < len(words) and end - at < MAX_PLAIN_WORDS:
            word = words[end][0]
            if _is_empty(word) or (end > at and not _touch(words, end)):
                break
            if end > at and _is_name(word, first=False):
                break
            end += 1
        return end

    def _rarity(self, word: str) -> float:
        """Rises with the word's place in a vocabulary ordered by frequency."""
        pieces = self._tokenizer.encode(word, add_special_tokens=False).ids
        return math.log(1 + max(pieces, default=0)) + (len(pieces) > 1)

    def _chinese(self, question: str) -> Iterator[Span]:
        simplified = self._segmenter.simplified(question)
        text = simplified if len(simplified) == len(question) else question
        place, run = 0, None
        for word, flag in self._words(text[:MOST_CHINESE]):
            start, place = place, place + len(word)
            span = self._tagged(word, flag, start)
            if run and span and _extends(run, span, word):
                run = Span(run.start, span.end, max(run.rank, span.rank),
                           max(run.rarity, span.rarity))  # fmt: skip
                continue
            if run:
                yield run
            run = span
        if run:
            yield run

    def _words(self, text: str) -> Iterator[tuple[str, str]]:
        """jieba's words and tags, with code names in one piece."""
        at = 0
        for code in CODE.finditer(text):
            if code[0].isalnum() or not re.search(r"[a-z]", code[0]):
                continue
            yield from self._tagger.cut(text[at : code.start()])
            yield code[0], "eng"
            at = code.end()
        yield from self._tagger.cut(text[at:])

    def _tagged(self, word: str, flag: str, start: int) -> Span | None:
        if word in STOP_WORDS_ZH | EMPTY_ZH or _is_empty(word):
            return None
        if flag in {"nr", "nrt", "nrfg", "ns", "nt", "nz", "eng"}:
            rank = NAME_RANK
        elif word in NOUNS_ZH or flag.startswith("n") or flag in {"vn", "m", "l", "i", "j", "x"}:
            rank = NOUN_RANK
        elif flag[0] in "va" and len(word) > 1:
            rank = OTHER_RANK
        else:
            return None
        if not (HAN.search(word) or word.isalnum() or flag == "eng"):
            return None
        counts = self._segmenter.cutter.FREQ
        rarity = math.log(self._segmenter.cutter.total / (counts.get(word) or 1))
        return Span(start, start + len(word), rank, rarity)


def _is_name(word: str, first: bool) -> bool:
    """Capitals, digits and code names; the first word of a question is no name by its capital."""
    if not word or word.lower() in STOP_WORDS_EN:
        return False
    if re.search(r"\d|_|\w[A-Z]", word):
        return True
    return word[0].isupper() and not (first and _is_empty(word))


def _opens_title(words: Sequence[re.Match[str]], here: int) -> bool:
    """A capital on a stop word inside the question belongs to a title: The System, No Man's Sky."""
    word = words[here][0]
    follows = words[here + 1][0] if here + 1 < len(words) else ""
    return here > 0 and len(word) > 1 and word[0].isupper() and _is_name(follows, first=False)


def _is_empty(word: str) -> bool:
    lower = re.sub(r"['’]s$", "", word.lower())
    return lower in STOP_WORDS_EN or lower in EMPTY_EN or (len(lower) < 2 and lower.isascii())


def _touch(words: Sequence[re.Match[str]], here: int) -> bool:
    """Nothing but a space stands between this word and the one before."""
    return words[here].string[words[here - 1].end() : words[here].start()].isspace()


def _extends(run: Span, span: Span, word: str) -> bool:
    """Neighbouring nouns are one term, and so are the pieces a foreign name is cut into.

    A noun of one character belongs to what stands before it: 知识条, 乌木城.
    """
    alike = run.rank == span.rank and run.rank > OTHER_RANK
    suffix = span.rank == NOUN_RANK and bool(HAN.fullmatch(word)) and word not in NUMERALS
    touch = run.end == span.start and span.end - run.start <= MAX_CHINESE_SPAN
    return touch and (alike or suffix)
