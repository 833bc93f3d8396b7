"""Answers by new weights beside those by others."""

from typing import Any

import pytest

from benchmarks.answers import against


def _rows(answered: int, of: int = 20) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{n}",
            "language": "zh",
            "setting": "rag",
            "kind": "covered",
            "answered": n < answered,
        }
        for n in range(of)
    ]


@pytest.mark.parametrize(("now", "verdict"), [(6, "fell"), (13, ""), (18, "")])
def test_answers_fall_where_more_are_lost_than_by_chance(now: int, verdict: str) -> None:
    (line,) = against(_rows(15), _rows(now))[5:]
    assert line.startswith("| zh | rag | covered: answered | 15/20 (75%)")
    assert line.split("|")[-2].strip() == verdict
