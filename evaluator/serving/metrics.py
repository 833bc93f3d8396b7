"""Prometheus metrics of one worker."""

from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_NAMESPACE = "selfcrag_evaluator"
_TOKENS = (64, 128, 256, 512, 1024, 1536, 2048, 4096, 8192, 16384, 32768, 65536)


class WorkerMetrics:
    """Series in a registry of their own, so that several workers in one process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace=_NAMESPACE, registry=self.registry)
        histogram = partial(Histogram, namespace=_NAMESPACE, registry=self.registry)
        self.pairs = counter("pairs", "Pairs judged", ["task"])
        self.row_errors = counter("row_errors", "Pairs not judged")
        self.overloads = counter("overloads", "Requests answered 429")
        self.refusals = counter("refusals", "Requests without scores", ["status"])
        self.queued = Gauge(
            "queued_pairs", "Pairs waiting or running", namespace=_NAMESPACE, registry=self.registry
        )
        self.seconds = histogram("request_seconds", "Time in queue and model")
        self.queue_seconds = histogram("queue_seconds", "A request's longest wait")
        self.batches = counter("batches", "Batches computed")
        self.batch_seconds = histogram("batch_seconds", "Time of one batch in the model")
        self.batch_tokens = histogram(
            "batch_tokens", "Tokens of one batch, padded", buckets=_TOKENS
        )
        self.tokens = counter("tokens", "Tokens computed, padding left out")
        self.padding = counter("padding_tokens", "Padding computed beside them")
        self.hits = counter("cache_hits", "Pairs answered from the score cache")
        self.misses = counter("cache_misses", "Pairs the score cache did not know")

    def batch(self, lengths: Sequence[int], took_s: float) -> None:
        """One batch of rows with so many tokens each."""
        padded = len(lengths) * max(lengths)
        self.batches.inc()
        self.batch_seconds.observe(took_s)
        self.batch_tokens.observe(padded)
        self.tokens.inc(sum(lengths))
        self.padding.inc(padded - sum(lengths))
