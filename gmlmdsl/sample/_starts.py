"""Starts of chains: given or uniform configurations, or constructed ones.

Configurations are constructed if all uniform ones that were tried are impossible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from .._diagnostics import GmlmError, counted, fail, whole_number
from .._types import AnyArray, Rows
from ..data import decode, encode, generator, keys_of, random_key
from ..derive import Graph, State, Target, all_values, bounded_jit, compiled, fold, graph_arrays, on_device
from ..evaluate import Contractions, independent_kernel, init_params, log_potentials
from ..graph import FactorGraph, is_positive
from ..plan import searched, verify_held, with_partial_sums
from . import limits

Array = np.ndarray


@dataclass(frozen=True)
class Annealed:
    """Starts that are cooled from uniform values.

    The sampler's body runs `steps` times, on p to the power 1/steps, 2/steps, .., 1. A chain then
    begins in a mode that it found while it was hot, rather than in the mode nearest to a random
    configuration. Chains still need their warm-up; and if modes are far apart, only `temper` moves
    between them.

    Reference: Kirkpatrick, Gelatt and Vecchi 1983.
    """

    steps: int = 200


def annealed(steps: int = 200) -> Annealed:
    """Return a value for `init=` of `Model.sample`: uniform starts, cooled from beta 0 to 1.

    Args:
        steps: the number of runs of the sampler's body before the warm-up, at beta 1/steps,
            2/steps, .., 1.

    Raises:
        GmlmError: E507 unless `steps` is an integer of at least 1.
    """
    return Annealed(whole_number("annealed: steps", steps, 1))


@dataclass(frozen=True)
class Starts:
    """Codes of shape (cells, chains), and how they were found.

    `how` is `given`, `uniform`, `built`, `drawn` (from p, for some chains), `searched` (for some
    chains), or `own` (the sampler's own).
    """

    codes: Array
    how: str


def at_held(held: tuple[Array, Array], chains: int) -> Starts:
    """Return the fixed cells with arbitrary values in the others.

    It serves samplers whose draws start afresh and therefore do not read the other cells.
    """
    return Starts(np.repeat(held[1][:, None], chains, axis=1), "own")


def starts(
    graph: FactorGraph, chains: int, seed: int, init: Rows | None, held: tuple[Array, Array], params: Mapping[str, jax.Array]
) -> Starts:
    """Return starts of positive probability: given ones, or independent uniform values.

    If none of 2000 uniform configurations is possible, one is constructed from a uniform one by a
    walk that changes cells of violated requirements (see `Walk`). Such starts are possible, but not
    uniform. If that fails, starts are draws from p, provided that p can be summed exactly. Otherwise a search in
    depth, which draws the consequences of each choice, looks for one.

    Args:
        graph: the factor graph.
        chains: the number of chains.
        seed: the seed.
        init: given starts, `Annealed`, or None.
        held: which cells are fixed, and the codes of all cells, each of shape (cells,).
        params: parameters.

    Raises:
        GmlmError: E509 if a start is impossible, or none was found; E512 if it is known that there
            is none.
    """
    law = law_of(graph, params)
    if init is not None and not isinstance(init, Annealed):
        return Starts(_given(law, chains, seed, init, held), "given")
    # filled by chain and transposed once, because writing columns is slow
    codes, how = np.zeros((chains, graph.n_cells), np.int32), "uniform"
    exact: dict[int, Array] | None = None  # draws from p by chain, computed on demand
    for c in range(chains):
        rng = generator(seed, c)
        found = _uniform(law, rng, held)
        if found is None:
            found, how = _built(law, rng, held), "built"
        if found is None:
            exact = _drawn(graph, chains, seed, held, params) if exact is None else exact
            found, how = exact.get(c), "drawn"
        if found is None:
            known = {name: np.asarray(a, float) for name, a in params.items()}
            asked = graph, *held, known, generator(seed, c)
            found, how = searched(*asked, lambda codes: bool(law.possible(codes[:, None])[0])), "searched"
        if found is None:
            message = "no start of positive probability was found, neither among uniform values nor by moves of single cells"
            raise fail("E509", message, help="pass one that satisfies every `require`: `init=..`")
        codes[c] = found
    return Starts(np.ascontiguousarray(codes.T), how)


def _drawn(graph: FactorGraph, chains: int, seed: int, held: tuple[Array, Array], params: Mapping[str, jax.Array]) -> dict[int, Array]:
    """Return an independent draw for each chain given the fixed cells; empty if p is costly to sum.

    The draw of a chain depends only on the number of the chain.

    Raises:
        GmlmError: E512 if no configuration agrees with the fixed cells.
    """
    whole = with_partial_sums(graph)
    more = whole.n_cells - graph.n_cells
    fixed, values = np.append(held[0], np.zeros(more, bool)), np.append(held[1], np.zeros(more, np.int32))
    device, known = graph_arrays(whole), {k: jnp.asarray(v) for k, v in params.items()}
    kept = Contractions(whole)
    try:
        if kept.holding(fixed, "a start")[0].flops > limits.MOST_SUMMED:
            return {}
        kernel, _ = independent_kernel(kept, device, known, (fixed, values))
    except GmlmError as error:
        if "E512" in error.codes:
            raise
        return {}
    state = State(on_device(np.repeat(values[:, None], chains, axis=1), np.int32))
    drawn = kernel.step(Target(device, known, None), fold(keys_of(seed, np.arange(chains)), limits.START_STEP), state)[0]
    return dict(enumerate(np.asarray(drawn.codes)[: graph.n_cells].T))


@dataclass(frozen=True)
class Law:
    """Distribution that decides whether a configuration is possible.

    `device` is None if bounds show that every configuration is possible.
    """

    graph: FactorGraph
    params: Mapping[str, jax.Array]
    device: Graph | None

    def possible(self, codes: Array) -> AnyArray:
        """Return which configurations have a positive probability, shape (rows,)."""
        return np.ones(codes.shape[1], bool) if self.device is None else log_potentials(self.device, self.params, codes) > -np.inf

    @cached_property
    def walk(self) -> Walk:
        """Walks from impossible configurations to possible ones."""
        assert self.device is not None  # otherwise every configuration is possible
        return Walk.of(self.graph, self.device, self.params)


def law_of(graph: FactorGraph, params: Mapping[str, jax.Array]) -> Law:
    """Return the distribution of a model at some parameters."""
    positive = is_positive(graph, {k: np.asarray(v) for k, v in params.items()})
    return Law(graph, params, None if positive else graph_arrays(graph))


def _given(law: Law, chains: int, seed: int, init: Rows, held: tuple[Array, Array]) -> Array:
    graph, (fixed, values) = law.graph, held
    data = encode(graph, init, "init")
    if data.shape not in ((), (chains,)):
        raise fail("E501", f"init must hold one configuration, or one for each of {chains} chains, got rows of shape {data.shape}")
    codes = np.broadcast_to(data.codes, (graph.n_cells, chains)).copy()
    codes[fixed] = values[fixed, None]
    for c in np.flatnonzero((codes < 0).any(axis=0)).tolist():
        codes[:, c] = _completed(law, generator(seed, c), codes[:, c])
    bad = ~law.possible(codes)
    if bad.any():
        raise fail(
            "E509", f"the start of chain {int(np.argmax(bad))} has probability zero", help="pass another `init=`, or loosen `clamp=`"
        )
    return codes


def _completed(law: Law, rng: np.random.Generator, codes: Array) -> Array:
    """Return a start with its missing latents and masked cells filled in.

    They have arbitrary values if no possible start was found.
    """
    held = codes >= 0, np.maximum(codes, 0)
    found = _uniform(law, rng, held)
    if found is None:
        found = _built(law, rng, held)
    return _random(law.graph, rng, held, 1)[:, 0] if found is None else found


def _random(graph: FactorGraph, rng: np.random.Generator, held: tuple[Array, Array], count: int) -> Array:
    fixed, values = held
    found = rng.integers(0, graph.sizes[:, None], (graph.n_cells, count), dtype=np.int32)
    found[fixed] = values[fixed, None]
    return found


def _uniform(law: Law, rng: np.random.Generator, held: tuple[Array, Array]) -> Array | None:
    """Return a uniform possible configuration by rejection; None after too many tries.

    Each failure increases the number of configurations in the next try.
    """
    tries = 1
    while True:
        found = _random(law.graph, rng, held, tries)
        good = law.possible(found)
        if good.any():
            return found[:, int(np.argmax(good))]
        if tries >= limits.START_TRIES:
            return None
        tries = min(limits.START_TRIES, tries * 8)


def _built(law: Law, rng: np.random.Generator, held: tuple[Array, Array]) -> Array | None:
    """Return a possible configuration at which a walk from a uniform one ends; None if it fails."""
    codes = _random(law.graph, rng, held, 1)[:, 0]
    return law.walk(random_key(int(rng.integers(2**32))), codes, held[0])


def random_rows(graph: FactorGraph, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return uniform configurations by variable, without latents.

    If some of them are impossible, copies of a few possible ones replace them.
    """
    verify_held(4 * rows * graph.n_cells, f"{rows:,} random rows of {counted(graph.n_cells, 'cell')}", "fewer `rows=`")
    params = {} if graph.network is not None else {k: jnp.asarray(v) for k, v in init_params(graph).items()}
    codes = generator(seed).integers(0, graph.sizes[:, None], (graph.n_cells, rows), dtype=np.int32)
    bad = np.zeros(rows, bool)  # A network excludes nothing.
    if graph.network is None:
        bad = ~(np.asarray(compiled.log_potential(graph_arrays(graph), params, jnp.asarray(codes))) > -np.inf)
    if bad.any():
        nothing_held = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, np.int32)
        possible = starts(graph, limits.FEW_POSSIBLE, seed, None, nothing_held, params).codes
        codes[:, bad] = possible[:, np.arange(bad.sum()) % limits.FEW_POSSIBLE]
    latents = {v.name for v in graph.latents}
    return {name: values for name, values in decode(graph, codes, (rows,)).items() if name not in latents}


