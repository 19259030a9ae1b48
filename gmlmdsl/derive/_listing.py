"""Listing of the joint values of similar components, as index arrays on the device.

A component is a set of missing cells of a row that interact. The arrays state which factors see
which cells of a component.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import SINGULAR, Apply, nodes_in
from ..plan import GapTerms, block_arrays, size_classes
from ._arrays import Graph, float_type, on_device
from ._listed import Choice, Half, ListedRows, Listing, Terms, Touching
from .limits import MOST_HELD_VALUES, MOST_ZEROS

if TYPE_CHECKING:
    import jax

Array = np.ndarray


def listed_rows(
    host: FactorGraph, graph: Graph, codes: Array, terms: Sequence[GapTerms], cost: float, most_values: int = MOST_HELD_VALUES
) -> ListedRows:
    """Return the loss of rows with missing values, in chunks of at most `most_values` joint values.

    A chunk has at least one term.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        codes: (cells, rows), any value where a cell is missing.
        terms: the components of all rows, in classes of similar ones.
        cost: the cost of the loss, in evaluations.
        most_values: the maximum number of joint values held at once.
    """
    known = np.maximum(codes, 0)
    listings = tuple(_listing(host, np.concatenate([known, np.zeros_like(known[:1])]), t, most_values) for t in terms)
    return ListedRows(graph, on_device(known, np.int32), listings, on_device(float(cost), float_type()))


@dataclass(frozen=True)
class _Sets:
    """Sets of component members that instances of one group see, as the bits of integers.

    The sets agree in their number of members and are of similar numbers of values. `arrays` holds
    the arrays of a `Touching`.
    """

    group: int
    bits: Array
    arrays: dict[str, Array]


def _listing(host: FactorGraph, known: Array, t: GapTerms, most: int) -> Listing:
    count = len(t.rows)
    chunks = -(-count // max(1, most // t.values))
    # All chunks have the same size, because a smaller last chunk would cost as much as the others.
    size = -(-count // chunks)
    padding = -count % size
    sets = [s for k in range(len(host.groups)) for s in _sets(host, known, t, k)]
    radix = np.array(t.radix)
    digits = [_set_digits(s.bits, radix) for s in sets]

    def split(a: Array, fill: float) -> jax.Array:
        wide = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, padding)], constant_values=fill)
        return on_device(np.moveaxis(wide.reshape(*a.shape[:-1], -1, size), -2, 0))

    sizes = np.append(host.sizes, 1)[t.cells].astype(np.int32)
    predicted = np.where(t.predicted, known[np.minimum(t.cells, host.n_cells), t.rows], -1).astype(np.int32)
    touching = tuple(Touching(s.group, *(split(s.arrays[k], -1) for k in ("instances", "codes", "member"))) for s in sets)
    weights = split(t.weights.astype(float_type()), 0)
    terms = Terms(split(t.rows, 0), weights, split(t.cells, host.n_cells), split(sizes, 1), split(predicted, -1), touching)
    halves, both = _halves(radix, [s.bits for s in sets], [d.shape[2] for d in digits])
    may_forbid = any(_may_forbid(host.groups[s.group]) for s in sets)
    return Listing(terms, tuple(on_device(d) for d in digits), halves, both, may_forbid, t.values > size)


def _may_forbid(group: FactorGroup) -> bool:
    """Return whether values of the group may be -infinity.

    This holds for a requirement, and for an expression that may divide by zero or overflow.
    """
    singular = any(isinstance(n, Apply) and n.operator in SINGULAR for n in nodes_in(group.root))
    return group.kind == "require" or singular or not all(np.isfinite(a).all() for a in (*group.columns, *group.tables))


def _sets(host: FactorGraph, known: Array, t: GapTerms, k: int) -> list[_Sets]:
    """Return the instances of group k that touch some component.

    They are grouped by how many cells, and how many values, of a component they see.
    """
    group, cells = host.groups[k], t.cells.T
    touch = block_arrays(host, cells)[3 + k]
    term, width = np.nonzero(touch >= 0)
    instance = touch[term, width]
    scope = group.cells[instance]  # axes: found, slots
    hit = (scope[:, :, None] == cells[term][:, None, :]) & (cells < host.n_cells)[term][:, None, :]
    member = np.where(hit.any(axis=2), hit.argmax(axis=2), -1)
    bits = (hit.any(axis=1) * (1 << np.arange(cells.shape[1], dtype=np.int64))).sum(axis=1)
    largest = np.append(host.sizes, 1)[scope] - 1
    codes = np.where(member >= 0, largest, known[np.minimum(scope, host.n_cells), t.rows[term][:, None]])
    below = (1 << np.maximum(member, 0).astype(np.int64)) - 1
    # uint8 cannot represent -1, which NumPy 2.5 reports
    place = np.where(member >= 0, np.bitwise_count(bits[:, None] & below).astype(np.int64), -1)
    every, kind = np.unique(bits, return_inverse=True)
    sizes = [math.prod(np.array(t.radix)[_members(b)].tolist()) for b in every.tolist()]
    alike = np.stack([np.bitwise_count(every), size_classes(np.array(sizes, float))], axis=1)
    out = []
    for like in np.unique(alike, axis=0):
        mine = np.flatnonzero((alike == like).all(axis=1)[kind.reshape(-1)])
        found, which = np.unique(bits[mine], return_inverse=True)
        at = _ranked(term[mine], which.reshape(-1))
        shape = len(found), int(at[1].max()) + 1, len(cells)
        arrays: dict[str, Array] = {"instances": np.full(shape, -1, np.int32)}
        arrays["instances"][at] = instance[mine]
        for name, values in (("codes", codes), ("member", place)):
            arrays[name] = np.full((scope.shape[1], *shape), -1 if name == "member" else 0, np.int32)
            arrays[name][:, *at] = values[mine].T
        out.append(_Sets(k, found, arrays))
    return out


def _ranked(term: Array, which: Array) -> tuple[Array, Array, Array]:
    """Return the place of each instance: (its set, its rank, its term).

    The rank counts the earlier instances of the same term that see the same set.
    """
    order = np.lexsort((term, which))
    first = np.r_[True, (np.diff(term[order]) != 0) | (np.diff(which[order]) != 0)]
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - start
    return which, rank, term


def _set_digits(bits: Array, radix: Array) -> Array:
    """Return the codes of each set's cells under its joint values, shape (cells, sets, values).

    The last cell varies fastest.
    """
    members = [_members(b) for b in bits.tolist()]
    values = max(math.prod(radix[m].tolist()) for m in members)
    return np.stack([_codes(radix[m], values).T for m in members], axis=1).astype(np.int32)


def _members(bits: int) -> Array:
    return np.array([p for p in range(bits.bit_length()) if bits >> p & 1], np.int64)


def _codes(radix: Array, values: int | None = None) -> Array:
    """Return the mixed-radix code of each cell under every joint value, shape (values, cells)."""
    strides = np.cumprod(np.r_[radix[1:], 1][::-1])[::-1] if len(radix) else radix
    return np.arange(math.prod(radix.tolist()) if values is None else values)[:, None] // strides % radix


def _halves(radix: Array, sets: list[Array], values: list[int]) -> tuple[tuple[Half, Half], jax.Array]:
    """Return the halves of a component, and the entries that see cells of both halves.

    `values` has the number of entries of a set, for each kind of table.
    """
    cut = min(range(1, len(radix) + 1), key=lambda c: math.prod(radix[:c].tolist()) + math.prod(radix[c:].tolist()))
    parts = [np.arange(cut), np.arange(cut, len(radix))]
    inside = [sum(1 << int(p) for p in part) for part in parts]
    firsts = np.cumsum([0, *(len(b) * v for b, v in zip(sets, values, strict=True))])
    found = [
        (bits, int(first + k * v)) for group, v, first in zip(sets, values, firsts, strict=False) for k, bits in enumerate(group.tolist())
    ]
    crossing = [(bits, first) for bits, first in found if bits & inside[0] and bits & inside[1]]
    halves, seen = [], []
    for part, mine in zip(parts, inside, strict=True):
        own = [(bits, first) for bits, first in found if not bits & ~mine]
        places = [first + np.arange(math.prod(radix[_members(bits)].tolist())) for bits, first in own]
        kinds = sorted({bits & mine for bits, _ in crossing})
        seen.append(_offsets(radix, kinds))
        digits = _codes(radix[part])
        choices = (_choice(radix, digits, part, k) for k in ([bits for bits, _ in own], kinds))
        halves.append(Half(on_device(digits, np.int32), _ints(np.concatenate([np.zeros(0), *places])), *choices))
    both = _both(radix, crossing, inside, seen, int(firsts[-1]))
    return (halves[0], halves[1]), _ints(both)


def _offsets(radix: Array, sets: list[int]) -> dict[int, int]:
    """Return where the entries of each set begin; the key -1 holds where the last ones end."""
    ends = np.cumsum([0, *(math.prod(radix[_members(b)].tolist()) for b in sets)]).tolist()
    return dict(zip([*sets, -1], ends, strict=True))


def _choice(radix: Array, digits: Array, part: Array, sets: list[int]) -> Choice:
    """Return the entries that belong to each joint value of a half, one entry for each set.

    The entries of the sets follow one another. A set may occur more than once.
    """
    first, picks = 0, np.zeros((len(sets), len(digits)), np.int64)
    for k, bits in enumerate(sets):
        members = _members(bits)
        own = radix[members]
        strides = np.cumprod(np.r_[own[1:], 1][::-1])[::-1]
        picks[k] = first + (digits[:, members - part[0]] * strides).sum(axis=1)
        first += math.prod(own.tolist())
    matrix = None
    if first <= MOST_ZEROS * len(sets):
        matrix = np.zeros((len(digits), first))
        matrix[np.arange(len(digits))[None], picks] = 1.0
        matrix = on_device(matrix, float_type())
    return Choice(_ints(picks), matrix)


def _both(radix: Array, crossing: list[tuple[int, int]], inside: list[int], seen: list[dict[int, int]], none: int) -> Array:
    """Return the entries that see some cells of half A and some of half B.

    Entries of several groups that see the same cells are stacked in layers.
    """
    layers: dict[int, int] = {}
    out = np.full((len(crossing), seen[0][-1], seen[1][-1]), none, np.int64)
    for bits, first in crossing:
        layer = layers[bits] = layers.get(bits, -1) + 1
        shape = [math.prod(radix[_members(bits & mine)].tolist()) for mine in inside]
        a, b = (s[bits & mine] for s, mine in zip(seen, inside, strict=True))
        out[layer, a : a + shape[0], b : b + shape[1]] = first + np.arange(math.prod(shape)).reshape(shape)
    return out[: max(layers.values(), default=0) + 1] if crossing else np.full((1, seen[0][-1], seen[1][-1]), none)


def _ints(a: Array) -> jax.Array:
    return on_device(a, np.int32)
