"""Inclusion probabilities of entries: shares of draws with their Monte Carlo errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail, known
from .._types import DrawsLike
from ..sample import groups_of, summary
from ._sampled import CELL, CLUSTER, INCLUDED
from .limits import LIKELY

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def inclusion(idata: DrawsLike, name: str | None = None) -> pd.DataFrame:
    """Return the inclusion probability of each entry of a parameter under `spike_slab`.

    The probabilities are computed from draws of `Model.posterior`. The entries above one half are
    the median probability model; for edges, it is the network to report (Barbieri and Berger 2004).

    Args:
        idata: the draws.
        name: the parameter, `"J"`; it may be left out if only one has indicators.

    Returns:
        A DataFrame with one row for each entry, in order. `probability` is the share of draws that
        include the entry, and `mcse`, `ess` and `r_hat` are those of that share. `included` states
        whether it is above one half. `mean` and `sd` are those of the entry, with draws at 0
        included. `mean_in` is the mean of the draws that include the entry. `mcse`, `ess` and
        `r_hat` are nan if all draws agree. A share of 0 or 1 then has an error of about 3 /
        (effective number of draws), which only more draws reduce. `attrs` has the `calibration` of
        the draws.

    Raises:
        GmlmError: E506 for a parameter without indicators, E507 for draws that have none.

    Reference: Barbieri and Berger 2004; the error of the share is ArviZ's `mcse`.
    """
    draws = _posterior_of(idata)
    names = [str(v) for v in draws if INCLUDED.format(v) in draws]
    if not names:
        raise fail("E507", "these draws have no indicators", help="draw by `model.posterior`, of a parameter under `spike_slab`")
    if name is None:
        if len(names) > 1:
            raise fail("E507", f"several parameters have indicators: {', '.join(names)}", help=f"name one: `{names[0]}`")
        name = names[0]
    return _table(idata, draws, known(name, names, "parameter with indicators"))


def _posterior_of(idata: DrawsLike) -> Any:
    """Return the group of draws; it is empty if there are no draws.

    Raises:
        GmlmError: E507 unless `idata` is an ArviZ object.
    """
    try:
        return groups_of(idata).get("posterior", {})
    except (AttributeError, TypeError):
        message = f"idata must be what `model.posterior` returns, draws for ArviZ, got {type(idata).__name__}"
        raise fail("E507", message, help="`gm.inclusion(model.posterior(x, mask=..))`") from None


def _table(idata: DrawsLike, draws: xr.Dataset, name: str) -> pd.DataFrame:
    import pandas as pd

    told, value = summary(idata, [INCLUDED.format(name)]), draws[name]
    inside, values = (np.asarray(draws[n]).reshape(-1, len(told)).astype(float) for n in (INCLUDED.format(name), name))
    count = inside.sum(axis=0)
    mean_in = np.divide((values * inside).sum(axis=0), count, out=np.full(len(count), np.nan), where=count > 0)
    share = inside.mean(axis=0)
    columns = {
        "probability": share,
        "mcse": told["mcse_mean"].to_numpy(),
        "ess": told["ess_bulk"].to_numpy(),
        "r_hat": told["r_hat"].to_numpy(),
        "included": share > LIKELY,
        "mean": values.mean(axis=0),
        "sd": values.std(axis=0, ddof=1),
        "mean_in": mean_in,
    }
    table = pd.DataFrame(columns, index=pd.Index(_entries(name, value), name="entry"))
    table.attrs["calibration"] = draws.attrs.get("calibration", "")
    return table


def _entries(name: str, value: xr.DataArray) -> list[str]:
    """Return the names of entries by their coordinates, such as `J[0, 1]`, in row-major order."""
    axes = [np.asarray(value.coords[d]) for d in value.dims[2:]]
    found = []
    for place in np.ndindex(*value.shape[2:]):
        parts = ",".join(str(axis[i]) for axis, i in zip(axes, place, strict=True)).split(",")
        found.append(f"{name}[{', '.join(t.strip() for t in parts)}]" if axes else name)
    return found


def co_clustering(idata: Any) -> pd.DataFrame:
    """Return the probability that each two cells are in one cluster, by draws of `Model.posterior`.

    It needs draws under `gm.StochasticBlock`. The names of clusters mean nothing, because chains
    exchange them; this matrix does not depend on them.

    Args:
        idata: the draws.

    Returns:
        A DataFrame of cells by cells, 1 on the diagonal. `attrs["clusters"]` has the probability of
        each number of clusters that are not empty, by number.

    Raises:
        GmlmError: E507 for draws without clusters.
    """
    import pandas as pd

    draws = _posterior_of(idata)
    if CLUSTER not in draws or CELL not in draws[CLUSTER].dims:
        message = "these draws have no clusters of cells"
        raise fail("E507", message, help="`model.posterior(x, inclusion=gm.StochasticBlock())`")
    cells = [str(c) for c in np.asarray(draws[CLUSTER].coords[CELL])]
    z = np.asarray(draws[CLUSTER]).reshape(-1, len(cells))
    same = np.mean([row[:, None] == row for row in z], axis=0)
    frame = pd.DataFrame(same, index=cells, columns=cells)
    counts = np.array([len(set(row)) for row in z.tolist()])
    frame.attrs["clusters"] = {int(k): float((counts == k).mean()) for k in np.unique(counts)}
    frame.attrs["calibration"] = draws.attrs.get("calibration", "")
    return frame
