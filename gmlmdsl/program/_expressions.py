"""Checks expressions: resolves names, types every part, replaces labels by codes.

Where a part is faulty its kind is `ERROR`, which every rule accepts: one mistake gives one message.
"""

from __future__ import annotations

from .._diagnostics import Fix, Span, did_you_mean, listed
from ..syntax import tree
from . import _forms as forms
from ._kinds import CONDITION, ERROR, INTEGER, NUMBER, OPEN, Kind, kind_of, same_domain
from ._scope import CELLS, WORDS, Scope, Symbol
from .ir import (
    Choice,
    Domain,
    Expression,
    IndexValue,
    Input,
    InputValue,
    LabelCode,
    Let,
    LetValue,
    Literal,
    Operation,
    Parameter,
    ParameterValue,
    SetOf,
    Sum,
    Variable,
    VariableValue,
    walk,
)

Checked = tuple[Expression, Kind]


class Where:
    """What an expression may mention, and how a message says so."""

    def __init__(self, words: str, *kinds: str, parameters_of_lets: bool = True):
        self.words, self.kinds, self.parameters_of_lets = words, frozenset(kinds), parameters_of_lets


CONSTANT = Where("uses inputs only", "input", "length")
INDEXED = Where("uses index names and inputs only", "input", "length", "binder")
STATE = Where("mentions no parameter", "input", "length", "binder", *CELLS, "let", parameters_of_lets=False)
MODEL = Where("", "input", "length", "binder", *CELLS, "let", "param")


def check_expression(e: tree.Expression, scope: Scope, where: Where) -> Checked:
    """The checked expression and its kind; faults go to the scope."""
    match e:
        case tree.Number():
            return Literal(e.span, e.value), INTEGER if isinstance(e.value, int) else NUMBER
        case tree.Boolean():
            return Literal(e.span, e.value), CONDITION
        case tree.Name():
            return _reference(e, (), e.span, scope, where)
        case tree.Index():
            return _reference(e.base, e.indices, e.span, scope, where)
        case tree.Unary():
            return _unary(e, scope, where)
        case tree.Binary():
            return _binary(e, scope, where)
        case tree.Conditional():
            return _conditional(e, scope, where)
        case tree.Call():
            return _call(e, scope, where)
        case tree.String():
            scope.report("E216", "a text stands where a number or condition is expected", e.span, "compare it with a variable of its domain")
        case tree.Attribute():
            scope.report("E205", f"`{e.span.text}` is a set, not a number", e.span, "a set", help="an index runs over it: `for i in ..`")
        case _:
            scope.report("E216", "a number or condition is expected here", e.span, "not an expression")
    return Literal(e.span, 0), ERROR


def check_number(e: tree.Expression, scope: Scope, where: Where, integer: bool = False) -> Expression:
    """A checked expression that is a number (conditions count)."""
    checked, kind = check_expression(e, scope, where)
    if not kind.numeric:
        scope.report("E214", f"expected a number, found {kind.words}", e.span, kind.words, help="letters and labels only compare and index")
    elif integer and not kind.integer:
        scope.report("E211", "expected an integer", e.span, "not an integer", help="use `//` for whole division")
    return checked


def check_condition(e: tree.Expression, scope: Scope, where: Where) -> Expression:
    """A checked expression that is a condition."""
    checked, kind = check_expression(e, scope, where)
    if kind.tag not in ("condition", "error"):
        fix = help = None
        if kind.plain and kind.domain is not None and kind.domain.kind == "bit":
            fix, help = Fix(e.span, f"{e.span.text} == 1"), f"a bit is no condition: write `{e.span.text} == 1`"
        scope.report("E213", f"expected a condition, found {kind.words}", e.span, "not a condition", help=help or "compare it", fix=fix)
    return checked


def _reference(name: tree.Name, indices: tuple[tree.Expression, ...], span: Span, scope: Scope, where: Where) -> Checked:
    symbol = scope.use(name)
    if symbol is None:
        for i in indices:
            check_expression(i, scope, where)
        return Literal(span, 0), ERROR
    if symbol.kind not in where.kinds:
        return _misplaced(symbol, name, span, scope, where)
    if symbol.value is None:
        return Literal(span, 0), ERROR
    match symbol.value:
        case Input():
            return _input(symbol.value, indices, span, scope, where)
        case Variable():
            return _variable(symbol.value, indices, span, scope, where)
        case Parameter():
            axes = tuple(a.over for a in symbol.value.axes)
            checked, is_open = check_indices(name, indices, axes, scope, where, open_last=symbol.value.type.kind == "simplex")
            return ParameterValue(span, name.name, checked), OPEN if is_open else NUMBER
        case Let():
            return _let(symbol.value, name, indices, span, scope, where)
        case SetOf():
            return _binder(symbol.value, name, indices, span, scope)
    if symbol.kind == "length":
        check_indices(name, indices, (), scope, where)
        return InputValue(span, name.name), INTEGER
    return _misplaced(symbol, name, span, scope, where)


