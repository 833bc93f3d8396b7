"""Prompt injection: foreign text made fit to stand in a prompt as data (spotlighting, 2403.14720).

A prompt keeps it between tags that nobody can guess. Here it loses what a model would not read as
text: control tokens of chat templates and of Self-RAG, our own tags, characters that are not seen,
and citation markers that are not ours. Quoted in an answer it may not grade itself by them either.
"""

import re

from graphs.text.citations import outside_code, with_round_markers
from graphs.text.sentences import without_invisible

OUR_TAGS = "question|knowledge|passage|dialogue|answer|findings|criticism|gold"
# <|…|>, <s>, <eos>, <unk>, <start_of_turn>, <tool_call>, <<SYS>>: classes, for each model has some.
_CONTROL_TAGS = (
    r"(?-i:s)|[bes]o[pst]|pad|unk|sep|cls|g?mask|sys|system|assistant|human|think(?:ing)?"
    r"|paragraph|(?:start|end|begin)_of_\w+|im_\w+|(?:unused|reserved|extra_id)\w*"
    r"|(?:tool|function)_(?:call|response|result|output)s?"
)
_CONTROL_BRACKETS = (
    r"inst|[bes]o[ps]|pad|unk|sep|cls|g?mask|sys|system_prompt|model_settings|available_tools"
    r"|tool_[a-z]+|(?:no )?retrieval|continue to use evidence|(?:ir)?relevant|contradictory"
    r"|(?:fully|partially|no) support(?:ed)?[^\[\]\n]{0,20}|utility ?:? ?\d"
)
_CONTROL = re.compile(
    rf"<(?=<?[\s/]*+(?:\||(?:{OUR_TAGS}|{_CONTROL_TAGS})\b))"
    rf"|\[\s?/?\s?(?:{_CONTROL_BRACKETS})\s?\]",
    re.IGNORECASE,
)
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_ASCII = {**_WIDE, ord("【"): "[", ord("】"): "]"}
_BROKEN = str.maketrans("<[]", "‹()")


def as_data(text: str) -> str:
    """Knowledge, titles and sources: nothing in it is a control token or a citation."""
    return with_round_markers(without_control_tokens(text))


def as_quotation(text: str) -> str:
    """Knowledge as an answer quotes it: but for code, nothing in it is a control token."""
    return outside_code(text, without_control_tokens)


def without_control_tokens(text: str) -> str:
    """The text, its markers kept, with other brackets around what would be a token or a tag."""
    text = without_invisible(text)
    shown = text if text.isascii() else text.translate(_ASCII)  # as long as the text
    pieces, at = list[str](), 0
    for match in _CONTROL.finditer(shown):
        pieces += [text[at : match.start()], match[0].translate(_BROKEN)]
        at = match.end()
    return "".join([*pieces, text[at:]])
