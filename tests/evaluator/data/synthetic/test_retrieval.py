import re
from collections import Counter
from functools import cache

import pytest

from evaluator.data.records import JudgementRow
from evaluator.data.synthetic.retrieval import (
    KINDS,
    KINDS_HELD,
    entries,
    needs,
    read_wordings,
    same,
)
from evaluator.schema import LABELS

LANGUAGES = ("en", "zh")


@cache
def rows_of(*languages: str) -> list[JudgementRow]:
    return needs(languages)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_has_enough_wordings(language: str) -> None:
    counts = Counter((kind, split) for kind, split, _ in entries(read_wordings(language)))
    assert read_wordings(language)["wordings"].keys() == KINDS.keys()
    assert len(KINDS) == 15
    for kind in KINDS:
        if kind in KINDS_HELD:
            assert counts[kind, "kind-held"] >= 40, kind
            assert not counts[kind, "train"] + counts[kind, "held"], kind
        else:
            assert counts[kind, "train"] >= 40, kind
            assert counts[kind, "held"] >= 20, kind
    assert len({KINDS[kind] for kind in KINDS_HELD}) == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_splits_share_no_wording_template_or_slot_value(language: str) -> None:
    read = read_wordings(language)
    texts: dict[str, set[str]] = {split: set() for split in ("train", "held", "kind-held")}
    for _, split, text in entries(read):
        assert text.strip()
        assert same(text) not in texts[split], f"given twice: {text}"
        texts[split].add(same(text))
    for split, slots in read["slots"].items():
        texts[split].update(same(value) for values in slots.values() for value in values)
    assert not texts["train"] & texts["held"]
    assert not texts["train"] & texts["kind-held"]
    assert not texts["held"] & texts["kind-held"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_slot_is_used_and_filled(language: str) -> None:
    read = read_wordings(language)
    named = {(s, slot) for _, s, text in entries(read) for slot in re.findall(r"{([a-z_]+)}", text)}
    assert named == {(split, slot) for split, slots in read["slots"].items() for slot in slots}
    unfilled = re.compile("|".join(rf"{{{slot}}}" for _, slot in named))
    assert not [row.first for row in rows_of(language) if unfilled.search(row.first)]


def test_rows_are_of_every_kind_with_its_label_in_both_languages() -> None:
    rows = rows_of(*LANGUAGES)
    assert {(row.language, row.kind) for row in rows} == {(a, b) for a in LANGUAGES for b in KINDS}
    for row in rows:
        assert (row.task, row.second, row.source) == ("retrieval", "", "own")
        assert row.label == KINDS[row.kind]
        assert row.label in LABELS["retrieval"]
        assert (row.group == "kind-held") == (row.kind in KINDS_HELD)
        assert row.first.strip()


def test_labels_are_balanced_in_every_split() -> None:
    counts = Counter((row.language, row.group, row.label) for row in rows_of(*LANGUAGES))
    for language in LANGUAGES:
        for split in ("train", "held", "kind-held"):
            asked, unasked = (
                counts[language, split, label] for label in sorted(set(KINDS.values()))
            )
            assert asked == unasked > 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_carries_two_labels(language: str) -> None:
    rows = rows_of(language)
    assert len({same(row.first) for row in rows}) == len(rows)


def test_the_same_seed_gives_the_same_rows() -> None:
    assert needs(["en"]) == rows_of("en")
    assert needs(["en"], seed=4) != rows_of("en")
    assert [row for row in rows_of(*LANGUAGES) if row.language == "en"] == rows_of("en")


@pytest.mark.parametrize("language", LANGUAGES)
def test_neither_length_nor_question_mark_decides(language: str) -> None:
    for split in ("train", "held", "kind-held"):
        rows = [row for row in rows_of(language) if row.group == split]
        middle = sorted(len(row.first) for row in rows)[len(rows) // 2]
        needed = [row.label == "[Retrieval]" for row in rows]
        asks = ["?" in row.first or "？" in row.first for row in rows]
        for guess in (asks, [len(row.first) < middle for row in rows]):
            right = sum(a == b for a, b in zip(guess, needed, strict=True)) / len(rows)
            assert 0.3 < right < 0.7, (split, right)
