"""Chromium without a window, and the service with the parts that ship."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.conftest import serve  # noqa: F401 - a fixture
from tests.app.knowledge import fill
from tests.app.serving import Serving
from tests.browser.page import WATCH, Page

FLAGS = (
    *("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"),
    *("--no-first-run", "--disable-background-networking", "--lang=en-US", "--no-sandbox"),
)


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """One browser for all tests."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "make test-extra installs Chromium"
    assert chromedriver, "make test-extra installs Chromium's driver"
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ.setdefault("SE_AVOID_STATS", "true")
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    driver.set_script_timeout(60)
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Index, evaluator and extractive generator over a small knowledge base of its own."""
    state = tmp_path_factory.mktemp("playground")
    fill(tmp_path_factory.mktemp("playground_pages"), state)
    with Serving(create_app(Settings(_env_file=None, data_dir=state, search="off"))) as serving:
        yield serving


@pytest.fixture
def open_page(driver: Any) -> Iterator[Callable[[str], Page]]:
    """Opens a service's page afresh; what was kept of an earlier visit is forgotten."""

    def opened(url: str) -> Page:
        page = Page(driver, url)
        page.size(1280)
        page.prefer("light")
        driver.get(f"{url}/page/style.css")
        driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        page.complaints()
        page.asked_for()
        return page.open()

    yield opened
    driver.get("about:blank")


@pytest.fixture
def page(open_page: Callable[[str], Page], shipped: Serving) -> Page:
    """The page of the shipped parts."""
    return open_page(shipped.url)


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """A document on what no other says."""
    path = tmp_path / "harbour.md"
    text = "# Harbour of Lirn\n\n## Ice\n\nThe harbour of Lirn freezes for nineteen days a year.\n"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A document that would do harm if any of it were taken for markup."""
    path = tmp_path / "hostile.md"
    path.write_text(
        "# <script>window.harmed=1</script> The obelisk of Quor\n\n"
        "The obelisk of Quor weighs 412 tonnes <img src=x onerror='window.harmed=1'>."
        " [Click](javascript:window.harmed=1) **now** <script>window.harmed=1</script>.\n",
        encoding="utf-8",
    )
    return path
