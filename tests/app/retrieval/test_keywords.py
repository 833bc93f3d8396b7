"""Keywords of questions, for the web, and of chunks, for filters."""

import time

import pytest

from app.retrieval.embedder import StaticEmbedder
from app.retrieval.terms import RareWords, TermTables
from app.retrieval.tokenizer import Segmenter


@pytest.fixture(scope="module")
def extractor(segmenter: Segmenter, embedder: StaticEmbedder) -> RareWords:
    return RareWords(TermTables(segmenter))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the capital of Mongolia?", ["capital", "Mongolia"]),
        ("How many people lived in Lisbon in 1755?", ["lived", "Lisbon", "1755"]),
        ("What does the option max_critic do?", ["option max_critic"]),
        ("What is Henry Feilden's occupation?", ["Henry Feilden", "occupation"]),
        ("谁写了《红楼梦》？", ["红楼梦"]),
        ("人工智能和机器学习有什么区别？", ["人工智能", "机器学习"]),
        ("乌木城的红塔在哪里？", ["乌木城", "红塔"]),
        ("如何用Node.js和C++调用gpt-4o？", ["Node.js", "C++", "gpt-4o"]),
        ("「金閣寺」位於哪個城市？", ["金閣寺", "位於", "城市"]),
        ("谁写了诗？", ["写", "诗"]),
    ],
)
def test_rare_words_of_a_question_in_order(
    extractor: RareWords, question: str, expected: list[str]
) -> None:
    assert extractor.of_question(question, 3) == expected


@pytest.mark.parametrize("question", ["", "?", "what is it", "是什么？", "。。。", "a"])
async def test_a_question_without_terms_has_none(extractor: RareWords, question: str) -> None:
    assert list(await extractor.keywords(question, 3)) == []


def test_at_most_as_many_as_asked_and_quickly(extractor: RareWords) -> None:
    question = "清华大学和北京大学之间的距离以及它们成立的年份分别是多少？"
    assert [len(extractor.of_question(question, most)) for most in (1, 2, 3)] == [1, 2, 3]
    rare = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(8000))
    started = time.process_time()
    assert len(extractor.of_question(rare, 3)) == 3
    assert time.process_time() - started < 0.2


def test_keywords_of_a_chunk_are_frequent_in_it_and_rare_in_general(extractor: RareWords) -> None:
    text = "The windmill and the windmill's owner: in 1987 it was a very old windmill."
    english = extractor.of_text(text, 8)
    assert english[0] == "windmill"
    assert not {"the", "was", "1987"} & set(english)
    chinese = extractor.of_text("蘋果樹在春天開花，我們的果園裡有一台水泵。", 8)
    assert {"水泵", "果园"} <= set(chinese)
    assert "我们" not in chinese
    assert len(extractor.of_text(" ".join(map(chr, range(97, 900))) * 2, 8)) <= 8
    assert extractor.of_text("", 8) == []
