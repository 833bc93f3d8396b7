"""The measurement's report in Markdown, made of its figures alone."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.evaluator.ratchet import changes, kept
from benchmarks.report import table

Figures = dict[str, Any]

JUDGED = {
    "support": "Support: is the answer in the evidence? AUC of fully supported against not "
    "supported; overlap is the share of the answer's words in the evidence.",
    "utility": "Utility: does the answer serve the question? AUC of grades 5 and 4 against 2 and "
    "1; overlap is the share of the question's words in the answer.",
    "retrieval": "Evidence at hand: does it answer the question, or must more be retrieved?",
}
RELEVANCE = ("set", "questions", "AUC", "BM25", "e5", "gold first", "BM25", "e5")
KINDS = {"kind-held": "kinds never trained, all", "held": "held wordings of trained kinds"}


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    parts = [_head(figures)]
    if "tests" in figures:
        parts += [_relevance(figures), _seen(figures["seen"])]
    if "kinds" in figures:
        parts.append(_wrong_kinds(figures["kinds"]))
    if "acceptance" in figures:
        parts.append(_acceptance(figures["acceptance"]))
    if "validation" in figures:
        parts.append(_held_back(figures))
    if "actions" in figures:
        parts.append(_actions(figures["actions"]))
    if "judgements" in figures:
        parts += [*_judgements(figures), *_needs(figures)]
    if "spans" in figures:
        parts.append(_spans(figures["spans"]))
    if "manuals" in figures:
        parts.append(_manuals(figures["manuals"]))
    if "before" in figures:
        parts.append(_before(figures))
    return "\n\n".join(parts) + "\n"


def _head(figures: Figures) -> str:
    command = f"python -m benchmarks.evaluator DATA --most {figures['most']}"
    command += f" --seed {figures['seed']}"
    if "manuals" in figures:
        command += " --manuals FILE"
    if figures.get("left_out"):
        command += f" --left-out {' '.join(figures['left_out'])}"
    return f"""# The evaluator, measured

    {command}

DATA is a folder with the published question sets as gzip-compressed JSON lines. Written by that
command from benchmarks/evaluator.json; it took {figures["minutes"]:g} minutes. Evaluator
`{figures["evaluator"]}` (tasks: {", ".join(figures["tasks"])}), at most {figures["most"]} questions
of a set. Brackets are 95 % intervals of a bootstrap over questions (1,000 draws)."""


def _relevance(figures: Figures) -> str:
    rows = [_relevance_row(name, f) for name, f in figures["tests"].items()]
    return f"""## Relevance

Each question's gold passage against the four BM25-nearest passages of other records without an
answer string; all scorers judge the same pairs, passages without their titles. AUC over all pairs,
then the share of questions whose gold passage scores highest. e5 (multilingual-e5-small,
untrained) is the cosine of question and passage. Sets never trained on:

{table(RELEVANCE, rows)}"""


def _held_back(figures: Figures) -> str:
    rows = [_relevance_row(name, f) for name, f in figures["validation"].items()]
    rows += [_relevance_row(f"{name}, left out", f) for name, f in figures["left_out"].items()]
    rows.append(_relevance_row("en_popqa by subject", figures["subjects"]))
    return f"""## Relevance on held-back parts

The same on the held-back parts ({figures["held_back_percent"]} % of the articles) of the training
sets, and on whole sets where they were left out of training. `by subject` is PopQA in the paper's
way: the subject's page against the nearest pages of the same relation, whether or not they hold an
answer string.

