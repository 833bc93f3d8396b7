"""Which language a question is in, and which it is to be answered in, where both meet."""

import time
from pathlib import Path

import pytest

from graphs.text.language import answer_language, language_of, script_of
from graphs.types import Message

IN_CHINESE: list[Message] = [
    {"role": "user", "content": "怎么重置密码？"},
    {"role": "assistant", "content": "在设置里。"},
]
IN_ENGLISH: list[Message] = [
    {"role": "user", "content": "How do I reset my password?"},
    {"role": "assistant", "content": "In the settings."},
]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_question_is_of_the_language_of_its_frame(language: str) -> None:
    file = Path(__file__).with_name("mixed") / f"{language}.txt"
    questions = file.read_text("utf-8").splitlines()
    assert [question for question in questions if language_of(question) != language] == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How does it grade?", "en"),
        ("它如何评分？", "zh"),
        ("LangGraph 怎么用", "zh"),
        ("What does 道 mean in old English books?", "en"),
        ("123?", "en"),
        ("", "en"),
    ],
)
def test_language(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "script"),
    [("What is 知识条?", "zh"), ("What does 灯塔 mean?", "en"), ("Why?", "en"), ("为什么？", "zh")],
)
def test_what_a_question_is_searched_by_is_what_most_of_it_is(text: str, script: str) -> None:
    assert script_of(text) == script


@pytest.mark.parametrize(
    ("question", "wished"),
    [
        ("什么是RAG？Please answer in English.", "en"),
        ("什么是知识条？请用英文回答", "en"),
        ("请用英文写一封邮件", "en"),
        ("What is RAG? Answer in Chinese, please.", "zh"),
        ("What is RAG? 请用中文回答", "zh"),
        ("Explain attention in transformers. 请用简体中文解释", "zh"),
        ("Please explain this paper in 中文", "zh"),
        ("How do I say hello in Chinese?", "en"),
        ("Does the service answer in Chinese?", "en"),
        ("用英文怎么说谢谢", "zh"),
        ("你们支持用英文回答吗", "zh"),
    ],
)
def test_a_wish_for_a_language_decides(question: str, wished: str) -> None:
    assert answer_language(question) == wished


@pytest.mark.parametrize("name", ["Gmail？", "iPhone 15", "VIP", "微信", "微信？"])
def test_a_bare_name_goes_on_in_the_language_of_the_dialogue(name: str) -> None:
    assert answer_language(name, IN_CHINESE) == "zh"
    assert answer_language(name, IN_ENGLISH) == "en"


@pytest.mark.parametrize(
    ("question", "language"),
    [("微信呢", "zh"), ("And 微信?", "en"), ("What about Gmail?", "en"), ("那 Gmail 呢", "zh")],
)
def test_a_follow_up_with_grammar_is_of_its_own_language(question: str, language: str) -> None:
    assert answer_language(question, IN_CHINESE) == language
    assert answer_language(question, IN_ENGLISH) == language


@pytest.mark.parametrize(
    "unit", ["a 是 ", "how 怎 ", "什么 is ", "用中文 ", "answer in ", "A", "-", "是", "'", " a"]
)
def test_time_grows_with_length_alone(unit: str) -> None:
    started = time.process_time()
    answer_language("a 是" + unit * 50_000)

    assert time.process_time() - started < 5
