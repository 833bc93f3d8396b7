"""`POST /embed_images`: texts and images in the one space of the worker's image embedder."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from evaluator.inference.scorer import ImageEmbedder
from evaluator.schema import ImageEmbeddingRequest, ImageEmbeddingResponse
from evaluator.serving.batching import Permits

IMAGE_WEIGHT = 8  # an image takes as long as so many texts


class ImageEmbeddings:
    """Embeds one request after another, in a thread of its own."""

    def __init__(self, embedder: ImageEmbedder, max_texts: int) -> None:
        self.embedder, self._permits = embedder, Permits(max_texts)
        self._thread = ThreadPoolExecutor(1, "evaluator-images")

    async def answer(self, body: ImageEmbeddingRequest) -> ImageEmbeddingResponse:
        """Raises InvalidTexts, Overloaded."""
        loop = asyncio.get_running_loop()
        with self._permits.taken(len(body.texts) + IMAGE_WEIGHT * len(body.images)):
            return await loop.run_in_executor(self._thread, self._embedded, body)

    def _embedded(self, body: ImageEmbeddingRequest) -> ImageEmbeddingResponse:
        texts, images = body.texts, body.images
        return ImageEmbeddingResponse(
            texts=self.embedder.embed_texts(texts).tolist() if texts else [],
            images=self.embedder.embed_images(images).tolist() if images else [],
            model=self.embedder.name,
        )

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
