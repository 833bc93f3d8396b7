"""The T5 evaluator: it grades passages and answers, as a worker over HTTP or in-process."""
