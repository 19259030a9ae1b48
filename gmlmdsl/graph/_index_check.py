"""Range checks of indices that depend on cells, over all values of these cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .._diagnostics import fail
from ..program import ir
from ._arithmetic import OPERATORS, applied
from ._constants import in_ticks, whole
from ._joint_values import JointValues
from ._nodes import CellValue, Leaves, Node, evaluate, nodes_in
from .limits import MOST_TRIED_VALUES, TRIED_AT_ONCE

Array = np.ndarray


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
    member: str = "",
    first: int = 0,
) -> None:
    """Raise unless an index is in range for every value of the cells that it depends on.

    Values at which a guard fails do not count.

    Args:
        node: the tree of the index.
        guards: conditions on cells under which the index counts, each with its depth.
        taken: a mask of the instances and terms that count.
        length: the length of the indexed axis.
        columns: the columns of the group.
        tables: the tables of the group.
        joint: the joint values of the slots.
        e: the expression that is reported.
        name: the name of the indexed array.
        member: what several indices name together; the index is then -1 for what is none.
        first: the index from which `e` counts.

    Raises:
        GmlmError: E414 if indices name no such member; E407 with the value that leaves 0..length-1; E416 if the index has no value or is
            not whole; E412 if there are too many values to try.
    """
    used = {s for t in (node, *(g for g, _ in guards)) for leaf in nodes_in(t) if isinstance(leaf, CellValue) for s in _slots(leaf)}
    slots = sorted(used | {joint.owners[s] for s in used})
    joint = joint.of(slots)
    count = int(joint.count)
    if joint.count > MOST_TRIED_VALUES:
        raise fail("E412", f"this index depends on cells with {count:,} joint values: too many to check", e.span, "too many cells")
    codes = dict(zip(slots, joint.codes(), strict=True))
    n = max((c.shape[0] for c in columns), default=1)
    for start in range(0, n, max(1, TRIED_AT_ONCE // max(count, 1))):
        rows = slice(start, min(n, start + max(1, TRIED_AT_ONCE // max(count, 1))))
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
            if member and reached == -1:
                help = "limit them with `if .. then .. else`: the values at which they name none do not count then"
                raise fail("E414", f"these indices, computed from cells, may name what is not {member}", e.span, "not always", help=help)
            message = f"an index of {in_ticks(name)} can be {first + reached}, outside {first}..{first + length - 1}"
            raise fail(
                "E407", message, e.span, f"reaches {first + reached}", help="limit it with `if .. then .. else`, or wrap it with `%`"
            )


def _slots(leaf: CellValue) -> range:
    return range(leaf.start, leaf.start + int(np.prod(leaf.shape, dtype=np.int64)))


def _lead(a: Array, rows: slice) -> Array:
    """Move the instance axis of an array of shape (n or 1, *sums): return (*sums, n or 1, 1)."""
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
    """Return leaves for some instances under all joint values of their cells.

    The batch axes are (instances, values).

    Args:
        columns: the columns of the group.
        tables: the tables of the group.
        codes: the code of each slot under each joint value.
        rows: the instances.
        params: parameters, if the tree mentions any.
        bits: if not 0, an operation that counts and has no value raises E416. Integers then have so
            many bits: 64, or 32 for an index on the device.
    """

    def cells(start: int, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape, dtype=np.int64))
        return np.stack([codes[s] for s in range(start, start + size)]).reshape((*shape, 1, -1))

    def gather(name: str, table: int, index: Array) -> Array:
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
