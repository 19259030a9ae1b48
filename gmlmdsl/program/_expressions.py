"""Check expressions: the entry point, literals, operators, comparisons and `if`.

The check determines the kind of every part and replaces labels by codes. A faulty part has the kind
`ERROR` and a value that `faulty` returns. Every rule accepts them, so one mistake gives one
message. `_references.py` checks names and `_calls.py` checks functions. Both register their rules
here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

from .._diagnostics import Fix, Span, listed
from ..syntax import tree
from ._operators import OPERATORS, NoValueError, computed
from ._program import Input, Let, Variable
from ._scope import CELLS, WORDS, Scope, Symbol
from ._terms import (
    CONDITION,
    ERROR,
    INTEGER,
    NUMBER,
    Choice,
    Domain,
    Expression,
    Kind,
    LabelCode,
    LetValue,
    Literal,
    Operation,
    ParameterValue,
    VariableValue,
    children,
    same_domain,
    walk,
)
from .limits import MOST_LEVELS, MOST_PARTS

Checked = tuple[Expression, Kind]


class Where:
    """The names that an expression may mention, with their description in messages.

    `instead` describes the text that may replace a cell.
    """

    def __init__(self, words: str, *kinds: str, parameters_of_lets: bool = True, instead: str = ""):
        self.words, self.kinds, self.parameters_of_lets, self.instead = words, frozenset(kinds), parameters_of_lets, instead
        # index names of the enclosing sums, which are always allowed
        self.own: frozenset[str] = frozenset()

    def inside(self, names: Iterable[str]) -> Where:
        """Return a copy for the inside of a sum, which may mention the sum's own index names."""
        found = copy(self)
        found.own = self.own | frozenset(names)
        return found

    def allows(self, kind: str, name: str) -> bool:
        """Return whether an expression may mention a name of the given kind."""
        return kind in self.kinds or (kind == "binder" and name in self.own)

    def cure(self, kind: str) -> str:
        """Return the help for a name whose kind is not allowed."""
        if kind == "param":
            return FIXED if self.instead else POSSIBLE
        return self.instead


FIXED = "a number that is not fitted is an input: `input s : real = 1`, or `input n : int = 4` for a size"
POSSIBLE = (
    "what is possible cannot be fitted: use a number or an `input` here, or let a `factor` make it unlikely; "
    "bounds are a type: `: positive`"
)
CONSTANT = Where(
    "may use inputs only", "input", "length", instead="this is one number for all rows of data: declare it `input n : int = 4`"
)
INDEXED = Where(
    "may use index names and inputs only",
    *("input", "length", "binder"),
    instead="a term that depends on a cell is `factor if x[i] == 1 then .. else 0`; what is impossible is `require`",
)
PRIOR = Where(
    "may use index names, inputs and parameters only",
    *("input", "length", "binder", "param"),
    instead="a prior holds for all rows of data: what depends on a cell is its distribution, or a `factor`",
)
STATE = Where("may not mention a parameter", "input", "length", "binder", *CELLS, "let", parameters_of_lets=False)
MODEL = Where("", "input", "length", "binder", *CELLS, "let", "param")

# parts of graphs. All of them are sets.
PARTS = ("nodes", "edges", "arcs", "triangles", "rows", "columns")
Rule = Callable[[Any, Scope, Where], Checked]
RULES: dict[type, Rule] = {}  # one rule for each class of tree node that can be an expression


def rule(*nodes: type) -> Callable[[Rule], Rule]:
    """Return a decorator that registers the check of some classes of nodes."""

    def register(check: Rule) -> Rule:
        RULES.update(dict.fromkeys(nodes, check))
        return check

    return register


def faulty(span: Span) -> Checked:
    """Return the node that replaces an expression whose fault is reported. No two are equal."""
    return Literal(span, float("nan")), ERROR


def known_number(e: object) -> int | float | None:
    """Return the value of a literal number, and None for any other or a faulty expression."""
    return e.value if isinstance(e, Literal) and not is_faulty(e) else None


