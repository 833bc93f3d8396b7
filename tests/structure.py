"""The ratchet over the size and shape of the code: figures that may only fall.

    python -m tests.structure                   compare with structure.json, keep what fell
    python -m tests.structure --raise WHY       also keep what rose; WHY goes to CHANGELOG.md
    python -m tests.structure --names FIGURE    list what a figure counts
    python -m tests.structure --request ...     also the figures of a request, in 15 seconds

Lines are those of Python files. Sources are read by `ast`; nothing is imported. What a
request enters is measured by `structure_request.py`.
"""

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "structure.json"
CHANGELOG = ROOT / "CHANGELOG.md"
REASONS = "### Structure\nWhat a raised figure of `structure.json` was raised for.\n"
"""The part of the changelog in which raised figures are explained."""

PRODUCT = ("app", "graphs", "evaluator", "prompts")
BUILD = ("data", "training", "calibration", "tuning", "bench.py")
"""What of the evaluator makes weights and does not serve."""
AREAS = ("graphs", "core", "extensions", "evaluator", "build", "prompts", "tests", "benchmarks")
MAX_COMPLEXITY = 15
SLACK = {"functions of a request": 5}
"""What timing alone may move a figure by."""
_BRANCHING = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
)
DIALECT = frozenset(("told", "found", "asked", "said", "heard", "kept", "wanted", "gone", "begun"))
"""Words that name what a value went through, not what it is."""


