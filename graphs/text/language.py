"""Language of a text in which English and Chinese meet: that of its frame.

"What does 灯塔 mean?" is English with a Chinese word in it, "LangGraph 怎么用" is Chinese.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphs.text.sentences import HAN, IDEOGRAPHS
from graphs.types import Language, Message


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SMALL_WORDS = _words("""
    since until after before during because while between both within whether against
    a an the i me my we us our you your it its itself they them their theirs he him his she her
    hers this that these those one ones both either neither such same other others another there
    here what which who whom whose when where why how is are was were be been being am do does
    did done have has had can could should would will shall may might must not no and or but so
    then also too as well if of in on at by for from with without to into about than under over
    per via out up off exactly really actually please just only still even again ever else
    instead otherwise mean means happen happens happened work works go goes tell say says show
    give explain describe know see use used using make makes made take takes took get gets set
    change changed turn switch need needs want wants think find many much more most long often
    far old big some any all few thing things way ways yes ok okay thanks thank i'm it's that's
    what's isn't doesn't don't s t
""")
"""English words of grammar: question words, pronouns, prepositions, verbs that go with anything."""

# A letter and what a name holds: cache_dir, gpt-4.1, torch.nn, https://….
_NAME = rf"[^\W\d_{IDEOGRAPHS}](?:[^\W{IDEOGRAPHS}]|[-./:@'’](?=\w))*+"
_OTHER_WORD = re.compile(_NAME)
_TOKEN = re.compile(rf"(?P<chinese>[{IDEOGRAPHS}]+)|(?P<word>{_NAME})")

# CAN and WHO, in capitals, are names.
_OPENS_ENGLISH = re.compile(
    r"\W*+(?![A-Z]{2})(?i:what|which|who|whose|whom|where|when|why|how|is|are|was|were|do|does|did"
    r"|has|have|had|can|could|would|will|should|please|explain|define|describe|tell|translate"
    r"|compare|summari[sz]e|list|give|show)(?!\w)"
)
_SAYING = frozenset(
    ["say", "says", "said", "show", "shows", "ask", "asks", "asked", "reads", "prints", "wrote"]
)
_SPOKEN_OF = (
    SMALL_WORDS
    | _SAYING
    | {"word", "words", "character", "characters", "phrase", "idiom", "called", "named", "english"}
    | {"pronounce", "write", "compare", "define", "learn", "message", "text", "form"}
)
"""Behind these stands a Chinese word that English speaks of."""

_BARE = re.compile(
    r"(?:[什甚][么麼]|怎[么麼]?[样樣]?|如何|[为為][什甚][么麼]|[为為]何|[谁誰]|多少|[几幾][个個位]?"
    r"|[请請][问問]?|[这這那哪][里裡儿兒个個些]?|[区區][别別]|[吗嗎呢的了得和是有])\Z"
)
"""A word of grammar by itself: what learners ask about."""
_GOES_ON = re.compile(
    r"是|的|和|与|與|跟|或|有(?!限)|在|[为為]|用(?![户戶])|[这這那]|[呢吗嗎]|出自|一共|[讲講]|叫|能|可以"
    r"|支持|不|没|失败|失敗|[报報][错錯]|怎|[什甚][么麼]|如何|多少|[几幾](?!何)|哪(?!吒)|[谁誰]"
    r"|[请請][问問]|[区區][别別]|意思|[一这那]般|方法|解[决決]|需要|应|應|主演|翻[译譯]"
    r"|[里裡上中](?=[怎能可的有是]|\Z)|中文(?=[怎的是])"
)
"""So begins what Chinese says or asks of the English before it."""
_JOINS = re.compile(r"[的和是与與跟]")
_ENDS_CLAUSE = re.compile(r"[。.?？!！,，]")
_OPENS_QUOTE = re.compile(r"(?:(?:^|[\s:：])[\"“‘'「『《(（]|[:：]\s*)\Z")
_ASKS = re.compile(r"[什甚][么麼]|怎|如何|[为為]何|哪(?!吒)|[谁誰]|多少|[吗嗎呢]|[请請]|翻[译譯]")

_WISH = re.compile(
    r"(?<!支持)(?:[用以请請]|\b[Ii]n )(?:[简簡繁][体體]?)?(?:(?P<zh>[中汉漢][文语語])|英[文语語])"
    r"|(?i:(?:\A|[.?!;:,。？！；：，]\s*|\bplease )(?:answer|reply|respond|explain|write|give)"
    r"(?: \w+){0,4}? in (?:(?P<zh_en>chinese|mandarin)|english)\b)"
)
_NO_WISH = re.compile(r"怎|[说說]|[读讀]|叫")
MAX_NAME_WORDS = 3
LATER = 8
"""Words after a Chinese one that tell whether English goes on."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A run of ideographs or another word; `gap` is what stands between it and the one before.

    A small word belongs to English grammar; in titles such words are written large.
    """

    text: str
    is_chinese: bool
    is_small: bool
    gap: str


def answer_language(question: str, history: Sequence[Message] = ()) -> Language:
    """The language to answer in: the one that is wished for, else that of the question."""
    for wish in _WISH.finditer(question):
        if not _NO_WISH.match(question, wish.end()):
            return "zh" if any(wish.groups()) else "en"
    return spoken_in(question, history)


def spoken_in(question: str, history: Sequence[Message] = ()) -> Language:
    """The question's language; after a bare name, "Gmail?", the dialogue goes on in its own."""
    questions = [turn["content"] for turn in history if turn["role"] == "user"]
    return language_of(questions[-1] if questions and _is_name(question) else question)


