"""Where chains start: given configurations, uniform ones, and ones that are built where uniform ones are all impossible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, counted, fail, whole_number
from ..data import decode, encode, generator, keys_of
from ..derive import Graph, State, Target, all_values, bounded_jit, compiled, fold, graph_arrays, on_device
from ..evaluate import Contractions, independent_kernel, init_params, log_potentials
from ..graph import FactorGraph, is_positive
from ..plan import verify_held, with_partial_sums

Array = np.ndarray
START_TRIES = 2000
MOST_SUMMED = 1e7  # operations of a sum for starts: more is left to who asks for exact draws
# folded into the keys of starts that are drawn: no step of a chain has that number
START = 2**32 - 2
FEW = 64  # rows that are looked for where most random ones are impossible
NOISE = 0.05  # of the moves of a search take a value at random, so that it leaves dead ends
MOVES = (1000, 20)  # the most moves of a search: so many, and so many per cell


@dataclass(frozen=True)
class Annealed:
    """Starts that are cooled: `steps` runs of the sampler's body on p to the power 1/steps, 2/steps, .., 1, from uniform values.

    A chain then begins in a mode that it found while it was hot, rather than in the one nearest to
    a random configuration. Chains still need their warm-up; and where modes are far apart, only
    `temper` moves between them.

    Reference: Kirkpatrick, Gelatt and Vecchi 1983.
    """

    steps: int = 200


def annealed(steps: int = 200) -> Annealed:
    """For `init=` of `Model.sample`: chains that start at uniform values and are cooled from beta 0 to 1.

    Args:
        steps: runs of the sampler's body before the warm-up, at beta 1/steps, 2/steps, .., 1.

    Raises:
        GmlmError: E507 unless `steps` is a whole number of at least 1.
    """
    return Annealed(whole_number("annealed: steps", steps, 1))


@dataclass(frozen=True)
class Starts:
    """Codes of shape (cells, chains), and how they were found.

    `given`, `uniform`, `built` or `drawn` from p for some chains, or the sampler's `own`.
    """

    codes: Array
    how: str


def at_held(held: tuple[Array, Array], chains: int) -> Starts:
    """The held cells, and anything in the others: where each draw begins anew nothing looks at them."""
    return Starts(np.repeat(held[1][:, None], chains, axis=1), "own")


def starts(graph: FactorGraph, chains: int, seed: int, init: Any, held: tuple[Array, Array], params: Mapping[str, Any]) -> Starts:
    """Starts of positive probability: given, or independent uniform values.

    Where no uniform configuration out of 2000 is possible, one is built: from a uniform one, cells
    of broken requirements are set, one after another, to the value that breaks the fewest (the
    min-conflicts heuristic). Such starts are possible, but not uniform. Where that fails, starts
    are draws from p, if p can be summed exactly.

    Raises:
        GmlmError: E509 if a start is impossible, or none was found; E512 where it is known that
            there is none.

    Reference: Minton, Johnston, Philips and Laird 1992.
    """
    law = law_of(graph, params)
    if init is not None and not isinstance(init, Annealed):
        return Starts(_given(law, chains, seed, init, held), "given")
    # chain by chain, and turned once: columns are slow to write
    codes, how = np.zeros((chains, graph.n_cells), np.int32), "uniform"
    exact: dict[int, Array] | None = None  # draws from p by chain, made where one is wanted
    for c in range(chains):
        rng = generator(seed, c)
        found = _uniform(law, rng, held)
        if found is None:
            found, how = _built(law, rng, held), "built"
        if found is None:
            exact = _drawn(graph, chains, seed, held, params) if exact is None else exact
            found, how = exact.get(c), "drawn"
        if found is None:
            message = "no start of positive probability was found, neither among uniform values nor by moves of single cells"
            raise fail("E509", message, help="pass one that satisfies every `require`: `init=..`")
        codes[c] = found
    return Starts(np.ascontiguousarray(codes.T), how)


def _drawn(graph: FactorGraph, chains: int, seed: int, held: tuple[Array, Array], params: Mapping[str, Any]) -> dict[int, Array]:
    """Independent draws given the held cells by chain, each by its number alone; none where p cannot be summed quickly.

    Raises:
        GmlmError: E512 where no configuration agrees with the held cells.
    """
    whole = with_partial_sums(graph)
    more = whole.n_cells - graph.n_cells
    fixed, values = np.append(held[0], np.zeros(more, bool)), np.append(held[1], np.zeros(more, np.int32))
    device, known = graph_arrays(whole), {k: jnp.asarray(v) for k, v in params.items()}
    kept = Contractions(whole)
    try:
        if kept.holding(fixed, "a start")[0].flops > MOST_SUMMED:
            return {}
        kernel, _ = independent_kernel(kept, device, known, (fixed, values))
    except GmlmError as error:
        if "E512" in error.codes:
            raise
        return {}
    state = State(on_device(np.repeat(values[:, None], chains, axis=1), np.int32))
    drawn = kernel.step(Target(device, known, None), fold(keys_of(seed, np.arange(chains)), START), state)[0]
    return dict(enumerate(np.asarray(drawn.codes)[: graph.n_cells].T))


@dataclass(frozen=True)
class Law:
    """What decides whether a configuration is possible; `device` is None where bounds show that every one is."""

    graph: FactorGraph
    params: Mapping[str, Any]
    device: Graph | None

    def possible(self, codes: Array) -> Array:
        """Which configurations have a positive probability, shape (rows,)."""
        return np.ones(codes.shape[1], bool) if self.device is None else log_potentials(self.device, self.params, codes) > -np.inf


def law_of(graph: FactorGraph, params: Mapping[str, Any]) -> Law:
    """The distribution of a model at some parameters."""
    positive = is_positive(graph, {k: np.asarray(v) for k, v in params.items()})
    return Law(graph, params, None if positive else graph_arrays(graph))


def _given(law: Law, chains: int, seed: int, init: Any, held: tuple[Array, Array]) -> Array:
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
    """A start whose lacking latents and masked cells are filled in; with any values where none that is possible was found."""
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
    """A uniform possible configuration by rejection, more at a time after each failure; None after too many."""
    tries = 1
    while True:
        found = _random(law.graph, rng, held, tries)
        good = law.possible(found)
        if good.any():
            return found[:, int(np.argmax(good))]
        if tries >= START_TRIES:
            return None
        tries = min(START_TRIES, tries * 8)


def _built(law: Law, rng: np.random.Generator, held: tuple[Array, Array]) -> Array | None:
    """A possible configuration by moves of single cells; None where the search ends without one."""
    graph, device = law.graph, law.device
    assert device is not None  # a uniform configuration was impossible
    free = np.append(~held[0], False)
    scopes = _padded_scopes(graph)
    most = MOVES[0] + MOVES[1] * graph.n_cells
    breaks: Callable[[Array], Array] = lambda codes: np.asarray(_broken(device, law.params, on_device(codes)))  # noqa: E731
    codes = _random(graph, rng, held, 1)[:, 0]
    # one shape for every move, so that one program is compiled
    width = int(graph.sizes.max(initial=1))
    broken = breaks(np.repeat(codes[:, None], width, axis=1))[:, 0]
    for _ in range(most):
        if not broken.any():
            return codes
        scope = scopes[rng.choice(np.flatnonzero(broken))]
        cells = scope[free[scope]]
        if not len(cells):
            continue  # clamped as a whole; another one is picked next time
        cell = int(rng.choice(cells))
        trials = np.repeat(codes[:, None], width, axis=1)
        trials[cell] = np.arange(width) % graph.sizes[cell]
        found = breaks(trials)
        counts = found.sum(axis=0)
        best = np.flatnonzero(counts == counts.min()) if rng.random() > NOISE else np.arange(width)
        pick = int(rng.choice(best))
        codes, broken = trials[:, pick], found[:, pick]
    return None


def _padded_scopes(graph: FactorGraph) -> Array:
    """The cells of every instance of every group, padded with the number of cells."""
    width = max((g.scope.shape[1] for g in graph.groups), default=0)
    padded = [np.pad(g.scope, ((0, 0), (0, width - g.scope.shape[1])), constant_values=graph.n_cells) for g in graph.groups]
    return np.concatenate(padded)


@bounded_jit
def _broken(device: Graph, params: Mapping[str, Any], codes: jax.Array) -> jax.Array:
    """Which instances make a configuration impossible, shape (instances of all groups, rows)."""
    values = [(g.kind, all_values(g, params, codes)) for g in device.groups]
    return jnp.concatenate([~v if kind == "require" else v == -jnp.inf for kind, v in values])


def random_rows(graph: FactorGraph, rows: int) -> dict[str, Any]:
    """Uniform configurations by variable, latents left out; where some are impossible, copies of a few possible ones take their place."""
    verify_held(4 * rows * graph.n_cells, f"{rows:,} random rows of {counted(graph.n_cells, 'cell')}", "fewer `rows=`")
    params = {k: jnp.asarray(v) for k, v in init_params(graph).items()}
    codes = generator(0).integers(0, graph.sizes[:, None], (graph.n_cells, rows), dtype=np.int32)
    bad = ~(np.asarray(compiled.log_potential(graph_arrays(graph), params, jnp.asarray(codes))) > -np.inf)
    if bad.any():
        nothing_held = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, np.int32)
        possible = starts(graph, FEW, 0, None, nothing_held, params).codes
        codes[:, bad] = possible[:, np.arange(bad.sum()) % FEW]
    latents = {v.name for v in graph.latents}
    return {name: values for name, values in decode(graph, codes, (rows,)).items() if name not in latents}
