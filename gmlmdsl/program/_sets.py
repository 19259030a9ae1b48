"""Check the sets that indices run over: index sets, parts of graphs, and loops."""

from __future__ import annotations

import re

from .._diagnostics import Fix, Span
from ..syntax import tree
from ._expressions import CONSTANT, INDEXED, PARTS, Where, check_condition, check_number, is_faulty, known_number
from ._program import Input, Parameter, Variable
from ._scope import CELLS, WORDS, Scope, Symbol, suggestion
from ._terms import Clauses, Domain, Expression, FormCall, IndexValue, Loop, SetOf, sized, walk


def check_set(e: tree.Expression, scope: Scope, pairs: bool = False, inside: bool = False) -> SetOf | None:
    """Return the set that `e` names, or None after a fault.

    A set is an index set, a domain, `range(n)` or a part of a graph.

    Args:
        e: the expression that names the set.
        scope: the names that are visible. It collects the diagnostics.
        pairs: whether two index names run over it, which improves the suggestion.
        inside: whether it may depend on index names of enclosing loops.
    """
    match e:
        case tree.Name():
            return _named_set(e, scope, pairs)
        case tree.Attribute():
            return _graph_part(e, scope)
        case tree.Method():
            return _neighbours(e, scope)
        case tree.Call() if e.function.name == "range":
            return check_range(e, scope, INDEXED if inside else CONSTANT)
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
    if symbol is None and e.name in sized():
        help = f"values that are indexed over have a name: `domain value = {e.name}` before this, then `v in value`"
        scope.report("E205", f"`{e.name}` is a type, not an index set", e.span, "a type", help=help)
        return None
    if symbol is not None and not symbol.faulty and symbol.kind in NO_SETS:
        _report_no_set(e, symbol, scope, pairs)
        return None
    symbol = scope.use(e, "index", "domain", wanted="an index set")
    if symbol is not None and isinstance(symbol.value, Domain):
        return SetOf(e.span, "domain", e.name, domain=symbol.value)
    return symbol.value if symbol is not None and isinstance(symbol.value, SetOf) else None


NO_SETS = (*CELLS, "param", "let", "input", "length", "graph")


def _report_no_set(e: tree.Name, symbol: Symbol, scope: Scope, pairs: bool) -> None:
    """Report a number, a graph, a variable, a parameter or a `let` in the place of an index set."""
    place, what = ((symbol.span, "declared here"),), WORDS[symbol.kind]
    axes = getattr(symbol.value, "axes", ())
    help, fix = "an index runs over a set, such as `range(4)`", None
    if symbol.kind in ("input", "length"):
        place, what, help, fix = (), "a number", f"write `range({e.name})`", Fix(e.span, f"range({e.name})")
    elif symbol.kind == "graph":
        text = f"{e.name}.{'edges' if pairs or _has_no_nodes(symbol) else 'nodes'}"
        help, fix = f"write `{text}`", Fix(e.span, text, guess=pairs)
    elif axes and not pairs and isinstance(symbol.value, Variable | Parameter):
        what = "an array"
        help = f"a loop runs over an index set: `for i in {axes[0].over.name}`, and its cells are `{e.name}[i]`"
    elif axes:
        help = f"what indexes it are the members of `{axes[0].over.name}`"
    message = f"`{e.name}` is {what}, not an index set"
    scope.report("E205", message, e.span, what, related=place, help=help, fix=fix)


def _has_no_nodes(symbol: Symbol) -> bool:
    return isinstance(symbol.value, FormCall) and symbol.value.form.name == "bipartite"


