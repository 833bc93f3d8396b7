"""Image embedder: a CLIP checkpoint, one space for texts and images (arXiv 2103.00020)."""

import base64
import binascii
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import CLIPModel

from evaluator.errors import InvalidTexts, WeightsError
from evaluator.inference.scorer import Vectors
from evaluator.inference.torch_scorer import load_network, load_tokenizer, place
from evaluator.model import checkpoint
from evaluator.settings import EvaluatorSettings

FORMATS = ("WEBP", "PNG", "JPEG")
MAX_PIXELS = 4_000_000
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of the pictures that the first CLIP was trained on; a folder's own take their place."""


class ClipEmbedder:
    """A CLIPModel: unit vectors of texts and of images; `embed_*` are work for a thread."""

    def __init__(self, folder: Path, settings: EvaluatorSettings) -> None:
        config = checkpoint.check_folder(folder, "image_embedder")
        if config.get("model_type") != "clip":
            raise WeightsError(f"{folder / 'config.json'} describes no CLIP model.")
        self._device, precision = place(settings)
        self._model = load_network(CLIPModel, folder, "a CLIP model", precision)
        self._model = self._model.to(self._device).eval()
        self._tokenizer = load_tokenizer(folder)
        self._precision = precision
        self._length = int(self._model.config.text_config.max_position_embeddings)
        self._side = int(self._model.config.vision_config.image_size)
        processing = _processing(folder)
        self._mean = np.array(processing.get("image_mean", MEAN), dtype=np.float32)
        self._deviation = np.array(processing.get("image_std", DEVIATION), dtype=np.float32)
        self.dimensions = int(self._model.config.projection_dim)
        self.name = checkpoint.name_of(folder.resolve().name, checkpoint.weights_digest(folder))

    @torch.inference_mode()
    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        read = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self._length,
            return_tensors="pt",
        ).to(self._device)
        hidden = self._model.text_model(**read).pooler_output
        return _unit(self._model.text_projection(hidden))

    @torch.inference_mode()
    def embed_images(self, images: Sequence[str]) -> Vectors:
        """Of images in base64. Raises InvalidTexts for what is none."""
        pixels = np.stack([self._pixels(image) for image in images])
        batch = torch.from_numpy(pixels).to(self._device, self._precision)
        hidden = self._model.vision_model(pixel_values=batch).pooler_output
        return _unit(self._model.visual_projection(hidden))

    def _pixels(self, encoded: str) -> Vectors:
        """The middle square, scaled and normalised, shape (3, side, side)."""
        try:
            content = base64.b64decode(encoded, validate=True)
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    raise InvalidTexts(f"An image has more than {MAX_PIXELS:,} pixels.")
                image = opened.convert("RGB")
        except (binascii.Error, ValueError, OSError, Image.DecompressionBombError) as error:
            raise InvalidTexts("An image is no WebP, PNG or JPEG in base64.") from error
        shorter, size = min(image.size), (self._side, self._side)
        left, top = (image.width - shorter) // 2, (image.height - shorter) // 2
        box = (left, top, left + shorter, top + shorter)
        square = image.resize(size, Image.Resampling.BICUBIC, box)
        scaled = np.asarray(square, dtype=np.float32) / 255
        normal = (scaled - self._mean) / self._deviation
        return normal.transpose(2, 0, 1).astype(np.float32)


def _processing(folder: Path) -> dict[str, Any]:
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return config if isinstance(config, dict) else {}


def _unit(vectors: torch.Tensor) -> Vectors:
    normal: Vectors = torch.nn.functional.normalize(vectors.float(), dim=1).cpu().numpy()
    return normal
