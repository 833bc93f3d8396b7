"""The report of an evaluation: one HTML page with its pictures, which opens without a network."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from app.evaluation.calibration import Proposal
from app.evaluation.comparison import Comparison
from app.evaluation.measures import MEASURES
from app.evaluation.results import STAGES
from app.evaluation.runner import Answered, EvaluationRequest
from graphs.text.language import language_of
from graphs.types import Language

MAX_PASSAGE_CHARS, MAX_DETAILS = 1500, 2000
COLOURS = 8
WIDTH, NAME_WIDTH, ROW = 760, 190, 20


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report shows; what is None is left out."""

    request: EvaluationRequest
    answers: Sequence[Answered]
    results: Mapping[str, Any]
    times: Mapping[str, Mapping[str, float | None]]
    proposal: Proposal | None = None
    calibrates: bool = False
    comparison: Comparison | None = None

    def html(self, language: Language | None = None) -> str:
        """The page, in the language of most questions where none is named."""
        return _Page(self, language or _language(self.request)).html()


def style_source() -> str:
    """The Content-Security-Policy's source for the page's own style."""
    return f"'sha256-{b64encode(sha256(_style().encode()).digest()).decode()}'"


class _Page:
    def __init__(self, report: Report, language: Language) -> None:
        self._it, self._language = report, language
        self._words: Mapping[str, str] = _words()[language]
        self._variants: list[Mapping[str, Any]] = report.results["variants"]
        self._first = self._variants[0]["name"]

    def html(self) -> str:
        name = escape(self._it.results["name"])
        parts = [
            f"<h1>{self._w('title')}: {name}</h1>",
            self._about(),
            self._section("summary", self._summary()),
            self._compared(),
            self._section("figures", self._figures()),
            self._section("stages", self._stages()),
            self._section("actions", self._actions()),
            self._section("verdicts", self._verdicts()),
            self._thresholds(),
            self._section("not_covered", self._not_covered()),
            self._section("times", self._times()),
            self._section("degraded", self._degraded()),
            self._section("all_questions", self._questions()),
        ]
        return (
            f'<!doctype html><html lang="{self._language}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{self._w('title')}: {name}</title><style>{_style()}</style></head>"
            f"<body><main>{''.join(filter(None, parts))}</main></body></html>\n"
        )

    def _w(self, word: str, **slots: object) -> str:
        shown = {key: escape(str(value)) for key, value in slots.items()}
        return escape(self._words[word], quote=False).format(**shown)

    def _section(self, word: str, inside: str, **slots: object) -> str:
        return f"<section><h2>{self._w(word, **slots)}</h2>{inside}</section>" if inside else ""

    def _about(self) -> str:
        counted, made = self._it.results["questions"], self._it.results["fingerprint"]
        parts = [
            f"{counted['all']} {self._w('questions')}",
            f"{counted['answerable']} {self._w('answerable')}",
            f"{counted['unanswerable']} {self._w('unanswerable')}",
            f"{made.get('documents', '?')} {self._w('documents')}",
            *(
                escape(str(made[key]))
                for key in ("generator", "evaluator", "embedder")
                if key in made
            ),
            f"{self._w('judge')}: {escape(self._it.results['judge'])}",
        ]
        line = f'<p class="soft">{" · ".join(parts)}</p>'
        if counted["generated"]:
            line += f'<p class="bad">{counted["generated"]} {self._w("generated")}</p>'
        keys = "".join(
            f'<span class="key">{_svg(12, 12, f"<circle {_dot(n)} cx=6 cy=6 r=5 />")}'
            f"{escape(each['name'])} <span class=soft>{escape(_settings(each))}</span></span>"
            for n, each in enumerate(self._variants)
        )
        return f"{line}<p>{keys}</p>"

    def _summary(self) -> str:
        lines = []
        for difference in self._it.results["differences"]:
            measures = difference["measures"]
            right = measures["contains_gold"]
            right = right if right["mean"] is not None else measures["correctness"]
            names = {"name": difference["variant"], "first": difference["against"]}
            if right["mean"] is None or right["low"] is None:
                lines.append(self._w("unknown", **names))
                continue
            bounds = {key: f"{100 * right[key]:+.0f}" for key in ("low", "high")}
            word = "better" if right["low"] > 0 else "worse" if right["high"] < 0 else "equal"
            lines.append(self._w(word, **names, diff=f"{100 * right['mean']:+.0f}", **bounds))
        for variant in self._variants:
            lost = variant["stages"]
            if not lost:
                lines.append(self._w("nothing_lost", name=variant["name"]))
            else:
                most = max(lost, key=lambda stage: lost[stage])
                lines.append(
                    self._w(
                        "most_lost",
                        name=variant["name"],
                        stage=self._words[f"stage_{most}"],
                        about=self._words[f"about_{most}"],
                    )
                )
            if variant["failed"]:
                lines.append(self._w("failed", n=variant["failed"], name=variant["name"]))
        return f'<ul class="summary">{"".join(f"<li>{line}</li>" for line in lines)}</ul>'

    def _compared(self) -> str:
        if (result := self._it.comparison) is None:
            return ""
        if result.regressions:
            named = (f"{escape(it.variant)} {self._title(it.measure)}" for it in result.regressions)
            inside = f'<p class="bad">{self._w("regressions")}: {", ".join(named)}</p>'
        else:
            inside = f'<p class="good">{self._w("no_regressions")}</p>'
        head = (self._words["variant"], self._words["measure"], self._words["before"],
                self._words["after"], self._words["change"])  # fmt: skip
        rows = [
            (escape(each.variant), self._title(each.measure), _number(each.before, each.measure),
             _number(each.after, each.measure), _difference(
                 {"mean": each.difference, "low": each.low, "high": each.high}, each.measure))
            for each in result.measures
            if each.difference
        ]  # fmt: skip
        if rows:
            inside += _table(head, rows, raw=True)
        if result.turned:
            turned = [
                (each.question, each.variant, self._turn(each.before["right"], each.after["right"]))
                for each in result.turned[:MAX_DETAILS]
            ]
            inside += f"<h3>{self._w('turned')}</h3>{_table((), turned)}"
        return self._section("compared", inside)

    def _figures(self) -> str:
        known = [
            name
            for name in MEASURES
            if any(each["measures"][name]["mean"] is not None for each in self._variants)
        ]
        shares = [name for name in known if MEASURES[name].group != "cost"]
        return (
            f'<p class="soft">{self._w("figures_about")} {self._w("pairs")}</p>'
            f"{self._dots(shares)}{self._numbers(known)}"
        )

    def _dots(self, names: Sequence[str]) -> str:
        """A line a measure, a dot a variant with its interval, from 0 to 1."""
        step = ROW + 7 * (len(self._variants) - 1)
        height = step * len(names) + 30
        wide = WIDTH - NAME_WIDTH - 30
        parts = [
            f'<line class="grid" x1="{NAME_WIDTH + wide * t / 4}" x2="{NAME_WIDTH + wide * t / 4}"'
            f' y1="0" y2="{height - 24}" /><text x="{NAME_WIDTH + wide * t / 4}" y="{height - 8}"'
            f' text-anchor="middle">{t / 4:g}</text>'
            for t in range(5)
        ]
        for row, name in enumerate(names):
            top = row * step + 12
            middle = top + 3.5 * (len(self._variants) - 1)
            parts.append(f'<text x="0" y="{middle + 4}">{self._title(name)}</text>')
            for n, variant in enumerate(self._variants):
                estimate, y = variant["measures"][name], top + 7 * n
                if estimate["mean"] is None:
                    continue
                x = NAME_WIDTH + wide * estimate["mean"]
                if estimate["low"] is not None:
                    ends = [NAME_WIDTH + wide * estimate[end] for end in ("low", "high")]
                    parts.append(
                        f'<line class="c{n % COLOURS}" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}"'
                        f' y1="{y}" y2="{y}" stroke-width="2" opacity=".55" />'
                    )
                tip = f"{variant['name']}: {_number(estimate['mean'], name)}"
                dot = f'<circle {_dot(n)} cx="{x:.1f}" cy="{y}" r="4">'
                parts.append(f"{dot}<title>{escape(tip)}</title></circle>")
        return _svg(WIDTH, height, "".join(parts), self._w("figures"))

    def _numbers(self, names: Sequence[str]) -> str:
        differences = {
            each["variant"]: each["measures"] for each in self._it.results["differences"]
        }
        head = [self._words["measure"], *(each["name"] for each in self._variants)]
        head += [
            f"{each['name']} − {self._first}"
            for each in self._variants
            if each["name"] in differences
        ]
        rows = []
        for name in names:
            row = [self._title(name)]
            row += [_estimate(each["measures"][name], name) for each in self._variants]
            row += [_difference(measures[name], name) for measures in differences.values()]
            rows.append(row)
        return _table(head, rows, raw=True)

    def _stages(self) -> str:
        wide = WIDTH - NAME_WIDTH - 60
        most = max((sum(each["stages"].values()) for each in self._variants), default=0)
        if not most:
            return ""
        parts, shown = (
            [],
            [s for s in STAGES if any(s in each["stages"] for each in self._variants)],
        )
        for row, variant in enumerate(self._variants):
            x, y = float(NAME_WIDTH), row * 30
            parts.append(f'<text x="0" y="{y + 17}">{escape(variant["name"])}</text>')
            for n, stage in enumerate(shown):
                if many := variant["stages"].get(stage, 0):
                    long = wide * many / most
                    tip = escape(f"{self._words[f'stage_{stage}']}: {many}")
                    place = f'x="{x:.1f}" y="{y + 3}" width="{long:.1f}" height="20"'
                    parts.append(
                        f'<rect {_dot(n)} {place} opacity=".8"><title>{tip}</title></rect>'
                        f'<text x="{x + long / 2:.1f}" y="{y + 17}" text-anchor="middle">{many}'
                        "</text>"
                    )
                    x += long
        keys = "".join(
            f'<p><span class="key">{_svg(12, 12, f"<rect {_dot(n)} width=12 height=12 />")}<b>'
            f'{self._w(f"stage_{stage}")}</b></span> <span class="soft">{self._w(f"about_{stage}")}'
            "</span></p>"
            for n, stage in enumerate(shown)
        )
        picture = _svg(WIDTH, 30 * len(self._variants), "".join(parts), self._w("stages"))
        return f"{picture}{keys}"

    def _actions(self) -> str:
        tables = []
        for variant in self._variants:
            table = variant["confusion"]
            if any(sum(row.values()) for row in table.values()):
                names = ("correct", "ambiguous", "incorrect")
                rows = [
                    (f"→ {expected}", *(table[expected][name] for name in names))
                    for expected in table
                ]
                tables.append(f"<h3>{escape(variant['name'])}</h3>{_table(('', *names), rows)}")
        return f'<p class="soft">{self._w("actions_about")}</p>{"".join(tables)}' if tables else ""

    def _verdicts(self) -> str:
        rows, known = [], [v for v in self._variants if any(e["known"] for e in v["verdicts"])]
        for n, variant in enumerate(self._variants):
            for entry in variant["verdicts"] if variant in known else ():
                picture = ""
                if entry["right"] is not None:
                    bar = f'y="3" width="{160 * entry["right"]:.0f}" height="10" opacity=".7"'
                    inside = f"<rect {_dot(n)} {bar} />"
                    if entry["promised"] is not None:
                        x = min(159, max(1, 160 * entry["promised"]))
                        inside += f'<line class="promise" x1="{x}" x2="{x}" y1="0" y2="16" />'
                    picture = _svg(160, 16, inside)
                share = "" if entry["right"] is None else f"{entry['right']:.0%}"
                name, verdict = escape(variant["name"]), escape(entry["verdict"])
                rows.append((name, verdict, entry["n"], share, picture))
        head = ("", self._words["verdict"], "n", self._words["right"], "")
        about = f'<p class="soft">{self._w("verdicts_about")}</p>'
        return f"{about}{_table(head, rows, raw=True)}" if rows else ""

    def _thresholds(self) -> str:
        if not self._it.calibrates:
            return ""
        if (best := self._it.proposal) is None:
            return self._section("thresholds", f"<p>{self._w('thresholds_few')}</p>")
        costs = {"present": best.present_cost, "cost": best.cost, "unseen": best.unseen_cost}
        inside = f"<p><b>upper {best.upper}, lower {best.lower}</b></p>"
        inside += f"<p>{self._w('thresholds_about', n=best.questions, **costs)}</p>"
        if not best.is_better:
            inside += f'<p class="bad">{self._w("thresholds_worse")}</p>'
        rows = [
            (each.question, f"{each.before} → {each.after}", self._evidence(each.evidence))
            for each in best.changed[:MAX_DETAILS]
        ]
        if rows:
            inside += f"<h3>{self._w('changed')} ({len(best.changed)})</h3>{_table((), rows)}"
        return self._section("thresholds", inside)

    def _not_covered(self) -> str:
        missing = set(self._it.results["not_covered"])
        lines = [each.question for each in self._it.request.questions if each.id in missing]
        listed = "".join(f"<li>{escape(line)}</li>" for line in lines[:MAX_DETAILS])
        about = f'<p class="soft">{self._w("not_covered_about")}</p>'
        return f"{about}<ul>{listed}</ul>" if lines else ""

    def _times(self) -> str:
        rows = [(name, it["p50"], it["p95"]) for name, it in self._it.times.items()]
        return _table(("", "p50", "p95"), rows)

    def _degraded(self) -> str:
        rows = [
            (variant["name"], many, line)
            for variant in self._variants
            for line, many in variant["degraded"].items()
        ]
        return _table((), rows) if rows else ""

    def _questions(self) -> str:
        answers = {(it.question, it.variant): it for it in self._it.answers}
        gold = {question.id: question for question in self._it.request.questions}
        parts = []
        for row in self._it.results["rows"][:MAX_DETAILS]:
            question = gold[row["id"]]
            tags = "".join(
                f' <span class="tag">{escape(name)}: {self._outcome(cell)}</span>'
                for name, cell in row["variants"].items()
            )
            inside = f"<p class=soft>{escape(row['id'])}</p>"
            if question.is_answerable is False:
                inside += f"<p>{self._w('gold')}: {self._w('not_held')}</p>"
            for word, values in (("gold", question.answers), ("sources", question.sources)):
                if values:
                    inside += f"<p>{self._w(word)}: {escape(' | '.join(values))}</p>"
            for name, cell in row["variants"].items():
                inside += self._answer(name, cell, answers[row["id"], name])
            parts.append(
                f"<details><summary>{escape(question.question)}{tags}</summary>{inside}</details>"
            )
        return "".join(parts)

    def _outcome(self, cell: Mapping[str, Any]) -> str:
        if "failure" in cell:
            return self._w("failure")
        if stage := cell["lost_at"]:
            return f'<span class="bad">{self._w(f"stage_{stage}")}</span>'
        return self._right(cell["right"])

    def _answer(self, name: str, cell: Mapping[str, Any], answered: Answered) -> str:
        if answered.outcome is None or "failure" in cell:
            return f"<h3>{escape(name)}</h3><p class=bad>{escape(str(answered.failure))}</p>"
        outcome = answered.outcome
        texts: dict[str, list[str]] = {}
        for strip in outcome.kept_strips:
            texts.setdefault(strip.document_id, []).append(strip.text)
        is_kept = f' <span class="tag">{self._w("kept")}</span>'
        passages = "".join(
            f"<details><summary>{escape(it.title or it.source)}"
            f' <span class="tag">{it.score:.2f}</span>{is_kept if it.id in texts else ""}'
            f' <span class="soft">{escape(it.source)}</span></summary>'
            f"<pre>{escape(it.text[:MAX_PASSAGE_CHARS])}</pre>"
            f"{''.join(f'<mark>{escape(text)}</mark>' for text in texts.get(it.id, ()))}</details>"
            for it in outcome.documents
        )
        figures = " · ".join(
            f"{self._title(measure)} {_number(value, measure)}"
            for measure, value in cell["measures"].items()
            if MEASURES[measure].group != "cost"
        )
        labels = [
            escape(str(it)) for it in (outcome.action, outcome.verdict, outcome.stopped_by) if it
        ]
        return (
            f"<h3>{escape(name)} <span class=soft>{' · '.join(labels)}</span></h3>"
            f"<pre>{escape(outcome.answer)}</pre><p class=soft>{figures}</p>"
            f"<details><summary>{self._w('passages')} ({len(outcome.documents)})</summary>"
            f"{passages}</details>"
        )

    def _right(self, right: bool | None) -> str:
        words = {True: "is_right", False: "is_wrong", None: "is_unknown"}
        return self._w(words[right])

    def _turn(self, before: bool | None, after: bool | None) -> str:
        return f"{self._right(before)} → {self._right(after)}"

    def _evidence(self, held: bool) -> str:
        return f"{self._words['evidence']} {'+' if held else '−'}"

    def _title(self, measure: str) -> str:
        if self._language == "zh":
            return escape(_words()["measures_zh"][measure])
        return escape(MEASURES[measure].title)


