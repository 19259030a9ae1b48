"""Warnings that depend on sizes; each is proved.

They concern factors that reach -inf, cells that a mask never hides, and cells that a sampler never
moves, and requirements that always or never hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, Span, fail, listed, name_in
from ..graph import FactorGraph, FactorGroup, Lowered, Passes, passes_of, refinement
from ..graph.nodes import Add, Apply, CellValue, Column, Constant, Node, evaluate, nodes_in, numpy_leaves
from ..masks import AbstractMask, lower_mask, visits_of
from ..program import AUTOREGRESSIVE, Program, autoregressive_options, ir, is_decoder, reasons_against, reasons_unlike_p, used_bodies
from ._model_lints import lint_dead, lint_directed, lint_gauges, lint_redundant
from ._partial_sums import never_holds
from ._updates import sweep_blocks
from .limits import MOST_LINTED_BLOCKS, MOST_LINTED_INSTANCES, MOST_LINTED_JOINT, MOST_LINTED_STATES

Array = np.ndarray


def lint_sizes(lowered: Lowered, program: Program, name: str) -> Iterator[Diagnostic]:
    """Yield the warnings of a model and its masks and samplers that depend on sizes.

    These are W815 and W820 to W824 of the model, and W811, W812, W822 and W828 of masks and
    samplers that compile. The checker, which needs no sizes, reports a variable that a mask or
    sampler leaves out as a whole.

    Args:
        lowered: the lowered model.
        program: the program.
        name: the name of the model.
    """
    yield from lowered.notes
    if lowered.graph.network is None:
        yield from lint_dead(lowered, program)
        yield from lint_directed(lowered)
        yield from lint_redundant(lowered)
        yield from lint_gauges(lowered)
        yield from lint_requires(lowered)
        yield from lint_moves(lowered, program, name)
    yield from _lint_reach(lowered, program, name)
    for sampler in program.samplers.values():
        if sampler.model == name and sampler.call is not None and lowered.graph.network is None:
            yield from _lint_draws(lowered, sampler, sampler.call)
        if sampler.model == name and sampler.call is None and ir.start_of(sampler.kernels) is None:
            try:
                cells = moved_cells(lowered, sampler.kernels)
            except GmlmError:
                continue
            yield from _left_out(lowered, program.models[name], cells, "W812", f"sampler `{sampler.name}` never moves", sampler)


def _lint_reach(lowered: Lowered, program: Program, name: str) -> Iterator[Diagnostic]:
    """Yield W811 for masks that never hide some cells of a variable."""
    used = used_bodies(program)
    for mask in program.masks.values():
        if mask.model != name or any(mask.body is body for body in used):
            continue
        try:
            of = lower_mask(lowered, mask)
        except GmlmError:
            continue
        cells = np.union1d(of.reach, of.looked_at)  # A mask may look at cells in order to leave them out.
        yield from _left_out(lowered, program.models[name], cells, "W811", f"mask `{mask.name}` never hides", mask)


def _lint_draws(lowered: Lowered, sampler: ir.Sampler, call: ir.FormCall) -> Iterator[Diagnostic]:
    """Yield W828 for a decoder of a joint distribution whose output is no draw from it."""
    if call.form is AUTOREGRESSIVE and autoregressive_options(call)["decode"] == "argmax":
        yield _likeliest(sampler)
    if not is_decoder(call):
        return
    try:
        options = refinement(call, lowered.bound)
        passes = passes_of(call, options, sum(v.size for v in lowered.graph.observed))
    except GmlmError:
        return
    how = _settling(options, passes)
    why = reasons_unlike_p(options, max((len(v.labels) for v in lowered.graph.observed), default=0))
    if options["decode"] == "argmax":
        yield _likeliest(sampler)
        return
    lost = _path_divergence(lowered, sampler) if how and not why else None
    reported = not how and set(why) <= {"`confidence = margin`"}  # by W826, if at all
    if reported or (lost is not None and lost < 1e-12):
        return
    said, verb = how or next(iter(why.values())), ("do", "need")[lost is None]
    message = f"sampler `{sampler.name}` {said}: its draws {verb} not follow p"
    message += ", and may violate a `require`" * bool(how and lowered.graph.requires)
    law = f'`gm.theory.output_law(model, params, sampler="{sampler.name}").kl()`'
    cure = " with ".join(["one cell in each pass"] * bool(how) + [*why]) + " draws from p"
    help = f"{law} says how far; {cure}"
    if lost is not None:
        message += f"; path divergence {lost:.3g} nats"
        help = f"KL(p || draws), at most that, is {law}; {cure}"
    yield Diagnostic("W828", message, name_in(sampler.span, sampler.name), "not from p", (), help)


def _joint_table(graph: FactorGraph) -> Array | None:
    """Return p of all joint values, with an axis for each random cell.

    The result is None if p depends on parameters or given data, or has too many values.
    """
    groups, cells = (*graph.factors, *graph.requires), np.arange(graph.n_random)
    states = joint_states(cells, graph)
    few = sum(g.n for g in groups) <= MOST_LINTED_INSTANCES
    if states is None or len(states) > MOST_LINTED_STATES or not few or any(g.given is not None or g.parameters for g in groups):
        return None
    log_p = np.zeros(len(states))
    for g in groups:
        found = [values_at_states(g.take(np.array([k])), cells, states) for k in range(g.n)]
        log_p += sum(np.where(f, 0.0, -np.inf) if g.kind == "require" else f for f in found)
    p = np.exp(log_p - log_p.max()) if np.isfinite(log_p.max()) else None
    return None if p is None else (p / p.sum()).reshape(graph.sizes[cells])


def _path_divergence(lowered: Lowered, sampler: ir.Sampler) -> float | None:
    """Return E B - H(p) of a decoder with the exact conditionals, which bounds KL(p || draws), in nats.

    B bounds -log p of the draws: it is the sum over the visits of the decoder, each with its
    weight, of -log p(x_i | x_V) of each scored cell i, V the visible cells. The mean under p of a
    term is H(x_i, x_V) - H(x_V). The result is None if p depends on parameters or given data, if
    its joint values or the visits are many, or if the places depend on values.
    """
    p = None if next(reasons_against(sampler), None) is not None else _joint_table(lowered.graph)
    if p is None:
        return None
    mask = visits_of(lowered, sampler, sampler.span)
    if not mask.is_listable or mask.support_size > MOST_LINTED_STATES:
        return None
    known: dict[bytes, float] = {}

    def entropy(seen: Array) -> float:
        if seen.tobytes() not in known:
            q = p.sum(axis=tuple(np.flatnonzero(~seen)))
            known[seen.tobytes()] = -float((q * np.log(np.where(q > 0, q, 1.0))).sum())
        return known[seen.tobytes()]

    cells = np.arange(p.ndim)
    decoded = np.isin(cells, mask.cells)
    total = -entropy(decoded)
    for hidden, scored, weight in zip(*mask.scored_blocks(), strict=True):
        seen = decoded & ~hidden[cells]
        total += weight * sum(entropy(seen | (cells == i)) - entropy(seen) for i in np.flatnonzero(scored))
    return total


def _likeliest(sampler: ir.Sampler) -> Diagnostic:
    message = f"sampler `{sampler.name}` takes the most probable value of each cell that it settles: its output is not a draw from p"
    help = "`decode = sample` draws the values; `model.map(..)` finds a most probable configuration"
    return Diagnostic("W828", message, name_in(sampler.span, sampler.name), "not from p", (), help)


def _settling(options: Mapping[str, Any], passes: Passes) -> str:
    """Return how a decoder settles cells, in words; empty for one cell in each pass."""
    if passes.settles is not None or options["remask"] != "none":
        return "settles and hides again each cell on its own"
    if passes.open_after is None:
        return "may settle several cells in one pass, each on its own"
    most = int((passes.open_after[-1, :-1] - passes.open_after[-1, 1:]).max())
    return f"settles {most} cells in one pass, each on its own" * (most > 1)


def lint_conditional(lowered: Lowered, masks: Iterable[tuple[ir.Mask, AbstractMask]], block: Array) -> Iterator[Diagnostic]:
    """Yield W901 if only adaptive masks draw a block (distinct positions, ascending).

    The block may have other uses, so this is only a warning.
    """
    drawing = [(mask, of) for mask, of in masks if of.can_draw(block)]
    if drawing and all(of.is_adaptive for _, of in drawing):
        mask, _ = drawing[0]
        names = ", ".join(lowered.graph.cell_name(int(c)) for c in block)
        message = f"p(x_K | x_rest) of {{{names}}} does not go with mask `{mask.name}`, which looks at x and draws this block"
        help = f'for a step after `{mask.name}` ask for `mask="{mask.name}"`: p(x_K | x_rest, K) keeps p, the plain one does not'
        yield Diagnostic("W901", message, name_in(mask.span, mask.name), "looks at x", (), help)


def moved_cells(lowered: Lowered, body: Iterable[ir.Kernel]) -> Array:
    """Return the cells that the updates of a sampler's body can redraw."""

    def redrawn(update: ir.Sweep | ir.RandomUpdate) -> Array:
        return update.either(lambda u: np.unique(sweep_blocks(lowered, u.blocks)), lambda u: lower_mask(lowered, u.mask).reach)

    return np.concatenate([redrawn(update) for update in ir.updates_in(body)])


