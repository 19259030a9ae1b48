"""Check the arguments of a distribution of cells, as in `bernoulli(p)` or `binomial(n, logit = e)`.

The arguments are matched to their names, and all other arguments are reported.
"""

from __future__ import annotations

import re

from .._diagnostics import Fix, counted, did_you_mean, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import written_number
from ._program import Input, Parameter
from ._references import check_name
from ._scope import Scope
from ._terms import Choice, Expression, Table, TableEntry

EXAMPLES = {
    "bernoulli": "x ~ bernoulli(0.3)",
    "binomial": "k ~ binomial(10, 0.3)",
    "categorical": "z ~ categorical(logits = h[a] for a in domain)",
    "ordered_logistic": "y ~ ordered_logistic(b * age, cut)",
}
# The names of the arguments in other languages.
ELSEWHERE = {
    **dict.fromkeys(("p", "prob", "probs", "theta", "success_prob"), "probability"),
    **dict.fromkeys(("size", "trials", "total_count", "N", "count"), "n"),
    **dict.fromkeys(("logits", "logit_p", "log_odds", "eta"), "logit"),
    **dict.fromkeys(("eta", "mu", "loc", "predictor"), "location"),
    **dict.fromkeys(("cuts", "c", "thresholds", "cut"), "cutpoints"),
}
LETTERS = "abcvuwkl"


def law_arguments(call: tree.Call, wanted: tuple[str, ...], logit: bool, scope: Scope) -> dict[str, tree.Expression] | None:
    """Return the arguments of a distribution by name, or None after a fault.

    Positional arguments are assigned in their order. The keyword `logit` may replace `probability`.

    Args:
        call: the call of the distribution.
        wanted: the names of the positional arguments.
        logit: whether `logit` is allowed.
        scope: collects the diagnostics.
    """
    name = call.function.name
    known = (*wanted, "logit") if logit else wanted
    found: dict[str, tree.Expression] = {}
    for place, a in enumerate(call.arguments):
        key = wanted[place] if a.keyword is None and place < len(wanted) else a.keyword.name if a.keyword is not None else ""
        if a.clauses is not None:
            inner = REDUCED.search(a.value.span.text)
            help = f"it belongs into the `{inner[1]}`: `{inner[1]}(.. {a.clauses.loops[0].span.text})`" if inner else BEHIND
            scope.report("E302", f"`{name}` takes no `for`", a.clauses.span, "no `for` here", help=help)
        elif not key:
            _report_extra(call, a, len(wanted), scope)
        elif key not in known:
            _report_keyword(call, a, place, wanted, known, scope)
        elif key in found:
            scope.report("E302", f"`{key}` is given twice", a.span, "again here", help="remove one of the two")
        else:
            found[key] = a.value
            continue
        return None
    return found if _is_complete(call, found, wanted, logit, scope) else None


REDUCED = re.compile(r"\b(sum|prod|count|any|all|min|max|logsumexp)\((?![^()]*\bfor\b)")
BEHIND = "a distribution for each of several cells has its `for` behind it: `x[i] ~ bernoulli(p[i]) for i in site`"


def _is_complete(call: tree.Call, found: dict[str, tree.Expression], wanted: tuple[str, ...], logit: bool, scope: Scope) -> bool:
    name = call.function.name
    if "logit" in found and "probability" in found:
        message = f"`{name}` takes a probability or a `logit`, not both"
        scope.report("E302", message, found["logit"].span, "a second one", help="a logit is log(p / (1 - p)): keep one of the two")
        return False
    lacking = [w for w in wanted if w not in found and not (w == "probability" and "logit" in found)]
    if lacking:
        instead = f", or `{name}({', '.join([*wanted[:-1], 'logit = ..'])})`" if logit else ""
        help = f"write `{forms.form('distribution', name).signature}`{instead}; for example `{EXAMPLES[name]}`"  # type: ignore[union-attr]
        scope.report("E302", f"`{name}` lacks {listed(lacking)}", call.span, "argument missing", help=help)
    return not lacking


def _report_extra(call: tree.Call, a: tree.Argument, wanted: int, scope: Scope) -> None:
    name = call.function.name
    message = f"`{name}` takes {counted(wanted, 'argument')}, found {len(call.arguments)}"
    help = f"for example `{EXAMPLES[name]}`"
    if name == "bernoulli":
        help = f"write the probability of 1 alone, {help}: that of 0 is the rest"
    scope.report("E302", message, a.span, "one too many", help=help)


