"""Which modules a program imports, read from the source."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
OURS = ("app", "graphs", "evaluator", "prompts")


def reachable(programs: Iterable[str]) -> tuple[set[str], set[str]]:
    """Modules of ours that starting `programs` imports, and the foreign packages they import.

    What functions import is left out: those are parts that a setting or a command chooses.
    """
    seen: set[str] = set()
    foreign: set[str] = set()
    waiting = list(programs)
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in _imports(_file(module)):
            first = name.split(".")[0]
            if first not in OURS:
                foreign |= {first} - set(sys.stdlib_module_names)
            elif _is_module(name):
                waiting.append(name)
    return seen, foreign


def distributions(packages: Iterable[str]) -> set[str]:
    """The distributions, by their names in lower case, that bring these packages."""
    return {_brought()[package][0].lower().replace("_", "-") for package in packages}


@cache
def _brought() -> Mapping[str, list[str]]:
    return packages_distributions()


def _imports(path: Path) -> Iterator[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif not isinstance(node, functions):
                waiting.append(node)


def _is_module(name: str) -> bool:
    return _file(name).is_file()


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
