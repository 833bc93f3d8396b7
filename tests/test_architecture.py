"""The rules of the house, read from the source: who imports whom, who reads the environment."""

import ast
import json
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from benchmarks.evaluator.ratchet import fallen, held
from evaluator.model.checkpoint import weights_digest
from evaluator.settings import WEIGHTS

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "graphs", "evaluator", "prompts")
OURS = {*PACKAGES, "benchmarks", "tests"}

IO = {
    *("asyncio", "concurrent", "ftplib", "glob", "http", "io", "multiprocessing", "os"),
    *("pathlib", "select", "shutil", "smtplib", "socket", "sqlite3", "ssl", "subprocess"),
    *("tempfile", "threading", "urllib"),
}
TORCH = {"torch", "transformers"}
# The worker serves on ONNX Runtime with these, and what they import.
TORCHLESS = [
    *("client", "inference/onnx_embedder", "inference/onnx_scorer", "schema", "serving/app"),
    "settings",
]
# What the composition root loads of the evaluator into the service's own process.
COMPOSED = {
    ("services.py", "evaluator.serving.app.create_app"),
    ("services.py", "evaluator.settings.read_settings"),
    ("embedder.py", "evaluator.inference.scorer.e5_embedder"),
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def sources(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


@cache
def imports(path: Path) -> list[str]:
    """Dotted names of what is imported anywhere in the file, `from a import b` as `a.b`."""
    return [
        f"{node.module or ''}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]


def offences(package: str, allowed: set[str], among: set[str]) -> list[str]:
    """Imports of `package` whose first name is in `among` but not in `allowed`."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(package)
        for name in imports(path)
        if (first := name.split(".")[0]) in among and first not in allowed
    ]


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("prompts", {"prompts"}),
        ("graphs", {"graphs", "prompts", "evaluator"}),
        ("evaluator", {"evaluator"}),
        ("app", {"app", "graphs", "evaluator"}),
    ],
)
def test_imports_run_one_way(package: str, allowed: set[str]) -> None:
    assert offences(package, allowed, OURS) == []


@pytest.mark.parametrize(
    ("package", "known"),
    [("app", ("evaluator.client", "evaluator.schema")), ("graphs", ("evaluator.schema",))],
)
def test_the_evaluator_is_known_by_its_client_and_schema(
    package: str, known: tuple[str, ...]
) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(package)
        for name in imports(path)
        if name.split(".")[0] == "evaluator"
        and not name.startswith(known)
        and (path.name, name) not in COMPOSED
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "more"),
    [
        ("prompts", set()),
        ("graphs", {"langgraph", "langchain_core", "markdown_it", "pydantic", "evaluator"}),
    ],
)
def test_thinking_does_no_input_or_output(package: str, more: set[str]) -> None:
    allowed = (set(sys.stdlib_module_names) - IO) | {package, "prompts", "typing_extensions"} | more
    among = {name.split(".")[0] for path in sources(package) for name in imports(path)}

    assert offences(package, allowed, among) == []


@pytest.mark.parametrize("package", ["app", "graphs", "prompts"])
def test_only_the_evaluator_imports_torch(package: str) -> None:
    assert offences(package, set(), TORCH) == []


def test_serving_on_a_cpu_needs_no_torch() -> None:
    seen: set[str] = set()
    waiting = list(TORCHLESS)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in imports(ROOT / "evaluator" / f"{module}.py"):
            first, *rest = name.split(".")
            assert first not in TORCH, f"evaluator/{module}.py imports {name}"
            if first == "evaluator":
                parts = ["/".join(rest[:n]) for n in range(1, len(rest) + 1)]
                waiting += [part for part in parts if (ROOT / f"evaluator/{part}.py").exists()]
    assert {"serving/batching", "inference/scorer"} <= seen, (
        "the walk found what the server imports"
    )


def test_the_environment_is_read_in_the_settings_alone() -> None:
    reads = {"environ", "environb", "getenv", "getenvb", "BaseSettings", "load_dotenv", "envvar"}
    wrong = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', '?')}"
        for path in sources(*PACKAGES)
        if path not in {ROOT / "app/settings.py", ROOT / "evaluator/settings.py"}
        for node in nodes(path)
        if reads & {getattr(node, field, None) for field in ("attr", "id", "name", "arg")}
    ]
    assert wrong == []


def test_no_import_is_relative() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources(*PACKAGES, "benchmarks")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert wrong == []


LAYERS = {
    "evaluator": """
        errors schema settings terminal client model data data.synthetic inference training tuning
        serving calibration bench commands cli
    """,
    "graphs": """
        types errors options state ports text grading generation reflection critics nodes workflows
    """,
    "app": """
        integrations schemas errors settings extension state_folder observability resilience llm
        retrieval websearch ingest.loaders ingest storage runs protocols composition api
        api.routes main studio cli
        extensions extensions.ai_sdk extensions.openai extensions.langgraph_api
        extensions.playground extensions.evaluation extensions.mcp extensions.backup
        extensions.tracing
    """,
}
"""Rooms from the ground up: each imports itself and those before it. A room is a folder, or a
module right under its package."""


@cache
def room(name: str) -> str:
    """The room of a module, without its package: `app.api.routes.ask` is in `api.routes`."""
    path = ROOT / name.replace(".", "/")
    folder = path if path.is_dir() else path.parent
    if folder.parent == ROOT:
        return name.split(".", 1)[1] if "." in name else ""
    return ".".join(folder.relative_to(ROOT).parts[1:])


@cache
def module(name: str) -> str:
    """The module that an imported name stands in."""
    path = ROOT / name.replace(".", "/")
    return name if path.is_dir() or path.with_suffix(".py").is_file() else name.rpartition(".")[0]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_files_import_each_other_in_a_circle() -> None:
    """Also where an import waits inside a function, or serves types alone."""
    files = {dotted(path): path for path in sources(*PACKAGES)}
    imported = {
        name: {module(target) for target in imports(path)} & set(files) - {name}
        for name, path in files.items()
    }
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle


def test_extensions_know_the_core_alone_and_it_knows_none() -> None:
    wrong = []
    for path in sources("app"):
        own = room(dotted(path))
        for name in imports(path):
            there = room(module(name)) if name.startswith("app.") else ""
            if there.startswith("extensions") and there != own:
                wrong.append(f"{dotted(path)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("package", ["evaluator", "graphs", "app"])
def test_rooms_import_those_below_them(package: str) -> None:
    layers = LAYERS[package].split()
    wrong = []
    for path in sources(package):
        own = dotted(path)
        here = room(own)
        assert not here or here in layers, f"{here} is no room of {package}"
        for name in imports(path):
            there = room(module(name)) if name.startswith(f"{package}.") else ""
            if there and there != here and layers.index(there) > layers.index(here):
                wrong.append(f"{own} imports {name}")
    assert wrong == []


def test_the_shipped_weights_are_no_worse_than_the_measured_ones() -> None:
    kept = json.loads((WEIGHTS / "figures.json").read_text(encoding="utf-8"))
    assert kept["evaluator"] == weights_digest(WEIGHTS)
    before = json.loads((ROOT / "benchmarks" / "evaluator.json").read_text(encoding="utf-8"))
    assert fallen(held(before), kept["held"]) == []
