"""`percolation(G.edges)`: clusters of cells that bonds join, as Swendsen and Wang (1987) and Wolff (1989) draw them."""

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
    """The cluster of a uniform cell under bonds on `edges`, distinct pairs i < j of shape (edges, 2); `cells` are theirs, ascending.

    A kernel of its own draws it. Its conditional takes images of the cluster alone, so no block is
    listed, and none is asked for.
    """

    edges: Array
    cells: Array
    n_cells: int = field(compare=False)
    span: Span = field(compare=False, repr=False)
    has_random_size = True

    @property
    def support_size(self) -> float:
        return math.inf  # connected sets of cells: not counted

    @property
    def reach(self) -> Array:
        return self.cells

    @property
    def looked_at(self) -> Array:
        return self.cells

    @property
    def is_adaptive(self) -> bool:
        return True  # bonds grow by p(x), and so by parameters too

    @property
    def varies(self) -> bool:
        return True

    @property
    def mentions_parameter(self) -> bool:
        return True

    def enumerate_blocks(self) -> tuple[Array, Array | None]:
        raise AssertionError("clusters are not listed")  # callers ask for `support_size` first

    def can_draw(self, block: Array) -> bool:
        return False


def lower_percolation(lowered: Lowered, body: ir.FormMask) -> PercolationMask:
    """The edges, each once, and their cells, which all have the same values.

    Raises:
        GmlmError: E410 where there is no edge, E418 where two variables of different values would
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
