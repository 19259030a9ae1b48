"""Reader and writer of the UAI format: Markov networks, Bayesian networks, and evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import Source, Span, fail
from ..graph import FactorGraph
from ._graph_tables import all_tables, verify_tables
from ._names import written_row
from ._network import BayesianNetwork, Conditional, FiniteVariable, Rounding, verified_network, verify_size
from ._scan import CUT, Scanner
from .limits import MOST_NUMBERS, MOST_STATES, MOST_VARIABLES

Array = np.ndarray
TOKEN = re.compile(r"\s+|(?P<word>\S+)")


@dataclass(frozen=True, eq=False)
class ScopedFactor:
    """A table of a UAI file: one axis for each variable of its scope."""

    scope: tuple[int, ...]
    table: Array
    span: Span


@dataclass(frozen=True, eq=False)
class TableModel:
    """A product of tables over numbered variables.

    Attributes:
        is_bayesian: whether each table is the distribution of the last variable of its scope.
        sizes: the number of values of each variable.
        factors: the tables.
        notes: what the reader changed.
    """

    is_bayesian: bool
    sizes: tuple[int, ...]
    factors: tuple[ScopedFactor, ...]
    notes: tuple[str, ...] = ()


def read_uai(source: Source) -> TableModel:
    """Return the tables of a UAI text.

    Raises:
        GmlmError: E532 for a text that is not in the format. E533 for numbers that are not factors
            or not probabilities. E535 for tables above the limit.
    """
    scan = Scanner(source, TOKEN)
    is_bayesian = scan.take().text == "BAYES"
    count = scan.whole("the number of variables", MOST_VARIABLES)
    sizes = tuple(_size(scan, k) for k in range(count))
    if not sizes:
        raise scan.fault("the file has no variables", scan.last, "none")
    number = scan.whole("the number of tables", MOST_NUMBERS)
    scopes = [_scope(scan, sizes, k, is_bayesian) for k in range(number)]
    entries = 0
    factors: list[ScopedFactor] = []
    for k, (scope, span) in enumerate(scopes):
        shape = [sizes[v] for v in scope]
        entries += verify_size(shape, f"factor {k}", span, entries)
        factors.append(ScopedFactor(scope, _table(scan, shape, k), span))
    if not scan.at_end:
        help = "the file has more numbers than its counts say"
        raise scan.fault(f"`{scan.upcoming.text}` stands behind the last table", scan.upcoming, "one too many", help)
    found = TableModel(is_bayesian, sizes, tuple(factors))
    return _verified_conditionals(found) if is_bayesian else found


def _size(scan: Scanner, number: int) -> int:
    size = scan.whole(f"the number of values of variable {number}", MOST_STATES)
    if size < 1:
        raise scan.fault(f"variable {number} has no values", scan.last, "none", "a variable has 1 value or more")
    return size


def _scope(scan: Scanner, sizes: tuple[int, ...], number: int, is_bayesian: bool) -> tuple[tuple[int, ...], Span]:
    """Return the variables of a table, and the place where they stand."""
    count = scan.whole(f"the number of variables of factor {number}", len(sizes))
    first = scan.last
    members: dict[int, None] = {}
    for _ in range(count):
        v = _variable(scan, len(sizes))
        if v in members:
            raise scan.fault(f"factor {number} names the variable {v} twice", scan.last, "the second one", "name each once")
        members[v] = None
    if is_bayesian and not members:
        raise scan.fault(f"factor {number} is the distribution of no variable", first, "empty")
    return tuple(members), scan.span(first).to(scan.span(scan.last))


def _variable(scan: Scanner, count: int) -> int:
    v = scan.whole("a variable", 10**9)
    if v >= count:
        help = f"variables are numbered from 0: the last one is {count - 1}"
        raise scan.fault(f"there is no variable {v}", scan.last, "unknown variable", help)
    return v


def _table(scan: Scanner, shape: list[int], number: int) -> Array:
    """Return the numbers of a table; the value of the last variable changes fastest."""
    size = int(np.prod(shape, dtype=np.int64))
    count = scan.whole(f"the number of entries of factor {number}", MOST_NUMBERS)
    if count != size:
        help = "a table has one number for each joint value of its variables"
        raise scan.fault(f"factor {number} has {size:,} entries, found the count {count:,}", scan.last, "another count", help)
    first = scan.upcoming
    values = np.array([scan.number() for _ in range(count)])
    if not values.any():
        message = f"factor {number} is 0 everywhere: no value is possible"
        raise fail("E533", message, scan.span(first).to(scan.span(scan.last)), "all 0", help=CUT)
    return values.reshape(shape)


def _verified_conditionals(model: TableModel) -> TableModel:
    """Return a Bayesian network whose tables are distributions, one for each variable."""
    rounding = Rounding()
    factors: list[ScopedFactor] = []
    for f in model.factors:
        table = rounding.verified(f.table, f"variable {f.scope[-1]}", lambda _, f=f: f.span)
        factors.append(ScopedFactor(f.scope, table, f.span))
    # The states of a variable have no names, and only their number matters here.
    variables = tuple(FiniteVariable(f"variable {k}", ("",)) for k in range(len(model.sizes)))
    laws = tuple(Conditional(f.scope[-1], f.scope[:-1], f.table, f.span) for f in factors)
    verified_network(BayesianNetwork("", variables, laws))
    return TableModel(True, model.sizes, tuple(factors), rounding.notes)


def read_evidence(source: Source, sizes: tuple[int, ...]) -> dict[int, int]:
    """Return the known values of an evidence file, by variable.

    The file has their number, and then pairs of a variable and a value. The number 1, of samples,
    may precede.

    Raises:
        GmlmError: E532 for a text that is not in the format, or that does not fit the variables.
    """
    words = source.text.split()
    scan = Scanner(source, TOKEN)
    if len(words) % 2 == 0 and words:
        samples = scan.whole("the number of samples", MOST_VARIABLES)
        if samples != 1:
            raise scan.fault(f"the file has {samples} samples of evidence", scan.last, "not 1", "one sample is read: split the file")
    count = scan.whole("the number of known variables", len(sizes))
    known: dict[int, int] = {}
    for _ in range(count):
        v = _variable(scan, len(sizes))
        if v in known:
            raise scan.fault(f"variable {v} has two values", scan.last, "the second one", "keep one of them")
        known[v] = scan.whole(f"the value of variable {v}", 10**9)
        if known[v] >= sizes[v]:
            help = f"values are numbered from 0: the last one of variable {v} is {sizes[v] - 1}"
            raise scan.fault(f"variable {v} has no value {known[v]}", scan.last, "unknown value", help)
    if not scan.at_end:
        raise scan.fault(f"`{scan.upcoming.text}` stands behind the last pair", scan.upcoming, "one too many")
    return known


def evidence_text(known: Mapping[int, int]) -> str:
    """Return known values, by variable, as the text of an evidence file: their number, and pairs."""
    pairs = [f"{variable} {value}" for variable, value in sorted(known.items())]
    return " ".join([str(len(pairs)), *pairs]) + "\n"


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
        tables = sorted(all_tables(graph, params), key=lambda t: t.cells[0])
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


def _merged(graph: FactorGraph, params: Mapping[str, Array]) -> list[tuple[tuple[int, ...], Array]]:
    """Return one table for each set of cells; constants are a part of the first table.

    Raises:
        GmlmError: E534 for a table with an entry that exp turns into infinity, or into 0 although
            its value is possible.
    """
    found: dict[tuple[int, ...], Array] = {}
    constant = 0.0
    for t in all_tables(graph, params):
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
            message = f"the factors of {names} reach {float(log[lost][0]):.6g}: the format cannot represent exp of it"
            raise fail("E534", message, help="write impossible values by `require`, and keep factors between -700 and 700")
    return list(found.items())
