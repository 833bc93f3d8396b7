"""Questions for images in other words than their captions', and for near misses of what is stored.

Each subject and each view has two other wordings and one that sounds alike and is not stored. Ways
to measure similarity are set on one half of subjects and views and reported on the other half.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from app.retrieval.embedder import StaticEmbedder, unit
from app.retrieval.image_index import ASKING, LEAST_RARITY, StoredImages
from app.retrieval.retriever import HybridRetriever
from app.retrieval.terms import EMPTY_WORDS, TermTables, term_tables
from graphs.ports import Services
from graphs.text.language import script_of
from graphs.types import Language, Passage

Half = Literal["chosen", "reported"]
Kind = Literal["own words", "subject", "view", "both", "near miss"]
HALVES: tuple[Half, Half] = ("chosen", "reported")
REWORDED: tuple[Kind, ...] = ("subject", "view", "both")
RETRIEVED = 10
THRESHOLDS = [n / 100 for n in range(40, 101)]

SUBJECTS: dict[Language, dict[str, tuple[str, str]]] = {
    "en": {
        "the cooling pump": ("the coolant circulator", "the pump that chills the engine"),
        "the brass valve": ("the copper-alloy tap", "the brass stopcock"),
        "the harbour crane": ("the dockside hoist", "the crane in the port"),
        "the lighthouse lamp": ("the beacon's lantern", "the light of the lighthouse"),
        "the red tower": ("the crimson turret", "the scarlet tower"),
        "the bread oven": ("the baker's stove", "the oven for baking loaves"),
        "the fog bell": ("the mist gong", "the bell for hazy weather"),
        "the rope bridge": ("the hanging footbridge", "the bridge made of cords"),
        "the water wheel": ("the mill wheel", "the wheel that the stream drives"),
        "the salt warehouse": ("the salt storehouse", "the depot for salt"),
    },
    "zh": {
        "冷却泵": ("降温用的泵", "冷却水循环泵"),
        "黄铜阀门": ("铜制阀门", "黄铜开关"),
        "港口起重机": ("码头吊车", "海港的起重设备"),
        "灯塔的灯": ("航标灯", "灯塔的光源"),
        "红塔": ("红色的塔楼", "赤色高塔"),
        "面包炉": ("烤面包的烤箱", "烘焙面包的炉子"),
        "雾钟": ("雾天敲的钟", "大雾警钟"),
        "绳桥": ("绳索吊桥", "用绳子做的桥"),
        "水车": ("水轮", "用水推动的轮子"),
        "盐仓": ("存盐的仓库", "盐库"),
    },
}
VIEWS: dict[Language, dict[str, tuple[str, str]]] = {
    "en": {
        "cut open": ("in cross-section", "sliced apart"),
        "seen from above": ("from a bird's eye view", "viewed overhead"),
        "before the repair": ("before it was fixed", "prior to being mended"),
        "at night": ("after dark", "in the evening"),
        "in winter": ("in the snow", "in the cold season"),
        "with its keeper": ("with the warden", "beside its attendant"),
        "in a photograph of 1911": ("photographed in 1911", "on an old print from 1911"),
        "as an exploded view": ("taken apart into pieces", "as separate components"),
        "on the floor plan": ("on the layout drawing", "on the plan of the building"),
        "under construction": ("while being built", "half finished by the builders"),
    },
    "zh": {
        "剖开的样子": ("剖面", "切开后的内部"),
        "俯视图": ("从上往下看", "鸟瞰"),
        "修理之前": ("维修前", "还没修好的时候"),
        "夜景": ("夜里的样子", "晚上"),
        "冬天的样子": ("冬季", "下雪时"),
        "和看守人": ("与守卫一起", "和管理员"),
        "1911年的照片": ("1911年拍的旧照", "摄于1911年"),
        "分解图": ("拆开的零件", "拆解示意"),
        "平面图": ("平面布局", "楼层图纸"),
        "建造中": ("施工时", "正在修建"),
    },
}
NEAR_MISSES: dict[Language, tuple[str, ...]] = {
    "en": (
        *("the oil pump", "the wooden valve", "the railway crane", "the lighthouse stairs"),
        *("the clock tower", "the brick oven", "the church bell", "the steel bridge"),
        *("the wagon wheel", "the wool warehouse"),
    ),
    "zh": (
        *("油泵", "木阀门", "铁路起重机", "灯塔的楼梯", "钟塔", "砖炉", "教堂的钟", "钢桥"),
        *("马车轮", "棉仓"),
    ),
}
"""By the place of the subject that each sounds like."""
MISSED_VIEWS: dict[Language, tuple[str, ...]] = {
    "en": (
        *("closed up", "seen from the side", "after the repair", "at noon", "in summer"),
        *("with a tourist", "in a photograph of 1921", "as a circuit diagram"),
        *("on the street map", "in ruins"),
    ),
    "zh": (
        *("合上的样子", "侧视图", "修理之后", "日景", "夏天的样子", "和游客", "1921年的照片"),
        *("电路图", "街道图", "成了废墟"),
    ),
}
"""The same for views."""
ASKED: dict[Language, tuple[str, ...]] = {
    "en": ("Show me {}", "What does {} look like?", "Is there a picture of {}?"),
    "zh": ("给我看{}", "{}是什么样子？", "有没有{}的图片？"),
}


@dataclass(frozen=True, slots=True)
class Reworded:
    """A question, and the caption that is meant; "" where none is."""

    question: str
    caption: str
    kind: Kind


def questions(language: Language, half: Half) -> list[Reworded]:
    """25 captions: each asked for by itself, in six other wordings, and by four near misses."""
    first = HALVES.index(half)
    dice, found = random.Random(7), list[Reworded]()
    subjects, views = SUBJECTS[language], VIEWS[language]
    for at, subject in list(enumerate(subjects))[first::2]:
        for view_at, view in list(enumerate(views))[first::2]:
            missed, missed_view = NEAR_MISSES[language][at], MISSED_VIEWS[language][view_at]
            others = list(zip(subjects[subject], views[view], strict=True))
            asked: list[tuple[Kind, str, str]] = [("own words", subject, view)]
            asked += [("subject", other, view) for other, _ in others]
            asked += [("view", subject, other) for _, other in others]
            asked += [("both", *other) for other in others]
            asked += [("near miss", missed, it) for it in (view, views[view][0])]
            asked += [("near miss", it, missed_view) for it in (subject, subjects[subject][0])]
            for kind, *words in asked:
                question = dice.choice(ASKED[language]).format(joined(language, *words))
                caption = "" if kind == "near miss" else joined(language, subject, view)
                found.append(Reworded(question, caption, kind))
    return found


def joined(language: Language, subject: str, view: str) -> str:
    return f"{subject} {view}" if language == "en" else f"{subject}{view}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A caption that the text search found for a question, compared in the ways below.

    `asked` and `told` are the words of question and caption: how rare each is, whether the other
    has it, and else the cosine of the vector of the word there that is most like it.
    """

    caption: str
    coverage: float
    asked: tuple[tuple[float, bool, float], ...]
    told: tuple[tuple[float, bool, float], ...]
    cosine: float

    def recall(self, from_cosine: float) -> float:
        return _share(self.asked, from_cosine)

    def f1(self, from_cosine: float) -> float:
        recall, precision = self.recall(from_cosine), _share(self.told, from_cosine)
        return 2 * recall * precision / ((recall + precision) or 1.0)


