"""The measurement of the service's overhead, in its cheapest form."""

import json
from pathlib import Path

import httpx
import pytest

from benchmarks.service.overhead import (
    INSIDE,
    LOADS,
    OUTSIDE,
    ROOT,
    main,
    on_cost,
    report,
    service,
)


def test_the_kept_report_is_that_of_the_kept_figures() -> None:
    kept = json.loads((ROOT / "benchmarks/overhead.json").read_text(encoding="utf-8"))
    assert (ROOT / "benchmarks/overhead.md").read_text(encoding="utf-8") == report(kept)


@pytest.mark.slow
async def test_every_way_is_measured(tmp_path: Path) -> None:
    with service(tmp_path, ROOT) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            found = await on_cost({"cpu_ms": client}, rounds=1, times=3)
    for load in LOADS:
        assert set(found["cpu_ms"][load]) == {*INSIDE, *OUTSIDE}
        assert all(ms > 0 for line in found["cpu_ms"][load].values() for ms in line)


@pytest.mark.slow
def test_stops_and_first_steps_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "overhead.json"
    main(["--only", "stops", "--stops", "5", "--out", str(out)])
    main(["--only", "first", "--seconds", "0.05", "--out", str(out)])

    found = json.loads(out.read_text(encoding="utf-8"))
    assert {way: stops["times"] for way, stops in found["stops"].items()} == {
        "cancelled": 5,
        "left, stream": 5,
        "left, JSON": 5,
    }
    assert all(run["first_step_s"] < run["run_s"] for run in found["first"]["runs"])
    assert "## Stopping" in out.with_suffix(".md").read_text(encoding="utf-8")
