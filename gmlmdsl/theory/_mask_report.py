"""The properties of the masks of a comparison, and recommendations in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._diagnostics import listed
from ._quantity import Quantity
from .limits import CLOSE_VARIANCES

Array = np.ndarray


@dataclass(frozen=True)
class MaskReport:
    """The properties of one mask.

    Attributes:
        name: the name of the mask.
        blocks: the number of its blocks.
        mean_size: the mean block size E|K|.
        variance_one: tr G / tr I^-1, a ratio of sums over parameters. G is the covariance with one
            mask drawn for each row, and I^-1 is that of maximum likelihood.
        variance_all: the same ratio if each row's loss averages over every mask.
        worst_one: the largest ratio over all directions of the parameters, with one mask for each
            row. In an estimate it is the ratio of one slow direction.
        poincare: the Poincare constant of the mask's block dynamics.
        gradient: milliseconds of a gradient over 1000 rows.
        step: microseconds of one step of one chain, of 64 chains in parallel.
        unseen: parameters with a component on which the loss does not depend.
        averages: whether `fit` averages over all masks by default; otherwise it draws one for each
            row.
    """

    name: str
    blocks: float
    mean_size: float
    variance_one: Quantity
    variance_all: Quantity
    worst_one: Quantity
    poincare: Quantity
    gradient: Quantity | None
    step: Quantity | None
    unseen: tuple[str, ...]
    averages: bool

    @property
    def variance(self) -> float:
        """The variance under the default options of `fit`."""
        return float(self.variance_all if self.averages else self.variance_one)

    @property
    def per_second(self) -> float:
        """Relative efficiency per time of a gradient; nan if costs were not measured.

        It has no unit.
        """
        return float("nan") if self.gradient is None else 1 / (self.variance * float(self.gradient))


def recommendation(reports: Sequence[MaskReport]) -> str:
    """Return the recommendation, a line for each use."""
    blind = [r for r in reports if r.unseen]
    useful = [r for r in reports if np.isfinite(r.variance)]
    out = [_blind(r) for r in blind]
    if not useful:
        out.append("None of these masks determines all parameters: add blocks that reach the cells of their factors.")
        return "\n".join(t for t in (*out, _for_sampling(reports)) if t)
    out.append(_for_fit(useful))
    out.append(_for_one_mask(useful))
    out.append(_for_sampling(reports))
    return "\n".join(t for t in out if t)


def _blind(r: MaskReport) -> str:
    return f"`{r.name}` cannot fit {listed(list(r.unseen[:3]))}{' and others' * (len(r.unseen) > 3)}: it does not see all of them."


def _regime(r: MaskReport) -> str:
    return "averaged over all its masks" if r.averages else "one mask drawn for each row, for it has more than 4096"


def _for_fit(useful: Sequence[MaskReport]) -> str:
    least = min(r.variance for r in useful)
    close = [r for r in useful if r.variance <= CLOSE_VARIANCES * least]
    timed = [r for r in useful if np.isfinite(r.per_second)]
    if not timed:
        best = min(close, key=lambda r: r.mean_size)
        return f"For `fit` as it runs by default: `{best.name}`, {_regime(best)}; {_times(best.variance)}."
    cheap = max([r for r in close if r in timed] or timed, key=lambda r: r.per_second)
    fast = max(timed, key=lambda r: r.per_second)
    text = f"For `fit` as it runs by default: `{cheap.name}`, {_regime(cheap)}; {_times(cheap.variance)}"
    text += f", {float(cheap.gradient or 0):.3g} ms a gradient"
    others = [r.name for r in close if r is not cheap]
    if others:
        text += f" ({listed(others)}: within {100 * (CLOSE_VARIANCES - 1):.0f} % of it in variance, and dearer)"
    if fast is not cheap and fast.per_second > 1.5 * cheap.per_second:
        text += f". Where time counts more than rows: `{fast.name}`, {_times(fast.variance)} at {float(fast.gradient or 0):.3g} ms"
    return text + "."


def _times(variance: float) -> str:
    if variance < 1.005:
        return "as good as maximum likelihood"
    return f"its variance is {variance:.3g} times maximum likelihood's"


def _for_one_mask(useful: Sequence[MaskReport]) -> str:
    if len(useful) < 2:
        return ""
    best, worst = (f(useful, key=lambda r: float(r.variance_one)) for f in (min, max))
    ratio = float(worst.variance_one) / float(best.variance_one)
    if ratio < CLOSE_VARIANCES:
        return ""
    return f"With one mask drawn for each row (minibatches, `n_masks=1`): `{best.name}`; `{worst.name}` needs {ratio:.3g} times the rows."


def _for_sampling(reports: Sequence[MaskReport]) -> str:
    """Return the recommendation for sampling.

    The criterion is the relaxation time multiplied by the cost of a step.
    """
    moving = [r for r in reports if r.step is not None and r.poincare.kind == "exact" and np.isfinite(float(r.poincare))]
    stuck = [r.name for r in reports if np.isinf(float(r.poincare)) and r.poincare.kind == "exact"]
    out = [f"The chain of {listed(stuck)} never reaches all of the support."] if stuck else []
    if moving:
        best = min(moving, key=lambda r: float(r.poincare) * float(r.step or 0))
        time = float(best.poincare) * float(best.step or 0)
        steps = f"{float(best.poincare):.3g}"
        steps += " step" if steps == "1" else " steps"
        out.append(f"For sampling: `{best.name}`, a relaxation time of {steps} or {time:.3g} us of one chain.")
    return " ".join(out)
