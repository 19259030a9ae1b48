"""Contrasts of a fit's parameters, and the Wald test of two fits of one model to different data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import fdtrc, ndtr

from .._diagnostics import fail
from .._types import ArrayLike
from ..derive import on_device, quickly_compiled
from ..evaluate import LEVEL, entry_names, log_prior, unflatten, verified_quantile, verify_names
from ..fit import EQUAL_GRADIENTS, TOO_FEW
from ..graph import FactorGraph
from ..read import verify_unmasked
from .limits import FEW_ROWS_PER_ENTRY, LEAST_VARIANCE, OPEN_PART

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray


@dataclass(frozen=True)
class Contrast:
    """A linear combination of parameters with its standard error.

    The standard error is inf if the combination has a part in an open direction. The standard error
    by the rows is also inf if all rows have the same gradient along it, as a single row does.
    """

    estimate: float
    std_error: float
    level: float = LEVEL

    def interval(self, probability: float | None = None) -> tuple[float, float]:
        """Return the normal interval; the default probability is the fit's `level`."""
        half = verified_quantile(self.level if probability is None else probability) * self.std_error
        return self.estimate - half, self.estimate + half


def contrast(fit: FitRecord, parts: Mapping[str, ArrayLike], errors: str) -> Contrast:
    """Return the contrast c'theta; see `Fit.contrast`."""
    c = coefficients(fit, parts)
    estimate = float(c @ fit.flat(fit.params))
    covariance = fit.determined_covariance(errors)
    open_ = fit.status.open_directions
    if len(open_) and np.linalg.norm(open_ @ c) > OPEN_PART * np.linalg.norm(c):
        return Contrast(estimate, np.inf, fit.level)
    variance = float(max(c @ covariance @ c, 0.0))
    if errors == "sandwich" and ((fit.status.without_error & (c != 0)).any() or _is_untold(fit, c, variance)):
        return Contrast(estimate, np.inf, fit.level)
    return Contrast(estimate, float(np.sqrt(variance)), fit.level)


def _is_untold(fit: FitRecord, c: Array, variance: float) -> bool:
    """Return whether a contrast's variance by few rows is only a rounding error.

    The variances of its entries and the curvature must not be 0.
    """
    if not any(f.slug == TOO_FEW for f in fit.status.findings):
        return False
    size = np.abs(c) @ np.abs(fit.determined_covariance("sandwich")) @ np.abs(c)
    return bool(variance <= EQUAL_GRADIENTS * size < np.inf and c @ fit.determined_covariance("laplace") @ c > 0)


def coefficients(fit: FitRecord, parts: Mapping[str, ArrayLike]) -> Array:
    """Return the flat vector of the coefficients of a contrast.

    Raises:
        GmlmError: E544 for coefficients that do not fit.
    """
    if not isinstance(parts, Mapping) or not parts:
        raise fail(
            "E544", f"a contrast is a dict of coefficients by parameter, got {type(parts).__name__}", help='`{"h": [1, -1, 0]}`, say'
        )
    verify_names(parts, [p.name for p in fit.graph.parameters], "contrast")
    c = {}
    for p in fit.graph.parameters:
        verify_unmasked(parts.get(p.name), f"contrast[{p.name!r}]", "E544")
        try:
            given = np.asarray(parts.get(p.name, 0.0), float)
        except (TypeError, ValueError):
            raise fail("E544", f"the coefficients of `{p.name}` are not numbers") from None
        if p.name in parts and given.shape != p.shape:
            raise fail("E544", f"the coefficients of `{p.name}` must have its shape {p.shape}, got {given.shape}")
        c[p.name] = np.broadcast_to(given, p.shape)
    flat = fit.flat(c)
    if not np.isfinite(flat).all() or not flat.any():
        raise fail("E544", "the coefficients of a contrast are finite, and not all zero")
    return flat


