"""What a language model replies for a follow-up, taken where it may be the question meant."""

from graphs.nodes.queries import MAX_QUESTION_CHARS, as_question
from graphs.types import Message

FOLLOW_UP = {"en": "And how tall is it?", "zh": "那它有多高？"}
MEANT = {"en": "How tall is the lighthouse at Lindesnes?", "zh": "应县木塔有多高？"}
DIALOGUE: dict[str, list[Message]] = {
    "en": [
        {"role": "user", "content": "Who built the lighthouse at Lindesnes?"},
        {"role": "assistant", "content": "The crown had it built in 1656."},
    ],
    "zh": [
        {"role": "user", "content": "应县木塔是谁主持修建的？"},
        {"role": "assistant", "content": "由田和尚奉敕募建，始于1056年。"},
    ],
}


def taken(language: str, reply: str) -> str:
    return as_question(reply, FOLLOW_UP[language], DIALOGUE[language])


def test_what_models_put_around_a_question_is_cut() -> None:
    for language, form in [
        ("en", "{}"),
        ("zh", " “{}”\n"),
        ("en", "**{}**"),
        ("zh", "```text\n{}```"),
        ("en", "Standalone question:\n{}"),
        ("en", "**Standalone Question:** {}"),
        ("zh", "**獨立問題**：{}"),
        ("zh", "问题: {}"),
    ]:
        assert taken(language, form.format(MEANT[language])) == MEANT[language]


def test_what_is_no_question_in_its_language_is_left() -> None:
    for language, reply in [
        ("en", MEANT["zh"]),
        ("zh", MEANT["en"]),
        ("en", "How tall is the lighthouse?\nIt is 16 metres tall."),
        ("en", "How tall is the lighthouse? " + "x" * MAX_QUESTION_CHARS),
        ("zh", ""),
    ]:
        assert taken(language, reply) == ""


def test_a_reply_of_the_same_kind_is_taken() -> None:
    for question, reply, language in [
        ("Tell me more.", "Tell me more about the lighthouse at Lindesnes.", "en"),
        ("那看不到呢？", "我无法看到应县木塔怎么办？", "zh"),
        ("那 checkpointer 呢？", "LangGraph 的 checkpointer 是什么？", "en"),
        ("Gmail？", "Gmail 怎么重置密码？", "zh"),
        ("Кто его построил?", "Кто построил маяк?", "en"),
    ]:
        assert as_question(reply, question, DIALOGUE[language]) == reply


def test_a_long_question_may_be_said_as_long() -> None:
    question = "And how tall is it, " + "really " * MAX_QUESTION_CHARS

    assert as_question(question, question, DIALOGUE["en"]) == question.strip()
