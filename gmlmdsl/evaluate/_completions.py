"""log p of rows with missing cells, and of blocks given such rows; missing cells are summed out."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from .._diagnostics import listed
from .._types import AnyArray
from ..derive import AbstractMaskLaw, EnumeratedLoss, Graph, contraction, listed_rows, on_device
from ..derive.compiled import block_table, log_marginal, log_observed
from ..graph import FactorGraph
from ..plan import affordable_rows, gap_terms, plan_completions, plan_sum
from ._missing import Missing, gaps_in_words, reported
from ._row_sizes import log_potentials, over_rows, placed

Array = np.ndarray


def log_completions(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array) -> AnyArray:
    """Return the unnormalised log p of rows, with missing cells summed out.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.

    Returns:
        Array of shape (rows,), on the host unless parameters are traced.

    Raises:
        GmlmError: E601 if that costs too much.
    """
    lacking = (codes < 0).any(axis=0)
    gapped, whole = np.flatnonzero(lacking), np.flatnonzero(~lacking)
    parts: list[tuple[Array, AnyArray]] = (
        [(whole, log_potentials(device, params, codes[:, whole]))] if len(whole) or not len(gapped) else []
    )
    if not len(gapped):
        return parts[0][1]
    report = reported(graph, codes)
    dear = np.ones(len(gapped), bool)
    if not report.latents:
        plan = plan_completions(graph, codes[:, gapped] < 0)
        dear = ~affordable_rows(plan)
        if not dear.all():
            terms = gap_terms(graph, plan, np.flatnonzero(~dear))
            gaps = listed_rows(graph, device, codes[:, gapped[~dear]], terms, plan.evaluations[~dear].sum())
            parts.append((gapped[~dear], log_marginal(gaps, params)))
    if dear.any():
        parts.append((gapped[dear], eliminated(graph, device, params, codes[:, gapped[dear]], report)))
    return placed(codes.shape[1], parts)


def eliminated(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array, report: Missing) -> AnyArray:
    """Return the unnormalised log p of rows by elimination of their missing cells.

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell.
        report: the record of the missing cells, for messages.

    Raises:
        GmlmError: E601 if that costs too much.
    """
    hidden, rows = np.any(codes < 0, axis=1), codes.shape[1]
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells, or drop the rows with the most gaps"
    plan = plan_sum(graph, hidden, rows, gaps_in_words(report), help)
    c = contraction(graph, plan)
    return over_rows(lambda some: log_observed(device, params, some, c), codes, params, plan.flops)


def block_tables(
    graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array, members: Array, law: AbstractMaskLaw | None = None
) -> AnyArray:
    """Return log p(x_K | the observed cells of x outside K), with other missing cells summed out.

    With `law` it is conditional on K too: log p(x_K | the observed cells of x outside K, K).

    Args:
        graph: the factor graph.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows), -1 for a missing cell; the codes of K have no effect.
        members: the cells of K, ascending.
        law: the distribution of K of a mask that looks at observed cells; None to leave K out.

    Returns:
        Array of shape (joint values of K, rows).

    Raises:
        GmlmError: E601 if the sums cost too much.
    """
    count, rows = int(np.prod(graph.sizes[members])), codes.shape[1]
    codes = codes.copy()
    codes[members] = 0
    report = reported(graph, codes)
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells"
    plan = plan_sum(graph, np.any(codes < 0, axis=1), rows * count, gaps_in_words(report), help)
    loss = EnumeratedLoss(device, contraction(graph, plan), law, count, None, None)
    cells, cost = on_device(members, np.int32), count * (plan.flops + graph.n_cells)
    return over_rows(lambda some: block_table(loss, params, some, cells), codes, params, cost)