def _share(words: Sequence[tuple[float, bool, float]], from_cosine: float) -> float:
    held = sum(
        rarity * (1.0 if is_held else cosine if cosine >= from_cosine else 0.0)
        for rarity, is_held, cosine in words
    )
    return held / (sum(rarity for rarity, _, _ in words) or 1.0)


Measure = Callable[[Candidate, float], float]
MEASURES: dict[str, tuple[Measure, tuple[float, ...]]] = {
    "share of the asked words": (lambda it, _: it.coverage, (0,)),
    "the same, like words count by their vectors": (
        lambda it, least: it.recall(least),
        (0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
    ),
    "F1 of that, question and caption": (lambda it, least: it.f1(least), (0.2, 0.3, 0.4, 0.5, 0.6)),
    "embedder's cosine": (lambda it, _: it.cosine, (0,)),
    "share and cosine, weighed": (
        lambda it, weight: weight * it.coverage + (1 - weight) * it.cosine,
        (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
    ),
    "the greater of share and cosine": (lambda it, _: max(it.coverage, it.cosine), (0,)),
}
"""By name: a measure, and the values that its one parameter is chosen among."""
Compared = list[tuple[Reworded, list[Candidate]]]


async def compared(services: Services, language: Language, half: Half) -> Compared:
    """Each question with the captions that the text search finds for it."""
    index = cast("StoredImages", services.images)
    tables = term_tables(cast("HybridRetriever", services.retriever).segmenter)
    found = []
    for asked in questions(language, half):
        passages = await index.captions(asked.question, RETRIEVED)
        told = [_candidate(index, tables, asked.question, passage) for passage in passages]
        found.append((asked, told))
    return found


def _candidate(
    index: StoredImages, tables: TermTables, question: str, passage: Passage
) -> Candidate:
    language, text = script_of(question), f"{passage.title}\n{passage.text}"
    asked, told, held = (_words(tables, it, language) for it in (question, passage.text, text))
    plain = ("" if language == "zh" else " ").join(asked)
    vectors = StaticEmbedder(tables.segmenter).embed([plain, passage.text])
    return Candidate(
        caption=passage.text,
        coverage=index.coverage(question, text),
        asked=_matched(tables, asked, held, language),
        told=_matched(tables, told, asked, language),
        cosine=float(vectors[0] @ vectors[1]),
    )


def _words(tables: TermTables, text: str, language: Language) -> dict[str, str]:
    """Words that say what is to be seen, and their stems."""
    terms = tables.terms(text, language)
    return {word: stem for stem, word in terms if word not in EMPTY_WORDS | ASKING}


def _matched(
    tables: TermTables, words: dict[str, str], others: dict[str, str], language: Language
) -> tuple[tuple[float, bool, float], ...]:
    if not words or not others:
        return ()
    own, there = (
        unit(np.stack([tables.vector(word, language) for word in each])) for each in (words, others)
    )
    cosines = (own @ there.T).max(axis=1)
    return tuple(
        (max(tables.rarity(word, language), LEAST_RARITY), stem in others.values(), float(cosine))
        for (word, stem), cosine in zip(words.items(), cosines, strict=True)
    )


def outcomes(
    found: Compared, measure: Measure, parameter: float, threshold: float
) -> dict[str, int]:
    """How many were asked, answered from storage and answered rightly, by kind of question."""
    counted: Counter[str] = Counter()
    for asked, candidates in found:
        scores = [measure(it, parameter) for it in candidates]
        counted[f"{asked.kind} asked"] += 1
        if scores and max(scores) >= threshold:
            best = candidates[scores.index(max(scores))].caption
            counted[f"{asked.kind} from storage"] += 1
            counted[f"{asked.kind} right"] += best == asked.caption
    return dict(counted)


def chosen_and_reported(chosen: Compared, reported: Compared) -> dict[str, Any]:
    """By measure: parameter and threshold with most right answers where they were chosen.

    There every question in a caption's own words is answered, and no more near misses are taken
    for what is stored than the shipped measure takes at its best.
    """
    results: dict[str, Any] = {}
    most_misses: int | None = None
    for name, (measure, parameters) in MEASURES.items():
        tried = [
            (told, parameter, threshold)
            for parameter in parameters
            for threshold in THRESHOLDS
            if (told := Counter(outcomes(chosen, measure, parameter, threshold)))["own words right"]
            == told["own words asked"]
        ]
        if most_misses is None:
            most_misses = min(told["near miss from storage"] for told, _, _ in tried)
        fit = [each for each in tried if each[0]["near miss from storage"] <= most_misses]
        if not fit:
            results[name] = None
            continue
        _, parameter, threshold = max(fit, key=lambda each: _gain(each[0]))
        results[name] = {
            "parameter": parameter,
            "threshold": threshold,
            "chosen": outcomes(chosen, measure, parameter, threshold),
            "reported": outcomes(reported, measure, parameter, threshold),
        }
    return results


def _gain(told: Counter[str]) -> int:
    """Right answers to reworded questions, less the wrong ones."""
    return sum(2 * told[f"{it} right"] - told[f"{it} from storage"] for it in REWORDED)
