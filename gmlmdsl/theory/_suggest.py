"""Suggested masks for a model as program text, with the best mask first."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import GmlmError, fail
from .._types import Given
from ..data import generator, verified_seed
from ..evaluate import masks_per_row
from ..graph import FactorGraph, Lowered, joint_count
from ..masks import AbstractMask
from ..model import Fit
from ..plan import plan_mask, verify_affordable
from ..syntax import format_source
from ._clusters import strong_clusters
from ._compare_masks import MaskComparison, Means, comparison_of, rows_of
from ._configurations import configurations
from ._mask_candidates import Candidate, candidates
from ._mask_report import MaskReport
from .limits import LIKELY_CONFIGURATIONS, MOST_BLOCK_VALUES, MOST_STATES, MOST_SUGGESTED_WORK, RANKING_STEP

if TYPE_CHECKING:
    from ..model import Model, Params

Array = np.ndarray


class MaskSuggestions(str):
    """Masks as `.gmlm` text, the best first: a str with the comparison that ranked them.

    Attributes:
        comparison: the table.
        names: the names of the masks in order.
        left_out: candidates that were not compared, each with the reason.
    """

    comparison: MaskComparison
    names: tuple[str, ...]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        return str(self)


def suggest_masks(
    model: Model,
    params: Params | None = None,
    *,
    draws: int | None = None,
    sampler: str | None = None,
    seed: int = 0,
    given: Given | None = None,
    measure: bool = True,
) -> MaskSuggestions:
    """Suggest masks from the model's graph, ranked, as text to paste after the model.

    Candidates are

    - subsets of cells,
    - pairs that share a factor, both plain and adaptive (a pair is more probable the more its
      values agree),
    - strong clusters,
    - rows and columns of grids,
    - forests,
    - all cells.

    A cluster is found by exact local analysis: the influences of cells on one another, and the
    Poincare constant of single-cell moves in the cluster.

    Candidates are ranked by the variance of a fit with default options. Candidates within 10 % of
    one another are ranked by the time of a gradient.

    Args:
        model: a model, or a fit (then `params` are its estimates).
        params: parameters.
        draws: the number of draws for estimates; None computes exact numbers if possible, see
            `compare_masks`.
        sampler: the sampler for the draws.
        seed: the seed of the draws.
        given: one row of data of given variables.
        measure: whether gradients and steps are timed. Otherwise masks of similar variance are
            ranked by the size of their blocks.

    Returns:
        A str of `mask` statements, each with a comment, which pass the checker as they stand. Its
            `comparison` has the numbers. A mask of listed blocks comes with a sampler that redraws
            the blocks in turn. Per step this sampler forgets more than one that draws a block from
            the mask.

    Raises:
        GmlmError: as `compare_masks`.
    """
    if isinstance(model, Fit):
        params, model = model.params if params is None else params, model.model
    if params is None:
        raise fail("E507", "suggest_masks needs parameters, or a fit", help="`suggest_masks(model, params)`, `suggest_masks(fit)`")
    means = Means(draws, sampler, verified_seed(seed), given, measure)
    lowered, arrays, codes = _likely_rows(model, params, means)
    with jax.enable_x64(True):
        clusters = strong_clusters(lowered, arrays, codes, model.graph.interacting_pairs)
    kept, extended, left_out = _that_compile(model, list(candidates(model, clusters)))
    comparison = comparison_of(extended, params, [c.name for c in kept], f"suggest_masks({model.name}{means.words})", means)
    order = sorted(comparison.reports, key=_rank)
    by_name = {c.name: c for c in kept}
    body = "".join(_statement(k + 1, r, by_name[r.name], model) for k, r in enumerate(order))
    head = "\n#\n".join(_comment(text) for text in (comparison.words, *comparison.recommendation.splitlines()))
    tail = "".join(f"{_comment(f'left out: {why}')}\n" for why in left_out)
    found = MaskSuggestions(format_source(f"{head}\n\n{body}\n{tail}", "<suggested>"))
    found.comparison, found.names, found.left_out = comparison, tuple(r.name for r in order), tuple(left_out)
    return found


def _likely_rows(model: Model, params: Params, means: Means) -> tuple[Lowered, dict[str, jax.Array], Array]:
    """Return the model with its given data, the parameters, and configurations drawn from p.

    The configurations include latents.

    Raises:
        GmlmError: E507, E601 for latents that are too many to enumerate.
    """
    count = joint_count(model.graph.sizes)
    if means.draws is None and means.sampler is None and count <= MOST_STATES:
        space = configurations(model, params, "the suggestion of masks", latents=True, given=means.given)
        chosen = generator(means.seed).choice(space.count, LIKELY_CONFIGURATIONS, p=space.p.ravel() / space.p.sum())
        return space.lowered, dict(space.params), space.codes[:, chosen]
    if model.graph.latents:
        message = f"model `{model.name}` has latents: masks are suggested up to {MOST_STATES:,} configurations of all its cells"
        raise fail("E601" if count > MOST_STATES else "E507", message, help="leave `draws` and `sampler` out, or take a smaller model")
    rows = rows_of(model, params, means)
    return rows.lowered, rows.params, rows.codes


def _that_compile(model: Model, found: list[Candidate]) -> tuple[list[Candidate], Model, list[str]]:
    """Return affordable candidates, the model with their masks, and reasons for the others.

    The reasons state why candidates were left out. Each distribution of blocks occurs once. A mask
    of the program replaces the candidate with the same distribution, whatever its name.
    """
    taken, left_out = _names(model), []
    own = {law: name for name in reversed(model.masks) if (law := _law(model.mask(name)[1], model.graph.n_cells)) is not None}
    kept: dict[Hashable, Candidate] = {}
    for candidate in found:
        candidate = _renamed(candidate, model, taken)
        try:
            extended = model.program.extended(_written(candidate, model)).model(model.name)
            mask = extended.mask(candidate.name)[1]
            verify_modest(extended.graph, mask)
        except GmlmError as error:
            left_out.append(f"{candidate.name}: {error.diagnostics[0].message}")
            continue
        law = _law(mask, model.graph.n_cells) or candidate.name
        if law in kept:
            candidate = replace(kept[law], why=f"{kept[law].why}; {candidate.why}")
        elif law in own:
            candidate = replace(candidate, name=own[law], body="")
        kept[law] = candidate
    listed = list(kept.values())
    return listed, model.program.extended("".join(_written(c, model) for c in listed)).model(model.name), left_out


def _renamed(candidate: Candidate, model: Model, taken: set[str]) -> Candidate:
    """Return the candidate under an unused name.

    A candidate that the program declares literally represents the program's own mask.
    """
    if candidate.name in model.masks and any(_words(_written(candidate, model)) in _words(s.text) for s in model.program.checked.sources):
        return replace(candidate, body="")
    names = (candidate.name, f"suggested_{candidate.name}", *(f"suggested_{candidate.name}_{k}" for k in range(2, 1000)))
    return replace(candidate, name=next(n for n in names if n not in taken))


def _words(text: str) -> str:
    return " ".join(text.split())


def _law(mask: AbstractMask, n_cells: int) -> Hashable:
    """Return a key that is equal for masks with the same distribution of blocks, or None.

    The key does not depend on how a mask is written. It is None if the distributions cannot be
    compared.
    """
    if mask.varies or mask.mentions_parameter:
        return None
    if mask.support_size > MOST_BLOCK_VALUES:
        return mask.key(int)
    blocks, p = mask.enumerate_blocks()
    assert p is not None
    return frozenset((tuple(c for c in block if c < n_cells), round(q, 12)) for block, q in zip(blocks.tolist(), p.tolist(), strict=True))


def verify_modest(host: FactorGraph, mask: AbstractMask) -> None:
    """Raise E601 for a mask whose loss would enumerate many joint values.

    Raises:
        GmlmError: E601.
    """
    plan = plan_mask(host, mask, mask.is_adaptive)
    verify_affordable(plan, "a block", mask.span)
    if plan.method != "product" and plan.values > MOST_BLOCK_VALUES:
        raise fail("E601", f"a block has {plan.values:.3g} joint values, more than {MOST_BLOCK_VALUES:,}", mask.span)
    blocks = mask.support_size if masks_per_row(mask, None) is None else 1.0
    work = blocks * plan.values * (1 + sum(p.size for p in host.parameters))
    if work > MOST_SUGGESTED_WORK:
        message = f"{blocks:,.0f} blocks of {plan.values:.3g} joint values: the information of a row takes {work:.3g} entries"
        raise fail("E601", f"{message}, more than {MOST_SUGGESTED_WORK:,}", mask.span)


def _names(model: Model) -> set[str]:
    """Return every name of the program and of the model."""
    c, m = model.program.checked, model.program.checked.models[model.name]
    tables = (c.inputs, c.domains, c.index_sets, c.graphs, c.networks, c.models, c.masks, c.samplers, m.variables, m.parameters, m.lets)
    return {name for table in tables for name in table}


def _written(candidate: Candidate, model: Model) -> str:
    return f"{candidate.text(model.name, len(model.program.checked.models) == 1)}\n"


def _rank(r: MaskReport) -> tuple[float, float]:
    """Return a key that sorts by variance in steps of 10 %, and then by cost."""
    step = np.inf if not np.isfinite(r.variance) else float(np.round(np.log(max(r.variance, 1.0)) / RANKING_STEP))
    return step, r.mean_size if r.gradient is None else float(r.gradient)


def _statement(place: int, r: MaskReport, candidate: Candidate, model: Model) -> str:
    """Return a mask's statement with a comment on its efficiency."""
    own = "" if candidate.body else f"`{r.name}` of the program: "
    words = f"{place}. {own}{candidate.why}. Variance {r.variance:.4g} times maximum likelihood's"
    if r.averages and r.blocks > 1:
        words += f" with every mask, {float(r.variance_one):.4g} with one drawn for each row"
    words += f"; Poincare constant {'>= ' * (r.poincare.kind == 'lower bound')}{float(r.poincare):.4g}"
    words += "" if r.gradient is None else f"; {float(r.gradient):.3g} ms a gradient"
    words += "" if r.step is None else f", {float(r.step):.3g} us a step"
    words += f". Does not see {', '.join(r.unseen[:4])}{', ..' * (len(r.unseen) > 4)}" if r.unseen else ""
    turns = candidate.in_turn(model.name, len(model.program.checked.models) == 1)
    if turns and f"{candidate.name}_in_turn" not in _names(model):
        turns = f"{_comment('A chain that redraws each of its blocks once a step:')}\n{turns}\n\n"
        return f"{_comment(words)}\n{_written(candidate, model)}{turns}"
    return f"{_comment(words)}\n{_written(candidate, model)}\n"


def _comment(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