def is_faulty(e: object) -> bool:
    """Return whether `e` replaces an expression whose fault is reported."""
    return isinstance(e, Literal) and math.isnan(e.value)


@contextmanager
def perhaps_untaken(scope: Scope) -> Iterator[None]:
    """Enter a branch that may never be evaluated.

    Its condition is known only when the program is bound.
    """
    scope.untaken += 1
    try:
        yield
    finally:
        scope.untaken -= 1


def written_number(e: Expression) -> int | float | None:
    """Return the value of an expression of literal numbers.

    The result is None for any other expression, and for an expression without a value.
    """
    if not isinstance(e, Operation):
        return known_number(e)
    parts = [written_number(o) for o in e.operands] if e.operator in OPERATORS else [None]
    if None in parts:
        return None
    try:
        return computed(e.operator, *parts)  # type: ignore[arg-type]
    except NoValueError:
        return None


def operation(span: Span, operator: str, operands: tuple[Expression, ...], kind: Kind, scope: Scope) -> Checked:
    """Return a checked operation, or report E416 if it has literal operands and no value.

    An operation that may never be evaluated is not reported.

    Args:
        span: the place of the operation.
        operator: the operator.
        operands: the checked operands.
        kind: the kind of the result.
        scope: collects the diagnostic.
    """
    numbers = [written_number(o) for o in operands] if not scope.untaken else [None]
    if None not in numbers:
        try:
            computed(operator, *numbers)  # type: ignore[arg-type]
        except NoValueError as error:
            scope.report("E416", str(error), span, "no value", help=error.help)
            return faulty(span)
    return Operation(span, operator, operands), kind


def check_expression(e: tree.Expression, scope: Scope, where: Where) -> Checked:
    """Return the checked expression and its kind. Faults are reported to the scope.

    Args:
        e: the expression in the program's text.
        scope: the names that are visible. It collects the diagnostics.
        where: the names that the expression may mention.
    """
    check = RULES.get(type(e))
    if check is None:
        help = "one number stands for all entries" if isinstance(e, tree.List) else "such as `2`, `n - 1` or `x[0] == 1`"
        scope.report("E216", "a number or condition is expected here", e.span, "not an expression", help=help)
        return faulty(e.span)
    return check(e, scope, where)


def check_number(e: tree.Expression, scope: Scope, where: Where, integer: bool = False) -> Expression:
    """Return a checked expression that is a number. Conditions count as numbers.

    Args:
        e: the expression in the program's text.
        scope: the names that are visible. It collects the diagnostics.
        where: the names that the expression may mention.
        integer: whether the number must be an integer.
    """
    if integer and isinstance(e, tree.List):
        scope.report("E216", "one whole number is expected here, not a list", e.span, "a list", help="write one, such as `2`, or an input")
        return faulty(e.span)[0]
    checked, kind = check_expression(e, scope, where)
    if not kind.numeric:
        scope.report("E214", f"expected a number, found {kind.words}", e.span, kind.words, help=kind.cure)
    elif integer and not kind.integer:
        help, fix = whole(e, scope)
        scope.report("E211", "expected an integer", e.span, "not an integer", help=help, fix=fix)
    else:
        return checked
    return faulty(e.span)[0]


def whole(e: tree.Expression, scope: Scope) -> tuple[str, Fix | None]:
    """Return a help and a fix for an expression that must be an integer."""
    base = e.base if isinstance(e, tree.Index) else e
    symbol = scope.find(base.name) if isinstance(base, tree.Name) else None
    if symbol is not None and isinstance(symbol.value, Input):
        return f"declare `{symbol.name}` with the type `int`", None
    if symbol is not None and isinstance(symbol.value, Variable) and symbol.value.domain.real:
        return f"whole numbers of each row are `given {symbol.name} : range(q)`", None
    if isinstance(e, tree.Number):
        if float(e.value).is_integer() and abs(e.value) < 1e15:
            return f"write it with digits alone: `{int(e.value)}`", Fix(e.span, f"{int(e.value)}")
        return "write a whole number", None
    fix = None
    if isinstance(e, tree.Binary) and e.operator == "/":
        between = Span(e.span.source, e.left.span.end, e.right.span.start)
        fix = Fix(between, between.text.replace("/", "//"), guess=True)
    if fix is None and re.search(r"\b[0-9]+(\.[0-9]|[eE])", e.span.text):
        return "write the numbers that stand in it whole, `1000` and not `1e3`", None
    if "/" in e.span.text:
        return "use `//` for whole division", fix
    return "whole are index names, whole numbers, cells other than spins, and inputs that are `int`", None


