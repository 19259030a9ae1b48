"""The entries that a laplace prior left free, fitted again without it; the others stay at their centre."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._diagnostics import counted, fail
from ..evaluate import unflatten
from ..fit import Estimate, Finding, Inferred, Selected, at_kinks, estimate_to_fit, fit_model, held_graph, laplace_priors
from ._scored_rows import evidence_of

if TYPE_CHECKING:
    from ..fit import FitRecord

F = TypeVar("F", bound="FitRecord")


def refit_selected(fit: F, x: Any, weights: Any, missing: Any, given: Any) -> F:
    """See `Fit.refit_selected`."""
    fixed = tuple(fit.meta["fixed"])
    slopes = unflatten(fit.graph, laplace_priors(fit.graph, fixed)[1])
    kinks = unflatten(fit.graph, at_kinks(fit.graph, fixed, fit.params))
    selected = {name: np.flatnonzero(kinks[name]).tolist() for name, slope in slopes.items() if np.any(slope)}
    if not selected:
        message = f"no parameter of `{fit.meta['model']}` that was fitted has a laplace prior with a kink: nothing was selected"
        raise fail("E549", message, help="give one `~ laplace(0, scale)`; it must be real, without a gauge, and not `fixed=`")
    own = x is None and weights is None and given is None
    evidence = fit.evidence if own else evidence_of(fit, x, weights, missing, given=given)
    graph = held_graph(evidence.lowered.graph, selected)
    options = dataclasses.replace(evidence.options, init=fit.params)
    found = fit_model(dataclasses.replace(evidence.lowered, graph=graph), evidence.mask, evidence.codes, options)
    found = with_choice(found, selected, {name: np.size(kinks[name]) for name in selected}, not own)
    dtype = next(iter(fit.params.values())).dtype
    meta = {k: v for k, v in fit.meta.items() if k != "simulated"} | {"selected": selected}
    return estimate_to_fit(type(fit), found, held_graph(fit.graph, selected), meta, fit._model, dtype)


def with_choice(found: Estimate, selected: Selected, sizes: Mapping[str, int], other_rows: bool, what: str = "A laplace prior") -> Estimate:
    """An estimate whose status says that its entries were chosen, and on which rows."""
    free = sum(sizes[name] - len(still) for name, still in selected.items())
    finding = _told(f"{what} left {counted(free, 'estimate')} free, fitted here without it", other_rows)
    status = dataclasses.replace(found.status, findings=(*found.status.findings, finding))
    return dataclasses.replace(found, inference=Inferred(status, found.covariances))


def _told(how: str, other_rows: bool) -> Finding:
    chosen = f"{how}; the others are held at its centre. Standard errors and intervals take this choice as given"
    if other_rows:
        return Finding("selected", chosen, "That is right where the rows it was made on are independent of these")
    return Finding(
        "selected",
        f"{chosen}, and it was made on these rows: they hold the true value less often than they say",
        "Choose on some rows and pass others as `x=`",
    )
