"""The API page's files as they are served; what they do is tested in tests/browser."""

import gzip
import re
from pathlib import Path

import app
from tests.app.serving import Serving

FOLDER = Path(app.__file__).parent / "extensions/playground/api_page"
FILES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
LARGEST = 15_000


def test_it_is_served_to_whoever_has_no_key_yet_and_runs_nothing_else(service: Serving) -> None:
    page = service.client.get("/docs")
    assert page.text == FILES["index.html"]
    files = re.findall(r'(?:href|src)="((?:docs|page)/[\w./]+)"', page.text)
    assert len(files) == 3
    for response in (page, *(service.client.get(f"/{file}") for file in files)):
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
    assert "<style" not in page.text
    assert not re.search(r"<script(?! type=\"module\" src=)| on\w+=|style=", page.text)


def test_it_is_small_and_reads_no_markup() -> None:
    assert sum(len(text.encode()) for text in FILES.values()) < LARGEST
    assert len(gzip.compress("".join(FILES.values()).encode())) < LARGEST / 3
    script = FILES["api.mjs"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|DOMParser|\beval\b", script)
    assert not re.search(r"(?:https?:)?//[\w.]+\.\w+", "".join(FILES.values()))


def test_every_word_is_said_in_both_languages() -> None:
    script = FILES["api.mjs"]
    pairs = re.findall(r'^  (\w+): \["(.+)", "(.+)"\],$', script, re.MULTILINE)
    assert all(re.search(r"[\u4e00-\u9fff]", chinese) for _, _, chinese in pairs)
    keys = {key for key, _, _ in pairs}
    used = set(re.findall(r'\bt\("(\w+)"\)', script))
    used |= set(re.findall(r'data-t(?:-hint)?="(\w+)"', FILES["index.html"]))
    assert used | {"stopped", "unreachable"} == keys
