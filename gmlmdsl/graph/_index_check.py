"""Range checks of indices that depend on cells, over all values of these cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._diagnostics import fail
from ..program import ir
from ._constants import in_ticks, whole
from ._scopes import JointValues
from .limits import MOST_TRIED_VALUES, TRIED_AT_ONCE
from .nodes import CellValue, Node, evaluate, instances_last, nodes_in, numpy_leaves

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
        good = instances_last(taken, rows)
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
