"""Lowers masks: blocks of cells as padded integer arrays, with probabilities or with weight groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .._diagnostics import Span, each, fail
from ..program import ir
from ._bound import Bound
from ._constants import constant, in_range
from ._factor_graph import FactorGroup
from ._given_rows import GivenRows, group_with
from ._lower import Lowering
from ._lowered import Lowered
from ._turns import Turns, unroll
from ._weights import alive, fixed_values, verify_weights

Array = np.ndarray
MOST_BLOCK_ENTRIES = 1 << 27


@dataclass(frozen=True)
class ListedMask:
    """Blocks with weights.

    Attributes:
        blocks: integers of shape (blocks, cells): positions ascending, padded with the number of cells; distinct rows.
        probabilities: of each block, shape (blocks,); None where weights mention cells or parameters.
        weights: groups of weight expressions, one instance per listed block, and which block each belongs to.
    """

    blocks: Array
    probabilities: Array | None
    weights: tuple[FactorGroup, ...]
    block_of: tuple[Array, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class SubsetMask:
    """Uniform over the subsets of `size` of `cells`."""

    cells: Array
    size: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class BernoulliMask:
    """Every cell on its own: with its rate in `rates` of shape (cells,), or all with one rate drawn from `uniform`."""

    cells: Array
    rates: Array | None
    uniform: tuple[float, float] | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class IndependentMask:
    """Every cell on its own with a rate that mentions cells or parameters: groups with one instance per cell, and which cell."""

    cells: Array
    rates: tuple[FactorGroup, ...]
    cell_of: tuple[Array, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class MixtureMask:
    """p(K | x) = sum over parts of weight times the part's."""

    weights: Array
    parts: tuple[LoweredMask, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class PercolationMask:
    """The cluster of a uniform cell under bonds on `edges`, distinct pairs i < j of shape (edges, 2); `cells` are theirs, ascending."""

    edges: Array
    cells: Array
    span: Span = field(compare=False, repr=False)


LoweredMask = ListedMask | SubsetMask | BernoulliMask | IndependentMask | MixtureMask | PercolationMask


def lower_mask(lowered: Lowered, mask: ir.Mask) -> LoweredMask:
    """The arrays of a mask.

    Raises:
        GmlmError: for a block with a cell twice, weights that are not finite and >= 0, a mask that never hides anything.
    """
    return lower_body(lowered, mask.body)


def lower_body(lowered: Lowered, body: ir.MaskBody) -> LoweredMask:
    """The arrays of a mask or of a part of one; see `lower_mask`."""
    found = _lower(lowered, body)
    return found if lowered.data is None else mask_with(found, lowered.data, lowered.graph.sizes)


def mask_with(mask: LoweredMask, data: GivenRows, sizes: Array) -> LoweredMask:
    """The mask with the data of given variables, its weights and rates judged on them; `sizes` are the numbers of values of the cells.

    Raises:
        GmlmError: E409 for a weight or rate that some row makes negative, infinite or too large.
    """
    match mask:
        case ListedMask():
            mask = replace(mask, weights=tuple(group_with(g, data) for g in mask.weights))
        case IndependentMask():
            mask = replace(mask, rates=tuple(group_with(g, data) for g in mask.rates))
        case MixtureMask():
            return replace(mask, parts=tuple(mask_with(p, data, sizes) for p in mask.parts))
    _verify(mask, sizes, None)
    return mask


def _lower(lowered: Lowered, body: ir.MaskBody) -> LoweredMask:
    match body:
        case ir.FormMask():
            return _form(lowered, body)
        case ir.Listed():
            return _listed(lowered, body)
        case ir.Independent():
            return _independent(lowered, body)
        case ir.MaskMixture():
            weights = np.array([lowered.bound.number(w) for w, _ in body.rows])
            weights = normalised(weights, body.span)
            kept = [(w, part) for w, (_, part) in zip(weights, body.rows, strict=True) if w > 0]
            parts = each(lambda part: _lower(lowered, part), [part for _, part in kept])
            return MixtureMask(np.array([w for w, _ in kept]), tuple(parts), body.span)


def normalised(weights: Array, span: Span) -> Array:
    """Weights of a mixture, which must be finite, not negative and not all zero, divided by their sum."""
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        message, found = "the weights of a mixture must be finite, not negative and not all zero", ", ".join(f"{w:g}" for w in weights)
        raise fail("E409", message, span, f"weights {found}", help="only their ratios count: `1` in every row is the same share for each")
    return weights / weights.sum()


def _cells_of(lowered: Lowered, variables: tuple[str, ...]) -> Array:
    parts = [lowered.graph.variable(v).positions.ravel() for v in variables]
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _form(lowered: Lowered, body: ir.FormMask) -> LoweredMask:
    cells, arguments, bound = _cells_of(lowered, body.variables), body.call.arguments, lowered.bound
    match body.call.form.name:
        case "subsets":
            size = bound.integer(arguments["size"])  # type: ignore[arg-type]
            if not 1 <= size <= len(cells):
                help = f"`size` is 1 to {len(cells)} here"
                raise fail("E410", f"there is no subset of {size} among {len(cells)} cells", body.span, "an empty support", help=help)
            return SubsetMask(cells, size, body.span)
        case "everything":
            return ListedMask(cells[None, :].astype(np.int32), np.ones(1), (), (), body.span)
        case "percolation":
            return _percolation(lowered, body)
        case "bernoulli":
            return _bernoulli(lowered, cells, arguments["rate"], body.span)
        case other:
            message = f"`{other}` depends on what a network gives the present values: it has no distribution of its own"
            raise fail("E316", message, body.span, "only in an update")


def _percolation(lowered: Lowered, body: ir.FormMask) -> PercolationMask:
    """The edges, each once, and their cells, which all have the same values."""
    found = [blocks for blocks, turns in each(lambda term: term_blocks(lowered, term), body.edges) if turns.n]
    if not found:
        raise fail("E410", "this mask has no edge", body.span, "an empty support", help="check the conditions of its loops")
    edges = np.unique(np.concatenate(found), axis=0)
    graph, cells = lowered.graph, np.unique(edges)
    labels = {(v.kind, v.labels): v.name for v in graph.variables if ((v.offset <= cells) & (cells < v.offset + v.size)).any()}
    if len(labels) > 1:
        names = " and ".join(f"`{name}`" for name in labels.values())
        help = "write one `percolation(..)` for each variable, in updates of their own"
        raise fail("E418", f"the cells of {names} have different values: no exchange moves them together", body.span, help=help)
    return PercolationMask(edges, cells, body.span)


def _bernoulli(lowered: Lowered, cells: Array, rate: object, span: Span) -> BernoulliMask:
    ends = tuple(lowered.bound.number(r) for r in (rate if isinstance(rate, tuple) else (rate,)))  # pyright: ignore[reportArgumentType]
    if any(not 0 <= r <= 1 for r in ends) or ends[0] > ends[-1]:
        raise fail("E409", f"a rate lies between 0 and 1, found {', '.join(f'{r:g}' for r in ends)}", span, "not a probability")
    if ends[-1] == 0:
        raise fail("E410", "a mask of rate 0 never hides a cell", span, "an empty support", help="write a rate above 0, such as 0.15")
    if len(ends) == 2 and ends[0] < ends[1]:
        return BernoulliMask(cells, None, (ends[0], ends[1]), span)
    return BernoulliMask(cells, np.full(len(cells), ends[0]), None, span)


def term_blocks(lowered: Lowered, term: ir.BlockTerm) -> tuple[Array, Turns]:
    """The blocks of one term, one row per turn, positions ascending and padded; and the turns.

    Raises:
        GmlmError: if a block holds a cell twice, or an index leaves its range.
    """
    turns = unroll(term.clauses, lowered.bound)
    rows = {n: loop.over for loop in term.clauses.loops for n in loop.names if loop.over.lists_cells}
    parts = each(lambda c: _term_cells(lowered, c, turns, rows), term.cells)
    if turns.n * sum(p.shape[1] for p in parts) > MOST_BLOCK_ENTRIES:
        raise fail("E412", f"{turns.n:,} blocks are too many to list", term.span, "too large")
    blocks = np.sort(np.concatenate([np.broadcast_to(p, (turns.n, p.shape[1])) for p in parts], axis=1), axis=1)
    twice = (blocks[:, 1:] == blocks[:, :-1]).any(axis=1) if blocks.shape[1] > 1 else np.zeros(len(blocks), bool)
    if twice.any():
        row = blocks[np.argmax(twice)]
        name = lowered.graph.cell_name(int(row[1:][row[1:] == row[:-1]][0]))
        help = "each cell stands in a block once: leave the turns out in which two of its cells are one, by `if i != j`"
        raise fail("E411", f"a block holds the cell `{name}` twice", term.span, "a cell twice", help=help)
    return blocks.astype(np.int32), turns


def _term_cells(lowered: Lowered, cells: ir.Cells, turns: Turns, rows: dict[str, ir.SetOf]) -> Array:
    v = lowered.names.variables[cells.variable]
    if cells.indices is None:
        return v.positions.reshape(1, -1)
    lowering, at, position = Lowering(lowered.bound, lowered.names), 0, np.full((1, 1), v.offset, np.int64)
    axes = [a.over for a in lowered.names.model.variables[cells.variable].axes]
    lengths = [lowering.ends(over) if over.arity == 2 else v.shape[k] for k, over in enumerate(axes) for _ in range(over.arity)]
    wanted = zip(cells.indices, lengths, strict=True)
    found = each(lambda index: _term_index(index[0], index[1], v.name, lowered.bound, turns, rows), wanted)
    for k, over in enumerate(axes):
        ends = found[at : at + over.arity]
        place = lowering.edge(over, ends[0], ends[1], turns, ir.Literal(cells.span, 0)) if over.arity == 2 else ends[0]
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
    """Sums of two families of rows: every member of one with every member of the other."""
    return (a[:, :, None] + b[:, None, :]).reshape(max(len(a), len(b)), -1)


def padded_blocks(parts: list[Array], n_cells: int) -> Array:
    """Families of blocks as one array, padded to the widest."""
    width = max((p.shape[1] for p in parts), default=1)
    return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=n_cells) for p in parts])


