"""Training loop: batches in, one optimizer, checkpoints out; a kill loses next to nothing.

The learning rate warms up, then falls in a line with the rows or minutes used up. A killed run goes
on from its last checkpoint with the same batches and random states, to the same loss curve where
the rows, not the clock, set the pace.
"""

import json
import math
import pickle
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from evaluator.errors import DataError, EvaluatorError
from evaluator.inference.scorer import HasIds, RowT, cut

LOG_EVERY = 50  # steps
MAX_DIFFERENCES = 5
MIN_RATE = 0.02  # of the full learning rate, at the end
MAX_GRADIENT = 1.0  # norm; longer ones are clipped
_SORTED_AT_ONCE = 2048  # rows: longer runs pad less, shorter ones shuffle better

Log = Callable[[str], None]

RowT_contra = TypeVar("RowT_contra", bound=HasIds, contravariant=True)


class Learner(Protocol[RowT_contra]):
    """What is trained. Its network decides the device; `loss` moves its own tensors there."""

    @property
    def network(self) -> nn.Module: ...

    def groups(self) -> list[dict[str, Any]]:
        """AdamW's parameter groups, each with its full learning rate as `lr`."""

    def loss(self, batch: Sequence[RowT_contra]) -> Tensor:
        """One number with its gradient; under autocast (bf16) on a GPU."""

    def validation(self) -> tuple[float, str]:
        """A figure to maximise and words for the log; called in eval mode, without gradients."""


@dataclass(frozen=True)
class Schedule:
    """How long and how finely; part of what a checkpoint is recognised by."""

    seed: int = 1
    batch_tokens: int = 4096  # padded
    max_rows: int = 100_000
    minutes: float = math.inf  # over all lives of the run, validation included
    warmup_steps: int = 200
    check_every: int = 500  # steps between two checkpoints, each with a validation


def batches(rows: Sequence[RowT], tokens: int, seed: int) -> Iterator[list[RowT]]:
    """Endless batches of like length, at most `tokens` padded; epoch after epoch, seeded.

    The rows may not be empty.
    """
    epoch = 0
    while True:
        rng = random.Random(f"{seed} {epoch}")
        order = list(rows)
        rng.shuffle(order)
        epoch_batches: list[list[RowT]] = []
        for start in range(0, len(order), _SORTED_AT_ONCE):
            part = sorted(order[start : start + _SORTED_AT_ONCE], key=lambda row: len(row.ids))
            epoch_batches += cut(part, tokens)
        rng.shuffle(epoch_batches)
        yield from epoch_batches
        epoch += 1


def fit(
    learner: Learner[RowT],
    rows: Sequence[RowT],
    schedule: Schedule,
    checkpoint: Path,
    identity: dict[str, Any],
    log: Log,
) -> dict[str, Any]:
    """Train the learner's network, leave the best one found in it, return the run's figures.

    `identity` is JSON (options, data digests); with the schedule and the number of rows it says
    which run a checkpoint belongs to. Figures: steps, rows_seen, minutes, best, best_step, loss
    ([step, mean since the last]), stopped_by (rows or minutes). Raises DataError for a checkpoint
    of another run, EvaluatorError, naming the step, when loss or gradient is no number.
    """
    if not rows:
        raise DataError("There are no rows to train on.")
    whole = {**identity, "schedule": asdict(schedule), "rows": len(rows)}
    run = _Run(learner, schedule, checkpoint, as_json(whole), log)
    run.begin()
    source = islice(batches(rows, schedule.batch_tokens, schedule.seed), run.at.step, None)
    while not (stopped_by := run.stop_reason()):
        run.learn(next(source))
        if run.at.step % LOG_EVERY == 0:
            run.log_loss()
        if run.at.step % schedule.check_every == 0:
            run.check()
    return run.end(stopped_by)


@dataclass
class _Progress:
    """How far the run is, over all its lives."""

    step: int = 0
    rows: int = 0
    spent_s: float = 0.0
    checked_step: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)  # not in the history yet
    history: list[tuple[int, float]] = field(default_factory=list)


