"""Trains a network: minibatches keyed by step, buckets of like width, validation, early stopping, checkpoints.

What is minimised is the loss of a mask, divided by the mean number of cells that a mask hides, so that it is in nats per cell;
plus, where the network predicts lengths, their loss per row times the network's `length_weight`. Both means are over all rows, never
over those of a batch: a row counts as its weight says, whatever its length, its bucket and the rows beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._diagnostics import fail
from ..derive import NetworkLoss
from ._batches import Batch, Batches
from ._checkpoints import Checkpoints
from ._training_options import Training, accumulated, default_optimizer

Array = np.ndarray
STEPS, VALIDATION = 2**32 - 1, 2**32 - 2  # folded into the seed's key: the first weights take its first parts, as `split` has them
NOTED = 20  # steps between looks at the device: the bar and the log move then


class TrainState(NamedTuple):
    """What a step changes. `best` and `average` are None where they are not kept."""

    network: Any
    optimizer: Any
    average: Any
    best: Any


@dataclass
class Progress:
    """What is known of a run so far; it goes into the notes of checkpoints."""

    losses: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    validation: list[tuple[int, float, float]] = field(default_factory=list)  # step, loss, length loss
    best: float = float("inf")
    since_best: int = 0
    best_step: int = 0
    reason: str = "steps"
    seconds: float = 0.0
    cells: int = 0

    def notes(self) -> dict[str, Any]:
        """As JSON takes it."""
        return dict(vars(self))


@dataclass(frozen=True)
class Trained:
    """A trained network, and how it went."""

    network: Any
    progress: Progress
    widths: tuple[int, ...]


def train(
    network: Any,
    loss: NetworkLoss,
    batches: Batches,
    per_batch: tuple[float, float],
    check: Batches | None,
    t: Training,
    optimizer: Any,
    seed: int,
    show: bool,
    identity: Any,
) -> Trained:
    """Run a training to its end, from its latest checkpoint where there is one.

    Args:
        network: with its first weights.
        loss: of the mask.
        batches: the rows.
        per_batch: the cells that are hidden and the weight of the rows, in the mean over the batches of an epoch.
        check: the rows of validation.
        t: options.
        optimizer: an optax transformation; None: the default one.
        seed: of the order of rows, of masks, noise and dropout: those of a step depend on (seed, step) only.
        show: whether to show a bar.
        identity: what the run depends on beside its options and data, as text: checkpoints of another run are refused.
    """
    optimizer = default_optimizer(t) if optimizer is None else optimizer
    if t.accumulate > 1:
        optimizer = accumulated(optimizer, t.accumulate)
    trainable, fixed = eqx.partition(network, eqx.is_inexact_array)
    state = TrainState(
        trainable, optimizer.init(trainable), trainable if t.ema is not None else None, trainable if check is not None else None
    )
    store = (
        None
        if t.checkpoint is None
        else Checkpoints(t.checkpoint, _fingerprint([identity, _rule(optimizer, state)], t, batches, check, state, seed))
    )
    progress, first = Progress(), 0
    if store is not None:
        first, state, progress = _resumed(store, state, t, progress)
    run = _Run(loss, batches, np.asarray(per_batch, np.float32), check, t, optimizer, fixed, seed, store, progress)
    state = run.to_the_end(state, first, show)
    kept = state.best if t.patience is not None else state.network if t.ema is None else state.average
    return Trained(eqx.combine(kept, fixed), progress, batches.found)


def _resumed(store: Checkpoints, state: TrainState, t: Training, progress: Progress) -> tuple[int, TrainState, Progress]:
    if not t.resume:
        store.clear()
    leaves, tree = jax.tree.flatten(state)
    found = store.restore([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves])
    if found is None:
        return 0, state, progress
    step, restored, notes = found
    return step, jax.tree.unflatten(tree, restored), Progress(**notes)


def _rule(optimizer: Any, state: TrainState) -> str:
    """What an optimiser computes, its numbers among it; the addresses of its functions differ from run to run."""
    traced = jax.make_jaxpr(lambda s: optimizer.update(s.network, s.optimizer, s.network))(state)
    return re.sub(r"0x[0-9a-f]+", "", str(traced))


def _fingerprint(identity: Any, t: Training, batches: Batches, check: Batches | None, state: TrainState, seed: int) -> str:
    plain = {k: v for k, v in vars(t).items() if k not in ("validation", "checkpoint", "save_every", "resume", "log")}
    shapes = [f"{jax.tree_util.keystr(p)} {x.shape} {x.dtype}" for p, x in jax.tree_util.tree_flatten_with_path(state)[0]]
    text = json.dumps([identity, plain, shapes, seed], default=str, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    data = [a for b in (batches, check) if b is not None for a in (b.rows.codes, *b.rows.given, b.weights)]
    for array in (*data, *jax.tree.leaves(state.network)):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@dataclass
class _Run:
    loss: NetworkLoss
    batches: Batches
    per_batch: Array
    check: Batches | None
    t: Training
    optimizer: Any
    fixed: Any
    seed: int
    store: Checkpoints | None
    progress: Progress

    def to_the_end(self, state: TrainState, first: int, show: bool) -> TrainState:
        """The steps from `first` on, with what happens between them."""
        t, p = self.t, self.progress
        kept = (self.store, t.save_every or max(1, t.steps // 20)), (self.check, t.evaluate_every or max(1, t.steps // 10))
        waiting: list[tuple[Any, Any]] = []
        started, before = time.perf_counter(), p.seconds
        if t.patience is not None and p.since_best >= t.patience:  # the run had ended before it was asked to go on
            p.reason = "patience"
            return state
        with _bar(t.steps, first, show) as moved:
            for step, batch in self.order(first):
                state, values = self.update(state, batch, step)
                waiting.append(values)
                p.cells += int((batch.codes[: batch.width] >= 0).sum(where=batch.weights[None] > 0))
                done = step + 1
                saves, measures = (at is not None and (done % every == 0 or done == t.steps) for at, every in kept)
                if done % NOTED == 0 or done == t.steps or saves or measures:
                    self.look(waiting)
                    p.seconds = before + time.perf_counter() - started
                    self.note({"step": done, "loss": p.losses[-1], "length_loss": p.lengths[-1], "seconds": p.seconds, "cells": p.cells})
                    moved(done, p)
                if not np.isfinite(p.losses[-1] if p.losses else 0.0):
                    p.reason = "diverged"
                    break
                if measures:
                    state = self.measure(state, done)
                if saves and self.store is not None:
                    self.store.save(done, jax.tree.leaves(state), p.notes())
                if t.patience is not None and p.since_best >= t.patience:
                    p.reason = "patience"
                    break
        return state

    def order(self, first: int) -> Iterator[tuple[int, Batch]]:
        """Steps and their batches."""
        per, plan, epoch = self.batches.per_epoch, [], -1
        for step in range(first, self.t.steps):
            if step // per != epoch:
                epoch = step // per
                plan = self.batches.plan(self.seed, epoch)
            yield step, self.batches.batch(*plan[step % per])

    def update(self, state: TrainState, batch: Batch, step: int) -> tuple[TrainState, Any]:
        """One step."""
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), STEPS), step)
        data = (*batch[:4], self.per_batch)
        return _update(_sized(self.loss, batch.width), self.optimizer, self.fixed, state, data, key, self.t.precision, self.share(step))

    def share(self, step: int) -> Array | None:
        """Of the weights behind a step in their average: d^(n - k) (1 - d) / (1 - d^n) is that of update k among the first n."""
        d, n = self.t.ema, (step + 1) // self.t.accumulate
        if d is None:
            return None
        return np.asarray(0 if (step + 1) % self.t.accumulate else (1 - d) / (1 - d**n), np.float32)

    def look(self, waiting: list[tuple[Any, Any]]) -> None:
        """Fetch the losses of the steps since the last look."""
        for value, length in waiting:
            self.progress.losses.append(float(value))
            self.progress.lengths.append(float(length))
        waiting.clear()

    def measure(self, state: TrainState, done: int) -> TrainState:
        """The loss of the rows of validation, under the masks of one key for all measurements."""
        assert self.check is not None
        p, network = self.progress, state.network if self.t.ema is None else state.average
        if p.validation and p.validation[-1][0] == done:
            return state
        loss, length = evaluated(self.loss, eqx.combine(network, self.fixed), self.check, self.seed, self.t.precision)
        total = loss + _weight(network) * length
        p.validation.append((done, loss, length))
        self.note({"step": done, "validation_loss": loss, "validation_length_loss": length})
        if total < p.best:
            p.best, p.since_best, p.best_step = total, 0, done
            return state._replace(best=network)
        p.since_best += 1
        return state

    def note(self, line: dict[str, Any]) -> None:
        """Append to the log."""
        if self.t.log is not None:
            try:
                with Path(self.t.log).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise fail("E560", f"cannot write `{self.t.log}`: {error.strerror or error}") from None


def _weight(network: Any) -> float:
    return float(getattr(network, "length_weight", 0.0)) if getattr(network, "length_head", None) is not None else 0.0


def _sized(loss: NetworkLoss, width: int) -> NetworkLoss:
    return NetworkLoss(loss.mask, loss.label, loss.n_masks, loss.smoothing, width)


def evaluated(loss: NetworkLoss, network: Any, rows: Batches, seed: int, precision: str = "float32") -> tuple[float, float]:
    """The loss in nats per cell and the length loss per row, without dropout or smoothing, masks drawn from the seed."""
    sums = np.zeros(4)
    for k, (b, chosen) in enumerate(rows.in_order()):
        batch = rows.batch(b, chosen)
        plain = NetworkLoss(loss.mask, loss.label, loss.n_masks, 0.0, batch.width)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), VALIDATION), k)
        sums += np.asarray(_sums(plain, network, batch[:4], key, precision), np.float64)
    return float(sums[0] / sums[1]), float(sums[2] / sums[3])


def _rows(loss: NetworkLoss, network: Any, batch: Any, key: Any, precision: str, dropout: bool) -> tuple[Any, Any, Any, Any]:
    """Sums over rows: weighted losses, numbers of hidden cells, length losses, weights."""
    if precision == "bfloat16":
        network = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if eqx.is_inexact_array(a) else a, network)
    codes, given, lengths, weights = batch
    keys = jax.random.split(key, weights.shape[0])
    found, sizes, length = loss.rows({loss.label: network}, codes, given, lengths, keys, dropout)
    return (weights * found).sum(), (weights * sizes).sum(), (weights * length).sum(), weights.sum()


@eqx.filter_jit
def _sums(loss: NetworkLoss, network: Any, batch: Any, key: Any, precision: str) -> Any:
    return jnp.stack(_rows(loss, network, batch, key, precision, False))


@eqx.filter_jit
def _update(
    loss: NetworkLoss, optimizer: Any, fixed: Any, state: TrainState, batch: Any, key: Any, precision: str, share: Any
) -> tuple[TrainState, tuple[Any, Any]]:
    def objective(trainable: Any) -> tuple[Any, tuple[Any, Any]]:
        network = eqx.combine(trainable, fixed)
        total, sizes, length, weight = _rows(loss, network, batch[:4], key, precision, True)
        cells, rows = batch[4]
        shown = total / jnp.maximum(sizes, 1e-9), length / jnp.maximum(weight, 1e-9)
        return total / cells + network.length_weight * length / rows, shown

    gradient, values = jax.grad(objective, has_aux=True)(state.network)
    updates, inner = optimizer.update(gradient, state.optimizer, state.network)
    network = optax.apply_updates(state.network, updates)
    average = jax.tree.map(lambda a, b: a + share.astype(a.dtype) * (b - a), state.average, network) if share is not None else None
    return TrainState(network, inner, average, state.best), values


class _bar:
    """A progress bar over steps: loss, cells per second, time left; nothing where it is not wanted."""

    def __init__(self, total: int, first: int, show: bool):
        self.total, self.first, self.show, self.progress = total, first, show, None

    def __enter__(self) -> Any:
        if not self.show:
            return lambda done, p: None
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("training"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"), TimeRemainingColumn())
        self.progress = Bar(*columns, TextColumn("{task.fields[note]}"))
        self.progress.start()
        task = self.progress.add_task("", total=self.total, completed=self.first, note="")

        def moved(done: int, p: Progress) -> None:
            assert self.progress is not None
            note = f"loss {p.losses[-1]:.4g}, {p.cells / max(p.seconds, 1e-9):,.0f} cells/s"
            self.progress.update(task, completed=done, note=note)

        return moved

    def __exit__(self, *exc: object) -> None:
        if self.progress is not None:
            self.progress.stop()
