"""What a table of estimates notes beside each entry: where its estimate, error or interval is not what it seems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..graph import FactorGraph
from ._few_rows import TOO_FEW
from ._kinks import without_interval
from ._status import Status

Array = np.ndarray
NO_LAPLACE = "no valid error: the mask's loss is not a likelihood"


class Noted(Protocol):
    """What notes are made from; the record of a fit has it."""

    @property
    def graph(self) -> FactorGraph: ...
    @property
    def params(self) -> dict[str, Array]: ...
    @property
    def status(self) -> Status: ...
    @property
    def meta(self) -> dict[str, Any]: ...
    @property
    def determined(self) -> Mapping[str, Array]: ...
    @property
    def simulated(self) -> dict[str, Any] | None: ...


def notes_on(fit: Noted, errors: str) -> Array:
    """A text for each entry of the flat vector, empty where there is nothing to note."""
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
    """Whether each row's loss is -log p of what the mask can reach given the rest, as it is where every block is all of that.

    Else the terms of a row are dependent, their Hessian is not the covariance of their gradient,
    and its inverse is no covariance.
    """
    return fit.meta.get("mean_block_size") == fit.meta.get("reached")


def _on_errors(fit: Noted) -> Array:
    """What is to be said of each entry's sandwich."""
    status = fit.status
    if fit.simulated is not None:
        return np.full(len(status.separated), "assumes the model", object)
    few = any(f.slug == TOO_FEW for f in status.findings)
    return np.where(status.without_error, "no error by these rows", "error too small: few rows" if few else "").astype(object)
