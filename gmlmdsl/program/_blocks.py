"""Forms with their arguments, and blocks of cells as a program writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._form import Form
from ._terms import Checked, Clauses, Expression, ParameterValue, walk


@dataclass(frozen=True, slots=True)
class FormCall(Checked):
    """A form with its checked arguments by option name; options left out are absent (`_options.py` fills them in)."""

    form: Form
    arguments: dict[str, object] = field(hash=False)

    @property
    def mentions_parameter(self) -> bool:
        """Whether an argument is made of a parameter, as those of a prior may be."""
        of = [e for e in self.arguments.values() if isinstance(e, Checked)]
        return any(isinstance(part, ParameterValue) for e in of for part in walk(e))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Cells(Checked):
    """Cells of one variable: all (`indices` None), one, or a row of them where an index runs over rows or columns.

    With `clauses` those of every turn.
    """

    variable: str
    indices: tuple[Expression, ...] | None
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class BlockTerm(Checked):
    """One block per turn of the clauses."""

    cells: tuple[Cells, ...]
    clauses: Clauses
