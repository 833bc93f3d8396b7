"""Units of both languages: what is read together, and the strips of every mode."""

from hypothesis import given
from hypothesis import strategies as st

from graphs.options import StripMode
from graphs.text.sentences import sentences
from graphs.text.units import StripUnit, split_strips
from tests.graphs.text.test_sentences import PROSE

MODES: list[StripMode] = ["sentences", "groups", "words", "passage"]
FENCED = st.lists(
    st.sampled_from(
        ["```", "Run it:", "- item", "1. step", "a | b", "c | d", "完。", "Text. More.", ""]
    )
).map("\n".join)
LONG = " ".join(f"Sentence {n} holds exactly these nine words in it." for n in range(9))


def texts(text: str, mode: StripMode = "sentences") -> list[str]:
    return [unit.text for unit in split_strips(text, mode)]


@given(PROSE, st.sampled_from(MODES))
def test_strips_hold_all_that_is_not_blank_once_and_in_order(text: str, mode: StripMode) -> None:
    strips = texts(text, mode)

    assert "".join("".join(strips).split()) == "".join(text.split())
    place = 0
    for strip in strips:
        assert strip == strip.strip() != ""
        place = text.index(strip, place) + len(strip)


def test_one_or_two_sentences_are_one_strip() -> None:
    for text in ["Only one.", "One long enough. " + "word " * 200 + "end.", "一。二。"]:
        assert texts(text) == [text]


def test_longer_passages_are_cut_every_few_sentences() -> None:
    english = " ".join(f"Sentence {n} holds exactly these nine words in it." for n in range(20))
    chinese = "".join(f"第{n}句话一共有将近二十个汉字在里面说事情。" for n in range(20))

    for text in (english, chinese):
        strips = texts(text)
        assert 3 <= len(strips) <= 7
        assert all(2 <= len(sentences(strip)) <= 8 for strip in strips)
        assert all(strip.endswith((".", "。")) for strip in strips)


def test_groups_are_of_three_sentences() -> None:
    assert texts("A b. C d. E f. G h.", "groups") == ["A b. C d. E f.", "G h."]
    assert texts("一。二。三。四。五。六。七。", "groups") == [
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

        assert [len(strip.split()) for strip in texts(text, "words")] == lengths


def test_chinese_windows_count_two_ideographs_a_word() -> None:
    assert [len(strip) for strip in texts("汉" * 220, "words")] == [100, 100, 20]
    assert [len(strip) for strip in texts("汉" * 218, "words")] == [100, 118]


def test_code_stays_with_the_sentence_before_it() -> None:
    code = "```\n# not a heading\nCREATE INDEX CONCURRENTLY i ON t (a);\n```"
    found = texts(f"{LONG}\nWithout locking writes, use\n{code}\n{LONG}")
    (unit,) = [text for text in found if "CONCURRENTLY" in text]
    assert unit.endswith(f"Without locking writes, use\n{code}")
    assert all("CONCURRENTLY" not in text for text in found if text != unit)


def test_a_list_and_a_table_stay_with_what_introduces_them() -> None:
    for introduced in ("- one\n- two", "1. first\n2. second", "名称 | 值\n甲 | 1"):
        (unit,) = split_strips(f"它有这些:\n{introduced}")
        assert unit == StripUnit(f"它有这些:\n{introduced}")
    apart = texts(f"{LONG}\n- one\n- two")
    assert apart[-1] == "- one\n- two"


def test_what_is_too_long_to_stay_is_led_by_what_introduces_it() -> None:
    rows = "\n".join(f"option_{n} | {n} seconds are the default of this one" for n in range(40))
    units = split_strips(f"The options are:\nname | default\n{rows}")
    assert units[0] == StripUnit("The options are:")
    assert units[1].lead == "The options are:"
    assert units[1].text.startswith("name | default\noption_0")
    assert {unit.lead for unit in units[2:]} == {"The options are:\nname | default"}
    items = "\n".join(f"- the item {n} says something of its own here" for n in range(40))
    led = split_strips(f"These are all of them:\n{items}")
    assert {unit.lead for unit in led[1:]} == {"These are all of them:"}


def test_a_bar_in_prose_makes_no_table() -> None:
    assert texts("Pipe it: a | b works.\nThen stop.") == ["Pipe it: a | b works.\nThen stop."]


@given(FENCED)
def test_no_text_is_lost_or_told_twice(text: str) -> None:
    assert "".join("".join(texts(text)).split()) == "".join(text.split())


def test_chinese_is_one_strip_in_every_mode() -> None:
    text = "这是 一个 带 空格 的 句子，讲 造纸 厂 的 历史。"
    assert sentences(text) == [text]
    assert [texts(text, mode) for mode in MODES] == [[text]] * 4
