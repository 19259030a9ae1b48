"""Refits of the entries that a laplace prior left free, without that prior.

The other entries stay at the centre of their prior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import derive
from .._diagnostics import counted, fail
from .._types import ArrayLike, Given, Index, JsonObject, Missing, Rows
from ..evaluate import laplace_priors, unflatten
from ..fit import Estimate, Finding, Inferred, Selected, at_kinks, estimate_to_fit, fit_model, held_graph
from ._scored_rows import evidence_of

if TYPE_CHECKING:
    from ..fit import Evidence, FitRecord
    from ..graph import FactorGraph

F = TypeVar("F", bound="FitRecord")


def refit_selected(fit: F, x: Rows | None, weights: ArrayLike | None, missing: Missing | None, given: Given | None) -> F:
    """Return a refit of the selected entries; the arguments are those of `Fit.refit_selected`."""
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
    """Return an estimate whose status states that its entries were selected, and on which rows.

    Args:
        found: the estimate.
        selected: by parameter, the entries that do not move.
        sizes: the number of entries of each parameter.
        other_rows: whether the selection was made on other rows.
        what: the reason for the selection, as the subject of the message.
    """
    free = sum(sizes[name] - len(still) for name, still in selected.items())
    finding = _told(f"{what} left {counted(free, 'estimate')} free, fitted here without it", other_rows)
    status = dataclasses.replace(found.status, findings=(*found.status.findings, finding))
    return dataclasses.replace(found, inference=Inferred(status, found.covariances))


def path_refit(
    kind: type[F], evidence: Evidence, index: Index | None, graph: FactorGraph, meta: JsonObject, model: Callable[[], Any]
) -> Callable[[Selected, Mapping[str, ArrayLike]], F]:
    """Return a function that refits a selection of couplings without the penalty of a path.

    The arguments of the function are the entries that are held at 0, and a start.

    Args:
        kind: the class of the fits that it returns.
        evidence: the data and options of the path.
        index: the labels of the rows.
        graph: the model's graph, without given data.
        meta: the text and numbers of the program that a fit records.
        model: a function that returns the model.
    """
    bound, dtype = evidence.lowered, derive.float_type()

    def refit(still: Selected, start: Mapping[str, ArrayLike]) -> F:
        gauged = [p.name for p in graph.parameters if p.name in still and p.gauge]
        if gauged:
            message = f"`{gauged[0]}` has a gauge: its entries move together, and none can be held at 0 alone"
            help = "leave the gauge out and give a weak prior: couplings are compared in the zero-sum gauge anyway"
            raise fail("E549", message, help=help)
        options = dataclasses.replace(evidence.options, init=start)
        held = dataclasses.replace(bound, graph=held_graph(bound.graph, still))
        found = fit_model(held, evidence.mask, evidence.codes, options, index)
        found = with_choice(found, still, {p.name: p.size for p in graph.parameters}, False, "A penalty around 0")
        return estimate_to_fit(kind, found, held_graph(graph, still), meta | {"selected": dict(still)}, model, dtype)

    return refit


def _told(how: str, other_rows: bool) -> Finding:
    chosen = f"{how}; the others are held at its centre. Standard errors and intervals take this choice as given"
    if other_rows:
        return Finding("selected", chosen, "That is right where the rows it was made on are independent of these")
    return Finding(
        "selected",
        f"{chosen}, and it was made on these rows: they hold the true value less often than they say",
        "Choose on some rows and pass others as `x=`",
    )
