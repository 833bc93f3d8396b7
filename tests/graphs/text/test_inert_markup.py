"""No form of exfiltration survives, in no prefix of the stream; ordinary answers do not change."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphs.text.inert_markup import InertMarkup, inert
from tests.exfiltration import CITED, FORMS, HOST, U, live
from tests.plain_answers import PLAIN_ANSWERS, SOURCES

ALPHABET = [
    *("`", "``", "```", "~~~", "\n", "\n\n", "    ", "  ", " ", "- ", "1. ", "> ", "| ", "$", "$$"),
    *(
        "[",
        "](",
        "]",
        "]:",
        ")",
        "!",
        "![",
        "<",
        ">",
        "\\",
        "&#58;",
        "&colon;",
        ":::",
        "\\[",
        "\\]",
        "|-|-|\n",
    ),
    *(CITED, f"{U} ", "https:", "//", "www.", HOST, "evil.com", "/x", ".", "a", "<img src=", "#b"),
    *("\u200b", "\u200d", "。", "中", "\t", "js", "mermaid", "[1]", '"', "(", "*", "_", "\r"),
]
texts = st.lists(st.sampled_from(ALPHABET), max_size=25).map("".join)


def streamed(text: str, sizes: Sequence[int]) -> list[str]:
    """What is given out, piece by piece, of the text cut into tokens of these sizes."""
    markup, pieces, at = InertMarkup([CITED]), list[str](), 0
    for size in [*sizes, *[3] * len(text)]:
        pieces.append(markup.feed(text[at : at + size]))
        at += size
        if at >= len(text):
            break
    return [piece for piece in [*pieces, markup.end()] if piece]


def prefixes(pieces: Sequence[str]) -> list[str]:
    return ["".join(pieces[:n]) for n in range(1, len(pieces) + 1)]


def test_the_forms_are_live_to_begin_with() -> None:
    """But for those that other renderers or frontends take for live."""
    seen = {name for name, text in FORMS.items() if live(f"Before.\n\n{text}\n\nAfter.")}
    assert len(FORMS) >= 100
    assert len(seen) >= 80, sorted(set(FORMS) - seen)


@pytest.mark.parametrize("name", FORMS)
def test_no_form_survives_in_any_prefix(name: str) -> None:
    for text in (FORMS[name], f"Before [1].\n\n{FORMS[name]}\n\nAfter {CITED}."):
        for size in (1, 4):
            pieces = streamed(text, [size] * len(text))
            assert "".join(pieces) == inert(text, [CITED])
            assert [(it, found) for it in prefixes(pieces) if (found := live(it))] == []
    text = FORMS[name]
    assert not re.search(r"(?i)https?://(?!docs\.example\.org/guide)", inert(text, [CITED]))
    assert inert(inert(text, [CITED]), [CITED]) == inert(text, [CITED])


@given(texts, st.lists(st.integers(1, 9), max_size=60))
@example("a `b\n`", [1])
def test_nothing_that_is_written_is_live_in_any_prefix(text: str, sizes: list[int]) -> None:
    pieces = streamed(text, sizes)
    assert "".join(pieces) == inert(text, [CITED])
    for prefix in prefixes(pieces):
        assert live(prefix) == [], prefix


@given(texts)
def test_what_is_inert_stays_as_it_is(text: str) -> None:
    once = inert(text, [CITED])
    assert inert(once, [CITED]) == once


@given(st.text(max_size=60), st.lists(st.integers(1, 9), max_size=60))
def test_any_text_is_the_same_whole_and_streamed(text: str, sizes: list[int]) -> None:
    assert "".join(streamed(text, sizes)) == inert(text, [CITED])


@pytest.mark.parametrize("answer", PLAIN_ANSWERS)
def test_plain_answers_stay_as_they_are(answer: str) -> None:
    assert inert(answer, SOURCES) == answer
    markup = InertMarkup(SOURCES)
    tokens = re.findall(r"\S{1,4}|\s+", answer)
    assert "".join([*map(markup.feed, tokens), markup.end()]) == answer
    assert markup.degraded == ()


def test_there_are_many_plain_answers() -> None:
    assert len(set(PLAIN_ANSWERS)) >= 200


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"![a]({U})", "! [a] (hxxps://leak[.]evil[.]com/x?d=secret)"),
        (f"[a]({CITED}#secret)", f"[a]({CITED})"),
        (f"见{CITED}，然后 {CITED}。", f"见{CITED} ，然后 {CITED}。"),
        (f"({CITED})[1]", f"({CITED} )[1]"),
        ("<img src=x> but 3 < 4", "< img src=x> but 3 < 4"),
        ("[a]: /b\nSo it is [1]: yes.", "[a] : /b\nSo it is [1]: yes."),
        ("www.evil.com, evil.com/x, README.md", "www[.]evil[.]com, evil[.]com/x, README.md"),
        ("ftp://evil.com //evil.com/x", "fxp://evil[.]com / /evil.com/x"),
        ("a\u200bb\u00ad\U000e0041 👩\u200d💻 x\u200dy", "ab 👩\u200d💻 xy"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("`<a>` ``<b> ` <c>`` <d>", "`<a>` ``<b> ` <c>`` < d>"),
        ("- x\n\n  ```\n  <a>\n  ```\n<b>", "- x\n\n  ```\n  <a>\n  ```\n< b>"),
        ("> ```\n> <a>\nb\n\n```\n<b>\n```", "> ```\n> <a>\nb\n\n```\n< b>\n```"),
        ("`a | <a>`\n|-|-|\n", "`a | < a>`\n|-|-|\n"),
    ],
)
def test_what_is_live_is_broken_and_can_still_be_read(said: str, shown: str) -> None:
    assert inert(said, [CITED]) == shown


def test_what_was_broken_is_counted_and_not_repeated() -> None:
    markup = InertMarkup([CITED])
    markup.whole(f"![a]({U}) and [b]({U}) <br> <img> a<b {CITED}")
    (entry,) = markup.degraded
    assert entry.component == "generator"
    assert entry.reason.endswith(": 1 image, 2 links, 2 addresses, 2 HTML tags.")


@pytest.mark.parametrize(
    "prose",
    ["It is eighty-seven metres tall, is it not? Yes: [1] says so.", "塔高八十七米，很高。"],
)
def test_prose_waits_for_its_last_word_alone(prose: str) -> None:
    markup, given = InertMarkup([CITED]), ""
    for n, sign in enumerate(prose, start=1):
        given += markup.feed(sign)
        held = prose[len(given) : n]
        assert held.isascii()
        assert not re.search(r"\s.", held)


def test_some_addresses_are_no_sources() -> None:
    """They could not stand in a link as they are."""
    for source in ("https://a.b/(", "https://a.b/`", "https://a.b/ c", "javascript:a", "//a.b/c"):
        assert f"]({source})" not in inert(f"[x]({source})", [source])
    for source in (f"{CITED}/", f"{CITED}#part"):
        assert inert(f"[x]({CITED}) {CITED}/", [source]) == f"[x]({CITED}) {CITED}/"
