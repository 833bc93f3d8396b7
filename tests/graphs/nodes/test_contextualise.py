"""What a language model replies for a follow-up, taken where it is the question meant."""

import pytest

from graphs.nodes.contextualise import as_question
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


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "form",
    ["{}", " “{}”\n", "```\n{}\n```", "**{}**", "```text\n{}```", "Standalone question:\n{}"],
)
def test_what_models_put_around_a_question_is_cut(language: str, form: str) -> None:
    assert taken(language, form.format(MEANT[language])) == MEANT[language]


@pytest.mark.parametrize(
    ("language", "label"),
    [
        ("en", "Standalone question: "),
        ("en", "**Standalone Question:** "),
        ("en", "Question: "),
        ("zh", "独立的问题："),
        ("zh", "**獨立問題**："),
        ("zh", "问题: "),
    ],
)
def test_a_label_is_cut(language: str, label: str) -> None:
    assert taken(language, label + MEANT[language]) == MEANT[language]


@pytest.mark.parametrize(
    ("language", "reply"),
    [
        ("en", "I'm sorry, but I can't help with that."),
        ("en", "I’m sorry, which lighthouse at Lindesnes do you mean?"),
        ("en", "N/A"),
        ("en", "I can't tell how tall the lighthouse at Lindesnes is, can you?"),
        ("en", "I am unable to say how tall the lighthouse at Lindesnes is, sorry?"),
        ("en", "None"),
        ("en", "It is 16 metres tall."),
        ("en", "The lighthouse at Lindesnes is 16 metres tall."),
        ("en", "What can I do for you today?"),
        ("en", "应县木塔有多高？"),
        ("en", "How tall is the lighthouse?\nIt is 16 metres tall."),
        ("en", "How tall is the lighthouse? " + "x" * 600),
        ("zh", "抱歉，我不知道它有多高。"),
        ("zh", "對不起，您指的是應縣木塔嗎？"),
        ("zh", "无"),
        ("en", "As an AI, I have no idea how tall the lighthouse at Lindesnes is, do you?"),
        ("en", "I'm afraid I can't say how tall the lighthouse at Lindesnes is, sorry?"),
        ("zh", "我无法确定应县木塔有多高，您知道吗？"),
        ("zh", "作为一个AI，我无法回答应县木塔有多高？"),
        ("zh", "应县木塔高67.31米。"),
        ("zh", "还有什么可以帮您？"),
        ("zh", ""),
    ],
)
def test_what_is_no_question_of_the_dialogue_is_left(language: str, reply: str) -> None:
    assert taken(language, reply) == ""


@pytest.mark.parametrize(
    ("question", "reply", "history"),
    [
        ("Tell me more.", "Tell me more about the lighthouse at Lindesnes.", DIALOGUE["en"]),
        ("how tall is it", "how tall is the lighthouse at Lindesnes", DIALOGUE["en"]),
        ("Thanks!", "Thanks!", DIALOGUE["en"]),
        (
            "I can't start it, what now?",
            "I can't start the lighthouse at Lindesnes, what now?",
            DIALOGUE["en"],
        ),
        (
            "I’m unable to see it, why?",
            "I’m unable to see the lighthouse at Lindesnes, why?",
            DIALOGUE["en"],
        ),
        ("我无法看到它，怎么办？", "我无法看到应县木塔，怎么办？", DIALOGUE["zh"]),
        (
            "But I can't find that button.",
            "I can't find the Reset button in Settings.",
            DIALOGUE["en"],
        ),
        (
            "What if I still can't see it?",
            "I can't see the lighthouse at Lindesnes. What should I do?",
            DIALOGUE["en"],
        ),
        (
            "still unable to see it",
            "I am unable to see the lighthouse at Lindesnes. What should I do?",
            DIALOGUE["en"],
        ),
        ("那我无法看到它怎么办？", "我无法看到应县木塔怎么办？", DIALOGUE["zh"]),
        ("还是不能看到怎么办", "我不能看到应县木塔，怎么办？", DIALOGUE["zh"]),
        ("那看不到呢？", "我无法看到应县木塔怎么办？", DIALOGUE["zh"]),
        (
            "And as an airline passenger?",
            "As an airline passenger, what are my rights at Lindesnes?",
            DIALOGUE["en"],
        ),
        ("那作为残疾人呢？", "作为残疾人，我怎样登上应县木塔？", DIALOGUE["zh"]),
        ("它是什么意思？", "N/A 是什么意思？", [Message(role="user", content="表里的 N/A 呢？")]),
        ("再说一点。", "再说一点应县木塔。", DIALOGUE["zh"]),
        ("How many strings has a fiddle?", "How many strings has a fiddle?", DIALOGUE["en"]),
        ("那 checkpointer 呢？", "LangGraph 的 checkpointer 是什么？", []),
        ("Кто его построил?", "Кто построил маяк?", []),
    ],
)
def test_a_reply_of_the_same_kind_is_taken(
    question: str, reply: str, history: list[Message]
) -> None:
    assert as_question(reply, question, history) == reply


@pytest.mark.parametrize(
    ("question", "refusal"),
    [
        ("Can you tell how tall it is?", "I can't tell how tall it is, can you?"),
        ("能不能告诉我它有多高？", "我无法确定应县木塔有多高，您知道吗？"),
    ],
)
def test_asking_whether_one_can_is_not_being_unable(question: str, refusal: str) -> None:
    assert as_question(refusal, question) == ""


@pytest.mark.parametrize("reply", ["N/A", "n/a.", "**N/A**"])
def test_not_applicable_is_none_even_where_nothing_was_asked(reply: str) -> None:
    assert as_question(reply, "Tell me about N/A.", []) == ""
