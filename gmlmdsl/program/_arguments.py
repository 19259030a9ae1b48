"""Check the arguments of a form against the table of forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .._diagnostics import Fix, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import CONSTANT, INDEXED, Where, check_number, faulty, is_faulty, known_number
from ._form import CELL_VALUE, JUDGE, MODEL, NETWORK, NOISE, SET, TARGET, WORD, Bounds, Form, Option
from ._habits import foreign
from ._program import Input, Judge
from ._scope import Scope, suggestion
from ._sets import check_set, check_size_or_set
from ._terms import Expression
from .limits import LONGEST_TABLE

Raw = dict[str, list[tree.Argument]]
NOISES = ("hide", "uniform", "keep")
OF_EDGES = "; what else each edge has is an input over the graph, `input w[(i, j) in G.edges] : real`"


def match_arguments(call: tree.Call, form: Form, scope: Scope) -> Raw | None:
    """Return the arguments of a call by option name, or None after a fault.

    The possible faults are missing, extra, unknown and repeated arguments. After the first fault,
    positional arguments are not checked.
    """
    positional = [o for o in form.options if not o.named]
    found: Raw = {}
    before = len(scope.diagnostics)
    for a in call.arguments:
        if a.keyword is not None or len(scope.diagnostics) == before:
            name = _option_name(a, form, positional, found, scope)
            found.setdefault(name or "", []).append(a)
    if "" in found:
        return None
    missing = [o.name for o in form.options if o.required and o.name not in found]
    if missing:
        scope.report("E302", f"`{form.name}` lacks {listed(missing)}", call.span, "argument missing", help=f"`{form.shown}`")
        return None
    return found


KINDS_OF_VALUES: dict[type, tuple[str, ...]] = {
    tree.Number: (forms.INTEGER, forms.NUMBER, forms.RATE),
    tree.Boolean: (forms.BOOLEAN,),
    tree.List: (forms.NUMBERS,),
}


def _option_name(a: tree.Argument, form: Form, positional: list[Option], found: Raw, scope: Scope) -> str | None:
    """Return the name of the option that an argument belongs to, or None after a fault."""
    if a.keyword is None:
        option = next((o for o in positional if o.name not in found or o.many), None)
        if option is not None and not (option.takes == forms.VARIABLES and isinstance(a.value, tree.Number)):
            return option.name
        _report_nameless(a, form, positional, found, scope)
        return None
    name = a.keyword.name
    if name in found:
        scope.report("E302", f"`{name}` is given twice", a.span, "again here", help="keep one of the two; an option has one value")
        return None
    if form.has(name):
        return name
    _report_unknown_option(a.keyword, form, found, scope)
    return None


def _report_unknown_option(keyword: tree.Name, form: Form, found: Raw, scope: Scope) -> None:
    """Report a named argument that the form does not have."""
    named = [o.name for o in form.options if o.named]
    left = [n for n in named if n not in found]
    room = "option" * (foreign("option", keyword.name)[1] in left)
    others = forms.with_option(form.room, keyword.name)
    if others:
        otherwise = f"it is an option of {listed(others, 3)}"
    elif named:
        unnamed = (MODEL, forms.SAMPLER)
        by_name = [o.name for o in form.options if not o.many and o.takes not in unnamed]
        otherwise = f"it has {listed(by_name)}"
    else:
        otherwise = f"it has none: `{form.shown}`"
    help, fix = (otherwise, None) if others and not room else suggestion(keyword, left, otherwise, room)
    message = f"`{form.name}` has no option `{keyword.name}`"
    scope.report("E302", message, keyword.span, "unknown option", help=help, fix=fix)


def _report_nameless(a: tree.Argument, form: Form, positional: list[Option], found: Raw, scope: Scope) -> None:
    """Report a positional argument that no option takes.

    The help suggests the first unused named option that takes values of this kind.
    """
    kinds = KINDS_OF_VALUES.get(type(a.value), ())
    behind = [o.name for o in form.options if o.named and o.name in found]
    possible = [o for o in form.options if o.named and o.name not in found and o.takes in kinds] if not behind else []
    meant = possible[0] if possible else None
    takes = f"{len(positional)} plain argument{'s' * (len(positional) != 1)}" if positional else "named arguments only"
    if meant is None:
        help = f"`{behind[-1]}` has one value" if behind and positional else f"`{form.shown}`"
        if form.name == "edges":
            help = "both ends of an edge stand in one input: `input pairs[e, 2] : int`, then `edges(pairs, nodes = n)`"
        scope.report("E302", f"`{form.name}` takes {takes}", a.span, "one too many", help=help)
        return
    text = f"{meant.name} = {a.span.text}"
    message = f"`{meant.name}` of `{form.name}` is given by its name"
    scope.report("E302", message, a.span, "no name", help=f"write `{text}`", fix=Fix(a.span, text, guess=len(possible) > 1))


def check_arguments(
    call: tree.Call, form: Form, scope: Scope, skip: tuple[str, ...] = (), axes: bool = False, where: Where | None = None
) -> dict[str, object] | None:
    """Return the checked arguments by option name, or None after a fault.

    Args:
        call: the call in the program's text.
        form: the form that the call names.
        scope: the names that are visible. It collects the diagnostics.
        skip: the kinds of options that the caller checks itself.
        axes: whether numbers may mention index names.
        where: a description of the names that numbers may mention instead, as for a prior. It
            overrides `axes`.
    """
    axes = where or axes  # type: ignore[assignment]
    raw = match_arguments(call, form, scope)
    if raw is None:
        return None
    options = {o.name: o for o in form.options}
    out: dict[str, object] = {}
    good = True
    for name, arguments in raw.items():
        option = options.get(name) or Option(name, forms.EXPRESSION, "an option of the user's class")
        if option.takes in skip:
            continue
        extra = next((a for a in arguments if a.clauses is not None), None)
        if extra is not None:
            scope.report("E302", f"`{option.name}` of `{form.name}` takes no `for`", extra.span, "no `for` here")
        before = len(scope.diagnostics)
        out[name] = None if extra is not None else _CHECKS[option.takes](arguments, option, scope, axes)
        good = good and out[name] is not None and not is_faulty(out[name]) and len(scope.diagnostics) == before
    return {o.name: out[o.name] for o in form.options if o.name in out} | out if good else None


def _number(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Name) and e.name in option.words:
        return e.name
    if isinstance(e, tree.String):
        fix = Fix(e.span, e.value) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", e.value) else None
        scope.report("E303", f"`{option.name}` is a number, found a string", e.span, "a string", help="numbers have no quotes", fix=fix)
        return None
    value = check_number(
        e, scope, axes if isinstance(axes, Where) else INDEXED if axes else CONSTANT, integer=option.takes == forms.INTEGER
    )
    number, bounds = known_number(value), option.bounds
    if number is not None and bounds is not None and not bounds.holds(number):
        label = "too small" if not Bounds(bounds.low, open=bounds.open).holds(number) else "too large"
        help = _cure_of_number(option, number)
        scope.report("E319", f"`{option.name}` is {bounds.words}, found {number}", e.span, label, help=help)
    return value


def _cure_of_number(option: Option, number: float) -> str:
    """Return the suggested fix for a number out of bounds that has a meaning in other languages."""
    if option.name == "temperature" and number == 0:
        return "the likeliest value is taken by `decode = argmax`, or by `top_k = 1` where there is no such option"
    if number in (0, -1) and "none" in option.words:
        return "without a limit it is `none`, or is left out"
    return of_a_hundred(number) if option.bounds is not None and option.bounds.high == 1 else ""


def of_a_hundred(number: float) -> str:
    """Return a help that gives the share for a number that may be a percentage, or ""."""
    return f"of a hundred, `{number:g}` is `{number / 100:g}`" if 2 <= number <= 100 else ""


def _boolean(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Boolean):
        return e.value
    meant = {"1": "true", "0": "false", "true": "true", "false": "false", "yes": "true", "no": "false"}.get(e.span.text.lower())
    fix = Fix(e.span, meant) if meant else None
    help = f"write `{option.name} = {meant or 'true'}`"
    scope.report("E303", f"`{option.name}` is `true` or `false`", e.span, "neither", help=help, fix=fix)
    return None


def _size(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    return check_size_or_set(arguments[0].value, scope)


def _sizes(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    found = [check_size_or_set(a.value, scope) for a in arguments]
    return None if any(size is None for size in found) else tuple(found)


def _set(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    return check_set(arguments[0].value, scope)


def _input(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if not isinstance(e, tree.Name):
        text = e.span.text if isinstance(e, tree.List) and len(e.span.text) <= LONGEST_TABLE else "[[0, 1], [1, 2]]"
        help = f"name one: `input pairs[e, 2] : int = {text}` before this, then `pairs` here"
        scope.report("E303", f"`{option.name}` is the name of an input", e.span, "not a name", help=help)
        return None
    symbol = scope.use(e, "input")
    if symbol is not None and isinstance(symbol.value, Input):
        declared = symbol.value
        if len(declared.axes) != 2 or declared.type.kind != "int":
            message = f"`{e.name}` must be an integer input with two axes"
            place = ((symbol.span, "declared here"),)
            help = f"declare it as `input {e.name}[e, 2] : int`"
            columns = known_number(declared.axes[-1].size) if declared.axes else None
            help += OF_EDGES * (columns is not None and columns > 2)
            scope.report("E303", message, e.span, "not a list of pairs", help=help, related=place)
            return None
    return None if symbol is None else e.name


def _rate(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Call) and e.function.name == "uniform":
        ends = [a.value for a in e.arguments]
        if len(ends) != 2 or not e.is_plain:
            scope.report("E302", "`uniform` takes two numbers", e.span, "`uniform(a, b)`")
            return None
        low, high = (_probability(x, option, scope) for x in ends)
        bounds = known_number(low), known_number(high)
        if bounds[0] is not None and bounds[1] is not None and bounds[0] > bounds[1]:
            scope.report("E319", f"`uniform({bounds[0]}, {bounds[1]})` is empty", e.span, "the first is larger", help="exchange the two")
        return low, high
    return _probability(e, option, scope)


def _probability(e: tree.Expression, option: Option, scope: Scope) -> Expression:
    if isinstance(e, tree.Call) and e.function.name in forms.names("distribution"):
        help = f"`{option.name}` is a number, or `uniform(a, b)`, which is drawn once per mask"
        scope.report("E206", f"`{e.function.name}` is a distribution, not a number", e.function.span, "not a number", help=help)
        return faulty(e.span)[0]
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if symbol is not None and isinstance(symbol.value, Input) and symbol.value.axes:
        help = f"each cell has a rate of its own in braces: `mask name {{ each {e.span.text}[i] : x[i] for i in site }}`"
        scope.report("E214", "expected a number, found an array", e.span, "an array", help=help)
        return faulty(e.span)[0]
    value = check_number(e, scope, CONSTANT)
    number = known_number(value)
    if number is not None and not 0 <= number <= 1:
        message = f"`{option.name}` lies between 0 and 1, found {number}"
        scope.report("E319", message, e.span, "not a probability", help=of_a_hundred(number))
    return value


def _noise(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if not isinstance(e, tree.Options):
        scope.report("E303", "`noise` is a list of options", e.span, "`{hide: 0.8, uniform: 0.1, keep: 0.1}`")
        return None
    out: dict[str, Expression] = {}
    for name, value in e.items:
        if name.name not in NOISES or name.name in out:
            known = [w for w in NOISES if w not in out]
            help, fix = suggestion(name, known, "", "option") if name.name not in out else ("", None)
            message = "`noise` has the options `hide`, `uniform` and `keep`, each once"
            scope.report("E302", message, name.span, "not one of them" if name.name not in out else "again here", help=help, fix=fix)
            return None
        out[name.name] = _probability(value, option, scope)
    values = [n for v in out.values() if (n := known_number(v)) is not None and 0 <= n <= 1]
    if len(values) == len(out) and abs(sum(values) - 1) > 1e-6:
        message = f"the probabilities of `noise` sum to {sum(values):g}, not 1"
        scope.report("E319", message, e.span, "do not sum to 1", help="give what is left over to `hide`, or divide each by their sum")
    return out


def _numbers(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.Name) and (symbol := scope.find(e.name)) is not None and symbol.kind == "input":
        return _input_of_numbers(e, option, scope, ("int", "real", "positive"), "[count] : real")
    if not isinstance(e, tree.List):
        scope.report("E303", f"`{option.name}` is a list of numbers, or an input that is one", e.span, "`[0.5, 1]`")
        return None
    return tuple(check_number(item, scope, CONSTANT) for item in e.items)


def _text(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    if isinstance(e, tree.String):
        return e.value
    help, fix = "", None
    if isinstance(e, tree.Attribute | tree.Name):
        module, _, name = e.span.text.rpartition(".")
        text = f'"{module or "module"}:{name}"'
        help, fix = f"write `{text}`", Fix(e.span, text, guess=True) if module else None
    scope.report("E303", f"`{option.name}` is a string in double quotes", e.span, "not a string", help=help, fix=fix)
    return None


_ALSO = {
    forms.SCHEDULE: ', `counts([1, 2, 3])`, `python("package.module:name")`, or the name of a mask',
    forms.PLANNER: ', `python("package.module:name")`, or the name of a network',
    forms.CONFIDENCE: ', or `python("package.module:name")`',
}
# Functions of Python: their arguments and results.
_FUNCTIONS = {
    forms.SCHEDULE: "a function of the number of cells, whose result lists how many each pass settles",
    forms.PLANNER: "a function of codes, shape (.., cells), and log p, shape (.., cells, values), whose result has the shape (.., cells)",
    forms.CONFIDENCE: "a function of log p, shape (.., values), whose result has the shape (..)",
}


def _word(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Check a word, or `python("package.module:name")` for options that take it, whose target is returned."""
    e = arguments[0].value
    if isinstance(e, tree.Call) and e.function.name == "python" and option.takes in _FUNCTIONS:
        target = e.arguments[0].value if len(e.arguments) == 1 and e.arguments[0].keyword is None else None
        if isinstance(target, tree.String) and TARGET.fullmatch(target.value):
            return target.value
        help = f'write `python("package.module:name")`: {_FUNCTIONS[option.takes]}'
        scope.report("E303", f"`{e.span.text}` names no function", e.span, "not a function", help=help)
        return None
    if isinstance(e, tree.Name) and e.name in option.words:
        return e.name
    otherwise = f"one of {listed(option.words)}{_ALSO.get(option.takes, '')}"
    help, fix = suggestion(e, option.words, otherwise) if isinstance(e, tree.Name) else (otherwise, None)
    if isinstance(e, tree.String) and e.value in option.words:
        help, fix = f"a word stands without quotes: write `{e.value}`", Fix(e.span, e.value)
    elif isinstance(e, tree.List) and e.items and option.takes == forms.SCHEDULE:
        help, fix = f"how many cells each pass settles is `counts({e.span.text})`", Fix(e.span, f"counts({e.span.text})")
    scope.report("E303", f"`{option.name}` cannot be `{e.span.text}`", e.span, "not one of its words", help=help, fix=fix)
    return None


