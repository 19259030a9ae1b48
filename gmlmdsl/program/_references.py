"""Check names in expressions, and their indices."""

from __future__ import annotations

import re

from .._diagnostics import Fix, Span
from ..syntax import tree
from ._expressions import (
    INDEXED,
    MODEL,
    PARTS,
    POSSIBLE,
    Checked,
    Where,
    check_expression,
    check_label,
    faulty,
    label_without_quotes,
    mentions_parameter,
    quoted,
    rule,
    whole,
)
from ._program import Input, Let, Parameter, Variable
from ._scope import WORDS, Scope, Symbol
from ._sets import graph_argument
from ._terms import (
    ERROR,
    INTEGER,
    NUMBER,
    OPEN,
    Clauses,
    Domain,
    Expression,
    FormCall,
    IndexValue,
    InputValue,
    Kind,
    LetValue,
    Literal,
    Loop,
    ParameterValue,
    SetOf,
    Sum,
    VariableValue,
    kind_of,
    same_domain,
)
from .limits import MOST_INDICES

Indices = tuple[tree.Expression, ...]


@rule(tree.Name)
def _name(e: tree.Name, scope: Scope, where: Where) -> Checked:
    return _reference(e, (), e.span, scope, where)


@rule(tree.Index)
def _index(e: tree.Index, scope: Scope, where: Where) -> Checked:
    if isinstance(e.base, tree.Attribute) and _is_of_graph(e.base, scope):
        _report_brackets(e, e.base, scope)
        return faulty(e.span)
    return _reference(check_name(e.base), e.indices, e.span, scope, where)


def check_name(e: tree.Name | tree.Attribute) -> tree.Name:
    """Return the name of an array. For an array of a model in use, it is `a.x`."""
    return e if isinstance(e, tree.Name) else tree.Name(e.span, f"{e.base.name}.{e.attribute.name}")


def _is_of_graph(e: tree.Attribute, scope: Scope) -> bool:
    symbol = scope.find(e.base.name)
    return symbol is not None and symbol.kind == "graph"


def _report_brackets(e: tree.Index, base: tree.Attribute, scope: Scope) -> None:
    """Report brackets after a function of a graph, as in `G.degree[i]`."""
    symbol, name = scope.find(base.base.name), base.attribute.name
    if symbol is None or symbol.faulty:
        return
    inside = ", ".join(i.span.text for i in e.indices)
    text = f"{base.span.text}({inside})"
    if name == "degree":
        place = Span(e.span.source, base.span.end, e.span.end)
        message, fix = f"`{base.span.text}` takes its node in parentheses", Fix(e.span, text)
        scope.report("E121", message, place, "", help=f"write `{text}`", fix=fix)
    elif name == "neighbours":
        help = f"an index runs over it: `for j in {text}`"
        scope.report("E207", f"`{e.span.text}` is not a number", base.attribute.span, "not a number", help=help)
    else:
        help = "a loop runs over all of it; its members have no numbers"
        scope.report("E207", f"`{e.span.text}` is not a number", base.attribute.span, "not a number", help=help)


def _reference(name: tree.Name, indices: Indices, span: Span, scope: Scope, where: Where) -> Checked:
    symbol = _usable(name, scope, where)
    if symbol is None:
        _check_alone(indices, scope, where)
        return faulty(span)
    match symbol.value:
        case Input():
            return _input(symbol.value, name, indices, span, scope, where)
        case Variable():
            checked, _ = check_indices(name, indices, tuple(a.over for a in symbol.value.axes), scope, where)
            return VariableValue(span, name.name, checked), kind_of(symbol.value.domain)
        case Parameter():
            axes = tuple(a.over for a in symbol.value.axes)
            checked, is_open = check_indices(name, indices, axes, scope, where, open_last=symbol.value.type.kind == "simplex")
            return ParameterValue(span, name.name, checked), OPEN if is_open else NUMBER
        case Let():
            return _let(symbol, symbol.value, name, indices, span, scope, where)
        case SetOf():
            return _binder(symbol.value, name, indices, span, scope)
    check_indices(name, indices, (), scope, where)  # The remaining case is a length.
    return InputValue(span, name.name), INTEGER


