"""Training of a network in minibatches, with buckets, validation, early stopping and checkpoints.

The random key of each minibatch depends on its step.

The objective is the loss of a mask divided by the mean number of cells that the mask hides, and
hence in nats per cell. If the network predicts lengths, their loss per row times the network's
`length_weight` is added. Both means are over all rows, never over the rows of a batch. Each row
therefore counts according to its weight, whatever its length, its bucket and its batch.

The log of a run has a JSON object in each line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._diagnostics import fail
from .._types import JsonObject
from ..data import random_key
from ..derive import NetworkLoss, Spread, bounded_jit, fetched, of_all, on_device
from ..files import alone, asked_to_end, write_whole
from ..fit import Training, accumulated, default_optimizer, learning_rate_at, measured_every, save_points, saved_every
from ._batches import Batch, Batches
from ._checkpoints import Checkpoints, run_identity
from ._penalty import Penalty, parameter_norms, penalty_of, verified_penalty
from .limits import STEPS_PER_NOTE

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..networks import AbstractNetwork

Array = np.ndarray
# These numbers are folded into the seed's key; the initial weights use the first keys that `split`
# makes of it.
STEPS, VALIDATION = 2**32 - 1, 2**32 - 2


class TrainState(NamedTuple):
    """The state that a step updates.

    `average` belongs to `ema` or `average_last`, and `best` to validation. Each is None if it is
    not used.
    """

    network: PyTree
    optimizer: optax.OptState
    average: PyTree
    best: PyTree


@dataclass
class Progress:
    """The progress of a run so far, which is written into the notes of checkpoints."""

    losses: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    # Each entry is (step, loss, length loss).
    validation: list[tuple[int, float, float]] = field(default_factory=list)
    best: float = float("inf")
    since_best: int = 0
    best_step: int = 0
    reason: str = "steps"
    seconds: float = 0.0
    cells: int = 0
    kept: int = 0  # The step whose weights are returned.

    def notes(self) -> JsonObject:
        """Return the progress as plain data for JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Trained:
    """A trained network and the progress of its run."""

    network: AbstractNetwork
    progress: Progress
    widths: tuple[int, ...]
    batch_size: int


def train(
    network: AbstractNetwork,
    loss: NetworkLoss,
    batches: Batches,
    per_batch: tuple[float, float],
    check: Batches | None,
    t: Training,
    optimizer: Any,
    seed: int,
    show: bool,
    identity: Mapping[str, object],
    others: Mapping[str, NetworkLoss],
    spread: Spread | None = None,
    shares: Spread | None = None,
) -> Trained:
    """Train a network to the end, starting from the latest checkpoint if there is one.

    Args:
        network: the network with its initial weights.
        loss: the loss of the mask.
        batches: the rows.
        per_batch: the number of hidden cells and the weight of the rows, both as means over the
            batches of an epoch.
        check: the rows of validation.
        t: the options.
        optimizer: an optax transformation; None selects the default one.
        seed: the seed of the order of rows, masks, noise and dropout. The random numbers of a step
            depend only on (seed, step).
        show: whether to show a bar.
        identity: everything that the run depends on beside its options and data. Restoring a
            checkpoint of another run raises an error.
        others: the losses of further masks, by the mask's name, that measurements log.
        spread: the axis of a mesh over which the rows of a batch are spread, or None.
        shares: the axis over which weights and the state of the optimiser are spread, or None.
    """
    scheduled, optimizer = optimizer is None, default_optimizer(t) if optimizer is None else optimizer
    if t.accumulate > 1:
        optimizer = accumulated(optimizer, t.accumulate)
    trainable, fixed = eqx.partition(network, eqx.is_inexact_array)
    averages = t.ema is not None or t.average_last is not None
    state = TrainState(trainable, optimizer.init(trainable), trainable if averages else None, trainable if check is not None else None)
    store, progress, first = None, Progress(), 0
    penalty = penalty_of(t)
    computes = verified_penalty(penalty, network, batches)
    if t.checkpoint is not None:
        store = Checkpoints(t.checkpoint, run_identity(identity, optimizer, scheduled, t, batches, check, state, seed, computes), spread)
    with nullcontext() if store is None or not store.writes else alone(store.folder):
        if store is not None:
            first, state, progress = _resumed(store, state, t, progress)
        log = TrainingLog(t.log, first, spread is None or spread.writes)
        layout = None if shares is None else jax.tree.map(lambda a: shares.layout(a.shape), state)
        if layout is not None:
            state = jax.tree.map(lambda a, where: jax.device_put(fetched(a), where), state, layout)
        rate = t if scheduled else None
        of_run = loss, batches, np.asarray(per_batch, np.float32), check, t, optimizer, fixed, seed
        run = _Run(*of_run, store, log, progress, penalty, others, rate, spread, layout)
        weights = run.to_the_end(state, first, show)
        if spread is not None:
            weights = jax.tree.map(lambda a: on_device(fetched(a)), weights)
        return Trained(eqx.combine(weights, fixed), progress, batches.used, batches.size)


