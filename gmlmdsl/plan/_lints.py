"""Warnings that depend on sizes; each is proved.

They concern factors that reach -inf, cells that a mask never hides, and cells that a sampler never
moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, fail, listed, name_in
from ..graph import FactorGraph, Lowered, Passes, passes_of, refinement
from ..masks import AbstractMask, lower_mask, visits_of
from ..program import AUTOREGRESSIVE, Program, autoregressive_options, ir, is_decoder, reasons_against, used_bodies
from ._model_lints import lint_dead, lint_directed, lint_gauges, lint_redundant
from ._require_lints import joint_states, lint_moves, lint_requires, values_at_states
from ._updates import sweep_blocks
from .limits import MOST_LINTED_INSTANCES, MOST_LINTED_STATES

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
    if not how:
        return
    if options["decode"] == "argmax":
        yield _likeliest(sampler)
        return
    lost = _path_divergence(lowered, sampler) if options["temperature"] == 1 else None
    if lost is not None and lost < 1e-12:
        return
    message = f"sampler `{sampler.name}` {how}: its draws do not follow p"
    message += ", and may violate a `require`" * bool(lowered.graph.requires)
    law = f'`gm.theory.output_law(model, params, sampler="{sampler.name}").kl()`'
    help = f"{law} says how far; one cell in each pass draws from p"
    if lost is not None:
        message += f"; path divergence {lost:.3g} nats"
        help = f"KL(p || draws), at most that, is {law}; one cell in each pass draws from p"
    yield Diagnostic("W828", message, name_in(sampler.span, sampler.name), "not from p", (), help)


def _joint_table(graph: FactorGraph) -> Array | None:
    """Return p of all joint values, with an axis for each random cell.

    The result is None if p depends on parameters or given data, or has too many values.
    """
    groups, cells = (*graph.factors, *graph.requires), np.arange(graph.n_random)
    states = joint_states(cells, graph)
    known = states is not None and len(states) <= MOST_LINTED_STATES and sum(g.n for g in groups) <= MOST_LINTED_INSTANCES
    if states is None or not known or any(g.given is not None or g.parameters for g in groups):
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
    message = f"sampler `{sampler.name}` takes the most probable value of each cell that it settles: its output is no draw from p"
    help = "`decode = sample` draws the values; `model.map(..)` finds a most probable configuration"
    return Diagnostic("W828", message, name_in(sampler.span, sampler.name), "not from p", (), help)


def _settling(options: Mapping[str, Any], passes: Passes) -> str:
    """Return how a decoder settles cells, in words; empty if it draws one cell in each pass."""
    if passes.settles is not None or options["remask"] != "none":
        return "settles and hides again each cell on its own"
    if passes.open_after is None:
        return "may settle several cells in one pass, each on its own"
    most = int((passes.open_after[-1, :-1] - passes.open_after[-1, 1:]).max())
    if most > 1:
        return f"settles {most} cells in one pass, each on its own"
    return "settles one cell in each pass" if options["decode"] == "argmax" else ""


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
            names = listed([lowered.graph.cell_name(int(c)) for c in missed[:3]]) + (
                f" and {len(missed) - 3} more" if len(missed) > 3 else ""
            )
            message = f"{words} {names}, of {len(positions)} cells of `{variable.name}`"
            place = ((name_in(model.variables[variable.name].span, variable.name), "declared here"),)
            help = "does a loop end too early?"
            if code == "W811":
                help += " if they are left out on purpose, write `# gmlm: allow W811` behind the mask"
            yield Diagnostic(code, message, name_in(declared.span, declared.name), "not all cells", place, help)
