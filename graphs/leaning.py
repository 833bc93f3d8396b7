"""Whether a question leans on the dialogue before it, and what it says by itself.

By rule, without dictionaries or models: words that point back, and questions that hold no word of
their own beside question words, verbs that go with anything, and nouns of something unnamed.
"""

import re

from graphs.function_words import (
    BOUNDS_ZH,
    COURTESY,
    EMPTY_EN,
    EMPTY_ZH,
    EMPTY_ZH_ALONE,
    MORE_EN,
    MORE_PHRASE,
    MORE_ZH,
    RELATIONAL_EN,
)
from graphs.text.language import language_of
from graphs.text.sentences import HAN, word_count

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
    r"|\bthe (?:former|latter|others?|same|above(?!-))\b|\byou (?:just )?(?:said|mentioned)\b"
    r"|\b(?:in|from|to|out|over) there\b|\bthere(?=[?.!]*$)"
    r"|\b(?:what|how) about\b|\b(?:too|as well|instead|otherwise|either|else|then)(?=[?.!\s]*$)",
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
_ASKS = re.compile(r"\b(?:what|which|who|whose|where|when|why|how)\b", re.IGNORECASE)
_VERB = re.compile(rf"\b{_AUXILIARY}\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9_]+(?:[-'’.+#/][A-Za-z0-9_]+)*[+#]*")
_CONTENT = re.compile(rf"(?:{HAN.pattern})+|{_WORD.pattern}")
_IS_THERE = re.compile(r"^(?:is|are) there (?:an? |any |some )?\w+[?.!\s]*$", re.IGNORECASE)
LONGEST_FRAGMENT = 3

_POINTS_ZH = re.compile(
    r"(?<![和与與及或跟])(?:它|(?<![其吉])他(?!人)|她)|[这這](?!么多|麼多)|那(?![么麼])|前者|[后後]者|上述|[两兩]者|二者"
    r"|同[样樣]|(?<![尤极極及])其(?![他它中实實次余餘])|(?<![应應本])[该該](?![怎如不用从從])"
    r"|(?<![因如彼从從])此(?![外前后後时時])|^其中"
    r"|(?:上面|[刚剛]才|之前)你?所?(?:[讲講]|[说說](?![明服])|提(?![示交供前高升醒取出]))"
    r"|^哪[个個一](?:更|比[较較])(?!.*[还還]是)"
)
_LEAD_ZH = re.compile(
    r"^(?:那[么麼]|那|[还還]有|以及|而且|[并並]且|而|但是|但|所以|然[后後])[，,\s]*"
)
_ASKS_ZH = re.compile(
    r"什[么麼]|怎|如何|[为為]何|哪|[谁誰]|多少|多久|[几幾]|何|[吗嗎]|是否|能否|有[没沒]有|能不能|是不是|可不可以"
)
_DEFINES_ZH = re.compile(
    r"什[么麼]是|是什[么麼]|是[谁誰]|[谁誰]是|指什[么麼]|什[么麼]意思|介[绍紹]|解[释釋]"
)
_SUBJECTLESS_ZH = re.compile(
    r"^(?:[请請][问問])?(?:可以|可不可以|能|需|必[须須]|要|[应應][该該]|支[持援]|有|[会會]|是|如何|怎|[为為]什[么麼]"
    r"|[为為]何|什[么麼][时時]候|何[时時]|在哪|哪|多久|多少|[几幾]|由?[谁誰]|最多|最少|包括|包含|默[认認]|[预預][设設])"
)
_EMPTY_ZH = re.compile("|".join([*sorted(EMPTY_ZH, key=len, reverse=True), EMPTY_ZH_ALONE]))
_ASKED_ZH = re.compile(
    "|".join(sorted((w for w in EMPTY_ZH - BOUNDS_ZH if len(w) > 1), key=len, reverse=True))
    + "|[吗嗎呢吧啊呀么麼了的是谁誰哪几幾]"
)

_CORRECTION = re.compile(
    r"\s*+(?:(?:no|sorry|wait|actually|oops)\b(?:\s*+[,.!:;—–-]\s*+|\s++(?=i\b)))*+"
    r"(?:i (?:actually )?(?:meant?|asked|was asking|am asking)\b(?: about\b)?[,:\s]*+)?",
    re.IGNORECASE,
)
_CORRECTION_ZH = re.compile(
    r"\s*+(?:(?:不[对對是]?|[错錯]了|抱歉|[对對]不起|不好意思|等等|等一下)(?:[，,、。！!\s]++|(?=我)))*+"
    r"(?:我(?:其[实實])?是?想?(?:[问問](?![题題])|[说說](?![明服])|指)的?是?[，,：:\s]*+)?"
)

