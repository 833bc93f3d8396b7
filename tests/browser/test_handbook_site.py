"""The handbook's site as `make handbook` builds it, shown by the service."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.keys import key_of
from tests.app.serving import Serving
from tests.browser.page import Page

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


def test_it_is_built_without_a_broken_link_and_searched(
    open_page: Callable[[str], Page], tmp_path: Path
) -> None:
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
    ]  # --quiet counts none
    subprocess.run(
        [*build, "-f", str(ROOT / "docs/.site/mkdocs.yml"), "-d", str(tmp_path / "handbook")],
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    key_of(tmp_path, "ann")
    with Serving(create_app(Settings(_env_file=None, data_dir=tmp_path, search="off"))) as serving:
        page = open_page(serving.url)
        page.asked_for()
        page.complaints()
        page.driver.get(f"{serving.url}/handbook/")
        page.wait(lambda: page.driver.current_url.endswith("/handbook/en/index.html"))
        for language, word, target in (
            ("en", "threshold", "/handbook/en/"),
            ("zh", "阈值", "/handbook/zh/"),
        ):
            page.driver.get(f"{serving.url}/handbook/{language}/index.html")
            page.one(".md-search__input").send_keys(word)
            page.wait(lambda: page.count(".md-search-result__link") > 0)
            links = page.all(".md-search-result__link")
            assert any(target in str(link.get_attribute("href")) for link in links)
        assert page.count(".md-tabs__link") == 2
        assert all(url.startswith((serving.url, "data:", "about:")) for url in page.asked_for())
        assert page.complaints() == []
