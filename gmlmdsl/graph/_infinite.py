"""Checks that factors are finite, over all values of their cells.

A factor may be -inf (probability zero) only in parts that mention no parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, Span, counted, fail
from ..program import UNTAKEN
from ._arithmetic import rounded_to
from ._exact import exact_parts, is_exact, verify_exact, verify_sum
from ._factor_graph import FactorGraph, FactorGroup
from ._given_rows import reads_real
from ._ranges import range_of, ranges_of
from ._scopes import JointValues, alike
from ._weights import tried
from .limits import MOST_EVALUATED_VALUES, MOST_NAMED_CELLS, MOST_TRIED_JOINT, SAFE_INTEGER, TRIED_JOINT_AT_ONCE
from .nodes import (
    NEUTRAL,
    Add,
    Apply,
    CellValue,
    Gather,
    If,
    Leaves,
    Node,
    Pick,
    evaluate,
    inside,
    nodes_in,
    numpy_leaves,
    parts_of,
    reduced,
)

Array = np.ndarray
DIVISIONS = ("/", "//", "%")
RISKY = frozenset(("/", "//", "%", "^", "exp", "log", "sqrt"))
STAYS_FINITE = "pass other parameters, or keep the factor finite: bound what it divides by and what it takes the exponential of"


def verify_finite(graph: FactorGraph, groups: Sequence[FactorGroup]) -> tuple[Diagnostic, ...]:
    """Raise for values that no factor may have.

    These are operations without a value, factors that reach +inf, and infinities beside a
    parameter. The values of requirements are not checked, only the operations in them.

    Args:
        graph: the factor graph of the cells.
        groups: factors and requirements.

    Returns:
        W815 for each factor that is -inf, probability zero, for some values.

    Raises:
        GmlmError: E416 or E417; E412 if too many values would have to be tried to decide.
    """
    return tuple(d for g in groups if (d := _verify(graph, g)) is not None)


def _verify(graph: FactorGraph, group: FactorGroup) -> Diagnostic | None:
    # Bounds alone may show that all parts without parameters are finite, with divisors that are not 0.
    if not group.n or _are_finite(group, _fixed_parts(group.root), int(graph.sizes.max(initial=1))):
        return None
    sizes = np.append(graph.sizes, 1)[group.cells].max(axis=0, initial=1).tolist()
    notes = [_tried(graph, group.take(rows), piece, joint) for rows, piece, joint in tried(group, sizes, graph.n_cells)]
    return next((n for n in notes if n is not None), None)


def _is_probability(group: FactorGroup, most_values: int) -> bool:
    """Return whether bounds alone show that a group is the log of a finite number of at least 0.

    It is then -inf at worst.
    """
    root = group.root
    if not (isinstance(root, Apply) and root.operator == "log") or _fixed_parts(root) != [root]:
        return False
    least = range_of(group, most_values, node=root.operands[0])
    return least is not None and least[0] >= 0 and _are_finite(group, [root.operands[0]], most_values)


def _are_finite(group: FactorGroup, fixed: list[Node], most_values: int) -> bool:
    bounds = ranges_of(group, most_values, fixed)
    if not is_exact(group, most_values, fixed):
        return False
    divisors = [b for part, b in zip(fixed, bounds, strict=True) if any(_is_divisor(n, part) for n in nodes_in(group.root))]
    return all(b is not None and -SAFE_INTEGER < b[0] <= b[1] < SAFE_INTEGER for b in bounds) and not any(
        b is None or b[0] <= 0 <= b[1] for b in divisors
    )


def _is_divisor(node: Node, part: Node) -> bool:
    return isinstance(node, Apply) and node.operator in DIVISIONS and node.operands[1] is part


def _fixed_parts(node: Node) -> list[Node]:
    """Return the largest parts that mention no parameter."""
    if not any(isinstance(n, Gather) and n.name for n in nodes_in(node)):
        return [node]
    return [] if isinstance(node, Gather) else [p for n in parts_of(node) for p in _fixed_parts(n)]


def _tried(graph: FactorGraph, group: FactorGroup, piece: FactorGroup, joint: JointValues) -> Diagnostic | None:
    """Evaluate a group at all values of its cells, and return W815 if one of them is -inf.

    Instances and joint values are evaluated in chunks.
    """
    leaves = {n for part in _fixed_parts(piece.root) for n in nodes_in(part) if isinstance(n, CellValue)}
    used = {s for n in leaves for s in range(n.start, n.start + int(np.prod(n.shape, dtype=np.int64)))}
    slots = sorted(used | {joint.owners[s] for s in used})
    joint = joint.of(slots)
    if joint.count > MOST_TRIED_JOINT and _is_probability(group, int(graph.sizes.max(initial=1))):
        return None
    if joint.count > MOST_TRIED_JOINT:
        count = int(joint.count)
        message = f"whether this is always a number depends on cells with {counted(count, 'joint value')}: too many to check"
        help = "keep its parts within bounds that do not depend on all cells at once, for example with `max(.., 1)`"
        raise fail("E412", message, piece.span, "too many cells", help=help)
    count, note = int(joint.count), None
    step = max(1, TRIED_JOINT_AT_ONCE // count)
    exact = {id(n) for n in exact_parts(piece)}
    for start, first in product(range(0, piece.n, step), range(0, count, TRIED_JOINT_AT_ONCE)):
        codes = dict(zip(slots, joint.codes(first, min(count, first + TRIED_JOINT_AT_ONCE)), strict=True))
        rows = slice(start, min(piece.n, start + step))
        where = _Where(graph, group, codes, start)
        values = _Values(numpy_leaves(piece.columns, piece.tables, codes, rows, bits=64), where, exact)
        found = values.value_of(piece.root, 0, True)
        if found is None or piece.kind in ("require", "let"):
            continue
        _refuse(found, np.isnan(found) | (found == np.inf), "factor", piece.span, where)
        if note is None and piece.kind == "factor" and (found == -np.inf).any():
            message = f"this factor is -inf{where.words(found == -np.inf)}: probability zero"
            help = "state this by a `require`, or allow it with `# gmlm: allow W815`"
            note = Diagnostic("W815", message, piece.span, "reaches -inf", help=help)
    return note


@dataclass(frozen=True)
class _Where:
    """The place of a bad value: the cells of its instance and the values that they have."""

    graph: FactorGraph
    group: FactorGroup
    codes: dict[int, Array]
    start: int

    def words(self, bad: Array) -> str:
        """Return a clause such as `where `x[0]` is 0 and `y` is "sun"`.

        The clause is empty if no cell decides.
        """
        *_, instance, value = (0, 0, *np.unravel_index(int(np.argmax(bad)), bad.shape))
        known = [s for s in self.codes if s < self.group.cells.shape[1]]
        cells = [int(self.group.cells[self.start + instance, s]) for s in known]
        named = {c: self._value(c, int(self.codes[s][value])) for s, c in zip(known, cells, strict=True)}
        named.pop(self.graph.n_cells, None)
        texts = [f"`{self.graph.cell_name(c)}` is {v}" for c, v in list(named.items())[:MOST_NAMED_CELLS] if c < self.graph.n_random]
        return f" where {' and '.join(texts)}" if texts else ""

    def _value(self, cell: int, code: int) -> object:
        v = next((v for v in self.graph.variables if v.offset <= cell < v.offset + v.size), None)
        return code if v is None or code >= len(v.labels) else v.labels[code]


def _refuse(found: Array, bad: Array, what: str, span: Span | None, where: _Where) -> None:
    if bad.any():
        number = np.broadcast_to(found, bad.shape)[np.unravel_index(int(np.argmax(bad)), bad.shape)]
        raise infinite(what, float(number), span, where.words(bad))


def infinite(what: str, number: float, span: Span | None, words: str) -> GmlmError:
    """Return E417: a factor, or a part beside a parameter, is not finite.

    Args:
        what: "factor" or "part".
        number: the value.
        span: the place in the text.
        words: a clause that says at which values of the cells it arises.
    """
    shown = "not a number" if np.isnan(number) else f"{'+' if number > 0 else '-'}inf"
    if what == "factor":
        return fail("E417", f"this factor is {shown}{words}", span, f"reaches {shown}", help="log p is a number, or -inf where p is 0")
    message = f"this is {shown}{words}, and a parameter is multiplied by it or added to it"
    help = "probability zero stands in a factor of its own, or in a `require`; leave such values out with `if .. then .. else ..`"
    return fail("E417", message, span, f"reaches {shown}", help=help)


def undefined_at(graph: FactorGraph, params: Mapping[str, Array]) -> GmlmError | None:
    """Return E514 for the first factor that is nan or +inf at some values of its cells, else None.

    The function computes bounds first and evaluates only factors that the bounds leave in doubt. It
    evaluates them in the type of `params`, under all joint values of their cells. It skips factors
    that have too many joint values or that read real given data.
    """
    most = int(graph.sizes.max(initial=1))
    for group in graph.factors:
        if not group.parameters or not group.n or range_of(group, most, params) is not None:
            continue
        sizes = np.append(graph.sizes, 1)[group.cells].max(axis=0, initial=1).tolist()
        for rows, piece, joint in tried(group, sizes, graph.n_cells):
            if joint.count * piece.n > MOST_EVALUATED_VALUES:
                continue
            error = _undefined(graph, group.take(rows), piece, joint, params)
            if error is not None:
                return error
    return None


def _undefined(
    graph: FactorGraph, group: FactorGroup, piece: FactorGroup, joint: JointValues, params: Mapping[str, Array]
) -> GmlmError | None:
    codes = dict(enumerate(joint.codes()))
    step = max(1, int(TRIED_JOINT_AT_ONCE // joint.count))
    kind = np.result_type(*params.values())
    for start in range(0, piece.n, step):
        leaves = numpy_leaves(piece.columns, piece.tables, codes, slice(start, min(piece.n, start + step)), params)
        with np.errstate(all="ignore"):
            found = _in_type(kind, piece, leaves)
            bad = np.isnan(found) | (found == np.inf)
            # A value of -inf is either probability zero or a number that this type cannot
            # represent.
            if (found == -np.inf).any():
                bad = bad | ((found == -np.inf) & np.isfinite(_in_type(np.dtype(float), piece, leaves)))
        if bad.any():
            words = _Where(graph, group, codes, start).words(bad)
            number = found[np.unravel_index(int(np.argmax(bad)), bad.shape)]
            shown = "not a number" if np.isnan(number) else f"{number:+}"
            return fail("E514", f"at these parameters this factor is {shown}{words}", piece.span, f"reaches {shown}", help=STAYS_FINITE)
    return None


def oversized_at(graph: FactorGraph, params: Mapping[str, Array], limit: float, kind: np.dtype) -> GmlmError | None:
    """Return E591 for the first factor that is too large, else None.

    A factor is too large if its largest value over its cells is beyond `limit` in absolute value.
    With parameters, only factors that mention one are checked; without, only the others. Values far
    below the largest one are penalties, which cost no digits. The function skips the factors that
    `undefined_at` skips.

    Args:
        graph: the factor graph.
        params: parameters.
        limit: the limit on the absolute value.
        kind: the float type that the message names.
    """
    most, found = int(graph.sizes.max(initial=1)), None
    for group in graph.factors:
        bounds = range_of(group, most, params) if group.n and bool(group.parameters) == bool(params) else (0.0, 0.0)
        if bounds is not None and max(map(abs, bounds)) <= limit:
            continue
        sizes = np.append(graph.sizes, 1)[group.cells].max(axis=0, initial=1).tolist()
        for rows, piece, joint in tried(group, sizes, graph.n_cells):
            if found is None and joint.count * piece.n <= MOST_EVALUATED_VALUES:
                found = _oversized(graph, group.take(rows), piece, joint, params, limit, kind)
    return found


def _oversized(
    graph: FactorGraph,
    group: FactorGroup,
    piece: FactorGroup,
    joint: JointValues,
    params: Mapping[str, Array],
    limit: float,
    kind: np.dtype,
) -> GmlmError | None:
    codes, step = dict(enumerate(joint.codes())), max(1, int(TRIED_JOINT_AT_ONCE // joint.count))
    for start in range(0, piece.n, step):
        leaves = numpy_leaves(piece.columns, piece.tables, codes, slice(start, min(piece.n, start + step)), params)
        with np.errstate(all="ignore"):
            found = np.atleast_2d(_in_type(np.dtype(float), piece, leaves))
        highest = found.max(axis=1, keepdims=True)
        bad = (np.abs(highest) > limit) & np.isfinite(highest) & (found == highest)
        if bad.any():
            number, bits = found[bad][0], kind.itemsize * 8
            message = f"this factor is {number:g}{_Where(graph, group, codes, start).words(bad)}, beyond {limit:g}: {bits}-bit numbers of "
            message += "that size have no digits left for log p"
            help = "measure it in other units; what is impossible is a `require`"
            help += "" if bits == 64 else '; `jax.config.update("jax_enable_x64", True)` computes in 64 bits'
            return fail("E591", message, group.span, f"reaches {number:g}", help=help)
    return None


def _in_type(kind: np.dtype, piece: FactorGroup, leaves: Leaves) -> Array:
    """Return a group's values with every operation rounded to a float type, as on the device."""
    leaves = replace(leaves, number=lambda a: np.asarray(a, kind), operators=rounded_to(kind))
    return np.asarray(evaluate(piece.root, leaves)).astype(kind)