def _resumed(store: Checkpoints, state: TrainState, t: Training, progress: Progress) -> tuple[int, TrainState, Progress]:
    if not t.resume:
        store.clear()
    leaves, tree = jax.tree.flatten(state)
    found = store.restore([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves])
    if found is None:
        return 0, state, progress
    step, restored, notes = found
    if step > t.steps:
        message = f"`{t.checkpoint}` holds a run that has taken {step} steps, and this one is to take {t.steps}"
        raise fail("E752", message, help="take another folder for this run, or pass `resume=False` to begin it anew here")
    if set(notes) != {f.name for f in fields(Progress)}:
        raise fail("E753", f"the checkpoint of step {step} in `{t.checkpoint}` is damaged: its manifest has not the notes of a training")
    return step, jax.tree.unflatten(tree, restored), Progress(**notes)


@dataclass
class _Run:
    loss: NetworkLoss
    batches: Batches
    per_batch: Array
    check: Batches | None
    t: Training
    optimizer: optax.GradientTransformation
    fixed: PyTree
    seed: int
    store: Checkpoints | None
    log: TrainingLog
    progress: Progress
    penalty: Penalty | None
    others: Mapping[str, NetworkLoss]
    scheduled: Training | None  # The options of the default optimiser; None for another optimiser.
    spread: Spread | None
    layout: PyTree  # The shardings of the state's arrays; None leaves that to XLA.
    gradient_norm: float = float("nan")
    is_ended: bool = False  # Whether the callback has ended the run.
    # The last step whose weights are known to be finite, with these weights.
    sound: tuple[int, PyTree] = (0, None)
    latest: tuple[int, PyTree] = (0, None)  # The step and the weights of the last transfer of losses.

    def to_the_end(self, state: TrainState, first: int, show: bool) -> PyTree:
        """Run the steps from `first` on, with logging, validation and checkpoints.

        Returns:
            The weights of the fit.
        """
        t, p = self.t, self.progress
        waiting: list[tuple[jax.Array, jax.Array, jax.Array]] = []
        started, before = time.perf_counter(), p.seconds
        self.sound = self.latest = first, self.kept(state, first)
        if self.stops():  # The resumed run had already ended.
            return self.returned(state)
        with TrainingBar(t.steps, first, len(self.batches.used), show) as bar, self.asks() as ends:
            for step, batch in self.order(first):
                bar.begins(batch.width)
                state, values = self.update(state, batch, step)
                waiting.append(values)
                p.cells += int((batch.codes[: batch.width] >= 0).sum(where=batch.weights[None] > 0))
                done = step + 1
                saves, measures = self.due(done)
                ending = self.store is not None and self.looks(done, saves) and ends()
                saves |= ending
                if done % STEPS_PER_NOTE == 0 or done == t.steps or saves or measures:
                    self.look(waiting)
                    p.seconds = before + time.perf_counter() - started
                    self.note(state, done)
                    bar.moved(done, p.losses[-1], p.cells / max(p.seconds, 1e-9))
                    if not self.is_sound(state, done, saves or done == t.steps):
                        break
                if measures:
                    bar.measures()
                    state = self.measure(state, done)
                if self.is_ended and _finite(state.network):
                    self.sound = self.latest
                if saves and self.store is not None:
                    self.store.save(done, jax.tree.leaves(state), p.notes())
                if self.stops():
                    break
                if ending:
                    print(f"stopped after {done:,} of {t.steps:,} batches, which are saved: the same call goes on there", file=sys.stderr)
                    break
        return self.returned(state)

    def looks(self, done: int, saves: bool) -> bool:
        """Return whether to ask for the end now: several processes agree on it, which costs a message."""
        several = self.spread is not None and self.spread.several
        return saves or done % STEPS_PER_NOTE == 0 or not several

    def asks(self) -> AbstractContextManager[Callable[[], bool]]:
        """Return the context in which signals end the run, in all of its processes."""
        several = self.spread is not None and self.spread.several
        return asked_to_end(self.store is not None, of_all if several else None)

    def note(self, state: TrainState, done: int) -> None:
        """Write a line of the log and call the callback, if there is one of them."""
        if self.log.path is None and self.t.callback is None:
            return
        p = self.progress
        line = {"step": done, "loss": p.losses[-1], "length_loss": p.lengths[-1], "seconds": p.seconds, "cells": p.cells}
        line |= {"norms": parameter_norms(state.network), "gradient_norm": self.gradient_norm}
        if self.scheduled is not None:
            line["learning_rate"] = learning_rate_at(self.scheduled, done - 1)
        self.tell(line)

    def tell(self, line: JsonObject) -> None:
        """Write a line of the log, and call the callback with it.

        Raises:
            GmlmError: E704 for a callback that raises an exception.
        """
        self.log.note(line)
        if self.t.callback is None:
            return
        try:
            found = self.t.callback(dict(line))
        except Exception as error:
            raise fail("E704", f"Training: callback raised {type(error).__name__}: {error}") from error
        self.is_ended |= isinstance(found, bool | np.bool_) and bool(found)

    def due(self, done: int) -> tuple[bool, bool]:
        """Return whether to write a checkpoint and whether to measure validation rows."""
        t = self.t
        every = (self.store is not None, saved_every(t)), (self.check is not None, measured_every(t))
        saves, measures = (wanted and (done % n == 0 or done == t.steps) for wanted, n in every)
        return saves, measures

    def stops(self) -> bool:
        """Return whether training ends early, and set the reason.

        It ends after `patience` measurements in succession without a lower loss, or if the
        callback ends it.
        """
        ends = self.t.patience is not None and self.progress.since_best >= self.t.patience
        self.progress.reason = "patience" if ends else "callback" if self.is_ended else "steps"
        return ends or self.is_ended

    def is_sound(self, state: TrainState, done: int, whole: bool) -> bool:
        """Return whether the run may continue, and keep the last weights known to be finite.

        A finite loss of a step shows that the weights before this step are finite. The weights
        after the last step and those of a checkpoint are checked directly.
        """
        losses = self.progress.losses
        # This is the loss of the step that started from these weights.
        if np.isfinite(losses[self.latest[0]]):
            self.sound = self.latest
        if not np.isfinite(losses[-1]) or (whole and not _finite(state.network)):
            self.progress.reason = "diverged"
            return False
        self.latest = done, self.kept(state, done)
        if whole:
            self.sound = self.latest
        return True

    def kept(self, state: TrainState, done: int) -> PyTree:
        """Return the weights that the fit would return if it ended after `done` steps."""
        if self.t.ema is not None or self.points(done) > 0:
            return state.average
        return state.network

    def returned(self, state: TrainState) -> PyTree:
        """Return the weights of the fit.

        These are the best weights on validation rows if `patience` is set, or if the run diverged
        after a measurement. Otherwise they are the last finite weights.
        """
        p = self.progress
        if p.validation and (self.t.patience is not None or p.reason == "diverged") and np.isfinite(p.best):
            p.kept = p.best_step
            return state.best
        p.kept, weights = self.sound
        return weights

    def points(self, done: int) -> int:
        """Return the number of save points up to step `done` whose weights are averaged."""
        if self.t.average_last is None:
            return 0
        passed = save_points(self.t) if done == self.t.steps else done // saved_every(self.t)
        return max(0, passed - save_points(self.t) + self.t.average_last)

    def order(self, first: int) -> Iterator[tuple[int, Batch]]:
        """Yield each step from `first` on with its batch."""
        per, plan, epoch = self.batches.per_epoch, [], -1
        for step in range(first, self.t.steps):
            if step // per != epoch:
                epoch = step // per
                plan = self.batches.plan(self.seed, epoch)
            yield step, self.batches.batch(*plan[step % per])

    def update(self, state: TrainState, batch: Batch, step: int) -> tuple[TrainState, tuple[jax.Array, jax.Array, jax.Array]]:
        """Perform one step."""
        key = jax.random.fold_in(jax.random.fold_in(random_key(self.seed), STEPS), step)
        data = (*(batch[:4] if self.spread is None else spread_rows(self.spread, batch)), self.per_batch)
        loss, share = _sized(self.loss, batch.width), self.share(step)
        how = self.t.precision, share, self.penalty, len(batch.weights), self.layout
        return _update(loss, self.optimizer, self.fixed, state, data, key, *how)

    def share(self, step: int) -> Array | None:
        """Return the share of the weights after `step` in their running average.

        - `ema`: the share is (1 - d) / (1 - d^n) at update n, with decay d. Update k among the
          first n thus has the share d^(n - k) (1 - d) / (1 - d^n).
        - `average_last`: the share is 1 / k at the k-th averaged save point, and 0 at other steps.
        """
        d, n, k = self.t.ema, (step + 1) // self.t.accumulate, self.points(step + 1)
        if self.t.average_last is not None:
            return np.asarray(1 / k if k > self.points(step) else 0, np.float32)
        if d is None:
            return None
        return np.asarray(0 if (step + 1) % self.t.accumulate else (1 - d) / (1 - d**n), np.float32)

    def look(self, waiting: list[tuple[jax.Array, jax.Array, jax.Array]]) -> None:
        """Fetch the losses of the steps since the last transfer, and the norm of the last gradient."""
        for value, length, norm in waiting:
            self.progress.losses.append(float(value))
            self.progress.lengths.append(float(length))
            self.gradient_norm = float(norm)
        waiting.clear()

    def measure(self, state: TrainState, done: int) -> TrainState:
        """Measure the loss of the validation rows and return the state.

        All measurements use masks drawn from the same key.
        """
        assert self.check is not None
        p, network = self.progress, self.kept(state, done)
        if p.validation and p.validation[-1][0] == done:
            return state
        loss, length = evaluated(self.loss, eqx.combine(network, self.fixed), self.check, self.seed, self.t.precision)
        total = loss + _weight(network) * length
        p.validation.append((done, loss, length))
        line: JsonObject = {"step": done, "validation_loss": loss, "validation_length_loss": length}
        if self.others:
            whole = eqx.combine(network, self.fixed)
            found = {name: evaluated(other, whole, self.check, self.seed, self.t.precision)[0] for name, other in self.others.items()}
            line["validation_losses"] = found
        self.tell(line)
        if total < p.best:
            p.best, p.since_best, p.best_step = total, 0, done
            return state._replace(best=network)
        p.since_best += 1
        return state


