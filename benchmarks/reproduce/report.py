"""Figures of the experiments and their pages: every number of a page comes from its JSON file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from app.extensions.evaluation.matching import holds
from app.extensions.evaluation.measures import MEASURES
from app.extensions.evaluation.statistics import Estimate, mean, paired_difference
from benchmarks.report import Figures, filled
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
    experiment, sets = EXPERIMENTS[figures["experiment"]], figures["sets"]
    return filled(
        "reproduce/page.md.j2",
        figures,
        experiment=experiment,
        command=COMMAND,
        pictured=pictured,
        measured={key: _measured(experiment, found["arms"]) for key, found in sets.items()},
        differences={key: _differences(experiment, found["arms"]) for key, found in sets.items()},
        blanks=list(_blanks(experiment, sets)),
    )


def _measured(experiment: Experiment, arms: Mapping[str, Figures]) -> dict[str, str]:
    """The measures that any arm has a figure of, with their titles."""
    return {
        name: TITLES.get(name) or MEASURES[name].title
        for name in experiment.measures
        if any(row[name]["mean"] is not None for row in arms.values())
    }


def _differences(experiment: Experiment, arms: Mapping[str, Figures]) -> list[tuple[Arm, Figures]]:
    """Of arms that cost nothing for certain, with the reason that is known."""
    compared = [(arm, arms.get(arm.name, {}).get("difference")) for arm in experiment.arms]
    return [(arm, own) for arm, own in compared if arm.note and own and own["mean"] is not None]


def _blanks(experiment: Experiment, sets: Mapping[str, Figures]) -> Iterator[tuple[str, str]]:
    """Each kind of blank row and of set that was not given, with the settings that bring it."""
    missing = {
        arm.needs for arm in experiment.arms
        if arm.needs and not any(arm.name in found["arms"] for found in sets.values())
    }  # fmt: skip
    for need, (_, setting) in NEEDS.items():
        if need in missing:
            yield "Blank rows that need a model", f"{setting} "
    for kind in experiment.kinds:
        if all(found["kind"] != kind for found in sets.values()):
            yield f"Not given, {KINDS[kind]}", ""


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
