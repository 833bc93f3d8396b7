"""Labelled rows for the judgements beyond relevance: support, utility and retrieval."""

from dataclasses import dataclass

from evaluator.schema import Task


@dataclass(frozen=True, slots=True)
class Judgement:
    """Two texts and the reflection token that is right for them.

    `first` and `second` are what the worker is asked with: support takes `question [SEP] answer`
    and the evidence, utility the question and the answer, retrieval the question and the evidence
    at hand ("" for none). `label` is one of LABELS[task]. `source` names the data file, `kind` how
    the row was made ("natural" where people or the data set labelled it), and `group` what a
    train/validation split may not divide.
    """

    task: Task
    first: str
    second: str
    label: str
    language: str
    source: str
    kind: str
    group: str
