"""The mean of evaluators that began as one: often better on foreign texts than any of them.

"Model soups" (Wortsman et al., 2022, arXiv 2203.05482).
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer

from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.training.train import validated


def average(shares: Mapping[Path, float], out: Path, data: Path, work: Path) -> None:
    """Write the weighted mean of these folders' networks to `out`; the last one lends the rest.

    What `data` holds back validates it anew; `work` keeps the vectors that this takes.

    DataError where the networks are not alike, or the shares do not make one whole.
    """
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise DataError("The shares of the averaged networks must make one whole.")
    networks = {folder: t5.load(folder, check_folder(folder)) for folder in shares}
    states = {folder: network.state_dict() for folder, network in networks.items()}
    *_, last = networks
    for folder, state in states.items():
        same_words = (folder / "tokenizer.json").read_bytes() == (
            last / "tokenizer.json"
        ).read_bytes()
        shapes = {name: value.shape for name, value in state.items()}
        if not same_words or shapes != {n: v.shape for n, v in states[last].items()}:
            raise DataError(f"{folder} is no network of the same form as {last}.")
    mean = {
        name: sum(share * states[folder][name] for folder, share in shares.items())
        if value.is_floating_point()
        else value
        for name, value in states[last].items()
    }
    network = networks[last]
    network.load_state_dict(mean)
    made_by = network.config.made_by
    made_by["averaged"] = {folder.name: share for folder, share in shares.items()}
    tokenizer = Tokenizer.from_file(str(last / "tokenizer.json"))
    made_by["validation"] = validated(network, data, tokenizer, work)
    t5.save(network, out)
    shutil.copyfile(last / "tokenizer.json", out / "tokenizer.json")
