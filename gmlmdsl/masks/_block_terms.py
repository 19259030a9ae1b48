"""Blocks of cells that a program writes out, as padded arrays with their weights.

An example of a term is `{x[i], y[j]} for i in .. for j in ..`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._diagnostics import counted, each, fail
from ..graph import Bound, FactorGroup, Lowered, Lowering, Turns, alive, constant, in_range, turned, unroll, verify_weights
from ..program import ir
from ._mask import Array

MOST_BLOCK_ENTRIES = 1 << 27


def cells_of(lowered: Lowered, variables: tuple[str, ...]) -> Array:
    """Return the cells of whole variables, ascending."""
    parts = [lowered.graph.variable(v).positions.ravel() for v in variables]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def cells_and_size(lowered: Lowered, body: ir.FormMask, block: str) -> tuple[Array, int]:
    """Return the cells of a form, and the number of cells in one of its blocks.

    `block` is the form's word for a block.

    Raises:
        GmlmError: E410 if there is no block of this size among the cells.
    """
    cells, size = cells_of(lowered, body.variables), body.block_size
    assert size is not None
    count = lowered.bound.integer(size)
    if not 1 <= count <= len(cells):
        message = f"there is no {block} of {count} among {counted(len(cells), 'cell')}"
        most = f" to {len(cells)}" * (len(cells) > 1)
        help = f"`{body.call.form.block_size}` is 1{most} here"
        raise fail("E410", message, body.span, "an empty support", help=help)
    return cells, count


def term_blocks(lowered: Lowered, term: ir.BlockTerm) -> tuple[Array, Turns]:
    """Return the blocks of one term, one row per iteration of its loops, and the iterations.

    The positions of a block are ascending and padded.

    Raises:
        GmlmError: if a block contains a cell twice, or an index is out of range.
    """
    turns = unroll(term.clauses, lowered.bound)
    rows = {n: loop.over for loop in term.clauses.loops for n in loop.names if loop.over.lists_cells}
    parts = each(lambda c: _term_cells(lowered, c, turns, rows) if c.clauses is None else _listed_cells(lowered, c, turns), term.cells)
    if turns.n * sum(p.shape[1] for p in parts) > MOST_BLOCK_ENTRIES:
        raise fail("E412", f"{turns.n:,} blocks are too many to list", term.span, "too large")
    blocks = np.sort(np.concatenate([np.broadcast_to(p, (turns.n, p.shape[1])) for p in parts], axis=1), axis=1)
    none = lowered.graph.n_cells
    _verify_filled(blocks, none, term, turns)
    same = (blocks[:, 1:] == blocks[:, :-1]) & (blocks[:, 1:] < none)
    twice = same.any(axis=1) if blocks.shape[1] > 1 else np.zeros(len(blocks), bool)
    if twice.any():
        row = blocks[np.argmax(twice)]
        name = lowered.graph.cell_name(int(row[1:][(row[1:] == row[:-1]) & (row[1:] < none)][0]))
        help = "each cell stands in a block once: leave the turns out in which two of its cells are one, by `if i != j`"
        raise fail("E411", f"a block holds the cell `{name}` twice", term.span, "a cell twice", help=help)
    return blocks.astype(np.int32), turns


def _verify_filled(blocks: Array, none: int, term: ir.BlockTerm, turns: Turns) -> None:
    """Raise E411 for a block without a cell, which `for` and `if` within braces may produce."""
    empty = (blocks >= none).all(axis=1)
    if not turns.n or not empty.any():
        return
    first = int(np.argmax(empty))
    where = " and ".join(f"`{n}` is {int(v[first])}" for n, v in turns.names.items())
    help = "leave such turns out, with an `if` behind the `for` of the block"
    raise fail("E411", f"a block holds no cell{f' where {where}' if where else ''}", term.span, "an empty block", help=help)


def _listed_cells(lowered: Lowered, cells: ir.Cells, turns: Turns) -> Array:
    """Return the cells of the clauses within braces for each outer iteration, padded."""
    clauses = cells.clauses
    assert clauses is not None
    lifted = {k: np.asarray(v)[..., None] for k, v in turns.names.items()}
    names, among, count = turned(clauses.loops, lowered.bound, lifted, turns.n, cells.span)
    inside = {**lifted, **{k: np.atleast_2d(v) for k, v in names.items()}}
    here = np.broadcast_to(among, (turns.n, count))
    if clauses.condition is not None:
        here = here & constant(clauses.condition, lowered.bound, inside, here).astype(bool)
    lowering, inner = Lowering(lowered.bound, lowered.names), Turns(inside, turns.n, 1, here)
    v = lowered.names.variables[cells.variable]
    if cells.indices is None:
        raise fail("E316", "cells are listed one by one: `{x[j] for j in ..}`", cells.span, "all cells")
    axes = [a.over for a in lowered.names.model.variables[cells.variable].axes]
    value = ir.VariableValue(cells.span, cells.variable, cells.indices)
    fixed, _ = lowering.indices(value, axes, inner)
    found = np.broadcast_to(lowering.positions(v, axes, fixed, value, inner), here.shape)
    return np.where(here, found, lowered.graph.n_cells)


def _term_cells(lowered: Lowered, cells: ir.Cells, turns: Turns, rows: dict[str, ir.SetOf]) -> Array:
    v = lowered.names.variables[cells.variable]
    if cells.indices is None:
        return v.positions.reshape(1, -1)
    lowering, at, position = Lowering(lowered.bound, lowered.names), 0, np.full((1, 1), v.offset, np.int64)
    axes = [a.over for a in lowered.names.model.variables[cells.variable].axes]
    if any(over.is_looked_up for over in axes):
        value = ir.VariableValue(cells.span, cells.variable, cells.indices)
        fixed, _ = lowering.indices(value, axes, turns)
        return lowering.positions(v, axes, fixed, value, turns).reshape(-1, 1)
    lengths = [lowering.ends(over) if over.is_edges else v.shape[k] for k, over in enumerate(axes) for _ in range(over.arity)]
    wanted = zip(cells.indices, lengths, strict=True)
    found = each(lambda index: _term_index(index[0], index[1], v.name, lowered.bound, turns, rows), wanted)
    for k, over in enumerate(axes):
        ends = found[at : at + over.arity]
        place = lowering.edge(over, ends[0], ends[1], turns, ir.Literal(cells.span, 0)) if over.is_edges else ends[0]
        position = _outer(position, place * int(np.prod(v.shape[k + 1 :], dtype=np.int64)))
        at += over.arity
    return position


def _term_index(e: ir.Expression, length: int, name: str, bound: Bound, turns: Turns, rows: dict[str, ir.SetOf]) -> Array:
    if isinstance(e, ir.IndexValue) and e.name in rows:
        value = bound.graphs[rows[e.name].graph].part(rows[e.name].part)[turns.names[e.name]]
    else:
        value = constant(e, bound, turns.names).reshape(-1, 1)
    return in_range(value, length, True, e, name)


def _outer(a: Array, b: Array) -> Array:
    """Return the sums of every member of one family of rows with every member of the other."""
    return (a[:, :, None] + b[:, None, :]).reshape(max(len(a), len(b)), -1)


def live_blocks(
    lowered: Lowered, blocks: Array, weight: ir.Expression, turns: Turns, kind: str, most_weight: float
) -> tuple[Array, FactorGroup]:
    """Return a term's blocks and weights, without those whose weight is 0 in all configurations.

    No configuration draws the omitted blocks.

    Args:
        lowered: the lowered model.
        blocks: the blocks of the term.
        weight: the expression of the weight.
        turns: the iterations of the term's loops.
        kind: the kind of the group, `weight` or `rate`.
        most_weight: the upper limit of a weight.

    Raises:
        GmlmError: E409 for a weight that is negative, infinite or above `most_weight`.
    """
    lowering, none = Lowering(lowered.bound, lowered.names), lowered.graph.n_cells
    group = lowering.group(lowering.lower(weight, turns), turns, kind, weight.span)
    verify_weights(group, lowering.slot_sizes, none, most_weight)
    rows = np.flatnonzero(alive(group, lowering.slot_sizes, none))
    return blocks[rows], group if len(rows) == group.n else group.take(rows)


def are_numbers(groups: Sequence[FactorGroup]) -> bool:
    """Return whether weights mention neither cells nor parameters."""
    return all(g.cells.shape[1] == 0 and not g.parameters for g in groups)