def _misplaced(symbol: Symbol, name: tree.Name, span: Span, scope: Scope, where: Where) -> Checked:
    if symbol.kind not in MODEL.kinds or not where.words:
        message, label = f"`{name.name}` is {WORDS[symbol.kind]}, not a number", WORDS[symbol.kind]
        scope.report("E205", message, name.span, label, related=((symbol.span, "declared here"),))
    else:
        message = f"`{name.name}` is {WORDS[symbol.kind]}: this expression {where.words}"
        scope.report("E218", message, name.span, WORDS[symbol.kind], related=((symbol.span, "declared here"),))
    return Literal(span, 0), ERROR


def _input(declared: Input, indices: tuple[tree.Expression, ...], span: Span, scope: Scope, where: Where) -> Checked:
    axes = tuple(a.over or SetOf(a.span, "range", a.name or "its length", a.size) for a in declared.axes)
    name = tree.Name(span, declared.name)
    checked, is_open = check_indices(name, indices, axes, scope, where, open_last=declared.type.kind in ("simplex", "real", "positive"))
    value = InputValue(span, declared.name, checked)
    if is_open:
        return value, OPEN
    if declared.type.domain is not None:
        return value, kind_of(declared.type.domain)
    return value, INTEGER if declared.type.kind == "int" else NUMBER


def _variable(declared: Variable, indices: tuple[tree.Expression, ...], span: Span, scope: Scope, where: Where) -> Checked:
    name = tree.Name(span, declared.name)
    checked, _ = check_indices(name, indices, tuple(a.over for a in declared.axes), scope, where)
    return VariableValue(span, declared.name, checked), kind_of(declared.domain)


def _let(declared: Let, name: tree.Name, indices: tuple[tree.Expression, ...], span: Span, scope: Scope, where: Where) -> Checked:
    checked, _ = check_indices(name, indices, tuple(a.over for a in declared.axes), scope, where)
    if not where.parameters_of_lets and mentions_parameter(declared.value, scope):
        message = f"`{name.name}` mentions a parameter: this expression {where.words}"
        scope.report("E218", message, span, "mentions a parameter")
    return LetValue(span, name.name, checked), _let_kind(declared, scope)


def _let_kind(declared: Let, scope: Scope) -> Kind:
    symbol = scope.model.get(declared.name)
    return symbol.type if symbol is not None and isinstance(symbol.type, Kind) else ERROR


def _binder(over: SetOf, name: tree.Name, indices: tuple[tree.Expression, ...], span: Span, scope: Scope) -> Checked:
    if indices:
        scope.report("E210", f"`{name.name}` is an index name and takes no index", span, "a single value")
        return Literal(span, 0), ERROR
    if over.lists_cells:
        scope.report("E205", f"`{name.name}` stands for a set of nodes, not for a number", span, "a set of nodes", help="it may only index a block's variable")
        return Literal(span, 0), ERROR
    value = IndexValue(span, name.name)
    if over.kind != "domain" or over.domain is None:
        return value, INTEGER
    if over.domain.kind == "spin":
        return Operation(span, "spin", (value,)), kind_of(over.domain)
    return value, kind_of(over.domain)


def check_indices(
    name: tree.Name,
    given: tuple[tree.Expression, ...],
    axes: tuple[SetOf, ...],
    scope: Scope,
    where: Where,
    open_last: bool = False,
) -> tuple[tuple[Expression, ...], bool]:
    """The checked indices of an array, and whether its last axis was left open."""
    slots = [axis for axis in axes for _ in range(axis.arity)]
    is_open = open_last and bool(axes) and len(given) == len(slots) - axes[-1].arity
    if len(given) != len(slots) and not is_open:
        takes = "no index" if not slots else f"{len(slots)} {'index' if len(slots) == 1 else 'indices'}"
        help = f"write `{name.name}[{', '.join('..' for _ in slots)}]`" if slots else f"write `{name.name}`"
        scope.report("E210", f"`{name.name}` takes {takes}, found {len(given)}", name.span, f"takes {takes}", help=help)
        for g in given:
            check_expression(g, scope, where)
        return tuple(Literal(g.span, 0) for g in slots), False
    return tuple(check_index(g, s, scope, where) for g, s in zip(given, slots, strict=False)), is_open


