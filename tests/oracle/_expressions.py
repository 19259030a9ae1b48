"""The value of an expression, for every configuration at once.

A value is a float64 scalar, or an array with one entry per configuration. A branch of `if` that a configuration
does not take is not evaluated for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gmlmdsl.program import ir

if TYPE_CHECKING:
    from ._bind import Axis, Bound

UNARY = {
    "neg": lambda a: -a,
    "not": lambda a: a == 0,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "tanh": np.tanh,
    "sigmoid": lambda a: np.exp(-np.logaddexp(0.0, -a)),
    "cos": np.cos,
    "sin": np.sin,
    "softplus": lambda a: np.logaddexp(0.0, a),
    "log1p": np.log1p,
    "expm1": np.expm1,
    "logit": lambda a: np.log(a / (1 - a)),
    "spin": lambda b: 2 * b - 1,
    "bit": lambda s: (s + 1) / 2,
}
BINARY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "^": np.power,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": lambda a, b: (a != 0) & (b != 0),
    "or": lambda a, b: (a != 0) | (b != 0),
    "min": np.minimum,
    "max": np.maximum,
    "log_binomial": lambda n, k: np.log(np.vectorize(lambda a, b: math.comb(int(a), int(b)) if b >= 0 else 0, otypes=[float])(n, k)),
}
REDUCTIONS = {
    "+": lambda a: a.sum(axis=0),
    "*": lambda a: a.prod(axis=0),
    "min": lambda a: a.min(axis=0),
    "max": lambda a: a.max(axis=0),
    "logsumexp": lambda a: np.logaddexp.reduce(a, axis=0),
}


@dataclass(frozen=True)
class Scope:
    """Where an expression is read.

    `names` holds the present index values, `rows` the configurations (one row of codes each), `params` the
    parameters, and `reads`, where it is a set, collects the position of every cell whose value was asked for.
    """

    bound: Bound
    params: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: Mapping[str, object] = field(default_factory=dict)
    rows: np.ndarray | None = None
    reads: set[int] | None = None

    def only(self, chosen: np.ndarray) -> Scope:
        """The same place, for some of the configurations."""
        assert self.rows is not None
        return replace(self, rows=self.rows[chosen])

    def at(self, names: Mapping[str, object]) -> Scope:
        """The same place, with these index values and no others."""
        return replace(self, names=names)


def integer(value: np.ndarray | float) -> np.ndarray:
    """The value as integers; anything else cannot index."""
    whole = np.rint(value).astype(int)
    if not np.array_equal(whole, value):
        raise IndexError(f"index {value} is not an integer")
    return whole


def evaluate(e: ir.Expression, scope: Scope) -> np.ndarray:
    """The value of `e`: a scalar where it is one number for all configurations, else one entry for each."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(_value(e, scope), dtype=float)


def _value(e: ir.Expression, scope: Scope):
    match e:
        case ir.Literal(value=number) | ir.LabelCode(code=number):
            return float(number)
        case ir.IndexValue(name=name):
            return scope.names[name]
        case ir.InputValue():
            return _input(e, scope)
        case ir.ParameterValue():
            return np.asarray(scope.params[e.name], dtype=float)[locate(scope.bound.parameters[e.name], e.indices, scope)]
        case ir.VariableValue():
            return _cell_value(e, scope)
        case ir.LetValue():
            return _let(e, scope)
        case ir.Operation():
            return (UNARY if len(e.operands) == 1 else BINARY)[e.operator](*(evaluate(o, scope) for o in e.operands))
        case ir.Choice():
            return _choose(evaluate(e.test, scope) != 0, e.yes, e.no, scope)
    return _many(e, scope)


def _many(e: ir.Expression, scope: Scope):
    """What has several parts of one kind."""
    match e:
        case ir.Table():
            return np.stack([evaluate(item, scope) for item in e.items])
        case ir.TableEntry():
            places = np.broadcast_arrays(*(integer(evaluate(i, scope)) for i in e.indices))
            if places[0].ndim == 0:
                return evaluate(_item(e.table, [int(p) for p in places]), scope)
            out = np.empty(len(places[0]))
            for place in {tuple(map(int, row)) for row in np.stack(places, axis=-1)}:
                chosen = np.all([p == k for p, k in zip(places, place, strict=True)], axis=0)
                out[chosen] = evaluate(_item(e.table, place), scope.only(chosen))
            return out
        case ir.LogPartition():
            return np.asarray(_log_partition(e, scope))
        case ir.Sum():
            terms = [evaluate(e.body, scope.at(names)) for names in turns(e.clauses, scope)]
            return REDUCTIONS[e.operator](np.stack(np.broadcast_arrays(*terms))) if terms else np.zeros(()) + (e.operator == "*")


