"""Text embedder on PyTorch, on a GPU or a CPU: the same folder as ONNX Runtime's."""

from collections.abc import Sequence
from pathlib import Path

import torch

from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.inference.scorer import Vectors, padded
from evaluator.inference.torch_scorer import place
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder, vocabulary_of
from evaluator.schema import Row
from evaluator.settings import EvaluatorSettings


class TorchEmbedder(OnnxEmbedder):
    """bf16 on a GPU, fp32 on a CPU."""

    def _load(self, folder: Path, settings: EvaluatorSettings) -> None:
        config, words = check_folder(folder, "embedder"), vocabulary_of(folder)
        network = t5.load(folder, config, t5.built_encoder, words if words != folder else None)
        self._device, precision = place(settings)
        self._network = network.to(self._device, precision)

    @torch.inference_mode()
    def _vectors(self, batch: Sequence[Row]) -> Vectors:
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(batch))
        vectors: Vectors = self._network(ids, mask).float().cpu().numpy()
        return vectors


load = TorchEmbedder
