"""Names of columns, and the cells that they name: `x[A1]`, `x_A1`, `A1`, the levels (x, A1)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np

from .._diagnostics import fail, listed, unknown
from .._types import Frame
from ..graph import FactorGraph, VariableArray
from ..read import as_frame, is_frame, is_numbered, text_of

Array = np.ndarray
SEVERAL = -1  # It replaces a cell if two cells share a name, such as `A1` of two variables.


class CellNames:
    """The names of the cells of some variables, numbered variable by variable.

    Attributes:
        cells: the full name of each cell, `x[A1]`.
        named: whether the cells have names other than numbers from 0, such as labels of the
            program. A scalar is named by its variable.
    """

    def __init__(self, variables: Sequence[VariableArray]) -> None:
        self.cells: list[str] = []
        self.named = False
        self._full: dict[str, int] = {}
        self._short: dict[str, int] = {}
        for v in variables:
            self.named = self.named or _has_names(v)
            for labels in itertools.product(*([str(c) for c in axis] for axis in v.coords)):
                self._add(v.name, ", ".join(labels))
        self._loose: dict[str, int] = {}
        for name, cell in itertools.chain(self._full.items(), self._short.items()):
            loose = squeezed(name)
            self._loose[loose] = cell if self._loose.get(loose, cell) == cell else SEVERAL
        self._loose_full = {squeezed(name) for name in self._full}

    def _add(self, variable: str, inside: str) -> None:
        cell, full = len(self.cells), f"{variable}[{inside}]" if inside else variable
        self.cells.append(full)
        self._full[full] = cell
        if inside:
            # This is the name of a column with several levels.
            self._full[f"{variable}, {inside}"] = cell
            self._short[inside] = SEVERAL if inside in self._short else cell

    def full(self, name: str) -> bool:
        """Return whether a column has the name of a cell including its variable."""
        return squeezed(name) in self._loose_full

    def find(self, name: str) -> int | None:
        """Return the cell of a column.

        `SEVERAL` if two cells have its name, None if no cell has it.
        """
        return self._full.get(name, self._short.get(name, self._loose.get(squeezed(name))))

    def nearest(self) -> list[str]:
        """Return the names among which a similar one is searched."""
        return [*self.cells, *(n for n, cell in self._short.items() if cell != SEVERAL)]


def _has_names(v: VariableArray) -> bool:
    return not v.shape or any(not is_numbered([str(c) for c in axis]) for axis in v.coords)


def squeezed(name: str) -> str:
    """Return a normalised name: `x[1, 2]`, `x[1,2]`, `x_1_2` and `x.1.2` name one cell."""
    return re.sub(r"[\W_]+", "_", name).strip("_")


def column_labels(graph: FactorGraph, x: object) -> tuple[str, ...]:
    """Return the columns of a frame as the labels of the cells of the only variable.

    The result is empty unless the columns have names, the cells have none, and the columns stand
    for the cells in their order.
    """
    v = graph.observed[0] if len(graph.observed) == 1 else None
    if v is None or len(v.shape) != 1 or not is_frame(x):
        return ()
    columns, names = [text_of(c) for c in as_frame(x).columns], CellNames(graph.variables)
    is_label = len(columns) == len(set(columns)) == v.size and not is_numbered(columns)
    return tuple(columns) if is_label and _in_order(names, [names.find(c) for c in columns], columns, v) else ()


def of_frame(graph: FactorGraph, frame: Frame, what: str, needed: Sequence[VariableArray]) -> dict[str, Array]:
    """Return a frame with a column for each cell as arrays by variable, shape (rows, *axes).

    The frame may omit variables that are not `needed`, if the model has several observed ones.

    Raises:
        GmlmError: E503 for a column that names no cell, for a cell without a column, and for
            columns without names if there are several variables; E501 for a wrong number of
            columns.
    """
    needed = graph.observed if len(graph.observed) == 1 else needed
    return frame_arrays(graph.variables, needed, frame, what, [v.name for v in graph.given])


def frame_arrays(
    variables: Sequence[VariableArray], needed: Iterable[VariableArray], frame: Frame, what: str, elsewhere: Sequence[str] = ()
) -> dict[str, Array]:
    """Return a frame with a column for each cell of some variables as arrays, shape (rows, *axes).

    Args:
        variables: the variables that the frame may contain.
        needed: those that it must contain.
        frame: a pandas frame.
        what: how messages call it.
        elsewhere: variables that are passed by another argument.

    Raises:
        GmlmError: E503 or E501, as for `of_frame`.
    """
    frame, needed = as_frame(frame), list(needed)
    columns = [text_of(c) for c in frame.columns]
    names = CellNames(variables)
    found = [names.find(c) for c in columns]
    if len(needed) == 1 and _in_order(names, found, columns, needed[0]):
        v = needed[0]
        if len(columns) != v.size:
            message = f"{what} has {len(columns)} columns, `{v.name}` has {v.size} cells"
            help = f"a column for each cell: {listed(names.cells, 4)}"
            if len(columns) > v.size:
                help = f"drop the columns that are not cells: `frame.drop(columns=[..])`; the columns are {listed(columns)}"
            raise fail("E501", message, help=help)
        _verify_distinct(columns, what)
        return {v.name: np.asarray(frame).reshape(-1, *v.shape)}
    held = _held(variables, needed, found)
    _verify(names, found, columns, held, what, elsewhere)
    place = {cell: k for k, cell in enumerate(found)}
    return {v.name: np.asarray(frame.iloc[:, [place[c] for c in cells]]).reshape(-1, *v.shape) for v, cells in held}


def _verify_distinct(columns: Sequence[str], what: str) -> None:
    """Raise E503 if a column name occurs twice."""
    if twice := [c for c in columns if columns.count(c) > 1]:
        help = "name each column once; without names, pass `.to_numpy()`, which is read in the order of the cells"
        raise fail("E503", f"{what} has two columns `{twice[0]}`", help=help)


def _in_order(names: CellNames, found: list[int | None], columns: list[str], v: VariableArray) -> bool:
    """Return whether columns stand for the cells of the only variable in their order.

    This is so if the columns, or the cells, have no names. Names of hidden variables do not count.
    """
    if len(columns) == v.size and sorted(-1 if f is None else f for f in found) == list(range(v.size)):
        return False
    if is_numbered(columns):
        return True
    return not _has_names(v) and not any(map(names.full, columns))


def _held(
    variables: Sequence[VariableArray], needed: Sequence[VariableArray], found: Sequence[int | None]
) -> list[tuple[VariableArray, range]]:
    """Return the variables of a frame with the numbers of their cells.

    They are those that are needed, and those of which the frame has a cell.
    """
    ends = list(itertools.accumulate((v.size for v in variables), initial=0))
    parts = [(v, range(start, start + v.size)) for v, start in zip(variables, ends, strict=False)]
    return [(v, cells) for v, cells in parts if v in needed or any(f in cells for f in found if f is not None)]


def _verify(
    names: CellNames,
    found: Sequence[int | None],
    columns: Sequence[str],
    held: Sequence[tuple[VariableArray, range]],
    what: str,
    elsewhere: Sequence[str],
) -> None:
    """Raise E503 unless the columns name each needed cell exactly once, and no other cell."""
    for column, cell in zip(columns, found, strict=True):
        if cell == SEVERAL:
            raise fail("E503", f"{what}: column `{column}` may be two cells", help="write it whole, as `x[A1]`")
        if cell is None:
            if column in elsewhere:
                raise fail("E503", f"{what}: column `{column}` is given with each row", help=f"pass it in `given={{{column!r}: ..}}`")
            raise unknown(f"{what}: column `{column}` is not a cell of the model", column, names.nearest(), "E503")
    verify_once(names, found, columns, what)
    lacking = [names.cells[c] for _, cells in held for c in cells if c not in set(found)]
    if lacking:
        help = "a column for each cell, by its name; without names, pass `.to_numpy()`, which is read in the order of the cells"
        raise fail("E503", f"{what} has no column for {listed(lacking)}", help=help)


def verify_once(names: CellNames, found: Sequence[int | None], columns: Sequence[str], what: str) -> None:
    """Raise if two columns name one cell.

    Args:
        names: the names of the cells.
        found: the cell of each column.
        columns: the names of the columns.
        what: how messages call the frame.

    Raises:
        GmlmError: E503.
    """
    seen: dict[int, str] = {}
    for column, cell in zip(columns, found, strict=True):
        if cell is None or cell == SEVERAL:
            continue
        if cell in seen:
            raise fail("E503", f"{what}: the columns `{seen[cell]}` and `{column}` are both {names.cells[cell]}", help="leave one out")
        seen[cell] = column
