"""Reading a reflective model's output: scores by hand, clean text, and nothing that is NaN."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.reflection.scores import CONTINUE, RELEVANT, RETRIEVE, SUPPORT, UTILITY
from graphs.reflection.tokens import (
    Token,
    clean,
    holds_reflection,
    judged_after,
    read,
    relevance_at,
    retrieval_at,
    without_tokens,
)

ln = math.log


def token(text: str, p: float = 1.0, **top: float) -> Token:
    """A token of probability `p`; `top` by the tokens' short names."""
    return Token(text, ln(p), {SHORT[name]: ln(value) for name, value in top.items()})


SHORT = {
    "retrieve": "[Retrieval]",
    "no": "[No Retrieval]",
    "relevant": "[Relevant]",
    "irrelevant": "[Irrelevant]",
    "full": "[Fully supported]",
    "partial": "[Partially supported]",
    "none": "[No support / Contradictory]",
    "u1": "[Utility:1]",
    "u4": "[Utility:4]",
    "u5": "[Utility:5]",
    "word": "the",
}
GROUNDED = [
    token("[Relevant]", 0.9, relevant=0.9, irrelevant=0.1),
    token("It", 0.5),
    token(" blinks", 0.25),
    token(".", 0.5),
    token("[Fully supported]", 0.6, full=0.6, partial=0.3, none=0.1),
    token("[Utility:5]", 0.75, u5=0.75, u4=0.2, u1=0.05),
    token("</s>"),
]


def text_of(tokens: list[Token]) -> str:
    return "".join(each.text for each in tokens)


def test_scores_are_those_computed_by_hand() -> None:
    reading = read(GROUNDED, text_of(GROUNDED), grounded=True)

    assert reading.text == "It blinks."
    assert reading.judgement.relevance == pytest.approx(0.9)
    assert reading.judgement.support == pytest.approx(0.6 + 0.15)
    assert reading.judgement.utility == pytest.approx(0.75 + 0.5 * 0.2 - 0.05)
    assert reading.judgement.likelihood == pytest.approx((0.5 * 0.25 * 0.5) ** (1 / 3))
    assert (reading.retrieval, reading.continues) == (None, False)


def test_without_a_passage_the_first_token_tells_whether_one_is_wanted() -> None:
    tokens = [
        token("[No Retrieval]", 0.6, no=0.6, retrieve=0.2, word=0.2),
        token("Four", 0.5),
        token("[Utility:5]", 0.5, u5=0.5, u1=0.5),
    ]
    reading = read(tokens, text_of(tokens), grounded=False)

    assert reading.text == "Four"
    assert reading.retrieval == pytest.approx(0.25)
    assert reading.judgement.relevance is None
    assert reading.judgement.support is None
    assert reading.judgement.utility == pytest.approx(0)


def test_a_token_counts_where_it_was_weighed_but_not_said() -> None:
    tokens = [token("It", 0.5, word=0.2, relevant=0.2, irrelevant=0.1)]
    assert read(tokens, "It", grounded=True).judgement.relevance == pytest.approx(2 / 3)
    assert relevance_at(tokens[0]) == pytest.approx(2 / 3)


def test_missing_groups_are_zero_and_not_nan() -> None:
    judgement = read([Token("Words.", -0.1, {})], "Words.", grounded=True).judgement
    assert (judgement.relevance, judgement.support, judgement.utility) == (0, 0, 0)
    nothing = read([], "", grounded=True)
    assert (nothing.text, nothing.judgement.likelihood) == ("", 0)


def test_aliases_are_the_tokens_they_mean() -> None:
    tokens = [Token("[No support]", ln(0.5), {"[Fully support]": ln(0.5)})]
    judgement = read(tokens, "Words.[No support]", grounded=True).judgement
    assert judgement.support == pytest.approx(0.5)
    assert judgement.weak == ("Words.",)


def test_segments_are_judged_one_by_one() -> None:
    tokens = [
        token("[Relevant]", 1, relevant=1),
        token("One."),
        token("[No support / Contradictory]", 0.8, none=0.8, full=0.2),
        token(CONTINUE),
        token("Two."),
        token("[Fully supported]", 1, full=1),
        token("[Utility:5]", 1, u5=1),
    ]
    whole = read(tokens, text_of(tokens), grounded=True)
    assert whole.text == "One. Two."
    assert whole.judgement.support == pytest.approx((0.2 + 1) / 2)
    assert whole.judgement.weak == ("One.",)

    first = read(tokens, text_of(tokens), grounded=True, one_segment=True)
    assert (first.text, first.continues) == ("One.", True)
    assert first.judgement.support == pytest.approx(0.2)


