"""Draws of parameters with the log likelihood of each row, for ArviZ: where a fit has a likelihood, and a refusal where not."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, whole_number
from ..data import decode, generator, verified_seed
from ..evaluate import flatten, in_support, known_rows, log_completions, log_prior, unflatten
from ..fit import Evidence, curvature
from ..fit import objective_colouring as colours_of
from ..graph import FactorGraph, LoweredMask, is_adaptive
from ..graph.masks import blocks_of, support_size
from ..plan import BUDGET
from ..sample import SamplingWarning, to_arviz
from ._information import verify_minimum
from ._scored_rows import ScoredRows, evidence_of, params64, rows_under, verify_own

if TYPE_CHECKING:
    from ..fit import FitRecord

Array = np.ndarray
WARMUP = 100  # proposals per chain before the first draw
LEAST_ACCEPTED = 0.2
MOST_OPERATIONS = 1e11


def posterior(fit: FitRecord, draws: int, chains: int, seed: int, x: Any, missing: Any, given: Any) -> Any:
    """See `Fit.to_arviz`."""
    draws, chains = whole_number("draws", draws, 1), whole_number("chains", chains, 1)
    verified_seed(seed)
    evidence = evidence_of(fit, x, None, missing, given=given)
    _verify_likelihood(fit, evidence)
    verify_minimum(fit, "the normal approximation of the posterior")
    fit.covariance  # noqa: B018 - refuses where curvature would be too large
    total = chains * (draws + WARMUP)
    _verify_cost(fit, evidence, total)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        params = params64(fit)
        rows = rows_under(evidence, params)
        verify_own(fit, rows, params)
        vectors, log_q = _proposals(fit, rows, params, total, generator(seed, 2))
        lp, pointwise = _log_posterior(fit, evidence, rows, params, vectors)
    kept, accepted = _metropolis((lp - log_q).reshape(chains, -1), generator(seed, 3))
    _announce(float(accepted.mean()))
    place = (kept + (np.arange(chains) * (draws + WARMUP))[:, None])[:, WARMUP:]
    return _labelled(fit, evidence, vectors[place], lp[place], accepted[:, WARMUP:], pointwise[place])


def _verify_likelihood(fit: FitRecord, evidence: Evidence) -> None:
    """Refuse a fit whose loss is not -log p(x) of each row.

    Raises:
        GmlmError: E550 with the reason; E552 where the posterior is improper.
    """
    mask, weights = evidence.mask, evidence.options.weights
    whole = not is_adaptive(mask) and support_size(mask) == 1 and _hides_all(fit.graph, mask)
    help = "compare such fits by `gm.compare`: information criteria, or held-out losses with `folds=10`"
    if not whole:
        message = (
            f"a fit under mask `{evidence.options.mask}` has a pseudolikelihood: its terms are no log p(x) of the rows, and exp of their "
            f"sum is no likelihood: a posterior made of it would be too narrow for some parameters and too wide for others, and ArviZ's "
            f"`loo` would weigh its draws wrongly"
        )
        raise fail("E550", message, help=f"fit under `everything` where that is affordable; or {help}")
    if weights is not None and not (np.asarray(weights) == 1).all():
        raise fail("E550", "rows with weights have no likelihood: weights count as importances", help=f"repeat rows; or {help}")
    if fit.status.undetermined.any():
        message = "neither data nor prior determine some direction of the parameters: the posterior cannot be normalised"
        raise fail("E552", message, help="give them a prior, or fix a `gauge`")


def _hides_all(graph: FactorGraph, mask: LoweredMask) -> bool:
    """Whether the only block is every cell that data hold."""
    return np.array_equal(np.unique(blocks_of(mask, graph.n_cells)[0]), np.flatnonzero(graph.is_observed))


def _verify_cost(fit: FitRecord, evidence: Evidence, total: int) -> None:
    rows, given = evidence.codes.shape[1], evidence.lowered.data
    terms = sum(g.n for g in fit.graph.groups)
    flops = 0.0 if fit.graph.is_normalised else fit.model._contractions.whole("log Z")[0].flops * (1 if given is None else given.rows)
    operations, memory = total * (flops + rows * terms), 8.0 * total * rows
    if operations > MOST_OPERATIONS or memory > BUDGET.bytes:
        message = (
            f"log p of {rows:,} rows at {total:,} draws takes {operations:.2g} operations and {memory / 2**30:.2g} GiB, above the limit of "
            f"{MOST_OPERATIONS:.2g} and {BUDGET.bytes / 2**30:.2g} GiB"
        )
        raise fail("E601", message, help="fewer `draws=` or `chains=`; `information_criterion` needs one pass over the rows")


def _proposals(fit: FitRecord, rows: ScoredRows, params: dict[str, jax.Array], total: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Flat vectors around the estimate, Student t with the inverse Hessian as scale, and their log density up to a constant."""
    curve = curvature(rows.objective, params, colours_of(rows.objective))
    values, vectors = np.linalg.eigh(curve.hessian)
    if values.min(initial=1.0) <= 0:
        message = "the normal approximation needs a curvature that is positive in every direction, and here it is not"
        raise fail("E552", message, help="give the parameters a prior, or fit from another start with `init=`")
    root = curve.basis @ (vectors / np.sqrt(values))
    size = root.shape[1]
    freedom = size + 4.0  # tails above the posterior's, and yet near the normal law in many dimensions
    e = rng.normal(size=(total, size)) * np.sqrt(freedom / rng.chisquare(freedom, size=(total, 1)))
    centre = np.asarray(flatten(fit.graph, params))
    return centre + e @ root.T, -0.5 * (freedom + size) * np.log1p((e**2).sum(axis=1) / freedom)


