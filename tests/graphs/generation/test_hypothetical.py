import pytest

from graphs.generation.hypothetical import LONGEST_QUESTION, asking_for_questions, questions_in
from graphs.types import Language


@pytest.mark.parametrize(
    ("language", "marks"),
    [("en", ("Write 3", "Title: Pump")), ("zh", ("写出 3 个", "标题：Pump"))],
)
def test_the_prompt_names_text_and_count(language: Language, marks: tuple[str, str]) -> None:
    (message,) = asking_for_questions("Pump", "It pumps. $HOME", 3, language)
    assert all(mark in message.text for mark in (*marks, "It pumps. $HOME"))


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("1. Who is it?\n2) Where is it?\n", ["Who is it?", "Where is it?"]),
        (
            "- 水泵在哪里？\n\n（2）谁检修了水泵？\n3、水泵多大？",
            ["水泵在哪里？", "谁检修了水泵？"],
        ),
        ("Who?\nWho?\n  \n?\n" + "x" * (LONGEST_QUESTION + 1), ["Who?"]),
        ("3.5 mm 接口在哪里？\n1. 3.11 版？", ["3.5 mm 接口在哪里？", "3.11 版？"]),
        ("```text\n1. Where is it?\n2. 水泵多大？\n```", ["Where is it?", "水泵多大？"]),
        ("", []),
    ],
)
def test_questions_are_read_one_a_line(reply: str, found: list[str]) -> None:
    assert questions_in(reply, 2) == found
