"""Detection of cycles among conditional distributions of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, listed
from ..program import ir
from ._factor_graph import FactorGroup

Array = np.ndarray
HELP = "a cell comes after its parents: drop one of the `~`, or write its table as a factor, `factor log(p[y, x])`"


def verify_acyclic(groups: Sequence[FactorGroup], model: ir.Model, n_cells: int) -> None:
    """Raise if conditional distributions form a cycle.

    Args:
        groups: the groups of the statements `z ~ categorical(p)`. The first slot of the scope is
            the cell itself, the others are its parents.
        model: the model of these statements.
        n_cells: the number of cells of the model. Given cells come after them.

    Raises:
        GmlmError: E413 at the first statement of the cycles, with the next one.
    """
    if not groups:
        return
    heads = [np.repeat(g.scope[:, :1], g.scope.shape[1] - 1, axis=1).ravel() for g in groups]
    head, tail = np.concatenate(heads), np.concatenate([g.scope[:, 1:].ravel() for g in groups])
    head, tail = head[tail < n_cells], tail[tail < n_cells]
    if (tail < head).all() or (tail > head).all():
        return  # All parents come before their children, or all come after them.
    left = remaining(head, tail, np.ones(n_cells, bool))
    left = remaining(tail, head, left)  # A cell that only comes after a cycle is not on it.
    if not left.any():
        return
    spans = [g.span for g in groups if left[g.scope[:, 0]].any()]
    names = list(dict.fromkeys(d.target.name for d in model.distributed if d.span in spans))
    what = f"of {listed(names[:-1])} and `{names[-1]}`" if len(names) > 1 else f"of cells of `{names[0]}`"
    related = ((spans[1], "and this one"),) if len(spans) > 1 else ()
    raise GmlmError(Diagnostic("E413", f"the conditional distributions {what} form a cycle", spans[0], "on the cycle", related, HELP))


def remaining(head: Array, tail: Array, among: Array) -> Array:
    """Return the cells that remain if a cell is removed as soon as all its parents are removed.

    This is Kahn's algorithm on arrays, restricted to the cells of the mask `among`.
    """
    kept = among[head] & among[tail]
    head, tail = head[kept], tail[kept]
    waiting = np.bincount(head, minlength=len(among))
    order = np.argsort(tail, kind="stable")
    head, starts = head[order], np.searchsorted(tail[order], np.arange(len(among) + 1))
    left, free = among.copy(), np.flatnonzero(among & (waiting == 0))
    while len(free):
        left[free] = False
        children = np.concatenate([head[starts[c] : starts[c + 1]] for c in free])
        np.subtract.at(waiting, children, 1)
        free = np.unique(children[waiting[children] == 0])
    return left