def check_index(e: tree.Expression, over: SetOf, scope: Scope, where: Where) -> Expression:
    """One index into an axis that runs over `over`."""
    domain = over.domain if over.kind == "domain" else None
    if domain is not None and not domain.ordered and isinstance(e, tree.String):
        return _label(e, domain, scope)
    checked, kind = check_expression(e, scope, where)
    if kind.tag == "error":
        return checked
    if domain is not None and domain.kind == "spin" and kind.spin:
        return Operation(e.span, "bit", (checked,))
    if domain is not None and not domain.ordered:
        if kind.tag != "label" or not same_domain(kind.domain, domain):
            message = f"this axis runs over `{over.name}`, the index is {kind.words}"
            scope.report("E212", message, e.span, kind.words, related=((domain.span, "the axis's domain"),))
    elif kind.tag == "label":
        scope.report("E212", f"this axis runs over `{over.name}`, the index is {kind.words}", e.span, kind.words, help="index an axis declared over its domain")
    elif not kind.integer or kind.tag == "open":
        scope.report("E211", "an index must be an integer", e.span, "not an integer", help="use `//` for whole division")
    elif kind.spin:
        text = e.span.text
        scope.report("E211", "a spin is -1 or +1, which is no index", e.span, "a spin", help=f"write `bit({text})`", fix=Fix(e.span, f"bit({text})"))
    return checked


def _label(e: tree.String, domain: Domain, scope: Scope) -> Expression:
    if e.value in domain.labels:
        return LabelCode(e.span, domain.labels.index(e.value), e.value)
    near = did_you_mean(e.value, domain.labels)
    help = f'did you mean "{near}"?' if near else f"its values are {listed(domain.labels)}"
    fix = Fix(e.span, f'"{near}"') if near else None
    scope.report("E215", f'"{e.value}" is not a value of {domain.name or "this domain"}', e.span, "unknown label", help=help, fix=fix)
    return LabelCode(e.span, 0, e.value)


def _unary(e: tree.Unary, scope: Scope, where: Where) -> Checked:
    if e.operator == "not":
        return Operation(e.span, "not", (check_condition(e.operand, scope, where),)), CONDITION
    operand, kind = check_expression(e.operand, scope, where)
    if isinstance(operand, Literal) and not isinstance(operand.value, bool):
        return Literal(e.span, -operand.value), kind
    _require_number(kind, e.operand, scope)
    return Operation(e.span, "neg", (operand,)), Kind("number", integer=kind.integer, spin=kind.spin)


def _require_number(kind: Kind, e: tree.Expression, scope: Scope) -> None:
    if not kind.numeric:
        scope.report("E214", f"arithmetic needs numbers, found {kind.words}", e.span, kind.words, help="letters and labels only compare and index")


def _binary(e: tree.Binary, scope: Scope, where: Where) -> Checked:
    if e.operator in ("and", "or"):
        return Operation(e.span, e.operator, (check_condition(e.left, scope, where), check_condition(e.right, scope, where))), CONDITION
    if e.operator in ("==", "!=", "<", "<=", ">", ">="):
        return _comparison(e, scope, where), CONDITION
    left, lk = check_expression(e.left, scope, where)
    right, rk = check_expression(e.right, scope, where)
    _require_number(lk, e.left, scope)
    _require_number(rk, e.right, scope)
    integer = lk.integer and rk.integer and e.operator != "/"
    return Operation(e.span, e.operator, (left, right)), Kind("number", integer=integer, spin=lk.spin or rk.spin)


def _comparison(e: tree.Binary, scope: Scope, where: Where) -> Expression:
    sides = (e.left, e.right)
    checked: list[Checked | None] = [None if isinstance(s, tree.String) else check_expression(s, scope, where) for s in sides]
    kinds = [c[1] if c else None for c in checked]
    out: list[Expression] = []
    for side, mine, other in zip(sides, checked, reversed(kinds), strict=True):
        if mine is not None:
            out.append(mine[0])
        elif isinstance(side, tree.String) and other is not None and other.tag == "label" and other.domain is not None:
            out.append(_label(side, other.domain, scope))
        else:
            if other is None or other.tag != "error":
                scope.report("E212", "a text compares only with a variable of its domain", side.span, "a text")
            out.append(Literal(side.span, 0))
    if kinds[0] is not None and kinds[1] is not None:
        _comparable(e, kinds[0], kinds[1], scope)
    label = next((k for k in kinds if k is not None and k.tag == "label"), None)
    if label is not None and e.operator not in ("==", "!="):
        scope.report("E214", f"{label.words} is unordered: it compares with `==` and `!=` only", e.span, "no order")
    return Operation(e.span, e.operator, tuple(out))


