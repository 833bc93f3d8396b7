"""Follow-ups are joined with what they follow, in both languages; thanks and greetings are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.text.questions import MAX_TOPIC_CHARS, is_courtesy, standalone, subquestions_of
from graphs.types import Message


def dialogue(*turns: str) -> list[Message]:
    roles = ("user", "assistant")
    return [
        Message(role="user" if roles[n % 2] == "user" else "assistant", content=turn)
        for n, turn in enumerate(turns)
    ]


def test_a_follow_up_is_joined_with_the_question_before_it() -> None:
    for turns, question, joined in [
        (["Where is the mill?", "In Bergen."], "And when?", "And when? (Where is the mill)"),
        (["造纸厂在哪里？", "在卑尔根。"], "什么时候？", "什么时候？ (造纸厂在哪里)"),
        # A pronoun in a question of any length.
        (
            ["What is the Bergen mill?"],
            "How many people have ever worked there, and who founded it?",
            "How many people have ever worked there, and who founded it? (What is the Bergen mill)",
        ),
        (
            ["什么是卑尔根造纸厂？"],
            "请问一八五二年那时候它在挪威一共雇了多少名工人？",
            "请问一八五二年那时候它在挪威一共雇了多少名工人？ (什么是卑尔根造纸厂)",
        ),
        # Thanks and greetings are no topic, and a new topic takes the old one's place.
        (
            ["Where is the mill?", "In Bergen.", "Thanks!", "Sure."],
            "Why?",
            "Why? (Where is the mill)",
        ),
        (["你好", "您好！", "什么是评估器？", "模型。"], "它多大？", "它多大？ (什么是评估器)"),
        (
            ["Where is the mill?", "x", "Which trains go from Oslo to Bergen every single day?"],
            "How long?",
            "How long? (Which trains go from Oslo to Bergen every single day)",
        ),
    ]:
        assert standalone(question, dialogue(*turns)) == joined


def test_what_was_asked_before_may_itself_have_followed_something() -> None:
    turns = ["Where is the mill?", "In Bergen.", "And when?", "In 1852.", "Why?", "For books."]
    joined = standalone("By whom?", dialogue(*turns))

    assert joined is not None
    assert joined.startswith("By whom? (Why")
    assert [part for part in ("And when", "Where is the mill") if part not in joined] == []


def test_what_stands_alone_or_follows_nothing_is_left() -> None:
    for turns, question in [
        (["What is a strip?"], "How do I delete all documents of a knowledge base at once?"),
        (["什么是知识条？"], "怎样一次删除一个知识库里的所有文档并且释放磁盘空间？"),
        (["What is a strip?"], "Thanks!"),
        (["什么是知识条？"], "好的，"),
        (["Hello", "Hello!"], "Go on"),
        (["你好", "您好！"], "继续"),
        ([], "Why?"),
    ]:
        assert standalone(question, dialogue(*turns)) is None


def test_what_others_said_is_no_topic() -> None:
    assert standalone("Why?", [{"role": "assistant", "content": "Mills mill."}]) is None


@pytest.mark.parametrize(
    ("turns", "question"),
    [
        (["Who built the mill and when did it open?", "x"], "For whom?"),
        (["造纸厂在哪里，是谁建的？", "x"], "为什么？"),
        (["Where is the mill?", "x", "When did it open?", "x"], "By whom?"),
        (["造纸厂在哪里？", "x", "它什么时候开业？", "x"], "它为什么开业？"),
    ],
    ids=["en", "zh", "en-chain", "zh-chain"],
)
def test_the_topic_is_no_part_to_be_answered(turns: list[str], question: str) -> None:
    joined = standalone(question, dialogue(*turns))

    assert joined is not None
    assert subquestions_of(joined) == [joined]


def test_thanks_and_greetings_ask_nothing() -> None:
    for said in [
        *("Hello", "hi there!", "Thank you very much!", "OK", "Got it.", "Good morning!"),
        *("你好", "您好！", "非常感谢你", "謝謝您", "好的", "明白了", "再见"),
    ]:
        assert is_courtesy(said)


def test_what_asks_is_no_courtesy() -> None:
    for said in ["", "?", "Why?", "Is it ok?", "Hi-fi", "好吗？", "好处"]:
        assert not is_courtesy(said)


@given(st.lists(st.text(max_size=300), max_size=12), st.text(min_size=1, max_size=50))
def test_any_dialogue_joins_within_bounds(turns: list[str], question: str) -> None:
    joined = standalone(question, dialogue(*turns))

    assert joined is None or (
        joined.startswith(question.strip())
        and len(joined) <= len(question) + len(" ()") + MAX_TOPIC_CHARS
    )