def check_range(e: tree.Call, scope: Scope, where: Where = CONSTANT) -> SetOf | None:
    """Return the set of `range(n)`, or of `range(a, b)` with the members a to b - 1.

    The result is None after a fault.

    Args:
        e: the call of `range`.
        scope: the names that are visible. It collects the diagnostics.
        where: the names that the arguments may mention.
    """
    if len(e.arguments) != 2 or not e.is_plain or _is_grouped(e):
        size = _range_size(e, scope, where)
        return None if size is None else SetOf(e.span, "range", e.span.text, size)
    start, stop = (check_number(a.value, scope, where, integer=True) for a in e.arguments)
    if is_faulty(start) or is_faulty(stop):
        return None
    low, high = known_number(start), known_number(stop)
    if low is not None and high is not None and low >= high:
        message = f"`{e.span.text}` holds the whole numbers from {low} to {high - 1}: none"
        scope.report("E319", message, e.span, "no members", help="the last member is one less than the second number")
        return None
    return SetOf(e.span, "range", e.span.text, stop) if low == 0 else SetOf(e.span, "range", e.span.text, stop, start=start)


def _is_grouped(e: tree.Call) -> bool:
    """Return whether commas separate the digits of one number, as in `range(10,000)`.

    `range(1,500)` has two arguments, unlike `range(1,050)`, whose second number begins with 0.
    """
    first, *others = ("".join(e.span.text[len("range(") : -1].split())).split(",")
    digits = re.fullmatch(r"[1-9][0-9]{0,2}", first) is not None and all(re.fullmatch(r"[0-9]{3}", o) for o in others)
    return digits and any(o.startswith("0") for o in others)


def _neighbours(e: tree.Method, scope: Scope) -> SetOf | None:
    symbol = scope.use(e.base.base, "graph")
    if symbol is None or not isinstance(symbol.value, FormCall):
        return None
    name = e.base.attribute.name
    if name != "neighbours" or symbol.value.form.name == "bipartite":
        help, fix = suggestion(e.base.attribute, ("neighbours",), "`G.neighbours(i)` is the set of nodes that are joined to i")
        scope.report("E207", f"`{e.base.span.text}(..)` is not a set", e.base.attribute.span, "unknown part", help=help, fix=fix)
        return None
    node = graph_argument(e, scope, INDEXED)
    return None if node is None else SetOf(e.span, "graph", e.span.text, node, graph=e.base.base.name, part="neighbours")


def graph_argument(e: tree.Method, scope: Scope, where: Where) -> Expression | None:
    """Return the only argument of a function of a graph: a node.

    The result is None after a fault.
    """
    if len(e.arguments) != 1 or e.arguments[0].keyword is not None or e.arguments[0].clauses is not None:
        scope.report("E302", f"`{e.base.attribute.name}` takes one node", e.span, f"`{e.base.span.text}(i)`")
        return None
    written = e.arguments[0].value
    if isinstance(written, tree.Name) and scope.find(written.name) is None:
        scope.report_unknown(written, *sorted(where.kinds), axis=f"{e.base.base.name}.nodes")
        return None
    node = check_number(written, scope, where, integer=True)
    return None if is_faulty(node) else node


def _range_size(e: tree.Call, scope: Scope, where: Where) -> Expression | None:
    """Return the checked size of `range(q)`, or None after a fault."""
    if len(e.arguments) != 1 or e.arguments[0].keyword is not None or e.arguments[0].clauses is not None:
        digits = "".join(a.value.span.text for a in e.arguments)
        help = f"write `range({digits})`" if _is_grouped(e) else "`range(n)` is 0 to n - 1, `range(a, b)` is a to b - 1"
        if len(e.arguments) == 3 and not _is_grouped(e):
            help = "the members are a to b - 1, `range(a, b)`; some of them are `index even = i in range(10) if i % 2 == 0`"
        scope.report("E302", "`range` takes one or two plain arguments", e.span, "`range(n)` or `range(a, b)`", help=help)
        return None
    written = e.arguments[0].value
    symbol = scope.find(written.name) if isinstance(written, tree.Name) else None
    if symbol is not None and symbol.kind in ("domain", "index") and not symbol.faulty:
        message, place = f"`{symbol.name}` is a set itself, not a number", ((symbol.span, "declared here"),)
        scope.report("E205", message, written.span, "a set", help=f"write `{symbol.name}`", related=place, fix=Fix(e.span, symbol.name))
        return None
    return check_size(written, scope, where)


