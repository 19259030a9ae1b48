"""What must be said of a fit: whether it converged, what has no estimate, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from ..graph import FactorGraph
from ._existence import Recession, find_recession
from ._inference import Curvature
from ._missing import Missing
from ._objective import Objective
from ._optimise import Outcome
from ._parameters import entry_names
from ._revealing import is_reducible, revealed_cells
from ._statistics import Colouring

Array = np.ndarray
SUSPECT = 1e-3  # of the largest eigenvalue: below, the data may separate
PART = 1e-6  # the least component of a unit direction that counts as part of it
AT_BOUND = 1e-6
NEAR = 1e-3  # the largest gradient entry per row at which steps of a stochastic minimiser may end


@dataclass(frozen=True)
class Finding:
    """One thing to say: `slug`, the sentence, and what to do about it."""

    slug: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Status:
    """The state of a fit.

    Attributes:
        code: converged, no-minimiser, undetermined, not-converged, or diverged.
        findings: everything to say, the gravest first.
        separated: for each entry of the flat parameter vector +1 or -1 where its estimate runs to plus or minus infinity, else 0.
        undetermined: where neither data nor prior fix the entry.
    """

    code: str
    findings: tuple[Finding, ...]
    separated: Array
    undetermined: Array

    @property
    def converged(self) -> bool:
        """Whether the estimate is a minimum."""
        return self.code == "converged"

    def inflate(self, covariance: Array) -> Array:
        """The covariance with infinite variances where there is no finite estimate."""
        out = covariance.copy()
        open_ = np.flatnonzero((self.separated != 0) | self.undetermined)
        out[open_, :] = out[:, open_] = np.nan
        out[open_, open_] = np.inf
        return out

    def __str__(self) -> str:
        lines = [self.code]
        lines += [f"{f.message}. {f.remedy}" for f in self.findings]
        return "\n".join(lines)


def examine(
    objective: Objective, params: dict[str, jax.Array], curve: Curvature | None, convex: bool, colours: Colouring | None
) -> Recession:
    """What data and prior leave open: by comparison of all statistics where the curvature looks thin, else nothing."""
    if curve is None:
        return Recession(False, None)
    if convex and colours is not None and _is_suspect(curve):
        found = find_recession(objective, params, colours)
        if found.checked:
            return found
    return Recession(False, None, curve.covariance()[1])


def judge(
    objective: Objective,
    params: dict[str, jax.Array],
    outcome: Outcome,
    open_: Recession,
    colours: Colouring | None,
    missing: Missing | None = None,
) -> Status:
    """The status of a fit that has run; `open_` is what `examine` found."""
    host = objective.frame.host
    size = sum(p.size for p in host.parameters)
    names = entry_names(host) if size <= 100_000 else []
    separated, undetermined = np.zeros(size, np.int8), np.zeros(size, bool)
    findings: list[Finding] = []
    if outcome.reason == "diverged":
        remedy = "Lower the learning rate, or leave `optimizer` out for L-BFGS"
        findings.append(Finding("diverged", "The objective is not a number any more", remedy))
        return Status("diverged", tuple(findings), separated, undetermined)
    if open_.direction is not None:
        separated = _signs(open_.direction)
        findings.append(_no_minimiser(separated, names))
    if open_.flat is not None and open_.flat.shape[1]:
        undetermined = _parts(open_.flat) & (separated == 0)
        if undetermined.any():
            findings.append(_undetermined(host, undetermined, open_.flat.shape[1], names, colours))
    stopped = [] if separated.any() else _stopped(outcome, missing)
    findings += [*_revealing(objective, params), *_at_bounds(host, params), *stopped]
    code = "no-minimiser" if separated.any() else "not-converged" if stopped else "undetermined" if undetermined.any() else "converged"
    return Status(code, tuple(findings), separated, undetermined)


def _is_suspect(curve: Curvature) -> bool:
    values = np.linalg.eigvalsh(curve.hessian)
    return bool(len(values)) and values.min() < SUSPECT * values.max()


def _parts(directions: Array) -> Array:
    """The entries that have a part in some direction."""
    return (np.abs(directions) > PART).any(axis=1) if directions.shape[1] else np.zeros(len(directions), bool)  # pyright: ignore[reportReturnType]


def _signs(direction: Array) -> Array:
    v = direction / np.abs(direction).max()
    return np.where(np.abs(v) > PART, np.sign(v), 0).astype(np.int8)


def _some(names: list[str], which: Array, most: int = 6) -> str:
    chosen = [names[i] for i in np.flatnonzero(which)]
    return ", ".join(f"`{n}`" for n in chosen[:most]) + (f" and {len(chosen) - most} more" if len(chosen) > most else "")


def _no_minimiser(separated: Array, names: list[str]) -> Finding:
    count = int((separated != 0).sum())
    signs = [f"`{names[i]}` to {'+' if separated[i] > 0 else '-'}infinity" for i in np.flatnonzero(separated)[:6]]
    more = f" and {count - 6} more" if count > 6 else ""
    several = "s" * (count > 1)
    message = (
        f"There is no finite estimate of {count} parameter{several}: the data separate, "
        f"and the fit improves for ever as {', '.join(signs)}{more}"
    )
    return Finding("no-minimiser", message, "Give these parameters a prior, `~ normal(0, 1)` say, or pool them")


def _undetermined(host: FactorGraph, which: Array, count: int, names: list[str], colours: Colouring | None) -> Finding:
    unused = sorted(p.name for p in host.parameters if not any(p.name in g.parameters for g in host.groups))
    unseen = which & _unseen(colours, len(which))
    directions = f"{count} direction{'s' * (count > 1)}"
    parts = _some(names, which)
    message = f"Neither data nor prior determine {directions} of the parameters, with parts in {parts}; they stay at their start"
    if unused:
        return Finding("undetermined", message, f"No factor uses {', '.join(f'`{n}`' for n in unused)}: remove them, or give them a prior")
    if unseen.any():
        remedy = f"The mask cannot see {_some(names, unseen)}: use one that draws the cells they touch, or give them a prior"
        return Finding("unseen", message, remedy)
    return Finding("undetermined", message, "Give them a prior, or fix a `gauge`")


def _unseen(colours: Colouring | None, size: int) -> Array:
    """Entries that no block of the mask depends on."""
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
        if min(low, high) < AT_BOUND:
            message = f"`{p.name}` has run to the edge of its range"
            out.append(Finding("at-bound", message, "Its standard errors mean nothing there; a prior keeps it inside"))
    return out


def _stopped(outcome: Outcome, missing: Missing | None) -> list[Finding]:
    if missing is not None and missing.imputed:
        if outcome.reason == "converged":
            return []
        message = (
            f"Monte Carlo EM did not settle in {missing.iterations} rounds: its error is {missing.noise:.2g} standard errors, "
            f"and the mean of its rounds drifts by {missing.drift:.2g} of these errors"
        )
        return [Finding("imputation", message, "Drop the rows with the most missing cells, or give the parameters a prior")]
    if outcome.reason == "steps" and not outcome.gradient <= NEAR:
        message = f"The minimiser stopped after {outcome.steps} steps with a gradient of {outcome.gradient:.2g} per row"
        return [Finding("not-converged", message, "Raise `max_steps`, or rescale the parameters")]
    if outcome.reason == "stalled" and outcome.gradient > 1e-5:
        message = f"The line search found no further decrease at a gradient of {outcome.gradient:.2g} per row"
        return [Finding("not-converged", message, "Start elsewhere with `init=`; the objective may have a kink or be badly scaled")]
    return []