def _report_keyword(call: tree.Call, a: tree.Argument, place: int, wanted: tuple[str, ...], known: tuple[str, ...], scope: Scope) -> None:
    """Report a keyword that is a name from another language, misspelt, or unknown."""
    assert a.keyword is not None
    written, name = a.keyword.name, call.function.name
    meant = ELSEWHERE.get(written) or did_you_mean(written, known) or ""
    help, fix = f"for example `{EXAMPLES[name]}`", None
    if meant in wanted[place : place + 1]:
        plain = a.value.span.text
        help, fix = f"it is given without a name: write `{plain}`", Fix(a.span, plain, guess=True)
    elif meant in known:
        help, fix = f"write `{meant} = {a.value.span.text}`", Fix(a.keyword.span, meant, guess=True)
    scope.report("E302", f"`{name}` has no argument `{written}`", a.keyword.span, "unknown argument", help=help, fix=fix)


def verify_one_array(call: tree.Call, form: forms.Form, scope: Scope) -> bool:
    """Return whether `categorical` has one positional argument. Otherwise report E302."""
    a = call.arguments[0] if call.arguments else None
    if call.only is not None and call.is_plain:
        return True
    help, fix = "probabilities stand in one list or array: `categorical([0.2, 0.8])`, `categorical(p[z])`", None
    place, label = call.span, f"`{form.signature}`"
    if a is not None and a.keyword is not None and a.keyword.name in ("logit", "log_probs", "eta"):
        help, place, label = (
            "logits are one for each value: `categorical(logits = h[a] for a in domain)`",
            a.keyword.span,
            "unknown argument",
        )
        fix = Fix(a.keyword.span, "logits", guess=True)
    elif a is not None and a.keyword is not None and a.keyword.name in ("p", "probs", "prob", "probabilities", "theta", "pi"):
        help, place, label = f"write `categorical({a.value.span.text})`", a.keyword.span, "unknown argument"
        fix = Fix(a.span, a.value.span.text, guess=True)
    elif len(call.arguments) > 1 and all(isinstance(x.value, tree.Number) and x.keyword is None for x in call.arguments):
        place, label = call.arguments[0].span.to(call.arguments[-1].span), "no list"
        fix = Fix(place, f"[{place.text}]", guess=True)
        help = f"probabilities stand in one list: write `categorical([{place.text}])`"
    scope.report("E302", "`categorical` takes one array of probabilities", place, label, help=help, fix=fix)
    return False


def trials_come_first(call: tree.Call, scope: Scope) -> bool:
    """Report `binomial(p, 10)`, in which the number of trials comes last, as in BUGS."""
    values = [a.value for a in call.arguments if a.keyword is None]
    if len(values) != 2 or not isinstance(values[1], tree.Number) or not isinstance(values[1].value, int) or values[1].value < 2:
        return False
    first, last = values
    if isinstance(first, tree.Number) and isinstance(first.value, int):
        return False
    swapped = f"{last.span.text}, {first.span.text}"
    help, fix = f"write `binomial({swapped})`", Fix(first.span.to(last.span), swapped, guess=True)
    scope.report("E302", "`binomial` takes the number of trials first", last.span, "not a probability", help=help, fix=fix)
    return True


def verify_probability(e: Expression, scope: Scope) -> bool:
    """Report literal numbers that are not probabilities, including those in an `if` or a table.

    Return whether there are none.
    """
    parts: tuple[Expression, ...] = ()
    match e:
        case Choice():
            parts = (e.yes, e.no)
        case TableEntry():
            parts = (e.table,)
        case Table():
            parts = e.items
    number = None if parts else written_number(e)
    if number is not None and not 0 <= number <= 1:
        message, help = f"a probability lies between 0 and 1, found {number:g}", "log odds, which may be any number, are `logit = ..`"
        scope.report("E319", message, e.span, "not a probability", help=help)
        return False
    return all([verify_probability(part, scope) for part in parts])


def logits_written(a: tree.Argument, scope: Scope) -> str:
    """Return `h[i, a] for a in aa` for `h[i]`, or for `h[i, a]` with an undeclared `a`.

    The result is "" if the suggestion is not known.
    """
    if not isinstance(a.value, tree.Name | tree.Index):
        return ""
    name = check_name(a.value.base if isinstance(a.value, tree.Index) else a.value)
    symbol = scope.find(name.name)
    if symbol is None or not isinstance(symbol.value, Parameter | Input):
        return ""
    axes = symbol.value.axes
    indices = [*a.value.indices] if isinstance(a.value, tree.Index) else []
    over = axes[-1].over if axes else None
    if over is None or over.arity != 1 or len(axes) - len(indices) not in (0, 1):
        return ""
    if len(indices) < len(axes):
        letter = next((c for c in LETTERS if scope.find(c) is None), "")
    else:
        last = indices.pop()
        letter = last.name if isinstance(last, tree.Name) and scope.find(last.name) is None else ""
    inside = ", ".join([*(i.span.text for i in indices), letter])
    return f"{name.span.text}[{inside}] for {letter} in {over.name}" if letter else ""