def _log_posterior(
    fit: FitRecord, evidence: Evidence, rows: ScoredRows, params: dict[str, jax.Array], vectors: Array
) -> tuple[Array, Array]:
    """log p(x) + log prior at each vector, -inf outside the parameters' ranges, and log p(x_r), shape (vectors, rows)."""
    host, free = evidence.lowered.graph, [p for p in fit.graph.parameters if p.name not in fit.meta["fixed"]]
    inside = np.array([not any(in_support(p, unflatten(host, v)[p.name]) for p in free) for v in vectors])
    safe = np.where(inside[:, None], vectors, np.asarray(flatten(host, params)))
    device = derive.graph_arrays(host)
    c, given = None if host.is_normalised else fit.model._contractions.whole("log Z")[1], evidence.lowered.data

    def at(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        here = unflatten(host, vector)
        if c is None:
            log_z = jnp.zeros(())
        else:
            log_z = derive.log_sum(device, here, derive.on_device(known_rows(host, given)), c)
            log_z = log_z[0] if given is None else log_z[rows.codes[host.row_cell]]
        return log_completions(host, device, here, rows.codes) - log_z, log_prior(host, here)

    pointwise, prior = jax.jit(lambda v: jax.lax.map(at, v))(derive.on_device(safe))
    pointwise = np.asarray(pointwise)
    return np.where(inside, pointwise.sum(axis=1) + np.asarray(prior), -np.inf), pointwise


def _metropolis(log_weight: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Which proposal each draw is, of independence Metropolis on log p - log q of shape (chains, proposals), and whether it is new."""
    chains, n = log_weight.shape
    kept, accepted = np.zeros((chains, n), int), np.ones((chains, n), bool)
    log_u = np.log(rng.random((chains, n)))
    for c in range(chains):
        here = 0
        for t in range(1, n):
            accepted[c, t] = log_weight[c, here] == -np.inf or log_u[c, t] < log_weight[c, t] - log_weight[c, here]
            here = t if accepted[c, t] else here
            kept[c, t] = here
    return kept, accepted


def _announce(rate: float) -> None:
    if rate < LEAST_ACCEPTED:
        text = f"The posterior is far from normal: {100 * rate:.0f} % of the proposals were accepted. Look at R-hat and ESS, or draw more"
        warnings.warn(text, SamplingWarning, stacklevel=5)


def _labelled(fit: FitRecord, evidence: Evidence, vectors: Array, lp: Array, accepted: Array, pointwise: Array) -> Any:
    graph = fit.graph
    flat = vectors.reshape(-1, vectors.shape[-1])
    stacked = [unflatten(graph, v) for v in flat]
    draws = {p.name: np.stack([s[p.name] for s in stacked]).reshape(*lp.shape, *p.shape) for p in graph.parameters}
    dims: dict[str, list[str]] = {p.name: list(p.dims) for p in graph.parameters}
    coords: dict[str, Any] = {d: list(c) for p in graph.parameters for d, c in zip(p.dims, p.coords, strict=True)}
    observed = {v.name: decode(graph, evidence.codes, (evidence.codes.shape[1],))[v.name] for v in graph.observed}
    dims |= {v.name: list(v.dims) for v in graph.observed if v.name not in dims}
    coords |= {d: list(c) for v in graph.observed for d, c in zip(v.dims, v.coords, strict=True)}
    name = graph.observed[0].name if len(graph.observed) == 1 else fit.meta["model"]
    meta = fit.meta
    attrs = {
        "model": meta["model"],
        "program_sha256": meta["sha256"],
        "versions": ", ".join(f"{k} {v}" for k, v in meta["versions"].items()),
    }
    attrs["inference"] = "independence Metropolis around the estimate"
    return to_arviz(draws, dims, coords, {"lp": lp, "accepted": accepted}, observed, attrs, log_likelihood={name: pointwise})
