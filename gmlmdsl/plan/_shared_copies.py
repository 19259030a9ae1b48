"""Copies of parameters for blocks that are fitted separately, stored in few arrays.

Blocks share an array if they depend on different entries of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..graph import FactorGraph
from ._block_tables import GraphTables
from ._table_entries import entry_parameters

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class SharedCopies:
    """The places of each block's own copy of a parameter's entry.

    Attributes:
        owner: the block whose copy it is, by array and entry of the flat parameter vector, shape
            (arrays, size). The number of blocks stands for no block.
        places: the given index arrays of entries of tables, as entries of the concatenated tables
            of all arrays.
    """

    owner: Array
    places: tuple[tuple[Array, ...], ...]


def whole_copies(graph: FactorGraph, blocks: int) -> SharedCopies:
    """Return one array for each block."""
    size = sum(p.size for p in graph.parameters)
    return SharedCopies(np.repeat(np.arange(blocks)[:, None], size, axis=1), ())


def plan_copies(graph: FactorGraph, tables: GraphTables, places: Sequence[Sequence[Array]], groups: Array) -> SharedCopies:
    """Return copies of the entries on which the blocks depend.

    Entries that a block's table, a gauge, a simplex or a group ties together are stored in one
    array.

    Args:
        graph: the factor graph.
        tables: the tables of its factors.
        places: for each set of blocks, index arrays of entries whose first axis is blocks.
        groups: the group of each entry of the flat parameter vector, -1 for none.
    """
    entry, parameter = (np.concatenate(a) for a in zip(*(entry_parameters(graph, t) for t in tables.tables), strict=True))
    atoms, width = _tied(graph, groups), tables.size + 1
    keys, start = [], 0
    for arrays in places:
        count = len(arrays[0])
        offsets = (start + np.arange(count)) * width
        keys.append(np.unique(np.concatenate([np.unique(a.reshape(count, -1) + offsets[:, None]) for a in arrays])))
        start += count
    seen = np.concatenate(keys)  # Keys are block * width + entry, ascending.
    of_entry = np.searchsorted(entry, np.arange(width + 1))
    first, count = of_entry[seen % width], np.diff(of_entry)[seen % width]
    of_use = np.repeat(np.arange(len(seen)), count)
    mentioned = parameter[np.arange(len(of_use)) + np.repeat(first - (np.cumsum(count) - count), count)]
    copies, inverse = np.unique((seen // width)[of_use] * (atoms.max() + 1) + atoms[mentioned], return_inverse=True)
    block, atom = np.divmod(copies, atoms.max() + 1)
    same = np.flatnonzero(of_use[1:] == of_use[:-1])
    item = _components(len(copies), inverse[same], inverse[same + 1])
    array = _coloured(item, atom)[item]
    owner = np.full((int(array.max(initial=0)) + 1, int(atoms.max()) + 1), start)
    owner[array, atom] = block
    use_array = np.zeros(len(seen), np.int64)  # Entries without a parameter are in the first array.
    use_array[of_use] = array[inverse]
    placed, start = [], 0
    for arrays in places:
        offsets = (start + np.arange(len(arrays[0]))) * width
        start += len(offsets)
        found = [a + use_array[np.searchsorted(seen, a + offsets.reshape(-1, *[1] * (a.ndim - 1)))] * width for a in arrays]
        placed.append(tuple(found))
    return SharedCopies(owner[:, atoms], tuple(placed))


def _tied(graph: FactorGraph, groups: Array) -> Array:
    """Return a number for each entry of the flat parameter vector.

    Entries that move together share it.
    """
    labels, count = [], 0
    for p in graph.parameters:
        joined = {a % len(p.shape) for a in (*p.gauge, *((-1,) if p.kind == "simplex" else ()))}
        shape = tuple(1 if a in joined else n for a, n in enumerate(p.shape))
        rest = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
        labels.append(count + np.broadcast_to(rest, p.shape).ravel())
        count += rest.size
    label = np.concatenate(labels)
    member = np.flatnonzero(groups >= 0)
    return _components(count + int(groups.max(initial=-1)) + 1, label[member], count + groups[member])[label]


def _components(count: int, left: Array, right: Array) -> Array:
    """Return the connected component of each of `count` vertices."""
    import scipy.sparse
    from scipy.sparse.csgraph import connected_components

    return connected_components(scipy.sparse.coo_array((np.ones(len(left), bool), (left, right)), shape=(count, count)), directed=False)[1]


def _coloured(item: Array, atom: Array) -> Array:
    """Return for each item the first array that has none of its atoms yet."""
    order = np.argsort(item, kind="stable")
    bounds = np.append(np.flatnonzero(np.diff(item[order], prepend=-1)), len(order))
    used, colours = [0] * (int(atom.max(initial=-1)) + 1), []
    for start, end in pairwise(bounds):
        mine = atom[order[start:end]].tolist()
        taken = 0
        for a in mine:
            taken |= used[a]
        bit = ~taken & (taken + 1)
        colours.append(bit.bit_length() - 1)
        for a in mine:
            used[a] |= bit
    return np.array(colours, np.int64)