{table(RELEVANCE, rows)}"""


def _relevance_row(name: str, figures: Figures) -> list[str]:
    scorers = ("evaluator", "bm25", "e5")
    return [
        name,
        str(figures["questions"]),
        *(_auc(figures, scorer) for scorer in scorers),
        *(_or_dash(figures.get(f"first_{scorer}")) for scorer in scorers),
    ]


def _auc(figures: Figures, scorer: str) -> str:
    if f"auc_{scorer}" not in figures:
        return "-"
    value, low, high = (figures[f"auc_{scorer}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _seen(seen: Figures) -> str:
    rows, cleaned = [], []
    for name, f in seen.items():
        counts = [str(f[key]) for key in ("questions", "question", "passage", "overlapping", "any")]
        files = ", ".join(f"{source} {count}" for source, count in f["files"].items())
        rows.append([name, *counts, files or "-", str(f["removed"])])
        if "without" in f:
            cleaned.append(_relevance_row(name, f["without"]))
    head = ("set", "questions", "question", "passage", "overlap", "any", "overlap by set",
            "of the measured")  # fmt: skip
    text = f"""## What training has seen of the tests

Questions and gold passages that occur in a training file: equal but for case, punctuation and
spaces, or overlapping (half of a passage's runs of 13 words stand in passages of one set).

{table(head, rows)}"""
    if cleaned:
        text += f"\n\nThe same figures without those:\n\n{table(RELEVANCE, cleaned)}"
    return text


def _actions(actions: Figures) -> str:
    sets = {name: f for name, f in actions.items() if isinstance(f, dict)}
    lines: Sequence[tuple[str, Callable[[Figures], str]]] = (
        ("**action accuracy**", lambda f: f"**{f['accuracy']:.3f}** "
         f"[{f['accuracy_low']:.3f}, {f['accuracy_high']:.3f}]"),
        ("share Ambiguous (counted wrong)", lambda f: f"{f['ambiguous_share']:.3f}"),
        ("Correct: precision / recall",
         lambda f: f"{f['correct_precision']:.3f} / {f['correct_recall']:.3f}"),
        ("Incorrect: precision / recall",
         lambda f: f"{f['incorrect_precision']:.3f} / {f['incorrect_recall']:.3f}"),
        ("web searches: all / needless",
         lambda f: f"{f['web_searches']:.3f} / {f['needless_searches']:.3f}"),
        (f"one cut at {actions['cut']:.3f} instead", lambda f: f"{f['at_cut']:.3f}"),
        ("always Correct", lambda f: f"{f['always_correct']:.3f}"),
        ("always Incorrect", lambda f: f"{f['always_incorrect']:.3f}"),
        ("AUC of the best score",
         lambda f: f"{f['auc']:.3f} [{f['auc_low']:.3f}, {f['auc_high']:.3f}]"),
        ("questions", lambda f: f"{f['questions']:.0f}"),
        ("gold found where it is in the index", lambda f: f"{f['gold_found']:.3f}"),
        ("no gold, but an answer string elsewhere", lambda f: f"{f['answer_without_gold']:.3f}"),
        ("accuracy without those questions", lambda f: f"{f['undisputed']:.3f}"),
        ("accuracy if an answer string counts as gold", lambda f: f"{f['by_answer']:.3f}"),
    )  # fmt: skip
    rows = [[name, *(shown(f) for f in sets.values())] for name, shown in lines]
    return f"""## Actions

Ten passages from the default retriever for each question; for about half of the questions the gold
passage is not in the index. Right is Correct where the gold passage was retrieved and Incorrect
where it was not, even if another passage holds an answer string by chance or by right; the last
lines say how many such there are and count them otherwise. Thresholds of the weights folder:
upper {actions["upper"]:.3f}, lower {actions["lower"]:.3f}. The one cut is the best on held-back
calibration questions; nothing was chosen on the sets below. A web search (all that is not Correct)
is needless where gold was retrieved.

{table(("", *sets), rows)}"""


def _judgements(figures: Figures) -> list[str]:
    parts = []
    for task, found in figures["judgements"].items():
        if task == "need" or not found:
            continue
        rows = [
            [name, str(f["rows"]), *(_auc(f, s) for s in ("evaluator", "overlap")),
             f"{f['right']:.3f}"]
            for name, f in found.items()
        ]  # fmt: skip
        head = ("rows", "number", "AUC", "overlap", "label right")
        title, _, what = JUDGED[task].partition(": ")
        what = what[0].upper() + what[1:]
        parts.append(f"## {title}\n\n{what}\n\n{table(head, rows)}")
        parts += [_kinds(name, f["kinds"]) for name, f in found.items() if "kinds" in f]
    unknown = [task for task in JUDGED if task not in figures["judgements"]]
    if unknown:
        parts.append(
            f"Not measured, as this evaluator was not trained for it: {', '.join(unknown)}."
        )
    return parts


def _kinds(name: str, kinds: Sequence[Figures]) -> str:
    rows = [
        [f["label"], f["kind"], str(f["rows"]), f"{f['score']:.3f}", f"{f['right']:.3f}"]
        for f in kinds
    ]
    head = ("label", "kind", "rows", "mean score", "label right")
    return f"How the rows of `{name}` were made:\n\n{table(head, rows)}"


def _needs(figures: Figures) -> list[str]:
    found = figures["judgements"].get("need")
    if not found:
        return []
    languages = list(found)
    rows = []
    for name in found[languages[0]]:
        cells = [f"{found[lang][name]['accuracy']:.3f} ({found[lang][name]['rows']})"
                 for lang in languages]  # fmt: skip
        rows.append([KINDS.get(name, name), *cells])
    return [
        f"""## Does the question need retrieval?

Accuracy at one half, rows in brackets. Held wordings share no wording, template or slot value with
training; three kinds of tasks were left out wholly. Labels are balanced in the first two lines, so
a constant answer is right for half.

{table(("rows", *languages), rows)}"""
    ]


def _wrong_kinds(kinds: Figures) -> str:
    names = list(dict.fromkeys(kind for of_language in kinds.values() for kind in of_language))
    rows = [[name, *(_share(kinds[lang].get(name), "above") for lang in kinds)] for name in names]
    return f"""## Wrong texts that look right

How often a wrong text scores at least as high as its right twin, by how it was made (at most 200
pairs a kind), from the questions of the two test sets and entries of made manuals, in wordings that
training has not seen (benchmarks/evaluator_kinds.json). Lower is better; 0.5 is chance.

{table(("kind", *kinds), rows)}"""


def _acceptance(figures: Figures) -> str:
    languages = [name for name in figures if name not in ("support", "utility")]
    names = list(dict.fromkeys(kind for lang in languages for kind in figures[lang]))
    names.sort(key=lambda name: not figures[languages[0]][name]["right"])
    rows = [
        ["right" if figures[languages[0]][name]["right"] else "wrong", name,
         *(_share(figures[lang].get(name), "accepted") for lang in languages)]
        for name in names
    ]  # fmt: skip
    return f"""## Acceptance

The share of answers that the evaluator as critic accepts: support of {figures["support"]:g} and a
utility grade of {figures["utility"]:g} or more, both chosen on held-back articles of the training
sets (`selfcrag-evaluator calibrate --data`). 200 answers a kind, from questions of the test sets.

{table(("", "answer", *languages), rows)}"""


def _share(found: Figures | None, name: str) -> str:
    if found is None:
        return "-"
    return f"{found[name]:.3f} [{found[f'{name}_low']:.3f}, {found[f'{name}_high']:.3f}]"


def _spans(spans: Figures) -> str:
    head = ("set", "questions", "exact", "F1", "F1 where there is one", "unanswerable left alone")
    rows = [
        [name, str(f["rows"]), f"{f['exact']:.3f}",
         f"{f['f1']:.3f} [{f['f1_low']:.3f}, {f['f1_high']:.3f}]", f"{f['answerable_f1']:.3f}",
         _or_dash(f.get("refused"))]
        for name, f in spans.items()
    ]  # fmt: skip
    return f"""## Spans

Where the answer begins and ends, or that there is none. Held-back articles of SQuAD 2.0 (half) and
DRCD, and the CMRC 2018 development set. For scale, published readers trained on all of each set:
SQuAD 2.0 F1 75.6 (e5-L6), CMRC 2018 F1 83.4 and DRCD 85.8 (ELECTRA-small).

{table(head, rows)}"""


def _manuals(manuals: Figures) -> str:
    ranked = [
        [
            name,
            str(own["questions"]),
            scorer,
            *(f"{f[key]:.3f}" for key in ("first", "mrr", "within")),
        ]
        for name, own in manuals.items()
        if "evaluator" in own
        for scorer, f in own.items()
        if scorer != "questions"
    ]
    told = (
        "auc", "standing_auc", "auc_covered", "coverage", "uncovered_above", "calibration_error",
        "covered_correct", "covered_incorrect", "uncovered_correct", "uncovered_incorrect",
    )  # fmt: skip
    languages = [name.removesuffix(" selective") for name in manuals if name.endswith(" selective")]
    selective = [
        [key.replace("_", " "), *(f"{manuals[f'{name} selective'][key]:.3f}" for name in languages)]
        for key in told
        if key in manuals[f"{languages[0]} selective"]
    ]
    stable = [
        [change, *(f"{manuals[f'{name} stability'][change]:.3f}" for name in languages)]
        for change in manuals[f"{languages[0]} stability"]
    ]
    return f"""## Manuals

Questions (faq), headings and options (entry), and questions in a user's own words (user),
of manuals whose packages training never reads, each against ten entries of its package by BM25,
shown without their own heading; for every second question the answering entry is taken away. Of
the others: how often it stands first, mean reciprocal rank, share of the other entries below it.

{table(("rows", "questions", "scorer", "first", "MRR", "below it"), ranked)}

The score of the best entry: its AUC for a right first entry against wrong and uncovered ones, and
that of how far the shipped encoder's cosine of the same entry stands above the median of the ten
(standing); the share of covered questions answered rightly above the bar where nine in ten are
right, and of the uncovered ones above it; the expected calibration error of p(Relevant); shares
of actions.

{table(("", *languages), selective)}

The share of questions whose action stays when they are typed in another way:

{table(("", *languages), stable)}"""


def _before(figures: Figures) -> str:
    found = changes(figures["before"], kept(figures, ""))
    rows = [
        [
            it.name,
            f"{it.before:.3f}",
            f"{it.now:.3f}",
            f"{it.gained} : {it.lost}" if it.gained or it.lost else "",
            ("fell" if it.fell else f"lower, p {it.chance:.2f}") if it.now < it.before else "",
        ]
        for it in found
    ]
    lower, fell = sum(it.now < it.before for it in found), sum(it.fell for it in found)
    higher = sum(it.now > it.before for it in found)
    return f"""## Against the weights before

Every figure that weights are compared by, higher is better; before:
`{figures["before"]["evaluator"]}`. Of {len(found)} figures {higher} are higher and {lower} lower,
{fell} of these beyond chance or of rows that are not known: gained : lost counts the rows that
came out better and worse (one-sided sign test, 5 % for each figure on its own).

{table(("figure", "before", "now", "gained : lost", ""), rows)}{_more_rows(figures)}"""


def _more_rows(figures: Figures) -> str:
    """Nothing where none were measured."""
    rows = [
        [
            it["name"], it["rows"], f"{it['before']:.3f}", f"{it['now']:.3f}",
            f"{it['gained']} : {it['lost']}", f"{it['chance']:.3f}",
        ]
        for it in figures.get("more_rows", ())
    ]  # fmt: skip
    if not rows:
        return ""
    return f"""

## On more rows

Both weights on the same larger samples, where a figure above had been lower on few rows, and what
a question's action is made of. p: the chance of as many losses among equal weights.

{table(("figure", "rows", "before", "now", "gained : lost", "p"), rows)}"""
