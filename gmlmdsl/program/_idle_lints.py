"""Warn of unused and duplicate parts of a program. Each warning is proved from the text alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

from .._diagnostics import Diagnostic, Span, name_in
from ._comparisons import weights
from ._expressions import mentions
from ._program import Factor, Model, Program, Require
from ._terms import Choice, Clauses, Expression, IndexValue, LetValue, Literal, Loop, Operation, ParameterValue, VariableValue, walk

COMMUTE = ("+", "*", "and", "or", "==", "!=", "min", "max")


def lint_idle(program: Program, used: Set[str]) -> Iterator[Diagnostic]:
    """Yield warnings for unused names, ineffective factors, pairs counted twice, and unused `sees`.

    Args:
        program: a checked program.
        used: the names that its text looks up.
    """
    yield from _unused(program, used)
    for model in program.models.values():
        if model.conditional is None:
            yield from _free(model, program)
            for term, value in (*((f, f.value) for f in model.factors), *((r, r.condition) for r in model.requires)):
                yield from _same_for_all(term, value)
            for factor in model.factors:
                yield from _cancels(factor, model)
                yield from _twice(factor, model)
    yield from _never_looked_at(program)


def _unused(program: Program, used: Set[str]) -> Iterator[Diagnostic]:
    """Yield a warning for each unused declaration of the program's own file.

    A file without a model is skipped, because it declares names for other files.
    """
    if not program.models:
        return
    lengths = {owner for length, (owner, _) in program.lengths.items() if length in used}
    kinds: dict[str, Mapping[str, object]] = {
        "input": program.inputs,
        "domain": program.domains,
        "index set": program.index_sets,
        "graph": program.graphs,
        "network": program.networks,
    }
    for what, declared in kinds.items():
        for name, value in declared.items():
            span: Span = value.span  # type: ignore[attr-defined]
            if name not in used and name not in lengths and span.source == program.sources[0]:
                place = _named_before(span, name) or (name_in(span, name) if span.text != name else span)
                yield Diagnostic("W817", f"nothing uses {what} `{name}`", place, "unused", help="remove it, or use it")


def _named_before(span: Span, name: str) -> Span | None:
    """Return the place of the name of a graph or network before its form: `graph G = chain(4)`."""
    found = re.search(rf"\b{name}\b(?=\s*=\s*$)", span.source.text[: span.start])
    return found and Span(span.source, *found.span())


def _free(model: Model, program: Program) -> Iterator[Diagnostic]:
    """Yield a warning for each variable that no factor mentions, in a model that has factors."""
    if not (model.factors or model.requires or model.distributed):
        return
    terms = [*(f.value for f in model.factors), *(r.condition for r in model.requires)]
    terms += [part for d in model.distributed for part in (d.target, d.probabilities)]
    named = {p.name for e in terms for p in mentions(e, model.lets)}
    own = [w for m in program.masks.values() if m.model == model.name for w in weights(m)]
    looked_at = {p.name for w in own for p in mentions(w, model.lets)}
    for v in model.variables.values():
        if v.name in named or (v.role == "given" and v.name in looked_at):
            continue
        what = "says nothing" if v.role == "given" else "is uniform, and independent of all else"
        yield Diagnostic(
            "W817", f"no factor mentions `{v.name}`: it {what}", name_in(v.span, v.name), "in no factor", help="remove it, or use it"
        )


def _same_for_all(term: Factor | Require, value: Expression) -> Iterator[Diagnostic]:
    """Yield a warning for each loop whose index is unused, so that all iterations are identical.

    A loop over pairs is skipped, because one of its names may be left out intentionally.
    """
    # `for c in range(r)` uses r.
    ends = [e for loop in term.clauses.loops for e in (loop.over.start, loop.over.size)]
    parts = [e for e in (value, term.clauses.condition, *ends) if e is not None]
    named = {p.name for e in parts for p in walk(e) if isinstance(p, IndexValue)}
    for loop in term.clauses.loops:
        if len(loop.names) == 1 and loop.names[0] not in named:
            what = "the same term is added in every iteration" if isinstance(term, Factor) else "every iteration requires the same"
            message = f"nothing uses `{loop.names[0]}`: {what}"
            yield Diagnostic("W817", message, name_in(loop.span, loop.names[0]), "unused", help="remove the loop, or use its index")


def _cancels(factor: Factor, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a factor without a predicted cell.

    Such a factor is equal for all configurations.
    """
    named = [p for p in mentions(factor.value, model.lets) if isinstance(p, VariableValue)]
    if all(model.variables[p.name].role == "given" for p in named):
        message = "this factor mentions no variable that is predicted: it cancels when p is normalised"
        yield Diagnostic(
            "W818", message, factor.value.span, "changes no probability", help="remove it, or let it mention a `var` or `latent`"
        )


def _never_looked_at(program: Program) -> Iterator[Diagnostic]:
    for mask in program.masks.values():
        if not mask.body.weighted_blocks() or not mask.given:
            continue
        lets = program.models[mask.model].lets
        seen = {p.name for w in weights(mask) for p in mentions(w, lets)}
        for name in mask.given:
            if name not in seen:
                message = f"mask `{mask.name}` says that it looks at `{name}`, and no weight or rate of it does"
                yield Diagnostic("W816", message, _in_header(mask.span, name), "never looked at", help=f"remove `{name}` from the header")


