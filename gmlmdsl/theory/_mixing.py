"""Convergence rates of chains: Poincare constant, spectral gap, relaxation and mixing times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse.linalg

from .._diagnostics import fail, is_whole_number
from .._types import ArrayLike, Given, OfConfiguration
from ..data import verified_seed
from ._block_dynamics import CUT, constant_kind, dirichlet_matrix, dynamics_of, gap_kind, iterate, reversible_gap
from ._by_chains import gap_by_chains
from ._chains import Chain, chain_of, start_of
from ._configurations import Configurations
from ._quantity import Quantity
from .limits import GAP_ROUNDING, MOST_DENSE, MOST_DIGITS, MOST_MULTIPLICATIONS, MOST_STEPS

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


def dirichlet_form(
    model: JointModel, params: Params, f: OfConfiguration | ArrayLike, mask: str | None = None, *, given: Given | None = None
) -> Quantity:
    """Return E(f, f) = E_{x, K} Var(f | x_-K, K) of the block dynamics of a mask, exactly.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        f: a number for each configuration of the `var`s, shape (configurations,), with the first
            position slowest. It may also be a function of such configurations as the model takes
            them, with rows as the first axis, that returns one number per row.
        mask: the mask's name.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large, E501 if f does not give a number per
            configuration.

    Reference: Li et al. 2024, Definition 4 and Proposition 1.
    """
    name, dynamics = dynamics_of(model, params, mask, "the Dirichlet form", given)
    values = function_values(dynamics.space, f)
    value = float(dirichlet_matrix(dynamics, values[..., None])[0, 0])
    return Quantity(value, "exact", f"dirichlet_form({model.name}, mask={name!r})")


def function_values(space: Configurations, f: OfConfiguration | ArrayLike, what: str = "f") -> Array:
    """Return a function on configurations as a tensor, 0 at configurations of probability 0.

    Raises:
        GmlmError: E553 if the function fails, E501, E502, E504 if it does not give one finite
            number per configuration.
    """
    try:
        raw = f(space.values()) if callable(f) else f
    except Exception as error:  # a user's function may raise any exception
        help = "it takes configurations as arrays, rows first; letters and labels are codes from 0, in the order of their domain"
        raise fail("E553", f"`{what}` fails: {type(error).__name__}: {error}", help=help) from None
    try:
        values = np.asarray(raw, float)
    except (TypeError, ValueError):
        raise fail("E502", f"{what} must give numbers") from None
    if values.shape != (space.count,):
        raise fail("E501", f"{what} must give one number per configuration, shape ({space.count},), got {values.shape}")
    values = np.where(space.log_p > -np.inf, values.reshape(space.sizes), 0.0)
    if not np.isfinite(values).all():
        raise fail("E504", f"{what} must give finite numbers, got {values[~np.isfinite(values)][0]:g}")
    return values


def poincare_constant(model: JointModel, params: Params, mask: str | None = None, *, given: Given | None = None) -> Quantity:
    """Return C, the smallest number with Var(f) <= C E(f, f) for every f, exactly.

    It is 1 / (spectral gap of the mask's block dynamics). The estimator's covariance with one mask
    drawn for each row is at most C times that of maximum likelihood.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        given: one row of data of given variables.

    Returns:
        A number of at least 1; inf if the chain cannot reach all of the support, and so never
            converges.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large.

    Reference: Li et al. 2024, Definition 5, Theorems 2 and 3; the constant is over functions of x.
    """
    name, dynamics = dynamics_of(model, params, mask, "the Poincare constant", given)
    gap, note = reversible_gap(dynamics)
    source = f"poincare_constant({model.name}, mask={name!r})"
    return Quantity(np.inf if gap == 0 else 1 / gap, constant_kind(note), source, note=note)


def spectral_gap(
    model: JointModel,
    params: Params,
    sampler: str | None = None,
    *,
    mask: str | None = None,
    given: Given | None = None,
    draws: int | None = None,
    seed: int = 0,
) -> Quantity:
    """Return the absolute spectral gap of a chain exactly, or a bound on it by `draws`.

    The gap is 1 - max |lambda| over the eigenvalues of the chain except its eigenvalue 1.

    For a model too large to enumerate, the slowest autocorrelation rho(t) among the indicators of
    the cells' values bounds the gap. For the block dynamics of a mask, rho(t) <= (1 - gap)^t, so
    that gap <= 1 - rho(t)^(1/t).

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        given: one row of data of given variables.
        draws: in place of an exact answer, the number of draws of each of 16 chains, after the same
            number of warm-up draws.
        seed: the seed of the draws.

    Returns:
        A number between 0 and 1; 0.0 if the chain is reducible. By `draws` it is an upper bound for
            block dynamics, which is itself an estimate with a standard error. For other samplers it
            is only an estimate.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large, E714 if an iteration does not
            converge, or no cell moved.
    """
    verified_seed(seed)
    if draws is not None:
        if mask is not None:
            raise fail("E507", "by draws the gap is a sampler's", help="declare `sampler NAME { update K where K ~ MASK }` and name it")
        return gap_by_chains(model, params, sampler, draws, seed, given)
    chain = chain_of(model, params, sampler, mask, "the spectral gap", given)
    gap, note = gap_of(chain)
    return Quantity(gap, gap_kind(note), f"spectral_gap({model.name}, {chain.name})", note=note)


def gap_of(chain: Chain) -> tuple[float, str]:
    """Return the absolute spectral gap of a chain, and a note on it."""
    if chain.dynamics is not None:
        return reversible_gap(chain.dynamics)
    if not chain.is_irreducible and chain.law is None:
        return 0.0, "the chain falls into parts"
    if chain.size < 2:
        return 1.0, "the support is one configuration"
    law = chain.law
    assert law is not None
    if chain.is_small:
        # The stationary part is subtracted, so that the eigenvalue 1 is not among the values.
        values = np.linalg.eigvals(chain.matrix - law[None])
    else:
        space = chain.space
        inside = space.support

        def product(f: Array) -> Array:
            tensor = np.zeros(space.count)
            tensor[inside] = f.ravel()
            out = chain.apply(tensor.reshape(space.sizes)).ravel()[inside]
            return out - law @ f.ravel()

        values, _ = iterate(product, chain.size, scipy.sparse.linalg.eigs, "LM", 1)
    gap = 1 - float(np.abs(values).max())
    # The gap of an irreducible chain is not 0, but rounding may hide it.
    return (gap, "") if gap >= GAP_ROUNDING else (GAP_ROUNDING, f"{CUT}: what is left of it is lost to rounding")


def relaxation_time(
    model: JointModel, params: Params, sampler: str | None = None, *, mask: str | None = None, given: Given | None = None
) -> Quantity:
    """Return 1 / spectral gap, in steps; inf if the gap is 0. See `spectral_gap`.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        given: one row of data of given variables.
    """
    gap = spectral_gap(model, params, sampler, mask=mask, given=given)
    kind = "lower bound" if gap.kind == "upper bound" else "exact"
    return Quantity(np.inf if gap == 0 else 1 / gap, kind, gap.source.replace("spectral_gap", "relaxation_time"), note=gap.note)


def mixing_time(
    model: JointModel,
    params: Params,
    sampler: str | None = None,
    tv: float = 0.25,
    *,
    mask: str | None = None,
    start: ArrayLike | str | None = None,
    given: Given | None = None,
) -> Quantity:
    """Return the first step t with max over starts of TV(P^t(x, .), pi) <= tv, exactly.

    pi is the chain's own stationary distribution.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        tv: the threshold, between 0 and 1.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        start: one configuration as the model takes it, or a distribution over all configurations;
            None takes the worst start.
        given: one row of data of given variables.

    Returns:
        A whole number; inf if the chain converges to no single distribution.

    Raises:
        GmlmError: E601 if the enumeration is too large; without a start, for more than 2048
            possible configurations.
    """
    if not 0 < tv < 1:
        raise fail("E507", f"tv must lie between 0 and 1, got {tv:g}")
    chain = chain_of(model, params, sampler, mask, "the mixing time", given)
    source = f"mixing_time({model.name}, {chain.name}, tv={tv:g}{', start=..' * (start is not None)})"
    law = chain.law
    if law is None:
        return Quantity(np.inf, "exact", source, note="the chain falls into parts")
    if start is None:
        verify_matrix(chain, "the mixing time from the worst start")
    starts = np.eye(chain.size) if start is None else start_of(chain, start, "the mixing time")[None]
    found = _first_power(chain.matrix, starts, law, tv) if chain.is_small else _first_below(chain, starts[0], law, tv)
    if np.isinf(found):
        return Quantity(2.0**MOST_DIGITS, "lower bound", source, note="float64 counts no further")
    return Quantity(found, "exact", source)


def verify_matrix(chain: Chain, what: str) -> None:
    """Raise E601 for a chain too large for its matrix.

    Raises:
        GmlmError: E601.
    """
    if not chain.is_small:
        message = f"{what} needs the matrix of {chain.size:,} configurations, more than the limit of {MOST_DENSE:,}"
        raise fail("E601", message, help="name a start, `start=x`: then the distribution is followed step by step")


Distance = Callable[[Array, Array], float]


def _distance(rows: Array, law: Array) -> float:
    return float(0.5 * np.abs(rows - law).sum(axis=-1).max())


def _chi_square(rows: Array, law: Array) -> float:
    return float(((rows - law) ** 2 / law).sum(axis=-1).max())


def _kl(rows: Array, law: Array) -> float:
    some = np.maximum(rows, 1e-300)
    return float((rows * np.log(some / law)).sum(axis=-1).max())


MEASURES: dict[str, Distance] = {"chi_square": _chi_square, "kl": _kl, "total_variation": _distance}


def _first_power(matrix: Array, starts: Array, law: Array, tv: float) -> float:
    """Return the first t with starts matrix^t within tv of the distribution.

    The matrix is squared until this holds, and the digits of t are then found by bisection.
    """
    if _distance(starts, law) <= tv:
        return 0.0
    powers = [matrix]
    while _distance(starts @ powers[-1], law) > tv:
        if len(powers) > MOST_DIGITS:
            return np.inf
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))
    steps = 0.0
    for k in reversed(range(len(powers) - 1)):
        further = starts @ powers[k]
        if _distance(further, law) > tv:
            steps, starts = steps + 2.0**k, further
    return steps + 1


def _first_below(chain: Chain, now: Array, law: Array, tv: float) -> float:
    """Return the first step within tv of the distribution, for a chain without a matrix."""
    for step, distance in enumerate(distances(chain, now, law, MOST_STEPS)):
        if distance <= tv:
            return float(step)
    raise fail(
        "E714", f"the chain is not within {tv:g} of its stationary distribution after {MOST_STEPS:,} steps", help="see its relaxation time"
    )


def distances(chain: Chain, now: Array, law: Array, steps: int, distance: Distance = _distance) -> Iterator[float]:
    """Yield the distance to a distribution after 0, 1, .. steps.

    Args:
        chain: the chain.
        now: the distribution at the start, over the support.
        law: the distribution to compare with, over the support.
        steps: the last step.
        distance: the distance of the farthest row of an array to a distribution.
    """
    space, inside = chain.space, chain.space.support
    tensor = np.zeros(space.count)
    tensor[inside] = now
    tensor = tensor.reshape(space.sizes)
    for step in range(steps + 1):
        yield distance(tensor.ravel()[inside], law)
        if step < steps:
            tensor = chain.push(tensor)


def total_variation(
    model: JointModel,
    params: Params,
    sampler: str | None = None,
    steps: int = 100,
    *,
    mask: str | None = None,
    start: ArrayLike | str | None = None,
    to: str = "stationary",
    given: Given | None = None,
) -> Array:
    """Return the total variation distance of a chain to its limit after 0, 1, .., `steps` steps.

    The result is exact. The limit is the chain's own stationary distribution, or p.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        steps: the last step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        start: one configuration as the model takes it, or a distribution over all configurations;
            None takes the worst start at each step.
        to: "stationary" for the chain's own distribution, or "target" for p, to which a biased
            chain does not converge.
        given: one row of data of given variables.

    Returns:
        Array of shape (steps + 1,), between 0 and 1; nan if the chain converges to no single
            distribution and `to` is "stationary".

    Raises:
        GmlmError: E507 for an invalid option, E601 if the enumeration is too large.
    """
    if to not in ("stationary", "target"):
        raise fail("E507", f'to must be "stationary" or "target", got {to!r}')
    verify_steps(steps)
    chain = chain_of(model, params, sampler, mask, "total variation", given)
    return _curve(chain, start, chain.target if to == "target" else chain.law, steps, "total_variation")


def divergence(
    model: JointModel,
    params: Params,
    sampler: str | None = None,
    steps: int = 100,
    *,
    mask: str | None = None,
    start: ArrayLike | str | None = None,
    measure: str = "chi_square",
    given: Given | None = None,
) -> Array:
    """Return the divergence of a chain from its stationary distribution pi after 0 to `steps` steps.

    With q the distribution after a step, it is the sum of (q - pi)^2 / pi or of q log(q / pi). Each
    step of the block dynamics of a mask multiplies chi-square by at most (1 - 1 / C)^2, and KL by
    at most 1 - 1 / C_AT. C is the Poincare constant, and C_AT is the constant of entropy
    tensorization.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        steps: the last step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        start: as in `total_variation`; None takes the worst start at each step.
        measure: "chi_square" or "kl" (in nats).
        given: one row of data of given variables.

    Returns:
        Array of shape (steps + 1,); nan if the chain converges to no single distribution.

    Raises:
        GmlmError: E507 for an invalid option, E601 if the enumeration is too large.

    Reference: Li et al. 2024, Definitions 5 and 9.
    """
    if measure not in ("chi_square", "kl"):
        raise fail("E507", f'measure must be "chi_square" or "kl", got {measure!r}')
    verify_steps(steps)
    chain = chain_of(model, params, sampler, mask, "a divergence", given)
    return _curve(chain, start, chain.law, steps, measure)


def verify_steps(steps: int) -> None:
    """Raise E507 for an invalid number of steps."""
    if not is_whole_number(steps) or not 0 <= steps <= MOST_STEPS:
        raise fail("E507", f"steps must be a whole number from 0 to {MOST_STEPS:,}, got {steps!r}")


def _curve(chain: Chain, start: ArrayLike | str | None, law: Array | None, steps: int, measure: str) -> Array:
    """Return the distance after 0, .., `steps` steps, from a start or from the worst one."""
    what, distance = measure.replace("_", " "), MEASURES[measure]
    if law is None:
        return np.full(steps + 1, np.nan)
    if start is not None:
        return np.fromiter(distances(chain, start_of(chain, start, what), law, steps, distance), float, steps + 1)
    verify_matrix(chain, f"{what} from the worst start")
    if steps * float(chain.size) ** 3 > MOST_MULTIPLICATIONS:
        message = f"{what} from the worst start: {steps:,} products of matrices of {chain.size:,} configurations"
        raise fail("E601", message, help="name a start, `start=x`, or take fewer steps")
    rows, out = np.eye(chain.size), np.zeros(steps + 1)
    for step in range(steps + 1):
        out[step] = distance(rows, law)
        if step < steps:
            rows = rows @ chain.matrix
    return out
