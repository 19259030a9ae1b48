"""The factors of a model as tables over its cells, at given parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, fail
from ..graph import FactorGraph, FactorGroup
from ..plan import FactorTable, entry_values
from ._names import Names, one_word
from ._network import BayesianNetwork, Conditional, FiniteVariable
from .limits import LEAST_ERROR, MOST_NUMBERS

Array = np.ndarray
FINITE = "a file of tables has the cells of one joint distribution"


@dataclass(frozen=True, eq=False)
class ScopedTable:
    """A term of log p: one number for each joint value of its cells.

    Attributes:
        cells: the positions of the cells, each once.
        log: the natural logarithms; one axis for each cell.
    """

    cells: tuple[int, ...]
    log: Array


def verify_tables(graph: FactorGraph, most: int = MOST_NUMBERS) -> None:
    """Raise unless the model is a product of tables that are not too large.

    Args:
        graph: the factor graph.
        most: the most numbers that all tables may have.

    Raises:
        GmlmError: E534 for a conditional model or one with given variables, E535 for tables above
            the limit, with the place of the largest statement.
    """
    if graph.network is not None:
        message = "the model has the conditionals of a network, and no factors to write"
        raise fail("E534", message, graph.network.span, "no joint distribution", help=FINITE)
    if graph.given:
        message = f"the model has the given variable `{graph.given[0].name}`: its factors differ by row"
        raise fail("E534", message, help=FINITE)
    counts = [float(g.n) * math.prod(float(q) for q in _sizes(graph, g)) for g in graph.groups]
    if sum(counts) > most:
        most = int(np.argmax(counts))
        share = f"{counts[most]:,.0f}" if counts[most] < 1e15 else f"{counts[most]:.3g}"
        message = f"the tables of this statement have {share} numbers; all may have {most:,}"
        help = "a factor of many cells has one number for each of their joint values"
        raise fail("E535", message, graph.groups[most].span, "too large", help=help)


def _sizes(graph: FactorGraph, group: FactorGroup) -> tuple[int, ...]:
    """Return the most values of each slot; 1 for a slot that no factor uses."""
    sizes = np.append(graph.sizes, 1)
    return tuple(int(q) for q in sizes[group.cells].max(axis=0, initial=1))


def tables_of_group(graph: FactorGraph, number: int, params: Mapping[str, Array]) -> Iterator[ScopedTable]:
    """Yield the table of each factor of a group.

    Args:
        graph: the factor graph.
        number: the number of the group.
        params: the parameters by name.
    """
    group, none = graph.groups[number], graph.n_cells
    sizes = _sizes(graph, group)
    found = entry_values(group, FactorTable(number, sizes, 0, group.n), params)
    if group.kind == "require":
        with np.errstate(divide="ignore"):
            found = np.log(found)
    for slots, entries in zip(group.cells.tolist(), found.reshape(group.n, *sizes), strict=True):
        cells = tuple(dict.fromkeys(c for c in slots if c != none))
        codes = np.indices([int(graph.sizes[c]) for c in cells])
        at = tuple(codes[cells.index(c)] if c != none else 0 for c in slots)
        yield ScopedTable(cells, np.asarray(entries[at], float))


def all_tables(graph: FactorGraph, params: Mapping[str, Array]) -> Iterator[ScopedTable]:
    """Yield the table of each factor of a model."""
    for number in range(len(graph.groups)):
        yield from tables_of_group(graph, number, params)


def pairwise_tables(graph: FactorGraph, params: Mapping[str, Array], help: str) -> Iterator[ScopedTable]:
    """Yield the table of each factor of a model with finite factors of at most two cells.

    Args:
        graph: the factor graph.
        params: the parameters by name.
        help: the models that the format can describe.

    Raises:
        GmlmError: E534 for a factor of three cells or more, and for one that is infinite.
    """
    for number, group in enumerate(graph.groups):
        for t in tables_of_group(graph, number, params):
            if len(t.cells) > 2:
                message = f"a factor has {len(t.cells)} cells"
                raise fail("E534", message, group.span, "not of one or two cells", help=help)
            if not np.isfinite(t.log).all():
                raise fail("E534", "a factor is infinite", group.span, "not finite", help=help)
            yield t


def network_of_graph(graph: FactorGraph, params: Mapping[str, Array], name: str) -> BayesianNetwork:
    """Return a model as a Bayesian network: its cells with words for names, and their tables.

    Args:
        graph: the factor graph.
        params: the parameters by name.
        name: the name of the network.

    Raises:
        GmlmError: E534 if the model is no Bayesian network; as `verify_tables`.
    """
    verify_tables(graph)
    if not graph.is_normalised:
        raise _no_network(graph)
    variables, notes = _variables(graph)
    found: list[Conditional] = []
    for number in range(len(graph.groups)):
        for t in tables_of_group(graph, number, params):
            table = np.moveaxis(np.exp(t.log), 0, -1)
            sums = table.sum(axis=-1, keepdims=True)
            table = np.where(np.abs(sums - 1) > LEAST_ERROR, table / sums, table)
            found.append(Conditional(t.cells[0], t.cells[1:], table))
    found.sort(key=lambda c: c.child)
    return BayesianNetwork(name, variables, tuple(found), notes)


def _no_network(graph: FactorGraph) -> GmlmError:
    """Return the error that names what keeps a model from being a Bayesian network."""
    help = "each variable needs one `~` statement, and nothing else; or write a .uai file"
    for group in graph.groups:
        if group.kind != "categorical":
            word = "require" if group.kind == "require" else "factor"
            message = f"a model with a `{word}` is not a Bayesian network"
            return fail("E534", message, group.span, "not a distribution of a cell", help=help)
    heads = {int(c) for g in graph.factors for c in g.cells[:, 0]}
    bare = next((k for k in range(graph.n_random) if k not in heads), 0)
    message = f"`{graph.cell_name(bare)}` has no distribution of its own: no Bayesian network"
    return fail("E534", message, help=help)


def _variables(graph: FactorGraph) -> tuple[tuple[FiniteVariable, ...], tuple[str, ...]]:
    """Return the cells as variables whose names are words, with a note for each changed name."""
    names, notes, found = Names(()), [], []
    for v in graph.variables:
        labels = [str(label) for label in v.labels]
        words = Names(())
        states = tuple(words.fresh(one_word(label)) for label in labels)
        for label, state in zip(labels, states, strict=True):
            if label != state:
                notes.append(f"the value `{label}` of `{v.name}` is called `{state}` there")
        for position in range(v.offset, v.offset + v.size):
            cell = graph.cell_name(position)
            name = names.fresh(one_word(cell))
            if name != cell:
                notes.append(f"`{cell}` is called `{name}` there")
            found.append(FiniteVariable(name, states))
    return tuple(found), tuple(notes)
