"""Checks what indices run over: index sets, the parts of graphs, loops."""

from __future__ import annotations

import re

from .._diagnostics import Fix, Span
from ..syntax import tree
from ._blocks import FormCall
from ._expressions import CONSTANT, INDEXED, Where, check_condition, check_number, is_faulty, known_number
from ._scope import Scope, Symbol, suggestion
from ._terms import Clauses, Domain, Expression, Loop, SetOf

PARTS = ("nodes", "edges", "arcs", "rows", "columns")


def check_set(e: tree.Expression, scope: Scope, pairs: bool = False) -> SetOf | None:
    """The set that `e` names: an index set, a domain, `range(n)` or a part of a graph; None after a fault.

    `pairs`: two index names run over it, which helps to say what was meant.
    """
    match e:
        case tree.Name():
            return _named_set(e, scope, pairs)
        case tree.Attribute():
            return _graph_part(e, scope)
        case tree.Call() if e.function.name == "range":
            size = range_size(e, scope)
            return None if size is None else SetOf(e.span, "range", e.span.text, size)
        case tree.Number():
            text = e.span.text
            help, fix = f"write `range({text})`", Fix(e.span, f"range({text})")
            scope.report("E205", f"`{text}` is a number, not an index set", e.span, "a number", help=help, fix=fix)
        case tree.Call():
            help, fix = suggestion(e.function, ("range",), SETS, "set")
            scope.report("E301", f"there is no index set `{e.function.name}(..)`", e.function.span, "unknown index set", help=help, fix=fix)
        case _:
            scope.report("E205", "an index set is expected here", e.span, "not an index set", help=SETS)
    return None


SETS = "a declared index set or domain, `range(n)`, or a part of a graph such as `G.edges`"


def _named_set(e: tree.Name, scope: Scope, pairs: bool) -> SetOf | None:
    symbol = scope.find(e.name)
    if symbol is not None and symbol.kind in ("input", "length") and not symbol.faulty:
        help, fix = f"write `range({e.name})`", Fix(e.span, f"range({e.name})")
        scope.report("E205", f"`{e.name}` is a number, not an index set", e.span, "a number", help=help, fix=fix)
        return None
    if symbol is not None and symbol.kind == "graph" and not symbol.faulty:
        text = f"{e.name}.{'edges' if pairs or _has_no_nodes(symbol) else 'nodes'}"
        place = ((symbol.span, "declared here"),)
        message, help = f"`{e.name}` is a graph, not an index set", f"write `{text}`"
        scope.report("E205", message, e.span, "a graph", help=help, related=place, fix=Fix(e.span, text, guess=pairs))
        return None
    if symbol is None and e.name in ("spin", "bit"):
        help = f"values that are indexed over have a name: `domain value = {e.name}` before this, then `v in value`"
        scope.report("E205", f"`{e.name}` is a type, not an index set", e.span, "a type", help=help)
        return None
    symbol = scope.use(e, "index", "domain", wanted="an index set")
    if symbol is not None and isinstance(symbol.value, Domain):
        return SetOf(e.span, "domain", e.name, domain=symbol.value)
    return symbol.value if symbol is not None and isinstance(symbol.value, SetOf) else None


def _has_no_nodes(symbol: Symbol) -> bool:
    return isinstance(symbol.value, FormCall) and symbol.value.form.name == "bipartite"


