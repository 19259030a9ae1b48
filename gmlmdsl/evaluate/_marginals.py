"""Marginals that know the names of their cells and the labels of their values, and print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import in_paragraphs, unknown
from ..graph import VariableArray
from .limits import MOST_COLUMNS, MOST_PRINTED_ROWS

if TYPE_CHECKING:
    from .._printed_table import PrintedTable

Array = np.ndarray


class Marginals(dict[Any, Array]):
    """Marginals: a dict of arrays by variable, or by group of cells.

    An array has the shape (rows.., *axes, values) for a variable, and (rows.., values of the first
    cell, .., values of the last cell) for a group. The printed form has names of cells and labels
    of values.

    Attributes:
        variables: the variables of the model.
    """

    def __init__(self, tables: Mapping[Any, Array], variables: Iterable[VariableArray]):
        super().__init__(tables)
        self.variables = tuple(variables)

    @property
    def summary(self) -> str:
        """How the marginals were computed, in one line; empty for exact ones."""
        return ""

    @property
    def labels(self) -> dict[str, list[str]]:
        """The values of each variable as texts, in the order of the last axis of its array."""
        return {v.name: _texts(v) for v in self.variables}

    def table(self, name: Any) -> PrintedTable:
        """Return the marginals of a variable or of a group as a data frame.

        Args:
            name: a key of the dict.

        Returns:
            For a variable, a row for each cell and a column for each value; for a group, a row for
            each joint value of the cells before the last one, and a column for each value of the
            last one. Rows of x or of given data are the first level of the index.

        Raises:
            GmlmError: E506 for anything that is no key.
        """
        if name not in list(self):
            text = f"there are no marginals of `{name}`"
            raise unknown(text, str(name), [str(key) for key in self])
        return self._table(name)

    def _table(self, name: Any, most: int | None = None) -> PrintedTable:
        """Return the first rows of a table, or all of them."""
        import pandas as pd

        from .._printed_table import PrintedTable

        values = np.asarray(self[name])
        flat = values.reshape(-1, values.shape[-1])[:most]
        names, inner, shape, last, columns = self._axes(name, values.shape, most)
        head, lead = pd.Index(columns, name=last), len(shape) - len(inner)
        if not shape:
            return PrintedTable(flat, columns=head)
        at = np.unravel_index(np.arange(len(flat)), shape)
        named = (np.array(t, object)[a] for t, a in zip(inner, at[lead:], strict=True))
        rows = [f"row_{k}" for k in range(lead)] if lead > 1 else ["row"] * lead
        index = pd.MultiIndex.from_arrays([*at[:lead], *named], names=[*rows, *names])
        return PrintedTable(flat, index.get_level_values(0) if len(shape) == 1 else index, head)

    def _axes(
        self, name: Any, shape: tuple[int, ...], most: int | None
    ) -> tuple[list[str], list[list[str]], tuple[int, ...], str | None, list[str]]:
        """Return the axes of a table: names and labels of its index, and of its columns.

        Args:
            name: the entry.
            shape: the shape of its array.
            most: the most cells that are named; None for all.

        Returns:
            The names of the levels behind rows of data, their labels, the shape of the index with
            the rows of data before it, the name of the columns, and their labels.
        """
        by_name = {v.name: v for v in self.variables}
        if name in by_name:
            v = by_name[name]
            cells = [v.cell_name(k) for k in range(v.size)[:most]]
            lead = shape[: len(shape) - 1 - len(v.shape)]
            return ["cell"], [cells], (*lead, v.size), None, _texts(v)
        group = [cell if isinstance(cell, tuple) else (cell,) for cell in name]
        *names, last = map(_written, group)
        *inner, columns = (_texts(by_name[cell[0]]) for cell in group)
        return names, inner, shape[:-1], last, columns

    def _printed(self) -> tuple[list[PrintedTable], list[str]]:
        """Return tables, of variables with the same values together, and what they leave out."""
        import pandas as pd

        from .._printed_table import PrintedTable

        found: dict[tuple[object, ...], list[PrintedTable]] = {}
        left: list[str] = []
        for name, values in self.items():
            if values.shape[-1] > MOST_COLUMNS:
                left.append(f"`{name}`: an array of shape {values.shape}")
                continue
            table = self._table(name, MOST_PRINTED_ROWS)
            found.setdefault((*table.columns, table.columns.name, *table.index.names), []).append(table)
            rows = values.size // values.shape[-1]
            if rows > len(table):
                left.append(f"{len(table)} of {rows:,} rows of `{name}`; `.table({name!r})` has all")
        return [PrintedTable(pd.concat(tables)) for tables in found.values()], left

    def __repr__(self) -> str:
        tables, left = self._printed()
        return "\n".join([self.summary] * bool(self.summary) + [*map(repr, tables), *left])

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        tables, left = self._printed()
        shown = [table._repr_html_() or "" for table in tables]
        return "".join([*shown, in_paragraphs("\n".join(filter(None, [self.summary, *left])))])


def _texts(v: VariableArray) -> list[str]:
    return [str(x) for x in v.labels]


def _written(cell: tuple[Any, ...]) -> str:
    """Return a cell of a group as a user writes it: `x[3]`."""
    name, *place = cell
    return f"{name}[{', '.join(map(str, place))}]" if place else str(name)


def _flat(found: Marginals) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(found.values()), (tuple(found), found.variables)


def _of_flat(kept: tuple[Any, ...], values: Iterable[Any]) -> Marginals:
    return Marginals(dict(zip(kept[0], values, strict=True)), kept[1])


# JAX takes a plain dict apart, but no class of one.
jax.tree_util.register_pytree_node(Marginals, _flat, _of_flat)
