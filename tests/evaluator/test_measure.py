import json
from pathlib import Path

import pytest

from evaluator.card import keep_figures, write_card
from evaluator.errors import DataError
from evaluator.measure import measure

KINDS = ("river", "road", "wall", "canal", "tunnel", "bridge", "fence", "dike")


def test_a_perfect_and_a_blind_scorer(tmp_path: Path) -> None:
    file = tmp_path / "lengths.jsonl"
    rows = [
        {
            "question": f"How long is the {kind} {n}?", "answers": [f"{n}{n}7 km"],
            "answerable": True, "title": "", "passage": f"The {kind} {n} is {n}{n}7 km long.",
        }
        for n in range(8)
        for kind in KINDS
    ]  # fmt: skip
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    def perfect(pairs: list[tuple[str, str]]) -> list[float]:
        return [float(q.rstrip("?").split()[4:6] == p.split()[1:3]) for q, p in pairs]

    figures = measure(file, perfect, most=20, seed=1, minilm=False)
    assert figures["questions"] == 20
    assert figures["pairs"] == 100
    assert figures["auc_evaluator"] == figures["first_evaluator"] == 1.0
    blind = measure(file, lambda pairs: [0.0] * len(pairs), most=20, seed=1, minilm=False)
    assert blind["auc_evaluator"] == 0.5
    assert blind["first_evaluator"] == 0.0
    assert blind["auc_bm25"] > 0.8


def test_nothing_to_measure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"passage": "alone"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="no answerable questions"):
        measure(tmp_path / "x.jsonl", lambda _: [], most=5, seed=1, minilm=False)


def test_the_card_tells_what_was_measured(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["made_by"] = {
        "options": {"minutes": 3.0, "pairs": 10, "seed": 7, "use_minilm": False,
                    "distil_steps": 1, "coverage_steps": 2, "learning_rate": 1e-3,
                    "batch_tokens": 64, "teacher_share": 0.5, "held_back_percent": 6},
        "data": {"rivers.jsonl": "f" * 64},
        "training": {"steps": 4, "pairs_seen": 9, "pairs": 10, "minutes": 0.1},
        "validation": {"rivers": {"auc": 0.75, "pairs": 12}},
        "kinds": {"positive": 5},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    measured = {"questions": 20, "auc_evaluator": 0.9, "auc_bm25": 0.8, "first_evaluator": 0.7,
                "first_bm25": 0.6}  # fmt: skip
    keep_figures(folder, "unseen", measured)
    card = write_card(folder).read_text(encoding="utf-8")
    assert "--minutes 3 --pairs 10 --seed 7 --no-minilm" in card
    assert "| rivers | 0.750 | 12 |" in card
    assert "| unseen | 20 | 0.900 | 0.800 | - | 0.700 | 0.600 | - |" in card
