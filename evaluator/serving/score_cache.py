"""Scores by pair: what is known is not computed again, what is under way is computed once."""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable

from evaluator.inference.scorer import RowScore
from evaluator.schema import Task
from evaluator.serving.batch_scheduler import Entry, Job


class ScoreCache:
    """The last `pairs` scores of one loaded checkpoint, the least recently used leaves first.

    The weights are part of no key, because a cache never outlives the checkpoint it is for. A pair
    is known by the digest of task and both texts, exactly as given: some 500 bytes an entry,
    however long the texts. Only scores are kept; what failed is tried again. With 0 pairs nothing
    is kept or shared. One thread, the event loop's.
    """

    def __init__(self, pairs: int) -> None:
        self._pairs = pairs
        self._known: OrderedDict[Hashable, RowScore] = OrderedDict()
        self._under_way: dict[Hashable, Entry] = {}

    def key(self, task: Task, pair: tuple[str, str]) -> Hashable:
        """What the pair is known by; an object of its own, equal to no other, where none is."""
        if not self._pairs:
            return object()
        first, second = (text.encode("utf-8", "surrogatepass") for text in pair)
        text = b"%s %d %s%s" % (task.encode(), len(first), first, second)
        return hashlib.blake2b(text, digest_size=20).digest()

    def get(self, key: Hashable) -> RowScore | None:
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def begin(self, entry: Entry) -> None:
        """From now until `end` the entry can be joined."""
        self._under_way[entry.key] = entry

    def join(self, key: Hashable, job: Job) -> bool:
        """Whether the pair is under way; the job then gets its score too."""
        entry = self._under_way.get(key)
        if entry is None:
            return False
        entry.join(job)
        return True

    def end(self, entry: Entry, result: RowScore | str | None = None) -> None:
        """The entry is computed or, without a result, given up."""
        if self._under_way.get(entry.key) is entry:
            del self._under_way[entry.key]
        if self._pairs and isinstance(result, RowScore):
            self._known[entry.key] = result
            if len(self._known) > self._pairs:
                self._known.popitem(last=False)
