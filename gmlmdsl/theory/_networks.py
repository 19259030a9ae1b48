"""Gaps of a network's conditionals, to one another and to the joint distribution of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._types import Given, Rows
from ..data import encode, generator
from ..evaluate import network_queries, verified_params
from ..graph import verify_is_model
from ._block_dynamics import dynamics_of
from ._quantity import Quantity
from .limits import INPUTS_AT_ONCE, MOST_PASSES

if TYPE_CHECKING:
    from ..derive import Networks
    from ..model import ConditionalModel, JointModel, Params

Array = np.ndarray


def _verify_conditional(model: Any) -> None:
    verify_is_model(model)
    if model.graph.network is None:
        help = "this is asked of models with a `conditional`"
        raise fail("E743", f"model `{model.name}` has a joint distribution: its conditionals agree", help=help)


def consistency_gap(
    model: ConditionalModel, params: Params, x: Rows, *, pairs: int = 32, seed: int = 0, given: Given | None = None
) -> Quantity:
    """Estimate the distance of a network's conditionals from those of any joint distribution.

    It is measured on pairs of cells. For a joint distribution, p(x_i | x_rest, {i, j}) = sum over
    x_j of p(x_j | x_rest, {i, j}) p(x_i | x_j, x_rest, {i}). Hiding a second cell is the same as
    averaging over it. The gap is the mean, over rows and over ordered pairs, of the total variation
    distance of the two sides. It is 0 for every joint distribution, but a gap of 0 does not imply
    that there is one.

    Args:
        model: a model with a `conditional`.
        params: `{"net": module}`.
        x: rows, without missing cells.
        pairs: the number of ordered pairs of cells that are drawn; all pairs if there are no more.
        seed: the seed of the pairs.
        given: one row of data of given variables.

    Returns:
        An estimate between 0 and 1. Its standard error treats rows and pairs as independent.

    Raises:
        GmlmError: E743 for a model with a joint distribution or of one cell. E504 for rows with
            missing cells. E601 if more than 2^20 passes of the network are needed.

    Reference: Heckerman et al. 2000, "Dependency networks", on conditionals that are learnt
    separately.
    """
    _verify_conditional(model)
    form = model.graph.network
    assert form is not None
    checked = verified_params(form, params)
    codes = encode(model.graph, x).codes[: model.graph.n_random]
    n, rows = codes.shape
    if (codes < 0).any():
        raise fail("E504", "x lacks cells: the rows of a gap are whole", help="drop the rows with missing cells")
    if n < 2:
        raise fail("E743", f"model `{model.name}` has one cell: there is nothing to agree with")
    q = int(model.graph.sizes[:n].max())
    every = [(i, j) for i in range(n) for j in range(n) if i != j]
    rng = generator(seed)
    chosen = every if len(every) <= pairs else [every[k] for k in rng.choice(len(every), pairs, replace=False)]
    passes = len(chosen) * rows * (q + 1)
    if passes > MOST_PASSES:
        message = f"{len(chosen)} pairs of cells, {rows:,} rows and {q} values take {passes:.3g} passes"
        raise fail("E601", f"{message}, more than the limit of {MOST_PASSES:.3g}", help="pass fewer rows, or fewer `pairs=`")
    found = np.array([_pair_gap(model, checked, codes, i, j, given) for i, j in chosen])
    error = float(found.std(ddof=1) / np.sqrt(found.size)) if found.size > 1 else float("nan")
    return Quantity(float(found.mean()), "estimate", f"consistency_gap({model.name}, {rows} rows, {len(chosen)} pairs)", error)


def _pair_gap(model: ConditionalModel, params: Networks, codes: Array, i: int, j: int, given: Given | None) -> Array:
    """Return the distance of one pair at each row."""
    n, rows = codes.shape
    held = np.zeros((n, 1), bool)
    held[[i, j]] = True
    both = np.exp(_tables(model, params, codes, held, given))
    alone = np.zeros((n, 1), bool)
    alone[i] = True
    q = both.shape[2]
    filled = np.repeat(codes, q, axis=1)
    filled[j] = np.tile(np.arange(q), rows)
    # shape (rows, values of x_j, values of x_i)
    after = np.exp(_tables(model, params, filled, alone, given))[:, i].reshape(rows, q, q)
    averaged = (both[:, j, :, None] * after).sum(axis=1)
    return 0.5 * np.abs(both[:, i] - averaged).sum(axis=1)


def _tables(model: ConditionalModel, params: Networks, codes: Array, held: Array, given: Given | None) -> Array:
    """Return tables of conditionals, computed in pieces of one size by one program."""
    count = codes.shape[1]
    size = min(INPUTS_AT_ONCE, count)
    padded = np.concatenate([codes, np.repeat(codes[:, -1:], -count % size, axis=1)], axis=1)
    pieces = [network_queries.tables(model.lowered, params, padded[:, k : k + size], held, given) for k in range(0, padded.shape[1], size)]
    return np.concatenate(pieces)[:count]


def step_gap(
    network: ConditionalModel,
    network_params: Params,
    model: JointModel,
    params: Params,
    mask: str | None = None,
    *,
    given: Given | None = None,
) -> Quantity:
    """Return the divergence of a network's step from the exact conditional, in nats, exactly.

    It is E KL(p(x_K | x_-K, K), the network's product over K of p(x_i | x_rest, K)). The
    expectation is over x ~ p of the exact model and K ~ its mask. The gap is `product_gap` plus the
    error of the network itself, the sum over K of E KL(p(x_i | x_-K), the network's p(x_i | x_rest,
    K)). Training can reduce the gap to the product gap and no further.

    Args:
        network: a model with a `conditional` over as many cells, with as many values each.
        network_params: `{"net": module}`.
        model: the exact model.
        params: its parameters.
        mask: a mask of the exact model that does not look at x.
        given: one row of data of given variables, for both models.

    Returns:
        The gap; infinite if the network gives probability 0 to a possible value.

    Raises:
        GmlmError: E743 if the two models do not have the same cells, E601, E602 if the enumeration
            is too large.

    Reference: Li et al. 2024, Proposition 3 and Definition 11.
    """
    _verify_conditional(network)
    form = network.graph.network
    assert form is not None
    checked = verified_params(form, network_params)
    name, dynamics = dynamics_of(model, params, mask, "the gap of a step", given if model.graph.given else None)
    space = dynamics.space
    sizes = tuple(int(s) for s in network.graph.sizes[: network.graph.n_random])
    if tuple(space.sizes) != sizes:
        message = f"model `{model.name}` has cells with {tuple(space.sizes)} values, the network's model `{network.name}` {sizes}"
        raise fail("E743", message, help="both need the same cells in the same order; latents of the exact model are summed out")
    codes = np.stack(np.unravel_index(np.arange(space.count), sizes)).astype(np.int32)
    total = 0.0
    for block in dynamics:
        held = np.zeros((len(sizes), 1), bool)
        held[list(block.axes)] = True
        log_q = _tables(network, checked, codes, held, given if network.graph.given else None)
        own = np.zeros(space.count)
        for cell in block.axes:
            own += log_q[np.arange(space.count), cell, codes[cell]]
        weight = (space.p * block.chance * np.ones(space.sizes)).ravel()
        joint = (block.conditional * np.ones(space.sizes)).ravel()
        alive = (weight > 0) & (joint > 0)
        total += float((weight[alive] * (np.log(joint[alive]) - own[alive])).sum())
    return Quantity(max(total, 0.0), "exact", f"step_gap({network.name}, {model.name}, mask={name!r})")
