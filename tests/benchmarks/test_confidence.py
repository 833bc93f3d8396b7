"""The confidence that ships is the one that the committed figures give."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.confidence import FIGURES, drawn, fit, lay_out, report
from graphs.reflection.confidence import GRADE, SHIFT, STANDING


def test_the_weights_are_those_of_the_figures() -> None:
    rows = json.loads(FIGURES.read_text("utf-8"))

    assert fit(rows) == pytest.approx((STANDING, GRADE, SHIFT), abs=0.005)
    assert FIGURES.with_suffix(".md").read_text("utf-8") == report(rows)


def test_every_fourth_page_that_is_asked_about_is_left_out(tmp_path: Path) -> None:
    entries = [
        {
            "id": f"kettle/page{n}/1", "package": "kettle", "page": f"page{n}", "language": "en",
            "question": f"Switch {n}", "answer": f"Turns ring {n}\non.", "title": "Kettle › Rings",
            "user_question": f"How does plate {n} get hot?" if n else "",
            "facts": [f"ring {n}\non"],
        }
        for n in range(40)
    ]  # fmt: skip
    manuals = tmp_path / "manual_held.jsonl"
    manuals.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), "utf-8")
    lay_out(manuals, tmp_path)

    questions = drawn(tmp_path / "questions.jsonl", 100)
    texts = [path.read_text("utf-8") for path in (tmp_path / "pages").rglob("*.md")]
    found = [any(re.search(row["gold"], text) for text in texts) for row in questions]
    assert found == [row["covered"] for row in questions]
    assert len(questions) == 39
    assert 4 <= found.count(False) <= 16
    assert any("Switch 0" in text for text in texts)
