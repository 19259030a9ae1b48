"""Check calls of functions in expressions."""

from __future__ import annotations

import re

from .._diagnostics import Fix, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import (
    INDEXED,
    Checked,
    Where,
    check_condition,
    check_expression,
    faulty,
    is_faulty,
    operation,
    require_number,
    rule,
)
from ._program import Parameter, Variable
from ._scope import CELLS, WORDS, Scope, suggestion
from ._sets import check_clauses
from ._surface import called
from ._terms import CONDITION, Clauses, Expression, IndexValue, Kind, Literal, Loop, Operation, Sum, sized, substitute, substitute_in_set
from .limits import LONGEST_TERM, MOST_CALLS

# The operator of each reduction. `min` and `max` with a `for` are reductions too.
REDUCTIONS = {"sum": "+", "prod": "*", "count": "+", "any": "any", "all": "all", "all_different": "all_different", "logsumexp": "logsumexp"}


TURNS = Where(
    "may use index names and inputs only",
    *INDEXED.kinds,
    instead="which turns there are is fixed; a condition on cells is part of the term: `sum(if x[i] == 1 then h[i] else 0 for i in site)`, "
    "`count(x[i] == 1 and y[i] == 1 for i in site)`",
)


@rule(tree.Call)
def _call(e: tree.Call, scope: Scope, where: Where) -> Checked:
    name = e.function.name
    function = forms.form("function", name)
    own = scope.find(name) if function is None or name in scope.program else None
    if own is not None and isinstance(own.value, tree.Function):
        return _own(own.value, e, scope, where)
    if function is None:
        _report_unknown_function(e, scope)
        return faulty(e.span)
    if name in REDUCTIONS or (name in ("min", "max") and any(a.clauses is not None for a in e.arguments)):
        return _reduction(e, scope, where)
    if not _verify_arguments(e, function, scope):
        return faulty(e.span)
    checked = [check_expression(a.value, scope, where) for a in e.arguments]
    good = [require_number(kind, a.value, scope) for (_, kind), a in zip(checked, e.arguments, strict=True)]
    kinds = [kind for _, kind in checked]
    if not all(good) or any(k.tag == "error" for k in kinds):
        return faulty(e.span)
    if name in sized() and not _verify_conversion(e, kinds[0], scope):
        return faulty(e.span)
    return operation(e.span, name, tuple(c for c, _ in checked), _kind_of(name, kinds), scope)


def _kind_of(name: str, kinds: list[Kind]) -> Kind:
    """Return the kind of a function's value at arguments of these kinds."""
    integer = name in sized() or (name in ("abs", "min", "max") and all(k.integer for k in kinds))
    spin = name == "spin" or (name in ("min", "max") and any(k.spin for k in kinds))
    return Kind("number", integer=integer, spin=spin)


def _own(function: tree.Function, e: tree.Call, scope: Scope, where: Where) -> Checked:
    """Check a call of a function of the program.

    The result is the function's expression with the arguments substituted for its parameters.
    """
    written = called(function, e, scope)
    if written is None:
        return faulty(e.span)
    with scope.level() as levels:
        if levels <= MOST_CALLS:
            return check_expression(written, scope, where)
    scope.report("E117", f"functions call one another deeper than {MOST_CALLS}", e.span, "nested too deep")
    return faulty(e.span)


def _verify_arguments(e: tree.Call, function: forms.Form, scope: Scope) -> bool:
    bad = next((a for a in e.arguments if not a.is_plain), None)
    if bad is None and len(e.arguments) == len(function.options):
        return True
    wanted = len(function.options)
    message = f"`{function.name}` takes {wanted} argument{'s' * (wanted > 1)}, found {len(e.arguments) or 'none'}"
    help, fix = f"write `{function.signature}`", None
    if function.name in ("min", "max") and len(e.arguments) == 1 and isinstance(e.arguments[0].value, tree.Name):
        text = _over_all(e.arguments[0].value, "", scope)
        help, fix = (f"write `{function.name}({text})`", Fix(e.arguments[0].span, text, guess=True)) if text else (help, None)
    elif function.name in ("min", "max") and len(e.arguments) == 3:
        a, b, c = (x.span.text for x in e.arguments)
        help = f"write `{function.name}({a}, {function.name}({b}, {c}))`"
    if bad is not None:
        message = f"`{function.name}` takes plain arguments, without a name or `for`"
    scope.report("E302", message, (bad or e).span, f"`{function.signature}`", help=help, fix=fix if bad is None else None)
    return False