def _language(request: EvaluationRequest) -> Language:
    chinese = [language_of(question.question) == "zh" for question in request.questions]
    return "zh" if sum(chinese) * 2 > len(chinese) else "en"


@cache
def _words() -> dict[str, dict[str, str]]:
    text = (files("app.evaluation") / "report_words.json").read_text("utf-8")
    words: dict[str, dict[str, str]] = json.loads(text)
    return words


@cache
def _style() -> str:
    return (files("app.evaluation") / "report.css").read_text("utf-8")


def _settings(variant: Mapping[str, Any]) -> str:
    options = [f"{key}={value}" for key, value in variant["options"].items()]
    return " ".join([variant["workflow"], *options])


def _dot(n: int) -> str:
    return f'class="c{n % COLOURS}"'


def _svg(width: int, height: int, inside: str, label: str = "") -> str:
    named = f'role="img" aria-label="{label}"' if label else 'aria-hidden="true"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f"<svg {named} {size}>{inside}</svg>"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], raw: bool = False) -> str:
    def cell(tag: str, value: Any, is_number: bool) -> str:
        text = "" if value is None else str(value)
        return f"<{tag}{' class=n' if is_number else ''}>{text if raw else escape(text)}</{tag}>"

    body = "".join(
        f"<tr>{''.join(cell('td', it, isinstance(it, int | float)) for it in row)}</tr>"
        for row in rows
    )
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _number(value: float, measure: str) -> str:
    return f"{value:,.1f}" if MEASURES[measure].group == "cost" else f"{value:.3f}"


def _estimate(estimate: Mapping[str, Any], measure: str) -> str:
    if estimate["mean"] is None:
        return "–"
    value = _number(estimate["mean"], measure)
    if estimate["low"] is None:
        return f"{value} <span class=soft>n {estimate['n']}</span>"
    interval = f"{_number(estimate['low'], measure)}–{_number(estimate['high'], measure)}"
    return f"{value} <span class=soft>{interval}, n {estimate['n']}</span>"


def _difference(estimate: Mapping[str, Any], measure: str) -> str:
    if estimate["mean"] is None:
        return "–"
    value = f"{estimate['mean']:+.3f}"
    if estimate["low"] is None:
        return value
    interval = f"<span class=soft>{estimate['low']:+.3f} … {estimate['high']:+.3f}</span>"
    beyond_chance = estimate["low"] > 0 or estimate["high"] < 0
    better = MEASURES[measure].better
    if not beyond_chance or better is None:
        return f"{value} {interval}"
    is_good = (estimate["mean"] > 0) == (better == "higher")
    return f'<b class="{"good" if is_good else "bad"}">{value}</b> {interval}'