def _schedule(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Check a schedule: a word, a function, a list of counts, or a mask or input that is declared earlier."""
    e = arguments[0].value
    if isinstance(e, tree.Call) and e.function.name == "counts":
        return _counts(e, scope)
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if isinstance(e, tree.Name) and symbol is not None and symbol.kind == "input" and e.name not in option.words:
        return _input_of_numbers(e, option, scope, ("int",), "[passes] : int")
    if not isinstance(e, tree.Name) or symbol is None or symbol.kind != "mask":
        return _word(arguments, option, scope, axes)
    if e.name in option.words:
        message = f"`{e.name}` is a word of `{option.name}` and the name of a mask"
        scope.report("E303", message, e.span, "which of the two?", help="rename the mask", related=((symbol.span, "the mask"),))
        return None
    return symbol.value


def _planner(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Check a planner: a word, a function, or the name of a network."""
    e = arguments[0].value
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if not isinstance(e, tree.Name) or e.name in option.words or symbol is None or symbol.kind != "network":
        return _word(arguments, option, scope, axes)
    scope.use(e, "network")
    return e.name


def _counts(e: tree.Call, scope: Scope) -> tuple[Expression, ...] | None:
    """Check `counts([1, 2, 3])`, the numbers of cells that the passes settle."""
    written = e.arguments[0].value if len(e.arguments) == 1 and e.arguments[0].keyword is None else None
    if not isinstance(written, tree.List) or not written.items:
        help = "write `counts([1, 2, 3])`: how many cells each pass settles"
        scope.report("E303", "`counts` takes one list of whole numbers", e.span, "not a list", help=help)
        return None
    found = tuple(check_number(item, scope, CONSTANT, integer=True) for item in written.items)  # pyright: ignore[reportArgumentType]
    for item in found:
        number = known_number(item)
        if number is not None and number < 1:
            message = f"a pass settles at least one cell, found {number}"
            scope.report("E319", message, item.span, "too small", help="leave the number out")
    return found


def _input_of_numbers(e: tree.Name, option: Option, scope: Scope, types: tuple[str, ...], declared: str) -> object:
    """Return an input with one axis whose type is one of `types`, or None after a fault.

    `declared` is the end of the declaration that the help suggests.
    """
    symbol = scope.use(e, "input")
    if symbol is None or not isinstance(symbol.value, Input):
        return None
    if len(symbol.value.axes) != 1 or symbol.value.type.kind not in types:
        help, place = f"declare it as `input {e.name}{declared}`", ((symbol.span, "declared here"),)
        what = "numbers" if len(types) > 1 else "whole numbers"
        scope.report("E303", f"`{option.name}` takes a list of {what}", e.span, f"not a list of {what}", help=help, related=place)
        return None
    return symbol.value


def _sampler(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Return a sampler that is declared earlier."""
    e = arguments[0].value
    if isinstance(e, tree.Name):
        symbol = scope.use(e, "sampler")
        return None if symbol is None else symbol.value
    scope.report("E303", f"`{option.name}` is the name of a sampler", e.span, "not a name", help="declare one, and name it here")
    return None


def _named(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Return the name of a model or network that is declared earlier."""
    e = arguments[0].value
    if isinstance(e, tree.Name):
        symbol = scope.use(e, option.takes)
        return None if symbol is None else e.name
    scope.report("E303", f"`{option.name}` is the name of a {option.takes}", e.span, "not a name")
    return None


JUDGES = {
    "verifier": "a verifier says 0 or 1 of a prefix; a value, such as `value v = expected(..)` or `probe(..)`, says how good it is",
    "value": "a value says how good a prefix is; a verifier, such as `verifier v = completable(..)` or `probe(..)`, says 0 or 1",
}


def _judge(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Return a verifier or value that is declared earlier, or `none` if that is the default."""
    e = arguments[0].value
    wanted = " or ".join(f"a {w}" for w in option.words)
    if not isinstance(e, tree.Name):
        scope.report("E303", f"`{option.name}` is the name of {wanted}", e.span, "not a name", help="declare one, and name it here")
        return None
    if scope.find(e.name) is None and e.name == option.default:
        return e.name
    symbol = scope.use(e, "judge", wanted=wanted)
    if symbol is None or not isinstance(symbol.value, Judge):
        return None
    if symbol.value.kind not in option.words:
        place = ((symbol.value.span, "declared here"),)
        message = f"`{e.name}` is a {symbol.value.kind}, not {wanted}"
        scope.report("E205", message, e.span, f"expected {wanted}", related=place, help=JUDGES[symbol.value.kind])
        return None
    return symbol.value


def _cell_value(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    """Check a value of a cell: a text or a number. The caller checks that a text is a value."""
    e = arguments[0].value
    if isinstance(e, tree.Name) and e.name not in option.words and scope.find(e.name) is None:
        otherwise = f'a label stands in quotes: `"{e.name}"`; of numbers, write the number or declare an input'
        scope.report_unknown(e, "input", "length", otherwise=otherwise)
        return None
    return e.value if isinstance(e, tree.String) else _number(arguments, replace(option, takes=forms.INTEGER), scope, axes)


def _free(arguments: list[tree.Argument], option: Option, scope: Scope, axes: bool) -> object:
    e = arguments[0].value
    return e.value if isinstance(e, tree.String | tree.Boolean) else check_number(e, scope, CONSTANT)


_CHECKS: dict[str, Callable[[list[tree.Argument], Option, Scope, bool], object]] = {
    forms.NUMBER: _number,
    forms.INTEGER: _number,
    forms.BOOLEAN: _boolean,
    forms.SIZE: _size,
    forms.SIZES: _sizes,
    SET: _set,
    forms.INPUT: _input,
    forms.RATE: _rate,
    NOISE: _noise,
    forms.NUMBERS: _numbers,
    forms.TEXT: _text,
    WORD: _word,
    forms.SCHEDULE: _schedule,
    forms.PLANNER: _planner,
    forms.CONFIDENCE: _word,
    forms.SAMPLER: _sampler,
    MODEL: _named,
    NETWORK: _named,
    JUDGE: _judge,
    CELL_VALUE: _cell_value,
    forms.EXPRESSION: _free,
}


# The rooms (groups of forms) that are also keywords of statements.
STATEMENTS = ("graph", "network", "mask", "sampler", "verifier", "value")


def _of_another_room(name: str, room: str) -> str:
    """Return a help if a form of this name exists in another group of forms, or ""."""
    found = [r for r in STATEMENTS if forms.form(r, name) is not None] if room in STATEMENTS else []
    return f"`{name}` is a {found[0]}: `{found[0]} name = {name}(..)`" if found else ""


def find_form(call: tree.Call, room: str, scope: Scope, known: tuple[str, ...] = (), foreign: str = "") -> Form | None:
    """Return the form that a call names. An unknown form is reported with the most similar name.

    Args:
        call: the call in the program's text.
        room: the group of forms to search, such as `mask` or `sampler`.
        scope: the names that are visible. It collects the diagnostics.
        known: the names to suggest if they are fewer than the names of the room.
        foreign: the group of names from other languages that the name may belong to.
    """
    name = call.function.name
    found = forms.form(room, name)
    if found is None:
        known = known or forms.names(room)
        otherwise = f"there {'is only' if len(known) == 1 else 'are'} {listed(known)}"
        otherwise = _of_another_room(name, room) or otherwise
        help, fix = suggestion(call.function, known, otherwise, foreign or (room if room in ("graph", "mask", "sampler") else ""))
        scope.report("E301", f"there is no {room} `{name}`", call.function.span, f"unknown {room}", help=help, fix=fix)
    return found
