"""Runs of chains, one compiled call after another: starts, annealing, warm-up, draws.

A run can stop after any call, and go on from the position that it has then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from .._progress import DrawsBar
from ..data import keys_of
from ..derive import AbstractKernel, Info, Spread, State, Target, bounded_jit, fetched, on_device
from . import limits
from ._run_kernel import Draws, Observe, cool, record

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


@dataclass(frozen=True)
class KernelRun:
    """Chains to run from their starts; draw t of chain c depends only on the seed, c and t.

    Without `keys`, chains and draws are padded to sizes that many calls share, so that these calls
    compile nothing.

    Attributes:
        kernel: the kernel.
        target: the distribution to draw from.
        codes: the starts, shape (cells, chains).
        seed: the seed.
        draws: the number of draws of each chain.
        warmup: the number of steps before the first draw.
        thin: the number of steps for each draw.
        anneal: the number of steps before the warm-up, on p to the power 1/anneal, 2/anneal, .., 1.
        observe: the function of codes that is recorded of each draw, or None.
        keep: whether draws are kept.
        progress: whether to show a progress bar.
        keys: the keys of the chains, if they do not follow from the chains' numbers.
        spread: the axis of a mesh over which chains are spread, or None.
    """

    kernel: AbstractKernel
    target: Target
    codes: Array
    seed: int
    draws: int
    warmup: int = 0
    thin: int = 1
    anneal: int = 0
    observe: Observe | None = None
    keep: bool = True
    progress: bool = False
    keys: jax.Array | None = None
    spread: Spread | None = None

    def run(self) -> Draws:
        """Return all draws."""
        whole, scores, drawn, last = None, [], 0, self.codes
        for piece in self.pieces():
            found = piece.draws
            if found is None:
                continue
            each: PyTree = {"codes": found.codes, "score": found.score if self.keep else None, "observed": found.observed}
            each["counts"] = {k: getattr(found, k) for k in Info._fields}
            if whole is None:
                whole = jax.tree.map(lambda a: np.empty((a.shape[0], self.draws, *a.shape[2:]), a.dtype), each)
            here = slice(drawn, drawn := drawn + found.changed.shape[1])
            jax.tree.map(lambda every, some, here=here: every.__setitem__((slice(None), here), some), whole, each)
            scores.append(found.score)
            last = found.last
        assert whole is not None
        score = whole["score"] if self.keep or scores[0] is None else np.concatenate(scores, axis=1)
        return Draws(whole["codes"], score, observed=whole["observed"], last=last, **whole["counts"])

    def per_call(self, at_once: int) -> int:
        """Return the most draws that a compiled call records, of about `at_once` codes or observed numbers."""
        most, size = 1 << (self.draws - 1).bit_length(), self._recorded * self._run
        steps = limits.STEPS_PER_CALL
        if not self.keep:
            steps = limits.OBSERVED_PER_CALL
        few = self.keys is None and steps * size <= at_once
        return steps if few else min(most, steps, max(1, at_once // size))

    @property
    def _recorded(self) -> int:
        """Number of codes, or of observed numbers, that are recorded of a draw of one chain."""
        cells = self.codes.shape[0]
        if self.keep or self.observe is None:
            return cells
        found = jax.eval_shape(self.observe, jax.ShapeDtypeStruct((cells, 1), self.codes.dtype))
        return max(1, sum(math.prod(a.shape) for a in jax.tree.leaves(found)))

    @property
    def _run(self) -> int:
        """Number of chains with those that fill up."""
        chains = self.codes.shape[1]
        if self.keys is not None:
            return chains
        return filled_up(chains) if self.spread is None else self.spread.filled(filled_up(chains))

    def pieces(self, begun: Position | None = None, seconds: float = math.inf, at_once: int = limits.MOST_AT_ONCE) -> Iterator[Piece]:
        """Yield the draws of each compiled call; a call of the warm-up has no draws.

        Args:
            begun: the position from which interrupted chains resume; None for new chains.
            seconds: the approximate maximum time of a call, which is the most work that an
                interruption loses.
            at_once: the approximate maximum number of codes that a call records.
        """
        chains, most, numbers = self.codes.shape[1], self.per_call(at_once), self._numbers()
        keys = keys_of(self.seed, numbers) if self.keys is None else self.keys
        keys = keys if self.spread is None else self.spread.put_keys(keys)
        step, state = self._first(keys, numbers) if begun is None else begun
        if begun is not None:
            put = on_device if self.spread is None else self.spread.put
            state = jax.tree.map(lambda a: put(a[..., numbers]), state)
        how = most, self.observe, self.keep

        def recorded(first: int, thin: int, count: int) -> tuple[State, dict[str, PyTree]]:
            steps = _whole(first), _whole(thin), _whole(count)
            return record(self.kernel, self.target, keys, state, *steps, *how)

        # The warm-up records one draw that is discarded, after its steps: a program of its own would
        # take as long again to compile.
        pace = Pace(seconds)
        while step < self.warmup:
            count = pace.next(self.warmup - step)
            state, _ = recorded(step, count, 1)
            step += count
            yield Piece(Position(step, state), None)
        done, pace = (step - self.warmup) // self.thin, Pace(seconds)
        with DrawsBar(self.draws, self.progress, done) as moved:
            while done < self.draws:
                # Every call records the same number of draws, so that one compilation suffices. A
                # call takes no steps for the draws that are cut off.
                count = pace.next(min(most - done % most, self.draws - done))
                state, out = recorded(self.warmup + done * self.thin, self.thin, count)
                out, done = jax.tree.map(lambda a, n=count: fetched(a)[:n], out), done + count
                moved(count, out)
                piece = Piece(Position(self.warmup + done * self.thin, state), _chains_first(out, chains, fetched(state.codes)))
                del out
                yield piece

    def _numbers(self) -> Array:
        """Return the numbers of the chains that are run: the last one is repeated to fill up."""
        return np.minimum(np.arange(self._run), self.codes.shape[1] - 1)

    def _first(self, keys: jax.Array, numbers: Array) -> Position:
        """Return the chains at their starts, or after the annealing."""
        codes = self.codes[:, numbers] if len(numbers) > self.codes.shape[1] else self.codes
        state = _first_state(self.kernel, codes, self.spread)
        if self.anneal:
            state = cool(self.kernel, self.target, keys, state, _whole(self.anneal))
        return Position(0, state)

    def kept(self, at: Position) -> PyTree:
        """Return the state of chains as arrays of the host, from which `pieces` can go on."""
        return jax.tree.map(lambda a: np.asarray(fetched(a))[..., : self.codes.shape[1]], at.state)

    @property
    def like(self) -> PyTree:
        """The shapes and types of the arrays of `kept`."""
        return jax.eval_shape(self.kernel.init, jax.ShapeDtypeStruct(self.codes.shape, np.int32))


class Position(NamedTuple):
    """A place in a run of chains: the number of steps taken, without annealing, and the state."""

    step: int
    state: State


class Piece(NamedTuple):
    """The draws of one compiled call, or None for one of the warm-up, and where the chains are then."""

    at: Position
    draws: Draws | None


class Pace:
    """The sizes of compiled calls that take about the same time.

    Args:
        seconds: the time of a call.
    """

    def __init__(self, seconds: float):
        self.seconds, self.size, self.begun = seconds, 0, 0.0

    def next(self, most: int) -> int:
        """Return the number of steps or draws of the next call, at most `most`."""
        if math.isinf(self.seconds):
            return most
        now = time.perf_counter()
        fitting = int(self.size * self.seconds / max(now - self.begun, 1e-9))
        self.size, self.begun = max(1, min(most, fitting)), now
        return self.size


def _chains_first(out: dict[str, PyTree], chains: int, last: Array) -> Draws:
    """Return the output of `record` for some draws, without the padding of chains."""
    info: dict[str, Array] = {k: np.moveaxis(rows, 2, 0)[:chains] for k, rows in out["info"]._asdict().items()}
    return Draws(
        None if out["codes"] is None else np.moveaxis(out["codes"], 2, 0)[:chains],
        None if out["score"] is None else out["score"].T[:chains],
        observed={k: np.moveaxis(v, 1, 0)[:chains] for k, v in out["observed"].items()},
        last=last[:, :chains],
        **info,
    )


def filled_up(chains: int) -> int:
    """Return the number of chains that are run for `chains` chains.

    The last chain is repeated to fill up, and its copies are dropped again.
    """
    return 1 << (chains - 1).bit_length() if chains <= limits.LANES else -(-chains // limits.LANES) * limits.LANES


def _whole(number: int) -> jax.Array:
    """Return an integer on the device, without compiling anything."""
    return on_device(number, jax.dtypes.result_type(int))


def _first_state(kernel: AbstractKernel, codes: Array, spread: Spread | None) -> State:
    """Return the first state; nothing is compiled for a kernel that remembers nothing beside the codes."""
    begun = on_device(codes, np.int32) if spread is None else spread.put(np.asarray(codes, np.int32))
    return _begun(kernel, begun) if kernel.remembers else kernel.init(begun)


@bounded_jit
def _begun(kernel: AbstractKernel, codes: jax.Array) -> State:
    return kernel.init(codes)
