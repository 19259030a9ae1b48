"""Comparison of masks: statistical efficiency, time, speed of the chain, and a recommendation."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, listed
from .._types import Given
from ..data import bound_mask, verified_seed
from ..derive import bounded_jit
from ..evaluate import Objective, draw_masks, make_loss, masks_per_row, mean_block_size, verify_latents
from ..graph import Lowered, joint_count
from ..masks import AbstractMask
from ..model import Fit
from ..program import ir
from ._block_dynamics import BlockDynamics, block_dynamics, constant_kind, reversible_gap
from ._configurations import Configurations, configurations, verify_count
from ._estimation import Information, information_matrices, verify_interior
from ._monte_carlo import DrawnRows, SampledInformation, draw_rows, objective_over, row_scores, sampled_information
from ._quantity import Quantity
from .limits import (
    CLOSE_VARIANCES,
    COMPARED_DRAWS,
    DRAWS_PER_PARAMETER,
    FEWEST_PRODUCTS,
    LEAST_SECONDS,
    MOST_DENSE,
    MOST_STATES,
    MOST_UNASKED,
    PRINTED_WIDTH,
    TIMED_CHAINS,
    TIMED_REPEATS,
    TIMED_ROWS,
    TIMED_STEPS,
)

if TYPE_CHECKING:
    import pandas as pd
    from jaxtyping import PyTree

    from ..model import Model, Params

Array = np.ndarray
COLUMNS = {
    "mask": "",
    "blocks": "masks that it may draw",
    "cells": "the mean number of cells that one hides",
    "var, one": "variance of a fit that draws one mask for each row, summed over parameters, divided by that sum of maximum likelihood",
    "var, all": "the same where each row's loss averages over every mask, as `fit` does where they are at most 4096",
    "Poincare": "relaxation time of the mask's chain, in steps; maximum likelihood's 1 is the least; bounds the worst of `var, one`",
    "ms/gradient": "milliseconds of a gradient of a default fit's loss over 1000 rows, measured here",
    "us/step": "microseconds of a step of one chain, of 64 side by side, measured here",
    "per second": "efficiency per second of a default fit: 1 / (variance * time of a gradient), the best is 1",
}


@dataclass(frozen=True)
class MaskReport:
    """The properties of one mask.

    Attributes:
        name: the name of the mask.
        blocks: the number of its blocks.
        mean_size: the mean block size E|K|.
        variance_one: tr G / tr I^-1, a ratio of sums over parameters. G is the covariance with one
            mask drawn for each row, and I^-1 is that of maximum likelihood.
        variance_all: the same ratio if each row's loss averages over every mask.
        worst_one: the largest ratio over all directions of the parameters, with one mask for each
            row. In an estimate it is the ratio of one slow direction.
        poincare: the Poincare constant of the mask's block dynamics.
        gradient: milliseconds of a gradient over 1000 rows.
        step: microseconds of one step of one chain, of 64 chains in parallel.
        unseen: parameters with a component on which the loss does not depend.
        averages: whether `fit` averages over all masks by default; otherwise it draws one for each
            row.
    """

    name: str
    blocks: float
    mean_size: float
    variance_one: Quantity
    variance_all: Quantity
    worst_one: Quantity
    poincare: Quantity
    gradient: Quantity | None
    step: Quantity | None
    unseen: tuple[str, ...]
    averages: bool

    @property
    def variance(self) -> float:
        """The variance under the default options of `fit`."""
        return float(self.variance_all if self.averages else self.variance_one)

    @property
    def per_second(self) -> float:
        """Relative efficiency per time of a gradient; nan if costs were not measured.

        It has no unit.
        """
        return float("nan") if self.gradient is None else 1 / (self.variance * float(self.gradient))


def recommendation(reports: Sequence[MaskReport]) -> str:
    """Return the recommendation, a line for each use."""
    useful = [r for r in reports if np.isfinite(r.variance)]
    none = "None of these masks determines all parameters: add blocks that reach the cells of their factors."
    fits = [_for_fit(useful), _for_one_mask(useful)] if useful else [none]
    return "\n".join(t for t in (*map(_blind, reports), *fits, _for_sampling(reports)) if t)


def _blind(r: MaskReport) -> str:
    if not r.unseen:
        return ""
    return f"`{r.name}` cannot fit {listed(list(r.unseen[:3]))}{' and others' * (len(r.unseen) > 3)}: it does not see all of them."


def _regime(r: MaskReport) -> str:
    return "averaged over all its masks" if r.averages else "one mask drawn for each row, for it has more than 4096"


def _for_fit(useful: Sequence[MaskReport]) -> str:
    least = min(r.variance for r in useful)
    close = [r for r in useful if r.variance <= CLOSE_VARIANCES * least]
    timed = [r for r in useful if np.isfinite(r.per_second)]
    if not timed:
        best = min(close, key=lambda r: r.mean_size)
        return f"For `fit` as it runs by default: `{best.name}`, {_regime(best)}; {_times(best.variance)}."
    cheap = max([r for r in close if r in timed] or timed, key=lambda r: r.per_second)
    fast = max(timed, key=lambda r: r.per_second)
    text = f"For `fit` as it runs by default: `{cheap.name}`, {_regime(cheap)}; {_times(cheap.variance)}"
    text += f", {float(cheap.gradient or 0):.3g} ms a gradient"
    others = [r.name for r in close if r is not cheap]
    if others:
        text += f" ({listed(others)}: within {100 * (CLOSE_VARIANCES - 1):.0f} % of it in variance, and dearer)"
    if fast is not cheap and fast.per_second > 1.5 * cheap.per_second:
        text += f". Where time counts more than rows: `{fast.name}`, {_times(fast.variance)} at {float(fast.gradient or 0):.3g} ms"
    return text + "."


def _times(variance: float) -> str:
    if variance < 1.005:
        return "as good as maximum likelihood"
    return f"its variance is {variance:.3g} times maximum likelihood's"


def _for_one_mask(useful: Sequence[MaskReport]) -> str:
    if len(useful) < 2:
        return ""
    best, worst = (f(useful, key=lambda r: float(r.variance_one)) for f in (min, max))
    ratio = float(worst.variance_one) / float(best.variance_one)
    if ratio < CLOSE_VARIANCES:
        return ""
    return f"With one mask drawn for each row (minibatches, `n_masks=1`): `{best.name}`; `{worst.name}` needs {ratio:.3g} times the rows."


def _for_sampling(reports: Sequence[MaskReport]) -> str:
    """Return the recommendation for sampling.

    The criterion is the relaxation time multiplied by the cost of a step.
    """
    moving = [r for r in reports if r.step is not None and r.poincare.kind == "exact" and np.isfinite(float(r.poincare))]
    stuck = [r.name for r in reports if np.isinf(float(r.poincare)) and r.poincare.kind == "exact"]
    out = [f"The chain of {listed(stuck)} never reaches all of the support."] if stuck else []
    if moving:
        best = min(moving, key=lambda r: float(r.poincare) * float(r.step or 0))
        time = float(best.poincare) * float(best.step or 0)
        steps = f"{float(best.poincare):.3g}"
        steps += " step" if steps == "1" else " steps"
        out.append(f"For sampling: `{best.name}`, a relaxation time of {steps} or {time:.3g} us of one chain.")
    return " ".join(out)


@dataclass(frozen=True)
class MaskComparison:
    """A comparison of masks.

    Attributes:
        reports: one report for each mask, in the requested order.
        recommendation: the recommended masks, in words.
        words: the method of computation, in words.
        source: the call that makes the comparison.
    """

    reports: tuple[MaskReport, ...]
    recommendation: str
    words: str
    source: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """A table with one row for each mask.

        The columns `.._error` are standard errors, nan for exact numbers.
        """
        import pandas as pd

        # The efficiency is 0 for a mask that cannot fit.
        best = max((r.per_second for r in self.reports if r.per_second > 0), default=np.nan)
        rows = []
        for r in self.reports:
            row: dict[str, Any] = {"blocks": r.blocks, "mean_size": r.mean_size}
            for name in ("variance_one", "variance_all", "worst_one", "poincare"):
                value = getattr(r, name)
                row |= {name: float(value), f"{name}_error": value.error, f"{name}_kind": value.kind}
            row |= {"efficiency_one": 1 / row["variance_one"], "efficiency_all": 1 / row["variance_all"]}
            row |= {"gradient_ms": _number(r.gradient), "step_us": _number(r.step), "efficiency_per_second": r.per_second / best}
            rows.append(row)
        return pd.DataFrame(rows, index=pd.Index([r.name for r in self.reports], name="mask"))

    def shown(self) -> list[list[str]]:
        """Return the table as strings, with the header first."""
        out = [[*COLUMNS]]
        for r, rate in zip(self.reports, self.table["efficiency_per_second"], strict=True):
            bound = ">= " if r.poincare.kind == "lower bound" else ""
            numbers = [with_error(r.variance_one), with_error(r.variance_all), bound + with_error(r.poincare)]
            costs = ["" if c is None else f"{float(c):.3g}" for c in (r.gradient, r.step)]
            out.append([r.name, f"{r.blocks:.6g}", f"{r.mean_size:.3g}", *numbers, *costs, "" if np.isnan(rate) else f"{rate:.2f}"])
        filled = [k for k in range(len(COLUMNS)) if any(row[k] for row in out[1:])]
        return [[row[k] for k in filled] for row in out]

    def legend(self) -> list[str]:
        """Return the meaning of each column of `shown`, one line for each."""
        return [f"{name}: {COLUMNS[name]}" for name in self.shown()[0] if COLUMNS[name]]

    def __repr__(self) -> str:
        rows = self.shown()
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))) for row in rows]
        return "\n".join([*lines, "", *self.paragraphs()])

    def paragraphs(self) -> list[str]:
        """Return the method of computation and the recommendation, in lines of one width."""
        return [
            line
            for text in (self.words, *self.recommendation.splitlines())
            for line in textwrap.wrap(text, PRINTED_WIDTH, subsequent_indent="  ")
        ]

    def _repr_html_(self) -> str:
        from html import escape

        head, *rows = self.shown()
        cells = "".join(f"<th>{escape(c)}</th>" for c in head)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
        texts = "".join(f"<p>{escape(t)}</p>" for t in (self.words, *self.recommendation.splitlines()))
        return f"<div><table><tr>{cells}</tr>{body}</table>{texts}</div>"


def _number(q: Quantity | None) -> float:
    return float("nan") if q is None else float(q)


def with_error(q: Quantity) -> str:
    """Return a number with the digits that its error justifies, as `2.79` or `3.64 +- 0.03`."""
    if not 0 < q.error < np.inf:
        return f"{float(q):.4g}"
    # An error such as 0.013, which begins with 1, is printed with two digits.
    places = max(0, 1 - int(np.floor(np.log10(q.error))) - (f"{q.error:.1e}"[0] != "1"))
    return f"{float(q):.{places}f} +- {q.error:.{places}f}"


def compare_masks(
    model: Model,
    params: Params | None = None,
    masks: Sequence[str] | None = None,
    *,
    draws: int | None = None,
    sampler: str | None = None,
    seed: int = 0,
    given: Given | None = None,
    measure: bool = True,
) -> MaskComparison:
    """Compare masks by efficiency relative to maximum likelihood, Poincare constant and cost.

    Two efficiencies are given, because they differ much. In one, a mask is drawn for each row, as
    in minibatches. In the other, every row's loss averages over all masks, as `fit` does if there
    are at most 4096. Each is tr I^-1 / tr G with G = H^-1 S H^-1. Here I is the Fisher information,
    and H and S are the Hessian and the score covariance of the mask's loss. The efficiency is the
    sum of the variances of all parameter estimates by maximum likelihood, divided by that sum for
    the mask. It is not a mean of ratios of single parameters.

    Costs are measured on this machine.

    Args:
        model: a model, or a fit (then `params` are its estimates).
        params: parameters.
        masks: names of masks; None compares every mask of the model that can fit.
        draws: the number of draws of x for estimates. None computes exact numbers if that takes
            about a minute at most, and otherwise uses 4000 draws.
        sampler: the sampler for the draws. None takes independent draws if affordable, and
            otherwise the model's only sampler.
        seed: the seed of the draws.
        given: one row of data of given variables.
        measure: whether gradients and steps are timed, which compiles both.

    Returns:
        A `MaskComparison`. Its `table` is a DataFrame, and its `recommendation` states which mask
            to take for which purpose.

    Raises:
        GmlmError: E506 for an unknown mask, E601, E602 for excessive cost, E702, E703 for a mask
            that cannot fit.

    Reference: Li et al. 2024, Lemmas 1 and 2, Theorems 1 to 3.
    """
    params, model = (model.params if params is None else params, model.model) if isinstance(model, Fit) else (params, model)
    if isinstance(params, str | Sequence | Fit):
        help = "`compare_masks(fit)` compares all masks of its program; `masks=[..]` chooses by name"
        message = f"params must be a dict of arrays by parameter, got {type(params).__name__}"
        raise fail("E507", message, help=help)
    if params is None:
        raise fail("E507", "compare_masks needs parameters, or a fit", help="`compare_masks(model, params)`, `compare_masks(fit)`")
    names = _names(model, masks)
    means = Means(draws, sampler, verified_seed(seed), given, measure)
    source = f"compare_masks({model.name}, masks=[{', '.join(map(repr, names))}]{means.words})"
    return comparison_of(model, params, names, source, means)


@dataclass(frozen=True)
class Means:
    """The options of a comparison, as arguments of `compare_masks`."""

    draws: int | None
    sampler: str | None
    seed: int
    given: Given | None
    measure: bool

    @property
    def words(self) -> str:
        """The options as a call writes them, without those at their defaults."""
        options = (("draws", self.draws), ("sampler", self.sampler), ("seed", self.seed or None))
        return "".join([*(f", {k}={v!r}" for k, v in options if v is not None), ", given=.." * (self.given is not None)])


def comparison_of(model: Model, params: Params, names: Sequence[str], source: str, means: Means) -> MaskComparison:
    """Return the comparison of `compare_masks`; `source` is the user's call.

    Args:
        model: the model.
        params: parameters.
        names: names of the masks.
        source: the call that makes the comparison.
        means: the options.
    """
    if _is_exact(model, names, means):
        space = configurations(model, params, "the comparison of masks", given=means.given)
        found = [_exact_report(model, space, name, source) for name in names]
        words = f"Exact, over {space.count:,} configurations."
        rows = _some_rows(space)
    else:
        rows = rows_of(model, params, means)
        with jax.enable_x64(True):
            scores = row_scores(rows)
        found = [_sampled_report(model, rows, scores, name, means.seed, source) for name in names]
        words = f"Estimates with standard errors, from {rows.words}; a Poincare constant is bounded from below by the worst direction."
    if means.measure:
        found = [_with_costs(model, report, rows, source) for report in found]
        words += " Times measured here: a gradient over 1000 rows, a step of one of 64 chains."
    words += f" Variances are summed over parameters and divided by maximum likelihood's sum. From {source}."
    return MaskComparison(tuple(found), recommendation(found), words, source)


def rows_of(model: Model, params: Params, means: Means) -> DrawnRows:
    """Return draws for estimates.

    Raises:
        GmlmError: E506 if independent draws cost too much and there is no single sampler to replace
            them; the errors of `draw_rows`.
    """
    size = sum(p.size for p in model.graph.parameters)
    draws = max(COMPARED_DRAWS, DRAWS_PER_PARAMETER * size) if means.draws is None else means.draws
    try:
        return draw_rows(model, params, means.sampler, draws, means.seed, means.given)
    except GmlmError as error:
        if means.sampler is not None or error.diagnostics[0].code != "E506":
            raise
        message = (
            f"model `{model.name}` is too large to list and to draw from independently, and has {len(model.samplers) or 'no'} samplers"
        )
        help = f"`sampler={model.samplers[0]}`, or another" if model.samplers else "declare one: `sampler sweep { update .. }`"
        raise fail("E506", message, help=help) from None


def _names(model: Model, masks: Sequence[str] | None) -> list[str]:
    if isinstance(masks, str):
        masks = [masks]
    masks = [n for n in model.masks if _has_loss(model, n)] if masks is None else masks
    if not masks:
        help = "declare one; `gm.theory.suggest_masks` and `gmlm masks --suggest` print some to paste"
        raise fail("E506", "the model has no mask that can fit, or `masks=` names none", help=help)
    found = [model.mask(n) for n in masks]
    for name, mask in found:
        if mask.mentions_parameter:
            raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", mask.span)
        verify_latents(model.graph, mask, name, np.zeros((model.graph.n_cells, 0), np.int32), False)
    return list(dict.fromkeys(name for name, _ in found))


def _has_loss(model: Model, name: str) -> bool:
    """Return whether a mask can fit.

    Such a mask mentions no parameter, and neither hides a latent nor looks at one.
    """
    if model.program.checked.masks[name].body.is_percolation:
        return False
    mask, latent = model.mask(name)[1], model.graph.is_latent
    cells = np.concatenate([mask.reach, mask.looked_at])
    return not mask.mentions_parameter and not latent[cells].any()


def _is_exact(model: Model, names: Sequence[str], means: Means) -> bool:
    """Return whether all numbers are computed exactly, by enumeration.

    Raises:
        GmlmError: E507, E601 for estimates of a model with latents, which would have to be summed
            out of every row.
    """
    small = _is_small(model, names)
    asked = means.draws is not None or means.sampler is not None
    if model.graph.latents and (asked or not small):
        message = f"model `{model.name}` has latents: its masks are compared exactly, up to {MOST_STATES:,} configurations of its `var`s"
        remedy = "leave `draws` and `sampler` out" if small else "compare on a smaller model of the same kind"
        raise fail("E507" if small else "E601", message, help=remedy)
    return small and not asked


def _is_small(model: Model, names: Sequence[str]) -> bool:
    """Return whether exact numbers take about a minute at most.

    Every configuration is enumerated, and the block dynamics are applied to scores and iterated.
    """
    try:
        verify_count(model.graph, np.flatnonzero(model.graph.is_observed), "", MOST_STATES)
    except GmlmError:
        return False
    count = joint_count(model.graph.sizes[model.graph.is_observed])
    functions = FEWEST_PRODUCTS * (count > MOST_DENSE) + sum(p.size for p in model.graph.parameters)
    return sum(model.mask(n)[1].support_size for n in names) * count * functions <= MOST_UNASKED


def _exact_report(model: Model, space: Configurations, name: str, source: str) -> MaskReport:
    mask = bound_mask(space.lowered, model.mask(name)[1])
    verify_interior(model.graph, space.params)
    dynamics = block_dynamics(space, mask, "the comparison of masks")
    information = Information(space.basis, *information_matrices(dynamics), _entries(model))
    gap, note = reversible_gap(dynamics)
    one, every, worst = (Quantity(v, "exact", source) for v in _figures(information))
    poincare = Quantity(np.inf if gap == 0 else 1 / gap, constant_kind(note), source, note=note)
    size = float((space.p * _mean_size(dynamics)).sum())
    return MaskReport(name, mask.support_size, size, one, every, worst, poincare, None, None, _unseen(information), _averages(mask))


def _entries(model: Model) -> tuple[str, ...]:
    from ..evaluate import entry_names

    return tuple(entry_names(model.graph))


def _mean_size(dynamics: BlockDynamics) -> Array:
    return sum((np.asarray(b.chance) * len(b.axes) for b in dynamics), np.zeros(dynamics.space.sizes))


def _averages(mask: AbstractMask) -> bool:
    from ..evaluate import masks_per_row

    return masks_per_row(mask, None) is None


def _figures(information: Information) -> Array:
    """Return the variances with one and with all masks, and the worst direction with one mask.

    The variances are summed over parameters, and divided by that sum for maximum likelihood.
    """
    if not information.whitening.shape[1]:
        return np.ones(3)
    likelihood = np.trace(information.basis @ information.whitening @ information.whitening.T @ information.basis.T)
    values, _ = information.seen
    if information.undetermined.any():
        return np.array([np.inf, np.inf, np.inf])
    one, every = (np.trace(information.covariance(n)) / likelihood for n in (1, None))
    return np.array([one, every, 1 / values[0]])


def _unseen(information: Information) -> tuple[str, ...]:
    return tuple(n for n, u in zip(information.names, information.undetermined, strict=True) if u)


def _sampled_report(model: Model, rows: DrawnRows, scores: list[Array], name: str, seed: int, source: str) -> MaskReport:
    mask = bound_mask(rows.lowered, model.mask(name)[1])
    found: SampledInformation = sampled_information(rows, mask, name, seed, scores)
    values, errors = found.estimate(_figures)
    one, every, _ = (Quantity(v, "estimate", source, e) for v, e in zip(values, errors, strict=True))
    worst = Quantity(found.worst()[0], "estimate", source, found.worst()[1])
    poincare = Quantity(float(worst), "lower bound", source, worst.error, "estimated: one slow direction of the parameters")
    with jax.enable_x64(True):
        size = mean_block_size(rows.lowered.graph, mask, np.maximum(rows.codes, 0))  # pyright: ignore[reportArgumentType]
    return MaskReport(name, mask.support_size, size, one, every, worst, poincare, None, None, _unseen(found.mean), _averages(mask))


def _some_rows(space: Configurations) -> DrawnRows:
    """Return configurations drawn from p, for timing."""
    chosen = np.random.default_rng(0).choice(space.count, TIMED_ROWS, p=space.p.ravel() / space.p.sum())
    return DrawnRows(space.lowered, dict(space.params), space.codes[:, chosen], 1, "")


def _with_costs(model: Model, report: MaskReport, rows: DrawnRows, source: str) -> MaskReport:
    """Return the report with measured costs.

    Costs are left out if rows lack latents, and the cost of a step is left out if no kernel is
    affordable.
    """
    if (rows.codes < 0).any():
        return report
    _, mask = model.mask(report.name)
    gradient = gradient_cost(rows.lowered, bound_mask(rows.lowered, mask), rows.params, rows.codes, source)
    try:
        step = step_cost(rows.lowered, model.program.checked.masks[report.name], rows.params, rows.codes, source)
    except GmlmError:
        step = None
    return replace(report, gradient=gradient, step=step)


def gradient_cost(lowered: Lowered, mask: AbstractMask, params: Mapping[str, jax.Array], codes: Array, source: str) -> Quantity:
    """Return the milliseconds of one gradient over 1000 rows, as `fit` computes it.

    The loss averages over every mask if `fit` does so, and otherwise uses one mask drawn for each
    row.

    Args:
        lowered: the model, with its given data.
        mask: the mask.
        params: parameters.
        codes: rows, shape (cells, rows), repeated up to 1000.
        source: the user's call.
    """
    host = lowered.graph
    with jax.enable_x64(True):
        rows = codes[:, np.arange(TIMED_ROWS) % codes.shape[1]]
        count = masks_per_row(mask, None)
        loss = make_loss(host, derive.graph_arrays(host), mask, count)
        masks = None if count is None else np.asarray(draw_masks(host, mask, jnp.asarray(rows), count, jax.random.key(0)))
        objective = objective_over(host, loss, rows, dict(params), masks)
        return _measured(lambda: _gradient(objective, dict(params)), 1e3, source)


@bounded_jit
def _gradient(objective: Objective, params: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return jax.grad(lambda p: objective.at(p))(params)


def step_cost(lowered: Lowered, mask: ir.Mask, params: Mapping[str, jax.Array], codes: Array, source: str) -> Quantity:
    """Return the microseconds of one update `K ~ mask` of one chain, of 64 chains in parallel.

    Args:
        lowered: the model, with its given data.
        mask: the checked mask.
        params: parameters.
        codes: possible configurations, shape (cells, rows), with latents; the chains start at them.
        source: the user's call.
    """
    planned = derive.build(lowered, ir.RandomUpdate(mask.span, mask, "", False))
    device = derive.graph_arrays(lowered.graph)
    target = derive.Target(device, {k: jnp.asarray(v, derive.float_type()) for k, v in params.items()}, None)
    keys = jax.random.split(jax.random.key(0), TIMED_CHAINS)
    state = planned.kernel.init(jnp.asarray(codes[:, np.arange(TIMED_CHAINS) % codes.shape[1]], jnp.int32))
    return _measured(lambda: _steps(planned.kernel, target, keys, state), 1e6 / (TIMED_STEPS * TIMED_CHAINS), source)


@bounded_jit
def _steps(kernel: derive.AbstractKernel, target: derive.Target, keys: jax.Array, state: derive.State) -> derive.State:
    ready = kernel.prepared(target)
    return jax.lax.fori_loop(0, TIMED_STEPS, lambda t, s: ready.step(target, derive.fold(keys, t), s)[0], state)


def _measured(call: Callable[[], PyTree], unit: float, source: str) -> Quantity:
    """Return the median time of a compiled call, with the standard error of the mean over repeats.

    `unit` is the number of units of the result in a second.
    """
    jax.block_until_ready(call())
    started = time.perf_counter()
    jax.block_until_ready(call())
    times = max(1, int(np.ceil(LEAST_SECONDS / max(time.perf_counter() - started, 1e-7))))
    found = []
    for _ in range(TIMED_REPEATS):
        started = time.perf_counter()
        for _ in range(times):
            out = call()
        jax.block_until_ready(out)
        found.append((time.perf_counter() - started) / times * unit)
    return Quantity(float(np.median(found)), "measured", source, float(np.std(found, ddof=1) / np.sqrt(TIMED_REPEATS)))
