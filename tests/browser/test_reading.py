"""An answer as it is read: its verdict, none found, the composer below, two side by side."""

from collections.abc import Callable

import pytest

from tests import fakes
from tests.app.serving import Serve, Serving
from tests.browser.page import Page
from tests.umbra import CHINESE, ENGLISH, TOWER

pytestmark = pytest.mark.browser

Open = Callable[[str], Page]
UNANSWERED = "Who painted the ceiling of the opera in Lirn?"
FOOT = """
const box = (css) => document.querySelector(css).getBoundingClientRect();
scrollTo(0, document.documentElement.scrollHeight);
const [turn, composer] = [box("#turn > :last-child"), box(".composer")];
return [Math.round(composer.bottom - innerHeight), turn.bottom <= composer.top];
"""


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)])
def test_the_composer_stays_at_the_foot_of_every_turn_and_covers_nothing(
    page: Page, size: tuple[int, int]
) -> None:
    page.size(*size)
    empty = "return document.documentElement.scrollHeight - innerHeight"
    assert page.do(empty) <= 0, "nothing unseen lengthens the page"
    for question in (ENGLISH, CHINESE):
        page.do("history.replaceState(null, '', '#ask')")
        page.ask(question)
        bottom = "return document.querySelector('.composer').getBoundingClientRect().bottom"
        assert round(page.do(bottom)) == size[1]
        assert page.do(FOOT) == [0, True]


def test_where_no_answer_is_found_it_is_said_what_was_searched(
    open_page: Open, serve: Serve, page: Page
) -> None:
    answer = page.ask(UNANSWERED)
    assert [chip.text for chip in page.all("#turn .chip")] == ["No answer found"]
    assert "Web: not searched." in page.text("#searched")
    assert page.text("#sources-title") == "Nearest passages"
    page.wait(lambda: page.text(".citation .quoted"))
    assert page.count(".citation") == 3
    assert page.text("#answer") == answer
    page.click(".source-card")
    page.wait(lambda: page.shown("#reader mark"))
    assert page.axe() == []

    lost = fakes.services(
        fakes.FakeRetriever([TOWER]),
        evaluator=fakes.FakeEvaluator({TOWER.text: -0.9}),
        web_search=fakes.FakeWebSearch(fails=True),
    )
    page = open_page(serve(lost).url)
    page.ask(ENGLISH)
    assert "below the lower threshold" in page.text("#searched")
    assert "Web: could not be reached" in page.text("#searched")


def test_two_workflows_answer_side_by_side(page: Page, shipped: Serving) -> None:
    page.one("#question").send_keys(ENGLISH)
    page.click("#compare-question")
    page.wait(lambda: page.do("return location.hash").startswith("#compare="))
    page.wait(lambda: page.count("#versus .said") == 2)

    ids = page.do("return location.hash").removeprefix("#compare=").split(",")
    names = [shipped.client.get(f"/runs/{run}").json()["workflow"] for run in ids]
    assert names == ["rag", "self_crag"]
    for name in names:
        side = page.text(f"#versus [data-workflow={name}]")
        assert "87 metres" in side
        assert "tower.md" in side
    assert page.count("#versus .chip") == 2
    assert page.axe() == []
    page.driver.refresh()
    page.wait(lambda: page.count("#versus .said") == 2)
    page.click("#versus [data-workflow=self_crag] a")
    page.wait(lambda: page.shown("#turn"))
    assert not page.shown("#versus")
    page.click("#compare-run")
    page.wait(lambda: page.count("#versus .said") == 2)
    assert page.do("return location.hash").endswith(ids[1]), "the run that is known stays"
    assert page.complaints() == []


def test_presets_that_need_a_language_model_are_closed_without_one(
    open_page: Open, serve: Serve, page: Page
) -> None:
    def opens(page: Page, is_closed: bool) -> None:
        page.click("#options summary")  # the cards are drawn anew once the workflows are known
        card = "document.querySelector('[name=preset-card][value=best]')"
        page.wait(lambda: page.do(f"return {card}?.disabled") is is_closed)

    opens(page, is_closed=True)
    assert "Needs a language model" in page.text("#presets")
    chat = fakes.FakeChat(chunks=["It is 87 metres tall [1]."])
    page = open_page(serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)).url)
    opens(page, is_closed=False)
    assert "Needs a language model" not in page.text("#presets")
