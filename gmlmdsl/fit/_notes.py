"""Notes beside the entries of a table of estimates, for exceptional estimates and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from .._types import JsonObject
from ..graph import FactorGraph
from ._few_rows import TOO_FEW
from ._kinks import without_interval
from ._status import Status

Array = np.ndarray
NO_LAPLACE = "no valid error: the mask's loss is not a likelihood"


class Noted(Protocol):
    """The attributes of the record of a fit from which notes are made."""

    @property
    def graph(self) -> FactorGraph: ...
    @property
    def params(self) -> dict[str, Array]: ...
    @property
    def status(self) -> Status: ...
    @property
    def meta(self) -> JsonObject: ...
    @property
    def determined(self) -> Mapping[str, Array]: ...
    @property
    def simulated(self) -> JsonObject | None: ...


def notes_on(fit: Noted, errors: str) -> Array:
    """Return a note for each entry of the flat vector; it is empty if there is nothing to note."""
    status, fixed = fit.status, fit.meta["fixed"]
    notes = np.full(len(status.separated), "", object)
    if errors == "sandwich" and "sandwich" in fit.determined:
        notes = _on_errors(fit)
    if errors == "laplace" and not _is_likelihood(fit):
        notes = np.full(len(notes), NO_LAPLACE, object)
    if status.shrunk is not None:
        notes = np.where(status.shrunk, np.where(notes == "", "shrunk", notes + "; shrunk"), notes)
    held = "held: not selected" if fit.meta.get("selected") else "at its prior's centre"
    notes = np.where(without_interval(fit.graph, fixed, fit.params), held, notes)
    notes = np.where(status.separated != 0, "no finite estimate", np.where(status.undetermined, "not determined", notes))
    whose = np.repeat([p.name for p in fit.graph.parameters], [p.size for p in fit.graph.parameters])
    return np.where(np.isin(whose, list(fixed)), "fixed", notes)


def _is_likelihood(fit: Noted) -> bool:
    """Return whether each row's loss is -log p of all reachable cells given the rest.

    This is the case if every block contains all cells that the mask can reach. Otherwise the terms
    of a row are dependent, their Hessian is not the covariance of their gradient, and its inverse
    is not a covariance.
    """
    return fit.meta.get("mean_block_size") == fit.meta.get("reached")


def _on_errors(fit: Noted) -> Array:
    """Return a note on the sandwich error of each entry."""
    status = fit.status
    if fit.simulated is not None:
        return np.full(len(status.separated), "assumes the model", object)
    few = any(f.slug == TOO_FEW for f in status.findings)
    return np.where(status.without_error, "no error by these rows", "error too small: few rows" if few else "").astype(object)
