"""Colours of a sweep's blocks: blocks of one colour share no factor and are redrawn at once."""

from __future__ import annotations

import numpy as np

from ._factor_graph import FactorGraph
from ._scopes import distinct
from .limits import CELLS_PER_WAVE, FEW_WAVES

Array = np.ndarray


def colour(graph: FactorGraph, blocks: Array) -> Array:
    """Colour blocks greedily, so that blocks of one colour share no factor and no cell.

    Blocks are visited in the order of their positions (of the first cell, then of the next). Each
    block takes the lowest colour of no earlier block with which it shares a factor or a cell.

    Args:
        graph: the factor graph.
        blocks: integers of shape (blocks, cells), positions ascending, padded with the number of
            cells.

    Returns:
        One colour per block.
    """
    if blocks.shape[1] == 1 and len(distinct(blocks)) == len(blocks):
        found = _in_waves(graph, blocks[:, 0])
        if found is not None:
            return found
    return _in_turn(graph, blocks)


def _in_waves(graph: FactorGraph, cells: Array) -> Array | None:
    """Colour single cells in waves: a wave is all cells whose earlier neighbours are coloured.

    Return None if the waves are too small or the colours too many.
    """
    n, (starts, neighbours) = graph.n_cells, graph.neighbours
    swept = np.zeros(n, bool)
    swept[cells] = True
    row = np.repeat(np.arange(n), np.diff(starts))
    after = (neighbours > row) & swept[row] & swept[neighbours]
    later, first = neighbours[after], np.append(0, np.cumsum(np.bincount(row[after], minlength=n)))
    waits, taken, colours = np.bincount(later, minlength=n), np.zeros(n, np.uint64), np.full(n, -1, np.int64)
    wave, waves, done = np.flatnonzero(swept & (waits == 0)), 0, 0
    while len(wave):
        waves, done = waves + 1, done + len(wave)
        # This is the lowest free colour, as a bit.
        least = ~taken[wave] & (taken[wave] + np.uint64(1))
        if not least.all() or waves > FEW_WAVES + done / CELLS_PER_WAVE:
            return None
        colours[wave] = np.bitwise_count(least - np.uint64(1))
        lengths = first[wave + 1] - first[wave]
        at = np.arange(lengths.sum()) + np.repeat(first[wave] - np.cumsum(lengths) + lengths, lengths)
        np.bitwise_or.at(taken, later[at], np.repeat(least, lengths))
        np.subtract.at(waits, later[at], 1)
        wave = distinct(later[at][waits[later[at]] == 0])
    return colours[cells]


def _in_turn(graph: FactorGraph, blocks: Array) -> Array:
    n = graph.n_cells
    starts, neighbours = graph.neighbours
    order = np.lexsort(blocks.T[::-1])
    # `holders` lists the blocks, among those coloured so far, that contain each cell.
    holders: list[list[int]] = [[] for _ in range(n)]
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
    """Return whether two of the cells share a factor; `cells` may be padded."""
    inside = np.zeros(graph.n_cells + 1, bool)
    inside[cells] = True
    inside[graph.n_cells] = False
    starts, neighbours = graph.neighbours
    return any(inside[neighbours[starts[c] : starts[c + 1]]].any() for c in np.flatnonzero(inside))
