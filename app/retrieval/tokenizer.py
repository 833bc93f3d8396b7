"""Tokenizer: the words that the full-text columns hold and that a query looks for.

Chinese is brought to Simplified characters first, so a Traditional question finds a Simplified
page and the other way round; then jieba cuts it in search mode, long words and their parts.
"""

import logging
import marshal
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from graphs.text.sentences import HAN

WORD = re.compile(r"[^\W_]")
# As jieba cuts what holds no ideograph, its two words of that kind included.
LATIN = re.compile(r"c\+\+|c#|[a-z0-9]+|[^\W_a-z0-9]")
# Each text is cut twice when it is read: for the index and for the embedder.
CACHED_TEXTS = 1024


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP_WORDS_EN = word_set(
    "a about an and any are as at be been but by can could did do does for from had has have how"
    " i if in into is it its me my no not of on or our please shall should so such tell than that"
    " the their them then there these they this those to was we were what when where which who"
    " whom whose why will with would you your"
)
STOP_WORDS_ZH = word_set(
    "的 了 吗 呢 吧 啊 呀 么 在 是 和 与 及 或 也 都 就 还 而 但 被 把 从 到 对 于 由 向 以 为 之"
    " 其 这 那 此 有 没有 没 不 我 你 他 她 它 我们 你们 他们 它们 自己 一个 什么 什麼 怎么 怎样"
    " 怎麽 如何 为什么 为何 哪 哪里 哪个 哪些 哪儿 谁 何 何时 几 多少 请 请问 可以 能 能否 是否"
    " 吗 嘛 关于 是什么 告诉 时候 哪一 一种 个"
)


class Segmenter:
    """Words by jieba's dictionary, after conversion from Traditional to Simplified Chinese.

    The dictionary takes 70 MB and half a second from the cache in `cache_dir`, else a second; the
    first text with an ideograph loads it, or `load`, once in a process. All methods are CPU work
    and safe to call from several threads.
    """

    def __init__(self, cache_dir: Path | None = None) -> None:
        self._cache_dir = cache_dir
        # Words in reading order, parts before the whole word; punctuation is left out.
        self.words = lru_cache(CACHED_TEXTS)(self._cut)

    def load(self) -> None:
        _dictionary(self._cache_dir)

    @property
    def cutter(self) -> Any:
        return _dictionary(self._cache_dir)[0]

    def simplified(self, text: str) -> str:
        """Simplified, width-folded and lower-cased: the form all Chinese words are kept in."""
        converted: str = _dictionary(self._cache_dir)[1].convert(_folded(text))
        return converted

    def query_words(self, text: str) -> list[str]:
        """Words worth looking for; all of them where nothing but stop words was asked."""
        words = list(dict.fromkeys(self.words(text)))
        telling = [word for word in words if word not in STOP_WORDS_ZH | STOP_WORDS_EN]
        return telling or words

    def _cut(self, text: str) -> tuple[str, ...]:
        if not HAN.search(text):
            return tuple(LATIN.findall(_folded(text)))
        cut = self.cutter.cut_for_search(self.simplified(text), HMM=False)
        return tuple(word for word in cut if WORD.search(word))


_loading = Lock()
_loaded: list[tuple[Any, Any]] = []


def _dictionary(cache_dir: Path | None) -> tuple[Any, Any]:
    """jieba's tokenizer, and the converter to Simplified characters."""
    with _loading:
        if not _loaded:
            # Both take their time, which who reads no document need not wait for.
            import jieba  # noqa: PLC0415
            import opencc  # noqa: PLC0415

            jieba.default_logger.setLevel(logging.WARNING)
            cutter = jieba.Tokenizer()
            if cache_dir is not None:
                _use_cache(cutter, cache_dir)
            cutter.initialize()
            _loaded.append((cutter, opencc.OpenCC("t2s")))
        return _loaded[0]


def _use_cache(cutter: Any, folder: Path) -> None:
    """jieba's own cache, in `folder`, read at once: jieba reads it in a million small pieces."""
    folder.mkdir(parents=True, exist_ok=True)
    cutter.tmp_dir = str(folder)
    with suppress(OSError, ValueError, EOFError, TypeError):
        cutter.FREQ, cutter.total = marshal.loads((folder / "jieba.cache").read_bytes())
        cutter.initialized = True


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def english_query(text: str) -> str:
    """The question without its question words; unchanged where nothing else is in it."""
    words = re.findall(r"\w+", text.lower())
    telling = [word for word in words if word not in STOP_WORDS_EN]
    return " ".join(telling or words)
