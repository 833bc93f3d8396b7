from evaluator.data.text import contains_answer, is_chinese, sentences


def test_sentences_end_in_both_languages() -> None:
    assert sentences("它正确。真的？是！ It is. Really? 3.5 m; yes") == [
        "它正确。", "真的？", "是！", "It is.", "Really?", "3.5 m;", "yes",
    ]  # fmt: skip


def test_answers_are_found_at_word_bounds() -> None:
    assert contains_answer("In 1804, the Mill opened.", ["the mill"])
    assert not contains_answer("It took 18045 steps.", ["1804"])
    assert contains_answer("磨坊建于一八零四年。", ["一八零四年"])
    assert not contains_answer("anything", [""])


def test_languages() -> None:
    assert is_chinese("磨坊 mill 建于")
    assert not is_chinese("the mill 磨坊 was built long ago")
    assert not is_chinese("")
