"""Posteriors of models with `spike_slab` priors: from rows and a mask to labelled draws.

The shares of draws that include an entry have Monte Carlo errors.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail, known, listed, tell, with_whole_numbers
from .._types import ArrayLike, Draws, DrawsLike, JsonObject
from ..data import generator, keys_of, verified_seed
from ..derive import bounded_jit
from ..evaluate import SPIKE_SLAB, over_rows
from ..fit import SINGULAR, Estimate, FitOptions, evidence_identity, fit_model, long_fit
from ..graph import FactorGraph, Lowered, ParameterArray
from ..masks import AbstractMask
from ..plan import verify_held
from ..sample import SamplingWarning, groups_of, summary, to_arviz
from ._calibration import CURVATURE, DATA_SETS, SIMULATED, Source
from ._chances import BetaBernoulli, Known, StochasticBlock, cells_of_clusters, chances_of
from ._likelihood import Likelihood, likelihood_of_rows
from ._numpyro_model import calibrated, verify_choice
from ._sites import at_coordinates, axes_of_parameters, coordinates
from ._spike_slab import ACCEPTED, LEAPS, Target, Walk, curvature_at, definite, run
from .limits import GRADIENT, LEAST_ACCEPTED, LIKELY, MOST_WALK_OPERATIONS

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Array = np.ndarray
INCLUDED = "{}_included"  # the name of a parameter's indicators
PROBABILITY = "{}_probability"  # the name of a parameter's fitted probability of inclusion
CLUSTER, CELL = "cluster", "cell"  # the names of the clusters of cells and of their axis
FEWER = "fewer `draws=`, `chains=` or rows"


@dataclass(frozen=True)
class SampledOptions:
    """The options of the draws; see `Model.posterior`."""

    mask: str
    draws: int
    warmup: int
    chains: int
    seed: int
    weights: ArrayLike | None
    gaps: str = "sum"
    inclusion: BetaBernoulli | StochasticBlock | None = None
    checkpoint: str | os.PathLike[str] | None = None
    calibrate: str | None = None


def has_spikes(graph: FactorGraph) -> bool:
    """Return whether some parameter has a prior with a positive probability of being exactly 0."""
    return bool(_spiked(graph))


def sample_posterior(
    lowered: Lowered, mask: AbstractMask, codes: Array, options: SampledOptions, meta: JsonObject, model: Callable[[], object]
) -> Draws:
    """Return draws of the parameters and their indicators; see `Model.posterior`.

    Args:
        lowered: the model.
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing.
        options: the options of the draws.
        meta: the text and versions of the program.
        model: a function that returns the model, from which "simulated" draws data sets.
    """
    options = with_whole_numbers(options, {"draws": 1, "warmup": 0, "chains": 1})
    verified_seed(options.seed)
    verify_choice(options.calibrate, (CURVATURE, SIMULATED))
    spiked = _spiked(lowered.graph)
    _verify_names(lowered.graph, spiked, options.inclusion)
    slabs = dataclasses.replace(lowered, graph=with_slabs(lowered.graph))
    how = FitOptions(options.mask, options.seed, weights=options.weights, impute=False, progress=False, gaps=options.gaps)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        estimate = fit_model(slabs, mask, codes, how)
        likelihood = likelihood_of_rows(estimate.evidence, estimate.params)
        chances = np.concatenate([_argument(p, "probability") for p in spiked])
        _verify_cost(likelihood, options, len(chances))
        source = Source(estimate.evidence, meta, model, estimate.params, DATA_SETS.get(options.calibrate))
        calibration, words = calibrated(source, options.calibrate)
        likelihood = dataclasses.replace(likelihood, calibration=calibration)
        walk = _walk(likelihood, lowered.graph, estimate.params, spiked, options.inclusion)
        rng = generator(options.seed, 1)
        included = rng.random((options.chains, len(chances))) < chances
        keys, how = keys_of(options.seed, np.arange(options.chains)), {k: v for k, v in vars(options).items() if k != "weights"}
        with long_fit(options.checkpoint, lambda: evidence_identity(estimate.evidence, estimate.params, how)) as saved:
            told = run(walk, keys, included, options.warmup, options.draws, saved)
        alone, flat = likelihood.of_any_rows, told.vector.reshape(-1, told.vector.shape[-1])
        params = over_rows(lambda v: _params_at(alone, v), flat.T, (), float(flat.shape[1]))
    lead = options.chains, options.draws
    draws = {p.name: np.moveaxis(params[p.name], -1, 0).reshape(*lead, *p.shape) for p in lowered.graph.parameters}
    _announce(told)
    return _labelled(estimate, spiked, draws, told, options, meta, words)


def with_slabs(graph: FactorGraph) -> FactorGraph:
    """Return the same model with the slabs as priors, without the point masses at 0."""

    def slab(p: ParameterArray) -> ParameterArray:
        if p.prior is None or p.prior.name != SPIKE_SLAB:
            return p
        arguments = {"mean": np.zeros(()), "sd": p.prior.arguments["sd"]}
        return dataclasses.replace(p, prior=dataclasses.replace(p.prior, name="normal", arguments=arguments))

    return graph.with_parameters(tuple(slab(p) for p in graph.parameters))


def _spiked(graph: FactorGraph) -> list[ParameterArray]:
    return [p for p in graph.parameters if p.prior is not None and p.prior.name == SPIKE_SLAB]


def _argument(p: ParameterArray, name: str) -> Array:
    """Return an argument of a prior, one value for each entry."""
    assert p.prior is not None
    return np.broadcast_to(p.prior.arguments[name], p.shape).astype(float).ravel()


def _verify_names(graph: FactorGraph, spiked: list[ParameterArray], inclusion: BetaBernoulli | StochasticBlock | None) -> None:
    own = {INCLUDED.format(p.name) for p in spiked}
    own |= {CLUSTER} if isinstance(inclusion, StochasticBlock) else {PROBABILITY.format(p.name) for p in spiked} if inclusion else set()
    taken = {p.name for p in graph.parameters} & own
    if taken:
        raise fail("E507", f"{listed(sorted(taken))} is what the indicators of a parameter are called", help="give it another name")


def _verify_cost(likelihood: Likelihood, options: SampledOptions, entries: int) -> None:
    """Raise E601, before the first draw, if draws take too much time or memory.

    Raises:
        GmlmError: E601.
    """
    steps = float(options.chains) * (options.draws + options.warmup)
    operations = steps * (entries + GRADIENT * (LEAPS + 1)) * likelihood.cost
    if operations > MOST_WALK_OPERATIONS:
        message = (
            f"{options.chains:,} chains of {options.draws + options.warmup:,} steps over {entries:,} indicators evaluate factors "
            f"{operations:.2g} times, above the limit of {MOST_WALK_OPERATIONS:.2g}"
        )
        raise fail("E601", message, help=f"{FEWER}; or fit with `laplace` priors, and `fit.refit_selected()`")
    held = float(options.chains) * options.draws * (24.0 * sum(p.size for p in likelihood.graph.parameters) + 32)
    verify_held(held, f"{options.draws:,} draws of each of {options.chains:,} chains", FEWER)


def _walk(
    likelihood: Likelihood,
    graph: FactorGraph,
    params: Mapping[str, Any],
    spiked: list[ParameterArray],
    inclusion: BetaBernoulli | StochasticBlock | None,
) -> Walk:
    """Return the target with the curvature around the mode of the model with slabs as priors.

    Raises:
        GmlmError: E552 if neither data nor priors determine some direction.
    """
    sites = likelihood.sites
    ends = dict(zip((s.parameter.name for s in sites), np.cumsum([s.size for s in sites]), strict=True))
    place = np.concatenate([np.arange(ends[p.name] - p.size, ends[p.name]) for p in spiked])
    chance, sd = (np.concatenate([_argument(p, name) for p in spiked]) for name in ("probability", "sd"))
    with np.errstate(divide="ignore"):
        log_in, log_out = np.log(chance), np.log1p(-chance)
    at_zero = -np.log(sd) - 0.5 * np.log(2 * np.pi)
    chances = chances_of(graph, spiked, Known(jnp.asarray(log_in), jnp.asarray(log_out)), inclusion)
    target = Target(likelihood.of_any_rows, jnp.asarray(place), chances, jnp.asarray(at_zero))
    centre = coordinates(sites, params)
    curvature = definite(np.asarray(curvature_at(target, centre)), SINGULAR)
    if curvature is None:
        message = "neither data nor priors determine some direction of the parameters: the posterior cannot be normalised"
        raise fail("E552", message, help="give them a prior, or fix a `gauge`")
    return Walk(target, centre, jnp.asarray(curvature))


@bounded_jit
def _params_at(likelihood: Likelihood, vectors: jax.Array) -> dict[str, jax.Array]:
    """Return parameters at vectors of shape (size, draws), with the axis of the draws last."""
    return jax.vmap(lambda v: at_coordinates(likelihood.sites, v, likelihood.objective.held), in_axes=-1, out_axes=-1)(vectors)


def _announce(told: Any) -> None:
    rate = float(told.accepted.mean())
    if rate < LEAST_ACCEPTED:
        text = f"{100 * rate:.0f} % of the trajectories were accepted, where {100 * ACCEPTED:.0f} % are meant: raise `warmup=`"
        tell(text, SamplingWarning)


def _labelled(
    estimate: Estimate,
    spiked: list[ParameterArray],
    draws: dict[str, Array],
    told: Any,
    options: SampledOptions,
    meta: JsonObject,
    words: str,
) -> Draws:
    graph, at = estimate.evidence.lowered.graph, 0
    dims, coords = axes_of_parameters(graph)
    for p in spiked:
        name = INCLUDED.format(p.name)
        draws[name] = told.included[..., at : at + p.size].reshape(*told.included.shape[:2], *p.shape)
        dims[name] = list(p.dims)
        at += p.size
    if isinstance(options.inclusion, StochasticBlock):
        draws[CLUSTER], dims[CLUSTER], coords[CELL] = told.hidden, [CELL], cells_of_clusters(graph, spiked)
    elif options.inclusion is not None:
        draws |= {PROBABILITY.format(p.name): told.hidden[..., k] for k, p in enumerate(spiked)}
        dims |= {PROBABILITY.format(p.name): [] for p in spiked}
    attrs = {
        "model": meta["model"],
        "program_sha256": meta["sha256"],
        "versions": ", ".join(f"{k} {v}" for k, v in meta["versions"].items()),
        "inference": f"mask `{options.mask}`, {words}; indicators by Metropolis-Hastings between dimensions, the rest by trajectories",
        "calibration": words,
        "inclusion_prior": "of the program" if options.inclusion is None else repr(options.inclusion),
        "mask": estimate.use.words,
        "seed": options.seed,
        "warmup": options.warmup,
    }
    stats = {"lp": told.value, "switched": told.switched, "acceptance_rate": told.accepted}
    return to_arviz(draws, dims, coords, stats, None, attrs)


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
