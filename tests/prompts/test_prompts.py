"""Prompts mirror each other in both languages and fill their slots exactly."""

import re
from importlib.resources import files

import pytest

from prompts import NAMES, Language, Prompt, SlotError, one_nonce, prompt

LANGUAGES: list[Language] = ["en", "zh"]
DATA = {"knowledge", "passage", "text", "title", "turns", "answer", "criticism", "findings", "gold"}
"""Slots for what was found, said or written by others than whoever asks."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_files_are_the_names(language: Language) -> None:
    found = {file.name for file in (files("prompts") / language).iterdir()}

    assert found == {f"{name}.txt" for name in NAMES}


def test_both_languages_have_the_same_slots() -> None:
    assert [name for name in NAMES if prompt(name, "en").slots != prompt(name, "zh").slots] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_prompt_renders_all_it_is_given(language: Language) -> None:
    for name in NAMES:
        asked = prompt(name, language)
        values = {slot: f"<{slot} $slot ${{x}} $$ {{y}} 值>" for slot in asked.slots}
        text = asked.render(**values)

        assert all(value in text for value in values.values()), name
        assert text == text.strip() != "", name
        for slot in asked.slots:
            rest = {key: value for key, value in values.items() if key != slot}
            with pytest.raises(SlotError, match=slot):
                asked.render(**rest)
        with pytest.raises(SlotError, match="surplus"):
            asked.render(**values, surplus="x")


def test_every_dollar_of_a_prompt_is_a_slot_or_the_nonce() -> None:
    for language in LANGUAGES:
        for name in NAMES:
            text = (files("prompts") / language / f"{name}.txt").read_text(encoding="utf-8")
            rest = text.replace("-$nonce>", "")
            assert rest.count("$") == len(prompt(name, language).slots)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_others_wrote_stands_between_tags_with_a_nonce(language: Language) -> None:
    for name in NAMES:
        text = (files("prompts") / language / f"{name}.txt").read_text(encoding="utf-8")
        for slot in DATA & prompt(name, language).slots:
            blocks = re.findall(r"<(\w+)-\$nonce>\n([^<]*)\n</\1-\$nonce>", text)
            assert any(f"${slot}" in inside for _, inside in blocks), (name, slot)


def test_every_prompt_has_a_nonce_of_its_own() -> None:
    asked = prompt("answer", "en")
    slots = dict.fromkeys(asked.slots, "")
    drawn = {re.findall(r"-([0-9a-f]{16})>", asked.render(**slots))[0] for _ in range(50)}

    assert len(drawn) == 50


def test_prompts_of_one_run_have_one_nonce() -> None:
    asked = prompt("answer", "en")
    slots = dict.fromkeys(asked.slots, "")
    with one_nonce():
        assert asked.render(**slots) == asked.render(**slots)
    with one_nonce():
        again = asked.render(**slots)
    assert again != asked.render(**slots)


def test_chinese_prompts_are_chinese_and_english_ones_are_not() -> None:
    for name in NAMES:
        slots = dict.fromkeys(prompt(name, "zh").slots, "")
        assert any("\u4e00" <= sign <= "\u9fff" for sign in prompt(name, "zh").render(**slots))
        assert prompt(name, "en").render(**slots).isascii()


def test_a_value_is_not_rendered_again() -> None:
    assert Prompt("$a and $b").render(a="$b", b="$a") == "$b and $a"


def test_there_is_no_other_prompt() -> None:
    with pytest.raises(FileNotFoundError):
        prompt("secret", "en")
