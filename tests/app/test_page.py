"""Files of the playground and of the API's page as they are served.

What they do is tested in tests/browser.
"""

import gzip
import re
from pathlib import Path

import httpx
import pytest

import app
from app.extensions.playground.routes import PAGE_PATH as PATH
from app.protocols.progress_text import TEXTS
from app.schemas.ask import ANOTHER_WAS_BETTER, CITATIONS_ADDED
from graphs.generation.answer import REASONING_REMOVED
from graphs.options import Context
from graphs.workflows.registry import WORKFLOWS
from tests.app.serving import Serving

PLAYGROUND = Path(app.__file__).parent / "extensions/playground"
FOLDER = PLAYGROUND / "page"
FILES = sorted(path.name for path in FOLDER.iterdir())
SCRIPTS = [name for name in FILES if name.endswith(".mjs")]
MOST_BYTES_SENT = 84 * 1024
API_FILES = {path.name: path.read_text("utf-8") for path in (PLAYGROUND / "api_page").iterdir()}
MOST_BYTES_OF_API = 15_000


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


TEXTS_OF_FILES = {name: text_of(name) for name in FILES} | {
    f"api_page/{name}": text for name, text in API_FILES.items()
}


@pytest.mark.parametrize("path", ["/", f"{PATH}/main.mjs", f"{PATH}/style.css"])
def test_the_browser_is_told_to_load_and_run_nothing_else(service: Serving, path: str) -> None:
    response = service.client.get(path)

    assert response.status_code == 200
    policy = dict(
        directive.split(" ", 1)
        for directive in response.headers["content-security-policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("main.mjs", "text/javascript"), ("style.css", "text/css"), ("index.html", "text/html")],
)
def test_files_are_served_as_what_they_are(service: Serving, name: str, kind: str) -> None:
    response = service.client.get(f"{PATH}/{name}")

    assert response.headers["content-type"] == f"{kind}; charset=utf-8"
    assert response.text == text_of(name)


def test_a_file_the_browser_has_is_not_sent_again(service: Serving) -> None:
    first = service.client.get("/")
    again = service.client.get("/", headers={"if-none-match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")


def test_files_are_compressed_where_that_is_understood(service: Serving) -> None:
    with service.client.stream("GET", f"{PATH}/style.css") as response:
        packed = b"".join(response.iter_raw())
    plain = service.client.get(f"{PATH}/style.css", headers={"accept-encoding": "identity"})

    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 2


@pytest.mark.parametrize("path", ["nothing.mjs", "..%2fmain.py", "%2e%2e/main.py", ""])
def test_nothing_else_is_served(service: Serving, path: str) -> None:
    response = service.client.get(f"{PATH}/{path}")

    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_head_tells_what_get_would(service: Serving) -> None:
    response = service.client.head("/")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(service.client.get("/").content)


def test_the_page_is_shown_before_a_key_is_given(service: Serving) -> None:
    """What it asks for next is what may be refused."""
    headers = {"host": "playground.example"}
    assert httpx.get(service.url, headers=headers, trust_env=False).status_code == 200
    assert service.client.get(f"{PATH}/main.mjs", headers=headers).status_code == 200
    assert service.client.get("/workflows", headers=headers).status_code == 403


@pytest.mark.parametrize("name", [*SCRIPTS, "api_page/api.mjs"])
def test_no_text_is_ever_taken_for_markup_or_code(name: str) -> None:
    risky = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|Function\("
    assert re.findall(risky, TEXTS_OF_FILES[name]) == []


@pytest.mark.parametrize("name", TEXTS_OF_FILES)
def test_nothing_outside_is_named(name: str) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+\.\w+[\w/]*", TEXTS_OF_FILES[name]))
    # The names of SVG's vocabulary, which nobody loads.
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_api_s_page_runs_its_own_script_alone(service: Serving) -> None:
    """FastAPI's own pages run those of foreign servers."""
    assert service.client.get("/redoc").status_code == 404
    page = service.client.get("/docs")
    assert page.text == API_FILES["index.html"]
    files = re.findall(r'(?:href|src)="((?:docs|page)/[\w./]+)"', page.text)
    assert len(files) == 3
    for response in (page, *(service.client.get(f"/{file}") for file in files)):
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
    assert "<style" not in page.text
    assert not re.search(r"<script(?! type=\"module\" src=)| on\w+=|style=", page.text)


def test_every_word_is_said_in_both_languages() -> None:
    table = text_of("vocabulary.mjs")
    pairs = re.findall(r'^  "?([\w.]+)"?: \["(.+)", "(.+)"\],$', table, re.MULTILINE)
    keys = {key for key, _, _ in pairs}
    assert len(pairs) == len(keys) == len(re.findall(r"\[\"", table))
    for key, english, chinese in pairs:
        gaps = [sorted(re.findall(r"\{\d\}", text)) for text in (english, chinese)]
        assert gaps[0] == gaps[1], key
        assert re.search(r"[\u4e00-\u9fff]", chinese), key
    used = set(re.findall(r'\bt\("([\w.]+)"', "".join(map(text_of, SCRIPTS))))
    used |= set(re.findall(r'data-t(?:-\w+)?="([\w.]+)"', text_of("index.html")))
    assert used <= keys


def test_every_word_of_the_api_s_page_is_said_in_both_languages() -> None:
    script = API_FILES["api.mjs"]
    pairs = re.findall(r'^  (\w+): \["(.+)", "(.+)"\],$', script, re.MULTILINE)
    assert all(re.search(r"[\u4e00-\u9fff]", chinese) for _, _, chinese in pairs)
    used = set(re.findall(r'\bt\("(\w+)"\)', script))
    used |= set(re.findall(r'data-t(?:-hint)?="(\w+)"', API_FILES["index.html"]))
    assert used | {"stopped", "unreachable"} == {key for key, _, _ in pairs}


def chinese(table: str) -> dict[str, str]:
    """What the page says for what the service says in English."""
    _, _, rest = text_of("options_zh.mjs").partition(f"export const {table} = {{")
    return dict(re.findall(r'^  "?([^":]+)"?: "(.+)",$', rest.partition("};")[0], re.MULTILINE))


def test_workflows_and_reasons_are_said_in_chinese() -> None:
    assert chinese("WORKFLOWS").keys() == WORKFLOWS.keys()
    stopped = set(re.findall(r'"stopped\.(\w+)"', text_of("vocabulary.mjs")))
    reasons = (ANOTHER_WAS_BETTER, CITATIONS_ADDED, REASONING_REMOVED, "deadline", "cancelled")
    assert chinese("REASONS").keys() | stopped >= set(reasons)
    assert chinese("REASONS").items() <= {name: TEXTS[name][1] for name in reasons}.items()


def test_the_pages_are_small() -> None:
    """Over the wire, where files are compressed."""
    sent = sum(len(gzip.compress(text_of(name).encode(), 6)) for name in FILES)
    assert sent <= MOST_BYTES_SENT
    of_api = "".join(API_FILES.values()).encode()
    assert len(of_api) < MOST_BYTES_OF_API
    assert len(gzip.compress(of_api)) < MOST_BYTES_OF_API / 3


def test_options_are_explained_in_chinese() -> None:
    told = chinese("HELP").keys()
    schema = Context.model_json_schema()
    groups = {"ablation": "Ablation", "filters": "Filters", "weights": "CritiqueWeights"}
    inner = {
        f"{name}.{field}"
        for name, kind in groups.items()
        for field in schema["$defs"][kind]["properties"]
    }
    assert told == (set(schema["properties"]) - set(groups)) | inner