def _log_partition(e: ir.LogPartition, scope: Scope) -> float:
    """By enumeration of the cells of the variables, in a scope of rows of its own."""
    bound = scope.bound
    cells = [
        c for n in e.variables for c in range(bound.variables[n].start, bound.variables[n].start + int(np.prod(bound.variables[n].shape)))
    ]
    sizes = [len(bound.variables[n].values) for n in e.variables for _ in range(int(np.prod(bound.variables[n].shape)))]
    rows = np.zeros((int(np.prod(sizes)), bound.n_cells), int)
    rows[:, cells] = list(itertools.product(*map(range, sizes)))
    inner = Scope(bound, scope.params, {}, rows)
    total = np.zeros(len(rows))
    for f in e.factors:
        for names in turns(f.clauses, inner):
            total = total + evaluate(f.value, inner.at(names))
    for r in e.requires:
        for names in turns(r.clauses, inner):
            total = np.where(evaluate(r.condition, inner.at(names)) != 0, total, -np.inf)
    return float(np.logaddexp.reduce(total))


def _item(table: ir.Expression, place: Sequence[int]) -> ir.Expression:
    for k in place:
        assert isinstance(table, ir.Table)
        if k < 0:
            raise IndexError(k)
        table = table.items[k]
    return table


def _input(e: ir.InputValue, scope: Scope) -> np.ndarray | float:
    if e.name in scope.bound.program.lengths:
        return float(scope.bound.length(e.name))
    return scope.bound.inputs[e.name][locate(scope.bound.input_axes(e.name), e.indices, scope)]


def _choose(test: np.ndarray, yes: ir.Expression, no: ir.Expression, scope: Scope) -> np.ndarray:
    if test.ndim == 0:
        return evaluate(yes if test else no, scope)
    out = np.empty(len(test))
    for chosen, branch in ((test, yes), (~test, no)):
        if chosen.any():
            out[chosen] = evaluate(branch, scope.only(chosen))
    return out


def _cell_value(e: ir.VariableValue, scope: Scope) -> np.ndarray:
    variable = scope.bound.variables[e.name]
    place = np.ravel_multi_index(locate(variable.axes, e.indices, scope), variable.shape) if e.indices else np.zeros((), int)
    if variable.role == "given":
        return scope.bound.given[e.name][place]
    assert scope.rows is not None
    cells = variable.start + place
    if scope.reads is not None:
        scope.reads.update(np.atleast_1d(cells).tolist())
    codes = scope.rows[:, cells] if cells.ndim == 0 else scope.rows[np.arange(len(cells)), cells]
    if (codes < 0).any():
        raise ValueError(f"the value of {e.name} is asked for where it is missing")
    return variable.values[codes]


def _let(e: ir.LetValue, scope: Scope) -> np.ndarray:
    """The body with its index names bound; an index computed from variables takes each of its values in turn."""
    model, axes = scope.bound.model, scope.bound.lets[e.name]
    assert model is not None
    body, places = model.lets[e.name].value, locate(axes, e.indices, scope)

    def bound_at(place: Sequence[int]) -> dict[str, object]:
        members = (a.members[p] for a, p in zip(axes, place, strict=True))
        return {n: v for a, m in zip(axes, members, strict=True) for n, v in zip(a.names, m if len(a.names) > 1 else (m,), strict=True)}

    if all(p.ndim == 0 for p in places):
        return evaluate(body, scope.at(bound_at([int(p) for p in places])))
    table = np.stack(np.broadcast_arrays(*places), axis=-1)
    out = np.empty(len(table))
    for place in {tuple(row) for row in table.tolist()}:
        chosen = (table == place).all(axis=-1)
        out[chosen] = evaluate(body, scope.only(chosen).at(bound_at(place)))
    return out


# Indices


def locate(axes: Sequence[Axis], indices: Sequence[ir.Expression], scope: Scope) -> tuple[np.ndarray, ...]:
    """The place along every axis that the indices mean; the last axis is left open where they are one too few."""
    return place_along(axes, [integer(evaluate(i, scope)) for i in indices])