def check_size(e: tree.Expression, scope: Scope, where: Where = CONSTANT) -> Expression | None:
    """Return a checked number of values: an integer expression of inputs, at least 1."""
    if _is_array(e, scope) or _is_set(e, scope):
        return None
    size = check_number(e, scope, where, integer=True)
    number = known_number(size)
    if number is not None and number < 1:
        scope.report("E319", f"a size is at least 1, found {number}", e.span, "too small")
        return None
    return None if is_faulty(size) else size


def _is_array(e: tree.Expression, scope: Scope) -> bool:
    """Report an array in place of its length, as in `range(triples)`. Return whether it is one."""
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if symbol is None or not isinstance(symbol.value, Input) or not symbol.value.axes:
        return False
    axes = symbol.value.axes
    first, letters = axes[0].span.text, "ijklmnpqrs"[: len(axes)]
    help = f"its rows are `range({first})`" if axes[0].over is None else f"its rows are `{axes[0].over.name}`"
    inner = axes[0].over is None and len(axes) == 1 and symbol.value.type.kind == "int"
    help += f"; where each has a length of its own, `range({symbol.name}[{letters}])`" * inner
    message = f"`{symbol.name}` is an array, not a number of values"
    scope.report("E205", message, e.span, "an array", related=((symbol.span, "declared here"),), help=help)
    return True


def _is_set(e: tree.Expression, scope: Scope) -> bool:
    """Report a graph in place of its nodes, as in `complete(G)`. Return whether it is one."""
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if symbol is None or symbol.kind != "graph" or symbol.faulty or _has_no_nodes(symbol):
        return False
    text, place = f"{symbol.name}.nodes", ((symbol.span, "declared here"),)
    message, fix = f"`{symbol.name}` is a graph, not a number or a set", Fix(e.span, text)
    scope.report("E205", message, e.span, "a graph", related=place, help=f"write `{text}`", fix=fix)
    return True


def check_size_or_set(e: tree.Expression, scope: Scope) -> Expression | SetOf | None:
    """Check the size of a graph: an integer or an index set."""
    if isinstance(e, tree.Attribute) or (isinstance(e, tree.Call) and e.function.name == "range"):
        return _single(check_set(e, scope), e, scope)
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and symbol.kind in ("index", "domain"):
            return _single(check_set(e, scope), e, scope)
    return check_size(e, scope)


def _single(over: SetOf | None, e: tree.Expression, scope: Scope) -> SetOf | None:
    """Return a set whose members are single values, or report E205."""
    if over is not None and (over.arity > 1 or over.lists_cells):
        scope.report("E205", f"the members of `{over.name}` are not single values", e.span, "not a set of nodes")
        return None
    return over


def _graph_part(e: tree.Attribute, scope: Scope) -> SetOf | None:
    symbol = scope.use(e.base, "graph")
    if symbol is None or not isinstance(symbol.value, FormCall):
        return None
    kind = symbol.value.form.name
    further = symbol.value.arguments.get("axes", ())
    has = ("edges",) if kind == "bipartite" else PARTS if kind == "grid" and not further else PARTS[:4]
    part = e.attribute.name
    if part not in has:
        otherwise = f"a `{kind}` graph has {', '.join(f'`.{p}`' for p in has)}"
        otherwise = f"the neighbours of a node are `{e.span.text}(i)`" if part == "neighbours" and len(has) > 1 else otherwise
        help, fix = suggestion(e.attribute, has, otherwise)
        place = ((symbol.span, "declared here"),)
        of = f"a `{kind}` graph" + f" of {2 + len(further)} axes" * bool(further)  # pyright: ignore[reportArgumentType]
        scope.report("E207", f"{of} has no `.{part}`", e.attribute.span, "unknown part", help=help, fix=fix, related=place)
        return None
    return SetOf(e.span, "graph", f"{e.base.name}.{part}", graph=e.base.name, part=part)


