"""The handbook and the code agree on names, defaults, ranges, commands and links."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from app.cli.main import cli
from app.ingest.loaders.by_suffix import READERS
from app.main import create_app
from app.settings import Settings
from evaluator.commands import app as evaluator_cli
from evaluator.serving.app import create_app as create_worker
from evaluator.settings import WEIGHTS as SHIPPED_WEIGHTS
from evaluator.settings import EvaluatorSettings, ServeSettings
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.options import Ablation, Context
from graphs.text.language import language_of
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "zh")
PAGES = sorted(path.name for path in (ROOT / "docs" / "en").glob("*.md"))
BOTH = [(language, page) for language in LANGUAGES for page in PAGES]

DEFAULT_IS = {"en": "default is `{}`", "zh": "默认值是 `{}`"}
OPTION = {"en": "The option `{}` ", "zh": "选项 `{}` "}
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


def shown(value: object) -> str:
    """A default as the handbook writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return json.dumps(value.model_dump(exclude_defaults=True))
    return f"{value:g}" if isinstance(value, float) else str(value)


def variables_of(settings: type[BaseModel], prefix: str) -> dict[str, Any]:
    return {
        f"{prefix}{name}".upper(): field.default for name, field in settings.model_fields.items()
    }


VARIABLES = (
    variables_of(Settings, "selfcrag_")
    | variables_of(EvaluatorSettings, "selfcrag_evaluator_")
    | variables_of(ServeSettings, "selfcrag_serve_")
)


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"-?\d+(?:\.\d+)?", text))


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", makefile, flags=re.MULTILINE))


def commands_of(app: typer.Typer) -> set[str]:
    return {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    } | {group.name for group in app.registered_groups if group.name}


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
    **Context.model_fields,
    **{f"ablation.{name}": field for name, field in Ablation.model_fields.items()},
}
# How a page names something, and all there is of it.
NAMED = {
    "variable": (r"\bSELFCRAG_[A-Z0-9_]*[A-Z0-9]\b(?!_)", VARIABLES.keys),
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
    chinese = sorted(path.name for path in (ROOT / "docs" / "zh").glob("*.md"))
    assert chinese == PAGES


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
@pytest.mark.parametrize("variable", VARIABLES)
def test_every_variable_is_documented_with_its_default(language: str, variable: str) -> None:
    lines = [
        line
        for line in text_of(language, "settings.md").splitlines()
        if line.startswith(f"- `{variable}` ")
    ]
    assert len(lines) == 1
    default = VARIABLES[variable]
    if default == SHIPPED_WEIGHTS:
        assert "`evaluator/weights`" in lines[0]
    elif default is None or default == () or not str(getattr(default, "_secret_value", default)):
        assert ("default is empty" if language == "en" else "默认为空") in lines[0]
    else:
        assert DEFAULT_IS[language].format(shown(default)) in lines[0]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_documented_with_its_default(language: str, option: str) -> None:
    field = OPTIONS[option]
    lines = [
        line
        for line in text_of(language, "options.md").splitlines()
        if line.startswith(OPTION[language].format(option))
    ]
    assert len(lines) == 1
    if field.default is not None:
        default = field.get_default(call_default_factory=True)
        assert DEFAULT_IS[language].format(shown(default)) in lines[0]
    owner_schema = Ablation if "." in option else Context
    schema = owner_schema.model_json_schema()["properties"][option.rpartition(".")[2]]
    schema = schema.get("anyOf", [schema])[0]
    if "minimum" in schema:
        assert {str(schema["minimum"]), str(schema["maximum"])} <= numbers_in(lines[0])
    for value in schema.get("enum", ()):
        assert f"`{value}`" in lines[0], value


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_command_and_target_is_named(language: str) -> None:
    text = "".join(text_of(language, page) for page in PAGES)
    wanted = {f"make {name}" for name in targets()}
    assert [name for name in wanted | commands() if f"`{name}" not in text] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_presets_workflows_and_suffixes_are_listed(language: str) -> None:
    thresholds = text_of(language, "thresholds.md").splitlines()
    for name, preset in PAPER_THRESHOLDS.items():
        (line,) = [line for line in thresholds if line.startswith("- ") and f"`{name}`" in line]
        assert {f"{preset.upper:g}", f"{preset.lower:g}"} <= numbers_in(line)
    for page, names in (("workflows.md", WORKFLOWS), ("knowledge-base.md", READERS)):
        assert [name for name in names if f"`{name}`" not in text_of(language, page)] == []
    assert f"`{DEFAULT_WORKFLOW}`" in text_of(language, "workflows.md")
