"""The handbook says what the code does: names, defaults and figures are checked against it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from app.cli.main import cli
from app.ingest.chunker import CHUNK_TOKENS, HARD_TOKENS
from app.ingest.loaders.by_suffix import READERS
from app.ingest.loaders.document import MAX_BYTES
from app.main import create_app
from app.retrieval.embedder import ENCODER_WEIGHTS, TABLE_WEIGHTS
from app.settings import Settings
from evaluator.calibration.thresholds import Aims
from evaluator.commands import app as evaluator_cli
from evaluator.serving.app import create_app as create_worker
from evaluator.settings import WEIGHTS as SHIPPED_WEIGHTS
from evaluator.settings import EvaluatorSettings, ServeSettings
from graphs.generation.extractive import MAX_PIECE_WORDS, MAX_STRIPS, WITHIN
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.options import Ablation, Context, Search
from graphs.text.language import language_of
from graphs.text.sentences import sentences
from graphs.text.units import STRIP_WORDS
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS

CANDIDATES = Search().depth
ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "zh")
PAGES = sorted(path.name for path in (ROOT / "docs" / "en").glob("*.md"))
BOTH = [(language, page) for language in LANGUAGES for page in PAGES]

# Much shorter than this is a stub, not a page; Chinese says the same in fewer characters.
LEAST_CHARACTERS = {"en": 1500, "zh": 600}
DEFAULT_IS = {"en": "default is `{}`", "zh": "默认值是 `{}`"}
OWN = {"en": "the default is the {}'s own", "zh": "默认使用{}自己的值"}
WHOSE = {
    "en": {
        "evaluator": "evaluator",
        "critic": "critic",
        "workflow": "workflow",
        "embedder": "embedder",
        "image index": "image index",
    },
    "zh": {
        "evaluator": "评估器",
        "critic": "评判者",
        "workflow": "工作流",
        "embedder": "向量来源",
        "image index": "图片索引",
    },
}
# Who has a value of its own where an option is left out, if not the evaluator.
OWNERS = {
    "min_support": "critic",
    "min_utility": "critic",
    "retrieval_threshold": "critic",
    "retrieval": "workflow",
    "alpha": "embedder",
    "image_threshold": "image index",
}
RANGE = {"en": "from {} to {}", "zh": "取值 {} 到 {}"}
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


def commands_of(app: typer.Typer) -> set[str]:
    return {
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    } | {group.name for group in app.registered_groups if group.name}


def test_both_languages_have_the_same_pages() -> None:
    chinese = sorted(path.name for path in (ROOT / "docs" / "zh").glob("*.md"))
    assert chinese == PAGES
    assert len(PAGES) >= 10


@pytest.mark.parametrize(("language", "page"), BOTH)
def test_a_page_is_written_out_in_its_language(language: str, page: str) -> None:
    text = text_of(language, page)
    assert len(text) >= LEAST_CHARACTERS[language]
    assert language_of(prose_of(language, page)) == language
    assert re.match(r"# \S", text), "the first line is the title"


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_have_the_same_sections_and_code(page: str) -> None:
    def outline(language: str) -> list[str]:
        return re.findall(r"^(#+) ", prose_of(language, page), flags=re.MULTILINE)

    assert outline("en") == outline("zh")
    assert text_of("en", page).count("```") == text_of("zh", page).count("```")


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


@pytest.mark.parametrize(("language", "page"), BOTH)
def test_variables_exist(language: str, page: str) -> None:
    named = set(re.findall(r"\bSELFCRAG_[A-Z0-9_]*[A-Z0-9]\b(?!_)", text_of(language, page)))
    assert named <= VARIABLES.keys()
    keys = set(re.findall(r"(?<![A-Z_])[A-Z]+_API_KEY\b", text_of(language, page)))
    assert keys <= FOREIGN_KEYS


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
    empty = default is None or default == () or not str(getattr(default, "_secret_value", default))
    if default == SHIPPED_WEIGHTS:
        assert "`evaluator/weights`" in lines[0]
    elif empty:
        assert ("the default is empty" if language == "en" else "默认为空") in lines[0]
    else:
        assert DEFAULT_IS[language].format(shown(default)) in lines[0]


OPTIONS = {
    **Context.model_fields,
    **{f"ablation.{name}": field for name, field in Ablation.model_fields.items()},
}


def sections(language: str) -> tuple[list[str], dict[str, int]]:
    """The headings of the page on settings, and below which of them each variable stands."""
    headings: list[str] = []
    below: dict[str, int] = {}
    for line in text_of(language, "settings.md").splitlines():
        if line.startswith("## "):
            headings.append(line.removeprefix("## "))
        elif found := re.match(r"- `(\w+)` ", line):
            below[found[1]] = len(headings) - 1
    return headings, below


def test_settings_are_listed_by_their_groups() -> None:
    (english, below), (_, below_zh) = map(sections, LANGUAGES)
    assert below == below_zh
    groups = {
        f"SELFCRAG_{name}".upper(): field.json_schema_extra["group"]
        for name, field in Settings.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
    }
    assert len(groups) > 30
    assert [
        n for n, group in groups.items() if english[below[n]] != f"Settings of the {group}"
    ] == []


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
    if field.default is None:
        owner = OWNERS.get(option, "evaluator")
        assert OWN[language].format(WHOSE[language][owner]) in lines[0]
    else:
        default = field.get_default(call_default_factory=True)
        assert DEFAULT_IS[language].format(shown(default)) in lines[0]
    owner_schema = Ablation if "." in option else Context
    schema = owner_schema.model_json_schema()["properties"][option.rpartition(".")[2]]
    schema = schema.get("anyOf", [schema])[0]
    if "minimum" in schema:
        assert RANGE[language].format(schema["minimum"], schema["maximum"]) in lines[0]
    for value in schema.get("enum", ()):
        assert f"`{value}`" in lines[0], value


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_option_is_invented(language: str) -> None:
    word = {"en": r"[Oo]ptions? `([\w.]+)`", "zh": r"选项 `([\w.]+)`"}[language]
    for page in PAGES:
        named = set(re.findall(word, prose_of(language, page)))
        assert named <= OPTIONS.keys(), page


@pytest.mark.parametrize(("language", "page"), BOTH)
def test_commands_and_targets_exist(language: str, page: str) -> None:
    text = text_of(language, page)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, flags=re.MULTILINE)) <= targets
    commands = {"selfcrag": commands_of(cli), "selfcrag-evaluator": commands_of(evaluator_cli)}
    for program, command in re.findall(r"\b(selfcrag(?:-evaluator)?) ([a-z]+)\b", text):
        assert command in commands[program], f"{program} {command}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_command_and_target_is_named(language: str) -> None:
    text = "".join(text_of(language, page) for page in PAGES)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = {f"make {name}" for name in re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)}
    wanted |= {f"selfcrag {name}" for name in commands_of(cli)}
    wanted |= {f"selfcrag-evaluator {name}" for name in commands_of(evaluator_cli)}
    assert [name for name in wanted if f"`{name}" not in text] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_tests_of_the_threat_model_exist(language: str) -> None:
    named = re.findall(r"`(tests/[^\s`]+\.py)::(\w+)`", text_of(language, "threat-model.md"))
    assert len(named) >= 10
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_endpoints_exist() -> None:
    served = [create_app(Settings(_env_file=None)), create_worker(EvaluatorSettings())]
    paths = {
        f"{method.upper()} {path}"
        for app in served
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    }
    for language, page in BOTH:
        named = re.findall(r"`((?:GET|POST|DELETE) /[\w./]*)`", text_of(language, page))
        assert set(named) <= paths | {"GET /openapi.json"}, page


def figures() -> list[tuple[str, str, str]]:
    """(page, English, Chinese) phrases that hold a figure of the code."""
    en, zh = TABLE_WEIGHTS["en"], TABLE_WEIGHTS["zh"]
    encoder = ENCODER_WEIGHTS["zh"]
    wrong, ambiguous = Aims().wrong_correct, Aims().ambiguous
    return [
        ("knowledge-base.md", f"up to about {CHUNK_TOKENS} tokens", f"不超过 {CHUNK_TOKENS} 个"),
        ("knowledge-base.md", f"more than {HARD_TOKENS} tokens", f"超过 {HARD_TOKENS} 个"),
        (
            "knowledge-base.md",
            f"brings {CANDIDATES} candidates",
            f"各取 {CANDIDATES} 个候选",
        ),
        ("knowledge-base.md", f"over {MAX_BYTES // 10**6} MB", f"超过 {MAX_BYTES // 10**6} MB"),
        (
            "knowledge-base.md",
            f"In English BM25 has the weight {en.lexical:g} and the dense score has the weight"
            f" {en.dense:g}",
            f"英文中 BM25 的权重是 {en.lexical:g}，稠密分数的权重是 {en.dense:g}",
        ),
        (
            "knowledge-base.md",
            f"BM25 has the weight {encoder.lexical:g} and the dense score has the weight"
            f" {encoder.dense:g} in both languages",
            f"两种语言中 BM25 的权重都是 {encoder.lexical:g}，稠密分数的权重都是 {encoder.dense:g}",
        ),
        (
            "knowledge-base.md",
            f"In Chinese BM25 has the weight {zh.lexical:g} and the dense score has the weight"
            f" {zh.dense:g}",
            f"中文中 BM25 的权重是 {zh.lexical:g}，稠密分数的权重是 {zh.dense:g}",
        ),
        ("crag.md", f"about {STRIP_WORDS} words", f"大约 {STRIP_WORDS} 个词"),
        ("generators.md", f"more than {WITHIN:.1f} below", f"低 {WITHIN:.1f} 以上"),
        ("generators.md", f"more than {MAX_PIECE_WORDS} words", f"超过 {MAX_PIECE_WORDS} 个词"),
        (
            "thresholds.md",
            f"wrong Correct and a wrong Incorrect cost {wrong:g} each and Ambiguous {ambiguous:g}",
            f"“错误”动作各计代价 {wrong:g}，“模糊”动作计 {ambiguous:g}",
        ),
        (
            "thresholds.md",
            f"so that {Aims.strips_kept:.0%}".replace("%", " %"),
            f"{Aims.strips_kept:.0%}"[:-1],
        ),
        ("workflows.md", f"The default workflow is `{DEFAULT_WORKFLOW}`", f"`{DEFAULT_WORKFLOW}`"),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_are_those_of_the_code(language: str) -> None:
    for page, english, chinese in figures():
        assert (english if language == "en" else chinese) in text_of(language, page)
    assert MAX_STRIPS == 3, "the pages on generators say three in words"


@pytest.mark.parametrize("language", LANGUAGES)
def test_presets_workflows_and_suffixes_are_listed(language: str) -> None:
    thresholds = text_of(language, "thresholds.md")
    for name, preset in PAPER_THRESHOLDS.items():
        (line,) = [x for x in thresholds.splitlines() if x.startswith("- ") and f"`{name}`" in x]
        assert f"{preset.upper:g}" in line
        assert f"{preset.lower:g}" in line
    for name in WORKFLOWS:
        assert f"`{name}`" in text_of(language, "workflows.md")
    for suffix in READERS:
        assert f"`{suffix}`" in text_of(language, "knowledge-base.md")


@pytest.mark.parametrize(("language", "page"), BOTH)
def test_sentences_name_their_subject(language: str, page: str) -> None:
    """The sample knowledge base is quoted by sentences: none opens by pointing elsewhere."""
    pointing = {
        "en": r"(It|They|Such|This (?!version\b)|That|These|Those) ",
        "zh": r"它|这(?!个版本)|那|其中|此时",
    }
    prose = re.sub(r"^#+ .*$", "", prose_of(language, page), flags=re.MULTILINE)
    assert [text for text in sentences(prose) if re.match(pointing[language], text)] == []