@dataclass(frozen=True, repr=False)
class WaldTest:
    """A test of whether two fits differ by more than their standard errors.

    Attributes:
        statistic: d' V^- d, with d the difference of the compared estimates.
        degrees_of_freedom: the rank p of V.
        rows: the effective number n of rows, or of simulated data sets, of the smaller fit.
        p_value: the probability that Hotelling's T^2 with p and n - 1 degrees of freedom exceeds
            the statistic. For many rows T^2 is chi-square with p degrees of freedom. The value is
            nan unless n is above p.
        table: one row per entry, the largest |z| first. The columns are both estimates, their
            difference, its standard error, z, and the two-sided p-value. The p-value is adjusted
            for the number of entries by Holm's method.
        left_out: entries without a finite estimate, or without variance, in one of the fits.
    """

    statistic: float
    degrees_of_freedom: int
    rows: float
    p_value: float
    table: pd.DataFrame
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        head = f"Wald test: {self.statistic:.4g} on {self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.3g} by Hotelling's T^2"
        if self.rows < FEW_ROWS_PER_ENTRY * self.degrees_of_freedom:
            head += (
                f"\nfew rows: {self.rows:.4g} of the smaller fit for {self.degrees_of_freedom} entries; its standard errors are too small"
            )
        left = f"left out, without a finite estimate or error, or fixed: {', '.join(self.left_out)}" if self.left_out else ""
        return "\n".join([head, *([left] if left else []), self.table.head(10).to_string(float_format=lambda v: f"{v:.4g}")])


def wald_test(a: FitRecord, b: FitRecord, parameters: Sequence[str] | None = None, *, names: tuple[str, str] = ("a", "b")) -> WaldTest:
    """Test whether two fits of one model, to independent data, have the same parameters.

    The statistic is d' V^- d with d the difference of estimates. If the parameters are the same, it
    is chi-square with rank(V) degrees of freedom for many rows. The p-values are those of
    Hotelling's T^2 with the rows of the smaller fit, since V is estimated from them.

    V is the sum of the sandwich covariances and, if there is a prior, of the contribution of the
    prior. A prior shifts an estimate from the common true value by -L P (truth - mean). L is the
    inverse of the fit's penalised Hessian, and P is the prior's curvature; fits to fewer rows are
    shifted further. Over true values that follow the prior, the difference of the two shifts has
    the covariance (L_a - L_b) P (L_a - L_b). The test is also valid for misspecified models,
    because it compares the limits of the fits.

    Args:
        a: a fit.
        b: another fit of the same model and mask, to other rows.
        parameters: the names of the compared parameters. If None, all are compared.
        names: the names of the two fits in the table.

    Raises:
        GmlmError: E545 for fits that cannot be compared, or have no comparable entries.

    Reference: Wald 1943; Hotelling 1931; White 1982, Theorem 3.4; Holm 1979.
    """
    for fit in (a, b):
        if not hasattr(fit, "determined_covariance"):
            raise fail(
                "E545", f"a Wald test compares two fits, got {type(fit).__name__}", help="`gm.wald_test(model.fit(x), model.fit(y))`"
            )
    graph = verify_alike(a, b)
    all_names, chosen = entry_names(graph), _chosen(a, parameters)
    usable = chosen.copy()
    for fit in (a, b):
        usable &= (np.diag(fit.determined_covariance("sandwich")) > 0) & (fit.status.separated == 0) & ~fit.status.undetermined
    if not usable.any():
        message = "no entry has a finite estimate with a standard error in both fits: there is nothing to compare"
        raise fail("E545", message, help="print both fits: they say why")
    at = np.flatnonzero(usable)
    flat = [f.flat(f.params)[at].astype(float) for f in (a, b)]
    difference = flat[0] - flat[1]
    variance = sum((f.determined_covariance("sandwich")[np.ix_(at, at)] for f in (a, b)), np.zeros((len(at), len(at))))
    variance = variance + pulls(a, b)[np.ix_(at, at)]
    errors = np.sqrt(np.diag(variance))
    values, vectors = np.linalg.eigh(variance / np.outer(errors, errors))
    kept = values > LEAST_VARIANCE * values.max()
    turned = vectors[:, kept].T @ (difference / errors)
    statistic, rank = float((turned**2 / values[kept]).sum()), int(kept.sum())
    table = _table([all_names[i] for i in at], names, flat, difference, errors)
    left = tuple(all_names[i] for i in np.flatnonzero(chosen & ~usable))
    n = min(fit.effective_rows if fit.simulated is None else fit.simulated["effective"] for fit in (a, b))
    free = n - rank
    p_value = float(fdtrc(rank, free, statistic * free / (rank * (n - 1)))) if free > 0 else float("nan")
    return WaldTest(statistic, rank, n, p_value, table, left)


