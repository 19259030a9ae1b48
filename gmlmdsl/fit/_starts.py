"""The best of several fits from random starts, for objectives with several minima."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._diagnostics import counted, fail
from .._progress import shows_progress, tracked
from ..evaluate import flatten, init_params
from ..graph import Lowered
from ..masks import AbstractMask
from ..plan import verify_held
from ._fit import Estimate, fit_model
from ._options import FitOptions
from .limits import AGREEING_OBJECTIVES, SAME_PARAMETERS, START_SPREAD

Array = np.ndarray


@dataclass(frozen=True)
class Starts:
    """The ends of fits from several starts.

    Attributes:
        objectives: the objective of each fit in the order of the starts, without those of `failed`.
        agree: the number of fits whose objective is the lowest, up to `AGREEING_OBJECTIVES`.
        switched: the number of these whose parameters are not those of the best fit.
        failed: the number of fits that diverged.
    """

    objectives: tuple[float, ...]
    agree: int
    switched: int
    failed: int

    @property
    def as_meta(self) -> dict[str, Any]:
        """The attributes as JSON data, which a file of a fit has."""
        return dataclasses.asdict(self) | {"objectives": list(self.objectives)}

    @property
    def words(self) -> str:
        """A sentence on the starts."""
        count = len(self.objectives) + self.failed
        found = f"starts: {self.agree} of {counted(count, 'start')} reach the lowest objective within {AGREEING_OBJECTIVES:g} nats"
        if self.switched:
            found += f"; {self.switched} of them with other parameters, as a rule with the values of a latent exchanged (label switching)"
        above = max(self.objectives) - min(self.objectives)
        if self.agree < len(self.objectives):
            found += f"; the others end up to {above:.3g} above it"
        if self.failed:
            found += f"; {self.failed} diverged"
        lonely = "" if self.agree > 1 or count == 1 else ". A lower minimum is likely: ask for more `starts=`"
        return f"{found}{lonely}"


def best_of_starts(
    lowered: Lowered, mask: AbstractMask, codes: Array, options: FitOptions, count: int, index: Any = None
) -> tuple[Estimate, Starts]:
    """Return the fit with the lowest objective over several starts, and a description of all.

    The first start is that of `fit_model`. In every other one, entries without a value in
    `options.init` are drawn from a normal distribution, in unconstrained coordinates around the
    first start.

    Args:
        lowered: the model.
        mask: the mask of the loss.
        codes: shape (cells, rows), -1 if a cell is missing.
        options: the options of the fit.
        count: the number of starts, at least 2.
        index: the labels of the rows.

    Raises:
        GmlmError: E507 for an objective that is noisy; and the errors of `fit_model`.
    """
    if options.checkpoint is not None:
        help = "leave one out: fits of each start, with folders of their own, can be compared"
        raise fail("E704", "`checkpoint=` has the state of one fit, and `starts=` makes several", help=help)
    verify_held(16 * count, f"{count:,} starts", "fewer `starts=`")
    if options.method is not None:
        raise _noisy("this method has no exact objective")
    found: list[Estimate] = []
    quiet = dataclasses.replace(options, progress=False)
    for k in tracked(range(count), f"fits, {counted(count, 'start')}", shows_progress(options.progress)):
        drawn = init_params(lowered.graph, options.seed, START_SPREAD, k)
        # A start that is no dict is an error of the first fit.
        own = {**drawn, **options.init} if k and options.init else drawn if k else options.init
        found.append(fit_model(lowered, mask, codes, dataclasses.replace(quiet, init=own), index))
        if found[-1].missing.imputed:
            raise _noisy("missing cells are drawn inside this fit")
    ends = np.array([f.objective for f in found])
    known = np.isfinite(ends)
    if not known.any():
        return found[0], Starts((), 0, 0, count)
    best = int(np.nanargmin(np.where(known, ends, np.nan)))
    flat = [flatten(lowered.graph, f.params).astype(float) for f in found]
    agree = known & (ends <= ends[best] + AGREEING_OBJECTIVES)
    apart = [np.max(np.abs(v - flat[best]) / np.maximum(1.0, np.abs(flat[best])), initial=0.0) > SAME_PARAMETERS for v in flat]
    seconds = sum(f.seconds for f in found)
    told = Starts(tuple(ends[known].tolist()), int(agree.sum()), int((agree & apart).sum()), int((~known).sum()))
    evidence = dataclasses.replace(
        found[best].evidence, options=dataclasses.replace(found[best].evidence.options, progress=options.progress)
    )
    return dataclasses.replace(found[best], evidence=evidence, seconds=seconds), told


def _noisy(why: str) -> Any:
    return fail(
        "E507", f"`starts=` compares objectives, and {why}", help="fits with several `seed=`, compared on held-out rows: `fit.score`"
    )