class Walk(eqx.Module):
    """Walks from impossible configurations to possible ones, by moves of single cells.

    A move picks a violated instance of a factor or requirement at random. Of all changes of one of
    its cells it takes the one that violates the fewest instances that held before. If every change
    violates some, a random one is taken with probability `limits.WALK_NOISE`. A configuration that
    is found is possible, and follows no known distribution.

    Reference: Selman, Kautz and Cohen 1994 (WalkSAT), here for cells of any number of values.

    Attributes:
        device: the factor graph.
        params: the parameters.
        scopes: the cells of each instance, padded with the number of cells.
        sizes: the number of values of each cell, and 0.
        values: the largest number of values of a cell.
        tried: the number of cells of an instance that a move considers.
    """

    device: Graph
    params: Mapping[str, jax.Array]
    scopes: Int[jax.Array, "instances width"]
    sizes: Int[jax.Array, " cells_and_none"]
    values: int = eqx.field(static=True)
    tried: int = eqx.field(static=True)

    @classmethod
    def of(cls, graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array]) -> Walk:
        """Return the walks of a model; `device` is `graph` on the device."""
        scopes, values = _padded_scopes(graph), int(graph.sizes.max(initial=1))
        tried = min(scopes.shape[1], max(1, limits.WALK_AT_ONCE // (values * max(1, len(scopes)))))
        return cls(device, params, on_device(scopes, np.int32), on_device(np.append(graph.sizes, 0), np.int32), values, tried)

    def __call__(self, key: jax.Array, codes: Array, fixed: Array) -> Array | None:
        """Return a possible configuration, or None if the walk ends at an impossible one.

        Args:
            key: the key of the walk's choices.
            codes: the first configuration, shape (cells,).
            fixed: the cells that keep their values, shape (cells,).
        """
        evaluations = max(1, len(self.scopes) * self.tried * self.values)
        moves = int(np.clip(limits.MOST_EVALUATIONS / evaluations, limits.FEWEST_MOVES, limits.MOST_MOVES))
        free = on_device(np.append(~fixed, False), bool)
        found, is_impossible = _walked(self, key, on_device(codes, np.int32), free, on_device(moves, np.int32))
        return None if bool(is_impossible) else np.asarray(found)


def _padded_scopes(graph: FactorGraph) -> Array:
    """Return the cells of every instance of every group, padded with the number of cells."""
    width = max((g.scope.shape[1] for g in graph.groups), default=0)
    padded = [np.pad(g.scope, ((0, 0), (0, width - g.scope.shape[1])), constant_values=graph.n_cells) for g in graph.groups]
    return np.concatenate(padded)


@bounded_jit
def _walked(walk: Walk, key: jax.Array, codes: jax.Array, free: jax.Array, moves: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the end of a walk of at most `moves` moves, and whether it is impossible.

    Args:
        walk: the model.
        key: the key of the walk.
        codes: the first configuration, shape (cells,).
        free: the cells that may change, and False.
        moves: the largest number of moves.
    """
    scopes, sizes, tried, values = walk.scopes, walk.sizes, walk.tried, walk.values
    lost = ~free[scopes].any(axis=1)  # no move changes these
    value = jnp.tile(jnp.arange(values, dtype=codes.dtype), tried)

    def step(carried: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        t, codes, broken = carried
        pick, order, ties, other, noise = jax.random.split(jax.random.fold_in(key, t), 5)
        scope = scopes[_any_of(pick, broken)]
        chosen = jax.lax.top_k(jnp.where(free[scope], jax.random.uniform(order, scope.shape), -1.0), tried)[1]
        cells = jnp.repeat(scope[chosen], values)
        allowed = free[cells] & (value < sizes[cells]) & (value != jnp.append(codes, 0)[cells])
        trials = jnp.repeat(codes[:, None], len(value), axis=1).at[cells, jnp.arange(len(value))].set(value, mode="drop")
        after = _broken(walk, trials)
        harm = jnp.where(allowed, (after & ~broken[:, None]).sum(axis=0), jnp.iinfo(jnp.int32).max)
        best = _any_of(ties, harm == harm.min())
        random = _any_of(other, allowed)
        taken = jnp.where((harm[best] == 0) | (jax.random.uniform(noise) >= limits.WALK_NOISE), best, random)
        stuck = ~allowed.any()
        return t + 1, jnp.where(stuck, codes, trials[:, taken]), jnp.where(stuck, broken, after[:, taken])

    def goes_on(carried: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        t, _, broken = carried
        return (t < moves) & broken.any() & ~(broken & lost).any()

    _, codes, broken = jax.lax.while_loop(goes_on, step, (jnp.zeros((), jnp.int32), codes, _broken(walk, codes[:, None])[:, 0]))
    return codes, broken.any()


def _any_of(key: jax.Array, among: jax.Array) -> jax.Array:
    """Return the number of a true entry, each with the same probability."""
    return jnp.argmax(jnp.where(among, jax.random.uniform(key, among.shape), -1.0))


def _broken(walk: Walk, codes: jax.Array) -> jax.Array:
    """Return the instances that make each configuration impossible, shape (instances, rows).

    The instances are those of all groups.
    """
    values = [(g.kind, all_values(g, walk.params, codes)) for g in walk.device.groups]
    return jnp.concatenate([~v if kind == "require" else v == -jnp.inf for kind, v in values])
