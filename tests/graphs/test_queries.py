"""What a language model replies, read as queries."""

import pytest

from graphs.queries import LONGEST_PASSAGE, MOST_QUERIES, as_parts, as_passage, as_query, queries_of


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("When did it open?", "When did it open?"),
        (" “何时开业？” \n", "何时开业？"),
        ("One\ntwo", ""),
        ("x" * 401, ""),
        ("", ""),
    ],
)
def test_a_query_is_one_bounded_line(reply: str, query: str) -> None:
    assert as_query(reply) == query


def test_parts_lose_their_marks_and_are_three_at_most() -> None:
    assert as_parts("1. When?\n\n- Who?\n3、为什么？\nWhere?") == ["When?", "Who?", "为什么？"]
    assert as_parts("") == []


def test_a_passage_is_joined_with_its_question() -> None:
    assert as_passage(" It opened\n in 1852. ", "When?") == "When?\nIt opened in 1852."
    assert as_passage(" ", "When?") == ""
    assert len(as_passage("x" * 9999, "")) == LONGEST_PASSAGE + 1


def test_the_question_stays_first_and_nothing_is_asked_twice() -> None:
    assert queries_of("When?", ["", "WHEN?", "who?", "Who?"]) == ["When?", "who?"]
    assert len(queries_of("q", [str(n) for n in range(9)])) == MOST_QUERIES
