"""Block-dynamics kernels for many chains at once: sweeps, parallel and random updates.

Further kernels combine other kernels. In replica exchange, chains at several inverse temperatures
exchange their configurations, which lets the cold chain leave its mode. The replicas of a chain are
adjacent on the axis of chains: the body of a `temper` is one kernel that moves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ._arrays import Blocks, clamp_scores, drawn_blocks, float_type, put_value
from ._conditional import tempered
from ._energy import Codes, log_potential, scores_in_turn
from ._kernel import AbstractKernel, Info, State, Target, free
from ._mask_law import AbstractMaskLaw
from ._picks import accepted as taken
from ._picks import levels_of, pick, pick_value
from ._random import Words, fold, words


def draw_blocks(target: Target, codes: Codes, blocks: Blocks, drawn: Words, correction: Array | None = None) -> Codes:
    """Redraw blocks that do not share a factor, all at once, from p(x_K | x_rest[, K]).

    A block whose rest is impossible stays as it is.

    Args:
        target: the distribution to draw from.
        codes: the configurations, shape (cells, chains).
        blocks: the blocks.
        drawn: random words of shape (blocks, chains).
        correction: log p(K | x') to add to the scores, or None.
    """
    scores = scores_in_turn(target.graph, target.params, codes, blocks)
    if target.beta is not None:
        scores = tempered(scores, target.beta)
    if correction is not None:  # p(K | x) does not belong to p: it stays as it is at every beta
        scores = scores + correction
    if target.clamped is not None:
        scores = clamp_scores(blocks, codes, target.clamped, target.graph.n_cells, scores)
    value, possible = pick_value(scores, drawn)
    return put_value(blocks, codes, value, ~possible)


def counted(before: Codes, after: Codes, drawn: Int[Array, " chains"]) -> Info:
    """Return the `Info` of one update, with the numbers of changed and drawn cells."""
    none = jnp.zeros((0, before.shape[1]), jnp.int32)
    return Info((before != after).sum(axis=0, dtype=jnp.int32)[None], drawn[None], none, none)


def _drawn_by_all(target: Target, stages: Sequence[Blocks], chains: int) -> Int[Array, " chains"]:
    counts = [free(target, blocks.cells).sum(dtype=jnp.int32) for blocks in stages]
    return jnp.full(chains, sum(counts[1:], counts[0]))


def held_by(blocks: int, values: int, members: int) -> float:
    """Return the bytes that the scores of some blocks of one chain take.

    They are one number for each value and member, and the scores twice. This is what XLA allocates
    on a CPU for blocks drawn from a mask, within a tenth.
    """
    return blocks * float(values) * (members + 2) * float_type().itemsize


class KernelStage(eqx.Module):
    """Colours of a sweep that one scan runs one after another.

    Every array of `blocks` has a leading axis of colours.
    """

    blocks: Blocks
    colours: int = eqx.field(static=True)


class SweepKernel(AbstractKernel):
    """Kernel that redraws every block of a list once, colour after colour.

    The blocks of one colour are redrawn at once.
    """

    stages: tuple[KernelStage, ...]

    def held(self, cells: int) -> float:
        del cells
        return max((held_by(s.blocks.cells.shape[1], s.blocks.n_values, s.blocks.cells.shape[2]) for s in self.stages), default=0.0)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        codes = state.codes
        for k, stage in enumerate(self.stages):
            many = words(fold(keys, k), (stage.colours, stage.blocks.cells.shape[1]), levels_of(stage.blocks.n_values))

            def one(codes: Codes, inputs: tuple[Blocks, tuple[Array, Array]], many: Words = many) -> tuple[Codes, None]:
                return draw_blocks(target, codes, inputs[0], Words(*inputs[1], many.behind)), None

            codes, _ = jax.lax.scan(one, codes, (stage.blocks, many.colours))
        drawn = _drawn_by_all(target, [s.blocks for s in self.stages], codes.shape[1])
        return State(codes), counted(state.codes, codes, drawn)


class ParallelKernel(AbstractKernel):
    """Kernel that redraws all cells of a block at once from p(x_i | x_-i) at the old x.

    It goes through the blocks one after another (Li et al. 2024, Definition 11). `stages` has the
    cells of each block as blocks of one cell. If cells interact, no distribution is known that this
    leaves invariant.
    """

    stages: tuple[Blocks, ...]

    def held(self, cells: int) -> float:
        del cells
        return max((held_by(b.cells.shape[0], b.n_values, b.cells.shape[1]) for b in self.stages), default=0.0)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        codes = state.codes
        for k, blocks in enumerate(self.stages):
            codes = draw_blocks(target, codes, blocks, words(fold(keys, k), blocks.cells.shape[:1], levels_of(blocks.n_values)))
        return State(codes), counted(state.codes, codes, _drawn_by_all(target, self.stages, codes.shape[1]))


class RandomKernel(AbstractKernel):
    """Kernel that draws a block from a mask and redraws it.

    The block is drawn jointly from p(x_K | x_rest[, K]), or cell by cell at the old x. `capacities`
    has the size buckets (members, joint values) in ascending order. A chain's block is drawn in the
    smallest bucket that fits, whatever the other chains drew.
    """

    law: AbstractMaskLaw
    corrected: bool = eqx.field(static=True)
    separate: bool = eqx.field(static=True)  # for product plans, and `independently`
    capacities: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def held(self, cells: int) -> float:
        del cells
        members, values = self.capacities[-1]
        return held_by(members, values, 1) if self.separate else (1 + self.corrected) * held_by(1, values, members)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        graph = target.graph
        cells = self.law.draw(target.params, state.codes, fold(keys, 0))
        sizes = (cells < graph.n_cells).sum(axis=0, dtype=jnp.int32)
        draw = self.separately if self.separate else self.jointly
        codes = draw(target, state.codes, cells, sizes, fold(keys, 1))
        return State(codes), counted(state.codes, codes, free(target, cells).sum(axis=0, dtype=jnp.int32))

    def separately(self, target: Target, codes: Codes, cells: Array, sizes: Array, keys: PRNGKeyArray) -> Codes:
        """Redraw every drawn cell as a block of its own, all at once at the old x.

        Args:
            target: the distribution to draw from.
            codes: the configurations, shape (cells, chains).
            cells: the drawn block of each chain, padded with the number of cells.
            sizes: the size of each block, which this method does not read.
            keys: a key for each chain.
        """
        blocks = drawn_blocks(target.graph, cells[:, None, :], self.capacities[-1][1])
        return draw_blocks(target, codes, blocks, words(keys, (cells.shape[0],), levels_of(blocks.n_values)))

    def jointly(self, target: Target, codes: Codes, cells: Array, sizes: Array, keys: PRNGKeyArray) -> Codes:
        """Redraw the drawn block by enumeration, in its size bucket.

        Args:
            target: the distribution to draw from.
            codes: the configurations, shape (cells, chains).
            cells: the drawn block of each chain, padded with the number of cells.
            sizes: the size of each block.
            keys: a key for each chain.
        """
        drawn = words(keys, (1,), max(levels_of(values) for _, values in self.capacities))
        smallest = 0
        for members, values in self.capacities:
            fits = (sizes > smallest) & (sizes <= members)

            def redraw(codes: Codes, members: int = members, values: int = values, fits: Array = fits) -> Codes:
                new = self.redraw(target, codes, cells[None, :members], values, drawn)
                return jnp.where(fits, new, codes)

            codes = redraw(codes) if len(self.capacities) == 1 else jax.lax.cond(fits.any(), redraw, lambda c: c, codes)
            smallest = members
        return codes

    def redraw(self, target: Target, codes: Codes, cells: Array, values: int, drawn: Words) -> Codes:
        groups = self.law.groups() if self.corrected else ()
        blocks = drawn_blocks(target.graph, cells, values, groups)
        correction = None
        if self.corrected:
            touch = iter(blocks.touch[len(target.graph.groups) :])
            correction = self.law.log_probability(target.params, codes, blocks, touch)
        return draw_blocks(target, codes, blocks, drawn, correction)


class AbstractComposite(AbstractKernel):
    """Kernel that is composed of other kernels."""

    parts: eqx.AbstractVar[tuple[AbstractKernel, ...]]

    def prepared(self, target: Target) -> AbstractKernel:
        return replace(self, parts=tuple(p.prepared(target) for p in self.parts))

    @property
    def updates(self) -> int:
        return sum(p.updates for p in self.parts)

    @property
    def pairs(self) -> int:
        return sum(p.pairs for p in self.parts)

    @property
    def remembers(self) -> bool:
        return any(p.remembers for p in self.parts)

    def memory(self, codes: Codes) -> PyTree:
        return tuple(p.memory(codes) for p in self.parts)

    def held(self, cells: int) -> float:
        return max(p.held(cells) for p in self.parts)

    @property
    def runs(self) -> int:
        return max(p.runs for p in self.parts)


class CycleKernel(AbstractComposite):
    """Kernel that runs other kernels in order."""

    parts: tuple[AbstractKernel, ...]

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        codes, memories, found = state.codes, [], []
        for k, (part, memory) in enumerate(zip(self.parts, state.memory, strict=True)):
            (codes, memory), info = part.step(target, fold(keys, k), State(codes, memory))
            memories.append(memory)
            found.append(info)
        return State(codes, tuple(memories)), Info(*(jnp.concatenate(rows) for rows in zip(*found, strict=True)))


class RepeatKernel(AbstractComposite):
    """Kernel that runs another kernel several times within one step."""

    parts: tuple[AbstractKernel]
    count: int = eqx.field(static=True)

    @property
    def part(self) -> AbstractKernel:
        """The kernel that is repeated."""
        return self.parts[0]

    def memory(self, codes: Codes) -> PyTree:
        return self.part.memory(codes)

    @property
    def runs(self) -> int:
        return self.count * self.part.runs

    def enter(self, target: Target, state: State) -> PyTree:
        return self.part.enter(target, state)

    def leave(self, target: Target, carried: PyTree) -> State:
        return self.part.leave(target, carried)

    def move(self, target: Target, keys: PRNGKeyArray, carried: PyTree) -> tuple[PyTree, Info]:
        def once(k: Array, at: tuple[PyTree, Info]) -> tuple[PyTree, Info]:
            carried, info = self.part.move(target, fold(keys, k), at[0])
            return carried, jax.tree.map(jnp.add, at[1], info)

        return jax.lax.fori_loop(0, self.count, once, (carried, self.nothing(keys.shape[0])))

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        carried, info = self.move(target, keys, self.enter(target, state))
        return self.leave(target, carried), info


class MixtureKernel(AbstractComposite):
    """Kernel that runs one of several kernels, picked by weight for each chain independently."""

    parts: tuple[AbstractKernel, ...]
    weights: Float[Array, " parts"]

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        chains = state.codes.shape[1]
        choice = pick(self.weights[:, None], words(fold(keys, 0), (), levels_of(len(self.parts))), 0)
        codes, memories, found = state.codes, [], []
        for k, (part, memory) in enumerate(zip(self.parts, state.memory, strict=True)):
            picked = choice == k

            def run(old: State, part: AbstractKernel = part, k: int = k, picked: Array = picked) -> tuple[State, Info]:
                new, info = part.step(target, fold(keys, k + 1), old)
                kept = jax.tree.map(lambda a, b: jnp.where(picked, a, b), new, old)
                return kept, Info(*(jnp.where(picked, rows, 0) for rows in info))

            def skip(old: State, part: AbstractKernel = part) -> tuple[State, Info]:
                return old, part.nothing(chains)

            # Every part reads the state before the step, because a chain runs only the part that it
            # picked.
            (codes, memory), info = jax.lax.cond(picked.any(), run, skip, State(codes, memory))
            memories.append(memory)
            found.append(info)
        return State(codes, tuple(memories)), Info(*(jnp.concatenate(rows) for rows in zip(*found, strict=True)))


class Replicas(NamedTuple):
    """The configuration at every beta, ascending, and the number of steps of each chain."""

    codes: Int[Array, "cells replicas chains"]
    turn: Int[Array, " chains"]


def log_acceptance(betas: Float[Array, "replicas chains"], log_p: Float[Array, "replicas chains"]) -> Float[Array, "pairs chains"]:
    """Return the log of the ratio by which neighbours r and r + 1 exchange.

    It is (b_r - b_r+1) (l_r+1 - l_r), with l the unnormalised log p. It is -inf if a replica is
    impossible, which never happens to a chain that starts in the support.

    Reference: Geyer 1991; Hukushima and Nemoto 1996.
    """
    possible = (log_p[1:] > -jnp.inf) & (log_p[:-1] > -jnp.inf)
    return jnp.where(possible, (betas[:-1] - betas[1:]) * jnp.where(possible, log_p[1:] - log_p[:-1], 0.0), -jnp.inf)


def proposed_pairs(turn: Int[Array, " chains"], pairs: int) -> Bool[Array, "pairs chains"]:
    """Return the proposed pairs of neighbours: alternately those at even and at odd places.

    Each of the two sets leaves the joint distribution of the replicas invariant. In alternation
    they carry a configuration along the ladder faster than in random order.

    Reference: Syed, Bouchard-Cote, Deligiannidis and Doucet 2022, "Non-reversible parallel
    tempering".
    """
    period = max(1, min(2, pairs))
    return (jnp.arange(pairs, dtype=turn.dtype)[:, None] % period) == (turn % period)[None]


def exchange(codes: Int[Array, "cells replicas chains"], accepted: Bool[Array, "pairs chains"]) -> Int[Array, "cells replicas chains"]:
    """Return the replicas after the exchange of each accepted pair of neighbours.

    Accepted pairs do not share a replica.
    """
    step = accepted.astype(jnp.int32)
    none = jnp.zeros_like(step[:1]) if step.shape[0] else jnp.zeros((1, codes.shape[2]), jnp.int32)
    source = jnp.arange(codes.shape[1], dtype=jnp.int32)[:, None] + jnp.concatenate([step, none]) - jnp.concatenate([none, step])
    return jnp.take_along_axis(codes, source[None], axis=1)


class TemperKernel(AbstractKernel):
    """Kernel that runs its body on replicas of p to the power of each beta.

    After the body, it exchanges neighbouring replicas. The chain is the replica at beta 1. The
    kernel leaves the product of the p^beta invariant, whose factor at beta 1 is p, if the body
    leaves p^beta invariant at each beta.
    """

    part: AbstractKernel
    betas: Float[Array, " replicas"]
    cold: int = eqx.field(static=True)

    def prepared(self, target: Target) -> AbstractKernel:
        return replace(self, part=self.part.prepared(target))

    @property
    def updates(self) -> int:
        return self.part.updates

    @property
    def pairs(self) -> int:
        return self.betas.shape[0] - 1

    def held(self, cells: int) -> float:
        return self.betas.shape[0] * (self.part.held(cells) + 8.0 * cells)

    @property
    def runs(self) -> int:
        return self.betas.shape[0] * self.part.runs

    @property
    def remembers(self) -> bool:
        return True

    def memory(self, codes: Codes) -> PyTree:
        """Return replicas that all start at the codes of the chain."""
        return Replicas(jnp.repeat(codes[:, None], self.betas.shape[0], axis=1), jnp.zeros(codes.shape[1], jnp.int32))

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        n, (cells, chains) = self.betas.shape[0], state.codes.shape
        # Other statements of the sampler move only the cold replica.
        codes = state.memory.codes.at[:, self.cold].set(state.codes)
        betas = jnp.broadcast_to(self.betas[:, None], (n, chains))
        if target.beta is not None:
            betas = betas * target.beta[None]
        rows = codes.reshape(cells, n * chains)
        inside = target._replace(beta=betas.reshape(-1))
        body_keys = fold(keys, 0)
        every = jnp.concatenate([fold(body_keys, r) for r in range(n)])
        moved, info = self.part.step(inside, every, self.part.init(rows))
        log_p = log_potential(target.graph, target.params, moved.codes).reshape(n, chains)
        proposed = proposed_pairs(state.memory.turn, n - 1)
        accepted = proposed & taken(log_acceptance(betas, log_p), words(fold(keys, 1), (n - 1,)))
        codes = exchange(moved.codes.reshape(cells, n, chains), accepted)
        # The counts are over all replicas: the cold one moves by exchanges, and its own updates may
        # hardly ever flip a cell.
        changed, drawn = (a.reshape(-1, n, chains).sum(axis=1, dtype=a.dtype) for a in (info.changed, info.drawn))
        found = Info(changed, drawn, proposed.astype(jnp.int32), accepted.astype(jnp.int32))
        return State(codes[:, self.cold], Replicas(codes, state.memory.turn + 1)), found
