"""`percolation(G.edges)`: clusters of cells joined by bonds.

They are the clusters of Swendsen and Wang (1987) and Wolff (1989).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import Span, each, fail
from ..graph import Lowered
from ..program import ir
from ._block_terms import term_blocks
from ._mask import AbstractMask, Array


@dataclass(frozen=True)
class PercolationMask(AbstractMask):
    """Mask of the cluster of a uniform cell under bonds on `edges`.

    `edges` has distinct pairs i < j, shape (edges, 2), and `cells` has their cells, ascending. A
    kernel of its own draws the cluster. The conditional of the cluster covers only its images, so
    blocks are neither enumerated nor needed.
    """

    edges: Array
    cells: Array
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True

    @property
    def support_size(self) -> float:
        return math.inf  # the number of connected sets of cells is not computed

    @property
    def reach(self) -> Array:
        return self.cells

    @property
    def looked_at(self) -> Array:
        return self.cells

    @property
    def is_adaptive(self) -> bool:
        return True  # bonds depend on p(x), and thus on parameters too

    @property
    def varies(self) -> bool:
        return True

    @property
    def mentions_parameter(self) -> bool:
        return True

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        raise AssertionError("clusters are not listed")  # callers check `support_size` first

    def can_draw(self, block: Array) -> bool:
        return False


def lower_percolation(lowered: Lowered, body: ir.FormMask) -> PercolationMask:
    """Return the mask of `percolation(..)`, with each edge once.

    All cells of the edges must have the same values.

    Raises:
        GmlmError: E410 if there is no edge, E418 if two variables of different values would
            exchange them.
    """
    found = [blocks for blocks, turns in each(lambda term: term_blocks(lowered, term), body.edges) if turns.n]
    if not found:
        raise fail("E410", "this mask has no edge", body.span, "an empty support", help="check the conditions of its loops")
    edges = np.unique(np.concatenate(found), axis=0)
    graph, cells = lowered.graph, np.unique(edges)
    labels = {(v.kind, v.labels): v.name for v in graph.variables if ((v.offset <= cells) & (cells < v.offset + v.size)).any()}
    if len(labels) > 1:
        names = " and ".join(f"`{name}`" for name in labels.values())
        help = "write one `percolation(..)` for each variable, in updates of their own"
        raise fail("E418", f"the cells of {names} have different values: no exchange moves them together", body.span, help=help)
    return PercolationMask(edges, cells, graph.n_cells, body.span)
