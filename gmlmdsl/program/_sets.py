"""Checks what indices run over and what values cells, inputs and parameters take: sets, domains, types, loops."""

from __future__ import annotations

from .._diagnostics import Fix, Span, did_you_mean, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import CONSTANT, INDEXED, check_condition, check_number
from ._scope import Scope
from .ir import Clauses, Domain, Expression, FormCall, InputValue, Literal, Loop, SetOf, ValueType

PARTS = ("nodes", "edges", "arcs", "rows", "columns")
VALUE_TYPES = ("real", "positive", "simplex", "int")


def check_set(e: tree.Expression, scope: Scope) -> SetOf | None:
    """The set that `e` names: an index set, a domain, `range(n)` or a part of a graph; None after a fault."""
    match e:
        case tree.Name():
            symbol = scope.use(e, "index", "domain", wanted="an index set")
            if symbol is None or symbol.value is None:
                return None
            if isinstance(symbol.value, Domain):
                return SetOf(e.span, "domain", e.name, domain=symbol.value)
            return symbol.value if isinstance(symbol.value, SetOf) else None
        case tree.Attribute():
            return _graph_part(e, scope)
        case tree.Call() if e.function.name == "range":
            size = _range_size(e, scope)
            return None if size is None else SetOf(e.span, "range", e.span.text, size)
        case tree.Number():
            text = e.span.text
            scope.report("E205", f"`{text}` is a number, not an index set", e.span, "a number", help=f"write `range({text})`", fix=Fix(e.span, f"range({text})"))
        case _:
            scope.report("E205", "an index set is expected here", e.span, "not an index set", help="a declared index set or domain, `range(n)`, or a part of a graph such as `G.edges`")
    return None


def _range_size(e: tree.Call, scope: Scope) -> Expression | None:
    if len(e.arguments) != 1 or e.arguments[0].keyword is not None or e.arguments[0].clauses is not None:
        help = "an index set starts at 0: `range(n)` is 0..n-1"
        scope.report("E302", f"`range` takes 1 argument, found {len(e.arguments)}", e.span, "`range(q)`", help=help)
        return None
    return check_size(e.arguments[0].value, scope)


def check_size(e: tree.Expression, scope: Scope) -> Expression | None:
    """A number of values: an integer of inputs, at least 1."""
    size = check_number(e, scope, CONSTANT, integer=True)
    if isinstance(size, Literal) and size.value < 1:
        scope.report("E319", f"a size is at least 1, found {size.value}", e.span, "too small")
        return None
    return size


def check_size_or_set(e: tree.Expression, scope: Scope) -> Expression | SetOf | None:
    """What a graph's size takes: an integer, or an index set."""
    if isinstance(e, tree.Attribute) or (isinstance(e, tree.Call) and e.function.name == "range"):
        return check_set(e, scope)
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and symbol.kind in ("index", "domain"):
            return check_set(e, scope)
    return check_size(e, scope)


def _graph_part(e: tree.Attribute, scope: Scope) -> SetOf | None:
    symbol = scope.use(e.base, "graph")
    if symbol is None or not isinstance(symbol.value, FormCall):
        return None
    kind = symbol.value.form.name
    has = {"bipartite": ("edges",), "grid": PARTS}.get(kind, PARTS[:3])
    part = e.attribute.name
    if part not in has:
        near = did_you_mean(part, has)
        help = f"did you mean `{near}`?" if near else f"a `{kind}` graph has {listed(has)}"
        message = f"a `{kind}` graph has no `{part}`"
        scope.report("E207", message, e.attribute.span, "unknown part", help=help, fix=Fix(e.attribute.span, near) if near else None)
        return None
    return SetOf(e.span, "graph", f"{e.base.name}.{part}", graph=e.base.name, part=part)


def check_domain(e: tree.Expression, scope: Scope) -> Domain | None:
    """The values of a cell: spin, bit, range(q), letters(..), labels(..), a declared domain or an index set."""
    match e:
        case tree.Name(name="spin" | "bit") if scope.find(e.name) is None:
            return Domain(e.span, e.name, e.name)
        case tree.Name() if scope.find(e.name) is None and (e.name in VALUE_TYPES or forms.form("type", e.name)):
            scope.report("E205", f"a cell cannot be `{e.name}`: models are discrete", e.span, "not a domain", help="spin, bit, range(q), letters(..), labels(..)")
            return None
        case tree.Name() if scope.find(e.name) is None and (near := did_you_mean(e.name, ("spin", "bit"))):
            scope.report("E203", f"`{e.name}` is not declared", e.span, "unknown domain", help=f"did you mean `{near}`?", fix=Fix(e.span, near))
            return None
        case tree.Name() | tree.Attribute():
            over = check_set(e, scope)
            return None if over is None else _domain_of(over, e, scope)
        case tree.Call() if e.function.name == "range":
            size = _range_size(e, scope)
            return None if size is None else Domain(e.span, "range", e.span.text, size=size)
        case tree.Call() if e.function.name in ("letters", "labels"):
            return _label_domain(e, scope)
        case tree.Call():
            known = ("range", "letters", "labels")
            near = did_you_mean(e.function.name, known)
            help = f"did you mean `{near}`?" if near else "spin, bit, range(q), letters(..), labels(..)"
            fix = Fix(e.function.span, near) if near else None
            scope.report("E301", f"there is no domain `{e.function.name}`", e.function.span, "unknown domain", help=help, fix=fix)
        case _:
            scope.report("E205", "a domain is expected here", e.span, "not a domain", help="spin, bit, range(q), letters(..), labels(..), a declared domain or index set")
    return None


