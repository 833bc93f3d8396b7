"""Follow-ups are made to stand alone by rule."""

import pytest

from graphs.followups import LONGEST_ADDED, standalone
from graphs.types import Message
from tests.fakes import FakeKeywords


def dialogue(*turns: str) -> list[Message]:
    roles = ("user", "assistant")
    return [
        Message(role="user" if roles[n % 2] == "user" else "assistant", content=turn)
        for n, turn in enumerate(turns)
    ]


@pytest.mark.parametrize(
    ("turns", "question", "made"),
    [
        (
            ["What is Tesla Motors?", "A car maker."],
            "and who founded it?",
            "and who founded Tesla Motors?",
        ),
        (
            ["Tell me about the Eiffel Tower.", "It is tall."],
            "Its height?",
            "the Eiffel Tower's height?",
        ),
        (["什么是评估器？", "一个模型。"], "它需要 GPU 吗？", "评估器需要 GPU 吗？"),
        (["评估器是什么？", "一个模型。"], "它多大？", "评估器多大？"),
    ],
)
async def test_a_pronoun_becomes_what_it_stands_for(
    turns: list[str], question: str, made: str
) -> None:
    assert await standalone(question, dialogue(*turns), FakeKeywords()) == made


@pytest.mark.parametrize(
    ("turns", "question", "words"),
    [
        (
            ["What does the upper threshold decide?", "The action."],
            "And the lower one?",
            ["threshold"],
        ),
        (["上阈值决定什么？", "动作。"], "那下阈值呢？", ["上阈值"]),
        (
            ["Which workflow is the default?", "It is `self_crag`."],
            "What does it do?",
            ["self_crag"],
        ),
        (
            ["What limits drafts?", "x", "And at the web?", "y", "Why?", "z"],
            "Since when?",
            ["drafts", "web"],
        ),
        (["什么限制草稿？", "x", "那网页呢？", "y"], "为什么？", ["草稿", "网页"]),
    ],
)
async def test_the_words_of_what_it_follows_are_added(
    turns: list[str], question: str, words: list[str]
) -> None:
    made = await standalone(question, dialogue(*turns), FakeKeywords())

    assert made is not None
    assert made.startswith(question)
    assert [word for word in words if word not in made] == []


@pytest.mark.parametrize(
    ("turns", "question", "made"),
    [
        (
            ["What is Tesla Motors?", "A car maker.", "thanks", "You're welcome!"],
            "And who founded it?",
            "And who founded Tesla Motors?",
        ),
        (
            ["What is Tesla Motors?", "A car maker.", "Continue", "It makes cars."],
            "And who founded it?",
            "And who founded Tesla Motors?",
        ),
        (
            ["Hello", "Hello!", "What is Tesla Motors?", "A car maker."],
            "Continue",
            "Continue Tesla Motors",
        ),
        (
            ["What is Tesla Motors?", "A car maker.", "Thanks, that helps!", "Good."],
            "How old is it?",
            "How old is Tesla Motors?",
        ),
        (["什么是评估器？", "一个模型。", "谢谢", "不客气。"], "它多大？", "评估器多大？"),
        (["什么是评估器？", "一个模型。", "谢谢你的帮助", "不客气。"], "它多大？", "评估器多大？"),
        (["什么是评估器？", "一个模型。", "再详细一点", "它打分。"], "它多大？", "评估器多大？"),
        (["你好", "您好！", "什么是评估器？", "一个模型。"], "继续", "继续 评估器"),
    ],
)
async def test_what_names_nothing_does_not_become_the_topic(
    turns: list[str], question: str, made: str
) -> None:
    assert await standalone(question, dialogue(*turns), FakeKeywords()) == made


