"""Ising mode separation: how soon block updates reach a mode, and how long others stay out of it.

In the setting of the paper, the cells of a clique C are coupled so strongly that all agree most of
the time. They are in the mode R_1, or in the less probable mode R_-1, in which all are opposite.
Steps that redraw C jointly move from one mode to the other. Steps that redraw every cell
separately, given the old values of the others, do not.

The constants are derived here from the model rather than assumed, each as sharp as the proof that
uses it allows. Let the spins s be signed such that R_1 is s = 1 on C. Let f_i(y) = h_i + sum over j
outside C of J_ij y_j be the field of the outside y, and let W(s_C | y) be log p up to a constant.

- hG = min over y of the sum over C of f_i(y), so that W(1 | y) - W(-1 | y) >= 2 hG.
- The mode gap J0 is the min over y, and over s_C other than the modes, of
  (W(-1 | y) - W(s_C | y)) / 2.
- The stay field J0 is the min of -(field of cell i) over i in C, y, and all s_C with sum <= -2.

Proposition 4 takes the mode gap J0. If K contains C, then C is drawn as 1 with probability at least
exp(2 (J0 + hG)) / (exp(2 (J0 + hG)) + exp(2 J0) + 2^|C| - 2), whatever the state and the other
cells of K. A step therefore misses R_1 with probability at most c.

Proposition 5 takes the stay field J0. From sum <= -2, each cell of C becomes +1 with probability at
most 1 / (1 + exp(2 J0)), independently. Hoeffding's inequality with r = |C| tanh(J0) / 2 - 1 > 0
bounds the probability that the sum rises above -2. The tail of a binomial distribution bounds it
more closely, and for every r.

Proposition 8 takes the same inequalities in expectation over y, which bounds p(R_1) and p(R_-1).

Corollary 1 combines both for `delta` and a number of steps M. If its assumptions hold, one step of
block updates is in R_1, and M steps of independent parallel updates are not, with probability at
least 1 - delta. The assumptions are:

- Assumption 5: J0 > 0 and hG > 0.
- Assumption 6: |C| >= 8 (1 + ln(4 M / delta)), hG >= ln(2 (4 - delta) / delta) / 2 and
  J0 >= |C| ln(2) / 2.
- Assumption 7: k >= max(|C|, N - delta (N + 1) / ((4 - delta) |C| + delta)). Its proof uses only
  that P(K contains C) >= (4 - 2 delta) / (4 - delta), which is the condition for other masks.

They are checked with the constants above. For the model of Equation 6 these are never smaller than
the printed ones, J0 = J - the sum of all |h_i| and hG = the sum of h_i over C. Assumption 5 also
states that hG exceeds the sum of |h_i| outside C. No step of the proof of Corollary 1 uses that.

Reference: Li et al. 2024, Equations 5 to 8, Assumptions 5 to 7, Propositions 4, 5 and 8, Corollary
1.

The cliques are those of strongly coupled cells.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

from .._diagnostics import fail, is_whole_number
from .._types import Given, ParamsLike, Place
from ..data import bound_once
from ..evaluate import known_params
from ..graph import FactorGraph, verify_is_model
from ..masks import AbstractMask, chance_among
from ._configurations import LocalTables, local_tables
from ._quantity import Quantity
from .limits import MOST_CLIQUES, MOST_HIGHER_ORDERS, MOST_LISTED_CELLS, MOST_THRESHOLDS, NEGLIGIBLE

if TYPE_CHECKING:
    from ..model import JointModel, Params

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


@dataclass(frozen=True)
class Condition:
    """A number that must be above 0 (at least 0 if `or_equal`).

    Attributes:
        meaning: the meaning of the condition, in words.
        needed_by: the statement that needs the condition.
        value: the number; its size is the margin by which the condition holds or fails.
        or_equal: whether 0 satisfies the condition.
    """

    meaning: str
    needed_by: str
    value: float
    or_equal: bool = False

    @property
    def holds(self) -> bool:
        """Whether the condition is satisfied."""
        return self.value >= 0 if self.or_equal else self.value > 0


@dataclass(frozen=True, eq=False)
class ModeSeparation:
    """The bounds of Propositions 4, 5 and 8 and Corollary 1 for a clique of an Ising model.

    The bounds are valid whether or not the conditions hold. If the conditions fail, the bounds are
    weak or vacuous.

    Attributes:
        clique: the cells and their constants.
        mode, opposite: R_1 and R_-1, the values of the clique's cells by name.
        delta: the probability of an exception.
        steps: M of Corollary 1, the number of steps for which independent updates shall stay.
        blocks: the blocks of the chain, in words.
        cover: the probability that a step's block contains the clique.
        conditions: the conditions of the statements, with the values found.
        J0: the smaller of the mode gap and the stay field, for which the inequalities of both
            propositions hold.
        hG, r: see the module's formulas.
        c: an upper bound on the probability that one step of block updates misses R_1.
        reach_steps: Proposition 4. From any start, block updates have been in R_1 within this
            number of steps with probability at least 1 - delta.
        stay_steps: Proposition 5 as printed. Independent parallel updates stay for this number of
            steps in the region with sum at most -2 over the clique, outside R_1. This has
            probability at least 1 - delta from any start in the region. It is 0 if the bound is
            vacuous.
        binomial_stay_steps: the number of steps by the binomial tail in place of Hoeffding's
            inequality and a union bound; never smaller than `stay_steps`.
        mass, opposite_mass, rest_mass: Proposition 8. Lower bounds on p(R_1) and p(R_-1), and an
            upper bound on the probability of all other values of the clique.

    Reference: Li et al. 2024, Propositions 4, 5 and 8, Corollary 1.
    """

    clique: Clique
    mode: dict[str, np.ndarray]
    opposite: dict[str, np.ndarray]
    delta: float
    steps: int
    blocks: str
    cover: float
    conditions: tuple[Condition, ...]
    J0: float
    hG: float
    r: float
    c: Quantity
    reach_steps: Quantity
    stay_steps: Quantity
    binomial_stay_steps: Quantity
    mass: Quantity
    opposite_mass: Quantity
    rest_mass: Quantity

    @property
    def holds(self) -> bool:
        """Whether every condition of Assumptions 5 to 7 holds, so that Corollary 1 applies."""
        return all(c.holds for c in self.conditions)

    @property
    def statement(self) -> str:
        """Corollary 1 in words, with the numbers of this model, or why it does not apply."""
        sure = f"with probability at least {1 - self.delta:g}"
        stay = max(self.stay_steps, self.binomial_stay_steps)
        parts = []
        if np.isfinite(self.reach_steps):
            parts.append(f"{self.blocks} reach {_shown(self.mode)} from any start within {self.reach_steps:,.0f} steps {sure}")
        else:
            parts.append(f"{self.blocks} never redraw the clique as one block: nothing bounds when they reach {_shown(self.mode)}")
        if stay >= 1:
            parts.append(f"independent parallel updates from {_shown(self.opposite)} are kept out of it for {stay:,.6g} steps {sure}")
        else:
            parts.append("nothing keeps independent parallel updates out of it")
        if stay > self.reach_steps:
            parts.append("so independent updates are slower")
        failed = [c.meaning for c in self.conditions if not c.holds]
        ending = (
            f" Corollary 1 does not apply, these fail: {'; '.join(failed)}."
            if failed
            else f" Corollary 1 applies: {sure} one step of {self.blocks} is in the mode, and {self.steps:,} of the others are not."
        )
        return "; ".join(parts) + "." + ending

    def __repr__(self) -> str:
        setting = f"delta {self.delta:g}, M = {self.steps:,}, {self.blocks}"
        lines = [f"mode separation of the clique {', '.join(self.mode)} ({setting})"]
        for c in self.conditions:
            lines.append(f"  {'holds' if c.holds else 'FAILS'}  {c.meaning}: {c.value:.6g} (for {c.needed_by})")
        lines.append(f"  J0 = {self.J0:.6g} (mode gap {self.clique.mode_gap:.6g}, stay field {self.clique.stay_field:.6g})")
        lines.append(f"  hG = {self.hG:.6g}, r = {self.r:.6g}, c = {self.c:.6g}, P(K contains the clique) = {self.cover:.6g}")
        lines.append(f"  Proposition 4: R_1 is reached within {self.reach_steps:,.0f} steps")
        lines.append(
            f"  Proposition 5: independent updates stay {self.stay_steps:,.6g} steps; by the binomial tail {self.binomial_stay_steps:,.6g}"
        )
        lines.append(f"  Proposition 8: p(R_1) >= {self.mass:.6g}, p(R_-1) >= {self.opposite_mass:.6g}, the rest <= {self.rest_mass:.6g}")
        return "\n".join([*lines, f"  {self.statement}"])


def _shown(values: dict[str, np.ndarray]) -> str:
    distinct = set(map(str, values.values()))
    return f"all {next(iter(distinct))}" if len(distinct) == 1 else "(" + ", ".join(f"{k} = {v}" for k, v in values.items()) + ")"


def mode_separation(
    model: JointModel,
    params: Params,
    mask: str | None = None,
    *,
    k: int | None = None,
    clique: Sequence[int] | None = None,
    delta: float = 0.05,
    steps: int = 1,
    given: Given | None = None,
) -> ModeSeparation:
    """Bound how soon block updates of an Ising model reach a mode, and how long others stay out.

    Block updates reach the heavier mode R_1 within at most a number of steps. Independent parallel
    updates stay out of it for at least a number of steps.

    Any model counts as an Ising model if its cells have two values and log p is affine in single
    spins and pairs of them, whatever its domains and factors are called. A cell's second value is
    the spin +1. Couplings of either sign are allowed if those of the clique can be made positive by
    flipping the signs of cells. The mode R_1 is the one that the fields favour.

    Args:
        model: the model; its latents are treated like other cells.
        params: parameters.
        mask: the name of the mask that draws the blocks of the chain; it must not look at x. It may
            be left out if the model has one mask, or with `k`.
        k: in place of a mask, blocks are uniform among all sets of k cells (k-Gibbs).
        clique: positions of the clique's cells, at least two. None considers the cliques of pairs
            with |J_ij| above each threshold, and takes the one that independent updates leave with
            the smallest probability.
        delta: the probability of an exception.
        steps: M of Corollary 1, for how many steps independent updates shall stay. It enters the
            conditions alone.
        given: one row of data of given variables.

    Raises:
        GmlmError: E711 for a model that is not an Ising model, E710 if no two cells interact, E507
            for arguments out of bounds.

    Reference: Li et al. 2024, Propositions 4, 5 and 8, Corollary 1 (k-Gibbs: Definition 10;
    independent parallel: Definition 11).
    """
    if not 0 < delta < 1:
        raise fail("E507", f"delta must lie between 0 and 1, got {delta!r}")
    if not is_whole_number(steps) or steps < 1:
        raise fail("E507", f"steps must be a whole number of at least 1, got {steps!r}")
    found = ising(model, params, "mode separation", given)
    blocks, cover_of = _chain(model, mask, k)
    chosen = strongest_clique(found) if clique is None else clique_of(found, _positions(found.graph, clique))
    cover = cover_of(np.array(chosen.cells))
    needed = _covered(delta, cover) if k is None else _large(found.graph.n_random, k, chosen.size, delta)
    conditions = (*_conditions(chosen, cover, delta, steps), needed)
    return _separation(found.graph, chosen, (delta, steps), (blocks, cover), conditions, f"mode_separation({model.name})")


def _positions(graph: FactorGraph, clique: Sequence[Place]) -> tuple[int, ...]:
    try:
        cells = np.asarray(clique)
        good = cells.ndim == 1 and cells.dtype.kind in "iu" and len(cells) > 1 and len(np.unique(cells)) == len(cells)
        good = good and int(cells.min()) >= 0 and int(cells.max()) < graph.n_random
    except (TypeError, ValueError):
        good = False
    if not good:
        message = f"clique must be two or more distinct positions from 0 to {graph.n_random - 1}, got {clique!r}"
        raise fail("E507", message, help="`model.positions(name)` gives a variable's")
    return tuple(sorted(np.asarray(clique).tolist()))


def _chain(model: JointModel, mask: str | None, k: int | None) -> tuple[str, Any]:
    """Return the chain's blocks in words, and the probability that a block contains given cells.

    The probability is a function of the cells.
    """
    if k is None:
        name, lowered = model.mask(mask)
        # raises an error for a mask that no proposition covers
        _cover(lowered, np.zeros(0, np.int64), name)
        return f"updates of mask {name}", lambda cells: _cover(lowered, cells, name)
    if mask is not None:
        raise fail("E507", "`mask` and `k` both say which blocks are drawn", help="give one of them")
    n = model.graph.n_random
    if not is_whole_number(k) or not 1 <= k <= n:
        raise fail("E507", f"k must be a whole number from 1 to {n}, got {k!r}")
    return f"{k}-Gibbs updates", lambda cells: chance_among(n, int(k), len(cells))


def _cover(mask: AbstractMask, cells: Array, name: str) -> float:
    """Return the probability that a block of a mask contains some cells."""
    found = mask.probability_of_holding(cells)
    if found is None:
        message = f"mode separation: the blocks of mask `{name}` have no fixed probabilities"
        part = next(leaf for leaf in mask.leaves() if leaf.probability_of_holding(cells) is None)
        raise fail("E507", message, part.span, help="take a mask whose weights mention neither cells nor parameters nor given variables")
    return found


def _separation(
    graph: FactorGraph, q: Clique, chances: tuple[float, int], chain: tuple[str, float], conditions: tuple[Condition, ...], source: str
) -> ModeSeparation:
    (delta, steps), (blocks, cover) = chances, chain
    weights = q.log_weights
    mass = math.exp(weights[0] - logsumexp(weights))
    opposite = math.exp(-logsumexp([2 * q.most_hG, 0.0, weights[2] - weights[1]]))
    rest = math.exp(weights[2] - logsumexp(weights))
    hit = cover * mass
    reach = max(1.0, math.ceil(math.log(delta) / math.log1p(-hit))) if 0 < hit < 1 else 1.0 if hit else math.inf
    stay = _floored(math.log(delta / 2) + 2 * q.r**2 / q.size) if q.r > 0 else 0.0
    leaving = q.log_leaving
    # The probability of staying t steps is at least (1 - q)^t.
    log_rate = math.log(-math.log1p(-math.exp(leaving))) if -700 < leaving < 0 else leaving if leaving < 0 else math.inf
    binomial = _floored(math.log(-math.log1p(-delta)) - log_rate)

    def quantity(value: float, kind: Any, note: str) -> Quantity:
        return Quantity(value, kind, source, note=note)

    return ModeSeparation(
        q,
        _values(graph, q, 1),
        _values(graph, q, -1),
        delta,
        steps,
        blocks,
        cover,
        conditions,
        min(q.mode_gap, q.stay_field),
        q.hG,
        q.r,
        quantity(1 - hit, "upper bound", "Proposition 4"),
        quantity(reach, "upper bound", "Proposition 4"),
        quantity(stay, "lower bound", "Proposition 5"),
        quantity(max(binomial, stay), "lower bound", "Proposition 5 with the binomial tail"),
        quantity(mass, "lower bound", "Proposition 8"),
        quantity(opposite, "lower bound", "Proposition 8"),
        quantity(rest, "upper bound", "Proposition 8"),
    )


def _floored(log_steps: float) -> float:
    """Return the whole part of exp(log_steps).

    A lower bound must stay finite, so that a large result is the largest float.
    """
    return float(math.floor(math.exp(log_steps))) if log_steps < 709 else sys.float_info.max


def _values(graph: FactorGraph, q: Clique, sign: int) -> dict[str, np.ndarray]:
    labels = {v.offset + i: v.labels for v in graph.variables for i in range(v.size)}
    return {graph.cell_name(c): labels[c][1 if s == sign else 0] for c, s in zip(q.cells, q.signs, strict=True)}


def _conditions(q: Clique, cover: float, delta: float, steps: int) -> tuple[Condition, ...]:
    """Return the conditions of both propositions, and Assumptions 5 and 6."""
    J0, named = min(q.mode_gap, q.stay_field), "Corollary 1, Assumption 6"
    size, field, coupling = 8 * (1 + math.log(4 * steps / delta)), math.log(2 * (4 - delta) / delta) / 2, q.size * math.log(2) / 2
    return (
        Condition("the clique's couplings outweigh the fields and couplings on it, J0 > 0", "Assumption 5", J0),
        Condition("R_1 is more probable than R_-1 whatever is outside, hG > 0", "Assumption 5", q.hG),
        Condition("blocks can contain the clique, P(K contains it) > 0", "Proposition 4", cover),
        Condition("|C| tanh(J0) > 2, r > 0", "Proposition 5", q.r),
        Condition(f"the clique is large, |C| >= 8 (1 + ln(4 M / delta)) = {size:.6g}", named, q.size - size, or_equal=True),
        Condition(f"the fields are strong, hG >= ln(2 (4 - delta) / delta) / 2 = {field:.6g}", named, q.hG - field, or_equal=True),
        Condition(f"the couplings are strong, J0 >= |C| ln(2) / 2 = {coupling:.6g}", named, J0 - coupling, or_equal=True),
    )


def _large(n: int, k: int, size: int, delta: float) -> Condition:
    """Return Assumption 7 for blocks of k of n cells."""
    least = max(size, n - delta * (n + 1) / ((4 - delta) * size + delta))
    meaning = f"blocks are large, k >= max(|C|, N - delta (N + 1) / ((4 - delta) |C| + delta)) = {least:.6g}"
    return Condition(meaning, "Corollary 1, Assumption 7", k - least, or_equal=True)


def _covered(delta: float, cover: float) -> Condition:
    """Return what the proof needs in place of Assumption 7 for blocks of other sizes."""
    least = (4 - 2 * delta) / (4 - delta)
    meaning = f"blocks often contain the clique, P(K contains it) >= (4 - 2 delta) / (4 - delta) = {least:.6g}"
    return Condition(meaning, "Corollary 1, in place of Assumption 7", cover - least, or_equal=True)
