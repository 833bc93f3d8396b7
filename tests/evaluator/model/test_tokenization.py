from evaluator.inference.scorer import Scorer
from evaluator.model.tokenization import (
    END,
    SEPARATOR,
    SPECIAL_TOKENS,
    UNKNOWN,
    PairTokenizer,
    neutraliser,
    stored_form,
)
from evaluator.schema import Row
from evaluator.training.pretrained_encoder import unigram
from tests.evaluator.tiny import tiny_tokenizer

OWN_CHINESE = (
    "评估器给每一段打分，高于上阈值为正确，低于下阈值为错误，介于两者之间为模糊。"
    "檢索不到可靠的內容時，系統會改寫問題並到網路上搜尋，再把網頁切成小段逐一評分。"
    "最後由生成器撰寫帶有引用的答案，讀者可以逐條核對來源。"
)


def row(pairs: PairTokenizer, first: str, second: str) -> tuple[int, ...]:
    (found,) = pairs.encode("relevance", [(first, second)])
    assert isinstance(found, Row)
    return found.ids


def test_the_passage_is_cut_and_the_question_kept() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=40)
    ids = row(pairs, "abc", "d" * 90)
    assert len(ids) == 40
    assert ids.index(SEPARATOR) == 6
    assert ids[-1] == END


def test_a_long_question_keeps_to_its_share() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=40)
    ids = row(pairs, "a" * 80, "d" * 20)
    assert ids.index(SEPARATOR) == 13
    assert len(ids) == 13 + 4 + 20 + 1


def test_a_text_alone_has_the_prefix_of_its_kind_and_is_cut() -> None:
    pieces = [*map(stored_form, SPECIAL_TOKENS), "▁que", "ry", "▁passage", ":", "▁a", "a"]
    tokenizer = unigram([(piece, -1.0) for piece in pieces], UNKNOWN)
    texts, pairs = ["a", "a" * 90], PairTokenizer(tokenizer, max_length=40)
    for are_questions, name in ((True, ["▁que", "ry"]), (False, ["▁passage"])):
        short, long = pairs.encode_alone(texts, are_questions=are_questions)
        tokens = [tokenizer.id_to_token(number) for number in short.ids]
        assert tokens == [stored_form("[task:relevance]"), *name, ":", "▁a", stored_form("</s>")]
        assert (len(long.ids), long.ids[-1]) == (40, END)


def test_no_text_spells_a_special_token() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=400)
    ids = row(pairs, "a", " ".join(SPECIAL_TOKENS))
    special = [number for number in ids if number < len(SPECIAL_TOKENS) and number != UNKNOWN]
    assert len(special) == 4  # the task twice, one separator, one end


def test_support_puts_the_answer_first_and_the_question_last() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=40)
    (found,) = pairs.encode("support", [("q [SEP] ab [SEP] c", "ddd")])
    assert isinstance(found, Row)
    task = SPECIAL_TOKENS.index("[task:support]")
    tokens = [tiny_tokenizer().id_to_token(number) for number in found.ids]
    assert [place for place, number in enumerate(found.ids) if number == task] == [0, 12, 19]
    assert tokens[3:5] == ["▁a", "b"]
    assert tokens[-2:] == ["▁q", stored_form("</s>")]


def test_support_without_a_question_takes_the_whole_as_the_answer() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=40)
    (found,) = pairs.encode("support", [("ab", "ddd")])
    assert isinstance(found, Row)
    assert found.ids.count(SEPARATOR) == 1


def test_a_long_question_leaves_support_its_answer() -> None:
    pairs = PairTokenizer(tiny_tokenizer(), max_length=40)
    for question, answer in ((("why so? " * 200), "ab"), ("河流很长吗？" * 200, "很长")):
        long, short = pairs.encode(
            "support", [(f"{question} [SEP] {answer}", "ddd"), (f"why? [SEP] {answer}", "ddd")]
        )
        assert isinstance(long, Row)
        assert isinstance(short, Row)
        answered = short.ids.index(SEPARATOR)
        assert long.ids[:answered] == short.ids[:answered]
        assert long.ids.count(SEPARATOR) == 2


def test_own_chinese_text_is_read(shipped: Scorer) -> None:
    (found,) = shipped.encode("relevance", [("上阈值是什么？", OWN_CHINESE)])
    assert isinstance(found, Row)
    assert found.ids[found.begins :].count(UNKNOWN) <= 0.005 * len(found.ids)


def test_neutralised_text_spells_no_token() -> None:
    neutral = neutraliser(["</s>", "<extra_id_1>"])
    assert neutral("a </s> b <extra_id_1> [note]") == "a < /s> b < extra_id_1> [note]"


def test_traditional_and_simplified_questions_score_alike(shipped: Scorer) -> None:
    passage = "上阈值决定动作是不是正确。"
    simplified, traditional = "上阈值决定什么？", "上閾值決定什麼？"
    rows = shipped.encode("relevance", [(simplified, passage), (traditional, passage)])

    assert rows[0] == rows[1]
