"""Replicated data sets: the sources of their rows, and the statistics of each data set."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail
from .._types import ArrayLike, DrawsLike, Label, OfConfiguration
from ..data import decode, encode, picked
from ..derive import all_states, compiled, graph_arrays, on_device
from ..graph import FactorGraph, joint_count, lower_let
from ..plan import verify_held
from ..sample import effective_sample_size, groups_of
from ._scored_rows import params64
from .limits import DRAWS_PER_ROW, MOST_BINS, MOST_SEQUENCES, MOST_STATES, PILOT

if TYPE_CHECKING:
    from ..fit import Evidence, FitRecord

Array = np.ndarray


class AbstractSource(ABC):
    """Configurations from which the rows of replicated data sets are drawn.

    Attributes:
        codes: shape (cells, configurations), without a row cell.
        words: a description of the source.
        notes: remarks on the source.
    """

    codes: Array
    words: str
    notes: tuple[str, ...]

    @abstractmethod
    def draw(self, rng: np.random.Generator, rows: int) -> Array:
        """Return the number of a configuration for each row of the data."""


@dataclass(frozen=True)
class ReplicateSource(AbstractSource):
    """Configurations from which rows are drawn with replacement.

    Attributes:
        codes: shape (cells, configurations).
        weights: numbers proportional to the probabilities. None: all configurations have the same
            probability.
        chains: the number of chains from which the configurations come, one after the other. 0:
            they are all configurations.
        words: a description of the source.
        notes: remarks on the source.
    """

    codes: Array
    weights: Array | None
    chains: int
    words: str
    notes: tuple[str, ...] = ()

    def draw(self, rng: np.random.Generator, rows: int) -> Array:
        """Return the numbers of configurations, one per row."""
        if self.weights is None:
            return rng.integers(self.codes.shape[1], size=rows)
        return picked(rng, self.weights, rows)


@dataclass(frozen=True)
class GivenSource(AbstractSource):
    """Configurations with a distribution for each row of given data.

    Attributes:
        codes: shape (cells, configurations).
        bounds: the cumulative probabilities of the configurations given row d of the given data,
            plus d, shape (rows of given data, configurations).
        which: the row of given data of each row of the data.
        words: a description of the source.
        notes: remarks on the source.
    """

    codes: Array
    bounds: Array
    which: Array
    words: str
    notes: tuple[str, ...] = ()

    def draw(self, rng: np.random.Generator, rows: int) -> Array:
        """Return the number of a configuration for each row, from the distribution of that row."""
        states = self.bounds.shape[1]
        found = np.searchsorted(self.bounds.ravel(), self.which + rng.random(rows), side="right") - self.which * states
        return np.minimum(found, states - 1)


def given_source(fit: FitRecord, evidence: Evidence, which: Array) -> GivenSource:
    """Return every configuration with its probability given each row of the given data.

    Args:
        fit: the fit.
        evidence: the rows with their given data.
        which: the row of given data of each row of the data, shape (rows,).

    Raises:
        GmlmError: E601 if there are too many configurations, alone or with the rows.
    """
    graph = evidence.lowered.graph
    assert graph.row_cell is not None
    states = all_states(graph, MOST_STATES, "exact draws for each row of given data")
    distinct, which = np.unique(which, return_inverse=True)
    verify_held(
        16.0 * len(distinct) * states.shape[1], f"{states.shape[1]:,} configurations given {len(distinct):,} rows", "some rows: `x=`"
    )
    bounds = np.empty((len(distinct), states.shape[1]))
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        device, params = graph_arrays(graph), params64(fit, evidence)
        for d, row in enumerate(distinct):
            states[graph.row_cell] = row
            joint = np.asarray(compiled.log_potential(device, params, on_device(states)))
            total = np.cumsum(np.exp(joint - joint.max()))
            bounds[d] = d + total / total[-1]
    words = f"independent rows from all {states.shape[1]:,} configurations, given the data of each row"
    return GivenSource(states[: graph.n_random], bounds, which, words)


def exact_source(fit: FitRecord) -> ReplicateSource:
    """Return every configuration with its probability.

    Raises:
        GmlmError: E601 if there are too many.
    """
    states = all_states(fit.graph, MOST_STATES, "exact draws")
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        joint = np.asarray(compiled.log_potential(graph_arrays(fit.graph), params64(fit), on_device(states)))
    words = f"independent rows from all {states.shape[1]:,} configurations"
    return ReplicateSource(states, np.exp(joint - joint.max()), 0, words)


def is_listable(graph: FactorGraph) -> bool:
    """Return whether all configurations can be enumerated."""
    return joint_count(graph.sizes) <= MOST_STATES


def chain_source(fit: FitRecord, sampler: str | None, rows: int, seed: int, chains: int, warmup: int, thin: int | None) -> ReplicateSource:
    """Return draws of a sampler, `DRAWS_PER_ROW` for each row of the data.

    Without `thin`, a short run determines the number of steps between draws.

    Args:
        fit: the fit.
        sampler: the sampler's name, or None.
        rows: the number of rows of the data.
        seed: the seed of the chains.
        chains: the number of chains.
        warmup: the number of steps before the first draw.
        thin: the number of steps per draw, or None.
    """
    options: dict[str, Any] = {"warmup": warmup, "chains": chains, "seed": seed, "progress": False}
    if thin is None:
        with warnings.catch_warnings():
            # warnings of a run that is intentionally short
            warnings.simplefilter("ignore", UserWarning)
            pilot = _codes(fit, fit.sample(sampler, draws=PILOT, thin=1, **options))
        ess = _least(pilot, chains, fit.graph)
        thin = 1 if np.isnan(ess) else max(1, round(pilot.shape[1] / ess))
    draws = max(PILOT, -(-DRAWS_PER_ROW * rows // chains))
    idata = fit.sample(sampler, draws=draws, thin=thin, **options)
    codes = _codes(fit, idata)
    said = tuple(t for t in str(groups_of(idata)["posterior"].attrs.get("warnings", "")).split("\n") if t)
    ess = _least(codes, chains, fit.graph)
    name = idata.attrs["sampler"]
    words = f"{codes.shape[1]:,} draws of {chains} chains of `{name}`, {thin} runs apart"
    if not np.isnan(ess):
        words += f", worth {ess:,.0f} independent ones at the slowest statistic"
        if ess < DRAWS_PER_ROW * rows / 2:
            error = 100 * np.sqrt(rows / ess)
            said += (
                f"The draws are too correlated for {rows:,} rows: their Monte Carlo error is {error:.0f} % of the data's own noise, and "
                f"z and p mistake it for misfit. Raise `thin`, or use a sampler that mixes faster",
            )
    return ReplicateSource(codes, None, chains, words, said)


def _codes(fit: FitRecord, idata: DrawsLike) -> Array:
    """Return the codes of draws, shape (cells, chains * draws)."""
    posterior = groups_of(idata)["posterior"]
    values = {v.name: np.asarray(posterior[v.name].values) for v in fit.graph.variables}
    found = encode(fit.graph, values if len(values) > 1 else next(iter(values.values())))
    return found.codes.astype(np.int8 if fit.graph.sizes.max() < 128 else np.int32)


def _least(codes: Array, chains: int, graph: FactorGraph) -> float:
    """Return the smallest effective sample size of some indicators; nan if none of them varies.

    The indicators are those of values of cells, and of agreements of neighbouring cells.
    """
    draws = codes.reshape(graph.n_cells, chains, -1)
    singles = [draws[c] == v for c in range(graph.n_cells) for v in range(1 if graph.sizes[c] == 2 else 0, int(graph.sizes[c]))]
    starts, near = graph.neighbours
    pairs = [draws[c] == draws[o] for c in range(graph.n_cells) for o in near[starts[c] : starts[c + 1]] if o > c]
    sequences = singles + pairs
    step = -(-len(sequences) // MOST_SEQUENCES)
    with np.errstate(invalid="ignore"):
        ess = np.concatenate([effective_sample_size(s[:, :, None]) for s in sequences[::step]])
    return float(np.nanmin(ess)) if np.isfinite(ess).any() else float("nan")


# Statistics


class AbstractStatistics(ABC):
    """Statistics of a data set, each with a label.

    Rows are codes of shape (rows, cells), and `index` contains their numbers in the source.
    """

    name: str
    labels: tuple[str, ...]

    @abstractmethod
    def statistic(self, rows: Array, index: Array | None) -> Array:
        """Return the value of each statistic, shape (statistics,).

        The rows are the source's configurations `index`, or the data if `index` is None.
        """


class Marginals(AbstractStatistics):
    """The share of each value of each cell among the rows in which the cell is observed.

    For a cell with two values, only the share of the second value is included.
    """

    def __init__(self, graph: FactorGraph, seen: Array, weights: Array):
        self.name, self.seen, self.weights = "marginals", seen, weights
        self.total = weights @ seen
        self.cells = np.flatnonzero(self.total > 0).tolist()
        self.values = int(graph.sizes.max())
        wanted = [(c, v) for c in self.cells for v in range(1 if graph.sizes[c] == 2 else 0, int(graph.sizes[c]))]
        self.at = np.array(wanted, int).reshape(-1, 2)
        labels = labels_of(graph)
        self.labels = tuple(f"{graph.cell_name(c)} = {labels[c][v]}" for c, v in wanted)

    def statistic(self, rows: Array, index: Array | None) -> Array:
        del index
        shares = np.stack([self.weights @ ((rows == v) & self.seen) for v in range(self.values)], axis=1)
        return shares[self.at[:, 0], self.at[:, 1]] / self.total[self.at[:, 0]]


class Pairs(AbstractStatistics):
    """The agreement of each two cells among the rows in which both are observed.

    This is the share of rows in which they agree, or their joint table if their domains differ.
    """

    def __init__(self, graph: FactorGraph, seen: Array, weights: Array):
        self.name, self.seen = "pairs", seen
        self.type = np.float32 if (weights == 1).all() and len(weights) < 1 << 24 else np.float64
        self.weights = weights.astype(self.type)[:, None]
        self.sizes = graph.sizes
        domains = [(v.kind, v.labels) for v in graph.variables for _ in range(v.size)]
        kinds = [domains.index(d) for d in domains]
        both = self._product(seen, seen)
        first, second = np.triu_indices(graph.n_cells, 1)
        known = both[first, second] > 0
        alike = np.array([kinds[i] == kinds[j] for i, j in zip(first, second, strict=True)], bool)
        self.agree = np.stack([first, second], axis=1)[known & alike]
        self.classes = [np.flatnonzero(np.array(kinds) == k) for k in sorted(set(kinds))]
        apart = np.stack([first, second], axis=1)[known & ~alike]
        self.tables = [(i, j, a, b) for i, j in apart for a in range(graph.sizes[i]) for b in range(graph.sizes[j])]
        self.both = both
        labels, name = labels_of(graph), graph.cell_name
        self.labels = (
            *(f"{name(i)} = {name(j)}" for i, j in self.agree),
            *(f"{name(i)} = {labels[i][a]}, {name(j)} = {labels[j][b]}" for i, j, a, b in self.tables),
        )

    @staticmethod
    def cost(graph: FactorGraph, rows: int) -> float:
        """Return the number of operations for one data set."""
        domains = [(v.kind, v.labels) for v in graph.variables for _ in range(v.size)]
        alike = sum(domains.count(d) ** 2 * len(d[1]) for d in dict.fromkeys(domains))
        apart = float(graph.sizes.sum()) ** 2 if len(set(domains)) > 1 else 0.0
        return 2.0 * rows * (alike + apart)

    def statistic(self, rows: Array, index: Array | None) -> Array:
        del index
        agree = np.zeros(self.both.shape)
        for cells in self.classes:
            for v in range(int(self.sizes[cells[0]])):
                held = (rows[:, cells] == v) & self.seen[:, cells]
                agree[np.ix_(cells, cells)] += self._product(held, held)
        i, j = self.agree.T
        parts = [agree[i, j] / self.both[i, j]]
        if self.tables:
            starts = np.concatenate([[0], np.cumsum(self.sizes)])
            held = np.concatenate([(rows == v) & self.seen for v in range(int(self.sizes.max()))], axis=1)
            order = np.array([v * len(self.sizes) + c for c, q in enumerate(self.sizes) for v in range(q)])
            joint = self._product(held[:, order], held[:, order])
            i, j, a, b = np.array(self.tables).T
            parts.append(joint[starts[i] + a, starts[j] + b] / self.both[i, j])
        return np.concatenate(parts)

    def _product(self, left: Array, right: Array) -> Array:
        """Return the weighted number of rows in which two columns are both true."""
        return ((left * self.weights).T @ right.astype(self.type)).astype(float)


class Function(AbstractStatistics):
    """The distribution of a function of one configuration over the complete rows.

    The statistics are the mean, the standard deviation, and shares of values. For a function with
    two values the mean determines the distribution.
    """

    def __init__(self, name: str, source: Array, data: Array, complete: Array, weights: Array):
        self.name, self.source, self.data, self.complete = name, source, data, complete
        self.weights = weights[complete] / weights[complete].sum()
        known = np.unique(np.concatenate([source, data]))
        if len(known) <= 2:
            self.values, self.labels = None, (f"mean of {name}",)
            return
        self.values = known if len(known) <= MOST_BINS else None
        if self.values is not None:
            shares = [f"{name} = {v:.6g}" for v in self.values]
        else:
            self.edges = np.unique(np.quantile(data, np.linspace(0, 1, 11)[1:-1]))
            ends = ["", *(f"{e:.4g}" for e in self.edges), ""]
            shares = [f"{a} <= {name} < {b}".removeprefix(" <= ").removesuffix(" < ") for a, b in pairwise(ends)]
        self.labels = (f"mean of {name}", f"spread of {name}", *shares)

    def statistic(self, rows: Array, index: Array | None) -> Array:
        del rows
        f = self.data if index is None else self.source[index[self.complete]]
        if len(self.labels) == 1:
            return np.array([self.weights @ f])
        place = np.searchsorted(self.values, f) if self.values is not None else np.searchsorted(self.edges, f, side="right")
        mean = self.weights @ f
        spread = np.sqrt(max(self.weights @ (f - mean) ** 2, 0.0))
        return np.array([mean, spread, *np.bincount(place, self.weights, len(self.labels) - 2)])


class Summary(AbstractStatistics):
    """A function of a whole data set, evaluated on its complete rows."""

    def __init__(self, name: str, f: Callable[[Any], ArrayLike], graph: FactorGraph, complete: Array):
        self.name, self.labels, self.f, self.graph, self.complete = name, (name,), f, graph, complete

    def statistic(self, rows: Array, index: Array | None) -> Array:
        del index
        chosen = rows[self.complete]
        found = decode(self.graph, chosen.T, (len(chosen),))
        values = {v.name: found[v.name] for v in self.graph.observed}
        x = values if len(values) > 1 else next(iter(values.values()))
        return np.array([_number(self.name, lambda: self.f(x))])


def labels_of(graph: FactorGraph) -> list[tuple[Label, ...]]:
    """Return the labels of the values of each cell."""
    return [v.labels for v in graph.variables for _ in range(v.size)]


def function_values(fit: FitRecord, functions: Mapping[str, OfConfiguration | str], codes: Array) -> dict[str, Array]:
    """Evaluate functions of one configuration, or `let`s by name, at each column of codes.

    The arrays have the shape (columns,).

    Raises:
        GmlmError: E553 if a function fails, or does not return one number.
    """
    from ..sample import observables

    out, graph = {}, fit.graph
    for name, what in functions.items():
        let = what if isinstance(what, str) and what in fit.model.lowered.names.model.lets else None
        if let is not None and graph.latents:
            cells = np.append(graph.is_latent, False)[lower_let(fit.model.lowered, let)[0].cells]
            if cells.any():
                raise fail("E553", f"function `{name}` mentions a latent, which data do not hold", help="observe it in draws: `fit.sample`")
        if let is not None and graph.given and lower_let(fit.model.lowered, let)[0].given is not None:
            message = f"function `{name}` mentions a given variable, and is another one in each row"
            raise fail("E553", message, help="a function of x alone")
        observe = observables(fit.model.lowered, params64(fit), {name: what}, graph.observed)
        assert observe is not None
        array = _guarded(
            name, lambda observe=observe, name=name: np.asarray(observe(on_device(np.maximum(codes, 0), np.int32))[name], float)
        )
        if array.shape != (codes.shape[1],) or not np.isfinite(array).all():
            got = f"an array of shape {array.shape[1:]}" if array.ndim > 1 else "a number that is not finite"
            raise fail("E553", f"function `{name}` must give one number for each configuration, got {got}", help="`lambda x: x.sum()`, say")
        out[name] = array
    return out


def _number(name: str, f: Callable[[], ArrayLike]) -> float:
    array = _guarded(name, lambda: np.asarray(f(), float))
    if array.shape != () or not np.isfinite(array):
        got = f"an array of shape {array.shape}" if array.ndim else f"{array}"
        raise fail("E553", f"summary `{name}` must give one finite number for a data set, got {got}", help="`lambda x: x.mean()`, say")
    return float(array)


def _guarded(name: str, f: Callable[[], Array]) -> Array:
    """Call a user's function and report its errors as one diagnostic."""
    from .._diagnostics import GmlmError

    try:
        return f()
    except GmlmError:
        raise
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        text = f"`{name}` fails: {type(error).__name__}: {first}"
        help = "functions of one configuration are traced by JAX: use `jax.numpy`, and `jnp.where` for `if`"
        raise fail("E553", text, help=help) from None
