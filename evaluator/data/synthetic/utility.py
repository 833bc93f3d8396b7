"""Constructed utility rows: answers of the five grades to a question, no passage beside them."""

import random
from collections.abc import Sequence

from evaluator.data.judgements import Judgement
from evaluator.data.synthetic.answers import asked_for, framed, shape_of, statement
from evaluator.data.synthetic.material import Material, Side, ended

EMPTY_TALK = {
    "en": (
        "I'm sorry, but I can't help with that.",
        "I don't know.",
        "That is a very good question!",
        "I would need to look into this further.",
        "As an assistant I am not able to answer this question.",
        "There are many aspects to consider here, and opinions differ.",
        "Please consult a specialist for more information.",
        "The text does not say anything about this.",
        "Thank you for asking. I hope this helps!",
        "It depends.",
        "Unfortunately, I have no information on this topic at the moment.",
        "This is an interesting subject that people have thought about for a long time.",
        "Could you tell me a little more about what you have in mind?",
        "Sorry, something went wrong. Please try again later.",
        "No relevant documents were found.",
        "I'd rather not comment on that.",
        "Let me know if you have any other questions.",
        "The answer can be found in the relevant literature.",
        "Sure, happy to help you with this one.",
        "The question cannot be answered with what I was given.",
        "Various sources deal with this in great detail.",
        "Not applicable.",
        "Everyone has to decide this for themselves.",
        "I understand why you want to know this; many people do.",
    ),
    "zh": (
        "抱歉，我无法回答这个问题。",
        "不知道。",
        "这是一个很好的问题！",
        "这个问题需要进一步查证。",
        "作为一个助手，我没有办法回答您。",
        "这件事要从多方面来看，众说纷纭。",
        "建议您咨询相关专业人士。",
        "文中没有提到相关内容。",
        "感谢您的提问，希望对您有所帮助。",
        "视情况而定。",
        "很遗憾，目前没有这方面的资料。",
        "这个话题一直以来都很受大家关注。",
        "您能再具体说明一下您的问题吗？",
        "系统繁忙，请稍后再试。",
        "没有找到相关文档。",
        "对此不便评论。",
        "如果还有其他问题，欢迎随时提问。",
        "答案可以在相关文献中找到。",
        "好的，我很乐意为您解答。",
        "根据现有信息无法判断。",
        "网上有很多介绍，您可以自行搜索。",
        "无。",
        "每个人的看法都不一样，请自己决定。",
        "我理解您想知道这个问题的心情，很多人也一样好奇。",
    ),
}
_ECHOES = {
    "en": ("You asked: {}", "{} That is what many people wonder.", "Let us think about: {}"),
    "zh": ("您问的是：{}", "{}这也是很多人想知道的。", "关于“{}”，说来话长。"),
}


class Utility:
    """Makes one row of each grade of a question."""

    def __init__(self, materials: Sequence[Material], side: Side, dice: random.Random) -> None:
        self._materials = materials
        self._dice = dice
        # A sentence of empty talk is on one side of the split only, as any other text.
        self._empty = {
            language: [talk for talk in talks if side(talk)]
            for language, talks in EMPTY_TALK.items()
        }

    def rows(self, material: Material) -> list[Judgement]:
        """Rows of the grades that the material allows, best first."""
        if not material.answerable or not (material.answers or material.stated):
            return []
        other = self._other(material)
        made = [
            (5, *self._complete(material)),
            (4, self._diluted(material), "diluted"),
            (3, *self._poor(material, other)),
            (2, self._beside_the_point(material), "same subject"),
            (1, *self._useless(material, other)),
        ]
        return [_row(material, text, grade, kind) for grade, text, kind in made if text]

    def _answer(self, material: Material, *, short: bool = True) -> str:
        """The answer in words: short, framed, as a statement or in its sentence."""
        sentence = self._dice.choice(material.stated) if material.stated else ""
        if sentence and (not material.answers or self._dice.random() < 0.4):
            return sentence
        value, draw = material.answers[0], self._dice.random()
        if short and draw < 0.4:
            return value
        text = statement(material.question, value, material.language) if draw < 0.8 else None
        return text or framed(value, material.language, self._dice)

    def _complete(self, material: Material) -> tuple[str, str]:
        if material.answers and material.stated and self._dice.random() < 0.3:
            value = framed(material.answers[0], material.language, self._dice)
            sentence = self._dice.choice(material.stated)
            return _said([value, sentence], material.language), "answer and sentence"
        if not material.answers:  # an expert's answer is complete as a whole only
            return _said(material.stated, material.language), "complete answer"
        return self._answer(material), "complete answer"

    def _diluted(self, material: Material) -> str:
        if not material.asides:
            return ""
        answer = self._answer(material, short=False)
        texts = [answer, self._dice.choice(material.asides)]
        if self._dice.random() < 0.3:
            texts.reverse()
        return _said(texts, material.language)

    def _poor(self, material: Material, other: Material) -> tuple[str, str]:
        if material.stated and self._dice.random() < 0.5:
            return self._half(self._dice.choice(material.stated), material.language), "cut"
        foreign = [*other.asides, *self._other(material).asides][:3]
        if len(foreign) < 3:
            return "", "buried"
        foreign.insert(self._dice.randint(1, 2), self._answer(material, short=False))
        return _said(foreign, material.language), "buried"

    def _half(self, text: str, language: str) -> str:
        part = self._dice.uniform(0.35, 0.6)
        if language == "zh":
            return text[: max(2, int(len(text) * part))]
        words = text.split()
        return " ".join(words[: max(2, int(len(words) * part))])

    def _beside_the_point(self, material: Material) -> str:
        many = min(len(material.asides), self._dice.choice((1, 1, 2)))
        return _said(self._dice.sample(material.asides, many), material.language)

    def _useless(self, material: Material, other: Material) -> tuple[str, str]:
        talks, draw = self._empty[material.language], self._dice.random()
        if draw < 0.1:
            echo = self._dice.choice(_ECHOES[material.language])
            return echo.format(material.question), "empty talk"
        if talks and draw < 0.3:
            many = min(len(talks), self._dice.choice((1, 1, 2)))
            return _said(self._dice.sample(talks, many), material.language), "empty talk"
        text = self._answer(other)
        return text, "answer to another question"

    def _other(self, material: Material) -> Material:
        """Material of another group whose question asks for another kind of answer.

        Without a passage at hand, nobody could tell a wrong year from the right one.
        """
        asked, shape = _type(material)
        for _ in range(40):
            other = self._dice.choice(self._materials)
            alike = other.group == material.group or _type(other) == (asked, shape)
            if not alike and _type(other)[0] != asked and (other.answers or other.stated):
                return other
        return next(other for other in self._materials if other.group != material.group)


def _type(material: Material) -> tuple[str, str]:
    value = material.answers[0] if material.answers else ""
    return asked_for(material.question, material.language), shape_of(value)


def _said(texts: Sequence[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(ended(text, language) for text in texts)


def _row(material: Material, answer: str, grade: int, kind: str) -> Judgement:
    label, made = f"[Utility:{grade}]", f"constructed: {kind}"
    return Judgement(
        "utility", material.question, answer, label,
        material.language, material.source, made, material.group,
    )  # fmt: skip