def place_along(axes: Sequence[Axis], values: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Places from index values. `J[j, i]` is `J[i, j]`, and `J[j, i, p, q]` is `J[i, j, q, p]` over one domain."""
    if len(values) == sum(len(a.names) for a in axes) - 1:
        values = [*(v[..., None] for v in values), _first(axes[-1]) + np.arange(len(axes[-1].members))]
    rest = iter(values)
    index = [[next(rest) for _ in a.names] for a in axes]
    places = [_along(a, own) for a, own in zip(axes, index, strict=True)]
    pairs = [k for k, a in enumerate(axes) if a.unordered]
    further = [k for k, a in enumerate(axes) if not a.unordered]
    if len(pairs) == 1 and len(further) == 2 and one_domain(axes[further[0]], axes[further[1]]):
        (i, j), (p, q) = index[pairs[0]], (places[k] for k in further)
        places[further[0]], places[further[1]] = np.where(i > j, q, p), np.where(i > j, p, q)
    return tuple(places)


def one_domain(a: Axis, b: Axis) -> bool:
    """Whether two axes run over the same values, whatever name they were declared under."""

    def meaning(over: ir.SetOf) -> tuple[object, ...]:
        if over.domain is None:
            return ("range", over.size, over.graph, over.part)
        domain = over.domain
        return meaning(domain.of) if domain.of is not None else (domain.kind, domain.size, "", "", *domain.labels)

    return a.over is not None and b.over is not None and meaning(a.over) == meaning(b.over)


def _first(a: Axis) -> int:
    return a.members[0] if a.over is not None and a.over.start is not None else 0


def _along(a: Axis, index: list[np.ndarray]) -> np.ndarray:
    """The place along one axis; an unordered pair, and a triangle, may be named from any end."""
    if len(index) == 1:
        members = np.asarray(a.members, int)
        place = np.searchsorted(members, index[0])
        if not len(members) or (members[np.minimum(place, len(members) - 1)] != index[0]).any():
            raise IndexError(f"index {index[0]} is not among {a.members}")
        return place
    values = np.broadcast_arrays(*index)
    ends = np.stack([v.ravel() for v in values], axis=1)
    if a.unordered or (a.over is not None and a.over.part == "triangles"):
        ends = np.sort(ends, axis=1)
    where = {member: k for k, member in enumerate(a.members)}
    try:
        return np.array([where[tuple(e)] for e in ends.tolist()], int).reshape(values[0].shape)
    except KeyError as ends_of:
        raise IndexError(f"{ends_of} is not an edge") from None


# Loops and blocks


def turns(clauses: ir.Clauses, scope: Scope) -> Iterator[dict[str, object]]:
    """The index values of every turn of `for .. for .. if ..`, added to those of the place."""

    def nest(loops: Sequence, names: dict[str, object]) -> Iterator[dict[str, object]]:
        if not loops:
            yield names
            return
        for member in scope.bound.members(loops[0].over, names):
            values = member if len(loops[0].names) > 1 else (member,)
            yield from nest(loops[1:], {**names, **dict(zip(loops[0].names, values, strict=True))})

    for names in nest(clauses.loops, dict(scope.names)):
        if clauses.condition is None or evaluate(clauses.condition, scope.at(names)):
            yield names


def block(cells: Sequence[ir.Cells], scope: Scope) -> frozenset[int]:
    """The positions of the cells; an index that is a row or a column means all of its nodes."""
    found: list[int] = []
    for c in cells:
        variable = scope.bound.variables[c.variable]
        if c.indices is None:
            found += range(variable.start, variable.start + int(np.prod(variable.shape)))
            continue
        choices = [_nodes(i, scope) for i in c.indices]
        for index in itertools.product(*choices):
            place = place_along(variable.axes, [np.asarray(k) for k in index])
            found.append(variable.start + int(np.ravel_multi_index(place, variable.shape)))
    if len(found) != len(set(found)):
        raise ValueError("a cell stands twice in one block")
    return frozenset(found)


def _nodes(index: ir.Expression, scope: Scope) -> tuple[int, ...]:
    value = scope.names[index.name] if isinstance(index, ir.IndexValue) else None
    return value if isinstance(value, tuple) else (int(integer(evaluate(index, scope))),)
