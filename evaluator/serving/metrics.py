"""Prometheus metrics of one worker."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_TOKENS = (64, 128, 256, 512, 1024, 1536, 2048, 4096, 8192, 16384, 32768, 65536)


class WorkerMetrics:
    """Series in a registry of their own, so that several workers in one process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pairs = self._counter("pairs", "Pairs judged", "task")
        self.row_errors = self._counter("row_errors", "Pairs not judged")
        self.overloads = self._counter("overloads", "Requests answered 429")
        self.refusals = self._counter("refusals", "Requests without scores", "status")
        self.queued = Gauge(
            "selfcrag_evaluator_queued_pairs", "Pairs waiting or running", registry=self.registry
        )
        self.seconds = self._histogram("request_seconds", "Time in queue and model")
        self.queue_seconds = self._histogram("queue_seconds", "A request's longest wait")
        self.batches = self._counter("batches", "Batches computed")
        self.batch_seconds = self._histogram("batch_seconds", "Time of one batch in the model")
        self.batch_tokens = self._histogram("batch_tokens", "Tokens of one batch, padded", _TOKENS)
        self.tokens = self._counter("tokens", "Tokens computed, padding left out")
        self.padding = self._counter("padding_tokens", "Padding computed beside them")
        self.hits = self._counter("cache_hits", "Pairs answered from the score cache")
        self.misses = self._counter("cache_misses", "Pairs the score cache did not know")

    def batch(self, lengths: Sequence[int], took_s: float) -> None:
        """One batch of rows with so many tokens each."""
        padded = len(lengths) * max(lengths)
        self.batches.inc()
        self.batch_seconds.observe(took_s)
        self.batch_tokens.observe(padded)
        self.tokens.inc(sum(lengths))
        self.padding.inc(padded - sum(lengths))

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"selfcrag_evaluator_{name}", description, labels, registry=self.registry)

    def _histogram(
        self,
        name: str,
        description: str,
        buckets: tuple[float, ...] = Histogram.DEFAULT_BUCKETS,
    ) -> Histogram:
        return Histogram(
            f"selfcrag_evaluator_{name}", description, buckets=buckets, registry=self.registry
        )
