"""The report of an evaluation: one HTML page with its pictures, which opens without a network."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from app.extensions.evaluation.calibration import Proposal
from app.extensions.evaluation.measures import MEASURES
from app.extensions.evaluation.results import STAGES
from app.extensions.evaluation.runner import Answered, EvaluationRequest
from app.extensions.evaluation.schemas import EvaluationComparison
from graphs.text.language import language_of
from graphs.types import Language

_FOLDER = files("app.extensions.evaluation")
_STYLE = (_FOLDER / "report.css").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """All that a report shows; what is None is left out."""

    request: EvaluationRequest
    answers: Sequence[Answered]
    results: Mapping[str, Any]
    times: Mapping[str, Mapping[str, float | None]]
    proposal: Proposal | None = None
    calibrates: bool = False
    comparison: EvaluationComparison | None = None

    def html(self, language: Language | None = None) -> str:
        """The page, in the language of most questions where none is named."""
        language = language or _language(self.request)
        variants, titles = self.results["variants"], {key: it.title for key, it in MEASURES.items()}
        words = json.loads((_FOLDER / "report_words.json").read_text("utf-8"))
        known = {
            key: it
            for key, it in MEASURES.items()
            if any(each["measures"][key]["mean"] is not None for each in variants)
        }
        return _template().render(
            report=self,
            language=language,
            w=words[language],
            style=_STYLE,
            measures=MEASURES,
            titles=words["measures_zh"] if language == "zh" else titles,
            known=list(known),
            shares=[key for key, it in known.items() if it.group != "cost"],
            stages=[stage for stage in STAGES if any(stage in each["stages"] for each in variants)],
            max_lost=max(sum(each["stages"].values()) for each in variants),
            questions={question.id: question for question in self.request.questions},
            answers={(it.question, it.variant): it for it in self.answers},
        )


def style_source() -> str:
    """The Content-Security-Policy's source for the page's own style."""
    return f"'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string((_FOLDER / "report.html").read_text("utf-8"))


def _language(request: EvaluationRequest) -> Language:
    chinese = [language_of(question.question) == "zh" for question in request.questions]
    return "zh" if sum(chinese) * 2 > len(chinese) else "en"
