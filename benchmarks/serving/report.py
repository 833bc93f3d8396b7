"""The worker's measurement as a report in Markdown, made of its figures alone."""

from functools import partial

from benchmarks.report import filled

report = partial(filled, "serving/report.md.j2")
