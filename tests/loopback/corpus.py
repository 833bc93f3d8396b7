"""A little web of our own words, in English and Chinese, and the search over it."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    slug: str
    language: str
    title: str
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.paragraphs)


CORPUS = (
    Entry(
        "lighthouse",
        "en",
        "Lighthouse",
        (
            "A lighthouse is a tower with a strong lamp that shows ships where the coast begins.",
            "The Fresnel lens let a lighthouse throw its beam more than thirty kilometres out to "
            "sea, because rings of glass bend the light of one small flame into a flat beam.",
            "Each lighthouse blinks in a rhythm of its own, so sailors can tell one from another.",
        ),
    ),
    Entry(
        "basalt",
        "en",
        "Basalt columns",
        (
            "Basalt columns form when thick lava cools slowly and shrinks.",
            "The shrinking rock cracks into columns that mostly have six sides, and the cracks "
            "grow downward as the cold front moves into the lava.",
        ),
    ),
    Entry(
        "bees",
        "en",
        "Waggle dance",
        (
            "Honey bees tell their sisters where flowers are by a waggle dance on the comb.",
            "The angle of the waggle dance to the vertical is the angle of the flowers to the sun, "
            "and its length tells how far away they are.",
        ),
    ),
    Entry(
        "dengta",
        "zh",
        "灯塔",
        (
            "灯塔是建在海岸上的高塔，塔顶的强光告诉船只海岸在哪里。",
            "菲涅耳透镜把一点灯火折成平行的光束，使灯塔的光在三十公里以外也能看见。",
            "每座灯塔闪光的节奏都不相同，水手由此辨认自己的位置。",
        ),
    ),
    Entry(
        "chaye",
        "zh",
        "普洱茶",
        (
            "普洱茶产自云南，用大叶种茶树的叶子制成。",
            "熟普洱经过渥堆发酵，茶汤红浓，口感醇厚；生普洱则要存放多年才慢慢变得柔和。",
        ),
    ),
)

BY_SLUG = {entry.slug: entry for entry in CORPUS}
_WORD = re.compile(r"[a-z]{3,}|[\u4e00-\u9fff]+")
_COMMON = frozenset(
    _WORD.findall("the and for what who why how does did are was can which when where")
)


def terms(text: str) -> set[str]:
    """English words, and pairs of neighbouring characters for Chinese."""
    found: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if word.isascii():
            found.add(word.removesuffix("s"))
        else:
            found.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
    return found - _COMMON


def matches(query: str) -> list[tuple[Entry, float]]:
    """Entries that share a term with the query, best first, with the share of it they hold."""
    wanted = terms(query)
    scored = [
        (entry, len(wanted & terms(f"{entry.title} {entry.text}")) / max(1, len(wanted)))
        for entry in CORPUS
    ]
    return sorted((hit for hit in scored if hit[1] > 0), key=lambda hit: -hit[1])
