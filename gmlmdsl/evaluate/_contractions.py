"""The plans, contractions and factor tables of a model, which its exact answers share."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, listed
from .._types import AnyArray, Clamp
from ..data import Data, clamped_cells
from ..graph import FactorGraph, FactorGroup, grouped
from ..plan import BUDGET, Budget, Elimination, plan_elimination, verify_held, with_forced
from . import limits
from ._host_elimination import FactorTable, HostElimination, factor_tables, seconds_of, table_entries
from ._row_sizes import is_traced

Array = np.ndarray
T = TypeVar("T")
Params = Mapping[str, jax.Array]


def _recent(cache: OrderedDict[bytes, T], known: Array, make: Callable[[], T]) -> T:
    """Return the entry of a cache for a set of known cells; the cache has the last few of them."""
    key = known.tobytes()
    if key not in cache:
        cache[key] = make()
        if len(cache) > limits.MOST_KEPT:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


OF_CLAMP = "the clamped values of"  # the words before the names of known cells in messages


class Contractions:
    """The plans and contractions of a model, by the set of known cells; the last few are cached."""

    def __init__(self, graph: FactorGraph):
        self.graph = graph
        self._plans: OrderedDict[bytes, Elimination] = OrderedDict()
        self._kept: OrderedDict[bytes, derive.Contraction] = OrderedDict()
        self._tables: tuple[tuple[bytes, ...], list[FactorTable]] | None = None  # by parameters
        self._host_seconds = np.zeros(())  # the estimated time of all answers in NumPy, shared by `with_factors`
        self._exceeded = -np.inf  # the most operations that are known not to suffice for the contraction of all cells

    def with_factors(self, group: FactorGroup) -> Contractions:
        """Return the contractions of the model with further factors of single cells.

        The plans are those of this model, because such factors do not change them.
        """
        found = copy.copy(self)
        found.graph = replace(self.graph, factors=(*self.graph.factors, group))
        found._kept, found._tables = OrderedDict(), None
        return found

    def whole(self, what: str, *, keeps: bool = True) -> tuple[Elimination, derive.Contraction]:
        """Return the plan and the contraction over all cells; see `holding`."""
        return self.holding(np.zeros(self.graph.n_cells, bool), what, keeps=keeps)

    def holding(self, known: Array, what: str, *, keeps: bool = True) -> tuple[Elimination, derive.Contraction]:
        """Return the plan and the contraction over the cells that are not known.

        Args:
            known: booleans over cells.
            what: the name of the quantity in error messages.
            keeps: whether all tables are kept until the end; a sum needs a few of them at a time.

        Raises:
            GmlmError: E601 with the cost if it is above the budget.
        """
        plan = self.plan(known, what)
        if keeps:
            tables, help = f"the tables of the elimination for {what}", "hold some cells fixed with `clamp=`; log Z alone needs less"
            verify_held(self._kept_bytes(plan), tables, help)
        return plan, _recent(self._kept, known, lambda: derive.contraction(self.graph, plan))

    def plan(self, known: Array, what: str, budget: Budget = BUDGET) -> Elimination:
        """Return the plan over the cells that are not known.

        Args:
            known: booleans over cells.
            what: the name of the quantity in error messages.
            budget: the limits; the search for an order ends when it exceeds them.

        Raises:
            GmlmError: E601 with the cost if it is above the budget.
        """
        return _recent(self._plans, known, lambda: plan_elimination(self.graph, np.flatnonzero(~known), what, budget))

    def on_host(self, known: Array, params: Params, rows: int = 1, passes: int = 1, *, keeps: bool = False) -> HostElimination | None:
        """Return the elimination in NumPy, or None if a compiled one is the better choice.

        The choice depends on the costs of the plans and on the calls before, and not on a clock.

        Args:
            known: booleans over cells.
            params: the parameters.
            rows: the number of rows that are about to be answered.
            passes: the number of passes over each row.
            keeps: whether the tables and messages of a row are kept until the end.
        """
        left = (limits.HOST_SECONDS - self._host_seconds) / (passes * max(rows, 1))
        if not self._may_be_on_host or seconds_of(int(np.sum(~known)), self._factors, 0) > limits.HOST_SECONDS:
            return None
        if is_traced([params, derive.on_device(0)]):
            return None
        try:
            plan = self.plan(known, "")
        except GmlmError:
            return None  # The compiled engine states the cost.
        seconds = seconds_of(len(plan.parents), self._factors, plan.flops)
        # A few passes over very large tables take no longer than those of a compiled program.
        many = plan.flops > limits.MANY_ENTRIES and passes * rows <= limits.LAW_PASSES
        if seconds > left and not many:
            return None
        if keeps and 16.0 * plan.flops > BUDGET.held:
            return None
        self._host_seconds += passes * rows * seconds
        key = tuple(np.asarray(params[p.name]).tobytes() for p in self.graph.parameters)
        if self._tables is None or self._tables[0] != key:
            self._host_seconds += limits.ENTRY_SECONDS * self._entries
            self._tables = key, factor_tables(self.graph, {name: np.asarray(a, float) for name, a in params.items()})
        return HostElimination(plan, self._tables[1], known & self.graph.linked)

    @cached_property
    def _may_be_on_host(self) -> bool:
        """Whether NumPy may compute the tables of all factors: they are few, and use no given data."""
        return not self.graph.given and self._entries <= limits.MOST_TABLED

    @cached_property
    def _entries(self) -> float:
        return table_entries(self.graph)

    @cached_property
    def _factors(self) -> int:
        return sum(g.n for g in self.graph.groups)

    def beside(self, held: Array, codes: Array, what: str) -> Iterator[tuple[derive.Contraction, Array | None]]:
        """Yield contractions that answer given fixed cells, the cheapest to compile first.

        The contraction of all cells comes first if it is cheap. It needs no program of its own for
        each set of fixed cells: their other values get probability 0. However, its sums contain the
        factors among the fixed cells, which may leave the sums too few digits. The last contraction
        is that of the cells that are not fixed.

        Args:
            held: booleans over cells, True for fixed cells.
            codes: the values of the fixed cells, shape (cells, rows).
            what: the name of the quantity in error messages.

        Yields:
            A contraction, and the term that is added to each value of a free cell, of shape (free,
                values, rows) or None.

        Raises:
            GmlmError: E601 with the cost if it is above the budget.
        """
        if held.any() and (c := self.affordable(what)) is not None and c.entries <= limits.CHEAP_ENTRIES:
            yield c, seen_term(self.graph, c, held[:, None], codes)
        yield self.fixing(held, codes, what)

    def fixing(self, held: Array, codes: AnyArray, what: str) -> tuple[derive.Contraction, Any]:
        """Return the contraction of the cells that are not fixed, with the term of fixed ones that it sums over."""
        c = self.holding(held, what)[1]
        return c, self.seen(c, held, codes)

    def seen(self, c: derive.Contraction, known: Array, codes: AnyArray) -> Any:
        """Return the term of known cells that a contraction sums over nevertheless, as those of links.

        Args:
            c: the contraction of the cells that are not known.
            known: booleans over cells.
            codes: the values of the known cells, shape (cells, rows).
        """
        summed = known & self.graph.linked
        return seen_term(self.graph, c, summed[:, None], codes) if summed.any() else None

    def clamped(self, clamp: Clamp | None, params: Params) -> tuple[Array, Array]:
        """Return which cells are clamped, and their values, with those that follow."""
        return self.with_following(*clamped_cells(self.graph, clamp), params)

    def with_following(self, held: Array, codes: Array, params: Params, where: str = OF_CLAMP) -> tuple[Array, Array]:
        """Return which cells are known, and their values.

        Cells whose values follow from these and from requirements are added if the contraction of
        all cells is not affordable. If parameters are traced, they follow from factors without
        parameters.

        Args:
            held: booleans of the known cells.
            codes: their values, shape (cells,).
            params: parameters.
            where: the words before the names of known cells in messages.

        Raises:
            GmlmError: E512 where some cell has no value left.
        """
        if self._may_hold_all() or not (held.any() or self.graph.requires):
            return held, codes
        known = {name: np.asarray(a, float) for name, a in params.items() if not is_traced(a)}
        return forced_cells(self.graph, held, codes, known, where)

    def known_of_rows(self, params: Params, x: Data) -> tuple[Array, Array, list[tuple[Array, Array]]]:
        """Return which cells of each row are known, their codes, and the rows by known cells.

        Cells whose values follow are known too if the rows are few, see `with_following`. No row
        knows the last cells of the graph, which are the partial sums.

        Args:
            params: parameters.
            x: the rows.
        """
        codes = np.pad(x.codes, ((0, self.graph.n_cells - len(x.codes)), (0, 0)), constant_values=-1)
        known = codes >= 0
        if self.graph.row_cell is not None:
            known[self.graph.row_cell] = False  # The row cell is not summed out.
        codes = np.maximum(codes, 0).astype(np.int32)
        for r in range(codes.shape[1] * (codes.shape[1] <= limits.MOST_HOST_ROWS)):
            known[:, r], codes[:, r] = self.with_following(known[:, r], codes[:, r], params, f"row {r} of x at")
        return known, codes, list(grouped(known.T))

    def affordable(self, what: str) -> derive.Contraction | None:
        """Return the contraction of all cells, or None if its cost or its tables are too large."""
        return self.whole(what)[1] if self._may_hold_all() else None

    def _may_hold_all(self) -> bool:
        """Return whether the contraction of all cells and its tables are affordable."""
        nothing = np.zeros(self.graph.n_cells, bool)
        return self.is_affordable() and self._kept_bytes(self.plan(nothing, "")) <= BUDGET.held

    def _kept_bytes(self, plan: Elimination) -> float:
        return derive.float_type().itemsize * plan.flops

    def is_affordable(self, most: float = np.inf) -> bool:
        """Return whether the contraction of all cells is affordable within so many operations."""
        known = np.zeros(self.graph.n_cells, bool)
        if known.tobytes() not in self._plans and most > self._exceeded:
            try:
                self.plan(known, "", replace(BUDGET, flops=min(most, BUDGET.flops)))
            except GmlmError:
                self._exceeded = most
        return known.tobytes() in self._plans and self.plan(known, "").flops <= most


def forced_cells(graph: FactorGraph, held: Array, codes: Array, params: Mapping[str, Array], where: str = OF_CLAMP) -> tuple[Array, Array]:
    """Return known cells with those whose values follow from them, see `with_forced`.

    Raises:
        GmlmError: E512 where some cell has no value left.
    """
    found = with_forced(graph, held, codes, params)
    if found is None:
        tries = with_forced(graph, held, codes, params, False) is not None
        # Trials are slow; without clamped cells they tell whether the model itself is impossible.
        possible = partial(with_forced, graph, codes=codes, params=params)
        raise contradiction(graph, held, lambda k: possible(k, tries=tries or not k.any()) is not None, where)
    return found


def seen_term(graph: FactorGraph, c: derive.Contraction, known: Array, codes: AnyArray) -> Any:
    """Return the term added to each value of a free cell, shape (free, values, rows).

    It is -inf for each value of a known cell other than the known one, and 0 otherwise.
    """
    free, xp = np.asarray(c.free), jnp if is_traced(codes) else np
    other = np.arange(int(graph.sizes.max(initial=1)))[None, :, None] != codes[free][:, None]
    return xp.where(known[free][:, None] & other, -np.inf, 0.0).astype(derive.float_type())


def verify_possible(value: Array, held: Array) -> None:
    """Raise E512 unless all log sums are finite.

    Args:
        value: the log sums.
        held: booleans of the clamped cells, for the message.
    """
    if not np.isfinite(value).all():
        raise impossible(held)


def contradiction(graph: FactorGraph, held: Array, possible: Callable[[Array], bool | None], where: str = OF_CLAMP) -> GmlmError:
    """Return E512 that names known cells of which none can be left out, if the others are possible.

    The cells are sought by halves, from the first to the last and from the last to the first. The
    smaller of the two sets is named. A set of k among n cells takes about 2 k log2(n / k) sums.
    After `MOST_CHECKED` sums the cells that are left are named, and some may not be to blame.

    Args:
        graph: the factor graph.
        held: booleans of the known cells, which are impossible together.
        possible: whether some of them are possible together; None if it is not known.
        where: the words before the names of the cells.

    Reference: Junker 2004, "QuickXplain".
    """
    left = limits.MOST_CHECKED

    def to_blame(kept: Array, changed: bool, cells: Array) -> Array:
        """Return those of some cells that are impossible together with kept ones."""
        nonlocal left
        if changed:
            left -= 1
            if left >= 0 and possible(kept) is False:
                return cells[:0]
        if len(cells) <= 1:
            return cells
        first, last = np.array_split(cells, 2)
        later = to_blame(_with(kept, first), True, last)
        return np.append(to_blame(_with(kept, later), len(later) > 0, first), later)

    cells = np.flatnonzero(held[: graph.n_random])
    others = held & ~_with(np.zeros_like(held), cells)
    if possible(others) is False:
        return impossible(np.zeros_like(held))
    found = min((to_blame(others, False, order) for order in (cells, cells[::-1])), key=len)
    names = listed([graph.cell_name(int(c)) for c in np.sort(found)])
    message = f"no configuration agrees with {where} {names}: together they have probability zero"
    return fail("E512", message, help="give one of them another value, or leave it out; each of them alone may be possible")


def _with(known: Array, cells: Array) -> Array:
    """Return booleans of known cells with further ones."""
    found = known.copy()
    found[cells] = True
    return found


def impossible(held: Array) -> GmlmError:
    """Return E512 for a model without a configuration that agrees with the clamped cells."""
    message, cure = "no configuration has a positive, finite probability at these parameters", "pass finite parameters"
    if held.any():
        message = "no configuration agrees with the clamped cells: together they have probability zero"
        cure = "clamp fewer cells, or other values"
    return fail("E512", message, help=f"{cure}; see the `require`s of the model")
