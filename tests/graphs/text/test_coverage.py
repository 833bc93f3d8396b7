"""Coverage of a question's content words by the texts that answer it."""

import pytest

from graphs.text.coverage import content_terms, coverage


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("How do I clean the pump's filters?", "Cleaning: open the pump filter", 1.0),
        ("How do I reset the pump?", "Hold the valve until it clicks.", 0.0),
        ("Which port does gitweb listen on?", "gitweb: the port it binds to", 2 / 3),
        ("怎么重置水泵？", "重置水泵：按住按钮", 3 / 5),
        ("", "anything", 1.0),
    ],
)
def test_the_share_of_content_words(question: str, text: str, share: float) -> None:
    assert coverage(question, ["", text]) == pytest.approx(share)


def test_words_of_grammar_and_endings_do_not_count() -> None:
    assert content_terms("Is the cache_dir of gpt-4.1 cached?") == {"cache_dir", "gpt-4.1", "cach"}
    assert content_terms("塔 in 灯塔") == {"塔", "灯塔"}
