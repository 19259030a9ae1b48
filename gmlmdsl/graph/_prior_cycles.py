"""Priors that form a cycle: each entry of a parameter has a prior given another one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .._diagnostics import fail, listed
from ._cycles import remaining
from ._factor_graph import FactorGroup, Hyperprior
from ._nodes import Apply, Column, Constant, Gather, Node

Array = np.ndarray


def verify_acyclic_priors(priors: Sequence[Hyperprior], sizes: Mapping[str, int]) -> None:
    """Refuse priors that form a cycle: no product of them is a density. What stands in an `if` or a sum is not looked at.

    Args:
        priors: those that mention parameters.
        sizes: the number of entries of each parameter.

    Raises:
        GmlmError: E413 at the first prior on a cycle.
    """
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    pairs = [(p.entries + starts[p.parameter], parents) for p in priors for parents in _parents(p, starts)]
    if not pairs:
        return
    head, tail = (np.concatenate(side).astype(np.int64) for side in zip(*pairs, strict=True))
    left = remaining(head, tail, np.ones(sum(sizes.values()), bool))
    left = remaining(tail, head, left)
    on = [p for p in priors if left[p.entries + starts[p.parameter]].any()]
    if on:
        help = "an entry comes after those that its prior mentions: limit the loop with `if`, or drop one of the priors"
        names = listed(list(dict.fromkeys(p.parameter for p in on)))
        raise fail("E413", f"the priors of entries of {names} form a cycle", on[0].span, "on the cycle", help=help)


def _parents(p: Hyperprior, starts: Mapping[str, int]) -> Iterator[Array]:
    """The entries that each argument of a prior mentions, one for each entry that has it."""
    for group in p.arguments.values():
        for node in _plain(group.root):
            if isinstance(node, Gather) and node.name and not node.terms:
                yield np.broadcast_to(_entries(node.base, group).reshape(-1), p.entries.shape) + starts[node.name]


def _plain(root: Node) -> Iterator[Node]:
    """The nodes that count at each turn, whatever holds."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo += node.operands if isinstance(node, Apply) else ()


def _entries(base: Node, group: FactorGroup) -> Array:
    if isinstance(base, Column):
        return group.columns[base.k]
    assert isinstance(base, Constant)
    return np.full(1, base.value)
