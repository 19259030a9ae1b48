"""Writer of the UAI format: the factors of a model as tables over its numbered cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ._graph_tables import ScopedTable, tables_of_group, verify_tables
from ._numbers import written_row

Array = np.ndarray


def uai_text(graph: FactorGraph, params: Mapping[str, Array]) -> str:
    """Return a model as a UAI text: BAYES if it is a Bayesian network, else MARKOV.

    The variables are the cells of the model in their order, latent cells among them.

    Args:
        graph: the factor graph.
        params: the parameters by name.

    Raises:
        GmlmError: E534 for factors that are no number of the format; as `verify_tables`.
    """
    verify_tables(graph)
    if graph.is_normalised:
        tables = sorted(_all(graph, params), key=lambda t: t.cells[0])
        factors = [((*t.cells[1:], t.cells[0]), np.moveaxis(t.log, 0, -1)) for t in tables]
    else:
        factors = _merged(graph, params)
    lines = ["BAYES" if graph.is_normalised else "MARKOV", str(graph.n_random)]
    lines += [" ".join(map(str, graph.sizes[: graph.n_random].tolist())), str(len(factors))]
    lines += [" ".join(map(str, (len(cells), *cells))) for cells, _ in factors]
    for _, log in factors:
        row_length = log.shape[-1]
        lines += ["", str(log.size)]
        lines += [" ".join(written_row(row)) for row in np.exp(log).reshape(-1, row_length)]
    return "\n".join(lines) + "\n"


def _all(graph: FactorGraph, params: Mapping[str, Array]) -> Iterator[ScopedTable]:
    for number in range(len(graph.groups)):
        yield from tables_of_group(graph, number, params)


def _merged(graph: FactorGraph, params: Mapping[str, Array]) -> list[tuple[tuple[int, ...], Array]]:
    """Return one table for each set of cells; constants are a part of the first table.

    Raises:
        GmlmError: E534 for a table with an entry that exp turns into infinity, or into 0 although
            its value is possible.
    """
    found: dict[tuple[int, ...], Array] = {}
    constant = 0.0
    for t in _all(graph, params):
        if not t.cells:
            constant += float(t.log)
            continue
        order = np.argsort(t.cells)
        cells = tuple(t.cells[k] for k in order)
        log = np.transpose(t.log, order)
        found[cells] = found[cells] + log if cells in found else log
    if not found:
        found[0,] = np.zeros(int(graph.sizes[0]))
    first = next(iter(found))
    found[first] = found[first] + constant
    for cells, log in found.items():
        with np.errstate(over="ignore"):
            value = np.exp(log)
        lost = np.isinf(value) | ((value < np.finfo(float).tiny) & (log > -np.inf))
        if lost.any():
            names = ", ".join(f"`{graph.cell_name(c)}`" for c in cells[:4])
            message = f"the factors of {names} reach {float(log[lost][0]):.6g}: exp of it is no number of the format"
            raise fail("E534", message, help="write impossible values by `require`, and keep factors between -700 and 700")
    return list(found.items())
