"""A table of pairs of cells, as a network for other tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._optional import need
from .._printed_table import PrintedTable
from ..exchange import write_graphml

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

ENDS = ("first", "second")


class PairTable(PrintedTable):
    """A DataFrame with a row for each pair of cells.

    Its columns `first`, `second`, `value` and `score` are the ends, the coupling and the strength
    of an edge. A part of it is such a table too: `table[table["score"] > 0.2].to_graphml(path)`.
    """

    @property
    def _constructor(self) -> type[PairTable]:
        return PairTable

    def to_networkx(self) -> nx.Graph:
        """Return the network as a `networkx.Graph`.

        Its nodes are the names of all cells of the model, those without an edge too. An edge has
        the following attributes:

        - `weight`: the column `score`, |value| if values have signs
        - `value`: the coupling
        - `sign`: 1, -1 or 0, if values have signs (`score="value"`)
        - `std_error`, `low` and `high`: the error, and the ends of the interval

        Numbers that are not finite are left out.

        Raises:
            GmlmError: E561 if networkx is not installed, E507 for a table without its columns.
        """
        help = "or write a file without it: `.to_graphml(path)`"
        nx = need("networkx", "a graph of networkx needs networkx", '"gmlmdsl[network]"', help)
        nodes, edges = self._network()
        graph = nx.Graph()
        graph.add_nodes_from(nodes)
        graph.add_edges_from(edges)
        return graph

    def to_graphml(self, path: str | os.PathLike[str]) -> None:
        """Write the network as a GraphML file, for Gephi, Cytoscape, igraph, yEd and networkx.

        Nodes have the attributes `name` and `label`; edges have those of `to_networkx`.

        Args:
            path: the file, which is written completely or not at all.

        Raises:
            GmlmError: E560 for a file that cannot be written, E507 for a table without its columns.
        """
        write_graphml(path, *self._network())

    def to_matrix(self) -> pd.DataFrame:
        """Return the symmetric matrix of the column `value`, with its signs, as a DataFrame.

        Rows and columns are the names of all cells of the model, or of those in the table if it
        knows no others. Entries are 0 on the diagonal and for pairs that the table lacks.

        Raises:
            GmlmError: E507 for a table without its columns.
        """
        import pandas as pd

        nodes, edges = self._network()
        place = {name: k for k, name in enumerate(nodes)}
        matrix, value = np.zeros((len(nodes), len(nodes))), self["value"].to_numpy(float)
        for (a, b, _), v in zip(edges, value, strict=True):
            matrix[place[a], place[b]] = matrix[place[b], place[a]] = v
        return pd.DataFrame(matrix, index=nodes, columns=nodes)

    def _network(self) -> tuple[list[str], list[tuple[str, str, dict[str, Any]]]]:
        """Return the names of the nodes, and the ends and attributes of each edge."""
        lacking = [c for c in (*ENDS, "value", "score") if c not in self.columns]
        if lacking:
            message = f"the table of pairs has no column `{lacking[0]}`"
            raise fail("E507", message, help="select rows of `fit.couplings()`, and keep its columns")
        columns: dict[str, object] = {"weight": self["score"], "value": self["value"]}
        if self.attrs.get("score") == "value":
            columns["sign"] = np.sign(self["value"])
        if "std_error" in self.columns:
            columns["std_error"] = self["std_error"]
        interval = [c for c in self.columns if str(c).endswith("%")]  # `3%` and `97%`
        if len(interval) == 2:
            columns |= {"low": self[interval[0]], "high": self[interval[1]]}
        numbers = {name: np.asarray(column, float).tolist() for name, column in columns.items()}
        ends = list(zip(self["first"], self["second"], strict=True))
        attributes = [{name: column[k] for name, column in numbers.items() if np.isfinite(column[k])} for k in range(len(self))]
        for found in attributes:
            found |= {"sign": int(found["sign"])} if "sign" in found else {}
        nodes = [*dict.fromkeys([*self.attrs.get("cells", ()), *(name for pair in ends for name in pair)])]
        return nodes, [(a, b, found) for (a, b), found in zip(ends, attributes, strict=True)]
