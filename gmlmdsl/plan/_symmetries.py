"""Exchanges of values that leave tables of two cells invariant, computed from some parameters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .limits import ALIKE, MOST_EXCHANGES, MOST_PAIRINGS

Array = np.ndarray


def colours_of(tables: Array) -> Array:
    """Return a colour for each entry (a, b).

    Entries of one colour are equal in every table. Tables of shape (tables, q, q) give integers of
    shape (q, q). Tables are compared through one random weight each, so entries that differ agree
    with probability 0.
    """
    weights = np.random.default_rng(0).standard_normal(len(tables))
    mixed = np.tensordot(weights, tables, axes=1).ravel()
    scale = np.abs(weights) @ np.abs(tables).reshape(len(tables), -1).max(axis=1)
    order = np.argsort(mixed, kind="stable")
    steps = np.diff(mixed[order], prepend=mixed[order[0]]) > ALIKE * scale
    out = np.empty(len(mixed), np.int64)
    out[order] = np.cumsum(steps)
    return out.reshape(tables.shape[1:])


def groups_of(colours: Array, two: bool = False) -> list[Array]:
    """Return groups of exchanges of q values that leave colours (q, q) invariant.

    Each group is an array of permutations (size, q), the identity first. A sampler draws one group
    per step.

    - Values that may be exchanged alone are rotated in a circle. Each class of such values has one
      group. For Potts models, this group reaches all images of the values.
    - If other exchanges join these classes, each exchange in pairs is a group of two.
    - If there is no exchange in pairs, the group is the powers of one exchange, if there is any.

    With `two`, each pair of values that may be exchanged alone is a group: the identity and the
    exchange of the two values.
    """
    q = len(colours)
    if q < 2:
        return []
    classes = _classes(colours)
    swaps = sorted((k - j, c[j], c[k]) for c in classes for j, k in itertools.combinations(range(len(c)), 2)) if two else []
    if swaps:  # Neighbours come first, because they alone reach every order of a class.
        return [np.stack([np.arange(q), _swap(q, a, b)]) for _, a, b in swaps[: max(MOST_PAIRINGS, q)]]
    firsts = [c[0] for c in classes]
    joined = any(len(a) == len(b) and _find(colours, a[0], b[0]) is not None for a, b in itertools.combinations(classes, 2))
    if not joined:
        return [_circle(c, q) for c in classes if len(c) > 1]
    pairings = [np.stack([np.arange(q), p]) for p in itertools.islice(_pairings(colours), MOST_PAIRINGS)]
    if pairings:
        return pairings
    found = (_find(colours, a, b) for a, b in itertools.permutations(firsts, 2))
    return [_powers(p) for p in itertools.islice((p for p in found if p is not None), 1)]


def _classes(colours: Array) -> list[list[int]]:
    """Return the classes of values any two of which may be exchanged alone."""
    classes: list[list[int]] = []
    for value in range(len(colours)):
        home = next((c for c in classes if _keeps(colours, _swap(len(colours), c[0], value))), None)
        if home is None:
            classes.append([value])
        else:
            home.append(value)
    return classes


def _swap(q: int, a: int, b: int) -> Array:
    p = np.arange(q)
    p[[a, b]] = b, a
    return p


def _keeps(colours: Array, p: Array) -> bool:
    return bool((colours[np.ix_(p, p)] == colours).all())


def _circle(values: list[int], q: int) -> Array:
    out = np.tile(np.arange(q), (len(values), 1))
    for k in range(len(values)):
        out[k, values] = np.roll(values, -k)
    return out


def _powers(p: Array) -> Array:
    out = [np.arange(len(p))]
    while not (p[out[-1]] == np.arange(len(p))).all():
        out.append(p[out[-1]])
    return np.stack(out)


def _find(colours: Array, first: int, image: int) -> Array | None:
    """Return an exchange that takes one value to another, or None if the search finds none."""
    tries = itertools.count()

    def extend(p: list[int], left: list[int]) -> list[int] | None:
        if not left:
            return p
        for value in left:
            if next(tries) > MOST_EXCHANGES:
                return None
            after = [*p, value]
            if _fits(colours, order, after):
                found = extend(after, [v for v in left if v != value])
                if found is not None:
                    return found
        return None

    order = [first, *(v for v in range(len(colours)) if v != first)]
    if not _fits(colours, order, [image]):
        return None
    found = extend([image], [v for v in range(len(colours)) if v != image])
    if found is None:
        return None
    out = np.empty(len(colours), np.int64)
    out[order] = found
    return out


def _fits(colours: Array, order: list[int], images: list[int]) -> bool:
    """Return whether the last image is consistent with those before it."""
    source, last = order[: len(images)], len(images) - 1
    return all(
        colours[source[k], source[last]] == colours[images[k], images[last]]
        and colours[source[last], source[k]] == colours[images[last], images[k]]
        for k in range(len(images))
    )


def _pairings(colours: Array) -> Iterator[Array]:
    """Yield exchanges that are their own inverse, except the identity."""
    q, tries = len(colours), itertools.count()

    def extend(p: dict[int, int]) -> Iterator[Array]:
        value = next((v for v in range(q) if v not in p), None)
        if value is None:
            yield np.array([p[v] for v in range(q)])
            return
        for other in range(value, q):
            if other in p or next(tries) > MOST_EXCHANGES:
                continue
            after = p | {value: other, other: value}
            source = list(after)
            if _keeps_part(colours, source, [after[v] for v in source]):
                yield from extend(after)

    yield from (p for p in extend({}) if (p != np.arange(q)).any())


def _keeps_part(colours: Array, source: list[int], images: list[int]) -> bool:
    return bool((colours[np.ix_(source, source)] == colours[np.ix_(images, images)]).all())
