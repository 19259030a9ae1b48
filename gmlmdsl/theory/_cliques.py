"""Ising models by the numbers of their factors, and their cliques of strongly coupled cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

from .._diagnostics import fail
from .._types import Given, ParamsLike
from ..data import bound_once
from ..evaluate import known_params
from ..graph import FactorGraph, verify_is_model
from ._local_tables import LocalTables, local_tables
from .limits import MOST_CLIQUES, MOST_HIGHER_ORDERS, MOST_LISTED_CELLS, MOST_THRESHOLDS, NEGLIGIBLE

if TYPE_CHECKING:
    from ..model import JointModel

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Clique:
    """A clique with its constants.

    Attributes:
        cells: positions, ascending.
        signs: for each cell +1 if R_1 has its second value, and -1 if R_1 has its first value.
        hG, most_hG: the smallest and the largest value of the sum of the fields over the outside.
        mode_gap, stay_field: the two J0.
    """

    cells: tuple[int, ...]
    signs: tuple[int, ...]
    hG: float
    most_hG: float
    mode_gap: float
    stay_field: float

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.cells)

    @property
    def r(self) -> float:
        """The constant |C| tanh(J0) / 2 - 1."""
        return self.size * math.tanh(self.stay_field) / 2 - 1

    @property
    def log_weights(self) -> Array:
        """Logarithms of the relative weights of R_1, R_-1 and all other values.

        The weights bound the probabilities of these, see `ModeSeparation`.
        """
        others = math.log(2.0**self.size - 2) if self.size < 1000 else self.size * math.log(2)
        return np.array([2 * (self.mode_gap + self.hG), 2 * self.mode_gap, others])

    @property
    def log_leaving(self) -> float:
        """The logarithm of a bound on leaving: a binomial tail.

        The bound is on the probability that one independent parallel step raises the sum over C
        above -2.
        """
        most = (self.size - 2) // 2  # number of cells that may be +1
        log_up = -float(np.logaddexp(0.0, 2 * self.stay_field))
        log_tail = float(binom.logsf(most, self.size, math.exp(log_up)))
        union = gammaln(self.size + 1) - gammaln(most + 2) - gammaln(self.size - most) + (most + 1) * log_up
        return min(float(union), 0.0) if not math.isfinite(log_tail) else log_tail


def strongest_clique(found: Ising) -> Clique:
    """Return the clique of strong pairs that independent updates leave least probably.

    The probability is the bound `log_leaving`.

    Raises:
        GmlmError: E710 if no two cells interact.
    """
    cliques = [clique_of(found, cells) for cells in strong_cliques(found.J)]
    if not cliques:
        raise fail("E710", "mode separation: no two cells of the model interact, so none is a clique", help="the model has no such modes")
    return max(cliques, key=lambda c: (-c.log_leaving, c.size, c.stay_field))


def clique_of(found: Ising, cells: tuple[int, ...]) -> Clique:
    """Return the constants of a clique.

    The spins are signed such that couplings to the clique's first cell are positive and the fields
    favour +1.
    """
    at = np.array(cells)
    signs = np.where(found.J[at, at[0]] < 0, -1, 1)
    signs = -signs if (signs * found.h[at]).sum() < 0 else signs
    h, J = signs * found.h[at], np.outer(signs, signs) * found.J[np.ix_(at, at)]
    outside = signs[:, None] * np.delete(found.J[at], at, axis=1)
    outside = outside[:, np.abs(outside).any(axis=0)]
    spread = float(np.abs(outside.sum(axis=0)).sum())
    gap = _mode_gap(h, J, outside) if len(cells) <= MOST_LISTED_CELLS else _least_mode_gap(h, J, outside)
    turned = tuple(signs.tolist())
    return Clique(cells, turned, float(h.sum()) - spread, float(h.sum()) + spread, gap, _stay_field(h, J, outside))


def _mode_gap(h: Array, J: Array, outside: Array) -> float:
    """Return the smallest half difference of log p between all -1 and a set S of cells at +1.

    S is neither empty nor all cells.
    """
    size = len(h)
    up = ((np.arange(1, 2**size - 1)[:, None] >> np.arange(size)) & 1).astype(float)
    return float((((up @ J) * (1 - up)).sum(axis=1) - up @ h - np.abs(up @ outside).sum(axis=1)).min())


def _least_mode_gap(h: Array, J: Array, outside: Array) -> float:
    """Return a lower bound on the mode gap.

    m cells at +1 meet the smallest coupling m (|C| - m) times, and the m largest fields.
    """
    size, weakest = len(h), float(J[~np.eye(len(J), dtype=bool)].min())
    m = np.arange(1, size)
    return float((weakest * m * (size - m) - np.cumsum(np.sort(h + np.abs(outside).sum(axis=1))[::-1])[:-1]).min())


def _stay_field(h: Array, J: Array, outside: Array) -> float:
    """Return the smallest -(field) of a cell of the clique while the sum over it is at most -2.

    The other cells at +1 are then at most (|C| - 2) / 2.
    """
    most = (len(h) - 2) // 2
    best = np.sort(np.maximum(J, 0.0), axis=1)[:, ::-1][:, :most].sum(axis=1)
    return float(-(h + np.abs(outside).sum(axis=1) - J.sum(axis=1) + 2 * best).max())


def strong_cliques(J: Array) -> Iterator[tuple[int, ...]]:
    """Yield the maximal cliques of the graphs of all pairs with |J_ij| at least a threshold.

    The thresholds start at the largest |J_ij| and fall. Each clique occurs once, and there are at
    most 2048. At most 32 thresholds are tried; among more, they are evenly spaced order statistics.
    """
    size = np.abs(J)
    levels = np.unique(size[np.triu_indices(len(J), 1)])
    levels = levels[levels > NEGLIGIBLE * levels.max(initial=0.0)][::-1]
    # Couplings that differ by rounding only are merged into one level.
    levels = levels[np.append(True, -np.diff(levels) > NEGLIGIBLE * levels[:-1])] if len(levels) else levels
    if len(levels) > MOST_THRESHOLDS:
        levels = levels[np.linspace(0, len(levels) - 1, MOST_THRESHOLDS).round().astype(int)]
    seen: set[tuple[int, ...]] = set()
    for level in levels:
        for clique in _maximal_cliques(size >= level * (1 - NEGLIGIBLE)):
            if clique not in seen:
                seen.add(clique)
                yield clique
            if len(seen) >= MOST_CLIQUES:
                return


def _maximal_cliques(adjacent: Array) -> Iterator[tuple[int, ...]]:
    """Yield all maximal cliques of at least two cells (Bron and Kerbosch 1973, with pivots)."""
    near = [frozenset(np.flatnonzero(row).tolist()) - {i} for i, row in enumerate(adjacent)]
    start = frozenset(i for i, others in enumerate(near) if others)
    todo: list[tuple[frozenset[int], frozenset[int], frozenset[int]]] = [(frozenset(), start, frozenset())]
    while todo:
        chosen, open_, closed = todo.pop()
        if not open_:
            if not closed and len(chosen) > 1:
                yield tuple(sorted(chosen))
            continue
        pivot = max(open_ | closed, key=lambda v: (len(near[v] & open_), -v))
        for v in sorted(open_ - near[pivot]):
            todo.append((chosen | {v}, open_ & near[v], closed & near[v]))
            open_, closed = open_ - {v}, closed | {v}


@dataclass(frozen=True, eq=False)
class Ising:
    """An Ising model, with log p(x) = constant + sum of h_i s_i + sum of J_ij s_i s_j.

    The first sum is over cells i. The second sum is over pairs i < j, so that each unordered pair
    occurs once. s_i is -1 at the first value of a cell and +1 at the second, whatever its domain
    calls them.

    Attributes:
        graph: the factor graph, whose cells i counts, with latents among them.
        h: shape (cells,).
        J: symmetric with a zero diagonal, shape (cells, cells).
    """

    graph: FactorGraph
    h: Array
    J: Array


def ising(model: JointModel, params: ParamsLike, what: str, given: Given | None = None) -> Ising:
    """Return a model as an Ising model, from the exact expansion of all its factors.

    Every function of two-valued cells is a sum of products of spins in a unique way, with its Walsh
    coefficients. A model is therefore an Ising model if the coefficients of all products of three
    or more spins are 0 after the factors are added.

    Args:
        model: the model.
        params: parameters.
        what: the name of the quantity in error messages.
        given: one row of data of given variables.

    Raises:
        GmlmError: E711 if the model is not an Ising model; E601 for a factor over very many cells;
            E510 for given data that do not fit.

    Reference: Li et al. 2024, Equations 5 and 6; a pair counts once.
    """
    verify_is_model(model)
    lowered = bound_once(model.lowered, given, what)
    graph, n = lowered.graph, lowered.graph.n_random
    sizes = graph.sizes[:n]
    if (sizes != 2).any():
        cell = int(np.argmax(sizes != 2))
        raise _none(what, f"`{graph.cell_name(cell)}` has {sizes[cell]} values", "it needs cells of two values each")
    with jax.enable_x64(True):
        numbers = {k: np.asarray(v, np.float64) for k, v in known_params(lowered.graph, params).items()}
    h, J, higher = np.zeros(n), np.zeros((n, n)), {}
    for tables in local_tables(graph, what):
        _expand(graph, tables, numbers, what, h, J, higher)
    scale = max(np.abs(h).max(initial=0.0), np.abs(J).max(initial=0.0), max(map(abs, higher.values()), default=0.0))
    for cells, value in higher.items():
        if abs(value) > NEGLIGIBLE * scale:
            names = " * ".join(graph.cell_name(c) for c in cells)
            raise _none(
                what,
                f"log p as a function of spins has the term {value:.6g} * {names}",
                "it needs log p affine in single spins and pairs of them",
            )
    return Ising(graph, h, J + J.T)


def _none(what: str, found: str, needed: str) -> Exception:
    return fail("E711", f"{what}: the model is not an Ising model, {found}", help=needed)


def _expand(
    graph: FactorGraph,
    tables: LocalTables,
    params: Mapping[str, Array],
    what: str,
    h: Array,
    J: Array,
    higher: dict[tuple[int, ...], float],
) -> None:
    """Add the coefficients of the factors of one kind; pairs are in the upper triangle of J."""
    found, axes = tables.values(params), len(tables.sizes)
    if not np.isfinite(found).all():
        instance = int(np.argmax(~np.isfinite(found.reshape(len(found), -1)).all(axis=1)))
        names = ", ".join(graph.cell_name(int(c)) for c in tables.cells[instance])
        raise _none(what, f"a factor over {names} is not finite at some values", "it needs every configuration to be possible")
    for axis in range(1, axes + 1):
        first, second = np.take(found, 0, axis), np.take(found, 1, axis)
        found = np.stack([(first + second) / 2, (second - first) / 2], axis)
    found = found.reshape(len(found), -1)
    inside = np.stack(np.unravel_index(np.arange(found.shape[1]), tables.sizes), axis=1) if axes else np.zeros((1, 0), int)
    order = inside.sum(axis=1)
    for k in np.flatnonzero(order == 1):
        np.add.at(h, tables.cells[:, inside[k] == 1][:, 0], found[:, k])
    for k in np.flatnonzero(order == 2):
        i, j = tables.cells[:, inside[k] == 1].T
        np.add.at(J, (i, j), found[:, k])
    floor = NEGLIGIBLE**2 * np.abs(found[:, order > 0]).max(initial=0.0)
    for k in np.flatnonzero(order > 2):
        for instance in np.flatnonzero(np.abs(found[:, k]) > floor):
            cells = tuple(tables.cells[instance, inside[k] == 1].tolist())
            higher[cells] = higher.get(cells, 0.0) + float(found[instance, k])
        if len(higher) > MOST_HIGHER_ORDERS:
            raise _none(what, f"log p has more than {MOST_HIGHER_ORDERS:,} products of three and more spins", "it needs none")