def check_condition(e: tree.Expression, scope: Scope, where: Where) -> Expression:
    """Return a checked expression that is a condition."""
    checked, kind = check_expression(e, scope, where)
    if kind.tag in ("condition", "error"):
        return checked
    fix, help = None, "compare it with a value, for example with `==`"
    if kind.tag == "number" and len(e.span.text) <= 20:
        help = f"compare it with a value, for example `{e.span.text} == 1`"
    if kind.tag == "label" and kind.domain is not None and kind.domain.labels:
        help = f"compare it with a value: `{e.span.text} == {quoted(kind.domain.labels[-1])}`"
    if kind.plain and kind.domain is not None and kind.domain.kind == "bit":
        text = f"{e.span.text} == 1"
        fix, help = Fix(e.span, text), f"a bit is not a condition: write `{text}`"
    scope.report("E213", f"expected a condition, found {kind.words}", e.span, "not a condition", help=help, fix=fix)
    return faulty(e.span)[0]


def require_number(kind: Kind, e: tree.Expression, scope: Scope) -> bool:
    """Report E214 for an operand that is not a number, and return whether it is one."""
    if not kind.numeric:
        scope.report("E214", f"arithmetic needs numbers, found {kind.words}", e.span, kind.words, help=kind.cure)
    return kind.numeric


def quoted(text: str) -> str:
    """Return a text in quotes, with escapes, as a program writes it."""
    escapes = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"}
    return '"' + "".join(escapes.get(c, c) for c in text) + '"'


def check_label(e: tree.String, domain: Domain, scope: Scope) -> Expression:
    """Return the code of a letter or label of `domain`, or report E215."""
    if e.value in domain.labels:
        return LabelCode(e.span, domain.labels.index(e.value), e.value)
    near = scope.near(e.value, domain.labels)
    help = f"did you mean {quoted(near)}?" if near else f"its values are {listed(domain.labels)}"
    fix = Fix(e.span, quoted(near), guess=True) if near else None
    of = f"`{domain.name}`" if domain.name else f"`{domain.span.text}`"
    place = ((domain.span, "its values"),)
    scope.report("E215", f"{e.span.text} is not a value of {of}", e.span, "unknown value", help=help, fix=fix, related=place)
    return faulty(e.span)[0]


@rule(tree.Number)
def _number(e: tree.Number, scope: Scope, where: Where) -> Checked:
    return Literal(e.span, e.value), INTEGER if isinstance(e.value, int) else NUMBER


@rule(tree.Boolean)
def _boolean(e: tree.Boolean, scope: Scope, where: Where) -> Checked:
    return Literal(e.span, e.value), CONDITION


@rule(tree.String)
def _string(e: tree.String, scope: Scope, where: Where) -> Checked:
    help = "a string compares with a variable of its domain or indexes an axis over it"
    scope.report("E216", "a string stands where a number or condition is expected", e.span, "a string", help=help)
    return faulty(e.span)


@rule(tree.Attribute)
def _attribute(e: tree.Attribute, scope: Scope, where: Where) -> Checked:
    if scope.find(f"{e.base.name}.{e.attribute.name}") is not None:
        return check_expression(tree.Name(e.span, f"{e.base.name}.{e.attribute.name}"), scope, where)
    if scope.find(e.base.name) is None and e.base.name in scope.in_use:
        scope.report_unknown(tree.Name(e.span, f"{e.base.name}.{e.attribute.name}"), *sorted(where.kinds))
        return faulty(e.span)
    if scope.use(e.base, "graph") is not None:
        _report_part(e, scope)
    return faulty(e.span)


