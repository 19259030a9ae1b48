"""Define calls of forms with their arguments, and blocks of cells as a program writes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._form import Form
from ._terms import Checked, Clauses, Expression, ParameterValue, walk


@dataclass(frozen=True, slots=True)
class FormCall(Checked):
    """A form with its checked arguments by option name.

    Options that are left out are absent. `_options.py` fills them in.
    """

    form: Form
    arguments: dict[str, object] = field(hash=False)

    @property
    def mentions_parameter(self) -> bool:
        """Whether an argument depends on a parameter, as arguments of a prior may."""
        of = [e for e in self.arguments.values() if isinstance(e, Checked)]
        return any(isinstance(part, ParameterValue) for e in of for part in walk(e))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Cells(Checked):
    """Cells of one variable, as a block names them.

    If `indices` is None, these are all cells of the variable. Otherwise it is one cell, or a row of
    cells if an index runs over rows or columns. With `clauses`, it is the cells of all iterations
    of the clauses.
    """

    variable: str
    indices: tuple[Expression, ...] | None
    clauses: Clauses | None = None


@dataclass(frozen=True, slots=True)
class BlockTerm(Checked):
    """A term of a list of blocks: one block for each iteration of the clauses."""

    cells: tuple[Cells, ...]
    clauses: Clauses
