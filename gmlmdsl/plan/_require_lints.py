"""Warnings about requirements that depend on sizes.

They concern requirements that no configuration satisfies, and samplers that cannot move under
requirements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, Span, listed, name_in
from ..graph import FactorGraph, FactorGroup, Lowered
from ..graph.nodes import Add, Apply, CellValue, Column, Constant, Node, evaluate, nodes_in, numpy_leaves
from ..masks import lower_mask
from ..program import Program, ir
from ._partial_sums import never_holds
from ._updates import sweep_blocks
from .limits import MOST_LINTED_BLOCKS, MOST_LINTED_INSTANCES, MOST_LINTED_JOINT

Array = np.ndarray
ZERO = "p is zero everywhere: nothing can be fitted or drawn; drop one of what is required"


def lint_requires(lowered: Lowered) -> Iterator[Diagnostic]:
    """Yield W821 if no configuration satisfies the requirements of a model.

    Requirements are tried one by one and then, if their cells have few joint values, together.
    """
    groups = [g for g in lowered.graph.requires if g.given is None and not g.parameters]
    if not groups or sum(g.n for g in groups) > MOST_LINTED_INSTANCES:
        return
    rows = [g.take(np.array([k])) for g in groups for k in range(g.n)]
    for g in rows:
        holds = _holds(g, lowered.graph)
        if never_holds(g, lowered.graph) if holds is None else not holds.any():
            yield Diagnostic("W821", "no configuration satisfies this `require`", g.span, "never holds", help=ZERO)
            return
    cells = np.unique(np.concatenate([g.cells.ravel() for g in rows]))
    cells = cells[cells < lowered.graph.n_cells]
    states = joint_states(cells, lowered.graph)
    if states is None:
        return
    left = np.ones(len(states), bool)
    spans: list[Span] = []
    for g in rows:
        after = left & values_at_states(g, cells, states).astype(bool)
        spans += [g.span] if (after != left).any() and g.span not in spans else []
        left = after
        if not left.any():
            related = tuple((s, "and this one") for s in spans[:-1][:4])
            yield Diagnostic("W821", "no configuration satisfies these requirements", spans[-1], "contradicts", related, ZERO)
            return


def joint_states(cells: Array, graph: FactorGraph) -> Array | None:
    """Return all joint codes of cells, shape (states, cells), or None if there are too many."""
    sizes = graph.sizes[cells].tolist()
    if not 0 < np.prod([float(s) for s in sizes]) <= MOST_LINTED_JOINT:
        return None
    return np.stack(np.unravel_index(np.arange(int(np.prod(sizes, dtype=np.int64))), tuple(sizes) or (1,)), axis=1)[:, : len(cells)]


def _holds(group: FactorGroup, graph: FactorGraph) -> Array | None:
    """Return whether a requirement of one instance holds, for all values of its cells.

    The result is None if there are too many values.
    """
    cells = np.unique(group.cells)
    cells = cells[cells < graph.n_cells]
    states = joint_states(cells, graph) if len(cells) else np.zeros((1, 0), int)
    return None if states is None else values_at_states(group, cells, states).astype(bool)


def values_at_states(group: FactorGroup, cells: Array, states: Array) -> Array:
    """Return a factor or requirement of one instance at joint values of some cells."""
    place = {int(c): k for k, c in enumerate(cells)}
    codes = {s: states[:, place[int(c)]] if int(c) in place else np.zeros(len(states), int) for s, c in enumerate(group.cells[0])}
    leaves = numpy_leaves(group.columns, group.tables, codes, slice(0, 1))
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(evaluate(group.root, leaves)), (1, len(states)))[0]


def lint_moves(lowered: Lowered, program: Program, name: str) -> Iterator[Diagnostic]:
    """Yield W822 for cells that no update of a sampler can change.

    A `require` may fix a sum of cells, or demand that q cells of q values differ from one another.
    A cell cannot change if each block of the sampler contains no other cell of such a sum or set.
    """
    bound = lambda c: _determined(c) or _differing(c)  # noqa: E731
    groups = [g for g in lowered.graph.requires if g.given is None and any(map(bound, _conditions(g.root)))]
    if not groups or sum(g.cells.size for g in groups) > MOST_LINTED_BLOCKS:
        return
    fixed_by = _fixed(groups, lowered.graph.n_cells)
    for cell, scopes in _permuted(groups, lowered.graph).items():
        fixed_by.setdefault(cell, []).extend(scopes)
    for sampler in program.samplers.values():
        if sampler.model != name or not isinstance(sampler.body, tuple):
            continue
        blocks = _blocks(lowered, sampler.body)
        if blocks is None or sum(map(len, blocks)) > MOST_LINTED_BLOCKS:
            continue
        met, moved = set(), set()
        for block in (set(row[row < lowered.graph.n_cells].tolist()) for part in blocks for row in part):
            met |= block
            moved |= {c for c in block if not any(scope & block == {c} for scope, _ in fixed_by.get(c, ()))}
        stuck = sorted(met - moved)
        if stuck:
            yield _stuck(lowered, sampler, stuck, fixed_by[stuck[0]][0][1], len(stuck) == len(met))


def _stuck(lowered: Lowered, sampler: ir.Sampler, stuck: Sequence[int], require: Span, whole: bool) -> Diagnostic:
    names = listed([lowered.graph.cell_name(c) for c in stuck], 3)
    message = (
        f"sampler `{sampler.name}` can never move {'a cell' if whole else names}: what a `require` fixes needs two cells to move at once"
    )
    related = ((require, "given the other cells, one value is left"),)
    help = "update blocks of two cells or more, such as `update {x[i], x[j]}` for pairs, or whole variables: `update x`"
    return Diagnostic("W822", message, name_in(sampler.span, sampler.name), "stays where it starts", related, help)


def _fixed(groups: Sequence[FactorGroup], n_cells: int) -> dict[int, list[tuple[set[int], Span]]]:
    """Return for each cell the requirements that determine it given their other cells.

    Each requirement comes as its cells and its place in the text. A cell that is determined alone,
    as by `x[0] == 1`, is left out, because it is meant to stay fixed.
    """
    found: dict[int, list[tuple[set[int], Span]]] = {}
    for group in groups:
        for condition in _conditions(group.root):
            determined, here = _determined(condition), _slots(condition)
            for row in group.cells.tolist():
                cells = [row[s] for s in here]
                scope = {c for c in cells if c < n_cells}
                for slot in determined:
                    if cells.count(row[slot]) == 1 and len(scope) > 1:
                        found.setdefault(row[slot], []).append((scope, group.span))
    return found


def _permuted(groups: Sequence[FactorGroup], graph: FactorGraph) -> dict[int, list[tuple[set[int], Span]]]:
    """Return for each cell the sets of q cells of q values that differ from one another.

    The values of such a set are a permutation, so each cell is determined by the others. Sets are
    grown from each pair by the neighbour that leaves the most, so that some may be missed.
    """
    apart: dict[int, set[int]] = {}
    place: dict[tuple[int, int], Span] = {}
    for group in groups:
        for a, b in filter(None, map(_differing, _conditions(group.root))):
            for i, j in group.cells[:, [a, b]].tolist():
                if i != j and graph.sizes[i] == graph.sizes[j]:
                    apart.setdefault(i, set()).add(j)
                    apart.setdefault(j, set()).add(i)
                    place[min(i, j), max(i, j)] = group.span
    found: dict[int, list[tuple[set[int], Span]]] = {}
    known: set[frozenset[int]] = set()
    for (i, j), span in place.items():
        if any(i in s and j in s for s in known) or graph.sizes[i] > len(apart[i]) + 1:
            continue
        members, left = {i, j}, apart[i] & apart[j]
        while left:
            best = max(sorted(left), key=lambda c: len(left & apart[c]))
            members.add(best)
            left &= apart[best]
        if len(members) == graph.sizes[i]:
            known.add(frozenset(members))
            for c in members:
                found.setdefault(c, []).append((members, span))
    return found


def _differing(condition: Node) -> tuple[int, int] | None:
    """Return the two slots of a condition that two cells of like values differ, else None."""
    match condition:
        case Apply(operator="!=", operands=(CellValue() as a, CellValue() as b)):
            pass
        case Apply(operator="not", operands=(Apply(operator="==", operands=(CellValue() as a, CellValue() as b)),)):
            pass
        case _:
            return None
    return (a.start, b.start) if not a.shape and not b.shape and a.scale == b.scale else None


def _conditions(root: Node) -> list[Node]:
    """Return the operands that a requirement joins by `and`."""
    return [c for o in root.operands for c in _conditions(o)] if isinstance(root, Apply) and root.operator == "and" else [root]


def _determined(condition: Node) -> set[int]:
    """Return the slots whose value a condition determines, given the values of all other slots.

    At most one value then satisfies the condition.
    """
    match condition:
        case Apply(operator="==", operands=(left, right)):
            return (_injective(left) - _slots(right)) | (_injective(right) - _slots(left))
    return set()


def _injective(node: Node) -> set[int]:
    """Return the slots whose value follows from the value of a tree and all other slots.

    These are the slots of sums of cells, times numbers other than 0.
    """
    match node:
        case CellValue():
            return set(range(node.start, node.start + int(np.prod(node.shape, dtype=np.int64))))
        case Apply(operator="+" | "-", operands=(left, right)):
            return (_injective(left) - _slots(right)) | (_injective(right) - _slots(left))
        case Apply(operator="*"):
            number = [o for o in node.operands if isinstance(o, Constant) and o.value]
            return _injective(next(o for o in node.operands if o not in number)) if len(number) == 1 else set()
        case Apply(operator="neg" | "spin" | "bit"):
            return _injective(node.operands[0])
        case Add(mask=Column(), operator="+"):
            return _injective(node.body)
    return set()


def _slots(node: Node) -> set[int]:
    return {s for n in nodes_in(node) if isinstance(n, CellValue) for s in range(n.start, n.start + int(np.prod(n.shape, dtype=np.int64)))}


def _blocks(lowered: Lowered, body: Sequence[ir.Kernel]) -> list[Array] | None:
    """Return every block of a sampler's updates, or None if some blocks are not listed."""
    out: list[Array] = []
    try:
        for update in ir.updates_in(body):
            found = update.either(lambda u: [sweep_blocks(lowered, u.blocks)], lambda u: lower_mask(lowered, u.mask).written_blocks())
            if found is None:
                return None
            out += found
    except GmlmError:
        return None
    return out
