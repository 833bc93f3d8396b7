"""Figures of the experiments and their pages: every number of a page comes from its JSON file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from app.extensions.evaluation.matching import holds
from app.extensions.evaluation.measures import MEASURES
from app.extensions.evaluation.statistics import Estimate, mean, paired_difference
from benchmarks.report import Figures
from benchmarks.reproduce.experiments import EXPERIMENTS, NEEDS, Arm, Experiment
from benchmarks.reproduce.material import RecordedWeb
from benchmarks.reproduce.measures import TITLES, column
from benchmarks.reproduce.runner import Bench, Models, Results

KINDS = {
    "short": "questions with short answers (PopQA, TriviaQA, SQuAD, RGB)",
    "closed": "closed sets (PubHealth, ARC)",
    "long": "long answers (ASQA, biographies)",
}
COMMAND = "python -m benchmarks.reproduce"


async def of_set(bench: Bench, models: Models, results: Mapping[str, Results]) -> Figures:
    """What was asked, and the estimates of every experiment."""
    found, answers = bench.found, [each for each in bench.cases if each.example.golds]
    local = [float(any(map(case.is_right, case.retrieved))) for case in answers]
    return {
        "file": found.path.name,
        "sha256": sha256(found.path.read_bytes()).hexdigest(),
        "language": found.language,
        "kind": found.examples[0].kind,
        "questions": len(bench.cases),
        "passages": len(found.passages),
        "models": models,
        "local": mean(local).mean,
        "web": await _web_share(bench),
        "experiments": {
            name: _estimates(EXPERIMENTS[name], rows, bench.seed) for name, rows in results.items()
        },
    }


async def _web_share(bench: Bench) -> float | None:
    """Questions of which the recorded pages, searched for with the question, hold an answer."""
    if not isinstance(bench.web, RecordedWeb):
        return None
    found = []
    for case in bench.cases:
        pages, _ = await bench.web.search(case.example.question, 5)
        texts = [f"{page.title}\n{' '.join(page.paragraphs)}" for page in pages]
        found.append(float(any(holds(text, case.example.golds) for text in texts)))
    return mean(found).mean


def _estimates(experiment: Experiment, results: Results, seed: int) -> Figures:
    """A mean with its interval by arm and measure; the first measure's difference from the base."""
    figures: Figures = {}
    for arm, rows in results.items():
        base = results.get(base_of(experiment, arm).name)
        figures[arm] = {
            name: asdict(mean(column(rows, name), seed)) for name in experiment.measures
        }
        if base is not None and base is not rows:
            first = experiment.measures[0]
            difference = paired_difference(column(rows, first), column(base, first), seed)
            figures[arm]["difference"] = asdict(difference)
    return figures


def base_of(experiment: Experiment, name: str) -> Arm:
    """The first arm of the same group."""
    at = [arm.name for arm in experiment.arms].index(name)
    return experiment.arms[at - at % (experiment.group or len(experiment.arms))]


def write_pages(sets: Mapping[str, Figures], out: Path, seed: int, limit: int) -> list[Path]:
    """A JSON file, a page and, of a curve, a picture for each experiment that was asked."""
    out.mkdir(parents=True, exist_ok=True)
    asked = list(dict.fromkeys(name for found in sets.values() for name in found["experiments"]))
    written = []
    for name in asked:
        figures = {
            "experiment": name,
            "seed": seed,
            "limit": limit,
            "sets": {
                key: {
                    **{each: value for each, value in found.items() if each != "experiments"},
                    "arms": found["experiments"][name],
                }
                for key, found in sets.items()
                if name in found["experiments"]
            },
        }
        file = out / f"{name}.json"
        file.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
        pictured = EXPERIMENTS[name].curve and draw_curves(figures, file.with_suffix(".png"))
        page = file.with_suffix(".md")
        page.write_text(page_of(figures, pictured=bool(pictured)), "utf-8")
        written.append(page)
    return written