def _report_part(e: tree.Attribute, scope: Scope) -> None:
    """Report a part of a graph in place of a number, or an unknown part."""
    text, name = e.span.text, e.attribute.name
    if name in PARTS:
        names = {"edges": "(i, j)", "arcs": "(i, j)", "triangles": "(i, j, k)"}.get(name, "i")
        help = f"an index runs over it: `for {names} in {text}`"
        scope.report("E205", f"`{text}` is a set, not a number", e.span, "a set", help=help)
    elif name in ("degree", "neighbours"):
        scope.report("E207", f"`{text}` is of one node", e.attribute.span, "of which node?", help=f"write `{text}(i)`")
    else:
        help = f"how many members a set has is counted: `count(true for i in {e.base.name}.nodes)`"
        scope.report("E207", f"a graph has no `.{name}`", e.attribute.span, "unknown part", help=help)


@rule(tree.Unary)
def _unary(e: tree.Unary, scope: Scope, where: Where) -> Checked:
    if e.operator == "not":
        return Operation(e.span, "not", (check_condition(e.operand, scope, where),)), CONDITION
    operand, kind = check_expression(e.operand, scope, where)
    if isinstance(operand, Literal) and not isinstance(operand.value, bool):
        return Literal(e.span, -operand.value), kind
    if not require_number(kind, e.operand, scope) or kind.tag == "error":
        return faulty(e.span)
    return operation(e.span, "neg", (operand,), Kind("number", integer=kind.integer, spin=kind.spin), scope)


@rule(tree.Binary)
def _binary(e: tree.Binary, scope: Scope, where: Where) -> Checked:
    if e.operator in ("and", "or"):
        left = check_condition(e.left, scope, where)
        with perhaps_untaken(scope):
            return Operation(e.span, e.operator, (left, check_condition(e.right, scope, where))), CONDITION
    if e.operator in ("==", "!=", "<", "<=", ">", ">="):
        return _comparison(e, scope, where), CONDITION
    left, lk = check_expression(e.left, scope, where)
    right, rk = check_expression(e.right, scope, where)
    good = [require_number(lk, e.left, scope), require_number(rk, e.right, scope)]
    if not all(good) or "error" in (lk.tag, rk.tag):
        return faulty(e.span)
    integer = lk.integer and rk.integer and e.operator != "/"
    return operation(e.span, e.operator, (left, right), Kind("number", integer=integer, spin=lk.spin or rk.spin), scope)


def _comparison(e: tree.Binary, scope: Scope, where: Where) -> Expression:
    sides = (e.left, e.right)
    known = [None if isinstance(s, tree.String) or _is_no_number(s, scope) else check_expression(s, scope, where) for s in sides]
    others = [c[1] if c else None for c in reversed(known)]
    checked = [c or _unknown_side(s, o, scope, where) for s, c, o in zip(sides, known, others, strict=True)]
    kinds = [c[1] if c else None for c in checked]
    out: list[Expression] = []
    for side, mine, other in zip(sides, checked, reversed(kinds), strict=True):
        if mine is not None:
            out.append(mine[0])
        elif isinstance(side, tree.String) and other is not None and other.tag == "label" and other.domain is not None:
            out.append(check_label(side, other.domain, scope))
        else:
            out.append(faulty(side.span)[0])
    _comparable(e, kinds[0], kinds[1], scope)
    return Operation(e.span, e.operator, tuple(out))


def _is_no_number(e: tree.Expression, scope: Scope) -> bool:
    """Return whether a side is a name that is not declared or that does not denote a number."""
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    return isinstance(e, tree.Name) and (symbol is None or symbol.kind not in MODEL.kinds)


def label_without_quotes(e: tree.Expression, labels: tuple[str, ...]) -> str:
    """Return the label that a name without quotes may denote, or "".

    The comparison ignores case if no label equals the name.
    """
    if not isinstance(e, tree.Name):
        return ""
    return e.name if e.name in labels else next((label for label in labels if label.lower() == e.name.lower()), "")


def _labels(kind: Kind | None) -> tuple[str, ...]:
    return kind.domain.labels if kind is not None and kind.domain is not None else ()


