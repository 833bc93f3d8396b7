import time

import pytest

from app.retrieval.tokenizer import Segmenter
from app.websearch.query_keywords import QuestionKeywords


@pytest.fixture(scope="module")
def extractor(segmenter: Segmenter) -> QuestionKeywords:
    extractor = QuestionKeywords(segmenter)
    extractor.load()
    return extractor


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the capital of Mongolia?", ["capital", "Mongolia"]),
        ("In what year was the University of Oxford founded?",
         ["year", "University of Oxford", "founded"]),
        ("Who wrote \"The Old Man and the Sea\"?", ["wrote", "The Old Man and the Sea"]),
        ("How many people lived in Lisbon in 1755?", ["lived", "Lisbon", "1755"]),
        ("What does the option max_critic do?", ["option", "max_critic"]),
        ("Who directed The Silent Harbour?", ["directed", "The Silent Harbour"]),
        ("谁写了《红楼梦》？", ["红楼梦"]),
        ("蒙古国的首都是哪里？", ["蒙古国", "首都"]),
        ("什么是知识条？", ["知识条"]),
        ("乌木城的红塔有多高？", ["乌木城", "红塔"]),
        ("self-crag 怎么切分网页？", ["self-crag", "网页"]),
        ("如何用Node.js和C++调用gpt-4o？", ["Node.js", "C++", "gpt-4o"]),
        ("「金閣寺」位於哪個城市？", ["金閣寺", "城市"]),
    ],
)  # fmt: skip
def test_named_spans_and_rare_terms_in_order(
    extractor: QuestionKeywords, question: str, expected: list[str]
) -> None:
    found = list(extractor.find(question, 3))
    assert [word for word in found if word in expected] == expected


@pytest.mark.parametrize(
    "question",
    [
        "Which river flows through the capital of the country that hosted the 1998 World Cup?",
        "清华大学和北京大学之间的距离以及它们成立的年份分别是多少？",
    ],
)
def test_at_most_as_many_as_asked_and_all_from_the_question(
    extractor: QuestionKeywords, question: str
) -> None:
    for most in (1, 2, 3):
        found = extractor.find(question, most)
        assert 1 <= len(found) <= most
        places = [question.index(word) for word in found]
        assert places == sorted(places)


@pytest.mark.parametrize("question", ["", "?", "what is it", "是什么？", "。。。", "a"])
def test_a_question_without_terms_has_none(extractor: QuestionKeywords, question: str) -> None:
    assert list(extractor.find(question, 3)) == []


def test_it_is_fast(extractor: QuestionKeywords) -> None:
    started = time.perf_counter()
    for _ in range(20):
        extractor.find("谁在1998年的世界杯决赛中为法国队打进了第一个球？", 3)
        extractor.find("Who scored first for France in the final of the 1998 World Cup?", 3)
    assert (time.perf_counter() - started) / 40 < 0.02


def test_a_long_question_of_rare_characters_is_no_burden(extractor: QuestionKeywords) -> None:
    question = "".join(chr(0x4E00 + at * 7919 % 20_000) for at in range(8000))
    started = time.process_time()
    assert len(extractor.find(question, 3)) == 3
    assert time.process_time() - started < 1.5
