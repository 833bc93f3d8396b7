"""Text embedder on ONNX Runtime: multilingual-e5-small, of the folder that `embedder` writes."""

from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from evaluator.errors import WeightsError
from evaluator.inference.onnx_scorer import Graph
from evaluator.inference.scorer import InputType, Vectors, cut
from evaluator.model import checkpoint
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import Row
from evaluator.settings import EvaluatorSettings

BASE_NAME = "multilingual-e5-small"
AT_ONCE = 512  # texts: a tokenised text is many times larger than its vector
_OUTPUTS = ["vectors"]


class OnnxEmbedder:
    """Unit vectors of texts, cut to the longest row that the model reads."""

    def __init__(self, folder: Path, settings: EvaluatorSettings) -> None:
        """Raises WeightsError where the folder is of another kind, or damaged."""
        config = checkpoint.check_folder(folder, "embedder")
        if config.get("architecture") != checkpoint.E5_ARCHITECTURE:
            raise WeightsError(
                f"{folder} is no folder of the embedder e5: make one by"
                " `selfcrag-evaluator embedder FOLDER`."
            )
        vocabulary = checkpoint.vocabulary_of(folder)
        self._tokenizer = PairTokenizer.from_folder(vocabulary, int(config["max_length"]))
        self._batch_tokens = settings.batch_tokens
        self.dimensions = int(config["d_model"])
        decisive = [vocabulary / checkpoint.TOKENIZER_FILE, folder / checkpoint.TENSORS_FILE]
        self.name = checkpoint.name_of(BASE_NAME, checkpoint.files_digest(decisive))
        self._load(folder, settings)

    def _load(self, folder: Path, settings: EvaluatorSettings) -> None:
        graph, remedy = folder / checkpoint.EMBEDDER_FILE, "run `selfcrag-evaluator embedder`"
        vocabulary = checkpoint.vocabulary_of(folder)
        words = vocabulary / checkpoint.TENSORS_FILE if vocabulary != folder else None
        self._graph = Graph(graph, _OUTPUTS, settings.threads, remedy, words)

    def _vectors(self, batch: Sequence[Row]) -> Vectors:
        vectors: Vectors = self._graph.run(_OUTPUTS, batch)[0]
        return vectors

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        """Texts of no type are taken for questions, as e5's authors advise."""
        vectors, tokens = np.zeros((len(texts), self.dimensions), dtype=np.float32), 0
        for start in range(0, len(texts), AT_ONCE):
            part = texts[start : start + AT_ONCE]
            rows = self._tokenizer.encode_alone(part, are_questions=input_type != "passage")
            embedded: dict[Row, Vectors] = {}
            by_length = sorted(set(rows), key=lambda row: len(row.ids))
            for batch in cut(by_length, self._batch_tokens):
                embedded.update(zip(batch, self._vectors(batch), strict=True))
            vectors[start : start + len(part)] = [embedded[row] for row in rows]
            tokens += sum(len(row.ids) for row in rows)
        return vectors, tokens


_loaded: WeakValueDictionary[tuple[Path, int, int, int], OnnxEmbedder] = WeakValueDictionary()


def load(folder: Path, settings: EvaluatorSettings) -> OnnxEmbedder:
    """The folder's embedder: the same one for relevance and for the index, while either needs it.

    Raises WeightsError.
    """
    tensors = folder / checkpoint.TENSORS_FILE
    changed = tensors.stat().st_mtime_ns if tensors.is_file() else 0
    key = (folder.resolve(), changed, settings.threads, settings.batch_tokens)
    embedder = _loaded.get(key)
    if embedder is None:
        embedder = _loaded[key] = OnnxEmbedder(folder, settings)
    return embedder
