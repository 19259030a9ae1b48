"""The turns of loops: one array per index name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import Span, fail
from ..program import ir
from ._bound import Bound
from ._constants import listed_turns
from ._nodes import Node

Array = np.ndarray
MOST_AXES = 24


@dataclass(frozen=True)
class Turns:
    """The turns of a statement's loops, or of these and the sums around an expression.

    `names` are the index names' values, of shape (n, *sums) up to broadcasting; `taken` says where
    the expression counts; `guards` are the conditions on cells under which it does, each with the
    depth it was lowered at.
    """

    names: dict[str, Array]
    n: int
    depth: int
    taken: Array
    guards: tuple[tuple[Node, int], ...] = ()


def unroll(clauses: ir.Clauses, bound: Bound) -> Turns:
    """Every turn of `for .. if ..`, as one array per index name.

    Raises:
        GmlmError: if there are too many turns, with the number.
    """
    flat, count = listed_turns(clauses, bound)
    return Turns(flat, count, 0, np.ones(1, bool))


def with_turns(
    turns: Turns, names: dict[str, Array] | None = None, taken: Array | None = None, guards: tuple[tuple[Node, int], ...] | None = None
) -> Turns:
    """The same turns with some fields replaced."""
    return Turns(
        turns.names if names is None else names,
        turns.n,
        turns.depth,
        turns.taken if taken is None else taken,
        turns.guards if guards is None else guards,
    )


def deeper(turns: Turns, names: dict[str, Array], span: Span) -> Turns:
    """One more axis behind, along which `names` run.

    Raises:
        GmlmError: E412 where sums, and names whose index moves with cells, stand in one another too
            often: each takes an axis.
    """
    if turns.depth >= MOST_AXES:
        message = f"sums and names with moving indices are nested deeper than {MOST_AXES}"
        raise fail("E412", message, span, "nested too deep", help="one `sum` takes several loops: `sum(.. for i in a for j in b)`")
    lifted = {k: v[..., None] for k, v in turns.names.items()}
    placed = {k: v.reshape((1,) * (turns.depth + 2 - v.ndim) + v.shape) for k, v in names.items()}
    return Turns({**lifted, **placed}, turns.n, turns.depth + 1, turns.taken[..., None], turns.guards)


def keep_used(turns: Turns, names: list[str], used: Array) -> Turns:
    """Only the members of the last axis that are used."""
    kept = {k: v[..., used] if k in names else v for k, v in turns.names.items()}
    taken = turns.taken[..., used] if turns.taken.shape[-1] == len(used) else turns.taken
    return Turns(kept, turns.n, turns.depth, taken, turns.guards)