def _comparable(e: tree.Binary, left: Kind, right: Kind, scope: Scope) -> None:
    if "error" in (left.tag, right.tag):
        return
    if "open" in (left.tag, right.tag):
        scope.report("E210", "an array with an open axis is not a number", e.span, "give every index")
    elif (left.tag == "label") != (right.tag == "label") or (left.tag == "label" and not same_domain(left.domain, right.domain)):
        scope.report("E212", f"cannot compare {left.words} with {right.words}", e.span, "two domains")
    elif left.plain and right.plain and left.spin != right.spin:
        spin, other = (e.left, e.right) if left.spin else (e.right, e.left)
        text = other.span.text
        scope.report("E212", f"`{spin.span.text}` is -1 or +1, `{text}` is not", e.span, "two domains", help=f"write `spin({text})`", fix=Fix(other.span, f"spin({text})"))


def _conditional(e: tree.Conditional, scope: Scope, where: Where) -> Checked:
    test = check_condition(e.test, scope, where)
    yes, yk = check_expression(e.yes, scope, where)
    no, nk = check_expression(e.no, scope, where)
    if "error" in (yk.tag, nk.tag):
        kind = ERROR
    elif yk.tag == "label" and nk.tag == "label" and same_domain(yk.domain, nk.domain):
        kind = Kind("label", yk.domain)
    else:
        _require_number(yk, e.yes, scope)
        _require_number(nk, e.no, scope)
        both = yk.tag == nk.tag == "condition"
        kind = CONDITION if both else Kind("number", integer=yk.integer and nk.integer, spin=yk.spin or nk.spin)
    return Choice(e.span, test, yes, no), kind


def _call(e: tree.Call, scope: Scope, where: Where) -> Checked:
    name = e.function.name
    function = forms.form("function", name)
    if function is None:
        _report_unknown_function(e, scope)
        return Literal(e.span, 0), ERROR
    if name == "sum":
        return _sum(e, scope, where)
    bad = next((a for a in e.arguments if a.keyword is not None or a.clauses is not None), None)
    if bad is not None or len(e.arguments) != len(function.options):
        message = f"`{name}` takes {len(function.options)} argument{'s' * (len(function.options) > 1)}, found {len(e.arguments)}"
        if bad is not None:
            message = f"`{name}` takes plain arguments, without a name or `for`"
        scope.report("E302", message, (bad or e).span, f"`{function.signature}`")
        return Literal(e.span, 0), ERROR
    checked = [check_expression(a.value, scope, where) for a in e.arguments]
    for (_, kind), a in zip(checked, e.arguments, strict=True):
        _require_number(kind, a.value, scope)
    operation = Operation(e.span, name, tuple(c for c, _ in checked))
    if name == "spin":
        return operation, Kind("number", integer=True, spin=True)
    integer = name == "bit" or (name in ("abs", "min", "max") and all(k.integer for _, k in checked))
    spin = name in ("min", "max") and any(k.spin for _, k in checked)
    return operation, Kind("number", integer=integer, spin=spin)


def _report_unknown_function(e: tree.Call, scope: Scope) -> None:
    name = e.function
    known = scope.find(name.name)
    if known is not None and known.kind in (*CELLS, "param", "let", "input"):
        text = e.span.text.replace("(", "[", 1)[:-1] + "]"
        scope.report("E206", f"`{name.name}` is {WORDS[known.kind]}, not a function", name.span, "indexed with brackets", help=f"write `{text}`", fix=Fix(e.span, text))
        return
    near = did_you_mean(name.name, forms.names("function"))
    help = f"did you mean `{near}`?" if near else f"the functions are {listed(forms.names('function'), 20)}"
    scope.report("E206", f"there is no function `{name.name}`", name.span, "unknown function", help=help, fix=Fix(name.span, near) if near else None)


def _sum(e: tree.Call, scope: Scope, where: Where) -> Checked:
    from ._sets import check_clauses

    if len(e.arguments) != 1 or e.arguments[0].clauses is None or e.arguments[0].keyword is not None:
        scope.report("E302", "`sum` takes one expression followed by `for`", e.span, "`sum(e for i in s)`")
        return Literal(e.span, 0), ERROR
    with scope.nested():
        clauses = check_clauses(e.arguments[0].clauses, e.span, scope)
        body, kind = check_expression(e.arguments[0].value, scope, where)
    _require_number(kind, e.arguments[0].value, scope)
    return Sum(e.span, body, clauses), Kind("number", integer=kind.integer, spin=kind.spin)


def mentions_parameter(e: Expression, scope: Scope) -> bool:
    """Whether a parameter stands in `e`, lets included."""
    for part in walk(e):
        if isinstance(part, ParameterValue):
            return True
        if isinstance(part, LetValue):
            symbol = scope.model.get(part.name)
            if symbol is not None and isinstance(symbol.value, Let) and mentions_parameter(symbol.value.value, scope):
                return True
    return False
