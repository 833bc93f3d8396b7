"""Questions by rule: follow-ups made to stand alone, courtesies, sub-questions."""

import re
from collections.abc import Sequence

from graphs.text.language import language_of
from graphs.text.sentences import HAN, sentences, word_count
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
    for previous in [each for each in earlier if not is_courtesy(each)][-MAX_QUESTIONS:]:
        topic = _with_topic(previous, topic) if topic and _follows(previous) else previous
    if not topic or is_courtesy(question) or not _follows(question):
        return None
    return _with_topic(question, topic)


def _follows(question: str) -> bool:
    return word_count(question) <= MAX_WORDS or bool(_POINTS_BACK.search(question))


def _with_topic(question: str, topic: str) -> str:
    """In brackets and without its end mark the topic is not taken for a part to be answered."""
    named = re.sub("[?？]", "", topic).strip(_OUTER_MARKS)
    return f"{question.strip()} ({named[:MAX_TOPIC_CHARS]})"


# max_rows, core.fileMode, --all: words that nobody puts in other words.
_CODE = re.compile(
    r"(?<![\w.-])(?![A-Za-z]*\d+(?:\.\d+)+(?!\w))"
    r"(?:--?[A-Za-z](?:[\w-]*[A-Za-z0-9])?(?![\w-])"
    r"|[A-Za-z_]\w+(?:[._]\w{2,})+|(?=\w{6})[a-z]+[A-Z]\w*)",
    re.ASCII,
)
_VERSION = re.compile(
    r"(?<![\d.])\d+(?:\.\d+)+(?!\.?\d)(?!\s?(?:%|[KMGTkmgt]i?[Bb]\b|[kMG]?Hz|[kcmn]m\b|kg\b|m?s\b))"
)


def names_in(question: str) -> list[str]:
    """Names of code, options and versions in a question."""
    return list(dict.fromkeys([*_CODE.findall(question), *_VERSION.findall(question)]))


def unnamed_in(evidence: str, question: str) -> list[str]:
    """Those of the question's names that stand nowhere in the evidence."""
    text = evidence.casefold().replace("\\_", "_").replace("–", "--").replace("—", "--")

    def stands(name: str) -> bool:
        before, after = (r"\d.", r"\d") if name[0].isdigit() else (r"\w", r"\w")
        if name.startswith("-"):
            before, after = r"\w-", r"\w-"
        whole = rf"(?<![{before}]){re.escape(name.casefold())}(?![{after}])"
        return re.search(whole, text, re.ASCII) is not None

    return [name for name in names_in(question) if not stands(name)]


_QUOTED = re.compile(r"[\"“「『《]([^\"”」』》\n]{2,80})[\"”」』》]")
_TOKEN = re.compile(r"(?<!\w)\w(?:[\w.+#-]*\w)?")
_BEGINS = re.compile(r"(?:\A|[.?!:]\s|\n)\W*\Z")


def identifiers_in(question: str) -> list[str]:
    """What another wording of a question has to keep: names, numbers, and what it quotes.

    Names are those of code, words with capitals, and words with a digit.
    """
    text = HAN.sub(" ", question)
    words = [
        word[0]
        for word in _TOKEN.finditer(text)
        if any(sign.isdigit() or sign.isupper() for sign in word[0][1:])
        or word[0].isdigit()
        or (len(word[0]) > 1 and word[0][0].isupper() and not _BEGINS.search(text[: word.start()]))
    ]
    return list(dict.fromkeys([*names_in(question), *_QUOTED.findall(question), *words]))


def keeps_identifiers(text: str, question: str, *, all_of_them: bool = True) -> bool:
    """Whether the text has those of the question, or at least one of them."""
    names, folded = identifiers_in(question), text.casefold()
    stands = [name.casefold() in folded for name in names]
    return all(stands) if all_of_them else not stands or any(stands)


_AUXILIARY = "is|are|was|were|do|does|did|can|could|should|would|will|has|have|must|may"
_ASKING = rf"(?:what|who|whom|whose|where|when|why|how|which|{_AUXILIARY})\b"
_OPENING = rf"(?:(?:to|in|at|for|by|from|with|on) )?{_ASKING}"
# Of lines whose blanks are single: a run of blanks would be tried from each of them.
_ENGLISH = re.compile(
    rf" ?[,;] ?(?:and|but|or|then|also)? ?(?={_OPENING})| and (?=(?:also )?{_ASKING})",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"^{_OPENING}|\b(?:what|who|whose|where|why|how|which)\b", re.IGNORECASE)
# "When it stops, …" sets the scene; "When does it stop" asks.
_SETS_SCENE = re.compile(rf"^(?:if|while|once|when(?! (?:{_AUXILIARY})\b))\b", re.IGNORECASE)
_JOINS = r"以及|[还還]有|[并並]且|而且|另外|同[时時]"
_CHINESE = re.compile(rf"[，,；;]|(?:{_JOINS})")
_CHINESE_ASKS = re.compile(
    r"[什甚][么麼]|怎|如何|[为為]何|哪|[谁誰]|多少|多久|多大|多[长長]|多[远遠]|多高|[几幾]|何[时時]|何[处處]"
    r"|何[种種]|是否|能否|可否|有[没沒]有|能不能|是不是|可不可以|[吗嗎]"
)
_LEADS = re.compile(
    rf"^(?:and|also|then|but|besides|additionally|{_JOINS}|又|那[么麼]|那|再者|此外)[，,\s]*",
    re.IGNORECASE,
)
MIN_PART_WORDS = 2
# A pasted text has no end of sentences; each part is graded, and looked up, on its own.
MAX_PARTS = 6


def subquestions_of(question: str) -> list[str]:
    """The sub-questions in order, without the words that join them.

    The question as it is where it has no parts, or more than MAX_PARTS.
    """
    lines = [" ".join(line.split()) for line in sentences(question)]
    asks = [line for line in lines if line[-1:] in "?？"] or lines
    pieces = [
        part
        for line in asks
        for part in (_chinese if language_of(line) == "zh" else _english)(line)
    ]
    named = [_LEADS.sub("", part).strip(" ,;，；") for part in pieces]
    long = [part for part in named if word_count(part) >= MIN_PART_WORDS]
    apart = list(dict.fromkeys(long))
    return apart if len(long) > 1 and len(apart) <= MAX_PARTS else [question.strip()]


def _english(line: str) -> list[str]:
    """Cut before a word that asks; a clause before it that asks nothing stays with what follows."""
    pieces = _ENGLISH.split(line)
    asks = [bool(_ASKS.search(piece)) and not _SETS_SCENE.match(piece) for piece in pieces]
    return _joined(pieces, asks, ", ")


def _chinese(line: str) -> list[str]:
    pieces = [piece for piece in _CHINESE.split(line) if piece.strip()]
    return _joined(pieces, [bool(_CHINESE_ASKS.search(piece)) for piece in pieces], "，")


def _joined(pieces: list[str], asks: list[bool], glue: str) -> list[str]:
    parts: list[str] = []
    waiting: list[str] = []
    for piece, does in zip(pieces, asks, strict=True):
        waiting.append(piece)
        if does:
            parts.append(glue.join(waiting))
            waiting = []
    if waiting and parts:
        parts[-1] = glue.join([parts[-1], *waiting])
    return parts or [glue.join(waiting)]
