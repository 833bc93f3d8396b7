"""Whether a question leans on the dialogue before it, and what it says by itself.

By rule, without dictionaries or models: words that point back, and questions that hold no word of
their own beside question words, verbs that go with anything, and nouns of something unnamed.
"""

import re

from graphs.function_words import EMPTY_EN, EMPTY_ZH, EMPTY_ZH_ALONE, RELATIONAL_EN
from graphs.text import HAN, language_of, word_count

LONGEST_READ = 500

_LEAD = re.compile(r"^(?:and|but|so|then|or)\b[\s,]*", re.IGNORECASE)
_AUXILIARY = (
    r"(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had|must|may|might|shall)"
)
_POINTS = re.compile(
    r"\b(?:it|its|itself|they|them|their|theirs|he|him|his|she|her|hers|these|those|this)\b"
    rf"|(?:\b(?:{_AUXILIARY}|about|of|for|than|like|with|to|by|from|after|before"
    r"|without|why|how|when|mean)\s|^)that\b|\bthat(?=[?.!\s]*$)"
    rf"|\b(?:ones?|both)(?=\s*(?:[?.!]|$)|\s+(?:{_AUXILIARY}|i|we|you|for)\b)"
    r"|\bthe (?:former|latter|others?|same)\b|\b(?:in|from|to|out|over) there\b|\bthere(?=[?.!]*$)"
    r"|\b(?:what|how) about\b|\b(?:too|as well|instead|otherwise|either|else)(?=[?.!\s]*$)",
    re.IGNORECASE,
)
# It stands for what follows: is it possible to …, how long does it take to …
_EXPLETIVE = re.compile(
    r"\b(?:is|was|does|would|will|how long does) ?it (?:possible|necessary|required|safe|better"
    r"|best|enough|allowed|take|cost|worth\w*|ok|okay|useful|important|make sense)"
    r"(?: \w+){0,2} (?:to|that|for|if)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\s(?:that|when|if|because|while|after|before|until|since|and|but|where|so|once|unless)\s|[,;]",
    re.IGNORECASE,
)
_STARTS_LOOSE = re.compile(
    r"^(?:in|on|for|with|without|from|by|under|at|to|of|as|than|only|even|not|always|never|the|a)\b",
    re.IGNORECASE,
)
_VERB = re.compile(rf"\b(?:{_AUXILIARY}|what|which|who|whose|where|when|why|how)\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_]+(?:[-'’.+#/][A-Za-z0-9_]+)*[+#]*")
LONGEST_FRAGMENT = 3

_POINTS_ZH = re.compile(
    r"(?<![和与及或跟])(?:它|(?<![其吉])他(?!人)|她)|这(?!么多)|那(?!么)|前者|后者|上述|两者|二者|同样"
    r"|(?<![尤极及])其(?![他它中实次余])|(?<![应本])该(?![怎如不用从])|(?<![因如彼从])此(?![外前后时])"
)
_LEAD_ZH = re.compile(r"^(?:那么|那|还有|以及|而且|并且|而|但是|但|所以|然后)[，,\s]*")
_ASKS_ZH = re.compile(
    r"什么|怎|如何|为何|哪|谁|多少|多久|几|何|吗|是否|能否|有没有|能不能|是不是|可不可以"
)
_SUBJECTLESS_ZH = re.compile(
    r"^(?:请问)?(?:可以|可不可以|能不能|能否|能|需要|需不需要|必须|要|应该|支持|有没有|有|会不会|会|是否|是不是"
    r"|是|如何|怎么样|怎么|怎样|为什么|为何|什么时候|何时|在哪里|在哪|哪里|多久|多少|几|由谁|谁|最多|最少|默认)"
)  # fmt: skip
_EMPTY_ZH = re.compile("|".join([*sorted(EMPTY_ZH, key=len, reverse=True), EMPTY_ZH_ALONE]))


def content_of(question: str) -> list[str]:
    """The question's own words in order: no question words, pronouns, or verbs that go anywhere."""
    question = question[:LONGEST_READ]
    if language_of(question) == "zh":
        left = _EMPTY_ZH.sub(" ", _LEAD_ZH.sub("", question))
        return re.findall(rf"(?:{HAN.pattern})+|{_WORD.pattern}", left)
    words = [match[0] for match in _WORD.finditer(question)]
    return [word for word in words if word.lower().removesuffix("'s") not in EMPTY_EN]


def leans(question: str) -> bool:
    """Whether it cannot be understood without what was said before."""
    question = question.strip()[:LONGEST_READ]
    return (_leans_zh if language_of(question) == "zh" else _leans_en)(question)


def _leans_en(question: str) -> bool:
    bare = _LEAD.sub("", question)
    own = [word for word in content_of(bare) if word.lower() not in RELATIONAL_EN]
    if not own or (bare != question and len(own) < 2) or _points_back(bare):
        return True
    is_fragment = not _VERB.search(bare)
    short = len(bare.split()) <= LONGEST_FRAGMENT
    return is_fragment and bare.endswith("?") and (short or bool(_STARTS_LOOSE.match(bare)))


def _points_back(question: str) -> bool:
    """Whether a word points out of the question: not to a noun of its own main clause."""
    question = _EXPLETIVE.sub(" ", question)
    found = _POINTS.search(question)
    if not found:
        return False
    clause = _CLAUSE.search(question)
    if clause is None or found.start() < clause.end() - 1:
        return True
    return not [w for w in content_of(question[: clause.start()]) if w.lower() not in RELATIONAL_EN]


def _leans_zh(question: str) -> bool:
    bare = _LEAD_ZH.sub("", question)
    asks = bool(_ASKS_ZH.search(bare))
    own = sum(map(word_count, content_of(bare)))
    if not own or _POINTS_ZH.search(bare):
        return True
    if not asks and re.search(r"呢[？?。！\s]*$", bare):
        return True
    if bare != question and (own < 2 or not asks):
        return True
    return own <= 1 and bool(_SUBJECTLESS_ZH.match(bare))
