"""Every package that an installation brings along has a permissive licence, or a reason here."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageMetadata, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads(
    Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
)["project"]
EXTRAS = ("train", "gpu", "otel")
"""Those that the tests install whole; nobody serves with the others but who asks for them."""
PERMISSIVE = {
    *("0bsd", "apache-2.0", "apache-2.0 with llvm-exception", "blueoak-1.0.0", "bsd-2-clause"),
    *("bsd-3-clause", "bsl-1.0", "cc0-1.0", "cnri-python", "isc", "mit", "mit-0", "mit-cmu"),
    *("psf-2.0", "python-2.0", "unlicense", "zlib"),
    # As former metadata have them.
    *("3-clause bsd license", "apache 2", "apache 2.0", "apache 2.0 license", "apache license 2.0"),
    *("apache license, version 2.0", "apache software license", "bsd", "bsd license"),
    *("isc license (iscl)", "mit license", "python software foundation license"),
    "mit license, apache license, version 2.0",
}
EXCEPTIONS = {
    "certifi": ("mozilla public license 2.0 (mpl 2.0)", "a list of certificates, shipped as it is"),
    "orjson": ("mpl-2.0", "copyleft of its own files alone, shipped as they are"),
    "psycopg": ("lgpl-3.0-only", "a library imported as it is, for PostgreSQL alone"),
    "psycopg-binary": ("lgpl-3.0-only", "see psycopg"),
    "psycopg-pool": ("lgpl-3.0-only", "see psycopg"),
    "skeletoken": ("", "MIT by the licence that it ships; its metadata names none"),
    "tqdm": ("mpl-2.0", "copyleft of its own files alone, shipped as they are"),
}
"""What is not permissive of a package, "" where it names no licence, and why that is fine."""
OF_CUDA = ("nvidia-", "cuda-")
"""NVIDIA's own, which torch brings along where it is made for GPUs; no part of the service."""


def brought_along(lines: Iterable[str], extras: Iterable[str], seen: set[str]) -> Iterator[str]:
    """The packages of these requirements with all that they require, as installed here."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        name = canonicalize_name(requirement.name)
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        if key in seen:
            continue
        seen.add(key)
        if name.startswith(OF_CUDA):
            continue
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue  # of an extra that is installed where somebody wants it
        yield name
        yield from brought_along(requires, requirement.extras, seen)


def licences_of(told: PackageMetadata) -> list[str]:
    """Lower-case names: of the expression, else of the classifiers, else of the field's start."""
    if expression := told.get("License-Expression"):
        return [it.lower() for it in re.split(r"\s+(?:AND|OR)\s+|[()]", expression) if it]
    classifiers = told.get_all("Classifier") or []
    named = [it.rpartition(" :: ")[2] for it in classifiers if it.startswith("License :: ")]
    named = [it for it in named if it != "OSI Approved"] or (told.get("License") or "").split("\n")[
        :1
    ]
    return [
        part.strip().lower() for it in named for part in re.split(r"\s+(?:AND|OR)\s+", it) if it
    ]


ROOTS = [
    *PROJECT["dependencies"],
    *(it for e in EXTRAS for it in PROJECT["optional-dependencies"][e]),
]
PACKAGES = sorted(set(brought_along(ROOTS, [], set())))


def test_packages_are_permissive_or_excepted() -> None:
    wrong = {}
    for name in PACKAGES:
        licences = licences_of(distribution(name).metadata) or [""]
        excepted = {EXCEPTIONS[name][0]} if name in EXCEPTIONS else set()
        if unknown := set(licences) - PERMISSIVE - excepted:
            wrong[name] = sorted(unknown)
    assert wrong == {}
    assert len(PACKAGES) > 100, "the walk found what is installed"


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_is_needed(name: str) -> None:
    assert name in PACKAGES
    assert EXCEPTIONS[name][0] in (licences_of(distribution(name).metadata) or [""])
