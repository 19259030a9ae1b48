"""The status of a fit: whether it converged, which entries have no estimate, and remedies."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import scipy  # its modules load at first use

from .._diagnostics import counted
from ..evaluate import Colouring, Missing, Objective, entry_names, is_reducible, revealed_cells
from ..graph import FactorGraph
from ._existence import Recession, find_recession, moves
from ._inference import Curvature
from ._kinks import at_kinks
from ._optimise import Outcome
from .limits import DECIDING_PRIOR, DIRECTION_PART, NEAR_BOUND, SHARE_ROUNDING, STOCHASTIC_TOLERANCE, SUSPECT_CURVATURE, SUSPECT_PRIOR

Array = np.ndarray
AT_BOUND = "at-bound"


@dataclass(frozen=True)
class Finding:
    """One remark on a fit: an identifier `slug`, the message, and a remedy."""

    slug: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Status:
    """The state of a fit.

    Attributes:
        code: converged, no-minimiser, undetermined, agrees, not-converged, or diverged. "agrees" is
            a fit by chains that stopped before the maximum; see `PersistentContrastiveDivergence`.
        findings: all findings, the most serious first.
        separated: for each entry of the flat parameter vector +1 or -1 if its estimate tends to
            plus or minus infinity, else 0.
        undetermined: the entries that neither data nor prior determine.
        open_directions: an orthonormal basis of all directions without an estimate, shape
            (directions, entries).
        unknown: the entries that have an estimate but whose standard error the rows do not
            determine; None if there are none.
        shrunk: the entries that priors shift by more than half a standard error; None if unknown.
    """

    code: str
    findings: tuple[Finding, ...]
    separated: Array
    undetermined: Array
    open_directions: Array
    unknown: Array | None = None
    shrunk: Array | None = None

    @property
    def without_error(self) -> Array:
        """The entries that have an estimate but no standard error by the rows, as booleans."""
        return np.zeros(len(self.separated), bool) if self.unknown is None else self.unknown

    @property
    def converged(self) -> bool:
        """Whether the estimate is a minimum."""
        return self.code == "converged"

    @property
    def is_finite(self) -> bool:
        """Whether the covariance by the rows has no infinite entry."""
        return not (len(self.open_directions) or self.without_error.any())

    def open_entries(self, by_rows: bool = True) -> Array:
        """Return the entries without a finite estimate, as booleans.

        If `by_rows` is set, entries whose error the rows do not determine are included.
        """
        return (self.separated != 0) | self.undetermined | (self.without_error & by_rows)

    def inflate(self, covariance: Array, by_rows: bool = True) -> Array:
        """Return the covariance with infinite variances at entries without a finite estimate.

        If `by_rows` is set, variances that the rows do not determine are infinite too.
        """
        out = covariance.copy()
        open_ = np.flatnonzero(self.open_entries(by_rows))
        out[open_, :] = out[:, open_] = np.nan
        out[open_, open_] = np.inf
        return out

    def __str__(self) -> str:
        lines = [self.code]
        lines += [f"{f.message}. {f.remedy}" for f in self.findings]
        return "\n".join(lines)


def examine(
    objective: Objective,
    params: dict[str, jax.Array],
    curve: Curvature | None,
    first: Curvature | None,
    colours: Colouring | None,
    asks_data_alone: bool = True,
) -> Recession:
    """Return the directions that data and prior leave open.

    If the curvature looks small, all statistics are compared; otherwise the open directions are
    those in which the curvature vanishes. Rows with missing cells have no statistics to compare.

    Args:
        objective: the objective.
        params: the estimate.
        curve: the curvature at the estimate.
        first: the curvature at the start.
        colours: the colouring of the objective, if it has one.
        asks_data_alone: whether the directions that the data alone leave open are computed too.
    """
    if curve is None:
        size = sum(p.size for p in objective.frame.host.parameters)
        return Recession(None, np.zeros((size, 0)), checked=False)
    if colours is not None and objective.gaps is None and _is_suspect(curve, first):
        found = find_recession(objective, params, colours, asks_data_alone)
        if found is not None:
            return found
    return Recession(None, curve.flat(), checked=False)


def judge(
    objective: Objective,
    params: dict[str, jax.Array],
    outcome: Outcome,
    open_: Recession,
    curve: Curvature | None,
    colours: Colouring | None,
    missing: Missing | None = None,
) -> Status:
    """Return the status of a fit that has run.

    Args:
        objective: the objective.
        params: the estimate.
        outcome: the outcome of the minimiser.
        open_: the result of `examine`.
        curve: the curvature at the estimate.
        colours: the colouring of the objective, if it has one.
        missing: the report on missing cells.
    """
    host = objective.frame.host
    size = sum(p.size for p in host.parameters)
    names = entry_names(host) if size <= 100_000 else []
    separated, undetermined = np.zeros(size, np.int8), np.zeros(size, bool)
    findings: list[Finding] = []
    if outcome.reason == "diverged":
        remedy = "Lower the learning rate, or leave `optimizer` out for L-BFGS"
        findings.append(Finding("diverged", "The objective is not a number any more", remedy))
        return Status("diverged", tuple(findings), separated, undetermined, np.zeros((0, size)))
    if open_.direction is not None:
        separated = _signs(open_.direction)
        findings.append(_no_minimiser(separated, names, constant_cells(objective, separated != 0, colours)))
    undetermined = _parts(open_.flat) & (separated == 0)
    falling = np.zeros((size, 0)) if curve is None or outcome.reason != "converged" else curve.falling()
    if falling.shape[1]:
        findings.append(_saddle(falling, names))
    elif undetermined.any():
        findings.append(_undetermined(host, open_.flat, undetermined, names, colours, bool(separated.any())))
    halted = [] if separated.any() else stopped(outcome, missing)
    kinks = at_kinks(host, objective.frame.fixed, params)
    findings += [*_prior_decides(open_, curve, kinks, names), *_at_kinks(kinks, names)]
    findings += [*_revealing(objective, params), *_at_bounds(host, params), *halted]
    code = "undetermined" if undetermined.any() else "converged"
    if halted or falling.shape[1]:
        code = "not-converged"
    code = "no-minimiser" if separated.any() else code
    return Status(code, tuple(findings), separated, undetermined, open_.span.T)


def _is_suspect(curve: Curvature, first: Curvature | None) -> bool:
    """Return whether the curvature is small enough that the data may separate.

    If all rows separate, all curvatures vanish together, and only the curvature at the start shows
    that they were larger. A prior that keeps the estimate of separated data finite supplies a
    considerable share of the curvature (`normal`), or of the gradient (`laplace`).
    """
    if not curve.hessian.size:
        return False
    least = SUSPECT_CURVATURE * max(curve.largest, 0.0 if first is None else first.largest)
    return not curve.exceeds(least) or not curve.exceeds(0.0, SUSPECT_PRIOR)


def _shares(curve: Curvature) -> tuple[Array, Array]:
    """Return the prior's shares of the curvature, and their directions as columns.

    The directions are sorted from the smallest share to the largest.
    """
    values, vectors = np.linalg.eigh(curve.hessian)
    floor = np.maximum(values, 1e-12 * max(values.max(), 1e-300))
    half = vectors / np.sqrt(floor)
    shares, turned = scipy.linalg.eigh(half.T @ curve.prior @ half)
    return shares, curve.basis @ half @ turned


def _parts(directions: Array) -> Array:
    """Return the entries that have a part in some direction."""
    return (np.abs(directions) > DIRECTION_PART).any(axis=1) if directions.shape[1] else np.zeros(len(directions), bool)  # pyright: ignore[reportReturnType]


def _signs(direction: Array) -> Array:
    return np.where(moves(direction), np.sign(direction), 0).astype(np.int8)


def sparse_directions(span: Array) -> Array:
    """Return directions with many zeros and a largest part of 1 that span the same space.

    They are the reduced echelon form, shape (directions, entries).
    """
    if not span.shape[1]:
        return span.T
    order = scipy.linalg.qr(span.T, pivoting=True, mode="economic")[2]  # pyright: ignore[reportGeneralTypeIssues]
    reduced = np.linalg.solve(span[order[: span.shape[1]]].T, span.T)
    reduced = np.where(np.abs(reduced) > DIRECTION_PART, reduced, 0.0)
    largest = np.take_along_axis(reduced, np.abs(reduced).argmax(axis=1)[:, None], axis=1)
    return reduced / largest


def in_words(direction: Array, names: list[str], most: int = 4) -> str:
    """Return the largest parts of a direction as text: ``h[0]` - 0.5 `h[1]``."""
    order = [i for i in np.argsort(-np.abs(direction), kind="stable") if abs(direction[i]) > DIRECTION_PART]
    words = ""
    for i in order[:most]:
        size, sign = abs(direction[i]), "-" if direction[i] < 0 else "+"
        number = "" if abs(size - 1) < 5e-4 else f"{size:.3g} "
        words += (f" {sign} " if words else "-" * (sign == "-")) + f"{number}`{names[i]}`"
    return words + (f" + {len(order) - most} more" if len(order) > most else "")


def _some(names: list[str], which: Array, most: int = 6) -> str:
    chosen = [names[i] for i in np.flatnonzero(which)]
    return ", ".join(f"`{n}`" for n in chosen[:most]) + (f" and {len(chosen) - most} more" if len(chosen) > most else "")


def _no_minimiser(separated: Array, names: list[str], constant: list[str]) -> Finding:
    count = int((separated != 0).sum())
    signs = [f"`{names[i]}` to {'+' if separated[i] > 0 else '-'}infinity" for i in np.flatnonzero(separated)[:6]]
    more = f" and {count - 6} more" if count > 6 else ""
    several = "s" * (count > 1)
    message = (
        f"There is no finite estimate of {count} parameter{several}: the data separate, "
        f"and the fit improves for ever as {', '.join(signs)}{more}"
    )
    remedy = "Give these parameters a prior, `~ normal(0, 1)` say, or pool them"
    if constant:
        told = ", ".join(constant[:6]) + (f" and {len(constant) - 6} more" if len(constant) > 6 else "")
        return Finding("no-minimiser", f"{message}. In every row {told}", f"{remedy}, or fit a model without such a column")
    return Finding("no-minimiser", message, remedy)


def constant_cells(objective: Objective, separated: Array, colours: Colouring | None) -> list[str]:
    """Return the cells with one value in all rows, in blocks that depend on a separated parameter.

    The texts have the form "`x[3]` is yes".
    """
    if colours is None:
        return []
    codes = objective.host_codes[:, objective.host_weights > 0]
    highest = codes.max(axis=1)
    # A missing cell has no value.
    still = np.append(np.where(codes < 0, highest[:, None], codes).min(axis=1) == highest, False)
    found: set[int] = set()
    for blocks, seen in zip(objective.loss.blocks, colours.seen, strict=True):  # pyright: ignore[reportAttributeAccessIssue]
        sees = np.append(separated, False)[seen].any(axis=1)
        cells = np.asarray(blocks.cells)[sees].ravel()
        found |= set(cells[still[cells]].tolist())
    host = objective.frame.host
    labels = {v.offset + k: v.labels for v in host.variables for k in range(v.size) if v.offset + k in found}
    return [f"`{host.cell_name(c)}` is {labels[c][highest[c]]}" for c in sorted(found) if highest[c] >= 0]


def _undetermined(host: FactorGraph, flat: Array, which: Array, names: list[str], colours: Colouring | None, separated: bool) -> Finding:
    unused = sorted(p.name for p in host.parameters if not any(p.name in g.parameters for g in host.groups))
    unseen = which & _unseen(colours, len(which))
    shown = sparse_directions(flat)
    words = _directions_in_words(shown, names)
    message = f"Neither data nor prior determine {counted(len(shown), 'direction')} of the parameters, which stay at their start: {words}"
    if separated:
        message = f"Where the data separate, {counted(len(shown), 'further direction')} of the parameters cannot be told apart: {words}"
    if unused:
        return Finding("undetermined", message, f"No factor uses {', '.join(f'`{n}`' for n in unused)}: remove them, or give them a prior")
    if unseen.any():
        remedy = f"The mask cannot see {_some(names, unseen)}: use one that draws the cells they touch, or give them a prior"
        return Finding("unseen", message, remedy)
    return Finding("undetermined", message, "Give them a prior, or fix a `gauge`; `fit.contrast` gives errors of what is determined")


def _prior_decides(open_: Recession, curve: Curvature | None, kinks: Array, names: list[str]) -> list[Finding]:
    remedy = (
        "The sandwich takes the prior as certain, so these standard errors are too small: "
        '`fit.summary(errors="laplace")` of a fit under `everything` counts what the prior leaves open'
    )
    alone = _open_without_prior(open_, names)
    if alone:
        return [Finding("prior-decides", f"The data alone {alone}; the prior decides", remedy)]
    if curve is None:
        return []
    rest = curve.without(np.concatenate([open_.span, np.eye(len(kinks))[:, kinks]], axis=1))
    if not rest.hessian.size or rest.exceeds(0.0, DECIDING_PRIOR):
        return []
    shares, directions = _shares(rest)
    count = int((shares > DECIDING_PRIOR).sum())
    if not count:
        return []
    worst = directions[:, -1] / np.abs(directions[:, -1]).max()
    more = f", and more than {DECIDING_PRIOR:.0%} in {count - 1} other direction{'s' * (count > 2)}" if count > 1 else ""
    part = (
        f"{shares[-1]:.0%} of the curvature"
        if shares[-1] <= 1 + SHARE_ROUNDING
        else "all of the curvature, and more than the data take away,"
    )
    message = f"The prior gives {part} along {in_words(worst, names)}{more}: the data say little there"
    return [Finding("prior-decides", message, remedy)]


def _open_without_prior(open_: Recession, names: list[str]) -> str:
    """Return what the data leave open and the prior does not, in words; empty if there is none."""
    alone = open_.alone
    if alone is None:
        return ""
    if alone.direction is not None:
        which = _parts(alone.span) & ~_parts(open_.span)
        return f"have no finite estimate of {_some(names, which)}" * bool(which.any())
    if alone.span.shape[1] <= open_.span.shape[1]:
        return ""
    closed = sparse_directions(_beyond(alone.span, open_.span))
    return f"do not determine {counted(len(closed), 'direction')} of the parameters: {_directions_in_words(closed, names)}"


def _directions_in_words(directions: Array, names: list[str], most: int = 3) -> str:
    more = len(directions) - most
    return ", ".join(in_words(d, names) for d in directions[:most]) + f" and {more} more" * (more > 0)


def _beyond(span: Array, less: Array) -> Array:
    """Return an orthonormal basis of the part of a space orthogonal to another within it."""
    left, size, _ = np.linalg.svd(span - less @ (less.T @ span), full_matrices=False)
    return left[:, size > DIRECTION_PART]


def _saddle(falling: Array, names: list[str]) -> Finding:
    words = in_words(sparse_directions(falling)[0], names)
    message = f"The minimiser stopped at a saddle: the objective falls both ways along {words}"
    return Finding("saddle", message, "Start elsewhere: another `seed`, or `init=`")


KINK_REMEDY = "They have no interval; `fit.bootstrap()` tells how often they leave it, `fit.refit_selected()` fits the others without it"


def _at_kinks(kinks: Array, names: list[str]) -> list[Finding]:
    if not kinks.any():
        return []
    message = f"The laplace prior holds {_some(names, kinks)} at its centre"
    return [Finding("at-kink", message, KINK_REMEDY)]


def _unseen(colours: Colouring | None, size: int) -> Array:
    """Return the entries that no block of the mask depends on."""
    seen = np.ones(size + 1, bool) if colours is None else np.zeros(size + 1, bool)
    for places in () if colours is None else colours.seen:
        seen[places.ravel()] = True
    return ~seen[:size]


def _revealing(objective: Objective, params: dict[str, jax.Array]) -> list[Finding]:
    cells = revealed_cells(objective, params)
    remedy = "Add a plain mask in a `mixture`, or let the weights look at other cells than the block's own"
    if len(cells):
        shown = ", ".join(f"`{objective.frame.host.cell_name(int(c))}`" for c in cells[:6])
        more = f" and {len(cells) - 6} more" if len(cells) > 6 else ""
        message = (
            f"The mask reveals what it hides: whenever it draws {shown}{more}, knowing the block tells their value, so they teach nothing"
        )
        return [Finding("revealing-mask", message, remedy)]
    if is_reducible(objective, params):
        message = (
            "The mask breaks ergodicity: its block dynamics never leave a part of the configurations, and its Poincare constant is infinite"
        )
        return [Finding("not-ergodic", message, remedy)]
    return []


def _at_bounds(host: FactorGraph, params: dict[str, jax.Array]) -> list[Finding]:
    out = []
    for p in host.parameters:
        value = np.asarray(params[p.name])
        low = value.min(initial=np.inf) if p.kind == "simplex" else np.min(value - p.lower, initial=np.inf)
        high = np.inf if p.kind == "simplex" else np.min(p.upper - value, initial=np.inf)
        if min(low, high) < NEAR_BOUND:
            message = f"`{p.name}` has run to the edge of its range"
            out.append(Finding(AT_BOUND, message, "Its standard errors mean nothing there; a prior keeps it inside"))
    return out


def stopped(outcome: Outcome, missing: Missing | None) -> list[Finding]:
    """Return a finding if a minimiser ended before the minimum."""
    if missing is not None and missing.imputed:
        if outcome.reason == "converged":
            return []
        message = (
            f"Monte Carlo EM did not settle in {missing.iterations} rounds: its error is {missing.noise:.2g} standard errors, "
            f"and the mean of its rounds drifts by {missing.drift:.2g} of these errors"
        )
        remedy = "Raise `rounds` of the method, or give the parameters a prior" if missing.latents else ""
        return [Finding("imputation", message, remedy or "Drop the rows with the most missing cells, or give the parameters a prior")]
    if outcome.reason == "steps" and not outcome.gradient <= STOCHASTIC_TOLERANCE:
        message = f"The minimiser stopped after {counted(outcome.steps, 'step')} with a gradient of {outcome.gradient:.2g} per row"
        return [Finding("not-converged", message, "Raise `max_steps`, or rescale the parameters")]
    if outcome.reason == "stalled" and not outcome.gradient <= 1e-5:
        message = f"The line search found no further decrease at a gradient of {outcome.gradient:.2g} per row"
        return [Finding("not-converged", message, "Start elsewhere with `init=`; the objective may have a kink or be badly scaled")]
    return []
