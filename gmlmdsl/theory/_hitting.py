"""First hitting of a set of configurations by a chain: expected steps and tail probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse.csgraph import breadth_first_order

from .._diagnostics import fail
from .._types import ArrayLike, Given, OfConfiguration
from ._chains import Chain, chain_of, start_of
from ._mixing import function_values, verify_steps
from ._quantity import Quantity
from .limits import MOST_BY_DIFFERENCES, MOST_DENSE, MOST_ITERATED, PANEL_STATES, TIME_ROUNDING

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


def hitting_time(
    model: JointModel,
    params: Params,
    target: OfConfiguration | ArrayLike,
    sampler: str | None = None,
    *,
    mask: str | None = None,
    start: ArrayLike | str | None = None,
    given: Given | None = None,
) -> Any:
    """Return the expected number of steps until a chain is first in a set, exactly.

    It is 0 for a start in the set. It solves h = 0 on the set and h = 1 + P h elsewhere.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        target: the set. It is a function that takes configurations as the model does, with rows as
            the first axis, and returns whether each belongs to the set. It may also be one boolean
            per configuration, with the first position slowest.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        start: one configuration as the model takes it, or a distribution over all configurations.
            None takes the worst start, and "each" takes all configurations.
        given: one row of data of given variables.

    Returns:
        A number, inf if the set may never be reached. For "each", an array of shape
            (configurations,), nan at configurations of probability 0.

    Raises:
        GmlmError: E601 if the enumeration is too large, E507 for an empty set, E714 if an iteration
            does not converge.
    """
    chain = chain_of(model, params, sampler, mask, "the hitting time", given)
    inside = _members(chain, target)
    times = _expected(chain, inside)
    source = f"hitting_time({model.name}, {chain.name})"
    if isinstance(start, str) and start == "each":
        out = np.full(chain.space.count, np.nan)
        out[chain.space.support] = times
        return out
    if start is None:
        return Quantity(times.max(), "exact", source, note="from the worst start")
    law = start_of(chain, start, "the hitting time")
    return Quantity(float(law[law > 0] @ times[law > 0]), "exact", source)


def _members(chain: Chain, target: OfConfiguration | ArrayLike) -> Array:
    """Return whether each configuration of the support belongs to a set."""
    found = function_values(chain.space, target, "target").ravel()[chain.space.support]
    if not np.isin(found, (0, 1)).all():
        raise fail("E502", f"target must say True or False of each configuration, got {found[~np.isin(found, (0, 1))][0]:g}")
    if not found.any():
        help = "values are as `sample` gives them: spins -1 and +1, letters and labels as codes from 0; a `require` may rule the set out"
        raise fail("E507", "no possible configuration belongs to the set `target`", help=help)
    return found != 0


def _expected(chain: Chain, inside: Array) -> Array:
    """Return the expected steps from each configuration of the support."""
    times = np.zeros(chain.size)
    sure = _surely(chain, inside)
    times[~sure] = np.inf
    open_ = sure & ~inside
    if not open_.any():
        return times
    if chain.is_small:
        times[open_] = _solved(chain.matrix[np.ix_(open_, open_)], chain.matrix[np.ix_(open_, inside)].sum(axis=1))
    else:
        times[open_] = _iterated(chain, open_)
    return times


def _solved(stays: Array, enters: Array) -> Array:
    """Solve h = 1 + stays h.

    If the steps are many, 1 - stays is almost singular and its differences have few digits. The
    equation is then solved without differences.
    """
    found = scipy.linalg.lu_solve(scipy.linalg.lu_factor(np.eye(len(stays)) - stays, check_finite=False), np.ones(len(stays)))
    return found if found.min() >= 1 - TIME_ROUNDING and found.max() < MOST_BY_DIFFERENCES else _censored(stays, enters)


def _censored(stays: Array, enters: Array) -> Array:
    """Solve h = 1 + stays h by eliminating the states one by one, the last first.

    Only sums, products and quotients of positive numbers are used. The chain observed outside a
    state i goes from a to b with probability P(a, b) + P(a, i) P(i, b) / s, with the probability s
    of leaving i. The steps spent in i are added to those of a. Each entry keeps its digits, however
    rare the exit (Grassmann, Taksar, Heyman 1985). Rows above a panel are updated once for the
    whole panel.
    """
    step, out = stays.copy(), enters.copy()
    size = len(step)
    spent, leaving = np.ones(size), np.zeros(size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for top in range(size, 0, -PANEL_STATES):
            low = max(top - PANEL_STATES, 0)
            for i in reversed(range(low, top)):
                leaving[i] = step[i, :i].sum() + out[i]
                share = step[:i, i] / leaving[i]
                step[low:i, :i] += share[low:, None] * step[i, :i]
                step[:low, low:i] += share[:low, None] * step[i, low:i]
                step[:low, i] = share[:low]
                out[:i] += share * out[i]
                spent[:i] += share * spent[i]
            step[:low, :low] += step[:low, low:top] @ step[low:top, :low]
        times = np.zeros(size)
        for i in range(size):
            times[i] = (spent[i] + step[i, :i] @ times[:i]) / leaving[i]
    return times


def _surely(chain: Chain, inside: Array) -> Array:
    """Return the configurations from which the set is reached with probability 1.

    No configuration on their way is one from which the set cannot be reached.
    """
    # Every step of these chains is reversible, so that the components suffice.
    if chain.dynamics is not None or not chain.is_small:
        parts = chain.joined()
        return np.isin(parts, parts[inside])
    steps = chain.matrix > 0
    return ~_leading_to(steps, ~_leading_to(steps, inside), avoid=inside)


def _leading_to(steps: Array, goal: Array, avoid: Array | None = None) -> Array:
    """Return the configurations with a path to a goal that does not pass through `avoid`."""
    if not goal.any():
        return np.zeros(len(goal), bool)
    edges = steps if avoid is None else steps & ~avoid[:, None]
    links = np.zeros((len(goal) + 1, len(goal) + 1), bool)
    links[:-1, :-1], links[-1, :-1] = edges.T, goal
    found = breadth_first_order(scipy.sparse.csr_matrix(links), len(goal), return_predecessors=False)
    out = np.zeros(len(goal) + 1, bool)
    out[found] = True
    return out[:-1]


def _iterated(chain: Chain, open_: Array) -> Array:
    """Solve for the expected steps without a matrix.

    Block dynamics are solved by conjugate gradients, because 1 - P is symmetric in the inner
    product of p. Other chains are solved by GMRES.
    """
    space, size = chain.space, int(open_.sum())
    place = space.support[open_]
    reversible = chain.dynamics is not None
    root = np.sqrt(space.p.ravel()[place]) if reversible else np.ones(size)

    def product(z: Array) -> Array:
        tensor = np.zeros(space.count)
        tensor[place] = z.ravel()
        step = chain.dynamics.symmetric if chain.dynamics is not None else chain.apply
        return z.ravel() - step(tensor.reshape(space.sizes)).ravel()[place]

    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    if reversible:
        found, left = scipy.sparse.linalg.cg(operator, root, rtol=1e-12, atol=0.0, maxiter=5000)
    else:
        found, left = scipy.sparse.linalg.gmres(operator, root, rtol=1e-11, atol=0.0, restart=100, maxiter=20)
    times = found / np.where(root > 0, root, np.nan)
    if left or not np.isfinite(times).all() or times.min() < 1 - TIME_ROUNDING or times.max() > MOST_ITERATED:
        message = "the hitting times of this chain do not settle: the set is hard to reach"
        raise fail("E714", message, help=f"take a model of at most {MOST_DENSE:,} configurations, or a mask's chain: `mask=`")
    return times


def hitting_tail(
    model: JointModel,
    params: Params,
    target: OfConfiguration | ArrayLike,
    start: ArrayLike | str,
    sampler: str | None = None,
    steps: int = 100,
    *,
    mask: str | None = None,
    given: Given | None = None,
) -> Array:
    """Return the probability that a chain has not been in a set after 0, 1, .., `steps` steps.

    The result is exact.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        target: the set, as in `hitting_time`.
        start: one configuration as the model takes it, or a distribution over all configurations.
        sampler: the sampler's name: one run of its body is one step.
        steps: the last step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        given: one row of data of given variables.

    Returns:
        Array of shape (steps + 1,), not increasing.

    Raises:
        GmlmError: E601 if the enumeration is too large, E507 for an empty set or an invalid
            `steps`.
    """
    verify_steps(steps)
    chain = chain_of(model, params, sampler, mask, "the hitting tail", given)
    inside = _members(chain, target)
    law, out = start_of(chain, start, "the hitting tail") * ~inside, np.zeros(steps + 1)
    push = _open_push(chain, ~inside)
    for step in range(steps + 1):
        out[step] = law.sum()
        if out[step] == 0:
            break
        if step < steps:
            law = push(law)
    return out


def _open_push(chain: Chain, open_: Array) -> Callable[[Array], Array]:
    """Return one step of distributions over the support that keeps only the mass on `open_`."""
    if chain.is_small:
        step = np.where(open_[:, None] & open_, chain.matrix, 0.0)
        return lambda law: law @ step
    space = chain.space

    def push(law: Array) -> Array:
        tensor = np.zeros(space.count)
        tensor[space.support] = law
        return np.where(open_, chain.push(tensor.reshape(space.sizes)).ravel()[space.support], 0.0)

    return push
