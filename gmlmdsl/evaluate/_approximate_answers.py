"""Approximate marginals, log Z and modes of models whose exact answers cost too much."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import numpy as np

from .._diagnostics import GmlmWarning, counted, fail, tell
from .._types import Clamp
from ..data import clamped_cells, generator
from ..derive import float_type
from ..graph import FactorGraph, GivenRows
from ..plan import searched
from . import limits
from ._approximation_methods import ApproximateMarginals, BeliefPropagation, MaxProduct, MeanField, ModeMethod, Record, SimulatedAnnealing
from ._clamped_tables import ClampedTables, clamped_tables, colour_blocks
from ._contractions import forced_cells, impossible, verify_possible
from ._exact_answers import by_variable, known_rows, with_known
from ._mean_field import MeanFieldAscent
from ._message_passing import Contradiction, Flooding, log_sum, maximum, passed
from ._mode_search import ModeSearch

Array = np.ndarray
Params = Mapping[str, jax.Array]
# These numbers stand for the chain in the seeds of annealing and of max-product.
ANNEALED, DECODED = 2**32 - 2, 2**32 - 3
MOST_BESIDE_A_SEARCH = limits.MANY_ENTRIES  # the most operations of log Z, which the answer of a search states


class _Clamped:
    """A model given its clamped cells.

    Attributes:
        graph: the factor graph.
        inner: booleans over the free cells: the partial sums of gates.
        held: booleans of the known cells, shape (cells,).
        codes: their values.
        params: parameters on the host.
        tables: the factors of the free cells.
    """

    def __init__(self, graph: FactorGraph, params: Params, clamp: Clamp | None, given: GivenRows | None, own: int, evaluates: bool = False):
        held, codes = clamped_cells(graph, clamp)
        arrays = {name: np.asarray(value, float) for name, value in params.items()}
        if held.any():
            held, codes = forced_cells(graph, held, codes, arrays)
        self.graph, self.held, self.params = graph, held, arrays
        self.codes = np.where(held, codes, known_rows(graph, given)[:, 0])
        self.tables = clamped_tables(graph, arrays, held, self.codes, evaluates)
        verify_possible(np.array(self.tables.constant), held)
        self.inner = self.tables.free >= own

    def filled(self, free: Array) -> Array:
        """Return codes of all cells, shape (cells, 1), with those of the free cells given."""
        codes = self.codes.copy()
        codes[self.tables.free] = free
        return codes[:, None].astype(np.int32)


def approximate_marginals(
    graph: FactorGraph, params: Params, clamp: Clamp | None, given: GivenRows | None, method: BeliefPropagation | MeanField, own: int
) -> ApproximateMarginals:
    """Return approximate marginals of all cells given the clamped cells.

    Args:
        graph: the factor graph; for belief propagation, with its partial sums as cells.
        params: parameters.
        clamp: values of clamped cells by variable.
        given: one row of given data, or None.
        method: the method and its options.
        own: the number of the model's own cells; those behind them are partial sums.

    Raises:
        GmlmError: E601 if the tables of the factors are too large; E512 if no configuration agrees
            with the clamped cells, or if the mean field finds none to start at.

    Warns:
        GmlmWarning: if the method has not converged.
    """
    clamped = _Clamped(graph, params, clamp, given, own)
    if isinstance(method, BeliefPropagation):
        laws, record, cure = _propagated(clamped, method)
    else:
        laws, record, cure = _ascended(clamped, method)
    if not record.converged:
        count, residual = counted(record.iterations, "iteration"), f"marginals still change by {record.residual:.2g}"
        off = "log Z is a lower bound nevertheless" if record.bound else "they and log Z may be far off"
        message = f"{record.kind} has not converged in {count}: {residual}; {off}; {cure}"
        tell(message, GmlmWarning)
    table = np.zeros((len(clamped.tables.free), int(graph.sizes.max(initial=1)), 1), float_type())
    for c, law in zip(clamped.tables.classes, laws, strict=True):
        table[c.cells, : len(law), 0] = law.T
    full = with_known(graph, clamped.tables.free, clamped.filled(np.zeros(len(table), int)), table, clamped.held)
    return ApproximateMarginals(by_variable(graph, full, ()), record, graph.variables)


def _propagated(clamped: _Clamped, method: BeliefPropagation) -> tuple[list[Array], Record, str]:
    flooding = Flooding(clamped.tables, log_sum, clamped.inner)
    try:
        found = passed(flooding, method.iterations, method.tolerance, method.damping)
        beliefs = flooding.to_factors(found.to_cells)[1]
        value = flooding.value(found.to_cells)
    except Contradiction:
        raise impossible(clamped.held) from None
    laws = [np.exp(b - log_sum(b[:, None])) for b in beliefs]
    is_exact = clamped.tables.is_forest and found.converged
    record = Record("belief propagation", value, None, is_exact, found.converged, found.iterations, found.residual)
    more = "more `iterations`" if clamped.tables.is_forest or method.damping >= 0.9 else f"`damping={max(0.5, (1 + method.damping) / 2):g}`"
    return laws, record, f"try `gm.BeliefPropagation(..)` with {more}"


def _ascended(clamped: _Clamped, method: MeanField) -> tuple[list[Array], Record, str]:
    blocks = colour_blocks(clamped.graph, clamped.tables)
    ascent, rng = MeanFieldAscent(clamped.tables, blocks), np.random.default_rng(0)
    if ascent.restricted.any():
        search = ModeSearch(clamped.tables, blocks)
        starts = [_possible(clamped, search, search.annealed(1, 30, rng)) for _ in range(method.starts)]
    else:
        starts = [np.zeros(len(clamped.tables.free), int)] * method.starts
    spreads = [0.01] + [1.0] * (method.starts - 1)
    laws = (ascent.start(codes, rng, spread) for codes, spread in zip(starts, spreads, strict=True))
    tried = (ascent.ascended(law, method.iterations, method.tolerance) for law in laws)
    best = max(tried, key=lambda a: a.bound)
    record = Record("naive mean field", best.bound, "lower", False, best.converged, best.iterations, best.residual)
    return best.laws, record, "try `gm.MeanField(..)` with more `iterations`"


def approximate_mode(
    graph: FactorGraph, params: Params, clamp: Clamp | None, given: GivenRows | None, method: ModeMethod, seed: int, own: int
) -> tuple[Array, float, str, bool]:
    """Return a configuration of large probability that agrees with the clamped cells.

    Args:
        graph: the factor graph.
        params: parameters.
        clamp: values of clamped cells by variable.
        given: one row of given data, or None.
        method: the method and its options.
        seed: the seed of annealing and of random messages.
        own: the number of the model's own cells; those behind them are partial sums.

    Returns:
        Codes of shape (cells, 1), the unnormalised log p, the kind of the search, and whether no
            configuration is more probable.

    Raises:
        GmlmError: E601 if the tables of the factors are too large; E512 if no configuration of
            positive probability agrees with the clamped cells, or if the search finds none.
    """
    clamped = _Clamped(graph, params, clamp, given, own, isinstance(method, SimulatedAnnealing))
    search = ModeSearch(clamped.tables, colour_blocks(graph, clamped.tables))
    if isinstance(method, MaxProduct):
        start, upper = _decoded(clamped, search, method, generator(seed, DECODED))
        kind, ends = "max-product", search.descended(start)
    else:
        kind, upper = "annealing", np.inf
        ends = search.annealed(method.chains, method.sweeps, generator(seed, ANNEALED))
    found = _possible(clamped, search, ends)
    value = float(clamped.tables.log_potential(found[:, None])[0])
    return clamped.filled(found), value, kind, value >= upper - limits.TIE_BREAK * max(1.0, abs(upper))


def _decoded(clamped: _Clamped, search: ModeSearch, method: MaxProduct, rng: np.random.Generator) -> tuple[Array, float]:
    """Return the codes that max-product decodes, shape (cells, decodes), and a bound.

    If the factor graph has no cycle, no configuration exceeds the bound by more than rounding and
    ties; otherwise it is infinite.
    """
    tables, slack = _untied(clamped.tables)
    flooding, upper, ends = Flooding(tables, maximum, clamped.inner), np.inf, []
    for start in range(1 if tables.is_forest else method.starts):
        try:
            first = None if start == 0 else flooding.random(rng)
            found = passed(flooding, method.iterations, method.tolerance, method.damping, first)
            if tables.is_forest and found.converged:
                upper = flooding.value(found.to_cells) - slack
            ends += [*_read(flooding, search, found.to_cells)]
        except Contradiction:
            raise impossible(clamped.held) from None
    return np.stack(ends, axis=1), upper


def _read(flooding: Flooding, search: ModeSearch, to_cells: list[Array]) -> tuple[Array, Array]:
    """Return the values of the largest beliefs, and those that are decided colour after colour."""
    tables = flooding.tables
    to_factors, beliefs = flooding.to_factors(to_cells)
    at_once = np.concatenate([np.zeros(0, int), *(b.argmax(axis=0) for b in beliefs)])
    codes, decided = at_once.copy(), np.zeros(len(at_once), bool)
    try:
        for block in search.blocks:
            k = tables.class_of[block.cells[0]]
            codes[block.cells] = beliefs[k][:, block.cells - tables.classes[k].start].argmax(axis=0)
            decided[block.cells] = True
            sure = flooding.decided(to_factors, codes, decided)
            beliefs = flooding.to_factors(flooding.to_cells(sure))[1]
    except Contradiction:
        pass  # Decoded values contradict each other. The descent repairs what it can.
    return at_once, codes


def _untied(tables: ClampedTables) -> tuple[ClampedTables, float]:
    """Return tables with tiny random terms, and the largest sum of these terms.

    The terms make the maximum unique, so that the maxima of all beliefs agree with one another.
    """
    every = [*(c.unary for c in tables.classes), *(g.values for g in tables.groups)]
    scale = limits.TIE_BREAK * max([1.0, *(float(np.abs(v[np.isfinite(v)]).max(initial=0.0)) for v in every)])
    rng = np.random.default_rng(0)
    classes = (dataclasses.replace(c, unary=c.unary + scale * rng.random(c.unary.shape)) for c in tables.classes)
    return dataclasses.replace(tables, classes=tuple(classes)), scale * len(tables.free)


def _possible(clamped: _Clamped, search: ModeSearch, ends: Array) -> Array:
    """Return the best of some configurations, or of a search if all of them are impossible.

    Args:
        clamped: the model.
        search: the moves of single cells.
        ends: configurations of the free cells, shape (cells, configurations).

    Raises:
        GmlmError: E512 if the search finds nothing.
    """
    tables = clamped.tables
    values = tables.log_potential(ends)
    best = int(values.argmax())
    if values[best] > -np.inf:
        return ends[:, best]
    asked = clamped.graph, clamped.held, clamped.codes, clamped.params, np.random.default_rng(0)
    found = searched(*asked, lambda codes: bool(tables.log_potential(codes[tables.free, None])[0] > -np.inf))
    if found is not None:
        return search.descended(found[tables.free, None].astype(int))[:, 0]
    message = "the search found no configuration of positive probability"
    if clamped.held.any():
        message += " that agrees with the clamped cells"
    help = "it proves nothing: try another method or seed, clamp fewer cells, or ask `map` without a method if it is affordable"
    raise fail("E512", message, help=help)