def _listed(lowered: Lowered, body: ir.Listed) -> ListedMask:
    found = [(b, g) for b, g, n in each(lambda part: _weighted(lowered, *part), body.terms) if n]
    if not found:
        raise fail("E410", "this mask has no block", body.span, "an empty support", help="check the conditions of its loops")
    if body.uniform:
        blocks = np.unique(padded_blocks([b for b, _ in found], lowered.graph.n_cells), axis=0)
        return ListedMask(blocks, np.full(len(blocks), 1 / len(blocks)), (), (), body.span)
    kept = [(b, g) for b, g in found if g is not None and g.n]
    if not kept:
        raise fail("E410", "all weights of this mask are 0", body.span, "an empty support", help="give some block a weight above 0")
    blocks, inverse = np.unique(padded_blocks([b for b, _ in kept], lowered.graph.n_cells), axis=0, return_inverse=True)
    groups, ends = tuple(g for _, g in kept), np.cumsum([g.n for _, g in kept])
    block_of = tuple(inverse.reshape(-1)[e - g.n : e] for e, g in zip(ends, groups, strict=True))
    if all(_is_fixed(g) for g in groups):
        weights = np.zeros(len(blocks))
        for g, b in zip(groups, block_of, strict=True):
            np.add.at(weights, b, fixed_values(g))
        return ListedMask(blocks, weights / weights.sum(), (), (), body.span)
    return ListedMask(blocks, None, groups, block_of, body.span)


