"""The parts of a question that asks for more than one thing, in both languages."""

from hypothesis import given
from hypothesis import strategies as st

from graphs.text.questions import MAX_PARTS, subquestions_of


def test_what_is_asked_is_told_apart() -> None:
    for question, parts in [
        ("Who built the tower and when did it open?", ["Who built the tower", "when did it open?"]),
        ("Who built it, and how tall is it?", ["Who built it", "how tall is it?"]),
        ("Who built it; when did it open?", ["Who built it", "when did it open?"]),
        ("Who built the tower? How tall is it?", ["Who built the tower?", "how tall is it?"]),
        (
            "What is CRAG, how does it differ from RAG, and when should I use it?",
            ["What is CRAG", "how does it differ from RAG", "when should I use it?"],
        ),
        ("In which year did it open, and to whom was it sold?", None),
        ("红塔有多高，是谁建的？", ["红塔有多高", "是谁建的？"]),
        ("红塔有多高？是谁建的？", ["红塔有多高？", "是谁建的？"]),
        ("面团静置多久以及在哪里静置？", ["面团静置多久", "在哪里静置？"]),
        ("什么是红塔，另外它有多高？", ["什么是红塔", "它有多高？"]),
        ("什么是阈值，谁设定它？", ["什么是阈值", "谁设定它？"]),
        ("什麼是閾值，誰設定它？", ["什麼是閾值", "誰設定它？"]),
        (
            "支援哪些格式，預設值是幾？還有誰能看到？",
            ["支援哪些格式", "預設值是幾？", "誰能看到？"],
        ),
        (
            "為何要校準，需要多長時間，會重新開始嗎？",
            ["為何要校準", "需要多長時間", "會重新開始嗎？"],
        ),
        ("紅塔幾年開放，並且歸誰管？", ["紅塔幾年開放", "歸誰管？"]),
        ("Who built  it ,\t  and  how tall is it?", ["Who built it", "how tall is it?"]),
    ]:
        expected = parts or ["In which year did it open", "to whom was it sold?"]

        assert [part.casefold() for part in subquestions_of(question)] == [
            p.casefold() for p in expected
        ]


def test_one_question_stays_whole() -> None:
    for question in [
        "How tall is the tower?",
        "What are salt and pepper?",
        "Who is John and Mary's father?",
        "Tell me about the tower and the bakery.",
        "If the web is off, what happens under Incorrect?",
        "When it stops, what should I do?",
        "How do the upper and the lower threshold work?",
        "红塔有多高？",
        "如果网络关闭，会发生什么？",
        "红塔、面包和盐有什么区别？",
        "介绍一下红塔。",
    ]:
        assert subquestions_of(question) == [question]


def test_what_is_only_said_is_no_part() -> None:
    for question, parts in [
        ("The tower is old. Who built it?", ["The tower is old. Who built it?"]),
        ("The tower is old. Who built it and who paid?", ["Who built it", "who paid?"]),
        ("红塔很旧。红塔是谁建的，花了多少钱？", ["红塔是谁建的", "花了多少钱？"]),
    ]:
        assert subquestions_of(question) == parts


ENGLISH = ("who", "what is", "and", "when does", "the tower", ", ", "; ", "? ", "if", ". ", "\n")
CHINESE = ("谁", "什么", "以及", "，", "？", "红塔", "吗", "如果", "。")
WORDS = st.sampled_from(ENGLISH + CHINESE)


@given(st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=40))
def test_there_is_always_a_part_and_none_twice(question: str) -> None:
    parts = subquestions_of(question)

    assert parts
    assert len(parts) == len(set(parts))
    assert all(parts) or not question.strip()
    assert parts == subquestions_of(question)


def test_a_pasted_text_is_one_question() -> None:
    for text in [
        " ".join(f"Tower {n} is red." for n in range(100)),
        " ".join(f"is tower {n} red?" for n in range(MAX_PARTS + 1)),
        "".join(f"第{n}座塔有多高？" for n in range(MAX_PARTS + 1)),
    ]:
        assert subquestions_of(text) == [text]
