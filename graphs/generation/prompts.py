"""The messages a language model is sent, and what its replies to them are read as."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from graphs.text.language import language_of
from graphs.text.model_output import (
    whole_characters,
    without_fence,
    without_prompt_tags,
    without_reasoning,
)
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.text.questions import MAX_PARTS, names_in, unnamed_in
from graphs.types import Language, Message, Strip, Usage
from prompts import one_nonce as one_nonce
from prompts import prompt

LATEST_TURNS = 6
MAX_TURN_CHARS = 1000
MAX_SUBQUESTIONS = 3
# The question, its clearer wording, the invented passage, and the parts.
MAX_QUERIES = 3 + max(MAX_PARTS, MAX_SUBQUESTIONS)
MAX_QUERY_CHARS, MAX_PASSAGE_CHARS, MAX_QUESTION_CHARS = 400, 1200, 300
LIST_MARK = re.compile(r"^\s*(?:[-*•](?!\d)|[(（]?\d{1,2}(?:[.．:：](?!\d)|[)）、]))\s*")
_QUOTES = '"“”「」` '


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a draft is written from.

    Strips below `floor` may not be quoted. `subquestions` grade strips too, `with_titles` as the
    run's passages are; `choices` is a closed set of answers. `original_question` is the
    question as it was put, where another one was made of it.
    """

    question: str
    history: Sequence[Message]
    knowledge: Sequence[Strip]
    floor: float
    language: Language
    subquestions: Sequence[str] = ()
    choices: Sequence[str] = ()
    original_question: str = ""
    with_titles: bool = True

    def answerable(self) -> tuple[list[str], list[str]]:
        """The question, or its parts, whose names all stand in the knowledge, and the other ones.

        Of a follow-up the names of its own words count, if it has any: its topic may be another.
        """
        text = "\n".join(f"{s.title}\n{s.source}\n{s.whole or s.full_text}" for s in self.knowledge)
        parts = list(self.subquestions) or [self.question]
        unnamed = [part for part in parts if unnamed_in(text, part)]
        if unnamed and not self.subquestions and names_in(self.original_question):
            unnamed = parts if unnamed_in(text, self.original_question) else []
        return [part for part in parts if part not in unnamed], unnamed

    @property
    def closed_question(self) -> str:
        """The question and, of a closed set, the answers to choose from."""
        if not self.choices:
            return self.question
        choices = prompt("choices", self.language).render(choices=" | ".join(self.choices))
        return f"{self.question}\n{choices}"


def rewriting_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """The few-shot prompt that asks for search keywords (CRAG, appendix A)."""
    return _about(question, history, "rewrite", "rewrite_system")


def contextualising_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """The few-shot prompt that asks for a follow-up in a form that stands alone."""
    return _about(question, history, "contextualise", "contextualise_system")


def clarifying_messages(question: str, history: Sequence[Message]) -> list[BaseMessage]:
    """Asks for the question in the words of the text that may answer it."""
    return _about(question, history, "clarify")


def decomposing_messages(question: str) -> list[BaseMessage]:
    """Asks for sub-questions, one a line."""
    body = prompt("decompose", language_of(question)).render(question=_clean(question))
    return [HumanMessage(body)]


def hyde_messages(question: str) -> list[BaseMessage]:
    """Asks for a passage that might answer the question (HyDE)."""
    return [HumanMessage(prompt("hyde", language_of(question)).render(question=_clean(question)))]


def answering_messages(request: DraftRequest) -> list[BaseMessage]:
    """The question beneath its numbered knowledge: `[1] (title — source)`, then the text."""
    body = prompt("answer", request.language).render(
        knowledge=_numbered(request.knowledge),
        question=without_control_tokens(request.closed_question),
        dialogue=_dialogue(request.history, request.language),
    )
    return _instructed("answer_system", body, request.language)


def direct_messages(request: DraftRequest) -> list[BaseMessage]:
    """The question alone, for one that needs no retrieval."""
    body = prompt("direct", request.language).render(
        question=without_control_tokens(request.closed_question),
        dialogue=_dialogue(request.history, request.language),
    )
    return _instructed("direct_system", body, request.language)


def revising_messages(request: DraftRequest, answer: str, criticism: str) -> list[BaseMessage]:
    """Question, knowledge, the answer so far and what is held against it (reflection)."""
    body = prompt("revise", request.language).render(
        knowledge=_numbered(request.knowledge),
        question=without_control_tokens(request.closed_question),
        dialogue=_dialogue(request.history, request.language),
        answer=without_control_tokens(answer),
        criticism=as_data(criticism),
    )
    return _instructed("answer_system", body, request.language)


