import json
import re
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from evaluator.data.synthetic.retrieval import (
    KINDS,
    KINDS_HELD,
    NEEDS_FOLDER,
    needs,
    read_wordings,
    same,
)
from evaluator.errors import DataError
from evaluator.schema import LABELS

LANGUAGES = ("en", "zh")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_has_enough_wordings(language: str) -> None:
    counts = Counter((kind, split) for kind, split, _ in read_wordings(language).entries())
    assert len(KINDS) == 15
    for kind in KINDS:
        if kind in KINDS_HELD:
            assert counts[kind, "kind-held"] >= 40, kind
        else:
            assert counts[kind, "train"] >= 40, kind
            assert counts[kind, "held"] >= 20, kind
    assert len({KINDS[kind] for kind in KINDS_HELD}) == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_splits_share_no_wording_template_or_slot_value(language: str) -> None:
    read = read_wordings(language)
    texts: dict[str, set[str]] = {split: set() for split in ("train", "held", "kind-held")}
    for _, split, text in read.entries():
        texts[split].add(same(text))
    for split, slots in read.slots.items():
        texts[split].update(same(value) for values in slots.values() for value in values)
    assert not texts["train"] & texts["held"]
    assert not texts["train"] & texts["kind-held"]
    assert not texts["held"] & texts["kind-held"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_slot_is_used_and_filled(language: str) -> None:
    read = read_wordings(language)
    named = {
        (s, slot) for _, s, text in read.entries() for slot in re.findall(r"{([a-z_]+)}", text)
    }
    assert named == {(split, slot) for split, slots in read.slots.items() for slot in slots}
    unfilled = re.compile("|".join(rf"{{{slot}}}" for _, slot in named))
    assert not [row.first for row in needs([language]) if unfilled.search(row.first)]


def test_rows_are_of_every_kind_with_its_label_in_both_languages() -> None:
    rows = needs()
    assert {(row.language, row.kind) for row in rows} == {(a, b) for a in LANGUAGES for b in KINDS}
    for row in rows:
        assert (row.task, row.second, row.source) == ("retrieval", "", "own")
        assert row.label == KINDS[row.kind]
        assert row.label in LABELS["retrieval"]
        assert (row.group == "kind-held") == (row.kind in KINDS_HELD)
        assert row.first.strip()


def test_labels_are_balanced_in_every_split() -> None:
    counts = Counter((row.language, row.group, row.label) for row in needs())
    for language in LANGUAGES:
        for split in ("train", "held", "kind-held"):
            asked, unasked = (
                counts[language, split, label] for label in sorted(set(KINDS.values()))
            )
            assert asked == unasked > 0


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_carries_two_labels(language: str) -> None:
    rows = needs([language])
    assert len({same(row.first) for row in rows}) == len(rows)


def test_the_same_seed_gives_the_same_rows() -> None:
    assert needs(seed=3) == needs(seed=3)
    assert needs(seed=3) != needs(seed=4)
    assert [row for row in needs(seed=3) if row.language == "en"] == needs(["en"], seed=3)


@pytest.mark.parametrize("language", LANGUAGES)
def test_neither_length_nor_question_mark_decides(language: str) -> None:
    for split in ("train", "held", "kind-held"):
        rows = [row for row in needs([language]) if row.group == split]
        middle = sorted(len(row.first) for row in rows)[len(rows) // 2]
        needed = [row.label == "[Retrieval]" for row in rows]
        asks = ["?" in row.first or "？" in row.first for row in rows]
        for guess in (asks, [len(row.first) < middle for row in rows]):
            right = sum(a == b for a, b in zip(guess, needed, strict=True)) / len(rows)
            assert 0.3 < right < 0.7, (split, right)


def without_kind(raw: dict[str, Any]) -> None:
    del raw["wordings"]["chat"]


def unknown_split(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["test"] = ["hi"]


def held_kind_in_training(raw: dict[str, Any]) -> None:
    raw["wordings"]["coding"]["train"] = ["fizzbuzz"]


def unknown_slot(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["train"] = ["hello {friend}"]


def slot_without_values(raw: dict[str, Any]) -> None:
    raw["slots"] = {"train": {"friend": []}}
    raw["wordings"]["chat"]["train"] = ["hello {friend}"]


def empty_wording(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["train"] = [" "]


def wording_twice(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["train"] = ["Thank you!", "thank  you"]


def wording_in_two_splits(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["held"] = raw["wordings"]["chat"]["train"]


def value_in_two_splits(raw: dict[str, Any]) -> None:
    raw["slots"] = {"train": {"word": ["rain"]}, "held": {"word": ["Rain"]}}


def number_for_text(raw: dict[str, Any]) -> None:
    raw["wordings"]["chat"]["train"] = [7]


SMALL: dict[str, Any] = {
    "slots": {},
    "wordings": {
        kind: {"kind-held": [f"{kind} 1"]} if kind in KINDS_HELD else {"train": [f"{kind} 2"]}
        for kind in KINDS
    },
}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_kind, "kinds missing or unknown: chat"),
        (unknown_split, "wordings.chat.test"),
        (held_kind_in_training, "coding may have no wordings of the split train"),
        (unknown_slot, "no values for the slot friend"),
        (slot_without_values, "no values for the slot friend"),
        (empty_wording, "an empty wording in chat, train"),
        (wording_twice, "given twice: thank  you"),
        (wording_in_two_splits, "chat 2"),
        (value_in_two_splits, "held: also in train: Rain"),
        (number_for_text, "wordings.chat.train.0"),
    ],
)
def test_a_spoilt_file_is_named(tmp_path: Path, spoil: Any, message: str) -> None:
    raw = deepcopy(SMALL)
    path = tmp_path / "en.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    assert len(needs(["en"], folder=tmp_path)) == 14
    spoil(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        needs(["en"], folder=tmp_path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_and_no_json_are_data_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        needs(["en"], folder=tmp_path)
    (tmp_path / "en.json").write_bytes(b"\xff{")
    with pytest.raises(DataError, match="is no JSON"):
        needs(["en"], folder=tmp_path)


def test_a_template_becomes_a_few_rows(tmp_path: Path) -> None:
    raw = deepcopy(SMALL)
    raw["slots"] = {"train": {"word": list("abcdefgh"), "other": ["x", "y"]}}
    for kind in ("chat", "fact"):
        raw["wordings"][kind]["train"] = [f"{kind}: {{word}} and {{other}}, {{}} {{0}}"]
    (tmp_path / "en.json").write_text(json.dumps(raw), encoding="utf-8")
    rows = [row.first for row in needs(["en"], folder=tmp_path) if row.kind == "chat"]
    assert len(rows) == 4
    assert all(re.fullmatch(r"chat: [a-h] and [xy], \{\} \{0\}", text) for text in rows)


def test_the_files_are_those_of_the_package() -> None:
    assert sorted(path.name for path in NEEDS_FOLDER.glob("*.json")) == ["en.json", "zh.json"]