def _is_label_without_quotes(e: tree.Expression, other: Kind | None, scope: Scope) -> bool:
    """Report `x == yes` if `yes` is a label of x's domain and also the name of a non-number."""
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if symbol is None or not isinstance(e, tree.Name) or e.name not in _labels(other) or symbol.kind in MODEL.kinds:
        return False
    message, help = f"`{e.name}` is {WORDS[symbol.kind]}, not a label", f"write `{quoted(e.name)}`"
    place = ((symbol.span, "declared here"),)
    scope.report("E205", message, e.span, "no quotes", related=place, help=help, fix=Fix(e.span, quoted(e.name), guess=True))
    return True


def _unknown_side(e: tree.Expression, other: Kind | None, scope: Scope, where: Where) -> Checked | None:
    """Check a side that is a string or a name that is not declared or not a number.

    The result is None for a string. A name may be meant as a value of the other side's domain.
    """
    if isinstance(e, tree.String):
        return None
    labels = _labels(other)
    if other is not None and other.tag == "error" and isinstance(e, tree.Name) and scope.find(e.name) is None:
        return faulty(e.span)  # The name may be a label of a domain that has a fault.
    meant = label_without_quotes(e, labels)
    if isinstance(e, tree.Name) and meant:
        if scope.find(e.name) is None:
            scope.report_unknown(e, *sorted(where.kinds), meant=quoted(meant))
            return faulty(e.span)
        if _is_label_without_quotes(e, other, scope):
            return faulty(e.span)
    return check_expression(e, scope, where)


def _comparable(e: tree.Binary, left: Kind | None, right: Kind | None, scope: Scope) -> None:
    """Report two sides that cannot be compared. The kind of a text is None."""
    kinds = [k for k in (left, right) if k is not None]
    tags = [k.tag for k in kinds]
    if "error" in tags:
        return
    if "open" in tags:
        scope.report("E210", "an array with an open axis is not a number", e.span, "give every index")
    elif len(kinds) < 2 and "label" not in tags:
        text = e.right if right is None else e.left
        words = kinds[0].words if kinds else "a string"
        help = "a string compares only with a variable of its domain"
        scope.report("E212", f"cannot compare {words} with a string", text.span, "a string", help=help)
    elif "label" not in tags:
        if all(k.plain for k in kinds) and kinds[0].spin != kinds[1].spin:
            _report_spin(e, kinds[0].spin, scope)
    elif left is not None and right is not None and not _same_labels(left, right):
        _report_domains(e, left, right, scope)
    elif e.operator not in ("==", "!="):
        message = f"{kinds[0].words} is unordered: it compares with `==` and `!=` only"
        scope.report("E214", message, e.span, "no order")


def _report_domains(e: tree.Binary, left: Kind, right: Kind, scope: Scope) -> None:
    """Report two sides of different domains, at least one of which has labels."""
    place = tuple((k.domain.span, k.words) for k in (left, right) if k.domain is not None)
    help, domain = "declare both variables over one domain", (left if left.tag == "label" else right).domain
    if left.tag != right.tag and domain is not None and domain.labels:
        help = f'it compares with a value of its domain, such as `"{domain.labels[0]}"`'
    message = f"cannot compare {left.words} with {right.words}"
    scope.report("E212", message, e.span, "two domains", related=place, help=help)


def _same_labels(left: Kind, right: Kind) -> bool:
    return left.tag == right.tag and same_domain(left.domain, right.domain)


def _report_spin(e: tree.Binary, left_is_spin: bool, scope: Scope) -> None:
    spin, other = (e.left, e.right) if left_is_spin else (e.right, e.left)
    text = spin.span.text
    message, help = f"`{text}` is -1 or +1, `{other.span.text}` is not", f"write `bit({text})`"
    scope.report("E212", message, e.span, "two domains", help=help, fix=Fix(spin.span, f"bit({text})", guess=True))


