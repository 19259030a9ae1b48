"""Writer of binary quadratic models: minus log p of a pairwise model of binary cells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ._graph_tables import ScopedTable, tables_of_group, verify_tables
from ._numbers import short_number
from ._quadratic import BINARY, SPIN, QuadraticModel

Array = np.ndarray
PAIRWISE = "a quadratic model has cells of two values, and finite factors of one or two of them"


def quadratic_of_graph(graph: FactorGraph, params: Mapping[str, Array]) -> QuadraticModel:
    """Return minus log p, without log Z, as a quadratic energy.

    The variables are spins if all cells are, else 0 and 1 for the two values of each cell.

    Args:
        graph: the factor graph.
        params: the parameters by name.

    Raises:
        GmlmError: E534 for cells of more than two values, for a factor of three cells or more, and
            for one that is infinite; as `verify_tables`.
    """
    verify_tables(graph)
    wide = next((v for v in graph.variables if len(v.labels) != 2), None)
    if wide is not None:
        message = f"`{wide.name}` has {len(wide.labels)} values"
        raise fail("E534", message, help=PAIRWISE)
    linear, offset = np.zeros(graph.n_random), 0.0
    pairs: dict[tuple[int, int], float] = {}
    for t in _tables(graph, params):
        energy, origin = -t.log, (0,) * len(t.cells)
        offset += float(energy[origin])
        for axis, cell in enumerate(t.cells):
            step = np.moveaxis(energy, axis, 0).reshape(2, -1)[:, 0]
            linear[cell] += step[1] - step[0]
        if len(t.cells) == 2:
            a, b = sorted(t.cells)
            mixed = energy[1, 1] - energy[1, 0] - energy[0, 1] + energy[0, 0]
            pairs[a, b] = pairs.get((a, b), 0.0) + float(mixed)
    labels = tuple(graph.cell_name(k) for k in range(graph.n_random))
    ends = np.array(list(pairs), np.int64).reshape(-1, 2)
    found = QuadraticModel(BINARY, labels, linear, ends, np.array(list(pairs.values())), offset)
    return _of_spins(found) if all(v.kind == "spin" for v in graph.variables) else found


def _tables(graph: FactorGraph, params: Mapping[str, Array]) -> Iterator[ScopedTable]:
    """Yield all tables, which must be finite and have at most two cells."""
    for number, group in enumerate(graph.groups):
        for t in tables_of_group(graph, number, params):
            if len(t.cells) > 2:
                message = f"a factor has {len(t.cells)} cells"
                raise fail("E534", message, group.span, "not quadratic", help=PAIRWISE)
            if not np.isfinite(t.log).all():
                message = "a factor is infinite"
                raise fail("E534", message, group.span, "not quadratic", help=PAIRWISE)
            yield t


def _of_spins(m: QuadraticModel) -> QuadraticModel:
    """Return the same energy with b = (s + 1) / 2."""
    linear = m.linear / 2
    for column in range(2):
        linear = linear + np.bincount(m.pairs[:, column], m.quadratic / 4, len(linear))
    offset = m.offset + float(m.linear.sum() / 2 + m.quadratic.sum() / 4)
    return QuadraticModel(SPIN, m.labels, linear, m.pairs, m.quadratic / 4, offset)


def bqm_text(m: QuadraticModel) -> str:
    """Return the model as the JSON of dimod, schema 3."""
    data = {
        "type": "BinaryQuadraticModel",
        "version": {"bqm_schema": "3.0.0"},
        "use_bytes": False,
        "index_type": "int64",
        "bias_type": "float64",
        "num_variables": len(m.labels),
        "num_interactions": len(m.pairs),
        "variable_labels": list(m.labels),
        "variable_type": m.vartype,
        "offset": m.offset,
        "info": {},
        "linear_biases": m.linear.tolist(),
        "quadratic_biases": m.quadratic.tolist(),
        "quadratic_head": m.pairs[:, 0].tolist(),
        "quadratic_tail": m.pairs[:, 1].tolist(),
    }
    return json.dumps(data, indent=1) + "\n"


def coo_text(m: QuadraticModel) -> str:
    """Return the model as lines `i j bias`; the format has no offset."""
    lines = [f"# vartype={m.vartype}"]
    lines += [f"{k} {k} {short_number(h)}" for k, h in enumerate(m.linear.tolist())]
    terms = zip(m.pairs.tolist(), m.quadratic.tolist(), strict=True)
    lines += [f"{a} {b} {short_number(value)}" for (a, b), value in terms]
    return "\n".join(lines) + "\n"
