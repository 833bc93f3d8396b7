"""Random questions, passages and strips as long as real ones, in English and Chinese, seeded.

Their words are common ones drawn by Zipf's law, so that a tokenizer cuts them as it cuts text;
what they say is nothing. For measuring speed, never quality.
"""

import math
import random
from dataclasses import dataclass
from typing import Literal

Pair = tuple[str, str]
Language = Literal["en", "zh"]

_ENGLISH = """the of and in to a is was for on as with by it from are at were which its has an be or
this first one also their they between city after who two during other time new many into year
river more than century about world most under island used three public known where state early
school part village over company people built north system later government several area history
population species national station south music university line church family became often found
large east water group film league west construction member early power service battle region
network theory railway molecule harbour treaty parliament photosynthesis administration"""
_CHINESE = """的 是 在 了 和 有 于 为 年 与 以 中国 一个 城市 地区 其中 成为 可以
进行 主要 由于 公司 位于 开始 使用 世界 人口 历史 大学 政府 河流 车站 发展 建立 文化 第一
之间 他们 后来 部分 国家 时期 电影 音乐 铁路 学校 研究 系统 组织 活动 作品 北京 服务 理论
战争 地方 建筑 工程 语言 生物 面积 影响 同时 最大 目前 公里 重要 不同 教育 技术 经济 社会
自然 科学 结构 出现 设计 运动 管理 议会 条约 港口"""
ENGLISH, CHINESE = tuple(_ENGLISH.split()), tuple(_CHINESE.split())

_MEDIAN_WORDS = {"question": 9, "passage": 95, "strip": 30}
_SPREAD = {"question": 0.25, "passage": 0.5, "strip": 0.4}  # of the lengths' logarithms
_CHINESE_SHARE = 0.5


@dataclass(frozen=True)
class Asked:
    """One question with what is graded for it."""

    question: str
    passages: tuple[str, ...]
    strips: tuple[str, ...]


class Texts:
    """Draws texts; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def language(self) -> Language:
        return "zh" if self._dice.random() < _CHINESE_SHARE else "en"

    def question(self, language: Language) -> str:
        words = self._drawn(language, self._length("question"))
        return "".join(words) + "？" if language == "zh" else " ".join(words).capitalize() + "?"

    def passage(self, language: Language, words: int = 0) -> str:
        """Sentences of so many words together; 0 draws a passage's usual length."""
        return self._sentences(language, words or self._length("passage"))

    def strip(self, language: Language) -> str:
        return self._sentences(language, self._length("strip"))

    def pairs(self, count: int, words: int = 0) -> list[Pair]:
        """Each a question and a passage of one language."""
        languages = [self.language() for _ in range(count)]
        return [(self.question(one), self.passage(one, words)) for one in languages]

    def asked(self, passages: int = 10, strips: int = 30) -> Asked:
        language = self.language()
        return Asked(
            self.question(language),
            tuple(self.passage(language) for _ in range(passages)),
            tuple(self.strip(language) for _ in range(strips)),
        )

    def _length(self, kind: str) -> int:
        drawn = self._dice.lognormvariate(math.log(_MEDIAN_WORDS[kind]), _SPREAD[kind])
        return max(3, min(round(drawn), 4 * _MEDIAN_WORDS[kind]))

    def _drawn(self, language: Language, count: int) -> list[str]:
        words = CHINESE if language == "zh" else ENGLISH
        weights = [1 / (rank + 3) for rank in range(len(words))]
        return self._dice.choices(words, weights, k=count)

    def _sentences(self, language: Language, words: int) -> str:
        found = []
        while words > 0:
            size = min(words, self._dice.randint(8, 24))
            drawn = self._drawn(language, size)
            whole = (
                "".join(drawn) + "。" if language == "zh" else " ".join(drawn).capitalize() + "."
            )
            found.append(whole)
            words -= size
        return ("" if language == "zh" else " ").join(found)