class Checkout:
    """The modules of a checkout by dotted name; a package's name stands for its `__init__`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = {
            _dotted(path.relative_to(root)): path
            for package in (*PRODUCT, "tests", "benchmarks")
            for path in sorted((root / package).rglob("*.py"))
        }
        texts = {name: path.read_text(encoding="utf-8") for name, path in self.paths.items()}
        self.lines = {name: text.count("\n") for name, text in texts.items()}
        self.trees = {
            name: ast.parse(text)
            for name, text in texts.items()
            if name.partition(".")[0] in PRODUCT
        }

    def area(self, name: str) -> str:
        """One of AREAS."""
        package, *rest = self.paths[name].relative_to(self.root).parts
        if package == "app":
            return "extensions" if rest[0] == "extensions" else "core"
        return "build" if package == "evaluator" and rest[0] in BUILD else package

    def figures(self) -> dict[str, int]:
        """Every figure by its name."""
        lines = dict.fromkeys(AREAS, 0)
        for name, count in self.lines.items():
            lines[self.area(name)] += count
        sizes = {f"lines of {area}": count for area, count in lines.items()}
        return sizes | {name: len(list(counted(self))) for name, counted in COUNTED.items()}

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """Every node of the product, with its module."""
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                yield name, node


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _settings(code: Checkout) -> Iterator[str]:
    yield from _fields(code, lambda _, owner: owner.endswith("Settings"))


def _options(code: Checkout) -> Iterator[str]:
    """Options of a run, beside those under `ablation`."""
    yield from _fields(
        code,
        lambda name, owner: (
            name == "graphs.options"
            and owner.endswith(("Context", "Options"))
            and owner != "Ablation"
        ),
    )


def _fields(code: Checkout, counts: Callable[[str, str], bool]) -> Iterator[str]:
    """Annotated fields with a `Field(...)` of the classes that count."""
    for name, tree in code.trees.items():
        for owner in tree.body:
            if isinstance(owner, ast.ClassDef) and counts(name, owner.name):
                for node in owner.body:
                    if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
                        yield f"{name}.{owner.name}.{ast.unparse(node.target)}"


def _doubled(code: Checkout) -> Iterator[str]:
    """Public names of classes that stand in several modules."""
    places: dict[str, list[str]] = {}
    for name, tree in code.trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    yield from (f"{own}: {', '.join(of)}" for own, of in places.items() if len(of) > 1)


def _any(code: Checkout) -> Iterator[str]:
    for name, node in code.nodes():
        if isinstance(node, ast.Name) and node.id == "Any":
            yield f"{name}:{node.lineno}"


def _broad(code: Checkout) -> Iterator[str]:
    for name, node in code.nodes():
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
        ):
            yield f"{name}:{node.lineno}"


def _expressions(code: Checkout) -> Iterator[str]:
    for name, node in code.nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield f"{name}:{node.lineno}"


def _complex(code: Checkout) -> Iterator[str]:
    """Functions whose cyclomatic complexity, with conditions and comprehensions, is too high."""
    for name, node in code.nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            complexity = 1 + sum(map(_branches, ast.walk(node)))
            if complexity > MAX_COMPLEXITY:
                yield f"{name}.{node.name}: {complexity}"


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return isinstance(node, _BRANCHING)


def _dialect(code: Checkout) -> Iterator[str]:
    """Variables, parameters and functions that bear a word of DIALECT as their whole name."""
    for name, node in code.nodes():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound = node.id
        elif isinstance(node, ast.arg):
            bound = node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bound = node.name
        else:
            continue
        if bound.lstrip("_") in DIALECT:
            yield f"{name}:{node.lineno} {bound}"


COUNTED: dict[str, Callable[[Checkout], Iterator[str]]] = {
    "settings": _settings,
    "options": _options,
    "class names in several modules": _doubled,
    "Any": _any,
    "broad except": _broad,
    "re.compile": _expressions,
    f"functions of complexity above {MAX_COMPLEXITY}": _complex,
    "dialect names": _dialect,
}


def compare(before: Mapping[str, int], now: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """A line for each figure that rose (a new one from 0) and for each that fell."""
    moved = {
        name: f"{name}: {before.get(name, 0):,} -> {value:,}"
        for name, value in now.items()
        if value != before.get(name, 0)
    }
    rose = [
        line for name, line in moved.items() if now[name] > before.get(name, 0) + SLACK.get(name, 0)
    ]
    return rose, [line for line in moved.values() if line not in rose]


def ratchet(now: Mapping[str, int], file: Path, changelog: Path, why: str = "") -> list[str]:
    """Compare with the file and keep what fell in it, and, given a reason, what rose.

    Figures of the file that `now` lacks stay as they are. Returns what rose without a reason.
    """
    before: dict[str, int] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    rose, fell = compare(before, now)
    for line in fell + rose:
        sys.stdout.write(f"{line}\n")
    held = {
        name: value if why else min(value, before.get(name, value)) for name, value in now.items()
    }
    if (merged := before | held) != before:
        file.write_text(json.dumps(merged, indent=2) + "\n", encoding="utf-8")
    if rose and why:
        text = changelog.read_text("utf-8")
        if REASONS not in text:
            raise SystemExit(f"{changelog.name} lacks the lines {REASONS!r}.")
        line = f"- {why} ({'; '.join(rose)})\n"
        changelog.write_text(text.replace(REASONS, f"{REASONS}{line}", 1), encoding="utf-8")
    return [] if why else rose


def request_figures() -> dict[str, int]:
    """Files and functions that a streamed question enters, traced in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("structure_request.py"))]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, int] = json.loads(result.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--raise", dest="why", default="", help="what the raised figures are for")
    parser.add_argument("--request", action="store_true", help="also what a request enters")
    parser.add_argument("--names", choices=COUNTED, help="list what a figure counts")
    chosen = parser.parse_args()
    code = Checkout(ROOT)
    if chosen.names:
        sys.stdout.write("\n".join(COUNTED[chosen.names](code)) + "\n")
        return
    figures = code.figures() | (request_figures() if chosen.request else {})
    if ratchet(figures, FILE, CHANGELOG, chosen.why):
        raise SystemExit(
            "Figures of structure.json rose. Find the smaller idea, or say what it is for: "
            "python -m tests.structure --raise WHY"
        )


if __name__ == "__main__":
    main()
