"""Orders the blocks of a sweep into colours: blocks of one colour share no factor and are redrawn at once."""

from __future__ import annotations

import numpy as np

from ._factor_graph import FactorGraph

Array = np.ndarray


def colour(graph: FactorGraph, blocks: Array) -> Array:
    """Greedy colours.

    Args:
        graph: the factor graph.
        blocks: integers of shape (blocks, cells), positions ascending, padded with the number of cells.

    Returns:
        One colour per block: in position order (of the first cell, then the next) each block takes the least colour that
        no earlier block has with which it shares a factor or a cell.
    """
    n = graph.n_cells
    starts, neighbours = graph.neighbours
    order = np.lexsort(blocks.T[::-1])
    holders: list[list[int]] = [[] for _ in range(n)]  # blocks, coloured so far, that hold each cell
    colours = np.full(len(blocks), -1, np.int64)
    for b in order.tolist():
        taken = set()
        for cell in blocks[b].tolist():
            if cell == n:
                break
            for other in holders[cell]:
                taken.add(colours[other])
            for near in neighbours[starts[cell] : starts[cell + 1]].tolist():
                for other in holders[near]:
                    taken.add(colours[other])
        c = 0
        while c in taken:
            c += 1
        colours[b] = c
        for cell in blocks[b].tolist():
            if cell < n:
                holders[cell].append(b)
    return colours


def has_inner_factor(graph: FactorGraph, cells: Array) -> bool:
    """Whether two of the cells share a factor; `cells` may be padded."""
    inside = np.zeros(graph.n_cells + 1, bool)
    inside[cells] = True
    inside[graph.n_cells] = False
    starts, neighbours = graph.neighbours
    return any(inside[neighbours[starts[c] : starts[c + 1]]].any() for c in np.flatnonzero(inside))