def _in_header(span: Span, name: str) -> Span:
    """Return the place of a name after `sees` in a mask's header."""
    found = re.search(r" (sees|given) ", span.text)
    start = span.start + found.start() + 1 if found else span.start
    return name_in(Span(span.source, start, span.end), name)


def _twice(factor: Factor, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a coupling that has equal values for (i, j) and (j, i) and counts both.

    A coupling of three cells is reported if its values are equal in all six orders.
    """
    names = _ordered(factor.clauses)
    orders = math.factorial(len(names))
    if not names or not _is_coupling(factor.value, names, model) or _is_shared(factor.value, orders):
        return
    condition = factor.clauses.condition
    parts = [factor.value] if condition is None else [factor.value, condition]
    places = {name: str(k) for k, name in enumerate(names)}
    for one, other in pairwise(names):  # Exchanges of neighbours generate every order.
        exchanged = {**places, one: places[other], other: places[one]}
        if any(_form(e, places, model) != _form(e, exchanged, model) for e in parts):
            return
    over = factor.clauses.loops[-1].over
    ascending = " and ".join(f"{one} < {other}" for one, other in pairwise(names))
    help = f"loop over `{over.graph}.edges`" if over.part in ("arcs", "neighbours") else f"add `if {ascending}`"
    what, often, share = {2: ("pair", "twice", "0.5 *` where half"), 6: ("triple", "six times", "/ 6` where a sixth")}[orders]
    message = f"each {what} is counted {often}: this is the same for ({', '.join(names)}) and for ({', '.join(reversed(names))})"
    yield Diagnostic("W819", message, factor.span, f"counted {often}", help=f"{help}, or write `{share} of it is meant")


def _ordered(clauses: Clauses) -> tuple[str, ...]:
    """Return the names of a loop over all ordered pairs or triples, and () for any other loop."""
    loops = clauses.loops
    if len(loops) == 1 and loops[0].over.part == "arcs":
        return loops[0].names
    if len(loops) == 2 and _is_of_neighbours(loops[0], loops[1]):
        return (*loops[0].names, *loops[1].names)
    alike = all(loop.over == loops[0].over and len(loop.names) == 1 for loop in loops)
    return tuple(loop.names[0] for loop in loops) if len(loops) in (2, 3) and alike else ()


def _is_of_neighbours(first: Loop, second: Loop) -> bool:
    """Return whether two loops run over all nodes of a graph and over the neighbours of each."""
    node = second.over.size
    of = isinstance(node, IndexValue) and first.names == (node.name,)
    return first.over.part == "nodes" and second.over.part == "neighbours" and first.over.graph == second.over.graph and of


def _is_coupling(e: Expression, names: tuple[str, ...], model: Model) -> bool:
    """Return whether `e` mentions predicted cells at all names."""
    cells = [p for p in mentions(e, {}) if isinstance(p, VariableValue) and model.variables[p.name].role != "given"]
    at = [{x.name for i in c.indices for x in walk(i) if isinstance(x, IndexValue)} for c in cells]
    return all(any(n in found for found in at) for n in names)


def _is_shared(e: Expression, count: int) -> bool:
    """Return whether a term is divided by `count`, the number of orders.

    A sum over ordered pairs is often written this way.
    """
    match e:
        case Literal():
            return isinstance(e.value, float) and math.isclose(e.value, 1 / count, rel_tol=0.003)
        case Operation(operator="*"):
            return any(_is_shared(x, count) for x in e.operands)
        case Operation(operator="/"):
            left, right = e.operands
            return (isinstance(right, Literal) and right.value == count) or _is_shared(left, count)
        case Operation(operator="neg"):
            return _is_shared(e.operands[0], count)
    return False


def _form(e: Expression, names: Mapping[str, str], model: Model) -> object:
    """Return a normal form of an expression. Expressions with equal normal forms have equal values.

    The order of operands is removed if it has no meaning, and `names` replaces the index names.
    """
    match e:
        case IndexValue():
            return "index", names.get(e.name, f".{e.name}")
        case Operation():
            parts = [_form(o, names, model) for o in _operands(e)]
            return e.operator, tuple(sorted(parts, key=repr) if e.operator in COMMUTE else parts)
        case ParameterValue():
            indices = [_form(i, names, model) for i in e.indices]
            axes = model.parameters[e.name].axes
            unordered = len(axes) == 1 and axes[0].over.part == "edges"
            return "param", e.name, tuple(sorted(indices, key=repr) if unordered else indices)
        case VariableValue() | LetValue():
            return type(e).__name__, e.name, tuple(_form(i, names, model) for i in e.indices)
        case Literal():
            return "number", e.value
        case Choice():
            return "if", *(_form(part, names, model) for part in (e.test, e.yes, e.no))
    return id(e), tuple(sorted(names.items()))  # Nothing is known of any other expression.


def _operands(e: Operation) -> list[Expression]:
    """Return the operands of an operation, with nested sums or products of one operator merged."""
    if e.operator not in ("+", "*", "and", "or"):
        return list(e.operands)
    return [x for o in e.operands for x in (_operands(o) if isinstance(o, Operation) and o.operator == e.operator else [o])]
