"""Property-based tests of the HTTP interface, made by Schemathesis from `/openapi.json`.

    python -m benchmarks.service.api_fuzzing [--cases 1000] [--out FILE]

Installs Schemathesis into an environment of its own in a temporary folder, starts the service on
loopback with two documents and without a web search, and sends each operation valid and invalid
requests, with all of Schemathesis' checks. Questions have a short deadline.
What a schema cannot say of a valid request is in `benchmarks.service.api_fuzzing_hooks`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from benchmarks.report import DOCS, FOLDER, Figures, filled, measured_when
from benchmarks.service.process import serving

PORT = 8133
URL = f"http://127.0.0.1:{PORT}"
REPORT = FOLDER / "api_fuzzing.md"
HOOKS = Path(__file__).with_name("api_fuzzing_hooks.py")
DOCUMENTS = ("en/how-to/thresholds.md", "zh/how-to/thresholds.md")
ASKING = ("/ask", "/ask/ui", "/v1/chat/completions")
# All checks are on by themselves. A form has no types: what is no text becomes some on its way.
# What is valid by other fields, or by the run or model at hand, no schema says. LangGraph's API has
# methods that are not described.
BY_OTHER_FIELDS = ("/runs/{run_id}/fork", "/evaluations", "/v1/responses", "/v1/embeddings")
CHECKS = """
[[operations]]
include-path = "/documents"
include-method = "POST"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = "/runs"
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false
""" + "".join(
    f'[[operations]]\ninclude-path = "{path}"\nchecks.positive_data_acceptance.enabled = false\n'
    for path in BY_OTHER_FIELDS
)


def installed(folder: Path) -> Path:
    """The program, in an environment of its own."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "schemathesis"]
    subprocess.run(pip, check=True)
    return folder / "bin" / "schemathesis"


def fuzzed(program: Path, folder: Path, cases: int, filters: Sequence[str]) -> Figures:
    """Requests sent and failures, by operation, and what was printed of the failures."""
    told = folder / "events.ndjson"
    (folder / "schemathesis.toml").write_text(CHECKS, "utf-8")
    options = [
        *("--max-examples", str(cases), "--continue-on-failure", "--no-shrink"),
        *("--generation-database", "none", "--seed", "1", "--no-color", "--workers", "1"),
        *("--suppress-health-check", "all", "--request-timeout", "60"),
        *("--report", "ndjson", "--report-ndjson-path", str(told), *filters),
    ]
    hooks = {"SCHEMATHESIS_HOOKS": HOOKS.stem, "PYTHONPATH": str(HOOKS.parent)}
    ran = subprocess.run(
        [str(program), "run", f"{URL}/openapi.json", *options],
        cwd=folder,
        env={**os.environ, **hooks},
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(ran.stdout)
    sent, failed = counts(told)
    problems = re.findall(r"^- (ST\d+ .+)$", ran.stdout, re.MULTILINE)
    ended = "EngineFinished" in told.read_text("utf-8")
    return {"sent": sent, "failed": failed, "problems": problems, "ended": ended}


def counts(told: Path) -> tuple[Counter[str], Counter[str]]:
    """Requests sent and those of them that failed a check, by operation."""
    sent, failed = Counter[str](), Counter[str]()
    for line in told.read_text("utf-8").splitlines():
        recorder = json.loads(line).get("ScenarioFinished", {}).get("recorder", {})
        for number, case in recorder.get("cases", {}).items():
            name = f"{case['value']['method']} {case['value']['path']}"
            checks = recorder.get("checks", {}).get(number, ())
            sent[name] += 1
            failed[name] += any(check["status"] == "failure" for check in checks)
    return sent, failed


def report(rounds: Sequence[Figures], operations: Sequence[str], took_s: float) -> str:
    sent = sum((each["sent"] for each in rounds), Counter[str]())
    failed = sum((each["failed"] for each in rounds), Counter[str]())
    problems = Counter(problem for each in rounds for problem in each["problems"])
    return filled(
        "service/api_fuzzing.md.j2",
        {},
        when=measured_when(),
        sent=sent,
        failed=failed,
        problems=problems,
        operations=operations,
        others=sum(many for name, many in sent.items() if name not in operations),
        took_s=took_s,
        ended=all(each["ended"] for each in rounds),
    )


def operations_of(description: Figures) -> list[str]:
    paths = description["paths"].items()
    return [f"{method.upper()} {path}" for path, methods in paths for method in methods]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="of each operation")
    parser.add_argument("--out", type=Path, default=REPORT)
    chosen = parser.parse_args()
    asking = [part for path in ASKING for part in ("--include-path", path)]
    others = [part for path in ASKING for part in ("--exclude-path", path)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program = installed(folder / "environment")
        documents = [DOCS / name for name in DOCUMENTS]
        with serving(folder, PORT, documents, data_dir=str(folder / "state")):
            operations = operations_of(httpx.get(f"{URL}/openapi.json", trust_env=False).json())
            started = time.monotonic()
            # Those that ask go first: so there are runs and threads to look at.
            rounds = [
                fuzzed(program, folder, chosen.cases, asking),
                fuzzed(program, folder, chosen.cases, others),
            ]
            took_s = time.monotonic() - started
    chosen.out.write_text(report(rounds, operations, took_s), "utf-8")


if __name__ == "__main__":
    main()
