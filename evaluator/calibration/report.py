"""A calibration in words and tables, for the terminal."""

from evaluator.calibration.thresholds import Calibration

_ACTIONS = ("correct", "incorrect")
_SHARES = (
    ("accuracy", "accuracy, Ambiguous counted wrong"),
    ("ambiguous_share", "Ambiguous"),
    ("web_searches", "web searches (Ambiguous or Incorrect)"),
    ("needless_searches", "needless ones (a passage answers)"),
    ("strips_kept", "answering strips kept"),
    ("other_strips_dropped", "other strips dropped"),
)
FEW, LITTLE_DROPPED = 100, 0.3


def report(calibration: Calibration) -> str:
    """Figures by language, accuracy against the share of Ambiguous, what the strip floor does."""
    found = calibration.thresholds
    head = f"upper {found.upper:.4f}, lower {found.lower:.4f}, strip floor {found.strip_floor:.4f}"
    lines = [f"{head}, found on {found.questions} questions"]
    for language in sorted(calibration.outcomes):
        lines += ["", *_language(found.figures, language)]
    return "\n".join([*lines, "", *_over_languages(calibration), *_warnings(calibration)])


def _language(figures: dict[str, float], language: str) -> list[str]:
    lines = [f"{language}, {figures[f'{language}_questions']:.0f} questions"]
    for action in _ACTIONS:
        precision, recall = (figures[f"{language}_{action}_{x}"] for x in ("precision", "recall"))
        lines.append(f"  {action:10} precision {precision:.3f}, recall {recall:.3f}")
    told = [(words, figures.get(f"{language}_{name}")) for name, words in _SHARES]
    return lines + [f"  {words}: {value:.3f}" for words, value in told if value is not None]


def _over_languages(calibration: Calibration) -> list[str]:
    figures = calibration.thresholds.figures
    lines = [
        f"means over the languages: accuracy 95 % within {figures['accuracy_low']:.3f} and "
        f"{figures['accuracy_high']:.3f}; on questions left out {figures['accuracy_unseen']:.3f}",
        f"by the cost of Ambiguous; chosen {figures['ambiguous_cost']:g}, where a wrong Correct "
        f"costs {figures['wrong_correct_cost']:g}, a wrong Incorrect "
        f"{figures['wrong_incorrect_cost']:g}",
        "  cost    upper    lower  accuracy  Ambiguous   prec. Correct Incorrect needless searches",
    ]
    for row in calibration.trade_offs:
        f = row.figures
        lines.append(
            f"  {row.ambiguous_cost:.2f} {row.upper:8.4f} {row.lower:8.4f} {f['accuracy']:9.3f} "
            f"{f['ambiguous_share']:10.3f} {f['correct_precision']:14.3f} "
            f"{f['incorrect_precision']:10.3f} {f['needless_searches']:18.3f}"
        )
    return lines


def _warnings(calibration: Calibration) -> list[str]:
    """What a reader of the figures should know before trusting them."""
    figures = calibration.thresholds.figures
    lines = []
    for language, graded in sorted(calibration.outcomes.items()):
        if graded.answered.all() or not graded.answered.any():
            lines.append(f"{language} has one kind of question only and decided nothing")
        elif graded.best.size < FEW:
            lines.append(f"{language} has fewer than {FEW} questions: expect other figures anew")
        dropped = figures.get(f"{language}_other_strips_dropped")
        if dropped is not None and dropped < LITTLE_DROPPED:
            lines.append(f"{language}: the strip floor drops little ({dropped:.3f} of the others)")
    return [f"note: {line}" for line in lines]
