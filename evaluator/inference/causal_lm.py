"""Causal language model: the self-information of each token of a text, on PyTorch."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from evaluator.errors import EvaluatorError, WeightsError
from evaluator.inference.scorer import LanguageModel, ScoredToken
from evaluator.inference.torch_scorer import load_network, load_tokenizer, place
from evaluator.model.checkpoint import check_folder
from evaluator.settings import EvaluatorSettings

MAX_TOKENS = 1024
"""Of one forward pass: longer texts are read window by window."""
_OVERLAP = 4  # a window begins with this share, one over it, of what stands before it


class CausalModel:
    """bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, folder: Path, network: Any, device: torch.device) -> None:
        self.name = folder.resolve().name
        self._network, self._device = network.to(device).eval(), device
        self._tokenizer = load_tokenizer(folder)
        if not self._tokenizer.is_fast:
            raise WeightsError(
                f"The tokenizer of {folder} tells no places: tokenizer.json is needed."
            )
        longest = getattr(network.config, "max_position_embeddings", None) or MAX_TOKENS
        self._length = min(MAX_TOKENS, longest)
        starts = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id, 0)
        self._start = next(number for number in starts if number is not None)

    def tokens(self, text: str, before: str = "") -> list[ScoredToken]:
        read = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, places = read["input_ids"], read["offset_mapping"]
        lead = self._tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
        # What stands right before the text counts most; the text gets at least half of the room.
        lead = [self._start, *lead[-(self._length // 2 - 1) :]]
        room = self._length - len(lead)
        step = max(1, room - room // _OVERLAP)
        nats: list[float] = []
        while len(nats) < len(ids):
            done = len(nats)
            start = max(0, done - room // _OVERLAP)
            end = min(len(ids), done + step if start else room)
            nats += self._nats([*lead, *ids[start:end]])[len(lead) - 1 + done - start :]
        pairs = zip(places, nats, strict=True)
        return [ScoredToken(start, end, value) for (start, end), value in pairs]

    @torch.inference_mode()
    def _nats(self, ids: list[int]) -> list[float]:
        """-log p of each but the first."""
        row = torch.tensor([ids], device=self._device)
        logits: Tensor = self._network(input_ids=row, use_cache=False).logits[0, :-1].float()
        nats = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="none")
        if not bool(nats.isfinite().all()):
            raise EvaluatorError("The compressor's model gave no number for this text.")
        return [float(value) for value in nats.cpu()]


def load(settings: EvaluatorSettings) -> LanguageModel:
    """The folder of the settings. Raises WeightsError."""
    assert settings.compressor is not None
    folder = settings.compressor
    form = str(next(iter(check_folder(folder, "compressor").get("architectures") or []), ""))
    if not form.endswith(("ForCausalLM", "LMHeadModel")):
        raise WeightsError(
            f"{folder / 'config.json'} describes no causal language model: it names "
            f"{form or 'no architecture'}."
        )
    device, precision = place(settings)
    network = load_network(AutoModelForCausalLM, folder, "a causal language model", precision)
    return CausalModel(folder, network, device)