class _Run(Generic[RowT]):
    """One life of a run."""

    def __init__(
        self,
        learner: Learner[RowT],
        schedule: Schedule,
        checkpoint: Path,
        identity: dict[str, Any],
        log: Log,
    ) -> None:
        self.at = _Progress()
        self._learner, self._schedule, self._log = learner, schedule, log
        self._checkpoint, self._identity = checkpoint, identity
        self._optimizer = torch.optim.AdamW(learner.groups())
        groups = self._optimizer.param_groups
        self._rates = [group["lr"] for group in groups]
        self._learnt = [parameter for group in groups for parameter in group["params"]]
        self._best: dict[str, Tensor] = {}  # the network's tensors at the best figure
        self._pending: list[Tensor] = []  # (loss, gradient norm) a step, not yet read
        self._began = self._logged = time.monotonic()
        self._logged_rows = 0

    def begin(self) -> None:
        """From the last checkpoint where there is one, else from seeded random states."""
        if self._checkpoint.exists():
            state = read_state(self._checkpoint)
            refuse_another([self._checkpoint], state["identity"], self._identity)
            self._learner.network.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self.at, self._best = _Progress(**state["progress"]), state["best"]
            torch.set_rng_state(state["random"])
            if len(state["cuda"]) == torch.cuda.device_count():
                torch.cuda.set_rng_state_all(state["cuda"])
            self._log(f"going on from step {self.at.step}")
        else:
            torch.manual_seed(self._schedule.seed)
        self._began = time.monotonic() - self.at.spent_s
        self._logged_rows = self.at.rows
        self._learner.network.train()

    def stop_reason(self) -> str:
        """Empty while there is more to do."""
        schedule = self._schedule
        if self.at.rows >= schedule.max_rows:
            return "rows"
        return "minutes" if self.at.spent_s >= 60 * schedule.minutes else ""

    def learn(self, batch: Sequence[RowT]) -> None:
        """One step; its loss is read later, so that a GPU need not be waited for."""
        schedule, at = self._schedule, self.at
        used = max(at.rows / schedule.max_rows, at.spent_s / (60 * schedule.minutes))
        falling = 1 - (1 - MIN_RATE) * min(1.0, used)
        share = min(falling, (at.step + 1) / max(1, schedule.warmup_steps))
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * share
        on_gpu = next(self._learner.network.parameters()).is_cuda
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext():
            loss = self._learner.loss(batch)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self._learnt, MAX_GRADIENT)
        self._optimizer.step()
        self._pending.append(torch.stack([loss.detach().float(), norm.float()]))
        at.step, at.rows = at.step + 1, at.rows + len(batch)
        at.spent_s = time.monotonic() - self._began

    def log_loss(self) -> None:
        """The mean loss since the last time: into the history and the log."""
        self._read_losses()
        now, at = time.monotonic(), self.at
        mean = sum(at.losses) / len(at.losses)
        at.history, at.losses = [*at.history, (at.step, mean)], []
        speed = (at.rows - self._logged_rows) / max(1e-9, now - self._logged)
        self._logged, self._logged_rows = now, at.rows
        done = f"{at.rows} rows, {at.spent_s / 60:.1f} min"
        self._log(f"step {at.step}: {done}, loss {mean:.4f}, {speed:.0f} rows/s")

    def _read_losses(self) -> None:
        if not self._pending:
            return
        first = self.at.step - len(self._pending) + 1
        for step, (loss, norm) in enumerate(torch.stack(self._pending).tolist(), first):
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise EvaluatorError(
                    f"Training broke at step {step}: loss {loss}, gradient norm {norm}. Try a "
                    f"lower learning rate; {self._checkpoint} holds the last good state, if any."
                )
            self.at.losses.append(loss)
        self._pending = []

    def check(self) -> None:
        """Validate, keep the network if it is the best so far, write the checkpoint."""
        self._read_losses()
        network, at = self._learner.network, self.at
        network.eval()
        with torch.no_grad():
            figure, words = self._learner.validation()
        network.train()
        self._log(f"step {at.step}: {words}")
        at.checked_step = at.step
        if figure > (-math.inf if at.best is None else at.best):
            at.best, at.best_step = figure, at.step
            self._best = {
                name: t.detach().cpu().clone() for name, t in network.state_dict().items()
            }
        at.spent_s = time.monotonic() - self._began
        state = {
            "model": network.state_dict(),
            "best": self._best,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(at),
            "random": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "identity": self._identity,
        }
        write_state(self._checkpoint, state)

    def end(self, stopped_by: str) -> dict[str, Any]:
        """A last check where steps followed the last one; then the best network is put back.

        Gives the run's figures.
        """
        if self._pending or self.at.losses:
            self.log_loss()
        if self.at.checked_step != self.at.step or not self._checkpoint.exists():
            self.check()
        network = self._learner.network.eval()
        if self.at.best is not None:
            network.load_state_dict(self._best)
        return {
            "steps": self.at.step,
            "rows_seen": self.at.rows,
            "minutes": round(self.at.spent_s / 60, 2),
            "best": self.at.best,
            "best_step": self.at.best_step,
            "loss": [[step, round(loss, 6)] for step, loss in self.at.history],
            "stopped_by": stopped_by,
        }


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file at once; a kill in mid-writing leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    torch.save(state, part)
    part.replace(path)


def read_state(path: Path) -> dict[str, Any]:
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
            below = f"{name}.{key}" if name else key
            yield from _differences(theirs.get(key, "absent"), ours.get(key, "absent"), below)
    elif theirs != ours:
        there, here = (value[:20] + "…" * (len(value) > 20) for value in map(str, (theirs, ours)))
        yield f"{name} is {there} there and {here} here"


def as_json(identity: dict[str, Any]) -> dict[str, Any]:
    """What decides a run, as JSON gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(identity))
    return read