def _usable(name: tree.Name, scope: Scope, where: Where) -> Symbol | None:
    """Return the symbol of a name if it has no fault and the expression may mention it."""
    symbol = scope.find(name.name)
    if symbol is None:
        scope.report_unknown(name, *sorted(where.kinds))
        return None
    allowed = where.allows(symbol.kind, name.name)
    if not allowed and not symbol.faulty:
        _report_misplaced(symbol, name, scope, where)
    return None if symbol.faulty or not allowed else symbol


def _check_alone(indices: Indices, scope: Scope, where: Where) -> None:
    """Check the indices of an unknown array. A label is not reported, because it may be valid."""
    for i in indices:
        if not isinstance(i, tree.String):
            check_expression(i, scope, where)


def _report_misplaced(symbol: Symbol, name: tree.Name, scope: Scope, where: Where) -> None:
    place = ((symbol.span, "declared here"),)
    if symbol.kind not in MODEL.kinds or not where.words:
        helps = {
            "index": f"the number of its members is what it was declared with, or `count(true for i in {name.name})`",
            "function": f"call it with its arguments: `{name.name}(..)`",
        }
        what, help = WORDS[symbol.kind], helps.get("index" if symbol.kind == "domain" else symbol.kind, "")
        scope.report("E205", f"`{name.name}` is {what}, not a number", name.span, what, related=place, help=help)
    else:
        message = f"`{name.name}` is {WORDS[symbol.kind]}: this expression {where.words}"
        scope.report("E218", message, name.span, WORDS[symbol.kind], related=place, help=where.cure(symbol.kind))


def _input(declared: Input, name: tree.Name, indices: Indices, span: Span, scope: Scope, where: Where) -> Checked:
    axes = tuple(a.over or SetOf(a.span, "range", f"range({a.span.text})", a.size) for a in declared.axes)
    checked, is_open = check_indices(name, indices, axes, scope, where, open_last=declared.type.kind in ("simplex", "real", "positive"))
    value = InputValue(span, declared.name, checked)
    if is_open:
        return value, OPEN
    if declared.type.domain is not None:
        return value, kind_of(declared.type.domain)
    return value, INTEGER if declared.type.kind == "int" else NUMBER


def _let(symbol: Symbol, declared: Let, name: tree.Name, indices: Indices, span: Span, scope: Scope, where: Where) -> Checked:
    checked, _ = check_indices(name, indices, tuple(a.over for a in declared.axes), scope, where)
    if not where.parameters_of_lets and mentions_parameter(declared.value, scope):
        message = f"`{name.name}` mentions a parameter: this expression may not"
        scope.report("E218", message, span, "mentions a parameter", related=((symbol.span, "declared here"),), help=where.cure("param"))
    return LetValue(span, name.name, checked), symbol.type if isinstance(symbol.type, Kind) else ERROR


def _binder(over: SetOf, name: tree.Name, indices: Indices, span: Span, scope: Scope) -> Checked:
    if indices:
        scope.report("E210", f"`{name.name}` is an index name and takes no index", span, "a single value")
        return faulty(span)
    if over.lists_cells:
        help = "it may only index a variable in a block"
        scope.report("E205", f"`{name.name}` stands for a set of nodes, not for a number", span, "a set of nodes", help=help)
        return faulty(span)
    value = IndexValue(span, name.name)
    if over.kind != "domain" or over.domain is None:
        return value, INTEGER
    return over.domain.value(value), kind_of(over.domain)


def slots_of(axes: tuple[SetOf, ...]) -> list[SetOf]:
    """Return the set of each index. An axis over edges or arcs takes two indices."""
    return [axis for axis in axes for _ in range(axis.arity)]


def verify_count(name: tree.Name, found: int, axes: tuple[SetOf, ...], scope: Scope, given: Indices = ()) -> bool:
    """Report E210 for an array with too few or too many indices.

    Return whether their number is right.

    Args:
        name: the name of the array.
        found: the number of indices.
        axes: the sets of the axes.
        scope: the names that are visible. It collects the diagnostic.
        given: the indices, which improve the help.
    """
    wanted = len(slots_of(axes))
    if found == wanted:
        return True
    takes = "no index" if not wanted else f"{wanted} {'index' if wanted == 1 else 'indices'}"
    help = f"write `{name.name}`"
    if wanted:
        letters = iter("ijklmnpqrs" + "z" * wanted)
        names = [tuple(next(letters) for _ in range(axis.arity)) for axis in axes]
        shown = [n[0] if len(n) == 1 else f"({', '.join(n)})" for n in names]
        loops = " ".join(f"for {n} in {axis.name}" for n, axis in zip(shown, axes, strict=True))
        help = f"write `{name.name}[{', '.join(x for n in names for x in n)}]`, as in `.. {loops}`"
        help = _of_nodes(name, given, axes, scope) or help
    symbol = scope.find(name.name)
    place = ((symbol.span, "declared here"),) if symbol is not None else ()
    if symbol is not None and not wanted and (axes_of_next := _axes_of_next(symbol.span)):
        help = f"each name of a declaration has axes of its own: `{name.name}{axes_of_next}`"
    message = f"`{name.name}` takes {takes}, found {found or 'none'}"
    scope.report("E210", message, name.span, f"takes {takes}", help=help, related=place)
    return False


