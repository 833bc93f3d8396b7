"""The next segment of a long answer, whoever writes it."""

from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

from graphs.errors import GeneratorFailed, PortError
from graphs.generation.answer import Asked
from graphs.generation.extractive import candidate_sentences
from graphs.generation.prompts import segment_messages, text_of, usage_of
from graphs.grading.relevance import grades_of
from graphs.ports import Evaluator, ReflectiveGenerator, Services
from graphs.reflection.beam import Segment
from graphs.reflection.scores import plain
from graphs.text.citations import without_markers
from graphs.text.sentences import sentences
from graphs.types import Degraded, Strip, Usage

END = "END"


@dataclass(frozen=True, slots=True)
class Continued:
    """What came of one passage: no segment where it has nothing to add, or a part failed."""

    segment: Segment | None
    usage: Usage
    degraded: tuple[Degraded, ...] = ()


async def segment_from(
    asked: Asked, passage: Strip, preceding: str, services: Services
) -> Continued:
    """One more sentence from the passage that has not been said before."""
    try:
        if services.reflective is not None:
            found = await _reflected(asked, passage, preceding, services.reflective)
        elif services.chat is not None:
            found = await _written(asked, passage, preceding, services.chat)
        else:
            found = await _quoted(asked, passage, preceding, services.evaluator)
    except PortError as error:
        used = Usage(llm_calls=int(isinstance(error, GeneratorFailed)))
        return Continued(None, used, (Degraded(error.component, str(error)),))
    said = {plain(line) for line in sentences(preceding)}
    if found.segment is None or plain(found.segment.text) in {"", *said}:
        return Continued(None, found.usage)
    return found


async def _reflected(
    asked: Asked, passage: Strip, preceding: str, reflective: ReflectiveGenerator
) -> Continued:
    told = await reflective.write(asked.question, passage, preceding)
    segment = Segment(told.text, passage, told.judgement, told.retrieval, told.continues)
    return Continued(segment, told.usage)


async def _written(asked: Asked, passage: Strip, preceding: str, chat: BaseChatModel) -> Continued:
    reply = await chat.ainvoke(segment_messages(asked.question, passage, preceding, asked.language))
    lines = [line for line in sentences(without_markers(text_of(reply))) if _letters_of(line)]
    ended = not lines or _letters_of(lines[0]) == END
    return Continued(None if ended else Segment(lines[0], passage), usage_of(reply))


def _letters_of(line: str) -> str:
    """What is left of it without marks, for models that set `END` in bold or in brackets."""
    return "".join(filter(str.isalnum, line)).upper()


async def _quoted(asked: Asked, passage: Strip, preceding: str, evaluator: Evaluator) -> Continued:
    """The best sentence that is left, if it reaches the floor."""
    said = {plain(line) for line in sentences(preceding)}
    left = [item for item in candidate_sentences([passage]) if plain(item.text) not in said]
    (grades,), usage = await grades_of([asked.question], [item.text for item in left], evaluator)
    known = [(score, -n) for n, score in enumerate(grades) if score is not None]
    best = max(known, default=(asked.floor - 1, 0))
    segment = Segment(left[-best[1]].text, passage) if best[0] >= asked.floor else None
    return Continued(segment, usage)
