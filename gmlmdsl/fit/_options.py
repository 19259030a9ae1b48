"""The options and the data of a fit, and fitting methods that minimise no exact objective."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax

from .._diagnostics import Source, Span, fail, is_one_of, unknown, whole_number
from .._types import ArrayLike, Index, ParamsLike
from ..data import verified_weights
from ..evaluate import Repeats
from ..graph import FactorGraph, Lowered
from ..masks import AbstractMask, ListedMask, MixtureMask, SubsetMask, certain_mask
from ..plan import BUDGET, plan_mask
from ._training_options import Training
from .limits import MOST_LATENT_VALUES

Array = np.ndarray
OPTIONAL = ("chains", "steps", "batch_size", "burn_in")  # chosen by the fit if None
WHOLE = "(everything)"  # the name of the mask of a likelihood if no mask of the file was named


@dataclass(frozen=True)
class FitOptions:
    """The options of a fit; see `Model.fit`."""

    mask: str
    seed: int = 0
    n_masks: int | str | None = None
    weights: ArrayLike | None = None
    init: ParamsLike | None = None
    fixed: ParamsLike | None = None
    optimizer: optax.GradientTransformation | None = None
    batch_size: int | None = None
    max_steps: int | None = None
    progress: bool | None = None
    impute: bool | None = None
    weights_are: str = "importances"
    method: Any = None
    repeats: Repeats | None = None
    gaps: str = "sum"
    # whether the directions that data alone leave open are computed; refits of many do not need
    # them
    asks_data_alone: bool = True
    mesh_axis: str | None = None
    checkpoint: str | os.PathLike[str] | None = None

    @property
    def ignores(self) -> bool:
        """Whether missing cells are left out instead of summed out."""
        return is_one_of(self.gaps, ("ignore",))


@dataclass(frozen=True)
class Evidence:
    """The inputs of a fit; they are kept with the fit in memory and are never saved.

    `codes` has the shape (cells, rows), with -1 for a missing cell. `index` contains the labels of
    the rows, if the rows came with labels.
    """

    lowered: Lowered
    mask: AbstractMask
    codes: Array
    options: FitOptions
    index: Index | None = None


def row_weights(evidence: Evidence) -> Array:
    """Return the weights of the rows, 1 if none were given."""
    rows = evidence.codes.shape[1]
    return np.ones(rows) if evidence.options.weights is None else verified_weights(evidence.options.weights, rows)


@dataclass(frozen=True)
class PersistentContrastiveDivergence:
    """Boltzmann learning: stochastic maximum likelihood with persistent chains.

    The gradient of the mean log p of rows is E[grad log p~ | row] averaged over rows, minus E[grad
    log p~] under the model, with p~ the unnormalised p. The second mean is estimated from chains. A
    sampler of the file moves them between steps, while the parameters change slowly. In the first
    mean, latents and missing cells are summed out if that is affordable; otherwise they are redrawn
    too. Parameters of single cells start at their maximum if cells are independent at the start.

    At some numbers of steps the fit holds the parameters at an estimate, and the chains go on. The
    estimate is the mean of the parameters since the last such number, or over the last half of
    `steps` if that is given. The fit stops if the gradient there is 0 within a Monte Carlo error
    that is small relative to the sampling error of the rows. The status is then "converged". A
    model with more free parameters than effective rows also stops if its two-point correlations
    agree with those of the rows: their Pearson correlation reaches 0.95, or that of two halves of
    the rows if this is larger. The status is then "agrees", for the likelihood still rises.

    Args:
        sampler: the sampler of the file that moves the chains. If None, the only one, or a sweep
            over single cells if there is none. It must move every cell, latents included.
        chains: the number of chains. If None, the square root of the number of free parameters,
            from 256 to 10 000, and fewer for very many cells.
        sweeps: the number of runs of the sampler's body per step.
        steps: the number of steps of the optimiser. If None, up to 2048, and the fit stops earlier
            as stated above.
        batch_size: the number of rows per step, drawn with replacement. If None, all rows.
        optimizer: an optax transformation. If None, a damped natural gradient whose curvature is
            that of the chains.
        burn_in: the number of runs of the sampler's body before the first step. If None, 10, or 100
            for a start with `init=`.
        average: whether the estimate is that mean, or the parameters after the last step.

    Reference: Younes 1989; Tieleman 2008; Polyak and Juditsky 1992; Desjardins et al. 2013 for the
    natural gradient; Muntoni et al. 2021 and Rosset et al. 2025 for the two-point correlations.
    """

    sampler: str | None = None
    chains: int | None = None
    sweeps: int = 1
    steps: int | None = None
    batch_size: int | None = None
    optimizer: optax.GradientTransformation | None = None
    burn_in: int | None = None
    average: bool = True

    name = "persistent contrastive divergence"

    def __post_init__(self) -> None:
        _verify_numbers(self, {"chains": 2, "sweeps": 1, "steps": 32, "batch_size": 1, "burn_in": 0})
        if self.optimizer is not None and not isinstance(self.optimizer, optax.GradientTransformation):
            message = f"optimizer must be an optax transformation, got {self.optimizer!r}"
            raise fail("E507", message, help="`optax.adam(0.01)`, say")
        if not isinstance(self.average, bool):
            raise fail("E507", f"average must be True or False, got {self.average!r}")


@dataclass(frozen=True)
class MonteCarloEM:
    """Monte Carlo EM, for `method=` of `Model.fit`.

    Latents and missing cells are drawn inside the fit, whatever the mask is. Each iteration redraws
    them in several copies of each row from p(. | observed) at the present parameters, by block
    dynamics. It then lowers a loss of the completed rows by a few steps. The estimate is the mean
    over the last iterations.

    Latents H join each block K of the mask if the joint block stays small. The mean of grad log
    p(x_K, h | x_rest) over p(h | x) is grad log p(x_K | x_rest), so the fit ends at the same point
    as a fit that sums them out. Otherwise each cell of H is a separate block beside those of the
    mask. The loss is then the pseudolikelihood of completed rows, whose mean gradient is 0 at the
    true parameters too.

    Args:
        copies: the number of completed copies of each row.
        rounds: the maximum number of iterations; the fit stops earlier if the estimate has settled.
        sweeps: the number of times that the cells of each row are redrawn in one iteration.

    Reference: Wei and Tanner 1990; for composite likelihoods Gao and Song 2011.
    """

    copies: int = 20
    rounds: int = 300
    sweeps: int = 2

    name = "Monte Carlo EM"

    def __post_init__(self) -> None:
        _verify_numbers(self, {"copies": 2, "rounds": 1, "sweeps": 1})


Method = PersistentContrastiveDivergence | MonteCarloEM
SHORT = {"pcd": PersistentContrastiveDivergence, "mcem": MonteCarloEM}


def _verify_numbers(method: object, least: Mapping[str, int]) -> None:
    for name, smallest in least.items():
        value = getattr(method, name)
        if value is None and name in OPTIONAL:
            continue
        object.__setattr__(method, name, whole_number(name, value, smallest))


def method_of(given: object) -> Method | None:
    """Return the method that a user passes: an object, or a short name for its defaults.

    Raises:
        GmlmError: E506 for an unknown name, E704 for `gm.Training`, which trains networks, E507 for
            any other object.
    """
    if isinstance(given, str):
        if given not in SHORT:
            raise unknown(f"there is no method `{given}`", given, [*SHORT])
        return SHORT[given]()
    if isinstance(given, Training):
        help = "its parameters are fitted by L-BFGS; with `optimizer=`, `batch_size=` and `max_steps=` by batches"
        raise fail("E704", "`gm.Training` trains networks, and this model has none", help=help)
    if given is not None and not isinstance(given, Method):
        help = "`gm.PersistentContrastiveDivergence()` or `gm.MonteCarloEM()`, which take options; none: the exact objective"
        raise fail("E507", f"method must be one of gmlmdsl's, got {given!r}", help=help)
    return given


def imputation(options: FitOptions) -> MonteCarloEM:
    """Return the numbers of copies, iterations and sweeps with which a fit imputes rows."""
    return options.method if isinstance(options.method, MonteCarloEM) else MonteCarloEM()


def verify_method(options: FitOptions) -> None:
    """Raise unless the options of `fit` are valid together with its method.

    Raises:
        GmlmError: E507 for an invalid `gaps`, E704 for options that cannot be combined.
    """
    method = options.method
    if not is_one_of(options.gaps, ("sum", "ignore")):
        raise fail("E507", f'gaps must be "sum" or "ignore", got {options.gaps!r}')
    if options.ignores and (method is not None or options.impute):
        given = "impute=" if method is None else "method="
        help = f'leave one out: `gaps="ignore"` leaves missing cells out, `{given}` has them drawn'
        raise fail("E704", f'`gaps="ignore"` does not go with `{given}`', help=help)
    if method is None:
        return
    for name in ("optimizer", "batch_size", "max_steps", "impute"):
        if getattr(options, name) is not None:
            instead = {"max_steps": "rounds" if isinstance(method, MonteCarloEM) else "steps"}.get(name, name)
            help = f"`{type(method).__name__}({instead}=..)`" if hasattr(method, instead) else f"leave `{name}` out"
            raise fail("E704", f"`{name}=` does not go with {method.name}", help=help)
    if isinstance(method, PersistentContrastiveDivergence) and options.n_masks is not None:
        raise fail("E704", f"`n_masks=` does not go with {method.name}, which has one mask", help="leave `n_masks` out")


def whole_mask(graph: FactorGraph) -> ListedMask:
    """Return the mask of a likelihood, which hides every observed cell."""
    return certain_mask(np.flatnonzero(graph.is_observed), graph.n_cells, Span(Source("<method>", ""), 0, 0))


def verify_whole(graph: FactorGraph, name: str, mask: AbstractMask) -> None:
    """Raise E704 for a mask that does not hide every observed cell.

    The loss of such a mask is not -log p(x).

    Raises:
        GmlmError: E704.
    """
    cells = np.flatnonzero(graph.is_observed)
    one = not mask.is_adaptive and mask.support_size == 1
    if not one or not np.array_equal(np.setdiff1d(mask.enumerate_blocks()[0], [graph.n_cells]), cells):
        message = f"{PersistentContrastiveDivergence.name} maximises the likelihood, and mask `{name}` has a pseudolikelihood"
        raise fail("E704", message, mask.span, "not everything", help="leave `mask` out, or name one that is `everything`")


def completed_masks(graph: FactorGraph, mask: AbstractMask, latents: np.ndarray) -> tuple[AbstractMask, AbstractMask]:
    """Return the mask of the loss of completed rows, and the mask that determines its factor c.

    See `MonteCarloEM`.

    Args:
        graph: the factor graph.
        mask: the named mask over the observed cells, which is not data-dependent.
        latents: the latent cells that rows lack.
    """
    if not len(latents):
        return mask, mask
    if mask.support_size <= BUDGET.support:
        blocks, probabilities = mask.enumerate_blocks()
        joined = np.sort(np.concatenate([blocks, np.broadcast_to(latents, (len(blocks), len(latents)))], axis=1), axis=1)
        # An empty block remains empty.
        joined = np.where((blocks < graph.n_cells).any(axis=1, keepdims=True), joined, graph.n_cells)
        joint = ListedMask(joined.astype(np.int32), probabilities, (), (), graph.n_cells, mask.span)
        plan = plan_mask(graph, joint, False)
        if plan.values <= MOST_LATENT_VALUES:
            return joint, mask
    assert mask.mean_size is not None
    each = len(mask.reach) / mask.mean_size  # All cells then have the same weight.
    weights = np.array([each, len(latents)]) / (each + len(latents))
    alone = MixtureMask(weights, (mask, SubsetMask(latents, 1, graph.n_cells, mask.span)), graph.n_cells, mask.span)
    return alone, alone
