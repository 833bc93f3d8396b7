"""The handbook and the code agree on names, defaults, ranges, commands and links."""

import json
import re
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.main import get_command

from app.cli.main import cli
from app.ingest.loaders.by_suffix import READERS
from app.main import create_app
from app.schemas.ask import AskRequest, AskResponse
from app.settings import Settings
from evaluator.commands import app as evaluator_cli
from evaluator.serving.app import create_app as create_worker
from evaluator.settings import WEIGHTS as SHIPPED_WEIGHTS
from evaluator.settings import EvaluatorSettings
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.options import Ablation, Context
from graphs.text.language import language_of
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS
from tests.handbook import reference
from tests.variables import DEFAULTS

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "zh")


def pages_in(language: str) -> list[str]:
    """Each page by its path below the language's folder, such as `start/install.md`."""
    folder = ROOT / "docs" / language
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


PAGES = pages_in("en")
BOTH = [(language, page) for language in LANGUAGES for page in PAGES]

# Read from the environment under these names as well, beside the project's own.
FOREIGN_KEYS = {"OPENAI_API_KEY", "TAVILY_API_KEY"}


def text_of(language: str, page: str) -> str:
    return (ROOT / "docs" / language / page).read_text(encoding="utf-8")


def prose_of(language: str, page: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text_of(language, page), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"-?\d+(?:\.\d+)?", text))


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", makefile, flags=re.MULTILINE))


def commands_of(app: typer.Typer) -> set[str]:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return set(group.list_commands(typer.Context(group)))


def commands() -> set[str]:
    programs = {"selfcrag": cli, "selfcrag-evaluator": evaluator_cli}
    return {f"{program} {name}" for program, app in programs.items() for name in commands_of(app)}


def endpoints() -> set[str]:
    served = [create_app(Settings(_env_file=None)), create_worker(EvaluatorSettings())]
    return {"GET /openapi.json"} | {
        f"{method.upper()} {path}"
        for app in served
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }


def known_tests() -> set[str]:
    return {
        f"{path.relative_to(ROOT)}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }


OPTIONS = {
    f"{prefix}{name}": field.get_default(call_default_factory=True)
    for prefix, kind in (("", Context), ("ablation.", Ablation))
    for name, field in kind.model_fields.items()
}
FIELDS = [*AskRequest.model_fields, *AskResponse.model_fields]
# How a page names something, and all there is of it.
NAMED = {
    "variable": (r"\bSELFCRAG_[A-Z0-9_]*[A-Z0-9]\b(?!_)", DEFAULTS.keys),
    "key": (r"(?<![A-Z_])[A-Z]+_API_KEY\b", lambda: FOREIGN_KEYS),
    "option": (r"(?:[Oo]ptions?|选项) `([\w.]+)`", OPTIONS.keys),
    "target": (r"(?:`|^)make ([a-z-]+)", targets),
    "command": (r"\b(selfcrag(?:-evaluator)? [a-z]+)\b", commands),
    "endpoint": (r"`((?:GET|POST|DELETE) /[\w./]*)`", endpoints),
    "test": (r"`(tests/[^\s`]+\.py::\w+)`", known_tests),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_a_page_names_exists(kind: str) -> None:
    pattern, there = NAMED[kind]
    named = {
        (name, f"{language}/{page}")
        for language, page in BOTH
        for name in re.findall(pattern, text_of(language, page), flags=re.MULTILINE)
    }
    known = there()
    assert len(named) >= 4, "the pattern fits"
    assert [it for it in named if it[0] not in known] == []


def test_both_languages_have_the_same_pages() -> None:
    assert pages_in("zh") == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_same_sections_in_both_languages(page: str) -> None:
    def outline(language: str) -> list[str]:
        return re.findall(r"^(#+) ", prose_of(language, page), flags=re.MULTILINE)

    assert outline("en") == outline("zh")
    assert [language_of(prose_of(language, page)) for language in LANGUAGES] == list(LANGUAGES)


@pytest.mark.parametrize(("language", "page"), BOTH)
def test_links_lead_to_pages_and_sections(language: str, page: str) -> None:
    here = ROOT / "docs" / language / page
    links = re.findall(r"\]\(([^)\s]+)\)", prose_of(language, page))
    for link in links:
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (here.parent / file) if file else here
        assert target.is_file(), link
        assert not anchor or anchor in anchors_of(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_index_names_every_page(language: str) -> None:
    linked = set(re.findall(r"\]\(([^)\s]+\.md)\)", text_of(language, "index.md")))
    assert linked == set(PAGES) - {"index.md"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", FIELDS)
def test_every_field_of_request_and_answer_is_named(language: str, path: str) -> None:
    assert f"`{path}`" in text_of(language, "reference/http.md")


def test_reference_pages_are_what_the_code_says() -> None:
    """`python -m tests.handbook.reference` writes them."""
    stale = [
        str(path.relative_to(ROOT))
        for path, text in reference.files().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert stale == []


def test_chinese_texts_belong_to_names_that_are_there() -> None:
    """One that is missing fails the test above."""
    chinese = reference.TEXTS["zh"]
    assert chinese["settings"]["texts"].keys() == DEFAULTS.keys()
    known = set(OPTIONS)
    assert chinese["options"]["texts"].keys() <= known
    named = dict(reference.commands())
    flags = {
        (name, entry.name.split("`")[-1])
        for name, command in named.items()
        for entry in reference.parameters(command)
    }
    known = {*named, *(flag for _, flag in flags), *(f"{name} {flag}" for name, flag in flags)}
    assert chinese["commands"]["texts"].keys() <= known


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_command_and_target_is_named(language: str) -> None:
    text = "".join(text_of(language, page) for page in PAGES)
    wanted = {f"make {name}" for name in targets()}
    assert [name for name in wanted | commands() if f"`{name}" not in text] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_of_limits_have_the_defaults(language: str) -> None:
    """A row that names a setting has its default, too."""
    rows = [
        (set(re.findall(r"`(SELFCRAG_\w+)`", row)), numbers_in(row))
        for page in ("start/model.md", "how-to/deploy.md")
        for row in re.findall(r"^\|.+\|$", text_of(language, page), flags=re.MULTILINE)
    ]
    held = [(DEFAULTS[name], numbers) for (*names,), numbers in rows for name in names]
    assert len(held) >= 9
    assert [default for default, numbers in held if f"{default:g}" not in numbers] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_shipped_thresholds_are_in_the_handbook(language: str) -> None:
    shipped = json.loads((SHIPPED_WEIGHTS / "thresholds.json").read_text(encoding="utf-8"))
    named = {f"{shipped[name]:.2f}" for name in ("upper", "lower", "strip_floor")}
    assert named <= numbers_in(text_of(language, "how-to/thresholds.md"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_presets_workflows_and_suffixes_are_listed(language: str) -> None:
    thresholds = text_of(language, "how-to/thresholds.md").splitlines()
    for name, preset in PAPER_THRESHOLDS.items():
        (line,) = [line for line in thresholds if line.startswith("- ") and f"`{name}`" in line]
        assert {f"{preset.upper:g}", f"{preset.lower:g}"} <= numbers_in(line)
    for page, names in (("explain/workflows.md", WORKFLOWS), ("start/documents.md", READERS)):
        assert [name for name in names if f"`{name}`" not in text_of(language, page)] == []
    assert f"`{DEFAULT_WORKFLOW}`" in text_of(language, "explain/workflows.md")
