"""Term weights: what they favour, how they are stored, how fast they are added up."""

import pytest

from app.retrieval.embedder import StaticEmbedder
from app.retrieval.terms import (
    MAX_TERMS,
    STEPS,
    TermTables,
    joined,
    lexical_scores,
    packed,
    query_terms,
    term_weights,
)
from app.retrieval.tokenizer import Segmenter
from graphs.types import Language

TEXT = "The miller grinds corn. The wheel turns slowly in the river."


@pytest.fixture(scope="module")
def tables(segmenter: Segmenter, embedder: StaticEmbedder) -> TermTables:
    return TermTables(segmenter)


def test_terms_are_stems_in_english_and_words_in_chinese(tables: TermTables) -> None:
    weights = term_weights("Mills", "Grinding", TEXT, "en", tables)
    assert {"mill", "grind", "corn", "grind corn"} <= weights.keys()
    assert "the" not in weights
    assert {"资料库", "检索"} <= term_weights("資料庫", "", "資料庫與檢索。", "zh", tables).keys()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_pair_of_surrogates_is_the_character_that_it_stands_for(
    tables: TermTables, language: Language
) -> None:
    whole = tables.terms("mill \U0002000b 水車", language)
    assert ("\U0002000b", "\U0002000b") in whole
    assert tables.terms("mill \ud840\udc0b 水車\ud840", language)[: len(whole)] == whole


def test_titles_and_rare_words_weigh_more(tables: TermTables) -> None:
    plain = term_weights("", "", TEXT, "en", tables)
    assert term_weights("Corn", "", TEXT, "en", tables)["corn"] > plain["corn"]
    assert term_weights("", "Corn", TEXT, "en", tables)["corn"] > plain["corn"]
    assert plain["miller"] > plain["turn"]


def test_stored_weights_are_the_weights_in_steps(tables: TermTables) -> None:
    weights = term_weights("Mills", "", TEXT, "en", tables)
    stored = packed(weights)
    assert len(stored) == 5 * len(weights)
    asked = ["corn", "wheel", "unheard"]
    found = sum(weights.get(term, 0.0) for term in asked)
    assert lexical_scores(asked, [stored])[0] == pytest.approx(found, abs=1 / STEPS)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hostile_texts_are_bounded(tables: TermTables, language: str) -> None:
    assert language in ("en", "zh")
    for text in ("", "\x00\ud800", "a" * 1_000_000, "word " * 200_000, "長" * 100_000):
        weights = term_weights("", "", text, language, tables)  # type: ignore[arg-type]
        assert len(packed(weights)) <= 5 * MAX_TERMS


def test_many_passages_are_scored_as_one_is(tables: TermTables) -> None:
    texts = [TEXT, "Bread is baked.", "", "The river is long."]
    stored = [packed(term_weights("", "", text, "en", tables)) for text in texts]
    asked = query_terms("How long is the river?", "en", tables)
    scores = lexical_scores(asked, [*stored, None])
    assert list(scores) == [*(lexical_scores(asked, [one])[0] for one in stored), 0]
    assert scores.argmax() == 3
    assert lexical_scores(asked, []).shape == (0,)
    assert lexical_scores([], stored).tolist() == [0] * 4


def test_joining_mixes_by_the_language_s_share(tables: TermTables) -> None:
    del tables
    order = joined([3.0, 2.0, 1.0], lexical_scores([], [None] * 3), "en")
    assert list(order) == sorted(order, reverse=True)
    weights = packed({"mill": 9.0})
    lifted = joined([2.0, 1.9, 1.0], lexical_scores(["mill"], [None, weights, None]), "en")
    assert lifted.argmax() == 1
