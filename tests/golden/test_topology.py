"""The graphs are drawn as they are kept here."""

import pytest

from tests.golden import FOLDER, drawings


def test_every_graph_is_kept() -> None:
    assert {path.stem for path in FOLDER.glob("*.mmd")} == set(drawings())


@pytest.mark.parametrize("name", ["rag", "crag", "self_rag", "self_crag", "reflect", "messages"])
def test_the_topology_is_the_kept_one(name: str) -> None:
    kept = (FOLDER / f"{name}.mmd").read_text(encoding="utf-8")

    assert drawings()[name] == kept, (
        f"the {name} graph has changed; if it was meant to, run: python -m tests.golden"
    )
