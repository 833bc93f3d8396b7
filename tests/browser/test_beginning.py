"""The empty page: what the service does, questions of the documents at hand, a door for files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.serving import Serving
from tests.browser.page import Page

pytestmark = pytest.mark.browser


def test_questions_are_made_of_the_documents_at_hand(page: Page) -> None:
    page.wait(lambda: page.count(".example") == 3)
    titles = ("The red tower", "Bread of the harbour")
    english = [it.text for it in page.all(".example[lang=en]")]
    assert english == [it.text for it in page.all(".example")[: len(english)]], "the page's first"
    assert {title for title in titles for it in english if title in it} == set(titles)
    page.click("#language")
    page.wait(lambda: page.all(".example")[0].get_attribute("lang") == "zh-CN")
    page.click(".example")
    page.wait(lambda: page.run_id() and page.ended())
    assert "乌木城" in page.text("#turn-question") or "面包" in page.text("#turn-question")
    assert not page.shown("#welcome")


def test_files_are_brought_in_from_the_empty_page_and_from_a_conversation(
    open_page: Callable[[str], Page], harbour: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.exe"
    program.write_bytes(b"MZ\x00\x01")
    settings = Settings(_env_file=None, data_dir=tmp_path / "state", search="off")
    with Serving(create_app(settings)) as serving:
        page = open_page(serving.url)
        assert page.count(".example") == 0, "no documents, no questions about them"
        page.one("#files").send_keys(f"{harbour}\n{program}")
        page.wait(lambda: page.shown("#upload-close"))
        added, refused = (it.text for it in page.all("#upload-report li"))
        assert added.startswith("added")
        assert "harbour.md" in added
        assert refused.startswith("refused")
        assert "unknown kind of file" in refused
        assert page.text("#upload-state") == "1 added, 1 refused"
        page.wait(lambda: page.text(".example") == "Harbour of Lirn: Ice?")
        assert page.axe() == []
        page.click(".example")
        page.wait(lambda: page.run_id() and page.ended())
        assert "nineteen days" in page.text("#answer")

        page.one("#files").send_keys(str(harbour))
        page.wait(lambda: page.shown("#tray #upload-close"))
        assert page.text("#tray #upload-report").startswith("unchanged")
        page.click("#upload-close")
        assert not page.shown("#drop")
        assert page.complaints() == []
