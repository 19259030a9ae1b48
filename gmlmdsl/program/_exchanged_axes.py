"""Warn of a table over two sites and their values that is read transposed: `J[i, j, x[j], x[i]]`.

In such an expression, the order of the values is opposite to the order of the sites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from .._diagnostics import Diagnostic, Fix, Span
from ._program import Program
from ._terms import Expression, InputValue, ParameterValue, VariableValue, walk


def lint_exchanged_axes(program: Program) -> Iterator[Diagnostic]:
    """Yield W830 for each table that is read transposed.

    Its first value axis has the value of the second site.
    """
    for model in program.models.values():
        terms = [f.value for f in model.factors] + [r.condition for r in model.requires] + [d.probabilities for d in model.distributed]
        terms += [let.value for let in model.lets.values()]
        read = dict.fromkeys(part for e in terms for part in walk(e) if isinstance(part, ParameterValue | InputValue))
        for part in read:
            found = _exchanged(part.indices)
            if found is not None:
                yield _warning(part, *found)


def _exchanged(indices: Sequence[Expression]) -> tuple[VariableValue, VariableValue] | None:
    """Return two consecutive indices `x[j], x[i]` if `i, j` are consecutive indices too.

    Otherwise the result is None.
    """
    sites = set(pairwise(indices))
    for first, second in pairwise(indices):
        if not isinstance(first, VariableValue) or not isinstance(second, VariableValue) or first.name != second.name:
            continue
        if len(first.indices) == len(second.indices) == 1 and first != second and (*second.indices, *first.indices) in sites:
            return first, second
    return None


def _warning(part: ParameterValue | InputValue, first: VariableValue, second: VariableValue) -> Diagnostic:
    source = first.span.source
    place = Span(source, first.span.start, second.span.end)
    between = source.text[first.span.end : second.span.start]
    text = f"{second.span.text}{between}{first.span.text}"
    message = f"`{part.name}` is read transposed: its sites are in one order and their values in the other"
    help = f"write `{text}`; or exchange the sites too, if the table was declared that way"
    return Diagnostic("W830", message, place, "values exchanged", (), help, Fix(place, text, guess=True))
