"""Checks calls of functions in expressions."""

from __future__ import annotations

from .._diagnostics import Fix, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import INDEXED, Checked, Where, check_expression, faulty, operation, require_number, rule
from ._kinds import Kind
from ._scope import CELLS, WORDS, Scope, suggestion
from ._sets import check_clauses
from ._terms import Sum


@rule(tree.Call)
def _call(e: tree.Call, scope: Scope, where: Where) -> Checked:
    name = e.function.name
    function = forms.form("function", name)
    if function is None:
        _report_unknown_function(e, scope, where)
        return faulty(e.span)
    if name == "sum":
        return _sum(e, scope, where)
    if not _verify_arguments(e, function, scope):
        return faulty(e.span)
    checked = [check_expression(a.value, scope, where) for a in e.arguments]
    good = [require_number(kind, a.value, scope) for (_, kind), a in zip(checked, e.arguments, strict=True)]
    kinds = [kind for _, kind in checked]
    if not all(good) or any(k.tag == "error" for k in kinds):
        return faulty(e.span)
    if name in ("spin", "bit") and not _verify_conversion(e, kinds[0], scope):
        return faulty(e.span)
    integer = name in ("bit", "spin") or (name in ("abs", "min", "max") and all(k.integer for k in kinds))
    spin = name == "spin" or (name in ("min", "max") and any(k.spin for k in kinds))
    return operation(e.span, name, tuple(c for c, _ in checked), Kind("number", integer=integer, spin=spin), scope)


def _verify_arguments(e: tree.Call, function: forms.Form, scope: Scope) -> bool:
    bad = next((a for a in e.arguments if a.keyword is not None or a.clauses is not None), None)
    if bad is None and len(e.arguments) == len(function.options):
        return True
    wanted = len(function.options)
    message = f"`{function.name}` takes {wanted} argument{'s' * (wanted > 1)}, found {len(e.arguments) or 'none'}"
    if bad is not None:
        message = f"`{function.name}` takes plain arguments, without a name or `for`"
    scope.report("E302", message, (bad or e).span, f"`{function.signature}`")
    return False


def _verify_conversion(e: tree.Call, kind: Kind, scope: Scope) -> bool:
    """`spin` of a spin and `bit` of a bit are mistakes: the value would leave its domain."""
    domain = kind.domain if kind.plain else None
    if domain is None or domain.kind != e.function.name:
        return True
    text = e.arguments[0].span.text
    message = f"`{text}` is a {domain.kind} already"
    scope.report("E212", message, e.span, f"a {domain.kind}", help=f"write `{text}`", fix=Fix(e.span, text))
    return False


def _report_unknown_function(e: tree.Call, scope: Scope, where: Where) -> None:
    name, known = e.function, scope.find(e.function.name)
    if known is not None and known.faulty:
        return
    if known is not None and known.kind in (*CELLS, "param", "let", "input"):
        text = f"{name.name}[{', '.join(a.span.text for a in e.arguments)}]"
        message = f"`{name.name}` is {WORDS[known.kind]}, not a function"
        counted = any(isinstance(a.value, tree.Number) for a in e.arguments)  # `x(1)` is the first cell in MATLAB
        scope.report("E206", message, name.span, "indexed with brackets", help=f"write `{text}`", fix=Fix(e.span, text, guess=counted))
    elif name.name not in scope.skipped:
        functions = forms.names("function")
        help, fix = suggestion(name, functions, f"the functions are {listed(functions, 20)}", "function")
        scope.report("E206", f"there is no function `{name.name}`", name.span, "unknown function", help=help, fix=fix)


def _sum(e: tree.Call, scope: Scope, where: Where) -> Checked:
    if len(e.arguments) != 1 or e.arguments[0].clauses is None or e.arguments[0].keyword is not None:
        scope.report(
            "E302", "`sum` takes one expression followed by `for`", e.span, "no `for` in this", help="write `sum(x[i] for i in site)`"
        )
        return faulty(e.span)
    with scope.nested():
        inner = where.inside(n.name for loop in e.arguments[0].clauses.loops for n in loop.names)
        clauses = check_clauses(e.arguments[0].clauses, e.span, scope, where=INDEXED if "binder" in where.kinds else inner)
        body, kind = check_expression(e.arguments[0].value, scope, inner)
    if not require_number(kind, e.arguments[0].value, scope) or kind.tag == "error":
        return faulty(e.span)
    return Sum(e.span, body, clauses), Kind("number", integer=kind.integer, spin=kind.spin)
