"""Measures the structure of the code: sizes, imports, cycles, names, and what one request touches.

python -m benchmarks.house                     the figures of this checkout
python -m benchmarks.house --against FOLDER    beside those of another checkout
python -m benchmarks.house --names             also the modules and classes that are counted

Figures are read from the source by `ast`; nothing of the checkout is imported.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("app", "graphs", "evaluator", "prompts")
SMALL_LINES = 60

Graph = Mapping[str, set[str]]


class Checkout:
    """The product's modules by dotted name; a package's name stands for its `__init__`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = {
            _dotted(path.relative_to(root)): path
            for package in PACKAGES
            for path in sorted((root / package).rglob("*.py"))
        }
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in self.paths.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        self.imports = {name: set(self._imports(name)) for name in self.paths}

    def _imports(self, name: str) -> Iterator[str]:
        """The modules of ours that a module imports, wherever in the file."""
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.paths)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found = whole if whole in self.paths else node.module
                    if found in self.paths and found != name:
                        yield found

    def rooms(self) -> dict[str, set[str]]:
        """Which folder imports which other one; a module right under a package stands alone."""
        edges: dict[str, set[str]] = {self.room(name): set() for name in self.paths}
        for name, targets in self.imports.items():
            edges[self.room(name)] |= {self.room(target) for target in targets}
        return {room: targets - {room} for room, targets in edges.items()}

    def room(self, name: str) -> str:
        folder = self.folder(name)
        return name if folder in PACKAGES else folder

    def folder(self, name: str) -> str:
        return ".".join(self.paths[name].relative_to(self.root).parent.parts)

    def figures(self) -> dict[str, int | float]:
        files = Counter(map(self.folder, self.paths))
        lines = sum(text.count("\n") for text in self.texts.values())
        return {
            "product lines": lines,
            "modules": len(self.paths),
            "modules in the largest folder": max(files.values()),
            "modules on a cycle of imports": sum(map(len, cycles(self.imports))),
            "rooms on a cycle of imports": sum(map(len, cycles(self.rooms()))),
            f"modules of <= {SMALL_LINES} lines with one importer": len(self.small()),
            "import lines, percent": round(100 * self._import_lines() / lines, 1),
            "class names used twice": len(self.twice()),
        }

    def small(self) -> list[str]:
        """Short modules that one other module alone imports."""
        importers = Counter(target for targets in self.imports.values() for target in targets)
        sizes = {name: text.count("\n") for name, text in self.texts.items()}
        return [n for n, size in sizes.items() if 0 < size <= SMALL_LINES and importers[n] == 1]

    def twice(self) -> dict[str, list[str]]:
        """Class names that stand in several modules, and where."""
        places: dict[str, list[str]] = {}
        for name, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(name)
        return {name: modules for name, modules in places.items() if len(modules) > 1}

    def names(self) -> Iterator[str]:
        """What the figures count, a line each."""
        yield from (f"small: {name}" for name in self.small())
        yield from (f"twice: {name}: {', '.join(places)}" for name, places in self.twice().items())
        yield from (f"cycle: {', '.join(cycle)}" for cycle in cycles(self.rooms()))

    def _import_lines(self) -> int:
        return sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        )

    def tunables(self) -> dict[str, int | float]:
        """Fields of the classes that hold options and settings, read from the source."""
        options = Counter[str]()
        settings = 0
        for name, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    fields = sum(map(_is_field, node.body))
                    settings += fields if node.name.endswith("Settings") else 0
                    if name in ("graphs.context", "graphs.options"):
                        options[node.name] += fields
        of_runs = sum(n for name, n in options.items() if name.endswith(("Context", "Options")))
        return {
            "options of a run, beside ablation": of_runs - bool(options["Ablation"]),
            "options under ablation": options["Ablation"],
            "settings": settings,
        }


def _is_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call)


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def cycles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = [stack.pop()]
            while component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def table(columns: Mapping[str, Checkout]) -> str:
    """A row a figure, a column a checkout, as Markdown."""
    figures = {name: {**code.figures(), **code.tunables()} for name, code in columns.items()}
    rows = [["", *figures], ["---"] * (len(figures) + 1)]
    for key in next(iter(figures.values())):
        rows.append([key, *(f"{column[key]:,}" for column in figures.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, help="another checkout, shown first")
    parser.add_argument("--names", action="store_true", help="also what the figures count")
    chosen = parser.parse_args()
    here = Checkout(Path(__file__).parents[1])
    others = {"before": Checkout(chosen.against)} if chosen.against else {}
    print(table({**others, "now": here}))  # noqa: T201
    if chosen.names:
        print("\n" + "\n".join(here.names()))  # noqa: T201


if __name__ == "__main__":
    main()