def range_size(e: tree.Call, scope: Scope) -> Expression | None:
    """The checked size of `range(q)`; None after a fault."""
    if len(e.arguments) != 1 or e.arguments[0].keyword is not None or e.arguments[0].clauses is not None:
        digits = "".join(a.value.span.text for a in e.arguments)
        grouped = len(e.arguments) > 1 and re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+", e.span.text[len("range(") : -1])
        help = f"write `range({digits})`" if grouped else "an index set starts at 0: `range(n)` is 0..n-1"
        scope.report("E302", "`range` takes one plain argument", e.span, "`range(n)`", help=help)
        return None
    return check_size(e.arguments[0].value, scope)


def check_size(e: tree.Expression, scope: Scope) -> Expression | None:
    """A number of values: an integer of inputs, at least 1."""
    size = check_number(e, scope, CONSTANT, integer=True)
    number = known_number(size)
    if number is not None and number < 1:
        scope.report("E319", f"a size is at least 1, found {number}", e.span, "too small")
        return None
    return None if is_faulty(size) else size


def check_size_or_set(e: tree.Expression, scope: Scope) -> Expression | SetOf | None:
    """What a graph's size takes: an integer, or an index set."""
    if isinstance(e, tree.Attribute) or (isinstance(e, tree.Call) and e.function.name == "range"):
        return _single(check_set(e, scope), e, scope)
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and symbol.kind in ("index", "domain"):
            return _single(check_set(e, scope), e, scope)
    return check_size(e, scope)


def _single(over: SetOf | None, e: tree.Expression, scope: Scope) -> SetOf | None:
    """A set whose members are single values."""
    if over is not None and (over.arity == 2 or over.lists_cells):
        scope.report("E205", f"the members of `{over.name}` are not single values", e.span, "not a set of nodes")
        return None
    return over


def _graph_part(e: tree.Attribute, scope: Scope) -> SetOf | None:
    symbol = scope.use(e.base, "graph")
    if symbol is None or not isinstance(symbol.value, FormCall):
        return None
    kind = symbol.value.form.name
    has = {"bipartite": ("edges",), "grid": PARTS}.get(kind, PARTS[:3])
    part = e.attribute.name
    if part not in has:
        help, fix = suggestion(e.attribute, has, f"a `{kind}` graph has {', '.join(f'`.{p}`' for p in has)}")
        place = ((symbol.span, "declared here"),)
        scope.report("E207", f"a `{kind}` graph has no `.{part}`", e.attribute.span, "unknown part", help=help, fix=fix, related=place)
        return None
    return SetOf(e.span, "graph", f"{e.base.name}.{part}", graph=e.base.name, part=part)


def check_loop(loop: tree.Loop, scope: Scope, cells: bool = False) -> Loop | None:
    """One `names in set`; its names become visible. `cells` allows rows and columns, whose members are sets of nodes."""
    over = check_set(loop.over, scope, pairs=len(loop.names) == 2)
    names = tuple(n.name for n in loop.names)
    if over is not None and over.arity != len(names):
        gives, pattern = ("pairs", "(i, j)") if over.arity == 2 else ("single values", "i")
        found = f"{len(names)} name{'s' * (len(names) > 1)}"
        place = loop.names[0].span.to(loop.names[-1].span)
        scope.report("E210", f"`{over.name}` gives {gives}, found {found}", place, found, help=f"write `{pattern} in {over.name}`")
        over = None
    if over is not None and over.lists_cells and not cells:
        help = f"`update x[r] for r in {over.name}` or `blocks({over.name})`"
        scope.report("E205", f"the members of `{over.name}` are sets of nodes", loop.over.span, "only in a block", help=help)
        over = None
    single = None if over is None else SetOf(over.span, "range", over.name) if over.arity == 2 else over
    for name in loop.names:
        scope.declare("binder", name, single)
    return None if over is None else Loop(loop.span, names, over)


def check_loops(loops: tuple[tree.Loop, ...], scope: Scope, cells: bool = False) -> tuple[Loop, ...] | None:
    """Several loops, or the axes of an array; None if one was faulty."""
    checked = [check_loop(loop, scope, cells) for loop in loops]
    good = tuple(c for c in checked if c is not None)
    return good if len(good) == len(checked) else None


def check_clauses(clauses: tree.Clauses | None, span: Span, scope: Scope, cells: bool = False, where: Where = INDEXED) -> Clauses:
    """`for .. if ..`; its names become visible. Nothing written means once. `where`: what the condition may mention."""
    if clauses is None:
        return Clauses(span, ())
    loops = check_loops(clauses.loops, scope, cells) or ()
    condition = None if clauses.condition is None else check_condition(clauses.condition, scope, where)
    return Clauses(clauses.span, loops, condition)
