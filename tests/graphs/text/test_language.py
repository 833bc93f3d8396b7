"""Which language a question is in, and which it is to be answered in, where both meet."""

from pathlib import Path

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


def test_a_question_is_of_the_language_of_its_frame() -> None:
    for language in ["en", "zh"]:
        file = Path(__file__).with_name("mixed") / f"{language}.txt"
        questions = file.read_text("utf-8").splitlines()
        assert [question for question in questions if language_of(question) != language] == []


def test_language() -> None:
    for text, language in [
        ("How does it grade?", "en"),
        ("它如何评分？", "zh"),
        ("LangGraph 怎么用", "zh"),
        ("What does 道 mean in old English books?", "en"),
        ("123?", "en"),
        ("", "en"),
    ]:
        assert language_of(text) == language


def test_what_a_question_is_searched_by_is_what_most_of_it_is() -> None:
    for text, script in [
        ("What is 知识条?", "zh"),
        ("What does 灯塔 mean?", "en"),
        ("Why?", "en"),
        ("为什么？", "zh"),
    ]:
        assert script_of(text) == script


def test_a_wish_for_a_language_decides() -> None:
    for question, wished in [
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
    ]:
        assert answer_language(question) == wished


def test_a_bare_name_goes_on_in_the_language_of_the_dialogue() -> None:
    for name in ["Gmail？", "iPhone 15", "VIP", "微信", "微信？"]:
        assert answer_language(name, IN_CHINESE) == "zh"
        assert answer_language(name, IN_ENGLISH) == "en"


def test_a_follow_up_with_grammar_is_of_its_own_language() -> None:
    for question, language in [
        ("微信呢", "zh"),
        ("And 微信?", "en"),
        ("What about Gmail?", "en"),
        ("那 Gmail 呢", "zh"),
    ]:
        assert answer_language(question, IN_CHINESE) == language
        assert answer_language(question, IN_ENGLISH) == language