def segment_messages(request: DraftRequest, passage: Strip, preceding: str) -> list[BaseMessage]:
    """Asks for the next sentence of a long answer from one passage, or for `END`."""
    body = prompt("segment", request.language).render(
        knowledge=as_data(f"({one_line(passage.title)}) {one_line(passage.text)}"),
        question=_clean(request.question),
        answer=as_data(preceding) or "-",
    )
    return _instructed("answer_system", body, request.language)


def text_of(reply: BaseMessage) -> str:
    """What the model says, without what it thinks and without tags of its prompt."""
    return without_prompt_tags(without_reasoning(whole_characters(str(reply.text)))).strip()


def usage_of(message: AIMessage) -> Usage:
    """One call and the tokens the endpoint counted, 0 where it tells none."""
    counted = message.usage_metadata
    return Usage(
        llm_calls=1,
        input_tokens=counted["input_tokens"] if counted else 0,
        output_tokens=counted["output_tokens"] if counted else 0,
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def _about(
    question: str, history: Sequence[Message], name: str, system: str = ""
) -> list[BaseMessage]:
    """A prompt with the slots question and dialogue."""
    language = language_of(question)
    body = prompt(name, language).render(
        question=_clean(question), dialogue=_dialogue(history, language)
    )
    return _instructed(system, body, language) if system else [HumanMessage(body)]


def _instructed(system: str, body: str, language: Language) -> list[BaseMessage]:
    return [SystemMessage(prompt(system, language).render()), HumanMessage(body)]


def _numbered(knowledge: Sequence[Strip]) -> str:
    """Each strip under its number, as it stands: line breaks of code and tables mean something."""
    return "\n\n".join(
        f"[{n}] ({_line(strip.title)} — {_line(strip.source)})\n{as_data(strip.full_text)}"
        for n, strip in enumerate(knowledge, start=1)
    )


def _line(text: str) -> str:
    return as_data(one_line(text))


def _clean(question: str) -> str:
    return without_control_tokens(one_line(question))


def _dialogue(history: Sequence[Message], language: Language) -> str:
    """The latest turns, one a line; nothing where the question opens the dialogue.

    Their markers would cite the knowledge of another answer.
    """
    if not history:
        return ""
    turns = [
        f"{turn['role']}: {_line(turn['content'])[:MAX_TURN_CHARS]}"
        for turn in history[-LATEST_TURNS:]
    ]
    return prompt("dialogue", language).render(turns="\n".join(turns))


def as_query(reply: str) -> str:
    """The reply's one line; empty where it is more than that, or longer than a question."""
    text = without_fence(reply).strip(_QUOTES)
    return "" if "\n" in text or len(text) > MAX_QUERY_CHARS else text


def as_subquestions(reply: str) -> list[str]:
    """Its first three lines, without list marks."""
    lines = [as_query(LIST_MARK.sub("", line)) for line in without_fence(reply).splitlines()]
    return [line for line in lines if line][:MAX_SUBQUESTIONS]


def as_passage(reply: str, question: str) -> str:
    """HyDE's query: the question joined with the invented passage; empty where there is none."""
    passage = " ".join(without_fence(reply).split())[:MAX_PASSAGE_CHARS]
    return f"{question}\n{passage}" if passage else ""


def queries_of(question: str, made: Sequence[str]) -> list[str]:
    """The question first, no query twice; at most MAX_QUERIES."""
    queries: dict[str, str] = {}
    for query in [question, *made]:
        queries.setdefault(" ".join(query.casefold().split()), query)
    return [query for query in queries.values() if query][:MAX_QUERIES]


def question_about(topic: str, language: Language) -> str:
    """A question on a heading, where no model writes one."""
    return prompt("about", language).render(topic=_line(topic))


def question_what(term: str, language: Language) -> str:
    """A question on an entry, which says what its heading is."""
    return prompt("define", language).render(topic=_line(term))


def hypothetical_messages(
    title: str, text: str, count: int, language: Language
) -> list[BaseMessage]:
    """Asks for questions that the text answers: by them it is nearer to what users ask."""
    slots = {"title": _line(title), "text": as_data(text), "count": str(count)}
    return [HumanMessage(prompt("hypothetical", language).render(**slots))]


def as_hypothetical_questions(reply: str, count: int) -> list[str]:
    """The reply's questions, one a line, each once; lines too long to be one are left out."""
    lines = (LIST_MARK.sub("", line).strip() for line in without_fence(reply).splitlines())
    questions = dict.fromkeys(line for line in lines if 3 < len(line) <= MAX_QUESTION_CHARS)
    return list(questions)[:count]


def describing_messages(image: str, question: str, language: Language) -> list[BaseMessage]:
    """What a model that sees is asked about an image, a data URL."""
    text = prompt("describe", language).render(question=question)
    shown = {"type": "image_url", "image_url": {"url": image}}
    return [HumanMessage(content=[{"type": "text", "text": text}, shown])]