def untried(graph: FactorGraph) -> FactorGroup | None:
    """Return the first factor that may be infinite or undefined and cannot be tried, else None.

    Such a factor has too many values at given parameters, or waits for real given data.
    """
    for group in graph.factors:
        risky = any(isinstance(n, Apply) and n.operator in RISKY for n in nodes_in(group.root))
        if group.parameters and group.n and risky and (reads_real(group) or _values_of(graph, group) > MOST_EVALUATED_VALUES):
            return group
    return None


def _values_of(graph: FactorGraph, group: FactorGroup) -> float:
    sizes = np.append(graph.sizes, 1)[group.cells].max(axis=0, initial=1).tolist()
    return sum(JointValues(tuple(sizes), owners).count * len(rows) for rows, owners in alike(group.cells, graph.n_cells))


class _Values:
    """Values of a tree over instances and joint values of cells.

    The value is None for a part that mentions a parameter.
    """

    def __init__(self, leaves: Leaves, where: _Where, exact: Set[int]):
        self.leaves, self.where, self.exact = leaves, where, exact

    def value_of(self, node: Node, depth: int, taken: Array | bool) -> Array | None:
        found = self.found(node, depth, taken)
        if found is not None and id(node) in self.exact:
            verify_exact(found, taken, self.span(node), self.where.words)
        return found

    def found(self, node: Node, depth: int, taken: Array | bool) -> Array | None:
        match node:
            case Gather() if node.name:
                return None
            case Apply():
                return self.applied(node, depth, taken)
            case If():
                return self.chosen(node, depth, taken)
            case Add():
                mask = np.asarray(evaluate(node.mask, self.leaves, depth + 1)).astype(bool)
                body = self.value_of(node.body, depth + 1, inside(mask, taken, node.depth, np))
                if body is None:
                    return None
                terms = np.where(mask, body, NEUTRAL[node.operator])
                if node.operator == "+":
                    verify_sum(terms, node.depth, taken, self.where.group.span)
                return reduced(node.operator, terms, node.depth, np)
            case Pick():
                body = self.value_of(node.body, depth + 1, np.expand_dims(np.asarray(taken), node.depth) if np.ndim(taken) else taken)
                return None if body is None else np.asarray(evaluate(node, self.leaves, depth, taken))
            case _:
                return np.asarray(evaluate(node, self.leaves, depth, taken))

    def applied(self, node: Apply, depth: int, taken: Array | bool) -> Array | None:
        first = self.value_of(node.operands[0], depth, taken)
        inner = taken
        if node.operator in ("and", "or") and first is not None:
            inner = taken & (first.astype(bool) if node.operator == "and" else ~first.astype(bool))
        found = [first, *(self.value_of(o, depth, inner) for o in node.operands[1:])]
        if any(v is None for v in found):
            for v, o in zip(found, node.operands, strict=True):
                self.beside_parameter(v, o, inner)
            if node.operator in DIVISIONS and found[1] is not None and ((found[1] == 0) & np.asarray(taken)).any():
                words = self.where.words((found[1] == 0) & np.asarray(taken))
                raise fail("E416", f"this divides by 0{words}", node.span, "no value", help=UNTAKEN)
            return None
        assert self.leaves.judged is not None
        return np.asarray(self.leaves.judged(node, found, taken))

    def chosen(self, node: If, depth: int, taken: Array | bool) -> Array | None:
        test = self.value_of(node.test, depth, taken)
        here = (taken, taken) if test is None else (taken & test.astype(bool), taken & ~test.astype(bool))
        yes, no = (self.value_of(n, depth, t) for n, t in zip((node.yes, node.no), here, strict=True))
        if test is None or yes is None or no is None:
            for v, n, t in ((yes, node.yes, here[0]), (no, node.no, here[1])):
                self.beside_parameter(v, n, t)
            return None
        return np.where(test.astype(bool), yes, no)

    def beside_parameter(self, value: Array | None, node: Node, taken: Array | bool) -> None:
        """Raise E417 for an infinite number beside a parameter."""
        if value is None or value.dtype.kind != "f":
            return
        _refuse(value, ~np.isfinite(value) & np.asarray(taken), "part", self.span(node), self.where)

    def span(self, node: Node) -> Span | None:
        """Return the place of a part in the text, or the place of its factor."""
        return node.span if isinstance(node, Apply) and node.span is not None else self.where.group.span