def spread_rows(spread: Spread, batch: Batch) -> tuple[jax.Array, tuple[jax.Array, ...], tuple[jax.Array, ...], jax.Array]:
    """Return the codes, given data, lengths and weights of a batch, over an axis of a mesh.

    Rows of weight 0 fill the batch up, so that the devices share it equally.
    """
    count = len(batch.weights)
    rows = np.minimum(np.arange(spread.filled(count)), count - 1)
    given, lengths = (tuple(spread.put(np.asarray(a)[rows], 0) for a in arrays) for arrays in (batch.given, batch.lengths))
    weights = np.where(np.arange(len(rows)) < count, np.asarray(batch.weights)[rows], np.float32(0))
    return spread.put(np.asarray(batch.codes)[:, rows]), given, lengths, spread.put(weights)


def _finite(network: AbstractNetwork) -> bool:
    """Return whether all weights are finite numbers."""
    return all(np.isfinite(fetched(a)).all() for a in jax.tree.leaves(network))


def _weight(network: AbstractNetwork) -> float:
    return float(getattr(network, "length_weight", 0.0)) if getattr(network, "length_head", None) is not None else 0.0


def _sized(loss: NetworkLoss, width: int) -> NetworkLoss:
    return NetworkLoss(loss.mask, loss.label, loss.n_masks, loss.smoothing, width, loss.kind)


