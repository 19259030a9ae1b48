"""Checks the arguments of a form against the table of forms."""

from __future__ import annotations

from collections.abc import Callable

from .._diagnostics import Fix, did_you_mean, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import CONSTANT, INDEXED, check_expression, check_number
from ._forms import Form, Option
from ._scope import Scope
from ._sets import check_set, check_size_or_set
from .ir import Expression, Input, Literal

Raw = dict[str, list[tree.Argument]]


def match_arguments(call: tree.Call, form: Form, scope: Scope) -> Raw | None:
    """The arguments of a call by option name; faults (missing, extra, unknown, twice) are reported."""
    positional = [o for o in form.options if not o.named]
    found: Raw = {}
    good = True
    for a in call.arguments:
        option = _named_option(a, form, scope) if a.keyword is not None else _next_option(positional, found)
        if option is None:
            if a.keyword is None:
                message = f"`{form.name}` takes {len(positional)} plain argument{'s' * (len(positional) != 1)}"
                scope.report("E302", message, a.span, "one too many", help=f"`{form.signature}`")
            good = False
        elif option.name in found and not _many(option):
            scope.report("E302", f"`{option.name}` is given twice", a.span, "again here")
            good = False
        else:
            found.setdefault(option.name, []).append(a)
    missing = [o.name for o in form.options if o.required and o.name not in found]
    if missing and good:
        scope.report("E302", f"`{form.name}` lacks {listed(missing)}", call.span, "argument missing", help=f"`{form.signature}`")
    return found if good and not missing else None


def _many(option: Option) -> bool:
    return option.takes in (forms.VARIABLES, forms.BLOCKS, forms.TEXTS)


def _next_option(positional: list[Option], found: Raw) -> Option | None:
    return next((o for o in positional if o.name not in found or _many(o)), None)


def _named_option(a: tree.Argument, form: Form, scope: Scope) -> Option | None:
    assert a.keyword is not None
    name = a.keyword.name
    option = next((o for o in form.options if o.name == name and (o.named or not _many(o))), None)
    if option is None:
        known = [o.name for o in form.options if o.named]
        near = did_you_mean(name, known)
        help = f"did you mean `{near}`?" if near else f"`{form.signature}`"
        fix = Fix(a.keyword.span, near) if near else None
        scope.report("E302", f"`{form.name}` has no option `{name}`", a.keyword.span, "unknown option", help=help, fix=fix)
    return option


def check_arguments(call: tree.Call, form: Form, scope: Scope, skip: tuple[str, ...] = (), axes: bool = False) -> dict[str, object] | None:
    """The checked arguments by option name, or None after a fault. `skip` leaves kinds of option to the caller.

    `axes` lets numbers mention index names, as a prior's may.
    """
    raw = match_arguments(call, form, scope)
    if raw is None:
        return None
    before = len(scope.diagnostics)
    out: dict[str, object] = {}
    for option in form.options:
        if option.name in raw and option.takes not in skip:
            arguments = raw[option.name]
            extra = next((a for a in arguments if a.clauses is not None and option.takes != forms.BLOCKS), None)
            if extra is not None:
                scope.report("E302", f"`{option.name}` of `{form.name}` takes no `for`", extra.span, "no `for` here")
                continue
            out[option.name] = _CHECKS[option.takes](arguments, option, scope, axes)
    return out if len(scope.diagnostics) == before else None