def _verify_conversion(e: tree.Call, kind: Kind, scope: Scope) -> bool:
    """Return False and report E212 for `spin` of a spin or `bit` of a bit.

    Such a conversion is a mistake: the value would leave its domain.
    """
    domain = kind.domain if kind.plain else None
    if domain is None or domain.kind != e.function.name:
        return True
    text = e.arguments[0].span.text
    message = f"`{text}` is a {domain.kind} already"
    scope.report("E212", message, e.span, f"a {domain.kind}", help=f"write `{text}`", fix=Fix(e.span, text))
    return False


def _distributed(e: tree.Call, scope: Scope) -> str:
    """`x ~ bernoulli(0.3)` of `bernoulli(x, 0.3)`, and of `bernoulli(0.3)`."""
    first, *rest = [a.span.text for a in e.arguments] or [""]
    symbol = scope.find(first.partition("[")[0])
    if not rest or symbol is None or symbol.kind not in CELLS:
        return f"x ~ {e.span.text}"
    return f"{first} ~ {e.function.name}({', '.join(rest)})"


def _report_unknown_function(e: tree.Call, scope: Scope) -> None:
    name, known = e.function, scope.find(e.function.name)
    if known is not None and known.faulty:
        return
    if known is not None and known.kind in (*CELLS, "param", "let", "input"):
        text = f"{name.name}[{', '.join(a.span.text for a in e.arguments)}]"
        message = f"`{name.name}` is {WORDS[known.kind]}, not a function"
        # `x(1)` is the first cell in MATLAB, whereas indices count from 0 here.
        counted = any(isinstance(a.value, tree.Number) for a in e.arguments)
        scope.report("E206", message, name.span, "indexed with brackets", help=f"write `{text}`", fix=Fix(e.span, text, guess=counted))
    elif name.name not in scope.skipped:
        if name.name == "range":
            help = f"an index runs over it: `for k in {e.span.text}`"
            help += f"; of masks, `mixture {{ 1 : subsets(x, size = k) for k in {e.span.text} }}`"
            scope.report("E205", f"`{e.span.text}` is a set, not a number", e.span, "a set", help=help)
            return
        if name.name in forms.names("distribution"):
            help = f"a variable has it after `~`: `{_distributed(e, scope)}`; a parameter, `param h ~ normal(0, 1)`"
            scope.report("E206", f"`{name.name}` is a distribution, not a function", name.span, "not a number", help=help)
            return
        functions = forms.names("function")
        own = [s.name for s in scope.program.values() if s.kind == "function"]
        help, fix = suggestion(name, (*own, *functions), f"the functions are {listed([*own, *functions], 20)}", "function")
        scope.report("E206", f"there is no function `{name.name}`", name.span, "unknown function", help=help, fix=fix)


def _reduction(e: tree.Call, scope: Scope, where: Where) -> Checked:
    name = e.function.name
    found = check_reduced(e, scope, where)
    if found is None:
        return faulty(e.span)
    body, kind, clauses = found
    if name == "all_different":
        return Operation(e.span, "==", (Sum(e.span, *equal_pairs(body, clauses)), Literal(e.span, 0))), CONDITION
    if name in ("any", "all"):
        counted = Sum(e.span, body if name == "any" else Operation(body.span, "not", (body,)), clauses)
        return Operation(e.span, ">=" if name == "any" else "==", (counted, Literal(e.span, int(name == "any")))), CONDITION
    operator = REDUCTIONS.get(name, name)
    integer = kind.integer and operator != "logsumexp"
    return Sum(e.span, body, clauses, operator), Kind("number", integer=integer, spin=kind.spin and operator != "logsumexp")


def check_reduced(e: tree.Call, scope: Scope, where: Where) -> tuple[Expression, Kind, Clauses] | None:
    """Return the body of a reduction, the body's kind, and the clauses, or None after a fault."""
    name = e.function.name
    written = e.only
    over = None if written is None else written.clauses
    if written is not None and isinstance(written.value, tree.Loop):
        _report_loop_alone(e, written.value, over, scope)
        return None
    if written is None or over is None or written.keyword is not None:
        help, fix = _meant_by_reduction(e, scope)
        scope.report("E302", f"`{name}` takes one expression followed by `for`", e.span, "no `for` in this", help=help, fix=fix)
        return None
    with scope.nested():
        inner = where.inside(n.name for loop in over.loops for n in loop.names)
        clauses = check_clauses(over, e.span, scope, where=TURNS if "binder" in where.kinds else inner)
        if name in ("count", "any", "all"):
            body, kind = check_condition(written.value, scope, inner), CONDITION
        else:
            body, kind = check_expression(written.value, scope, inner)
    if kind.tag == "error" or is_faulty(body):
        return None
    if not (name == "all_different" and kind.tag == "label") and not require_number(kind, written.value, scope):
        return None
    return body, kind, clauses


