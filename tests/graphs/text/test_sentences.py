"""Sentences and strips of both languages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.text.sentences import sentence_spans, sentences, stands_in

# Texts made of what sentences are cut at, so that random ones are worth trying.
PROSE = st.lists(
    st.sampled_from(
        [
            *(
                "word ",
                "Dr. ",
                "e.g. ",
                "U.S. ",
                "3.14 ",
                "p.m. ",
                "end. ",
                "end.",
                "Why? ",
                "No! ",
            ),
            *("句子", "完。", "吗？", "好！", "；", "“说。”", "……", "...", "…", "😀", "䷀", "[3] "),
            *("- ", "# ", "| ", "1. ", "\n", "\n\n", " ", "\u3000", "(", ")", '"', "”"),
        ]
    ),
    max_size=60,
).map("".join) | st.text(max_size=200)


def test_sentences() -> None:
    for text, expected in [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("一句。两句！三句？四句；五", ["一句。", "两句！", "三句？", "四句；", "五"]),
        ("Version 2.0 is out. Good.", ["Version 2.0 is out.", "Good."]),
        ("Dr. Who met J. R. Smith. He left.", ["Dr. Who met J. R. Smith.", "He left."]),
        ("Ink, paper, etc. are sold. Ask.", ["Ink, paper, etc. are sold.", "Ask."]),
        ("Ink, etc. The shop is shut.", ["Ink, etc.", "The shop is shut."]),
        (
            "At 5 p.m. he left. It was 6 p.m. Then rain.",
            ["At 5 p.m. he left.", "It was 6 p.m.", "Then rain."],
        ),
        ('He said "Stop!" and left. Fine.', ['He said "Stop!" and left.', "Fine."]),
        ('Begin with "squash! …" there. Fine.', ['Begin with "squash! …" there.', "Fine."]),
        ("She asked, “Why?” He left.", ["She asked, “Why?”", "He left."]),
        ("Wait... what? Done… Next.", ["Wait... what?", "Done…", "Next."]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("他想了想……\n后来呢？！走了。", ["他想了想……", "后来呢？！", "走了。"]),
        ("使用T5模型。npm 也行。", ["使用T5模型。", "npm 也行。"]),
        ("端口是8000.默认如此。", ["端口是8000.", "默认如此。"]),
        ("Born in 1912.[3] He wrote.[4][5] End.", ["Born in 1912.[3]", "He wrote.[4][5]", "End."]),
        ("生于1912年。[3]后来写作。", ["生于1912年。[3]", "后来写作。"]),
        (
            "# Title\n- one item\n- two items.\n1. Step",
            ["# Title", "- one item", "- two items.", "1. Step"],
        ),
        ("Done 😀. Next 🎉! Bye", ["Done 😀.", "Next 🎉!", "Bye"]),
        ("See a.b.c/d?e=f now.", ["See a.b.c/d?e=f now."]),
        (" \n \t\u3000", []),
        ("", []),
    ]:
        assert sentences(text) == expected


@given(PROSE)
def test_sentences_hold_all_that_is_not_blank_once_and_in_order(text: str) -> None:
    spans = sentence_spans(text)

    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    held = "".join(text[start:end] for start, end in spans)
    assert "".join(held.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("sentence", "text", "stands"),
    [
        ("It is tall.", "Yes: it  is\ntall, indeed.", True),
        ("It is tall.", "It is taller.", False),
        ("87", "It was built in 1870.", False),
        ("它很高。", "据说它很高，也很老。", True),
        ("…", "Nothing.", False),
    ],
)
def test_a_sentence_stands_in_a_text_word_for_word(sentence: str, text: str, stands: bool) -> None:
    assert stands_in(sentence, text) == stands