def evaluated(loss: NetworkLoss, network: AbstractNetwork, rows: Batches, seed: int, precision: str = "float32") -> tuple[float, float]:
    """Return the loss per cell and the length loss per row, with masks drawn from the seed.

    Both are computed without dropout, label smoothing and penalty.

    Args:
        loss: the loss of the mask.
        network: the network.
        rows: the rows.
        seed: the seed of the masks.
        precision: "float32" or "bfloat16".
    """
    sums = np.zeros(4)
    for k, (b, chosen) in enumerate(rows.in_order()):
        batch = rows.batch(b, chosen)
        plain = NetworkLoss(loss.mask, loss.label, loss.n_masks, 0.0, batch.width, loss.kind)
        key = jax.random.fold_in(jax.random.fold_in(random_key(seed), VALIDATION), k)
        sums += np.asarray(_sums(plain, network, batch[:4], key, precision), np.float64)
    return float(sums[0] / sums[1]), float(sums[2] / sums[3])


def _rows(
    loss: NetworkLoss, network: AbstractNetwork, batch: PyTree, key: jax.Array, precision: str, dropout: bool, n: int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return four sums over rows: weighted losses, hidden cells, length losses, and weights.

    The numbers of hidden cells and the length losses are weighted too. `n` is the number of rows
    without those that fill a batch up for several devices.
    """
    if precision == "bfloat16":
        network = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if eqx.is_inexact_array(a) else a, network)
    codes, given, lengths, weights = batch
    keys, strata = jax.random.split(key, weights.shape[0]), None
    if loss.mask.is_stratified:  # The passes of a sampler are stratified over the rows of a batch.
        first = jax.random.uniform(jax.random.fold_in(key, n))
        strata = (jnp.minimum(jnp.arange(weights.shape[0], dtype=first.dtype), n - 1) + first) / n
    found, sizes, length = loss.rows({loss.label: network}, codes, given, lengths, keys, dropout, strata)
    return (weights * found).sum(), (weights * sizes).sum(), (weights * length).sum(), weights.sum()


@bounded_jit
def _sums(loss: NetworkLoss, network: AbstractNetwork, batch: PyTree, key: jax.Array, precision: str) -> jax.Array:
    return jnp.stack(_rows(loss, network, batch, key, precision, False, batch[3].shape[0]))


@bounded_jit
def _update(
    loss: NetworkLoss,
    optimizer: optax.GradientTransformation,
    fixed: PyTree,
    state: TrainState,
    batch: PyTree,
    key: jax.Array,
    precision: str,
    share: np.ndarray | jax.Array | None,
    penalty: Penalty | None,
    rows: int,
    layout: PyTree,
) -> tuple[TrainState, tuple[jax.Array, jax.Array, jax.Array]]:
    def objective(trainable: PyTree) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        network = eqx.combine(trainable, fixed)
        total, sizes, length, weight = _rows(loss, network, batch[:4], key, precision, True, rows)
        cells, weighted = batch[4]
        shown = total / jnp.maximum(sizes, 1e-9), length / jnp.maximum(weight, 1e-9)
        added = 0 if penalty is None else penalty.value(trainable, network, batch[:4], key)
        return total / cells + network.length_weight * length / weighted + added, shown

    gradient, values = jax.grad(objective, has_aux=True)(state.network)
    updates, inner = optimizer.update(gradient, state.optimizer, state.network)
    network = optax.apply_updates(state.network, updates)
    average = jax.tree.map(lambda a, b: a + share.astype(a.dtype) * (b - a), state.average, network) if share is not None else None
    norm = jnp.sqrt(sum((g.astype(jnp.float32) ** 2).sum() for g in jax.tree.leaves(gradient)))
    after = TrainState(network, inner, average, state.best)
    if layout is not None:
        after = jax.tree.map(jax.lax.with_sharding_constraint, after, layout)
    return after, (*values, norm)


class TrainingLog:
    """A log that appends lines to a file; without a path it writes nothing.

    Args:
        path: the file.
        first: the step at which the run resumes. Later lines, which an interrupted run left, are
            removed.
        writes: whether this process writes the file; of several processes only one does.

    Raises:
        GmlmError: E560 for a file that cannot be written or that is not such a log.
    """

    def __init__(self, path: str | Path | None, first: int, writes: bool = True):
        self.path, self.writes = None if path is None else Path(path), writes
        if writes and self.path is not None and self.path.exists():
            self._cut(self.path, first)

    def _cut(self, path: Path, first: int) -> None:
        """Keep the lines up to step `first`; an incomplete last line is removed too."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError) as error:
            raise fail("E560", f"cannot write `{path}`: {getattr(error, 'strerror', None) or 'it is not text'}") from None
        steps = [_step_of(line) for line in lines]
        if None in steps:
            message = f"`{path}` is not a log of a training: its line {steps.index(None) + 1} is not one, and it would be lost"
            raise fail("E560", message, help="name another file as `log`")
        kept = [line for line, step in zip(lines, steps, strict=True) if step is not None and step <= first]
        write_whole(path, "".join(f"{line}\n" for line in kept).encode())

    def note(self, line: JsonObject) -> None:
        """Append a line.

        Raises:
            GmlmError: E560 if the line cannot be written.
        """
        if self.path is None or not self.writes:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise fail("E560", f"cannot write `{self.path}`: {error.strerror or error}") from None


def _step_of(line: str) -> int | None:
    try:
        step = json.loads(line).get("step")
    except (ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None


class TrainingBar:
    """A progress bar over steps, shown only if `show` is true.

    Args:
        total: the number of steps of the run.
        first: the step at which the run resumes.
        widths: the number of widths of rows; a program is compiled for each.
        show: whether to show the bar.
    """

    def __init__(self, total: int, first: int, widths: int, show: bool):
        self.total, self.first, self.widths, self.show = total, first, widths, show
        self.compiled: set[int] = set()
        self._bar: Any = None
        self._task: Any = None
        self._loss = self._shown = ""

    def __enter__(self) -> TrainingBar:
        if self.show:
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("training"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeRemainingColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[note]}"))
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, completed=self.first, note="")
        return self

    def begins(self, width: int) -> None:
        """Announce a batch of rows with `width` cells.

        The first batch of a width waits for compilation.
        """
        if width in self.compiled:
            self._say(self._loss)
        else:
            self.compiled.add(width)
            self._say(f"compiling for rows of {width} cells, {len(self.compiled)} of {self.widths} widths")

    def measures(self) -> None:
        """Announce a measurement of the validation loss, which needs programs of its own."""
        self._say("measuring the loss of validation")

    def moved(self, done: int, loss: float, speed: float) -> None:
        """Update the bar after `done` steps; `speed` is in cells per second."""
        self._loss = f"loss {loss:.4g}, {speed:,.0f} cells/s"
        self._say(self._loss, completed=done)

    def _say(self, note: str, **more: int) -> None:
        if self._bar is not None and (more or note != self._shown):
            self._bar.update(self._task, note=note, **more)
        self._shown = note

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
