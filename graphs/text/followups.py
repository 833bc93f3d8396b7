"""Follow-up questions made to stand alone by rule, and questions that ask for nothing."""

import re
from collections.abc import Sequence

from graphs.text.sentences import word_count
from graphs.types import Message

MAX_WORDS = 6
MAX_QUESTIONS = 4
MAX_TOPIC_CHARS = 200

_POINTS_BACK = re.compile(
    r"\b(?:its?|itself|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|ones?|both)\b"
    r"|[它他她]|[这這那](?![么麼])|[该該此]",
    re.IGNORECASE,
)
_OUTER_MARKS = " \t\n.,;:!?'\"。，、；：！？～~…"
_COURTESY = re.compile(
    r"(?:(?:many |no )?thanks|thank you|thx|hello|hi|hey|good (?:morning|evening|night)|bye|goodbye"
    r"|ok|okay|great|perfect|got it|i see)(?: (?:so|very) much| a lot| again| there)?"
    r"|(?:非常)?(?:[谢謝]{2}|多[谢謝]|感[谢謝])(?:[你您]|大家)?|(?:[你您]|大家|早上|晚上)好|[很太]?好[的吧了啊]?"
    r"|再[见見]|明白了?|知道了|懂了|收到|辛苦了",
    re.IGNORECASE,
)


def is_courtesy(question: str) -> bool:
    """Whether it asks nothing: thanks, a greeting."""
    return bool(_COURTESY.fullmatch(question.strip(_OUTER_MARKS)))


def standalone(question: str, history: Sequence[Message]) -> str | None:
    """A short question, or one with a pronoun, with the question before it in brackets.

    None where it stands alone. The question before may itself have followed another one.
    """
    earlier = [turn["content"] for turn in history if turn["role"] == "user"]
    topic = ""
    for asked in [each for each in earlier if not is_courtesy(each)][-MAX_QUESTIONS:]:
        topic = _joined(asked, topic) if topic and _follows(asked) else asked
    if not topic or is_courtesy(question) or not _follows(question):
        return None
    return _joined(question, topic)


def _follows(question: str) -> bool:
    return word_count(question) <= MAX_WORDS or bool(_POINTS_BACK.search(question))


def _joined(question: str, topic: str) -> str:
    """In brackets and without its end mark the topic is not taken for a part to be answered."""
    return f"{question.strip()} ({topic.strip(_OUTER_MARKS)[:MAX_TOPIC_CHARS]})"
