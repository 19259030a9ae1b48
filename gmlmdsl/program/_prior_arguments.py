"""Report arguments of priors that are written as in other languages."""

from __future__ import annotations

from .._diagnostics import Fix
from ..syntax import tree
from ._form import Form
from ._scope import Scope


def is_prior_of_elsewhere(call: tree.Call, form: Form, scope: Scope) -> bool:
    """Report `dirichlet(1, 1, 1)` and `half_normal(0, 1)`.

    The first lacks the brackets of a list. The second contains a location. The result is True if
    the call is one of them.
    """
    if any(a.keyword is not None or a.clauses is not None for a in call.arguments) or len(call.arguments) < 2:
        return False
    texts = [a.value.span.text for a in call.arguments]
    place = call.arguments[0].span.to(call.arguments[-1].span)
    if form.name == "dirichlet":
        text = f"[{place.text}]"
        help = f"a concentration for each entry is a list: `dirichlet({text})`"
        message = "`dirichlet` takes one number, or one list"
    elif form.name in ("half_normal", "half_cauchy") and len(texts) == 2 and texts[0] in ("0", "0.0"):
        text = texts[1]
        help = f"it begins at 0 always: write `{form.name}({text})`"
        message = f"`{form.name}` takes its scale alone"
    else:
        return False
    scope.report("E302", message, place, f"`{form.signature}`", help=help, fix=Fix(place, text, guess=True))
    return True
