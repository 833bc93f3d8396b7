"""What the searches find as a report in Markdown, made of its figures alone."""

from functools import partial

from benchmarks.report import filled

report = partial(filled, "retrieval/report.md.j2")