def language_of(text: str) -> Language:
    """The language of the text's frame; of names in both scripts alone, that of most of them.

    What begins in English is Chinese where Chinese goes on about it: "How are you 是什么意思".
    Where Chinese words are nouns between English ones it stays English, however long they are.
    What begins in Chinese is English where it speaks of a word alone: "吗 is used how?".
    """
    tokens = list(_tokens(text))
    if len({token.is_chinese for token in tokens}) < 2:
        return script_of(text)
    if tokens[0].is_chinese:
        return "en" if _is_spoken_of(tokens) else "zh"
    if any(_goes_on(tokens, place) for place in range(1, len(tokens))):
        return "zh"
    has_grammar = any(token.is_small for token in tokens)
    before = next(was for was, token in pairwise(tokens) if token.is_chinese)
    if _OPENS_ENGLISH.match(text) or (has_grammar and before.text.lower() in _SPOKEN_OF):
        return "en"
    # Names and messages of programs have no grammar: the end tells who is speaking.
    return "zh" if tokens[-1].is_chinese and not has_grammar else script_of(text)


def script_of(text: str) -> Language:
    """The language to search in: Chinese where ideographs are as many as words in other letters."""
    ideographs = len(HAN.findall(text))
    words = len(_OTHER_WORD.findall(text)) if ideographs else 0
    return "zh" if ideographs and ideographs >= words else "en"


def _tokens(text: str) -> Iterator[_Token]:
    end = 0
    for match in _TOKEN.finditer(text):
        word = match[0] if end or not match[0].istitle() else match[0].lower()
        is_small = word == "I" or (word in SMALL_WORDS and match[0] != "A")
        yield _Token(match[0], match["chinese"] is not None, is_small, text[end : match.start()])
        end = match.end()


def _is_spoken_of(tokens: Sequence[_Token]) -> bool:
    """Whether what begins in Chinese is an English sentence about a word or a name."""
    grammar = sum(token.is_small for token in tokens)
    ideographs = sum(len(token.text) for token in tokens if token.is_chinese)
    is_bare = _BARE.match(tokens[0].text) or not _ASKS.search(tokens[0].text)
    return bool(is_bare) and grammar > 1 and grammar >= ideographs


def _goes_on(tokens: Sequence[_Token], place: int) -> bool:
    """Whether here Chinese says or asks something of the English words before."""
    was, token, *later = tokens[place - 1 : place + LATER]
    if not token.is_chinese or was.is_chinese or not _GOES_ON.match(token.text):
        return False
    is_apart = _ENDS_CLAUSE.search(token.gap)
    is_said = was.text.lower() in _SAYING and not is_apart and not _JOINS.match(token.text)
    goes_on_in_english = sum(word.is_small for word in later) > 1
    if is_said or goes_on_in_english or _OPENS_QUOTE.search(token.gap):
        return False
    is_within = (was.text.lower() in _SPOKEN_OF and not is_apart) or any(
        word.is_small for word in later[:1]
    )
    return not (is_within and _BARE.match(token.text))


def _is_name(text: str) -> bool:
    """Whether it is a few words or signs without any grammar."""
    tokens = list(_tokens(text))
    is_short = len(tokens) <= MAX_NAME_WORDS and len(HAN.findall(text)) <= 2 * MAX_NAME_WORDS
    return is_short and not any(
        token.is_small or _ASKS.search(token.text) or _GOES_ON.match(token.text) for token in tokens
    )
