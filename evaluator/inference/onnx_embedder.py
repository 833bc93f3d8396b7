"""Text embedder on ONNX Runtime: multilingual-e5-small, which the evaluator has as its encoder."""

from collections.abc import Sequence

import numpy as np

from evaluator.errors import WeightsError
from evaluator.inference.onnx_scorer import Graph
from evaluator.inference.scorer import InputType, Vectors, cut
from evaluator.model.checkpoint import (
    ARCHITECTURE,
    EMBEDDER_FILE,
    check_folder,
    encoder_digest,
    name_of,
    weights_digest,
)
from evaluator.model.tokenization import tokenizer_of
from evaluator.schema import Row
from evaluator.settings import EvaluatorSettings

BASE_NAME = "multilingual-e5-small"
AT_ONCE = 512  # texts: a tokenised text is many times larger than its vector
_OUTPUTS = ["vectors"]


class OnnxEmbedder:
    """The encoder of the evaluator's weights: unit vectors of texts, cut to its longest row."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        """Raises WeightsError where the weights are of another form or not exported."""
        folder = settings.weights
        config = check_folder(folder)
        if config.get("architecture") != ARCHITECTURE:
            raise WeightsError(
                f"The evaluator in {folder} is of a form without {BASE_NAME}, so that the embedder"
                " e5 cannot be had from it: take weights that `selfcrag-evaluator train --init e5`"
                " has made, or choose another embedder."
            )
        graph = folder / EMBEDDER_FILE
        self._graph = Graph(graph, _OUTPUTS, settings.threads)
        if self._graph.weights != weights_digest(folder):
            raise WeightsError(f"{graph} is of other weights: run `selfcrag-evaluator export`.")
        self._tokenizer = tokenizer_of(folder, config)
        self._batch_tokens = settings.batch_tokens
        self.dimensions = int(config["d_model"])
        self.name = name_of(BASE_NAME, encoder_digest(folder))

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        """Texts of no type are taken for questions, as e5's authors advise."""
        vectors, tokens = np.zeros((len(texts), self.dimensions), dtype=np.float32), 0
        for start in range(0, len(texts), AT_ONCE):
            part = texts[start : start + AT_ONCE]
            rows = self._tokenizer.encode_alone(part, are_questions=input_type != "passage")
            found: dict[Row, Vectors] = {}
            by_length = sorted(set(rows), key=lambda row: len(row.ids))
            for batch in cut(by_length, self._batch_tokens):
                found.update(zip(batch, self._graph.run(_OUTPUTS, batch)[0], strict=True))
            vectors[start : start + len(part)] = [found[row] for row in rows]
            tokens += sum(len(row.ids) for row in rows)
        return vectors, tokens