def page_of(figures: Figures, *, pictured: bool = False) -> str:
    name = figures["experiment"]
    experiment = EXPERIMENTS[name]
    parts = [f"# {experiment.title}", experiment.about]
    drawn = f"--limit {figures['limit']} --seed {figures['seed']}"
    command = f"{COMMAND} {name} --data FILE ... --corpus FILE ... {drawn}"
    parts.append(
        f"Made by `{command}`. Means with 95 % bootstrap intervals; the last column is the paired"
        f" difference of the first measure from {_bases(experiment)}."
    )
    if pictured:
        parts.append(f"![{experiment.title}]({name}.png)")
    for key, found in figures["sets"].items():
        parts += [f"## {key}", _about(found), "\n".join(_table(experiment, found["arms"]))]
        if reading := list(_reading(experiment, found["arms"])):
            parts.append("\n".join(reading))
    parts += ["\n".join(_blanks(name, experiment, figures["sets"]))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _bases(experiment: Experiment) -> str:
    return f"`{experiment.arms[0].name}`" if not experiment.group else "the first row of its group"


def _about(found: Figures) -> str:
    models = ", ".join(f"{part} `{name}`" for part, name in found["models"].items() if name)
    said = [
        f"{found['questions']} questions of `{found['file']}` (sha256 `{found['sha256'][:12]}`,"
        f" {found['language']}), {found['passages']} passages; {models}."
    ]
    if found["local"] is not None:
        said.append(f"What was retrieved holds an answer for {_percent(found['local'])}")
        web = found["web"]
        said.append(
            "of them" + ("." if web is None else f", the recorded pages for {_percent(web)}.")
        )
    return " ".join(said)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _table(experiment: Experiment, arms: Mapping[str, Figures]) -> Iterator[str]:
    names = [
        name for name in experiment.measures if any(_known(row, name) for row in arms.values())
    ]
    titles = [TITLES.get(name) or MEASURES[name].title for name in names]
    yield f"| | n | {' | '.join(titles)} | difference |"
    yield "|---" * (len(names) + 3) + "|"
    for arm in experiment.arms:
        row = arms.get(arm.name)
        if row is None:
            yield f"| {arm.name} |" + " |" * (len(names) + 2)
            continue
        n = max(row[name]["n"] for name in names)
        cells = [_cell(row[name]) for name in names]
        yield f"| {arm.name} | {n} | {' | '.join(cells)} | {_cell(row.get('difference'))} |"


def _known(row: Figures, name: str) -> bool:
    return row[name]["mean"] is not None


def _cell(estimate: Figures | None) -> str:
    if estimate is None or estimate["mean"] is None:
        return ""
    if estimate["low"] is None:
        return f"{estimate['mean']:.3g}"
    return f"{estimate['mean']:.3g} [{estimate['low']:.3g}, {estimate['high']:.3g}]"


def _reading(experiment: Experiment, arms: Mapping[str, Figures]) -> Iterator[str]:
    """Arms that cost nothing for certain, with the reason that is known."""
    for arm in experiment.arms:
        difference = arms.get(arm.name, {}).get("difference")
        if not arm.note or difference is None or difference["mean"] is None:
            continue
        high, low = difference["high"] or 0.0, difference["low"] or 0.0
        if high < 0:
            said = "costs something"
        else:
            said = "gains" if low > 0 else f"no loss can be told from {difference['n']} questions"
            said += f". {arm.note}"
        yield f"- {arm.name}: {said.rstrip('.')}."


def _blanks(name: str, experiment: Experiment, sets: Mapping[str, Figures]) -> Iterator[str]:
    """The command beside each blank row and each kind of set that was not given."""
    missing = {
        arm.needs for arm in experiment.arms
        if arm.needs and not any(arm.name in found["arms"] for found in sets.values())
    }  # fmt: skip
    for need in NEEDS:
        if need in missing:
            yield f"- Blank rows that need a model: `{NEEDS[need][1]} {COMMAND} {name} --data FILE`"
    for kind in experiment.kinds:
        if all(found["kind"] != kind for found in sets.values()):
            yield f"- Not given, {KINDS[kind]}: `{COMMAND} {name} --data FILE`"


def draw_curves(figures: Figures, file: Path) -> bool:
    """The first measure over the levels at the end of the arms' names; False without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        return False
    experiment = EXPERIMENTS[figures["experiment"]]
    measure = experiment.measures[0]
    sets = figures["sets"]
    picture = Figure(figsize=(5 * len(sets), 3.6), layout="constrained")
    for axes, (key, found) in zip(
        picture.subplots(1, len(sets), squeeze=False)[0], sets.items(), strict=True
    ):
        for line, (colour, style) in zip(experiment.curve, STYLES, strict=True):
            points = _points(line, measure, found["arms"])
            levels, means, lows, highs = zip(*points, strict=True)
            axes.plot(levels, means, style, marker="o", color=colour, label=line)
            if style == "-":
                axes.fill_between(levels, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.set_title(f"{key}, n = {found['questions']}")
        axes.set_xlabel("share of right passages dropped")
        axes.set_ylabel(TITLES[measure].lower())
        axes.set_ylim(0, 1)
        axes.legend(fontsize="small")
    picture.savefig(file, dpi=80, metadata={"Software": None})
    return True


STYLES = (("#777777", "-"), ("#0072b2", "-"), ("#e69f00", "--"), ("#009e73", ":"))
"""Solid lines have their intervals drawn."""


def _points(
    line: str, measure: str, arms: Mapping[str, Figures]
) -> Sequence[tuple[float, float, float, float]]:
    found = []
    for name, row in arms.items():
        system, _, level = name.rpartition(" ")
        if system == line:
            it = Estimate(**row[measure])
            middle = it.mean or 0.0
            low = middle if it.low is None else it.low
            found.append((float(level), middle, low, middle if it.high is None else it.high))
    return found