def _weighted(lowered: Lowered, term: ir.BlockTerm, weight: ir.Expression | None) -> tuple[Array, FactorGroup | None, int]:
    """The blocks of a term, their weights where it has some, and its number of turns."""
    blocks, turns = term_blocks(lowered, term)
    return (blocks, None, turns.n) if weight is None or not turns.n else (*_live(lowered, blocks, weight, turns, "weight"), turns.n)


def _live(lowered: Lowered, blocks: Array, weight: ir.Expression, turns: Turns, kind: str) -> tuple[Array, FactorGroup]:
    """A term's blocks and weights, without those that are 0 whatever the cells hold: they are in nobody's support."""
    lowering = Lowering(lowered.bound, lowered.names)
    group = lowering.group(lowering.lower(weight, turns), turns, kind, weight.span)
    none = lowered.graph.n_cells
    verify_weights(group, lowering.slot_sizes, none, 1.0 if kind == "rate" else math.inf)
    rows = np.flatnonzero(alive(group, lowering.slot_sizes, none))
    return blocks[rows], group if len(rows) == group.n else group.take(rows)


def _is_fixed(group: FactorGroup) -> bool:
    return group.cells.shape[1] == 0 and not group.parameters


def _independent(lowered: Lowered, body: ir.Independent) -> BernoulliMask | IndependentMask:
    found = each(lambda part: (*term_blocks(lowered, part[0]), part[1]), body.terms)
    _verify_distinct(lowered, [b.ravel() for b, t, _ in found if t.n], body)
    kept = []
    for blocks, turns, rate in found:
        if turns.n:
            width = blocks.shape[1]
            spread = Turns({k: np.repeat(v, width) for k, v in turns.names.items()}, turns.n * width, 0, turns.taken)
            kept.append(_live(lowered, blocks.reshape(-1, 1), rate, spread, "rate"))
    kept = [(b[:, 0], g) for b, g in kept if g.n]
    if not kept:
        raise fail("E410", "all rates of this mask are 0", body.span, "an empty support", help="give some cell a rate above 0")
    cells = np.sort(np.concatenate([c for c, _ in kept]))
    places = tuple(np.searchsorted(cells, c) for c, _ in kept)
    if all(_is_fixed(g) for _, g in kept):
        rates = np.zeros(len(cells))
        for place, (_, g) in zip(places, kept, strict=True):
            rates[place] = fixed_values(g)
        return BernoulliMask(cells, rates, None, body.span)
    return IndependentMask(cells, tuple(g for _, g in kept), places, body.span)


