"""The page in a browser, as a user meets it: what is there is read, clicked and typed into."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphs.ports import Services
from tests import fakes
from tests.app.serving import wait_until
from tests.app.slow import SlowChat, Waiting
from tests.umbra import TOWER

WAIT_S = 40.0
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
AT_REST = """
return document.getAnimations().every((it) =>
  it.playState === "finished" || it.effect.getComputedTiming().iterations === Infinity);
"""


def stopping(seconds: float) -> Services:
    """A chat endpoint that stops for a while in the middle of its answer."""
    chat = SlowChat(chunks=["It is 87 metres ", "tall [1]."], waiting=Waiting(seconds))
    return fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)


class Page:
    """One browser at one service; `driver` is selenium's."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, path: str = "/") -> "Page":
        self.driver.get("about:blank")
        self.driver.get(self.url + path)
        self.wait(lambda: self.count("#workflow option") > 0 or self.shown("#key-form"))
        return self

    def do(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, css: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements("css selector", css)
        return found

    def one(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def count(self, css: str) -> int:
        return len(self.all(css))

    def text(self, css: str) -> str:
        """What is shown, hidden texts left out."""
        return "\n".join(element.text for element in self.all(css))

    def shown(self, css: str) -> bool:
        return any(element.is_displayed() for element in self.all(css))

    def label(self, css: str) -> str:
        return "".join(element.get_attribute("aria-label") or "" for element in self.all(css))

    def click(self, css: str) -> None:
        """Once it is there: lists are drawn anew while their data come."""
        from selenium.common import (  # noqa: PLC0415 -- not installed where these do not run
            NoSuchElementException,
            StaleElementReferenceException,
        )

        def is_clicked() -> bool:
            try:
                element = self.one(css)
                self.do("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
            except (NoSuchElementException, StaleElementReferenceException):
                return False
            return True

        self.wait(is_clicked)

    def wait(self, holds: Callable[[], Any]) -> None:
        """Until it holds; an element that is drawn anew meanwhile is looked for again."""
        from selenium.common import (  # noqa: PLC0415 -- not installed where these do not run
            StaleElementReferenceException,
        )

        def has_come() -> bool:
            try:
                return bool(holds())
            except StaleElementReferenceException:
                return False

        wait_until(has_come, WAIT_S)

    def unfold_options(self) -> None:
        """All groups of them, once they are drawn."""
        self.click("#options summary")
        self.wait(lambda: self.count(".group"))
        self.do("for (const it of document.querySelectorAll('.group')) it.open = true")

    def start(self, question: str) -> None:
        """Types a question and presses Enter."""
        box = self.one("#question")
        box.clear()
        box.send_keys(question)
        box.send_keys("\ue007")

    def ended(self) -> bool:
        """Looked at in one moment."""
        return bool(
            self.do(
                "const shown = (css) => document.querySelector(css).checkVisibility();"
                "return shown('#ask') && (shown('#state') || shown('#failed'))"
            )
        )

    def ask(self, question: str) -> str:
        """Asks and waits for the end; the answer."""
        self.start(question)
        self.wait(lambda: self.do("return location.hash").startswith("#run=") and self.ended())
        return self.text("#answer")

    def unfold(self) -> None:
        """Opens how the answer came about, and its evidence."""
        self.do("for (const id of ['how', 'why']) document.getElementById(id).open = true")

    def run_id(self) -> str:
        return str(self.do("return location.hash")).removeprefix("#run=")

    def size(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        wish = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)

    def complaints(self) -> list[str]:
        """What the console has been told of errors since the last time.

        A stylesheet opened by itself, as before each test, has Chromium ask for an icon, in time.
        """
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in {"SEVERE", "WARNING"} and "/favicon.ico" not in entry["message"]
        ]

    def asked_for(self) -> list[str]:
        """The addresses that were asked for since the last time."""
        told = (json.loads(entry["message"]) for entry in self.driver.get_log("performance"))
        messages = [entry["message"] for entry in told]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def axe(self) -> list[str]:
        """What axe-core finds once all that moves in is at rest, with the first place of each.

        Colours of what is still fading in are those of no view, and fail a contrast at random.
        """
        self.wait(lambda: self.do(AT_REST))
        self.do(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
        )
        return [
            f"{it['id']}: {it['nodes'][0]['html'][:120]} {it['nodes'][0]['failureSummary'][:200]}"
            for it in found["violations"]
        ]

    def picture(self, path: Path) -> None:
        shot = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"}
        )
        path.write_bytes(base64.b64decode(shot["data"]))
