"""Sentences and strips of both languages."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from graphs.options import StripMode
from graphs.text.sentences import sentence_spans, sentences, split_strips

MODES: list[StripMode] = ["sentences", "groups", "words", "passage"]
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


@given(PROSE, st.sampled_from(MODES))
def test_strips_hold_all_that_is_not_blank_once_and_in_order(text: str, mode: StripMode) -> None:
    strips = split_strips(text, mode)

    assert "".join("".join(strips).split()) == "".join(text.split())
    place = 0
    for strip in strips:
        assert strip == strip.strip() != ""
        place = text.index(strip, place) + len(strip)


def test_one_or_two_sentences_are_one_strip() -> None:
    for text in ["Only one.", "One long enough. " + "word " * 200 + "end.", "一。二。"]:
        assert split_strips(text) == [text]


def test_longer_passages_are_cut_every_few_sentences() -> None:
    english = " ".join(f"Sentence {n} holds exactly these nine words in it." for n in range(20))
    chinese = "".join(f"第{n}句话一共有将近二十个汉字在里面说事情。" for n in range(20))

    for text in (english, chinese):
        strips = split_strips(text)
        assert 3 <= len(strips) <= 7
        assert all(2 <= len(sentences(strip)) <= 8 for strip in strips)
        assert all(strip.endswith((".", "。")) for strip in strips)


def test_groups_are_of_three_sentences() -> None:
    assert split_strips("A b. C d. E f. G h.", "groups") == ["A b. C d. E f.", "G h."]
    assert split_strips("一。二。三。四。五。六。七。", "groups") == [
        "一。二。三。",
        "四。五。六。",
        "七。",
    ]


def test_windows_are_of_fifty_words_and_a_short_tail_joins() -> None:
    for words, lengths in [
        (50, [50]),
        (59, [59]),
        (60, [50, 10]),
        (109, [50, 59]),
        (110, [50, 50, 10]),
        (9, [9]),
    ]:
        text = " ".join(f"w{n}" for n in range(words))

        assert [len(strip.split()) for strip in split_strips(text, "words")] == lengths


def test_chinese_is_never_split_on_blanks() -> None:
    text = "这是 一个 带 空格 的 句子，讲 造纸 厂 的 历史。"

    assert sentences(text) == [text]
    assert [split_strips(text, mode) for mode in MODES] == [[text]] * 4


def test_chinese_windows_count_two_ideographs_a_word() -> None:
    assert [len(strip) for strip in split_strips("汉" * 220, "words")] == [100, 100, 20]
    assert [len(strip) for strip in split_strips("汉" * 218, "words")] == [100, 118]
