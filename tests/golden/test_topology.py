"""The graphs are drawn as they are kept here."""

from tests.golden import FOLDER, drawings


def test_every_graph_has_the_topology_that_is_kept() -> None:
    drawn = drawings()
    kept = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.mmd")}

    assert set(kept) == set(drawn)
    changed = [name for name, drawing in drawn.items() if kept[name] != drawing]
    assert changed == [], "if they were meant to change, run: python -m tests.golden"