@rule(tree.Conditional)
def _conditional(e: tree.Conditional, scope: Scope, where: Where) -> Checked:
    assert e.no is not None, "a statement puts in what lacks"
    test = check_condition(e.test, scope, where)
    with perhaps_untaken(scope):
        yes, yk = check_expression(e.yes, scope, where)
        no, nk = check_expression(e.no, scope, where)
    if "error" in (yk.tag, nk.tag):
        return faulty(e.span)
    if _same_labels(yk, nk) and yk.tag == "label":
        kind = Kind("label", yk.domain)
    else:
        good = [require_number(yk, e.yes, scope), require_number(nk, e.no, scope)]
        if not all(good):
            return faulty(e.span)
        both = yk.tag == nk.tag == "condition"
        kind = CONDITION if both else Kind("number", integer=yk.integer and nk.integer, spin=yk.spin or nk.spin)
    return Choice(e.span, test, yes, no), kind


def mentions(e: Expression, lets: Mapping[str, Let]) -> list[VariableValue | ParameterValue]:
    """Return every variable and parameter in `e`, including those of the `let`s that it uses."""
    found: list[VariableValue | ParameterValue] = []
    entered: set[str] = set()
    todo = [e]
    while todo:
        for part in walk(todo.pop()):
            if isinstance(part, VariableValue | ParameterValue):
                found.append(part)
            elif isinstance(part, LetValue) and part.name not in entered and part.name in lets:
                entered.add(part.name)
                todo.append(lets[part.name].value)
    return found


class _Lets(Mapping[str, Let]):
    """The `let`s among a model's names.

    They are looked up and never enumerated, because every index needs a look-up.
    """

    def __init__(self, names: Mapping[str, Symbol]):
        self.names = names

    def __getitem__(self, name: str) -> Let:
        symbol = self.names.get(name)
        if symbol is None or not isinstance(symbol.value, Let):
            raise KeyError(name)
        return symbol.value

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def lets_of(scope: Scope) -> Mapping[str, Let]:
    """Return the `let`s of the model whose names are visible."""
    return _Lets(scope.model)


def mentions_parameter(e: Expression, scope: Scope) -> bool:
    """Return whether `e` mentions a parameter, directly or through a `let`."""
    return any(isinstance(part, ParameterValue) for part in mentions(e, lets_of(scope)))


# The size of expressions after all names in them are expanded


def verify_written_out(e: Expression, what: str, scope: Scope) -> tuple[int, int] | None:
    """Return the number of parts of `e` and their depth, after its `let`s are expanded.

    If either is too large, it is reported (E412, E117) and the result is None.
    """
    parts, levels = _extent(e, scope)
    if parts > MOST_PARTS:
        message = f"{what} has {in_figures(parts)} parts once its `let`s are written out, more than {MOST_PARTS:,}"
        help = "a `let` is replaced by its expression wherever it stands: one that is used twice counts twice"
        scope.report("E412", message, e.span, "too large", help=help)
    elif levels > MOST_LEVELS:
        message = f"{what} is nested {levels:,} deep once its `let`s are written out, deeper than {MOST_LEVELS}"
        scope.report(
            "E117", message, e.span, "nested too deep", help="write sums over an index, `sum(.. for i in site)`, or several factors"
        )
    else:
        return parts, levels
    return None


def in_figures(n: int) -> str:
    """Return a number with its digits, or its order of magnitude if it has very many."""
    return f"{n:,}" if n < 10**15 else f"more than 10^{len(str(n)) - 1}"


def _extent(e: Expression, scope: Scope) -> tuple[int, int]:
    """Return the number of parts and levels of an expression.

    A variable or `let` counts as two levels, because the checks of its indices are mutually
    recursive.
    """
    parts, levels, todo = 0, 0, [(e, 1)]
    while todo:
        here, level = todo.pop()
        parts, levels = parts + 1, max(levels, level)
        symbol = scope.find(here.name) if isinstance(here, LetValue) else None
        if symbol is not None and isinstance(symbol.value, Let):
            parts, levels = parts + symbol.value.extent[0], max(levels, level + 1 + symbol.value.extent[1])
        step = 2 if isinstance(here, LetValue | VariableValue) else 1
        todo += [(child, level + step) for child in children(here)]
    return parts, levels