def _axes_of_next(span: Span) -> str:
    """Return `[i in site]` for a name that stands without axes before others, as in `var a, b[i in site] : bit`."""
    source = span.source.text
    found = re.compile(r"(?:\s*,\s*\w+)*\s*,\s*\w+\s*(\[[^\]]*\])").match(source, span.end)
    return found[1] if found else ""


def _of_nodes(name: tree.Name, given: Indices, axes: tuple[SetOf, ...], scope: Scope) -> str:
    """Return the help if the nodes of a graph index several axes.

    The same help covers a row and a column that index the nodes of a grid.
    """
    graph, part = _part_of(given[0], scope) if given else ("", "")
    if len(given) == 1 and len(axes) > 1 and part in PARTS:
        return f"`{given[0].span.text}` is a node of `{graph}`, and nodes are one axis: declare `{name.name}[i in {graph}.nodes]`"
    if len(given) == 2 and len(axes) == 1 and part in ("edges", "arcs") and axes[0].part != "nodes":
        return f"what each edge has is declared over them: `{name.name}[(i, j) in {graph}.{part}]`"
    if len(given) == 2 and len(axes) == 1 and part in ("edges", "arcs"):
        i, j = (g.span.text for g in given)
        return f"`{i}` and `{j}` are two nodes: the cells there are `{name.name}[{i}]` and `{name.name}[{j}]`"
    columns = _columns(axes[0], scope) if len(given) == 2 and len(axes) == 1 else ""
    if not columns:
        return ""
    r, c = (g.span.text for g in given)
    row = r if re.fullmatch(r"\w+", r) else f"({r})"
    return f"the nodes of a grid are one axis, row by row: write `{name.name}[{columns} * {row} + {c}]`"


def _part_of(e: tree.Expression, scope: Scope) -> tuple[str, str]:
    """Return the graph and its part that an index runs over, or two empty texts."""
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    over = symbol.value if symbol is not None else None
    graph, _, part = over.name.partition(".") if isinstance(over, SetOf) else ("", "", "")
    return graph, part


def _columns(axis: SetOf, scope: Scope) -> str:
    """Return the text of a grid's number of columns if an axis runs over its nodes, or ""."""
    symbol = scope.find(axis.graph) if axis.part == "nodes" else None
    form = symbol.value if symbol is not None else None
    columns = form.arguments.get("m") if isinstance(form, FormCall) else None
    return columns.span.text if isinstance(columns, Expression) and len(columns.span.text) <= 2 else ""


def check_indices(
    name: tree.Name, given: Indices, axes: tuple[SetOf, ...], scope: Scope, where: Where, open_last: bool = False
) -> tuple[tuple[Expression, ...], bool]:
    """Return the checked indices of an array, and whether its last axis is left open.

    Args:
        name: the name of the array.
        given: the indices in the program's text.
        axes: the sets of the axes.
        scope: the names that are visible. It collects the diagnostics.
        where: the names that the indices may mention.
        open_last: whether the last axis may be left open.
    """
    slots = slots_of(axes)
    is_open = open_last and bool(axes) and len(given) == len(slots) - axes[-1].arity
    if not is_open and not verify_count(name, len(given), axes, scope, given):
        _check_alone(given, scope, where)
        return tuple(faulty(g.span)[0] for g in slots), False
    return tuple(check_index(g, s, scope, where) for g, s in zip(given, slots, strict=False)), is_open


