"""Check tables that are written as lists of numbers or values, nested to any depth."""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

from ..syntax import tree
from ._expressions import INDEXED, check_number, known_number, written_number
from ._program import InputAxis
from ._scope import Scope
from ._terms import Domain, Expression, SetOf, Table
from .limits import NOT_NORMALISED

Entry = Callable[[tree.Expression], Expression | None]
ANY = -1  # This length stands for an axis with a fault, whose lists may have any lengths.


def check_table(e: tree.List, axes: tuple[InputAxis | None, ...], entry: Entry, name: str, scope: Scope) -> Expression | None:
    """Return the checked default of an input with axes, or None after a fault.

    There is one level of lists for each axis, and all lists of one axis have equal length.

    Args:
        e: the list.
        axes: the axes of the input. An axis is None if it was reported.
        entry: checks one entry.
        name: the name of the input.
        scope: collects E328 for too few or too many lists, or lists of different lengths.
    """
    if not axes:
        help = f"give it an axis: `input {name}[{len(e.items)}]`, or write one number"
        scope.report("E328", f"`{name}` has no axes: its value is not a list", e.span, "a list", help=help)
        return None
    lengths: list[int | None] = [ANY if a is None else _known_length(a) for a in axes]
    return _level(e, lengths, 0, entry, name, scope)


def _level(e: tree.Expression, lengths: list[int | None], depth: int, entry: Entry, name: str, scope: Scope) -> Expression | None:
    """Check the part of a table at some depth.

    If the length of an axis is unknown, its first list determines it.
    """
    if depth == len(lengths):
        if not isinstance(e, tree.List):
            return entry(e)
        scope.report("E328", f"`{name}` has {_axes(len(lengths))}, and lists stand here one deeper", e.span, "one list too many")
        return None
    if not isinstance(e, tree.List):
        message = f"`{name}` has {_axes(len(lengths))}: a list of entries stands here"
        scope.report("E328", message, e.span, "not a list", help="a table has one level of `[..]` for each axis")
        return None
    wanted = lengths[depth]
    if wanted not in (None, ANY, len(e.items)):
        message = f"axis {depth} of `{name}` has length {wanted}, this list has {len(e.items)}"
        scope.report("E328", message, e.span, f"{len(e.items)} entries")
        return None
    lengths[depth] = wanted if wanted == ANY else len(e.items)
    items: list[Expression] = []
    for item in e.items:
        checked = _level(item, lengths, depth + 1, entry, name, scope)
        if checked is None:  # The lists after it are likely to have the same fault.
            return None
        items.append(checked)
    return Table(e.span, tuple(items))


def check_row(e: tree.List, cell: Domain, scope: Scope) -> Table:
    """Return the checked probabilities of one cell, in the order of its values.

    Each probability is a number made of index names and inputs.
    """
    row = Table(e.span, tuple(check_number(item, scope, INDEXED) for item in e.items))
    count = cell.count
    if count is not None and len(row.items) != count:
        message = f"the variable has {count} values, this list {len(row.items)} entries"
        help = f"write {count} numbers, one for each value, in their order"
        scope.report("E310", message, e.span, "one entry for each value", help=help, related=((cell.span, "its values"),))
    else:
        check_rows_sum(row, scope)
    return row


def check_rows_sum(e: Expression, scope: Scope) -> None:
    """Report E310 for a row of literal numbers that are not probabilities."""
    if not isinstance(e, Table):
        return
    if any(isinstance(item, Table) for item in e.items):
        for item in e.items:
            check_rows_sum(item, scope)
        return
    numbers = [written_number(item) for item in e.items]
    known = [n for n in numbers if n is not None]
    below = next((i for i, n in zip(e.items, numbers, strict=True) if n is not None and n < 0), None)
    if below is not None:
        scope.report("E310", "a probability is at least 0", below.span, "below 0")
    elif known and len(known) == len(numbers) and abs(fsum(known) - 1) > NOT_NORMALISED:
        scope.report(
            "E310", f"these probabilities sum to {fsum(known):g}, not 1", e.span, "do not sum to 1", help="divide each by their sum"
        )


def _axes(n: int) -> str:
    return f"{n} ax{'i' if n == 1 else 'e'}s"


def _known_length(axis: InputAxis) -> int | None:
    """Return the length of an axis, or None if the text alone does not determine it."""
    if axis.over is not None:
        return known_length(axis.over)
    number = known_number(axis.size)
    return number if isinstance(number, int) else None


def known_length(over: SetOf) -> int | None:
    """Return the number of members of a set, or None if the text alone does not determine it."""
    if over.kind not in ("range", "domain"):
        return None
    if over.domain is not None:
        return over.domain.count
    number, first = known_number(over.size), 0 if over.start is None else known_number(over.start)
    number = None if first is None or number is None else number - first
    return number if isinstance(number, int) else None