_IS_COURTESY = re.compile(rf"\W*+(?:{COURTESY}\W*+)++", re.IGNORECASE)
_ASKS_MORE = re.compile(
    rf"\W*+(?:(?:{COURTESY}|{MORE_PHRASE}|(?:{'|'.join(MORE_EN)})\b"
    rf"|{'|'.join(sorted(MORE_ZH, key=len, reverse=True))})\W*+)*+",
    re.IGNORECASE,
)
# Whoever still fails has tried what was told before.
_STILL_FAILS = re.compile(
    r"^(?:what )?(?:if )?(?:(?:i|we)(?:['’]m|['’]re| am| are)? )?still (?:not|unable|fail\w*"
    r"|can['’]?t|cannot|(?:do|does|did|wo|is|are|has|have|could)n['’]?t)\b",
    re.IGNORECASE,
)
_STILL_FAILS_ZH = re.compile(
    r"^(?:如果|要是|万一|可是|可|我们|我們|我)*+(?:[还還]是|仍[然旧舊]?|依[然旧舊])"
    rf"{HAN.pattern}{{0,6}}?(?:不(?![错錯])|[没沒]|[无無]法|失[败敗]|[报報出][错錯])"
)


def content_of(question: str) -> list[str]:
    """The question's own words in order: no question words, pronouns, numbers, or light verbs."""
    question = question[:LONGEST_READ]
    if language_of(question) == "zh":
        words = _CONTENT.findall(_EMPTY_ZH.sub(" ", _LEAD_ZH.sub("", question)))
    else:
        words = _CONTENT.findall(question)
    told = [word for word in words if word.lower().removesuffix("'s") not in EMPTY_EN]
    return [word for word in told if not word.isdigit()]


def topic_of(question: str) -> list[str]:
    """What it is about, to be added to another question: names stay whole."""
    question = question[:LONGEST_READ]
    if language_of(question) == "zh":
        words = _CONTENT.findall(_ASKED_ZH.sub(" ", _LEAD_ZH.sub("", question)))
        return [word for word in words if len(word) > 1]
    return content_of(question)


def without_correction(question: str) -> str:
    """What is meant, without "Sorry, I meant …" before it."""
    correction = _CORRECTION_ZH if language_of(question[:LONGEST_READ]) == "zh" else _CORRECTION
    return correction.sub("", question, count=1) or question


def is_courtesy(question: str) -> bool:
    """Whether it asks nothing: thanks, a greeting."""
    return bool(_IS_COURTESY.fullmatch(question[:LONGEST_READ]))


def asks_more(question: str) -> bool:
    """Whether it asks for more, or for the same in other words, and names nothing: go on."""
    return bool(_ASKS_MORE.fullmatch(question[:LONGEST_READ]))


def leans(question: str) -> bool:
    """Whether it cannot be understood without what was said before."""
    question = question.strip()[:LONGEST_READ]
    if is_courtesy(question):
        return False
    if asks_more(question):
        return True
    return (_leans_zh if language_of(question) == "zh" else _leans_en)(question)


def _leans_en(question: str) -> bool:
    bare = _LEAD.sub("", question)
    own = [word for word in content_of(bare) if word.lower() not in RELATIONAL_EN]
    if not own or (bare != question and len(own) < 2):
        return True
    if len(own) <= LONGEST_FRAGMENT and _STILL_FAILS.match(bare):
        return True
    if _points_back(bare) or _IS_THERE.match(bare):
        return True
    if _VERB.search(bare) or not bare.endswith("?"):
        return False
    is_short = len(bare.split()) <= LONGEST_FRAGMENT and not _ASKS.search(bare)
    return is_short or bool(_STARTS_LOOSE.match(bare))


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
    if own <= 2 and _STILL_FAILS_ZH.match(bare):
        return True
    if not asks and re.search(r"呢[？?。！\s]*$", bare):
        return True
    if bare != question and (own < 2 or not asks):
        return True
    if _SUBJECTLESS_ZH.match(bare):
        return own <= (2 if bare[0] in "会會包" else 1)
    # A single noun, not asked about as such: whose?
    return own <= 1 and asks and not _WORD.search(bare) and not _DEFINES_ZH.search(bare)
