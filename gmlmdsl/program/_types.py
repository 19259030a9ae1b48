"""Check the types of cells, inputs and parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .._diagnostics import Fix, GmlmError, Span
from ..files import read_vocabulary
from ..syntax import tree
from . import _forms as forms
from ._expressions import CONSTANT, check_number, known_number, quoted
from ._habits import REAL_ELSEWHERE
from ._program import ValueType
from ._scope import DECLARES, Scope, suggestion
from ._sets import check_range, check_set
from ._terms import Domain, Expression, Literal, Operation, SetOf, sized

VALUE_TYPES = ("real", "positive", "simplex", "ordered", "int", "nonnegative")
STATEMENTS = (*DECLARES, "factor", "require", "gauge", "conditional", "import")
DOMAINS = "`spin`, `bit`, `range(q)`, `letters(..)`, `labels(..)`, a declared domain or index set"
PARAMETER_TYPES = "`real`, `positive`, `simplex`, `ordered` or `real(lower = .., upper = ..)`"
# types that only inputs can have, because their values do not vary during a fit
FIXED_ONLY = ("int", "nonnegative")


def check_given(e: tree.Expression, scope: Scope) -> Domain | None:
    """Return the values of a given cell, or None after a fault.

    The type is that of any cell, or `real`, `positive`, `nonnegative`, `real(lower = .., upper =
    ..)`.
    """
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    named = (
        isinstance(e, tree.Name)
        and e.name in ("real", "positive", "nonnegative")
        and (symbol is None or symbol.kind not in ("domain", "index"))
    )
    if isinstance(e, tree.Name) and e.name in ("simplex", "ordered", "int") and symbol is None:
        help = f"{DOMAINS}; or `real`, `positive`, `nonnegative`, `real(lower = .., upper = ..)`"
        scope.report("E205", f"a given variable cannot be `{e.name}`", e.span, "not for a given variable", help=help)
        return None
    if not named and not (isinstance(e, tree.Call) and e.function.name == "real"):
        return check_domain(e, scope)
    type_ = check_type(e, scope, e.span, inputs=True)
    return None if type_ is None else Domain(e.span, type_.kind, lower=type_.lower, upper=type_.upper)


def check_domain(e: tree.Expression, scope: Scope) -> Domain | None:
    """Return the values of a cell, or None after a fault.

    The type is spin, bit, range(q), letters(..), labels(..), vocabulary(..), a declared domain or
    an index set.
    """
    match e:
        case tree.Name():
            return _named_domain(e, scope)
        case tree.Attribute():
            return _domain_of(check_set(e, scope), e, scope)
        case tree.Call() if e.function.name == "range":
            over = check_range(e, scope)
            return None if over is None else _of_range(over, e)
        case tree.Call() if e.function.name in ("letters", "labels"):
            return _label_domain(e, scope)
        case tree.Call() if e.function.name == "vocabulary":
            return _vocabulary(e, scope)
        case tree.Call() if e.function.name == "real":
            _report_real(e, "real", scope)
        case tree.Call() if e.function.name in (*VALUE_TYPES, "spin", "bit"):
            name, help = e.function.name, "bounds are those of `real(lower = .., upper = ..)`"
            help = help if name in VALUE_TYPES else f"write `{name}`"
            scope.report("E302", f"`{name}` takes nothing in parentheses", e.span, f"`{name}`", help=help)
        case tree.Call():
            help, fix = suggestion(e.function, ("range", "letters", "labels", "vocabulary"), DOMAINS, "type")
            scope.report("E301", f"there is no domain `{e.function.name}(..)`", e.function.span, "unknown domain", help=help, fix=fix)
        case _:
            scope.report("E205", "a domain is expected here", e.span, "not a domain", help=DOMAINS)
    return None


def _named_domain(e: tree.Name, scope: Scope) -> Domain | None:
    symbol = scope.find(e.name)
    if e.name in sized() and (symbol is None or symbol.kind not in ("domain", "index")):
        return Domain(e.span, e.name, e.name)
    if symbol is not None:
        return _domain_of(check_set(e, scope), e, scope)
    if e.name in VALUE_TYPES:
        _report_real(e, e.name, scope)
    elif forms.form("type", e.name):
        scope.report("E302", f"`{e.name}` needs its values", e.span, "argument missing", help=f"write `{e.name}(..)`")
    else:
        _report_unknown(e, sized(), scope)
    return None


def _report_real(e: tree.Expression, name: str, scope: Scope) -> None:
    help = f"{DOMAINS}; real numbers that come with each row are `given`, those that are fitted `param`"
    help = DOMAINS if name in ("simplex", *FIXED_ONLY) else help
    scope.report("E205", f"a cell cannot be `{name}`: models are discrete", e.span, "not a domain", help=help)


def _report_unknown(e: tree.Name, built_in: tuple[str, ...], scope: Scope) -> None:
    scope.report_unknown(e, "domain", "index", wanted="a type", built_in=built_in, room="type")
    # The type is missing. The following text is not the statement that it seems to be.
    if e.name in STATEMENTS:
        scope.mark_broken(e.span)
        scope.incomplete = True


def _domain_of(over: SetOf | None, e: tree.Expression, scope: Scope) -> Domain | None:
    if over is None or over.domain is not None:
        return None if over is None else over.domain
    if over.arity > 1 or over.lists_cells or over.clauses is not None:
        what = "are not single values" if over.arity > 1 or over.lists_cells else "may have gaps"
        scope.report("E205", f"the members of `{over.name}` {what}", e.span, "not a domain", help=DOMAINS)
        return None
    return replace(_of_range(over, e), name=over.name, of=over)


def _of_range(over: SetOf, e: tree.Expression) -> Domain:
    """Return the domain of the whole numbers of a range."""
    size, start = over.size, over.start
    if start is not None and size is not None:
        low, high = known_number(start), known_number(size)
        known = isinstance(low, int) and isinstance(high, int)
        size = Literal(e.span, high - low) if known else Operation(e.span, "-", (size, start))  # pyright: ignore[reportOperatorIssue]
    return Domain(e.span, "range", e.span.text, size=size, start=start)


def _label_domain(e: tree.Call, scope: Scope) -> Domain | None:
    kind = e.function.name
    texts = [a.value for a in e.arguments if isinstance(a.value, tree.String)]
    good = e.is_plain and len(texts) == len(e.arguments) and len(texts) > 0
    if not good or (kind == "letters" and len(texts) != 1):
        takes, example = ("one string", '`letters("ACGT")`') if kind == "letters" else ("strings", '`labels("sun", "rain")`')
        meant = _meant_labels(e)
        help, fix = (f"write `{meant}`", Fix(e.span, meant, guess=True)) if meant else (f"for example {example}", None)
        scope.report("E302", f"`{kind}` takes {takes}", e.span, "wrong arguments", help=help, fix=fix)
        return None
    labels = tuple(texts[0].value) if kind == "letters" else tuple(t.value for t in texts)
    if len(set(labels)) < len(labels):
        twice = next(i for i, v in enumerate(labels) if labels.index(v) < i)
        place = texts[0] if kind == "letters" else texts[twice]
        scope.report("E217", f"{quoted(labels[twice])} stands twice in the domain", place.span, "each value once")
        return None
    if not labels:
        scope.report("E319", "a domain has at least one value", e.span, "no value")
        return None
    return Domain(e.span, kind, "", labels)


def _vocabulary(e: tree.Call, scope: Scope) -> Domain | None:
    """Return the tokens of a pretrained masked language model as labels, in order of their ids."""
    folder = e.arguments[0].value if len(e.arguments) == 1 and e.arguments[0].keyword is None else None
    if not isinstance(folder, tree.String):
        help = 'for example `domain token = vocabulary("esm2")`'
        scope.report("E302", "`vocabulary` takes the name of a folder", e.span, "wrong arguments", help=help)
        return None
    path = Path(e.span.source.path)
    try:
        tokens = read_vocabulary((path.parent if path.is_file() else Path()) / folder.value)
    except GmlmError as error:
        found = error.diagnostics[0]
        scope.report(found.code, found.message, folder.span, "no vocabulary", help=found.help)
        return None
    if len(set(tokens)) < len(tokens):
        twice = next(t for k, t in enumerate(tokens) if tokens.index(t) < k)
        help = "declare the tokens that the model uses as `labels(..)`"
        scope.report("E217", f"{quoted(twice)} stands twice in the vocabulary", folder.span, "each value once", help=help)
        return None
    return Domain(e.span, "labels", e.span.text, tokens)


def _meant_labels(e: tree.Call) -> str:
    """Return `labels("sun", "rain")` for `labels(sun, rain)`, or "" if no suggestion is known.

    For `letters("A", "C", "G", "T")` the result is `letters("ACGT")`.
    """
    listed = e.arguments[0].value if len(e.arguments) == 1 else None
    values = listed.items if isinstance(listed, tree.List) else tuple(a.value for a in e.arguments)
    if not e.is_plain or not values:
        return ""
    if not all(isinstance(v, tree.Name | tree.Number | tree.String) for v in values):
        return ""
    texts = [v.value if isinstance(v, tree.String) else v.span.text for v in values]
    if len(set(texts)) < len(texts):
        return ""
    if e.function.name == "letters" and all(len(t) == 1 for t in texts):
        return f"letters({quoted(''.join(texts))})"
    return f"labels({', '.join(map(quoted, texts))})"


def check_type(e: tree.Expression | None, scope: Scope, where: Span, inputs: bool) -> ValueType | None:
    """Return the type of an input (`inputs`) or a parameter. A missing type is real.

    Args:
        e: the type in the program's text, or None.
        scope: the names that are visible. It collects the diagnostics.
        where: the place of the declaration, if there is no type.
        inputs: whether the type belongs to an input.
    """
    if e is None:
        return ValueType(where, "real")
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    if isinstance(e, tree.Name) and e.name in VALUE_TYPES and (symbol is None or symbol.kind not in ("domain", "index")):
        return _value_type(e, scope, inputs)
    if isinstance(e, tree.Call) and e.function.name == "real":
        return _bounded(e, scope)
    if not inputs:
        _report_no_parameter_type(e, scope)
        return None
    if isinstance(e, tree.Name) and symbol is None and forms.form("type", e.name) is None:
        _report_unknown(e, (*VALUE_TYPES, *sized()), scope)
        return None
    domain = check_domain(e, scope)
    return None if domain is None else ValueType(e.span, "domain", domain=domain)


def _value_type(e: tree.Name, scope: Scope, inputs: bool) -> ValueType | None:
    """Return the type that has this name, one of `VALUE_TYPES`."""
    if e.name in FIXED_ONLY and not inputs:
        scope.report("E205", f"a parameter cannot be `{e.name}`", e.span, "inputs only", help=PARAMETER_TYPES)
        return None
    if e.name == "ordered" and inputs:
        help = "declare it `real`: its numbers are known"
        scope.report("E205", "an input cannot be `ordered`", e.span, "parameters only", help=help)
        return None
    if e.name == "nonnegative":
        return ValueType(e.span, "bounded", Literal(e.span, 0))
    return ValueType(e.span, e.name)


def _report_no_parameter_type(e: tree.Expression, scope: Scope) -> None:
    help, fix = PARAMETER_TYPES, None
    if isinstance(e, tree.Name):
        room = "type" if e.name.lower() in REAL_ELSEWHERE else ""
        help, fix = suggestion(e, VALUE_TYPES[:4], PARAMETER_TYPES, room)
    elif isinstance(e, tree.Call) and e.function.name == "simplex":
        help = "a simplex has no size, it sums to 1 over the last axis: `param p[a in state, b in state] : simplex`"
    message = f"a parameter cannot be `{e.span.text}`"
    scope.report("E205", message, e.span, "not a type of parameters", help=help, fix=fix)


def _bounded(e: tree.Call, scope: Scope) -> ValueType | None:
    bounds: dict[str, Expression] = {}
    for a in e.arguments:
        if a.keyword is None or a.keyword.name not in ("lower", "upper") or a.keyword.name in bounds or a.clauses is not None:
            named = a.keyword is not None and a.keyword.name not in ("lower", "upper")
            bare = [b.value.span.text for b in e.arguments if b.keyword is None]
            words = ", ".join(f"{name} = {text}" for name, text in zip(("lower", "upper"), bare, strict=False))
            help, fix = suggestion(a.keyword, ("lower", "upper"), "") if named else (f"write `real({words})`" if words else "", None)  # pyright: ignore[reportArgumentType]
            scope.report("E302", "`real` takes `lower = ..` and `upper = ..`, each once", a.span, "not one of these", help=help, fix=fix)
            return None
        bounds[a.keyword.name] = check_number(a.value, scope, CONSTANT)
    low, high = (known_number(bounds.get(name)) for name in ("lower", "upper"))
    if low is not None and high is not None and low >= high:
        message = f"the lower bound {low} is not below the upper bound {high}"
        scope.report("E319", message, e.span, "no value is left", help="make `lower` the smaller of the two")
        return None
    return ValueType(e.span, "bounded" if bounds else "real", bounds.get("lower"), bounds.get("upper"))
