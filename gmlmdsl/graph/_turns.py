"""The iterations of loops: one array per index name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import Span, fail
from ..program import ir
from ._bound import Bound
from ._constants import listed_turns
from .limits import MOST_AXES
from .nodes import Node

Array = np.ndarray


@dataclass(frozen=True)
class Turns:
    """The iterations of a statement's loops, or of these and the sums around an expression.

    Attributes:
        names: the values of the index names, which broadcast to shape (n, *sums).
        n: the number of iterations of the statement.
        depth: the number of sums around the expression.
        taken: a mask of the elements that count.
        guards: the conditions on cells under which the expression counts, each with the depth at
            which it was lowered.
    """

    names: dict[str, Array]
    n: int
    depth: int
    taken: Array
    guards: tuple[tuple[Node, int], ...] = ()


def unroll(clauses: ir.Clauses, bound: Bound) -> Turns:
    """Return the iterations of `for .. if ..` as one array per index name.

    Raises:
        GmlmError: E412, with the number, if there are too many iterations.
    """
    flat, count = listed_turns(clauses, bound)
    return Turns(flat, count, 0, np.ones(1, bool))


def with_turns(
    turns: Turns, names: dict[str, Array] | None = None, taken: Array | None = None, guards: tuple[tuple[Node, int], ...] | None = None
) -> Turns:
    """Return the same iterations with some fields replaced.

    Args:
        turns: the iterations.
        names: the new values of the index names, if not None.
        taken: the new mask of the elements that count, if not None.
        guards: the new conditions on cells, if not None.
    """
    return Turns(
        turns.names if names is None else names,
        turns.n,
        turns.depth,
        turns.taken if taken is None else taken,
        turns.guards if guards is None else guards,
    )


def deeper(turns: Turns, names: dict[str, Array], span: Span) -> Turns:
    """Append an axis along which `names` run.

    Raises:
        GmlmError: E412 if sums, and names whose index moves with cells, are nested too deeply. Each
            of them takes an axis.
    """
    if turns.depth >= MOST_AXES:
        message = f"sums and names with moving indices are nested deeper than {MOST_AXES}"
        raise fail("E412", message, span, "nested too deep", help="one `sum` takes several loops: `sum(.. for i in a for j in b)`")
    lifted = {k: v[..., None] for k, v in turns.names.items()}
    placed = {k: v.reshape((1,) * (turns.depth + 2 - v.ndim) + v.shape) for k, v in names.items()}
    return Turns({**lifted, **placed}, turns.n, turns.depth + 1, turns.taken[..., None], turns.guards)


def keep_used(turns: Turns, names: list[str], used: Array) -> Turns:
    """Return only the members of the last axis that are used."""
    kept = {k: v[..., used] if k in names else v for k, v in turns.names.items()}
    taken = turns.taken[..., used] if turns.taken.shape[-1] == len(used) else turns.taken
    return Turns(kept, turns.n, turns.depth, taken, turns.guards)