def verify_moves_all(lowered: Lowered, sampler: ir.Sampler) -> None:
    """Raise if a sampler that is given by updates never moves some cells.

    Raises:
        GmlmError: E704 with the cells.
    """
    left = np.setdiff1d(np.arange(lowered.graph.n_random), moved_cells(lowered, sampler.body))  # type: ignore[arg-type]
    if len(left):
        names = listed([lowered.graph.cell_name(int(c)) for c in left], 3)
        message = f"sampler `{sampler.name}` never moves {names}: its chains do not follow the model"
        raise fail("E704", message, sampler.span, "does not move every cell", help="add an `update` of them, or name another sampler")


def _left_out(
    lowered: Lowered, model: ir.Model, cells: Array, code: str, words: str, declared: ir.Mask | ir.Sampler
) -> Iterator[Diagnostic]:
    for variable in lowered.graph.variables:
        positions = variable.positions.ravel()
        missed = np.setdiff1d(positions, cells)
        if 0 < len(missed) < len(positions):
            names = listed([lowered.graph.cell_name(int(c)) for c in missed], 3)
            message = f"{words} {names}, of {len(positions)} cells of `{variable.name}`"
            place = ((name_in(model.variables[variable.name].span, variable.name), "declared here"),)
            help = "does a loop end too early?"
            if code == "W811":
                help += " if they are left out on purpose, write `# gmlm: allow W811` behind the mask"
            yield Diagnostic(code, message, name_in(declared.span, declared.name), "not all cells", place, help)


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
        cells = [set(row[row < lowered.graph.n_cells].tolist()) for part in blocks for row in part]
        met = set().union(*cells)
        stuck = sorted(met.difference(*(_movable(block, fixed_by) for block in cells)))
        if stuck:
            yield _stuck(lowered, sampler, stuck, fixed_by[stuck[0]][0][1], len(stuck) == len(met))


def _movable(block: set[int], fixed_by: Mapping[int, Sequence[tuple[set[int], Span]]]) -> set[int]:
    """Return the cells of a block that can change together with others of the block."""
    return {c for c in block if not any(scope & block == {c} for scope, _ in fixed_by.get(c, ()))}


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