@rule(tree.Method)
def _method(e: tree.Method, scope: Scope, where: Where) -> Checked:
    """Check `G.degree(i)`, the number of neighbours of a node."""
    symbol = scope.use(e.base.base, "graph")
    if symbol is None:
        return faulty(e.span)
    name = e.base.attribute.name
    if name != "degree":
        help = (
            f"an index runs over it: `for j in {e.span.text}`" if name == "neighbours" else "a graph has `.degree(i)` and `.neighbours(i)`"
        )
        scope.report("E207", f"`{e.span.text}` is not a number", e.base.attribute.span, "not a number", help=help)
        return faulty(e.span)
    node = graph_argument(e, scope, INDEXED if "binder" in where.kinds else where)
    if node is None:
        return faulty(e.span)
    over = SetOf(
        e.span, "graph", f"{e.base.base.name}.neighbours({e.arguments[0].span.text})", node, graph=e.base.base.name, part="neighbours"
    )
    return Sum(e.span, Literal(e.span, 1), Clauses(e.span, (Loop(e.span, ("neighbour'",), over),))), INTEGER


def check_index(e: tree.Expression, over: SetOf, scope: Scope, where: Where) -> Expression:
    """Return one checked index into an axis that runs over `over`.

    Args:
        e: the index in the program's text.
        over: the set of the axis.
        scope: the names that are visible. It collects the diagnostics.
        where: the names that the index may mention.
    """
    domain = over.domain if over.kind == "domain" else None
    if domain is not None and not domain.ordered and isinstance(e, tree.String):
        return check_label(e, domain, scope)
    if isinstance(e, tree.Name) and scope.find(e.name) is None:
        labels = () if domain is None else domain.labels
        label = label_without_quotes(e, labels) if len(e.name) == 1 else ""
        label = label or (e.name if e.name in labels else "")
        scope.report_unknown(e, *sorted(where.kinds), axis=over.name, meant=quoted(label) if label else "")
        return faulty(e.span)[0]
    checked, kind = _check_inside(e, scope, where)
    if kind.tag == "error":
        return checked
    if domain is not None and domain.scale is not None and kind.integer and (kind.spin or domain.start is not None):
        return domain.code(checked)
    if domain is not None and not domain.ordered:
        _verify_label(e, kind, over, domain, scope)
    else:
        _verify_number(e, checked, kind, over, scope)
    return checked


def _verify_number(e: tree.Expression, checked: Expression, kind: Kind, over: SetOf, scope: Scope) -> None:
    """Report an index into an axis of numbers that is none, or whose value may change."""
    if kind.tag == "label":
        help = "index an axis declared over its domain"
        place = ((kind.domain.span, "the domain of the index"),) if kind.domain is not None else ()
        message = f"this axis runs over `{over.name}`, the index is {kind.words}"
        scope.report("E212", message, e.span, kind.words, help=help, related=place)
    elif not kind.integer or kind.tag == "open":
        help, fix = whole(e, scope)
        scope.report("E211", "an index must be an integer", e.span, "not an integer", help=help, fix=fix)
    elif kind.spin:
        _report_spin_index(e, kind, scope)
    elif mentions_parameter(checked, scope):
        scope.report("E218", "an index may not mention a parameter", e.span, "mentions a parameter", help=POSSIBLE)


def _check_inside(e: tree.Expression, scope: Scope, where: Where) -> Checked:
    """Check the expression of an index, which may contain indices of its own."""
    with scope.level() as levels:
        if levels <= MOST_INDICES:
            return check_expression(e, scope, where)
    scope.report("E117", f"indices stand in indices deeper than {MOST_INDICES}", e.span, "nested too deep")
    return faulty(e.span)


def _verify_label(e: tree.Expression, kind: Kind, over: SetOf, domain: Domain, scope: Scope) -> None:
    if kind.tag != "label" or not same_domain(kind.domain, domain):
        message = f"this axis runs over `{over.name}`, the index is {kind.words}"
        help = "index it by a label in double quotes, or by a cell of that domain"
        scope.report("E212", message, e.span, kind.words, related=((domain.span, "the domain of the axis"),), help=help)


def _report_spin_index(e: tree.Expression, kind: Kind, scope: Scope) -> None:
    text = e.span.text
    fix = Fix(e.span, f"bit({text})") if kind.plain else None
    help = f"write `bit({text})`" if kind.plain else "`bit(s)` is 0 or 1"
    scope.report("E211", "a spin is -1 or +1, which is not an index", e.span, "a spin", help=help, fix=fix)
