"""The loop on a network of a few numbers: killed and resumed, stopped early, refused."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evaluator.errors import DataError, EvaluatorError
from evaluator.training.train import TrainOptions, batches, fit

OPTIONS = TrainOptions(
    seed=3, batch_tokens=64, rows=1200, warmup_steps=20, check_every=30, minutes=math.inf
)
IDENTITY: dict[str, Any] = {"options": {"width": 8}, "data": {"made.jsonl": "1234"}}


@dataclass(frozen=True)
class Numbers:
    ids: tuple[int, ...]


class Killed(BaseException):
    """As SIGKILL: what is not on disk is lost."""


class Summing:
    """Learns from token ids whether they sum to more than half; draws from every random source."""

    def __init__(self, killed_at: int = 0) -> None:
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.EmbeddingBag(10, 8), nn.Linear(8, 8), nn.Dropout(0.2), nn.Linear(8, 1)
        )
        self.figures = [float("nan")]
        self.calls, self._killed_at = 0, killed_at

    def groups(self) -> list[dict[str, Any]]:
        return [{"params": list(self.network.parameters()), "lr": 1e-2}]

    def loss(self, batch: Sequence[tuple[Numbers, ...]]) -> Tensor:
        self.calls += 1
        rows = [row for group in batch for row in group]
        if self.calls == self._killed_at:
            raise Killed
        flat = torch.tensor([number for row in rows for number in row.ids])
        starts = torch.tensor([0, *(len(row.ids) for row in rows[:-1])]).cumsum(0)
        told: Tensor = self.network[1:](self.network[0](flat, starts)).squeeze(-1)
        target = torch.tensor([float(sum(row.ids) > 4.5 * len(row.ids)) for row in rows])
        jitter = 0.01 * torch.rand(())
        return nn.functional.binary_cross_entropy_with_logits(told, target) + jitter

    def validation(self) -> tuple[float, str]:
        assert not self.network.training
        figure = self.figures.pop(0) if len(self.figures) > 1 else self.figures[0]
        return figure, f"figure {figure}"


class Better(Summing):
    """Its figure is what it has learnt."""

    def validation(self) -> tuple[float, str]:
        figure = -self.loss(GROUPS).item()
        return figure, f"loss {-figure:.3f}"


def groups(count: int = 150) -> list[tuple[Numbers, ...]]:
    rng = random.Random(1)
    return [
        tuple(
            Numbers(tuple(rng.choices(range(10), k=rng.randint(2, 9))))
            for _ in range(rng.randint(1, 3))
        )
        for _ in range(count)
    ]


GROUPS = groups()


def trained(
    learner: Summing, checkpoint: Path, options: TrainOptions = OPTIONS, **identity: Any
) -> dict[str, Any]:
    whole = {"seed": options.seed, **IDENTITY, **identity}
    return fit(learner, GROUPS, options, checkpoint, whole, lambda _: None)


def test_a_run_killed_in_mid_training_has_the_curve_of_one_never_killed(tmp_path: Path) -> None:
    whole, resumed = Better(), Better()
    expected = trained(whole, tmp_path / "whole.pt")
    with pytest.raises(Killed):
        trained(Better(killed_at=71), tmp_path / "killed.pt")
    figures = trained(resumed, tmp_path / "killed.pt")
    assert figures["loss"] == expected["loss"]
    assert [step for step, _ in figures["loss"]][:2] == [50, 100]
    assert resumed.calls < whole.calls
    assert {**figures, "minutes": 0} == {**expected, "minutes": 0}
    both = zip(whole.network.parameters(), resumed.network.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in both)


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = trained(Summing(), tmp_path / "made.pt")
    again = Summing()
    assert trained(again, tmp_path / "made.pt") == first
    assert again.calls == 0
    assert first["stopped_by"] == "rows"
    assert first["loss"][-1][1] < first["loss"][0][1]


def test_the_best_network_is_kept_also_over_a_kill(tmp_path: Path) -> None:
    options = replace(OPTIONS, check_every=10)
    networks = []
    for killed_at in (0, 35):
        learner, path = Summing(killed_at), tmp_path / f"{killed_at}.pt"
        learner.figures = [0.5, 0.7, 0.6]
        if killed_at:
            with pytest.raises(Killed):
                trained(learner, path, options)
            learner = Summing()
            learner.figures = [0.6]
        figures = trained(learner, path, options)
        assert (figures["best"], figures["best_step"]) == (0.7, 20)
        networks.append(learner.network)
    both = zip(networks[0].parameters(), networks[1].parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in both)
    assert not list(tmp_path.glob("*.part"))


def test_minutes_count_over_all_lives(tmp_path: Path) -> None:
    options = replace(OPTIONS, minutes=0.0)
    assert trained(Summing(), tmp_path / "none.pt", options)["stopped_by"] == "minutes"
    options = replace(OPTIONS, minutes=0.005, rows=10**9, check_every=5)
    figures = trained(Summing(), tmp_path / "some.pt", options)
    assert figures["stopped_by"] == "minutes"
    assert figures["steps"] > 0
    again = Summing()
    trained(again, tmp_path / "some.pt", options)
    assert again.calls == 0


def test_a_checkpoint_of_another_run_is_refused_by_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "made.pt"
    trained(Summing(), path, replace(OPTIONS, rows=50))
    with pytest.raises(DataError, match=r"seed is 3 there and 4 here\. "):
        trained(Summing(), path, replace(OPTIONS, rows=50, seed=4))
    with pytest.raises(DataError, match=r"data\.made\.jsonl is 1234 there and absent here"):
        trained(Summing(), path, replace(OPTIONS, rows=50), data={})


def test_a_checkpoint_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "made.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(DataError, match=r"made\.pt cannot be read"):
        trained(Summing(), path)
    torch.save({"model": {}}, path)
    with pytest.raises(DataError, match=r"made\.pt is no checkpoint"):
        trained(Summing(), path)


def test_a_loss_that_is_no_number_names_its_step(tmp_path: Path) -> None:
    class Broken(Summing):
        def loss(self, batch: Sequence[tuple[Numbers, ...]]) -> Tensor:
            return super().loss(batch) * (math.nan if self.calls == 17 else 1)

    learner = Broken()
    with pytest.raises(EvaluatorError, match="step 17"):
        trained(learner, tmp_path / "made.pt")
    assert not (tmp_path / "made.pt").exists()


def test_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows"):
        fit(Summing(), [], OPTIONS, tmp_path / "made.pt", {}, print)


def test_tied_weights_are_kept_as_tied(tmp_path: Path) -> None:
    class Tied(Better):
        def __init__(self) -> None:
            super().__init__()
            self.network[3] = nn.Linear(8, 1)
            self.network[1].weight = nn.Parameter(torch.eye(8))
            self.network.append(nn.Identity())
            self.network[4].register_parameter("again", self.network[1].weight)

    learner = Tied()
    trained(learner, tmp_path / "made.pt", replace(OPTIONS, rows=200))
    assert learner.network[4].again is learner.network[1].weight


@pytest.mark.gpu
def test_bf16_learns_on_a_gpu(tmp_path: Path) -> None:
    class OnGpu(Summing):
        def __init__(self) -> None:
            super().__init__()
            self.network.cuda()

        def loss(self, batch: Sequence[tuple[Numbers, ...]]) -> Tensor:
            told = self.network[1](self.network[0].weight)
            assert told.dtype == torch.bfloat16
            return torch.mean(told.float().square())

    options = replace(OPTIONS, rows=400)
    curve = trained(OnGpu(), tmp_path / "made.pt", options)["loss"]
    assert curve[-1][1] < curve[0][1]


def test_batches_hold_every_group_once_an_epoch_and_no_more_tokens_than_asked() -> None:
    def drawn(seed: int) -> list[list[Any]]:
        return list(islice(batches(GROUPS, 60, seed), 200))

    first: list[tuple[Numbers, ...]] = []
    for batch in drawn(1):
        rows = [row for group in batch for row in group]
        assert len(rows) * max(len(row.ids) for row in rows) <= 60
        first += batch
        if len(first) == len(GROUPS):
            break
    assert sorted(map(str, first)) == sorted(map(str, GROUPS))
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
