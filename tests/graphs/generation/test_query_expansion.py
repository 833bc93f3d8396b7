"""What a language model replies, read as queries, and as questions that a text answers."""

from graphs.generation.prompts import (
    MAX_PASSAGE_CHARS,
    MAX_QUERIES,
    MAX_QUESTION_CHARS,
    as_hypothetical_questions,
    as_passage,
    as_query,
    as_subquestions,
    hypothetical_messages,
    queries_of,
)
from graphs.text.questions import MAX_PARTS, keeps_identifiers, subquestions_of


def test_a_query_is_one_bounded_line() -> None:
    for reply, query in [
        ("When did it open?", "When did it open?"),
        (" “何时开业？” \n", "何时开业？"),
        ("One\ntwo", ""),
        ("x" * 401, ""),
        ("```text\nWhen did it open?\n```", "When did it open?"),
        ("", ""),
    ]:
        assert as_query(reply) == query


def test_another_wording_keeps_names_and_numbers() -> None:
    for question, wording, keeps in [
        ("What is the speed of the X-100?", "What is the answer?", False),
        ("What is the speed of the X-100?", "How fast is an x-100", True),
        ("Who built the mill in Bergen in 1852?", "Who built the Bergen mill of 1852?", True),
        ("Who built the mill in Bergen in 1852?", "Who built the Bergen mill?", False),
        ("Why does PostgreSQL lock?", "Why are there locks?", False),
        ('What does "late fee" mean?', "What is a fee?", False),
        ("《西游记》的作者是谁？", "谁写了这本书？", False),
        ("《西游记》的作者是谁？", "西游记由谁所写？", True),
        ("第87号塔有多高？", "塔的高度是多少？", False),
        ("How do mills work? I wonder.", "The workings of a mill", True),
    ]:
        assert keeps_identifiers(wording, question) is keeps, (question, wording)


def test_parts_lose_their_marks_and_are_three_at_most() -> None:
    assert as_subquestions("1. When?\n\n- Who?\n3、为什么？\nWhere?") == [
        "When?",
        "Who?",
        "为什么？",
    ]
    assert as_subquestions("1）谁？\n2．为什么？\n3)How?") == ["谁？", "为什么？", "How?"]
    assert as_subquestions("") == []


def test_a_number_that_opens_a_question_is_no_mark() -> None:
    for reply, parts in [
        (
            "3.5 mm 接口和 USB-C 有什么区别？\n3.11 版的 Python 有什么变化？",
            ["3.5 mm 接口和 USB-C 有什么区别？", "3.11 版的 Python 有什么变化？"],
        ),
        ("1. 3.5 mm or USB-C?\n2)5 mm?\n-5 °C?", ["3.5 mm or USB-C?", "5 mm?", "-5 °C?"]),
        ("```\nWhen?\nWho?\n```", ["When?", "Who?"]),
        ("```text\nWhen?\n为什么？\n```", ["When?", "为什么？"]),
    ]:
        assert as_subquestions(reply) == parts


def test_a_passage_is_joined_with_its_question() -> None:
    assert as_passage(" It opened\n in 1852. ", "When?") == "When?\nIt opened in 1852."
    assert as_passage("```text\n它于1852年开业。\n```", "何时？") == "何时？\n它于1852年开业。"
    assert as_passage(" ", "When?") == ""
    assert as_passage("```\n```", "When?") == ""
    assert len(as_passage("x" * 9999, "")) == MAX_PASSAGE_CHARS + 1


def test_the_question_stays_first_and_nothing_is_asked_twice() -> None:
    assert queries_of("When?", ["", "WHEN?", "who?", "Who?"]) == ["When?", "who?"]
    assert len(queries_of("q", [str(n) for n in range(19)])) == MAX_QUERIES


def test_every_part_is_searched_beside_all_other_queries() -> None:
    for form in ["is tower {} red?", "第{}座塔有多高？"]:
        question = " ".join(form.format(n) for n in range(MAX_PARTS))
        parts = subquestions_of(question)
        made = ["A passage", "A clearer wording", *parts]

        assert len(parts) == MAX_PARTS
        assert queries_of(question, made) == [question, *made]


def test_the_prompt_names_text_and_count() -> None:
    for language, marks in [
        ("en", ("Write 3", "Title: Pump")),
        ("zh", ("写出 3 个", "标题：Pump")),
    ]:
        (message,) = hypothetical_messages("Pump", "It pumps. $HOME", 3, language)
        assert all(mark in str(message.text) for mark in (*marks, "It pumps. $HOME"))


def test_questions_that_a_text_answers_are_read_one_a_line() -> None:
    for reply, questions in [
        ("1. Who is it?\n2) Where is it?\n", ["Who is it?", "Where is it?"]),
        (
            "- 水泵在哪里？\n\n（2）谁检修了水泵？\n3、水泵多大？",
            ["水泵在哪里？", "谁检修了水泵？"],
        ),
        ("Who?\nWho?\n  \n?\n" + "x" * (MAX_QUESTION_CHARS + 1), ["Who?"]),
        ("```text\n1. Where is it?\n2. 水泵多大？\n```", ["Where is it?", "水泵多大？"]),
        ("", []),
    ]:
        assert as_hypothetical_questions(reply, 2) == questions
