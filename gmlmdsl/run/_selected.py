"""The entries that a laplace prior left free, fitted again without it; the others stay at their centre."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail
from . import _fit
from ._kinks import Selected, at_kinks, held_graph, laplace_priors
from ._parameters import unflatten
from ._rows import evidence_of
from ._status import Finding

if TYPE_CHECKING:
    from ._results import Fit


def refit_selected(fit: Fit, x: Any = None, weights: Any = None, *, missing: Any = None, given: Any = None) -> Fit:
    """The entries that laplace priors left free, fitted without these priors; those at their centre are held there.

    So they are not shrunk (Meinshausen 2007, the relaxed lasso). The choice of entries counts as given, which it is not where the
    same rows made it: then intervals hold the true value less often than they say, and the fit tells so. Rows that had no part in the
    choice mend that.

    Args:
        fit: of a model with a laplace prior.
        x: other rows; none: those of the fit.
        weights: of other rows.
        missing: what stands for a missing cell of other rows.
        given: data of given variables of other rows.

    Returns:
        A fit like any other, under the same mask and options; it can be saved.

    Raises:
        GmlmError: E549 where no parameter that was fitted has a laplace prior; E505 for a fit without its data.
    """
    from ._results import estimate_to_fit

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
    found = _fit.fit(dataclasses.replace(evidence.lowered, graph=graph), evidence.mask, evidence.codes, options)
    finding = _told(selected, kinks, not own)
    found = dataclasses.replace(found, status=dataclasses.replace(found.status, findings=(*found.status.findings, finding)))
    dtype = next(iter(fit.params.values())).dtype
    meta = {k: v for k, v in fit.meta.items() if k != "simulated"} | {"selected": selected}
    return estimate_to_fit(found, held_graph(fit.graph, selected), meta, fit._model, dtype)


def _told(selected: Selected, kinks: Mapping[str, Any], other_rows: bool) -> Finding:
    free = sum(int(np.size(kinks[name])) - len(still) for name, still in selected.items())
    chosen = (
        f"A laplace prior left {counted(free, 'estimate')} free, fitted here without it; the others are held at its centre. "
        "Standard errors and intervals take this choice as given"
    )
    if other_rows:
        return Finding("selected", chosen, "That is right where the rows it was made on are independent of these")
    return Finding(
        "selected",
        f"{chosen}, and it was made on these rows: they hold the true value less often than they say",
        "Choose on some rows and pass others as `x=`",
    )