def check_loop(loop: tree.Loop, scope: Scope, cells: bool = False) -> Loop | None:
    """Check one `names in set`. Its names become visible.

    `cells` allows rows and columns, whose members are sets of nodes.
    """
    over = check_set(loop.over, scope, pairs=len(loop.names) == 2, inside=True)
    names = tuple(n.name for n in loop.names)
    if over is not None and over.arity != len(names):
        gives, pattern = {1: ("single values", "i"), 2: ("pairs", "(i, j)"), 3: ("triples", "(i, j, k)")}[min(over.arity, 3)]
        found = f"{len(names)} name{'s' * (len(names) > 1)}"
        place = loop.names[0].span.to(loop.names[-1].span)
        scope.report("E210", f"`{over.name}` gives {gives}, found {found}", place, found, help=f"write `{pattern} in {over.name}`")
        over = None
    if over is not None and over.lists_cells and not cells:
        help = f"`update x[r] for r in {over.name}` or `blocks({over.name})`; a number names one: `x[m * r + c] for c in range(m)`"
        scope.report("E205", f"the members of `{over.name}` are sets of nodes", loop.over.span, "only in a block", help=help)
        over = None
    single = None if over is None else SetOf(over.span, "range", over.name) if over.arity > 1 else over
    for name in loop.names:
        scope.declare("binder", name, single)
    return None if over is None else Loop(loop.span, names, over)


def check_axes(loops: tuple[tree.Loop, ...], scope: Scope) -> tuple[Loop, ...] | None:
    """Return the axes of an array, or None after a fault.

    An axis whose length depends on preceding axes is merged with them into one axis.
    """
    axes: list[Loop] = []
    for loop in check_loops(loops, scope) or ():
        if loop.over.is_dependent:
            while axes and not _is_closed(loop.over):
                before = axes.pop()
                inner = before.over.clauses.loops if before.over.clauses is not None else (before,)
                mine = loop.over.clauses.loops if loop.over.clauses is not None else (loop,)
                span = before.span.to(loop.span)
                name = ", ".join(x.over.name for x in (*inner, *mine))
                both = SetOf(span, "turns", name, clauses=Clauses(span, (*inner, *mine)))
                loop = Loop(span, (*before.names, *loop.names), both)
        axes.append(loop)
    return tuple(axes) if len({n for a in axes for n in a.names}) == sum(len(x.names) for x in loops) else None


def _is_closed(over: SetOf) -> bool:
    """Return whether the sets of merged axes depend only on names of these axes."""
    if over.clauses is None:
        return False
    own = {n for loop in over.clauses.loops for n in loop.names}
    sizes = [e for loop in over.clauses.loops for e in (loop.over.start, loop.over.size) if e is not None]
    return all(p.name in own for e in sizes for p in walk(e) if isinstance(p, IndexValue))


def check_loops(loops: tuple[tree.Loop, ...], scope: Scope, cells: bool = False) -> tuple[Loop, ...] | None:
    """Check several loops, or the axes of an array. The result is None after a fault."""
    checked: list[Loop | None] = []
    for k, loop in enumerate(loops):
        scope.coming = frozenset(n.name for later in loops[k + 1 :] for n in later.names)
        checked.append(check_loop(loop, scope, cells))
    good = tuple(c for c in checked if c is not None)
    return good if len(good) == len(checked) else None


def check_clauses(clauses: tree.Clauses | None, span: Span, scope: Scope, cells: bool = False, where: Where = INDEXED) -> Clauses:
    """Check `for .. if ..`. Its names become visible. Missing clauses mean one iteration.

    Args:
        clauses: the clauses in the program's text, or None.
        span: the place of the statement, if there are no clauses.
        scope: the names that are visible. It collects the diagnostics.
        cells: whether rows and columns are allowed, whose members are sets of nodes.
        where: the names that the condition may mention.
    """
    if clauses is None:
        return Clauses(span, ())
    loops = check_loops(clauses.loops, scope, cells) or ()
    condition = None if clauses.condition is None else check_condition(clauses.condition, scope, where)
    return Clauses(clauses.span, loops, condition)
