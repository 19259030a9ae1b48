"""Marginals as shares of the draws of chains, with their Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import jax
import numpy as np

from .._diagnostics import tell
from .._types import Clamp
from ..evaluate import Chains, Marginals
from ..graph import FactorGraph, Lowered, VariableArray
from ..program import ir
from ._draw import SampleOptions, SamplingWarning, run_chains

Array = np.ndarray


class SampledMarginals(Marginals):
    """Estimated marginals: a dict by variable of arrays of shape (*axes, values).

    Attributes:
        kind: "chains".
        standard_error: a dict by variable of arrays of the same shapes, sqrt(p (1 - p) / ESS). It
            is 0 for clamped cells. It is nan if the draws do not reveal the error, that is for a
            share of 0 or 1, and if no chain changes the cell.
        r_hat: a dict by variable of the split R-hat of each value's indicator; nan for shares of 0
            and 1, infinite if no chain changes the cell but the chains differ.
        converged: whether the diagnostics of the draws found nothing.
        warnings: what they found.
        is_exact: False.
    """

    kind = "chains"
    is_exact = False

    def __init__(
        self,
        tables: Mapping[str, Array],
        errors: Mapping[str, Array],
        r_hat: Mapping[str, Array],
        warnings: tuple[str, ...],
        variables: Iterable[VariableArray],
    ):
        super().__init__(tables, variables)
        self.standard_error, self.r_hat, self.warnings = dict(errors), dict(r_hat), warnings

    @property
    def converged(self) -> bool:
        """Whether the diagnostics of the draws found nothing."""
        return not self.warnings

    @property
    def summary(self) -> str:
        """The largest standard error and R-hat, in one line."""
        error, r_hat = (_largest(a.values()) for a in (self.standard_error, self.r_hat))
        state = "" if self.converged else "; NOT converged: see `warnings`"
        return f"chains: standard errors of at most {error:.2g}, R-hat of at most {r_hat:.4g}{state}"

    def __repr__(self) -> str:
        shapes = ", ".join(f"`{name}` {table.shape}" for name, table in self.items())
        return f"{self.summary}\nmarginals of {shapes}"


def _largest(arrays: Iterable[Array]) -> float:
    return max((float(a[~np.isnan(a)].max(initial=0.0)) for a in arrays), default=0.0)


def sampled_marginals(
    lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array], clamp: Clamp | None, method: Chains
) -> SampledMarginals:
    """Return the shares of every value of every cell in the draws of chains.

    Args:
        lowered: the model.
        sampler: the sampler, or None for sweeps of single cells.
        params: parameters.
        clamp: values of clamped cells by variable.
        method: the numbers of draws and chains.

    Warns:
        SamplingWarning: for every finding of the diagnostics.
    """
    name = "a sweep of single cells" if sampler is None else sampler.name
    options = SampleOptions(
        name, method.draws, method.warmup, method.chains, method.thin, method.seed, clamp, None, None, keep_draws=True, progress=None
    )
    found = run_chains(lowered, sampler, params, options).diagnosed(lowered.graph)
    for text in found.warnings:
        tell(text, SamplingWarning)
    share, sure = found.frequency, (found.frequency == 0) | (found.frequency == 1)
    error = np.sqrt(share * (1 - share) / np.where(sure, np.nan, found.ess))
    error[found.clamped] = 0.0
    graph = lowered.graph
    shares, errors, r_hat = (_by_variable(graph, a) for a in (share, error, found.r_hat))
    return SampledMarginals(shares, errors, r_hat, found.warnings, graph.variables)


def _by_variable(graph: FactorGraph, table: Array) -> dict[str, Array]:
    return {v.name: table[v.offset : v.offset + v.size, : len(v.labels)].reshape(*v.shape, len(v.labels)) for v in graph.variables}
