"""Prompts mirror each other in both languages and fill their slots exactly."""

from importlib.resources import files

import pytest

from prompts import NAMES, Language, Prompt, SlotError, prompt

LANGUAGES: list[Language] = ["en", "zh"]


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


def test_every_dollar_of_a_prompt_is_a_slot() -> None:
    for language in LANGUAGES:
        for name in NAMES:
            text = (files("prompts") / language / f"{name}.txt").read_text(encoding="utf-8")
            assert text.count("$") == len(prompt(name, language).slots)


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
