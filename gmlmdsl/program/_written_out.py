"""Limit the size of expressions and mixtures after all names in them are expanded.

The limits are checked before any later stage processes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._diagnostics import Span
from ._mask_bodies import MaskBody
from ._program import Let
from ._scope import Scope
from ._terms import Expression, LetValue, VariableValue, children

MOST_PARTS = 10_000
MOST_LEVELS = 300  # the maximum for recursive functions, which take several calls for each level
MOST_MIXED, MOST_MIXTURES = 1000, 16


def verify_written_out(e: Expression, what: str, scope: Scope) -> tuple[int, int] | None:
    """Return the number of parts of `e` and their depth, after its `let`s are expanded.

    If either is too large, it is reported (E412, E117) and the result is None.
    """
    parts, levels = _extent(e, scope)
    if parts > MOST_PARTS:
        message = f"{what} has {_figure(parts)} parts once its `let`s are written out, more than {MOST_PARTS:,}"
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


def verify_mixture(parts: Sequence[MaskBody], span: Span, scope: Scope) -> tuple[int, int] | None:
    """Return the number of masks of a mixture and the number of its levels.

    If either is too large, it is reported (E412, E117) and the result is None.
    """
    extents = [p.nesting for p in parts]
    masks, levels = sum(n for n, _ in extents), 1 + max((k for _, k in extents), default=0)
    if masks > MOST_MIXED:
        message = f"this mixture has {_figure(masks)} masks once those it names are written out, more than {MOST_MIXED:,}"
        scope.report("E412", message, span, "too large", help="give each mask once, with the sum of its weights")
    elif levels > MOST_MIXTURES:
        scope.report("E117", f"mixtures of masks are nested deeper than {MOST_MIXTURES}", span, "nested too deep")
    else:
        return masks, levels
    return None


def _figure(n: int) -> str:
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