def _verify_distinct(lowered: Lowered, parts: list[Array], body: ir.Independent) -> None:
    if not parts:
        raise fail("E410", "this mask names no cell", body.span, "an empty support", help="check the conditions of its loops")
    cells, counts = np.unique(np.concatenate(parts), return_counts=True)
    if (counts > 1).any():
        name = lowered.graph.cell_name(int(cells[np.argmax(counts > 1)]))
        help = "leave it out of one of the two, by `if` behind the loop"
        raise fail("E411", f"`{name}` is drawn twice: a cell has one rate", body.span, "a cell twice", help=help)


def verify_mask(mask: LoweredMask, sizes: Array, params: Mapping[str, Array]) -> None:
    """Judge weights and rates that mention parameters, at given parameters; `sizes` are the numbers of values of the cells.

    Raises:
        GmlmError: E409 with the number found.
    """
    _verify(mask, sizes, params)


def _verify(mask: LoweredMask, sizes: Array, params: Mapping[str, Array] | None) -> None:
    """Judge what mentions parameters, or without `params` what mentions given variables alone."""
    match mask:
        case ListedMask():
            groups, at_most = mask.weights, math.inf
        case IndependentMask():
            groups, at_most = mask.rates, 1.0
        case MixtureMask():
            for part in mask.parts:
                _verify(part, sizes, params)
            return
        case _:
            return
    for group in groups:
        if group.parameters if params is not None else group.given is not None:
            verify_weights(group, np.append(sizes, 1)[group.cells].max(axis=0).tolist(), len(sizes), at_most, params)
