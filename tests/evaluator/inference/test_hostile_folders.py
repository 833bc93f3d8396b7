"""Model folders of a stranger: whoever loads them, nothing that lies in them is run."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from evaluator.errors import WeightsError
from evaluator.inference import scorer
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.settings import EvaluatorSettings
from evaluator.training.crag_recipe import RecipeOptions, train_recipe
from evaluator.training.onnx_export import export
from tests.evaluator.tiny import tiny_folder
from tests.evaluator.tiny_language_model import tiny_language_model
from tests.evaluator.tiny_pretrained import rivers, tiny_t5
from tests.evaluator.tiny_rerankers import (
    authors_folder,
    tiny_cross_encoder,
    tiny_embedder,
    tiny_mono_t5,
)

TENSORS = "model.safetensors"


def settings(**folders: Path) -> EvaluatorSettings:
    return EvaluatorSettings.model_validate({"device": "cpu", "backend": "torch", **folders})


def recipe(folder: Path) -> None:
    work = folder.with_name("work")
    data = rivers(work / "data", count=12)
    options = RecipeOptions(rows=12, batch_tokens=512, held_back_percent=20, check_every=10)
    train_recipe(data, folder, work / "out", work, options, lambda _: None)


LOADERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "evaluator": (tiny_folder, lambda it: scorer.load_scorer(settings(weights=it))),
    "authors": (authors_folder, lambda it: scorer.load_scorer(settings(weights=it))),
    "cross-encoder": (tiny_cross_encoder, lambda it: scorer.load_reranker(settings(reranker=it))),
    "monot5": (tiny_mono_t5, lambda it: scorer.load_reranker(settings(reranker=it))),
    "embedder": (tiny_embedder, lambda it: scorer.load_embedder(settings(embedder=it))),
    "compressor": (
        tiny_language_model,
        lambda it: scorer.load_language_model(settings(compressor=it)),
    ),
    "export": (tiny_folder, export),
    "training goes on": (tiny_folder, lambda it: t5.load(it, check_folder(it))),
    "recipe": (tiny_t5, recipe),
}


class Command:
    """Unpickled, it makes the file."""

    def __init__(self, made: Path) -> None:
        self._made = made

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"open({str(self._made)!r}, 'w').close()",)


@dataclass(frozen=True)
class Planted:
    """A folder, and the file that is there once anything of the folder was run."""

    folder: Path
    made: Path

    def pickles(self) -> None:
        """In every form that PyTorch, transformers and scikit-learn know, and as tensors."""
        command = Command(self.made)
        for name in ("pytorch_model.bin", "training_args.bin", "model.pt", "head.pkl"):
            torch.save({"weight": command}, self.folder / name)
        (self.folder / "model.joblib").write_bytes(pickle.dumps(command))

    def pickle_for_tensors(self) -> None:
        (self.folder / TENSORS).unlink()
        (self.folder / TENSORS).write_bytes(pickle.dumps(Command(self.made)))

    def pickle_alone(self) -> None:
        (self.folder / TENSORS).unlink()
        torch.save({"weight": Command(self.made)}, self.folder / "pytorch_model.bin")

    def code(self) -> None:
        """Modules beside the tensors, named where transformers looks for them."""
        line = f"open({str(self.made)!r}, 'w').close()\n"
        for name in ("evil", "__init__", "generate", "handler", "sitecustomize", "tokenization_t5"):
            (self.folder / f"{name}.py").write_text(line, encoding="utf-8")
        (self.folder / "custom_generate").mkdir()
        (self.folder / "custom_generate/generate.py").write_text(line, encoding="utf-8")

    def code_of_config(self) -> None:
        kinds = ("Config", "Model", "ModelForCausalLM", "ModelForSequenceClassification")
        self._name_code("config.json", {f"Auto{kind}": "evil.Evil" for kind in kinds})

    def code_of_tokenizer(self) -> None:
        self._name_code("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil", "evil.Evil"]})

    def _name_code(self, name: str, classes: dict[str, object]) -> None:
        self.code()
        path = self.folder / name
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        config |= {"auto_map": classes, "tokenizer_class": "Evil"}
        path.write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture(scope="module", params=LOADERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def harmless(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("harmless") / "model"
    LOADERS[kind][0](folder)
    return folder


@pytest.mark.parametrize(
    "plant",
    [
        Planted.pickles,
        Planted.pickle_for_tensors,
        Planted.pickle_alone,
        Planted.code,
        Planted.code_of_config,
        Planted.code_of_tokenizer,
    ],
    ids=lambda it: it.__name__,
)
def test_nothing_of_a_model_folder_is_run(
    kind: str, harmless: Path, tmp_path: Path, plant: Callable[[Planted], None]
) -> None:
    planted = Planted(tmp_path / "model", tmp_path / "made")
    shutil.copytree(harmless, planted.folder)
    plant(planted)
    try:
        LOADERS[kind][1](planted.folder)
    except WeightsError:
        is_refused = True
    else:
        is_refused = False
    assert not planted.made.exists()
    lacks_tensors = plant in {Planted.pickle_for_tensors, Planted.pickle_alone}
    # Plain modules are passed by, and the recipe passes by all but a T5's tensors.
    assert is_refused or not (lacks_tensors or (plant != Planted.code and kind != "recipe"))


def test_each_attack_would_work(tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    planted = Planted(tmp_path, tmp_path / "made")
    planted.pickles()
    torch.load(tmp_path / "pytorch_model.bin", weights_only=False)
    assert planted.made.exists()