def test_a_segment_may_ask_for_other_evidence() -> None:
    tokens = [token("One."), token("[Retrieval]", 0.6, retrieve=0.6, no=0.2), token("<paragraph>")]
    segment = read(tokens, text_of(tokens), grounded=True, one_segment=True)
    assert (segment.text, segment.continues) == ("One.", False)
    assert segment.retrieval == pytest.approx(0.75)


def test_what_the_model_quotes_is_not_its_answer() -> None:
    tokens = [
        token("[Retrieval]", 0.9, retrieve=0.9, no=0.1),
        token("<paragraph>"),
        token("Quoted", 0.01),
        token("</paragraph>"),
        token("Said", 0.5),
    ]
    reading = read(tokens, text_of(tokens), grounded=False)
    assert reading.text == "Said"
    assert reading.judgement.likelihood == pytest.approx(0.5)


def test_a_given_answer_is_judged_by_what_the_model_adds() -> None:
    after = [token("[Partially supported]", 0.5, partial=0.5, full=0.5), token("[Utility:4]")]
    assert judged_after(after) == (pytest.approx(0.75), pytest.approx(0.5))
    assert judged_after([token("and", 0.5, full=0.2, u5=0.1)]) == (pytest.approx(1), 1)
    assert judged_after([]) == (0, 0)


def test_text_is_cleaned() -> None:
    for raw, text in [
        ("One.[Fully supported][Continue to Use Evidence]Two.", "One. Two."),
        ("一。[Fully supported]二。[Utility:5]</s>", "一。二。"),
        ("It [Relevant]is[Utility:1].", "It is."),
        ("<paragraph>Title\ntext</paragraph>Said", "Said"),
        ("Said<paragraph>never closed", "Said"),
        ("[Rele[Utility:1]vant]Said<|im_end|>", "[Rele vant]Said"),
        ("[No[Utility:1]support / Contradictory]Said", "Said"),
        ("[fully Supported] Said [1].", "Said [1]."),
    ]:
        assert clean(raw) == text


def test_a_passage_keeps_its_words_without_the_tokens() -> None:
    assert without_tokens("</paragraph>[Fully supported] Words</s>") == "Words"


def test_a_model_without_the_tokens_is_told_apart() -> None:
    assert not holds_reflection([token("Words", 0.5, word=0.5)])
    assert holds_reflection([token("Words", 0.5, u1=0.01)])
    assert retrieval_at(token("Words", 0.5)) == 0


SAID = st.one_of(
    st.sampled_from([*RETRIEVE, CONTINUE, *RELEVANT, *SUPPORT, *UTILITY]),
    st.sampled_from(
        ["<paragraph>", "</paragraph>", "</s>", "[No support]", "[", "No", " ", "一。"]
    ),
    st.text("a .。[]<>/", max_size=4),
)
LOGARITHM = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(-9999, 0, allow_nan=False)
)
TOKENS = st.lists(
    st.builds(Token, SAID, LOGARITHM, st.dictionaries(SAID, LOGARITHM, max_size=3)), max_size=8
)


@settings(max_examples=60)
@given(TOKENS, st.booleans(), st.booleans())
def test_any_reply_is_read_within_bounds(
    tokens: list[Token], grounded: bool, one_segment: bool
) -> None:
    reading = read(tokens, text_of(tokens), grounded=grounded, one_segment=one_segment)
    judgement = reading.judgement
    for value in (judgement.relevance, judgement.support, judgement.likelihood, reading.retrieval):
        assert value is None or 0 <= value <= 1
    assert judgement.utility is not None
    assert -1 <= judgement.utility <= 1
    assert (judgement.support is None) == (not grounded)
    for text in (reading.text, *judgement.weak):
        assert text == text.strip()
        for special in (*RETRIEVE, CONTINUE, *RELEVANT, *SUPPORT, *UTILITY, "paragraph>", "</s>"):
            assert special not in text