def _domain_of(over: SetOf, e: tree.Expression, scope: Scope) -> Domain | None:
    if over.domain is not None:
        return over.domain
    if over.arity == 2 or over.lists_cells:
        scope.report("E205", f"`{over.name}` is no set of single values", e.span, "not a domain")
        return None
    return Domain(e.span, "range", over.name, size=over.size, of=over)


def _label_domain(e: tree.Call, scope: Scope) -> Domain | None:
    kind = e.function.name
    texts = [a.value.value for a in e.arguments if isinstance(a.value, tree.String) and a.keyword is None and a.clauses is None]
    if len(texts) != len(e.arguments) or not texts or (kind == "letters" and len(texts) != 1):
        takes = "one text, such as `letters(\"ACGT\")`" if kind == "letters" else "texts, such as `labels(\"sun\", \"rain\")`"
        scope.report("E302", f"`{kind}` takes {takes}", e.span, "wrong arguments")
        return None
    labels = tuple(texts[0]) if kind == "letters" else tuple(texts)
    twice = next((v for i, v in enumerate(labels) if v in labels[:i]), None)
    if twice is not None:
        scope.report("E217", f'"{twice}" stands twice in the domain', e.span, "each value once")
        return None
    if not labels:
        scope.report("E319", "a domain has at least one value", e.span, "no value")
        return None
    return Domain(e.span, kind, "", labels)


def check_type(e: tree.Expression | None, scope: Scope, where: Span, inputs: bool) -> ValueType | None:
    """The type of an input (`inputs`) or a parameter; left out it is real."""
    if e is None:
        return ValueType(where, "real")
    if isinstance(e, tree.Name) and e.name in VALUE_TYPES and scope.find(e.name) is None:
        if e.name == "int" and not inputs:
            scope.report("E205", "a parameter cannot be `int`", e.span, "inputs only", help="real, positive, simplex, real(lower = .., upper = ..)")
            return None
        return ValueType(e.span, e.name)
    if isinstance(e, tree.Call) and e.function.name == "real":
        return _bounded(e, scope)
    if not inputs:
        words = VALUE_TYPES[:3]
        near = did_you_mean(e.name, words) if isinstance(e, tree.Name) else None
        help = f"did you mean `{near}`?" if near else "real, positive, simplex, real(lower = .., upper = ..)"
        scope.report("E205", "a parameter is real, positive or simplex", e.span, "not a parameter type", help=help, fix=Fix(e.span, near) if near else None)
        return None
    if isinstance(e, tree.Name) and scope.find(e.name) is None and (near := did_you_mean(e.name, (*VALUE_TYPES, "spin", "bit"))):
        scope.report("E203", f"`{e.name}` is not declared", e.span, "unknown type", help=f"did you mean `{near}`?", fix=Fix(e.span, near))
        return None
    domain = check_domain(e, scope)
    return None if domain is None else ValueType(e.span, "domain", domain=domain)


def _bounded(e: tree.Call, scope: Scope) -> ValueType | None:
    bounds: dict[str, Expression] = {}
    for a in e.arguments:
        if a.keyword is None or a.keyword.name not in ("lower", "upper") or a.keyword.name in bounds:
            scope.report("E302", "`real` takes `lower = ..` and `upper = ..`", a.span, "`real(lower = .., upper = ..)`")
            return None
        bounds[a.keyword.name] = check_number(a.value, scope, CONSTANT)
    low, high = bounds.get("lower"), bounds.get("upper")
    if isinstance(low, Literal) and isinstance(high, Literal) and low.value >= high.value:
        scope.report("E319", f"the lower bound {low.value} is not below the upper bound {high.value}", e.span, "empty")
        return None
    return ValueType(e.span, "bounded" if bounds else "real", low, high)


def check_loop(loop: tree.Loop, scope: Scope, cells: bool = False) -> Loop | None:
    """One `names in set`; its names become visible. `cells` allows rows and columns, whose members are sets of nodes."""
    over = check_set(loop.over, scope)
    names = tuple(n.name for n in loop.names)
    if over is not None and over.arity != len(names):
        takes = "a pair `(i, j)`" if over.arity == 2 else "one name"
        scope.report("E210", f"`{over.name}` gives {takes}", loop.span, f"{len(names)} name{'s' * (len(names) > 1)} here", help=f"write `{'(i, j)' if over.arity == 2 else 'i'} in {over.name}`")
        over = None
    if over is not None and over.lists_cells and not cells:
        scope.report("E205", f"the members of `{over.name}` are sets of nodes", loop.over.span, "only in a block", help=f"`update x[r] for r in {over.name}` or `blocks({over.name})`")
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


def check_clauses(clauses: tree.Clauses | None, span: Span, scope: Scope, cells: bool = False) -> Clauses:
    """`for .. if ..`; its names become visible. Nothing written means once."""
    if clauses is None:
        return Clauses(span, ())
    loops = check_loops(clauses.loops, scope, cells) or ()
    condition = None if clauses.condition is None else check_condition(clauses.condition, scope, INDEXED)
    return Clauses(clauses.span, loops, condition)


def is_input(e: Expression, name: str) -> bool:
    """Whether `e` is the scalar input `name`."""
    return isinstance(e, InputValue) and e.name == name and not e.indices