def pulls(a: FitRecord, b: FitRecord) -> Array:
    """Return (L_a - L_b) P (L_a - L_b), the covariance of the difference of the priors' shifts."""
    middle = (a.flat(a.params).astype(float) + b.flat(b.params)) / 2
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        prior = -np.asarray(_prior_bend(a.graph, on_device(middle)))
    apart = a.determined_covariance("laplace") - b.determined_covariance("laplace")
    return (apart * np.where(np.isfinite(prior), np.maximum(prior, 0.0), 0.0)) @ apart


@quickly_compiled()
def _prior_bend(graph: FactorGraph, vector: jax.Array) -> jax.Array:
    """Return the diagonal of the Hessian of log prior, which is a sum over entries."""
    return jax.jvp(jax.grad(lambda v: log_prior(graph, unflatten(graph, v))), (vector,), (jnp.ones_like(vector),))[1]


def holm(p: Array) -> Array:
    """Return Holm's adjusted p-values.

    The k-th smallest of m p-values is multiplied by m - k + 1; the results are made monotone and
    are at most 1.
    """
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))), 1.0)
    out = np.empty(len(p))
    out[order] = scaled
    return out


def _table(entries: list[str], names: tuple[str, str], flat: list[Array], difference: Array, errors: Array) -> pd.DataFrame:
    import pandas as pd

    z = difference / errors
    columns = {names[0]: flat[0], names[1]: flat[1], "difference": difference, "std_error": errors, "z": z}
    columns["p_holm"] = holm(2 * ndtr(-np.abs(z)))
    frame = pd.DataFrame(columns, index=pd.Index(entries, name="parameter"))
    return frame.iloc[np.argsort(-np.abs(z), kind="stable")]


def _chosen(fit: FitRecord, parameters: Sequence[str] | None) -> Array:
    own = [p.name for p in fit.graph.parameters]
    wanted = own if parameters is None else [parameters] if isinstance(parameters, str) else list(parameters)
    verify_names(dict.fromkeys(wanted), own, "parameters")
    return np.repeat([n in wanted for n in own], [p.size for p in fit.graph.parameters])


def verify_alike(a: FitRecord, b: FitRecord) -> FactorGraph:
    """Raise unless two fits have the same program, model, mask and parameters.

    If only one of the fits has labels, as a fit to a frame beside a fit to an array, its cells are
    those of the other fit in their order.

    Returns:
        The graph of the fit that has labels, or of `a`.

    Raises:
        GmlmError: E507 if `b` is not a fit, E545 for fits that differ.
    """
    if not hasattr(b, "meta") or not hasattr(type(b), "full_covariance"):
        raise fail(
            "E507", f"a fit is compared with another fit, got {type(b).__name__}", help="`model.fit(rows)` of the other group's rows"
        )
    layouts, graph = _layouts(a, b)
    for what, left, right in (
        ("models", a.meta["model"], b.meta["model"]),
        ("masks", a.meta["mask"], b.meta["mask"]),
        ("programs", a.meta["program"], b.meta["program"]),
        ("parameters", *layouts),
        ("fixed parameters", sorted(a.meta["fixed"]), sorted(b.meta["fixed"])),
    ):
        if left != right:
            shown = f": {left!r} and {right!r}" if isinstance(left, str) else ""
            message = f"the fits have different {what}{shown}: their parameters do not mean the same"
            raise fail("E545", message, help="fit one model to both data, under one mask, with the same `coords=` and columns")
    return graph


def _layouts(a: FitRecord, b: FitRecord) -> tuple[list[list[tuple[object, ...]]], FactorGraph]:
    """Return the layouts to be compared, and the graph whose cells have the names of the result."""
    named, plain = ([_layout(f, unnamed) for f in (a, b)] for unnamed in (False, True))
    if named[0] == plain[0]:
        return plain, b.graph
    if named[1] == plain[1]:
        return plain, a.graph
    return named, a.graph


def _layout(fit: FitRecord, unnamed: bool) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for p in fit.graph.parameters:
        axes = [getattr(axis, "unnamed", axis) for axis in p.coords] if unnamed else p.coords
        found.append((p.name, p.shape, *([str(c) for c in axis] for axis in axes)))
    return found