def _report_loop_alone(e: tree.Call, loop: tree.Loop, clauses: tree.Clauses | None, scope: Scope) -> None:
    """Report a loop without a term, as in `count((i, j) in G.edges if x[i] == x[j])`."""
    condition = clauses.condition if clauses is not None else None
    term = condition.span.text if condition is not None and len(condition.span.text) < LONGEST_TERM else "x[i] == 1"
    help = f"write `{e.function.name}({term} for {loop.span.text})`"
    scope.report("E302", f"`{e.function.name}` takes one expression followed by `for`", loop.span, "a loop alone", help=help)


def _term_of(e: tree.Call) -> str:
    """Return the argument of a reduction without a loop if it is short and contains `[i]`.

    Otherwise the result is "".
    """
    only = e.only
    text = "" if only is None else only.span.text
    return text if re.search(r"\[i\]", text) and len(text) < LONGEST_TERM else ""


# The sign that joins several values in place of a reduction.
JOINED = {"sum": " + ", "prod": " * ", "any": " or ", "all": " and "}


def _meant_by_reduction(e: tree.Call, scope: Scope) -> tuple[str, Fix | None]:
    """Suggest `sum(x[i] for i in site)` for `sum(x)`, and `a or b` for `any(a, b)`."""
    name = e.function.name
    same = " == 1" if name in ("count", "any", "all") else ""
    plain = [a.value for a in e.arguments if a.is_plain]
    if e.is_plain and len(plain) == 1 and isinstance(plain[0], tree.Name) and (text := _over_all(plain[0], same, scope)):
        return f"write `{name}({text})`", Fix(plain[0].span, text, guess=True)
    parts = [*plain[0].items] if len(plain) == 1 and isinstance(plain[0], tree.List) else plain
    named = any(re.search(r"\bin\b", p.span.text) for p in parts)
    if len(parts) > 1 and e.is_plain and name in JOINED and not named:
        return f"write `{JOINED[name].join(p.span.text for p in parts)}`", None
    if len(parts) == 2 and name == "logsumexp":
        return f"write `log({' + '.join(f'exp({p.span.text})' for p in parts)})`", None
    return f"write `{name}({_term_of(e) or f'x[i]{same}'} for i in site)`", None


def _over_all(name: tree.Name, same: str, scope: Scope) -> str:
    """Return `x[i, j] == 1 for i in site for j in site` for an array `x`.

    The result is "" for any other name.
    """
    symbol = scope.find(name.name)
    declared = symbol.value if symbol is not None else None
    axes = [a.over for a in declared.axes] if isinstance(declared, Variable | Parameter) else []
    letters = [c for c in "ijklmn" if scope.find(c) is None]
    if not axes or any(over.arity > 1 or over.clauses is not None for over in axes) or len(letters) < len(axes):
        return ""
    loops = " ".join(f"for {c} in {over.name}" for c, over in zip(letters, axes, strict=False))
    return f"{name.name}[{', '.join(letters[: len(axes)])}]{same} {loops}"


def equal_pairs(body: Expression, clauses: Clauses) -> tuple[Expression, Clauses]:
    """Return the condition that two values of a body are equal, and clauses over all pairs.

    The clauses run over all pairs of different iterations, and the earlier iteration comes first.
    """
    names = [n for loop in clauses.loops for n in loop.names]
    twin: dict[str, Expression] = {n: IndexValue(clauses.span, f"{n}'") for n in names}
    loops = tuple(Loop(c.span, tuple(f"{n}'" for n in c.names), substitute_in_set(c.over, twin)) for c in clauses.loops)
    span = clauses.span
    later: Expression = Operation(span, "<", (IndexValue(span, names[-1]), twin[names[-1]]))
    for n in reversed(names[:-1]):  # The comparison is lexicographic in the order of the loops.
        here, there = IndexValue(span, n), twin[n]
        tie = Operation(span, "and", (Operation(span, "==", (here, there)), later))
        later = Operation(span, "or", (Operation(span, "<", (here, there)), tie))
    condition = later
    if clauses.condition is not None:
        both = Operation(span, "and", (clauses.condition, substitute(clauses.condition, twin)))
        condition = Operation(span, "and", (both, later))
    return Operation(body.span, "==", (body, substitute(body, twin))), Clauses(span, (*clauses.loops, *loops), condition)
