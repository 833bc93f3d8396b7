"""The report of the overhead in Markdown, made of its figures alone."""

from statistics import median, quantiles

from benchmarks.report import Figures, table

SMALL = "1 passage"
AIMS = (("POST /ask", 1.5), ("POST /ask, stream", 2.2))
STOPPED_WITHIN_MS = 100
FIRST_SHARE = 0.05


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    parts = [_head(), _aims(figures)]
    sections = {"cost": _cost, "first": _first, "stops": _stops}
    parts += [write(figures[name]) for name, write in sections.items() if name in figures]
    return "\n\n".join(parts) + "\n"


def _head() -> str:
    return """# The service beside its graph, measured

    python -m benchmarks.service.overhead

Written by this command from benchmarks/overhead.json. The service runs in a process of its own, on
the event loop and the HTTP parser that `make run` installs, with runs, threads and every event kept
in SQLite. Retriever, evaluator, web search, chat and critic answer at once, so that nothing but the
graph and the service costs anything; the workflow is `self_crag`, which takes ten steps and 17
tokens there. The client is another process, over HTTP."""


def _aims(figures: Figures) -> str:
    rows: list[list[str]] = []
    if cost := figures.get("cost"):
        took = cost["cpu_ms"]
        for way, aim in AIMS:
            for load in took:
                for base in ("ainvoke", "astream"):
                    seen = _ratio(took[load][way], took[load][base])
                    rows.append([f"CPU of `{way}` to `{base}`, {load}", f"<= {aim}", seen])
    if first := figures.get("first"):
        share = max(run["first_step_s"] / run["run_s"] for run in first["runs"])
        rows.append(["time to the first step, of the run", f"<= {FIRST_SHARE:.0%}", f"{share:.2%}"])
    for way, found in figures.get("stops", {}).items():
        seen = f"{max(found[what]['p95'] for what in ('let go', 'ended')):.1f} ms"
        rows.append([f"{way}: all has ended, p95", f"<= {STOPPED_WITHIN_MS} ms", seen])
    return table(("what", "aim", "seen"), rows)


def _cost(f: Figures) -> str:
    parts = [
        f"""## CPU time of a run

User and system time of the service's whole process, all threads, a run; what is written later is
waited for and counted in. {f["rounds"]} rounds of {f["times"]} runs, one after the other; all lines
take turns within a round. A ratio is taken within each round, and the median is shown.
Where another checkout was measured in the same turns (`--before`), it is compared with. `ainvoke`
and `astream` are the same code in both: how far their "now to before" is from 1 is the error of
the measurement, which on a machine with other work is large.

- `ainvoke`: the bare graph, its answer alone.
- `astream`: the bare graph as the service runs it, with stream modes `tasks`, `custom` and `values`
  and subgraphs; nobody looks at what it tells. The difference to `ainvoke` is LangGraph's own.
- `run`: beside it every event is made and followed, nothing is kept.
- `kept run`: it, its thread and its events are written, too.
- the others are whole requests, over HTTP."""
    ]
    parts += [_load(name, took, f.get("before_ms", {}).get(name)) for name, took in _loads(f)]
    return "\n\n".join(parts)


def _loads(f: Figures) -> list[tuple[str, dict[str, list[float]]]]:
    return list(f["cpu_ms"].items())


def _load(name: str, took: dict[str, list[float]], before: dict[str, list[float]] | None) -> str:
    head = ["", "ms, median", "to `ainvoke`", "to `astream`", "beyond `ainvoke`, ms"]
    rows = [
        [f"`{way}`", f"{median(ms):.1f}", _ratio(ms, took["ainvoke"]),
         _ratio(ms, took["astream"]), f"{median(_beyond(ms, took['ainvoke'])):.1f}"]
        for way, ms in took.items()
    ]  # fmt: skip
    if before:
        head += ["before: to `ainvoke`", "now to before"]
        for row, (way, ms) in zip(rows, took.items(), strict=True):
            row += [_ratio(before[way], before["ainvoke"]), _ratio(ms, before[way])]
    return f"### {name}\n\n{table(head, rows)}"


def _beyond(ms: list[float], base: list[float]) -> list[float]:
    return [one - other for one, other in zip(ms, base, strict=True)]


def _ratio(ms: list[float], base: list[float]) -> str:
    return f"{median(one / other for one, other in zip(ms, base, strict=True)):.2f}"


def _first(f: Figures) -> str:
    first = [1000 * run["first_step_s"] for run in f["runs"]]
    whole = [run["run_s"] for run in f["runs"]]
    share = max(run["first_step_s"] / run["run_s"] for run in f["runs"])
    return f"""## The first step

{len(first)} runs at once, every call of a part taking {f["seconds"]:g} s. A run takes
{median(whole):.1f} s; its first `step` event is at the client {median(first):.0f} ms after the
request was sent (median), {max(first):.0f} ms at most: {share:.2%} of it."""


def _stops(f: Figures) -> str:
    rows = [
        [way, what, *(f"{found[what][share]:.1f}" for share in ("p50", "p95", "most"))]
        for way, found in f.items()
        for what in ("told", "let go", "ended")
        if what in found
    ]
    times = min(found["times"] for found in f.values())
    return f"""## Stopping

{times} runs each are cancelled by `POST /runs/{{id}}/cancel`, or their client closes its
connection, while retriever, evaluator, web search, chat or critic is at work, in turn. Milliseconds
from the client's act until the part was let go, until no run was under way, and until the client
that follows a cancelled run had its last event. No call went on after its run.

{table(("how", "until", "p50", "p95", "most"), rows)}"""


def spread(ms: list[float]) -> dict[str, float]:
    """Milliseconds in the middle, at p95, and the most."""
    p95 = quantiles(ms, n=20, method="inclusive")[-1] if len(ms) > 1 else ms[0]
    return {"p50": median(ms), "p95": p95, "most": max(ms)}
