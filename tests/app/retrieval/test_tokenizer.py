from pathlib import Path

import pytest

from app.retrieval.tokenizer import WORD, Segmenter, english_query


def test_traditional_and_simplified_become_the_same_words(segmenter: Segmenter) -> None:
    assert segmenter.words("資料庫的檢索系統") == segmenter.words("资料库的检索系统")


@pytest.mark.parametrize(
    "text",
    [
        "A run of words: self-crag, Node.js, C++ and C#, AT&T!",
        "Café déjà vu, 3.14 v1.2, ½ x² ｆｕｌｌ",
    ],
)
def test_words_without_ideographs_are_those_that_jieba_cuts(
    segmenter: Segmenter, text: str
) -> None:
    cut = segmenter.cutter.cut_for_search(segmenter.simplified(text), HMM=False)
    assert segmenter.words(text) == tuple(word for word in cut if WORD.search(word))


def test_a_dictionary_from_the_cache_cuts_alike(segmenter: Segmenter) -> None:
    cached = Segmenter(Path(segmenter.cutter.tmp_dir))
    assert cached.words("資料庫的檢索系統") == segmenter.words("資料庫的檢索系統")
    assert cached.cutter.total == segmenter.cutter.total


def test_long_words_come_with_their_parts(segmenter: Segmenter) -> None:
    words = segmenter.words("中华人民共和国成立")
    assert {"中华", "人民", "共和国", "成立"} <= set(words)


def test_latin_words_in_chinese_are_lower_case(segmenter: Segmenter) -> None:
    assert {"lancedb", "crag"} <= set(segmenter.words("LanceDB 与 ＣＲＡＧ 的关系"))


def test_punctuation_is_no_word(segmenter: Segmenter) -> None:
    assert segmenter.words("，。！《》……") == ()


def test_question_words_are_not_looked_for(segmenter: Segmenter) -> None:
    assert segmenter.query_words("什么是阈值？") == ["阈值"]
    assert english_query("What is the upper threshold?") == "upper threshold"


def test_a_question_of_stop_words_alone_is_kept(segmenter: Segmenter) -> None:
    assert segmenter.query_words("是什么？")
    assert english_query("Who is who?") == "who is who"
