"""Conversion of a pickled checkpoint to safetensors, tensors alone, in a process of its own.

Unpickling can run code. So torch reads the file with `weights_only`, which knows no class but
tensors and containers, and does so in a process without network: in a network namespace of its own
where the system allows one, and in any case with sockets refused by Python.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import copy2, which

import torch
from safetensors.torch import save_file
from torch import Tensor

from evaluator.errors import WeightsError
from evaluator.model.checkpoint import TENSORS_FILE

BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json", "spiece.model",
          "special_tokens_map.json", "added_tokens.json")  # fmt: skip
"""Files of a checkpoint folder that are copied with the tensors."""
_WRITE = "import sys; from evaluator.training.convert import write; write(*sys.argv[1:])"
_REFUSED = ("socket.", "subprocess.", "os.exec", "os.system", "os.fork", "os.posix_spawn")
"""Python's audit events of what reading tensors never does."""


def convert(checkpoint: Path, out: Path) -> int:
    """Write `out`/model.safetensors and the files beside the checkpoint; the number of tensors.

    WeightsError where the file is no checkpoint of tensors alone, or asks for anything else.
    """
    if not checkpoint.is_file():
        raise WeightsError(f"{checkpoint} is not a file.")
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-c", _WRITE, str(checkpoint), str(out / TENSORS_FILE)]
    result = subprocess.run(
        [*_without_network(), *command], capture_output=True, text=True, check=False
    )
    if result.returncode:
        reason = (result.stderr.strip().splitlines() or ["the process died"])[-1]
        raise WeightsError(f"{checkpoint} cannot be converted: {reason}")
    for name in BESIDE:
        if (checkpoint.parent / name).is_file():
            copy2(checkpoint.parent / name, out / name)
    return int(json.loads(result.stdout)["tensors"])


def _without_network() -> list[str]:
    """The start of a command that runs without any network, where the system has one."""
    unshare = which("unshare")
    if unshare is None:
        return []
    prefix = [unshare, "--user", "--map-root-user", "--net"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if tried.returncode == 0 else []


def _refuse(event: str, _: tuple[object, ...]) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event} is refused while tensors are read")


def write(checkpoint: str, target: str) -> None:
    """In the process of its own: read tensors alone, write them, say how many there are."""
    sys.addaudithook(_refuse)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise WeightsError("it holds more than named tensors")
    # Tied tensors are stored once each: safetensors knows no sharing.
    tensors = {str(name): value.detach().clone().contiguous() for name, value in state.items()}
    save_file(tensors, target, metadata={"format": "pt"})
    sys.stdout.write(json.dumps({"tensors": len(tensors)}))
