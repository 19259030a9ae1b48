"""The profile of a fit: its objective along one entry or one direction.

The objective is minimised over the rest at each point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail, unknown, whole_number
from .._progress import bar, shows_progress
from .._types import ArrayLike, Arrays
from ..evaluate import Objective, entry_names, slopes, unflatten, value_at, verified_quantile
from ..fit import Curvature, PersistentContrastiveDivergence, Scaled, curvature, in_words, lbfgs, reopen, scaling, verify_spread
from ._wald import coefficients
from .limits import FURTHER_POINTS, GRID_REACH, MOST_POINTS, OPEN_PART

if TYPE_CHECKING:
    import pandas as pd

    from ..fit import FitRecord

Array = np.ndarray


@dataclass(frozen=True, repr=False)
class Profile:
    """The objective along a direction d of the parameters, minimised over all else.

    Attributes:
        name: the entry, or the direction in words.
        direction: d, shape (entries,).
        grid: the values of d'theta, ascending, with the estimate among them.
        objective: c * sum of losses - log prior, minimised with d'theta held at the grid's value.
        estimate: d'theta of the fit.
        adjustment: Var(d'theta) by the sandwich divided by that by H^-1. The drop is divided by it
            before it is compared with chi-square.
        interval: the values at which the adjusted drop is below the quantile. An end is infinite if
            the drop was below the quantile at all evaluated points of its side.
        probability: the probability of the interval.
    """

    name: str
    direction: Array
    grid: Array
    objective: Array
    estimate: float
    adjustment: float
    interval: tuple[float, float]
    probability: float

    @property
    def drop(self) -> Array:
        """The adjusted drop 2 * (objective - its minimum) / adjustment.

        At the true value it is nearly chi-square with one degree of freedom.
        """
        return 2 * (self.objective - self.objective.min()) / self.adjustment

    def table(self) -> pd.DataFrame:
        """Return one row per point of the grid."""
        import pandas as pd

        return pd.DataFrame({"objective": self.objective, "drop": self.drop}, index=pd.Index(self.grid, name=self.name))

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"Profile of {self.name}: estimate {self.estimate:.4g}, {self.probability:.3g} interval {low:.4g} to {high:.4g}; "
            f"the drop of the objective is divided by {self.adjustment:.3g}, sandwich over inverse Hessian"
        )


def profile(
    made: FitRecord, along: str | Mapping[str, ArrayLike] | None, points: int, probability: float, progress: bool | None
) -> Profile:
    """Minimise the objective by L-BFGS in the planes of constant d'theta; see `Fit.profile`.

    Args:
        made: the fit.
        along: an entry, a dict of coefficients, or None.
        points: the number of grid points.
        probability: the probability of the interval.
        progress: whether a progress bar is shown.
    """
    z = verified_quantile(probability)
    points = whole_number("points", points, 5)
    if points > MOST_POINTS:
        message = f"a profile of {points:,} points minimises as often, more than the limit of {MOST_POINTS:,}"
        raise fail("E601", message, help="41 points draw a curve")
    evidence = made.evidence
    if made.simulated is None:
        verify_spread(made.effective_rows, "the adjustment of a profile")
    if isinstance(evidence.options.method, PersistentContrastiveDivergence):
        message = f"{evidence.options.method.name} minimises no objective that could be profiled"
        raise fail("E547", message, help="fit without `method=` where that is affordable; or `fit.bootstrap()`")
    if made.missing is not None and made.missing.imputed:
        message = f"{made.missing.imputed:,} rows of this fit were imputed at random: the objective has no profile"
        raise fail("E547", message, help="`fit.bootstrap()` imputes anew; or fit with `impute=False`, or without `method=`")
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        objective, colours = reopen(evidence, {k: v for k, v in made.params.items() if k not in made.meta["fixed"]})
        if any(p.kind in ("simplex", "ordered") for p in made.graph.parameters) or "sandwich" not in made.determined:
            raise fail(
                "E547", "it has simplex or ordered parameters, or too many: no profile is drawn", help="`fit.bootstrap()` needs neither"
            )
        curve = curvature(objective, objective.held, colours, counts=evidence.options.weights_are == "counts")
        name, coefficient = _direction(made, curve, along)
        line = _line(made, objective, curve, coefficient, name)
        offsets, values = _walk(objective, line, points, z, shows_progress(progress))
    return _profile(line, name, coefficient, offsets, values, z, probability)


@dataclass(frozen=True)
class Line:
    """A line of unconstrained parameters, with the coordinates z of the remaining directions.

    The parameters move by `offset` standard errors along `step`, which also moves the rest to the
    minimum of the quadratic approximation, and then by `matrix` z. `at` are the unconstrained
    parameters of the estimate. `value` is a function from unconstrained parameters to d'theta.
    """

    at: Arrays
    step: Arrays
    matrix: Array | None
    adjustment: float
    value: Callable[[Arrays], float]


def _direction(made: FitRecord, curve: Curvature, along: str | Mapping[str, ArrayLike] | None) -> tuple[str, Array]:
    """Return the name and the coefficients of a direction."""
    names = entry_names(made.graph)
    if isinstance(along, str):
        place = _place(along, names)
        return names[place], np.eye(len(names))[place]
    if isinstance(along, Mapping):
        c = coefficients(made, along)
        return in_words(c, names), c
    if along is not None:
        raise fail("E547", f"a profile runs along an entry or a dict of coefficients, got {type(along).__name__}")
    left = curve.without(np.concatenate([made.status.open_directions.T, np.eye(len(names))[:, _bounded(made)]], axis=1))
    if not left.hessian.size:
        raise fail("E547", "no direction of unbounded parameters is determined", help="name an entry")
    d = left.basis @ np.linalg.eigh(left.hessian)[1][:, 0]
    d = d / d[np.abs(d).argmax()]
    return in_words(d, names), d


def _place(entry: str, names: list[str]) -> int:
    """Return the position of an entry; `J[0, 1]` and `J[0-1]` are the same entry."""

    def plain(text: str) -> str:
        return re.sub(r"\s*[,-]\s*", ",", text.strip())

    found = [k for k, n in enumerate(names) if n == entry] or [k for k, n in enumerate(names) if plain(n) == plain(entry)]
    if not found:
        raise unknown(f"the fit has no entry `{entry}`", entry, names)
    return found[0]


def _line(made: FitRecord, objective: Objective, curve: Curvature, c: Array, name: str) -> Line:
    """Return the line along which the parameters move, with the adjustment."""
    d = curve.basis.T @ c
    open_ = made.status.open_directions
    if len(open_) and np.linalg.norm(open_ @ c) > OPEN_PART * np.linalg.norm(c):
        raise fail("E547", f"{name} has no finite estimate: its profile falls for ever", help="give it a prior, and fit again")
    if np.linalg.norm(d) <= OPEN_PART * np.linalg.norm(c):
        raise fail("E547", f"{name} is fixed, or held by a gauge", help="profile what the fit moves")
    if (np.abs(c) > 0).sum() > 1 and (np.abs(c[_bounded(made)]) > 0).any():
        raise fail("E547", f"{name} mixes a bounded parameter with others", help="profile one entry at a time")
    if (made.status.without_error & (c != 0)).any():
        message = f"all rows pull alike along {name}: they do not tell how sure its estimate is"
        raise fail("E547", message, help="`fit.simulated_errors()` takes the model as right, and has a profile")
    rest = curve.without(np.concatenate([open_.T, (curve.basis @ d)[:, None]], axis=1))
    determined = curve.without(open_.T)
    laplace = determined.laplace()
    sandwich = determined.sandwich() if made.simulated is None else made.determined_covariance("sandwich")
    moved = laplace @ c
    deviation = float(np.sqrt(c @ sandwich @ c))
    free = objective.frame.unconstrain(objective.held)
    along = unflatten(made.graph, deviation * moved / (c @ moved))
    step = {p.name: jnp.asarray(along[p.name] / slopes(p, free[p.name]).reshape(p.shape)) for p in made.graph.parameters if p.name in free}
    matrix = scaling(objective, free, rest.hessian / float(objective.scale), rest.basis)

    def value(unconstrained: Arrays) -> float:
        return float(c @ made.flat({k: np.asarray(v) for k, v in objective.frame.constrain(unconstrained, objective.held).items()}))

    return Line(free, step, matrix, deviation**2 / float(c @ moved), value)


def _bounded(made: FitRecord) -> Array:
    return np.repeat([p.kind != "real" for p in made.graph.parameters], [p.size for p in made.graph.parameters])


def _walk(objective: Objective, line: Line, points: int, z: float, show: bool) -> tuple[list[float], list[tuple[float, float]]]:
    """Return offsets in standard errors, and d'theta and the objective at each.

    The points go outwards from the estimate; each starts at the solution of its inner neighbour.
    """
    half = points // 2
    inside = [GRID_REACH * z * (k + 1) / half for k in range(half)]
    found = {0.0: _minimum(objective, line, line.at)}
    with bar(show=show) as shown:
        task = shown.add_task("profile", total=2 * half)
        for side in (1.0, -1.0):
            at, last = found[0.0][0], 0.0
            further = [inside[-1] * 2.0 ** (k + 1) for k in range(FURTHER_POINTS)]
            for k, offset in enumerate([*inside, *further]):
                risen = k and 2 * (found[side * last][2] - found[0.0][2]) / line.adjustment
                if k >= half and risen > z**2:
                    break
                start = jax.tree.map(lambda u, s, o=side * (offset - last): u + o * s, at, line.step)
                found[side * offset] = _minimum(objective, line, start)
                at, last = found[side * offset][0], offset
                shown.advance(task)
    offsets = sorted(found)
    return offsets, [found[o][1:] for o in offsets]


def _minimum(objective: Objective, line: Line, start: Arrays) -> tuple[Arrays, float, float]:
    """Minimise over the remaining directions.

    The results are the unconstrained parameters, d'theta and the objective.
    """
    if line.matrix is None:  # no direction remains
        value = value_at(objective, objective.frame.constrain(start, objective.held))
        return start, line.value(start), float(value) * float(objective.scale)
    outcome = lbfgs(Scaled(objective, start, line.matrix), None)
    return outcome.free, line.value(outcome.free), float(outcome.value) * float(objective.scale)


def _profile(
    line: Line, name: str, c: Array, offsets: list[float], values: list[tuple[float, float]], z: float, probability: float
) -> Profile:
    grid, objective = (np.array(v) for v in zip(*values, strict=True))
    middle = offsets.index(0.0)
    root = np.sign(offsets) * np.sqrt(np.maximum(2 * (objective - objective[middle]) / line.adjustment, 0.0))
    ends = []
    for side in (-1, 1):
        part = slice(middle, None) if side > 0 else slice(middle, None, -1)
        rises, where = side * root[part], grid[part]
        above = np.flatnonzero(rises >= z)
        if not len(above):
            ends.append(side * np.inf)
            continue
        k = int(above[0])
        # The signed root of the drop is nearly linear.
        share = (z - rises[k - 1]) / (rises[k] - rises[k - 1])
        ends.append(float(where[k - 1] + share * (where[k] - where[k - 1])))
    return Profile(name, c, grid, objective, float(grid[middle]), line.adjustment, (ends[0], ends[1]), probability)
