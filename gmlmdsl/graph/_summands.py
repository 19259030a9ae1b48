"""A factor that is a sum, as one factor for each term.

`factor -beta * energy` with `let energy = -sum(s[i] * s[j] for (i, j) in G.edges)` is one factor of
all cells as it is written. log p is the sum of its terms in any case. So each term becomes a
separate factor of two cells, and conditionals and sums evaluate only the factors that they need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ..program import ir
from .limits import MOST_SUMMANDS


def summands(e: ir.Expression, clauses: ir.Clauses, model: ir.Model) -> list[tuple[ir.Expression, ir.Clauses]]:
    """Return terms with their clauses. Their sum over all iterations is an expression's sum.

    A sum with a `for` joins its loops to those of the clauses. It may stand in other sums and
    differences, beside a factor or over a divisor without such a sum, and in a `let` without axes.
    A sum whose terms mention no cell, as over covariates, stays whole: apart, its terms would be
    factors of the same cells. So does an expression of more than `MOST_SUMMANDS` terms.
    """
    if not _is_sum(e, model):
        return [(e, clauses)]
    found = list(islice(_terms(e, clauses, model), MOST_SUMMANDS + 1))
    return found if len(found) <= MOST_SUMMANDS else [(e, clauses)]


def _is_sum(e: ir.Expression, model: ir.Model) -> bool:
    """Return whether an expression has a sum with a `for` that can be written as several terms."""
    match e:
        case ir.Sum(operator="+"):
            return _has_cell(e.body, model)
        case ir.Operation(operator="+" | "-" | "neg", operands=operands):
            return any(_is_sum(o, model) for o in operands)
        case ir.Operation(operator="*", operands=(left, right)):
            return _is_sum(left, model) != _is_sum(right, model)
        case ir.Operation(operator="/", operands=(left, right)):
            return _is_sum(left, model) and not _is_sum(right, model)
        case ir.LetValue(indices=()) if e.name in model.lets:
            return _is_sum(model.lets[e.name].value, model)
    return False


def _has_cell(e: ir.Expression, model: ir.Model) -> bool:
    """Return whether an expression mentions a cell that a model gives a probability."""
    for part in ir.walk(e):
        if isinstance(part, ir.VariableValue) and model.variables[part.name].role != "given":
            return True
        if isinstance(part, ir.LetValue) and part.name in model.lets and _has_cell(model.lets[part.name].value, model):
            return True
    return False


def _terms(e: ir.Expression, clauses: ir.Clauses, model: ir.Model) -> Iterator[tuple[ir.Expression, ir.Clauses]]:
    if not _is_sum(e, model):
        yield e, clauses
        return
    match e:
        case ir.Sum(body=body, clauses=inner):
            joined = _joined(clauses, inner, body)
            if joined is None:
                yield e, clauses
            else:
                yield from _terms(*joined, model)
        case ir.LetValue():
            yield from _terms(model.lets[e.name].value, clauses, model)
        case ir.Operation(operator="neg", operands=(inside,)):
            yield from ((replace(e, operands=(t,)), c) for t, c in _terms(inside, clauses, model))
        case ir.Operation(operator="+" | "-", operands=(left, right)):
            yield from _terms(left, clauses, model)
            sign = "neg" if e.operator == "-" else ""
            yield from ((replace(e, operator=sign, operands=(t,)) if sign else t, c) for t, c in _terms(right, clauses, model))
        case ir.Operation(operands=(left, right)) if _is_sum(left, model):
            yield from ((replace(e, operands=(t, right)), c) for t, c in _terms(left, clauses, model))
        case ir.Operation(operands=(left, right)):
            yield from ((replace(e, operands=(left, t)), c) for t, c in _terms(right, clauses, model))


def _joined(outer: ir.Clauses, inner: ir.Clauses, body: ir.Expression) -> tuple[ir.Expression, ir.Clauses] | None:
    """Return the body of a sum with the loops of its clauses behind those around it.

    Index names that both have are renamed within the sum. The result is None if a set of the sum
    depends on index names that a condition around it restricts.
    """
    if outer.condition is not None and any(loop.over.is_dependent for loop in inner.loops):
        return None
    taken = {n for loop in outer.loops for n in loop.names}
    new: dict[str, ir.Expression] = {}
    loops = []
    for loop in inner.loops:
        names = []
        for name in loop.names:
            fresh = name
            while fresh in taken:
                fresh += "'"
            taken.add(fresh)
            names.append(fresh)
            new[name] = ir.IndexValue(loop.span, fresh)
        loops.append(replace(loop, names=tuple(names), over=ir.substitute_in_set(loop.over, new)))
    condition = None if inner.condition is None else ir.substitute(inner.condition, new)
    conditions = tuple(c for c in (outer.condition, condition) if c is not None)
    both = ir.Operation(inner.span, "and", conditions) if len(conditions) > 1 else next(iter(conditions), None)
    return ir.substitute(body, new), replace(outer, loops=(*outer.loops, *loops), condition=both)
