"""Forms with their arguments, and blocks of cells as a program writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._form import Form
from ._terms import Checked, Clauses, Expression


@dataclass(frozen=True, slots=True)
class FormCall(Checked):
    """A form with its checked arguments by option name; options left out are absent (`_options.py` fills them in)."""

    form: Form
    arguments: dict[str, object] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Cells(Checked):
    """Cells of one variable: all (`indices` None), one, or a row of them where an index runs over rows or columns."""

    variable: str
    indices: tuple[Expression, ...] | None


@dataclass(frozen=True, slots=True)
class BlockTerm(Checked):
    """One block per turn of the clauses."""

    cells: tuple[Cells, ...]
    clauses: Clauses
