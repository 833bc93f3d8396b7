"""Measures the structure of the code: sizes, imports, cycles, names, and what one request touches.

python -m benchmarks.house                     the figures of this checkout
python -m benchmarks.house --against FOLDER    beside those of another checkout
python -m benchmarks.house --request           also the files one streamed self_crag request enters

Figures are read from the source by `ast`; nothing of the checkout is imported, but for --request,
which starts its service in-process with the default parts on a scratch data folder.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
        lines = {name: text.count("\n") for name, text in self.texts.items()}
        files = Counter(map(self.folder, self.paths))
        importers = Counter(target for targets in self.imports.values() for target in targets)
        classes = Counter(
            node.name
            for tree in self.trees.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        small = [n for n, size in lines.items() if 0 < size <= SMALL_LINES and importers[n] == 1]
        return {
            "product lines": sum(lines.values()),
            "modules": len(self.paths),
            "modules in the largest folder": max(files.values()),
            "modules on a cycle of imports": sum(map(len, cycles(self.imports))),
            "folders on a cycle of imports": sum(map(len, cycles(self.rooms()))),
            f"modules of <= {SMALL_LINES} lines with one importer": len(small),
            "import lines, percent": round(100 * self._import_lines() / sum(lines.values()), 1),
            "class names used twice": sum(count > 1 for count in classes.values()),
        }

    def _import_lines(self) -> int:
        return sum(
            (node.end_lineno or node.lineno) - node.lineno + 1
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        )

    def tunables(self) -> dict[str, int | float]:
        """Fields of the classes that hold options and settings, read from the source."""
        counts = Counter[str]()
        for tree in self.trees.values():
            for node in tree.body:
                if isinstance(node, ast.ClassDef):
                    counts[node.name] += sum(_is_field(item) for item in node.body)
        settings = sum(n for name, n in counts.items() if name.endswith("Settings"))
        return {
            "options of a run": counts["Context"],
            "options under ablation": counts["Ablation"],
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