def _number(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> Expression:
    return check_number(arguments[0].value, scope, INDEXED if axes else CONSTANT)


def _integer(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> Expression:
    e = arguments[0].value
    value = check_number(e, scope, CONSTANT, integer=True)
    if isinstance(value, Literal) and value.value < 1:
        scope.report("E319", f"`{option.name}` is at least 1, found {value.value}", e.span, "too small")
    return value


def _boolean(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Boolean):
        return e.value
    scope.report("E303", f"`{option.name}` is `true` or `false`", e.span, "not `true` or `false`")
    return None


def _size(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    return check_size_or_set(arguments[0].value, scope)


def _set(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    return check_set(arguments[0].value, scope)


def _input(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if not isinstance(e, tree.Name):
        scope.report("E303", f"`{option.name}` is the name of an input", e.span, "not a name")
        return None
    symbol = scope.use(e, "input")
    if symbol is not None and isinstance(symbol.value, Input):
        declared = symbol.value
        if len(declared.axes) != 2 or declared.type.kind != "int":
            message = f"`{e.name}` must be an integer input with two axes"
            scope.report("E303", message, e.span, "not a list of pairs", help=f"declare it as `input {e.name}[e, 2] : int`", related=((symbol.span, "declared here"),))
    return e.name


def _rate(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Call) and e.function.name == "uniform":
        ends = [a.value for a in e.arguments if a.keyword is None and a.clauses is None]
        if len(ends) != 2 or len(e.arguments) != 2:
            scope.report("E302", "`uniform` takes two numbers", e.span, "`uniform(a, b)`")
            return None
        return tuple(_probability(x, option, scope) for x in ends)
    return _probability(e, option, scope)


def _probability(e: tree.Expression, option: Option, scope: Scope) -> Expression:
    value = check_number(e, scope, CONSTANT)
    if isinstance(value, Literal) and not 0 <= value.value <= 1:
        scope.report("E319", f"`{option.name}` lies between 0 and 1, found {value.value}", e.span, "not a probability")
    return value


def _noise(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if not isinstance(e, tree.Options):
        scope.report("E303", "`noise` is a list of options", e.span, "`{hide: 0.8, uniform: 0.1, keep: 0.1}`")
        return None
    out: dict[str, Expression] = {}
    for name, value in e.items:
        if name.name not in ("hide", "uniform", "keep") or name.name in out:
            scope.report("E302", "`noise` has the options `hide`, `uniform` and `keep`, each once", name.span, "not one of them")
            return None
        out[name.name] = _probability(value, option, scope)
    values = [v.value for v in out.values() if isinstance(v, Literal)]
    if len(values) == len(out) and abs(sum(values) - 1) > 1e-6:
        scope.report("E319", f"the probabilities of `noise` sum to {sum(values):g}, not 1", e.span, "do not sum to 1")
    return out


def _numbers(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if not isinstance(e, tree.List):
        scope.report("E303", f"`{option.name}` is a list of numbers", e.span, "`[0.5, 1]`")
        return None
    return tuple(check_number(item, scope, CONSTANT) for item in e.items)


def _text(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.String):
        return e.value
    scope.report("E303", f"`{option.name}` is a text in double quotes", e.span, "not a text")
    return None


def _word(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Name) and e.name in option.words:
        return e.name
    near = did_you_mean(e.name, option.words) if isinstance(e, tree.Name) else None
    help = f"did you mean `{near}`?" if near else f"one of {listed(option.words)}"
    scope.report("E303", f"`{option.name}` cannot be `{e.span.text}`", e.span, "not one of its words", help=help, fix=Fix(e.span, near) if near else None)
    return None


def _expression(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    return check_expression(arguments[0].value, scope, CONSTANT)[0]


_CHECKS: dict[str, Callable[[list[tree.Argument], Option, Scope, bool], object]] = {
    forms.NUMBER: _number,
    forms.INTEGER: _integer,
    forms.BOOLEAN: _boolean,
    forms.SIZE: _size,
    forms.SET: _set,
    forms.INPUT: _input,
    forms.RATE: _rate,
    forms.NOISE: _noise,
    forms.NUMBERS: _numbers,
    forms.TEXT: _text,
    forms.WORD: _word,
    forms.EXPRESSION: _expression,
}


def find_form(call: tree.Call, room: str, scope: Scope) -> Form | None:
    """The form a call names; an unknown one is reported with the nearest name."""
    name = call.function.name
    found = forms.form(room, name)
    if found is None:
        known = forms.names(room)
        near = did_you_mean(name, known)
        help = f"did you mean `{near}`?" if near else f"there are {listed(known)}"
        fix = Fix(call.function.span, near) if near else None
        scope.report("E301", f"there is no {room} `{name}`", call.function.span, f"unknown {room}", help=help, fix=fix)
    return found