@pytest.mark.parametrize(
    ("correction", "question", "made"),
    [
        (
            "Sorry, I meant the strip floor.",
            "How can I change that?",
            "How can I change that? strip floor",
        ),
        ("No, I meant the worker.", "How is it stopped?", "How is it stopped? worker"),
        ("Sorry, what is a strip?", "How long is it?", "How long is strip?"),
        ("Wait time of the worker?", "Why?", "Why? Wait time worker"),
        ("不对，我问的是知识条下限", "怎么修改它？", "怎么修改它？ 知识条下限"),
        ("抱歉，我是说工作进程。", "它怎么启动？", "它怎么启动？ 工作进程"),
        ("抱歉，什么是知识条？", "它多长？", "知识条多长？"),
        ("不对齐的标记怎样显示？", "为什么？", "为什么？ 不对齐 标记 显示"),
    ],
)
async def test_a_correction_leaves_what_was_meant(
    correction: str, question: str, made: str
) -> None:
    turns = dialogue("What is Tesla Motors?", "A car maker.", correction, "Changed.")

    assert await standalone(question, turns, FakeKeywords()) == made


@pytest.mark.parametrize("hello", ["Hello", "你好"])
@pytest.mark.parametrize("question", ["Go on", "继续"])
async def test_a_greeting_is_no_topic(hello: str, question: str) -> None:
    assert await standalone(question, dialogue(hello, "Hello!"), FakeKeywords()) is None


@pytest.mark.parametrize(
    ("asked", "question", "made"),
    [
        ("Why are strips cut?", "In short please", "In short please strips cut"),
        ("知识条为什么切分？", "简短一点", "简短一点 知识条 切分"),
    ],
)
async def test_more_of_the_same_is_about_what_was_asked(
    asked: str, question: str, made: str
) -> None:
    turns = dialogue(asked, "`SELFCRAG_CHUNKING`.")

    assert await standalone(question, turns, FakeKeywords()) == made


@pytest.mark.parametrize(
    ("asked", "question", "made"),
    [
        (
            "What does the upper threshold decide?",
            "And the lower one?",
            "And the lower one? threshold decide",
        ),
        (
            "What is the upper threshold?",
            "What about the lower?",
            "What about the lower? the threshold",
        ),
        (
            "Who won the first Ashes series?",
            "And the second one?",
            "And the second one? won Ashes series",
        ),
        (
            "Why is the upper threshold high?",
            "Is the lower threshold used by it?",
            "Is the lower threshold used by it? upper high",
        ),
        ("知识条上限是多少？", "那下限呢？", "那下限呢？ 知识条"),
        ("知识条的下限是多少？", "上限呢？", "上限呢？ 知识条"),
    ],
)
async def test_the_other_one_is_not_the_one_asked_about_before(
    asked: str, question: str, made: str
) -> None:
    assert await standalone(question, dialogue(asked, "0.6."), FakeKeywords()) == made


async def test_a_person_is_taken_from_the_answer() -> None:
    turns = dialogue("Which film won in 2010?", "Kathryn Bigelow made it.")

    assert "Kathryn" in str(await standalone("When was she born?", turns, FakeKeywords()))


@pytest.mark.parametrize("question", ["How do I delete a document?", "怎样删除文档？"])
async def test_what_stands_alone_is_left(question: str) -> None:
    turns = dialogue("What is Tesla Motors?", "A car maker.")

    assert await standalone(question, turns, FakeKeywords()) is None


@pytest.mark.parametrize("turns", [[], ["", "Hello!"], ["  "]])
async def test_there_must_be_something_to_follow(turns: list[str]) -> None:
    assert await standalone("Why?", dialogue(*turns), FakeKeywords()) is None


async def test_what_is_said_twice_is_added_once() -> None:
    made = await standalone(
        "Which drafts then?", dialogue("What limits drafts?", "x"), FakeKeywords()
    )

    assert str(made).count("drafts") == 1


async def test_long_dialogues_stay_bounded() -> None:
    turns = dialogue(*["Name " * 1600, "y" * 8000] * 40)
    question = "Why is it? " * 700
    made = await standalone(question, turns, FakeKeywords())

    assert made is not None
    assert made.startswith(question)
    assert len(made) <= len(question) + 1 + LONGEST_ADDED
