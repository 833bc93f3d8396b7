"""Coverage of a question's content words by the texts that answer it."""

import pytest

from graphs.text.coverage import content_terms, coverage


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("How do I CLEAN the pump's filters?", "Cleaning: open the pump; take out a filter", 1.0),
        ("What’s in the caches of two files?", "A file is kept in the cache.", 2 / 3),
        ("How do I reset the pump?", "Hold the valve until it clicks.", 0.0),
        ("Which port does gitweb listen on?", "gitweb: the port it binds to", 2 / 3),
        ("怎么重置水泵？", "重置水泵：按住按钮", 3 / 5),
        ("怎麼重置連接池？", "重置连接池：按住按钮", 4 / 6),
        ("How does it work?", "It works.", None),
    ],
)
def test_the_share_of_content_words(question: str, text: str, share: float | None) -> None:
    assert coverage(question, text) == (share and pytest.approx(share))


def test_words_of_grammar_and_endings_do_not_count() -> None:
    assert content_terms("Is the cache_dir of gpt-4.1 cached?") == {"cache_dir", "gpt-4.1", "cach"}
    assert content_terms("塔 in 灯塔") == {"塔", "灯塔"}
