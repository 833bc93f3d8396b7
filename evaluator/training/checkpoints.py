"""Checkpoints of a training run: written whole or not at all, refused by another run."""

import json
import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evaluator.errors import DataError

MAX_DIFFERENCES = 5


def write(path: Path, state: dict[str, Any]) -> None:
    """Replace the file at once; a kill in mid-writing leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    torch.save(state, part)
    part.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A state on the CPU, whatever device it was written from; DataError when it is unreadable."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(
            f"{path} cannot be read as a checkpoint; remove it to start anew: {error}"
        ) from error
    if not isinstance(state, dict) or "identity" not in state:
        raise DataError(f"{path} is no checkpoint of this loop; remove it to start anew.")
    return state


def refuse_another(paths: Sequence[Path], theirs: Any, ours: Any) -> None:
    """DataError, naming the paths and what differs, unless both identities are the same."""
    differences = list(_differences(theirs, ours, ""))
    if differences:
        listed = "; ".join(differences[:MAX_DIFFERENCES])
        more = len(differences) - MAX_DIFFERENCES
        listed += f"; and {more} more" if more > 0 else ""
        left = " and ".join(map(str, paths))
        raise DataError(
            f"Another run has left {left}: {listed}. Remove that, name another folder with --work, "
            "or go on with what it was made of."
        )


def _differences(theirs: Any, ours: Any, name: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            absent = "absent"
            below = f"{name}.{key}" if name else key
            yield from _differences(theirs.get(key, absent), ours.get(key, absent), below)
    elif theirs != ours:
        yield f"{name} is {_short(theirs)} there and {_short(ours)} here"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:20]}…"


def as_json(identity: dict[str, Any]) -> dict[str, Any]:
    """What decides a run, as JSON gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(identity))
    return read


def seed_all(seed: int) -> None:
    """Seed every random source a learner may draw from: PyTorch, CUDA, Python, NumPy."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def random_states() -> dict[str, Any]:
    """The states of these sources, in types that a weights-only load takes back."""
    kind, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": random.getstate(),
        "numpy": (kind, [int(key) for key in keys], *rest),
    }


def set_random_states(state: dict[str, Any]) -> None:
    """Put the states of `random_states` back; a GPU's only where as many are there as then."""
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
