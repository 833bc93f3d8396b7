"""The messages a language model is sent: prompts filled with question, dialogue and knowledge."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from graphs.text.characters import whole
from graphs.text.language import language_of
from graphs.text.model_output import without_thoughts
from graphs.types import Language, Message, Strip, Usage
from prompts import prompt

LATEST_TURNS = 6
TURN_CHARACTERS = 1000


def rewriting_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """The few-shot prompt that asks for search keywords (CRAG, appendix A)."""
    language = language_of(question)
    asked = prompt("rewrite", language).render(
        question=_one_line(question), dialogue=_dialogue(history, language)
    )
    return [SystemMessage(prompt("rewrite_system", language).render()), HumanMessage(asked)]


def contextualising_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """The few-shot prompt that asks for a follow-up in a form that stands alone."""
    language = language_of(question)
    asked = prompt("contextualise", language).render(
        question=_one_line(question), dialogue=_dialogue(history, language)
    )
    return [SystemMessage(prompt("contextualise_system", language).render()), HumanMessage(asked)]


def clarifying_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """Asks for the question in the words of the text that may answer it."""
    language = language_of(question)
    asked = prompt("clarify", language).render(
        question=_one_line(question), dialogue=_dialogue(history, language)
    )
    return [HumanMessage(asked)]


def decomposing_messages(question: str) -> list[BaseMessage]:
    """Asks for sub-questions, one a line."""
    asked = prompt("decompose", language_of(question)).render(question=_one_line(question))
    return [HumanMessage(asked)]


def inventing_messages(question: str) -> list[BaseMessage]:
    """Asks for a passage that might answer the question (HyDE)."""
    asked = prompt("hyde", language_of(question)).render(question=_one_line(question))
    return [HumanMessage(asked)]


def answering_messages(
    question: str,
    history: Sequence[Message],
    knowledge: Sequence[Strip],
    choices: Sequence[str] = (),
    language: Language | None = None,
) -> list[BaseMessage]:
    """The question beneath its numbered knowledge: `[1] (title — source) text`.

    `language` is the answer's; a follow-up may take a topic in another one.
    """
    language = language or language_of(question)
    asked = prompt("answer", language).render(
        knowledge=_numbered(knowledge),
        question=with_choices(question, choices, language),
        dialogue=_dialogue(history, language),
    )
    return [SystemMessage(prompt("answer_system", language).render()), HumanMessage(asked)]


def direct_messages(
    question: str,
    history: Sequence[Message],
    choices: Sequence[str] = (),
    language: Language | None = None,
) -> list[BaseMessage]:
    """The question alone, for one that needs no retrieval."""
    language = language or language_of(question)
    asked = prompt("direct", language).render(
        question=with_choices(question, choices, language), dialogue=_dialogue(history, language)
    )
    return [SystemMessage(prompt("direct_system", language).render()), HumanMessage(asked)]


def revising_messages(
    question: str,
    history: Sequence[Message],
    knowledge: Sequence[Strip],
    answer: str,
    criticism: str,
    choices: Sequence[str] = (),
    language: Language | None = None,
) -> list[BaseMessage]:
    """Question, knowledge, the answer so far and what is held against it (reflection)."""
    language = language or language_of(question)
    asked = prompt("revise", language).render(
        knowledge=_numbered(knowledge),
        question=with_choices(question, choices, language),
        dialogue=_dialogue(history, language),
        answer=answer,
        criticism=criticism,
    )
    return [SystemMessage(prompt("answer_system", language).render()), HumanMessage(asked)]


def segment_messages(
    question: str, passage: Strip, preceding: str, language: Language | None = None
) -> list[BaseMessage]:
    """Asks for the next sentence of a long answer from one passage, or for `END`."""
    language = language or language_of(question)
    asked = prompt("segment", language).render(
        knowledge=f"({_one_line(passage.title)}) {_one_line(passage.text)}",
        question=_one_line(question),
        answer=preceding or "-",
    )
    return [SystemMessage(prompt("answer_system", language).render()), HumanMessage(asked)]


def with_choices(question: str, choices: Sequence[str], language: Language) -> str:
    """The question and, of a closed set, the answers to choose from."""
    if not choices:
        return question
    told = prompt("choices", language).render(choices=" | ".join(choices))
    return f"{question}\n{told}"


def _numbered(knowledge: Sequence[Strip]) -> str:
    return "\n".join(
        f"[{n}] ({_one_line(strip.title)} — {strip.source}) {_one_line(strip.text)}"
        for n, strip in enumerate(knowledge, start=1)
    )


def text_of(reply: BaseMessage) -> str:
    """What the model says, without what it thinks."""
    return without_thoughts(whole(str(reply.text)))


def usage_of(message: AIMessage) -> Usage:
    """One call and the tokens the endpoint counted, 0 where it tells none."""
    told = message.usage_metadata
    return Usage(
        llm_calls=1,
        input_tokens=told["input_tokens"] if told else 0,
        output_tokens=told["output_tokens"] if told else 0,
    )


def _dialogue(history: Sequence[Message], language: Language) -> str:
    """The latest turns, one a line; nothing where the question opens the dialogue."""
    if not history:
        return ""
    turns = [
        f"{turn['role']}: {_one_line(turn['content'])[:TURN_CHARACTERS]}"
        for turn in history[-LATEST_TURNS:]
    ]
    return prompt("dialogue", language).render(turns="\n".join(turns))


def _one_line(text: str) -> str:
    return " ".join(text.split())
