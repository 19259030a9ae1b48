"""log p of rows with missing cells, and of blocks beside them: the missing cells summed out."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import listed
from ..derive import AbstractMaskLaw, EnumeratedLoss, Graph, contraction, listed_rows
from ..derive.compiled import block_table, log_marginal, log_observed, log_potential
from ..graph import FactorGraph
from ..plan import affordable_rows, gap_terms, plan_completions, plan_sum
from ._missing import MOST_ENTRIES, Missing, gaps_in_words, reported

Array = np.ndarray


def log_completions(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array) -> jax.Array:
    """The unnormalised log p of rows, missing cells summed out; shape (rows,).

    Raises:
        GmlmError: E601 where that costs too much.
    """
    gapped = np.flatnonzero((codes < 0).any(axis=0))
    value = log_potential(device, params, jnp.asarray(np.maximum(codes, 0)))
    if not len(gapped):
        return value
    report = reported(graph, codes)
    dear = np.ones(len(gapped), bool)
    if not report.latents:
        plan = plan_completions(graph, codes[:, gapped] < 0)
        dear = ~affordable_rows(plan)
        if not dear.all():
            terms = gap_terms(graph, plan, np.flatnonzero(~dear))
            gaps = listed_rows(graph, device, codes[:, gapped[~dear]], terms, plan.evaluations[~dear].sum())
            value = value.at[gapped[~dear]].set(log_marginal(gaps, params))
    if dear.any():
        value = value.at[gapped[dear]].set(eliminated(graph, device, params, codes[:, gapped[dear]], report))
    return value


def eliminated(graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array, report: Missing) -> jax.Array:
    """The same by elimination, in chunks of rows."""
    hidden, rows = np.any(codes < 0, axis=1), codes.shape[1]
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells, or drop the rows with the most gaps"
    plan = plan_sum(graph, hidden, rows, gaps_in_words(report), help)
    c, each = contraction(graph, plan), int(max(1, min(rows, MOST_ENTRIES // max(1.0, plan.flops))))
    padded = np.pad(codes, ((0, 0), (0, -rows % each)), mode="edge")  # chunks of one shape: one compilation
    parts = [jnp.asarray(p) for p in np.split(padded, padded.shape[1] // each, axis=1)]
    return jnp.concatenate([log_observed(device, params, p, c) for p in parts])[:rows]


def block_tables(
    graph: FactorGraph, device: Graph, params: Mapping[str, jax.Array], codes: Array, members: Array, law: AbstractMaskLaw | None = None
) -> jax.Array:
    """log p(x_K | the observed cells of x outside K[, K]), other missing cells summed out; shape (rows, joint values of K).

    Args:
        graph: the factor graph.
        device: the same on the device.
        params: parameters.
        codes: (cells, rows), -1 where a cell is missing; what K holds does not matter.
        members: the cells of K, ascending.
        law: of a mask that looks at observed cells.

    Raises:
        GmlmError: E601 where the sums cost too much.
    """
    count, rows = int(np.prod(graph.sizes[members])), codes.shape[1]
    codes = codes.copy()
    codes[members] = 0
    report = reported(graph, codes)
    help = f"let x hold {listed(report.latents)}" if report.latents else "fill some of the cells"
    plan = plan_sum(graph, np.any(codes < 0, axis=1), rows * count, gaps_in_words(report), help)
    loss = EnumeratedLoss(device, contraction(graph, plan), law, count, None, None)
    each = int(max(1, min(rows, MOST_ENTRIES // (count * (plan.flops + graph.n_cells)))))
    padded = np.pad(codes, ((0, 0), (0, -rows % each)), mode="edge")
    parts = np.split(padded, padded.shape[1] // each, axis=1)
    return jnp.concatenate([block_table(loss, params, jnp.asarray(p), jnp.asarray(members, jnp.int32)) for p in parts])[:rows]
