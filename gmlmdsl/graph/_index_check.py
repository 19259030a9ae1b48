"""Checks an index that moves with cells: over all values of those cells it must stay in range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._diagnostics import fail
from ..program import ir
from ._arithmetic import OPERATORS, applied
from ._constants import in_ticks, whole
from ._joint_values import JointValues
from ._nodes import CellValue, Leaves, Node, evaluate, nodes_in

Array = np.ndarray
MOST_VALUES = 1 << 22
CHUNK = 1 << 22


def verify_index(
    node: Node,
    guards: tuple[tuple[Node, int], ...],
    taken: Array,
    length: int,
    columns: Sequence[Array],
    tables: Sequence[Array],
    joint: JointValues,
    e: ir.Expression,
    name: str,
) -> None:
    """Try every value of the cells that the index and its guards mention.

    Raises:
        GmlmError: with the value that leaves 0..length-1, or because there are too many values to try.
    """
    used = {s for t in (node, *(g for g, _ in guards)) for leaf in nodes_in(t) if isinstance(leaf, CellValue) for s in _slots(leaf)}
    slots = sorted(used | {joint.owners[s] for s in used})
    joint = joint.of(slots)
    count = int(joint.count)
    if joint.count > MOST_VALUES:
        raise fail("E412", f"this index depends on cells with {count:,} joint values: too many to check", e.span, "too many cells")
    codes = dict(zip(slots, joint.codes(), strict=True))
    n = max((c.shape[0] for c in columns), default=1)
    for start in range(0, n, max(1, CHUNK // max(count, 1))):
        rows = slice(start, min(n, start + max(1, CHUNK // max(count, 1))))
        leaves = numpy_leaves(columns, tables, codes, rows, bits=32)
        depth = taken.ndim - 1
        good = _lead(taken, rows)
        for guard, at in guards:
            inner = tuple(range(at, depth))
            holds = np.asarray(evaluate(guard, leaves, at, good.any(axis=inner))).astype(bool)
            good = good & np.expand_dims(holds, inner)
        value = whole(np.asarray(evaluate(node, leaves, depth, good, whole=True)), good, e)
        bad = ((value < 0) | (value >= length)) & good
        if bad.any():
            reached = int(np.broadcast_to(value, bad.shape)[bad].ravel()[0])
            message = f"an index of {in_ticks(name)} can be {reached}, outside 0..{length - 1}"
            raise fail("E407", message, e.span, f"reaches {reached}", help="limit it with `if .. then .. else`, or wrap it with `%`")


def _slots(leaf: CellValue) -> range:
    return range(leaf.start, leaf.start + int(np.prod(leaf.shape, dtype=np.int64)))


def _lead(a: Array, rows: slice) -> Array:
    """(n or 1, *sums) to (*sums, n or 1, 1)."""
    part = a[rows] if a.shape[0] > 1 else a
    return np.moveaxis(part, 0, -1)[..., None]


def numpy_leaves(
    columns: Sequence[Array],
    tables: Sequence[Array],
    codes: dict[int, Array],
    rows: slice,
    params: Mapping[str, Array] | None = None,
    bits: int = 0,
) -> Leaves:
    """Leaves for some instances (`rows`) under all joint values of their cells; batch axes are (instances, values).

    Where `bits` is not 0, an operation that has no value where it is taken is an error, E416: 64, or the 32 of an index on the device.
    """

    def cells(start: int, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape, dtype=np.int64))
        return np.stack([codes[s] for s in range(start, start + size)]).reshape((*shape, 1, -1))

    def gather(name: str, table: int, index: Any) -> Array:
        if not name:
            return tables[table][index]
        assert params is not None, "an index mentions no parameter"
        return np.ravel(params[name])[index]

    return Leaves(
        column=lambda k, depth: _lead(columns[k], rows),
        cells=cells,
        gather=gather,
        number=lambda a: np.asarray(a, dtype=np.float64),
        integer=lambda a: np.rint(a).astype(np.int64) if np.asarray(a).dtype.kind == "f" else np.asarray(a, dtype=np.int64),
        operators=OPERATORS,
        whole=OPERATORS,
        xp=np,
        judged=(lambda node, operands, taken: applied(node.operator, operands, True if taken is None else taken, node.span, bits))
        if bits
        else None,
    )
