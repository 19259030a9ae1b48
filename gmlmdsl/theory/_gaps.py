"""Gaps of decoders and of networks to the joint distribution, in parts that add up.

Exact divergences of decoders of small models are split into the losses of decoder and network, for
one decoder, or as a curve over numbers of passes. The conditionals of a network are compared with
one another, and with the distribution of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pandas as pd

from .._diagnostics import fail, listed, whole_number
from .._printed_table import PrintedTable
from .._types import Given, ParamsLike, Rows
from ..data import bound_once, encode, generator
from ..evaluate import known_params, network_queries, verified_params
from ..graph import passes_of, refinement, verify_is_model
from ..program import ir, is_decoder, is_function
from ._block_dynamics import BlockDynamics, dynamics_of
from ._configurations import verify_model
from ._decoder_law import decoder_law
from ._output_law import call_of, decoded_law, divergence, truth_table
from ._quantity import Quantity
from .limits import INPUTS_AT_ONCE, MOST_PASSES, NO_DIVERGENCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from ..derive import Networks
    from ..model import ConditionalModel, JointModel, Model, Params

Array = np.ndarray
MARKERS = "osDv^P"
DISTANCES = ["kl", "decoder", "network", "total_variation", "possible", "error"]


@dataclass(frozen=True)
class DecodingGap:
    """The divergence KL(truth || decoder) = decoder + network, in nats, exact.

    Attributes:
        total: the divergence of the decoder's draws.
        decoder: the divergence of the same decoder with the exact denoiser. It is lost by passes
            that settle several cells, whatever the network.
        network: the remainder, which is lost by the network. It is negative if the network's errors
            happen to cancel some of the decoder's.
    """

    total: Quantity
    decoder: Quantity
    network: Quantity


def decoding_gap(
    model: Model, params: ParamsLike, sampler: str | None = None, *, truth: Any = None, given: Given | None = None
) -> DecodingGap:
    """Split KL(truth || decoder) into the losses of the decoder and of the network.

    The loss of the decoder is its divergence with the exact denoiser.

    Args:
        model: a model of a network, or one with a joint distribution that is not the truth.
        params: its parameters.
        sampler: the decoder's name; it may be left out if the model has one.
        truth: a model with a joint distribution over the same cells, without parameters or as
            `(model, params)`; None takes the model itself.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 for a sampler that is not a decoder, or a truth over other cells; E601 for a
            model that is too large to enumerate; E742 if the model is a network's and no truth is
            named.
    """
    other, known = _truth(model, params, truth)
    checked = _decoder(model, sampler)
    own = decoded_law(model, params, checked, None, given).probabilities
    oracle = _with_oracle(other, known, checked, model)
    p = _fitting(truth_table((other, known)), own)
    total, decoder = divergence(p, own), divergence(p, oracle)
    source = "decoding_gap"
    return DecodingGap(*(Quantity(v, "exact", source) for v in (total, decoder, total - decoder)))


def _truth(model: Model, params: ParamsLike, truth: Any) -> tuple[Any, Mapping[str, Any]]:
    if truth is None:
        verify_model(model)
        return model, params
    found = truth if isinstance(truth, tuple) and len(truth) == 2 else (truth, {})
    verify_is_model(found[0])
    return found


def _decoder(model: Model, name: str | None) -> ir.Sampler:
    """Return a sampler that is a decoder, or that starts from one."""
    _, sampler = model.sampler(name)
    if not _decodes(sampler):
        help = "`refinement` and its presets are, and samplers that `start from` one"
        raise fail("E507", f"sampler `{sampler.name}` is not a decoder", sampler.span, help=help)
    return sampler


def _decodes(sampler: ir.Sampler) -> bool:
    body = sampler.body
    return ir.start_of(body) is not None or (isinstance(body, ir.FormCall) and is_decoder(body))


def _with_oracle(truth: Any, params: ParamsLike, sampler: ir.Sampler, model: Model) -> Array:
    """Return the distribution of the same decoder with the exact conditionals of the truth."""
    if (start := ir.start_of(sampler.body)) is not None:
        message = f"sampler `{sampler.name}` runs updates behind its decode: the truth's own are others"
        raise fail("E507", message, sampler.span, help=f"name `{start.name}`, from which it starts")
    lowered = bound_once(truth.lowered, None, "the exact denoiser")
    with jax.enable_x64(True):
        what, bound = f"the exact denoiser of `{sampler.name}`", model.lowered.bound
        found = decoder_law(lowered, known_params(lowered.graph, params), call_of(sampler), None, what, bound)
    sizes = [int(q) for v in lowered.graph.observed for q in lowered.graph.sizes[v.offset : v.offset + v.size]]
    out = np.zeros(sizes)
    np.add.at(out, tuple(found.codes.T), found.mass)
    return out


def _fitting(p: Array, law: Array) -> Array:
    if p.shape != law.shape:
        raise fail("E507", f"the truth is over a table of shape {p.shape}, and the decoder's rows have {law.shape}", help="the same cells")
    return p


@dataclass(frozen=True, eq=False)
class DecodingCurve:
    """Divergences of decoders over numbers of passes.

    Attributes:
        table: one row for each sampler and number of passes. Its columns are `sampler`, `passes`,
            `kl` (from the truth to the decoder, in nats), its parts `decoder` and `network`,
            `total_variation`, `possible`, `error` and `kind`. `passes` is the number of passes of a
            decode, or the most if it may end early. `possible` is the fraction of draws that
            satisfy the `require` of the truth. `error` is a standard error, 0 if `kind` is exact.
    """

    table: pd.DataFrame = field(repr=False)

    def __repr__(self) -> str:
        return repr(PrintedTable(self.table))

    def plot(self, ax: Any = None) -> Figure | SubFigure:
        """Plot divergence against passes with a line for each sampler, as a matplotlib figure.

        Open markers on the lowest line stand for a divergence of 0.
        """
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=(6, 3.5), layout="constrained")[1]
        counts, above = sorted(set(self.table["passes"])), self.table["kl"][self.table["kl"] > NO_DIVERGENCE]
        lowest = 10.0 ** (np.floor(np.log10(above.min() if len(above) else 1.0)) - 1)
        for k, (name, rows) in enumerate(self.table.groupby("sampler", sort=False)):
            none = (rows["kl"] <= NO_DIVERGENCE).to_numpy()
            place, height = rows["passes"].to_numpy(), np.where(none, lowest, rows["kl"])
            (line,) = ax.plot(place, height, marker=MARKERS[k % len(MARKERS)], markersize=9 - k % 3 * 2, markevery=~none, label=name)
            ax.plot(place[none], height[none], line.get_marker(), color=line.get_color(), markersize=9 - k % 3 * 2, fillstyle="none")
        ax.set(xscale="log", yscale="log", xlabel="passes", ylabel="KL(truth || decoder), nats")
        ax.set_xticks(counts, [str(c) for c in counts])
        ax.minorticks_off()
        ax.axhline(lowest, color="0.8", linewidth=1, zorder=0)
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        return ax.figure


def decoding_curve(
    model: Model,
    params: ParamsLike,
    samplers: str | Sequence[str] | None = None,
    passes: int | Sequence[int] = (1, 2, 4, 8),
    *,
    truth: Any = None,
    given: Given | None = None,
) -> DecodingCurve:
    """Return the divergences of decoders from the truth over numbers of passes.

    The table has KL and its two parts, total variation, and the fraction of possible draws.

    Args:
        model: a model of a network or with a joint distribution, small enough to enumerate.
        params: its parameters.
        samplers: names of decoders, or of samplers that start from one; None takes all decoders of
            the model.
        passes: numbers that replace the `steps` of a decoder: its passes, or with `block` its
            passes over each block. A decoder with a schedule of counts keeps its own number.
        truth: a model over the same cells, without parameters or as `(model, params)`; None takes
            the model itself.
        given: one row of data of given variables.

    Raises:
        GmlmError: as `decoding_gap`.
    """
    other, known = _truth(model, params, truth)
    p = truth_table((other, known))
    decoders = _decoders(model, samplers)
    steps = [whole_number("passes", count, 1) for count in np.array(passes, object).ravel()]
    if not steps or not decoders:
        message = "decoding_curve: `samplers` and `passes` must each have at least one entry"
        raise fail("E507", f"{message}, got {samplers} and {passes}", help="both may be left out")
    cells, rows = sum(v.size for v in model.graph.observed), []
    for checked in decoders:
        for count in steps:
            varied = _with_steps(checked, count)
            call = call_of(varied)
            law = decoded_law(model, params, varied, None, given).probabilities
            total, own = divergence(_fitting(p, law), law), np.nan
            if ir.start_of(varied.body) is None:
                own = total if truth is None else divergence(p, _with_oracle(other, known, varied, model))
            made = passes_of(call, refinement(call, model.lowered.bound), cells).total
            distances = total, own, total - own, np.abs(law - p).sum() / 2, law[p > 0].sum(), 0.0
            rows.append((checked.name, made, *distances, "exact"))
            if varied is checked:
                break
    return DecodingCurve(pd.DataFrame(rows, columns=["sampler", "passes", *DISTANCES, "kind"]))


def _decoders(model: Model, names: str | Sequence[str] | None) -> list[ir.Sampler]:
    """Return the named decoders, or all decoders of the model."""
    if names is not None:
        return [_decoder(model, name) for name in np.array(names, object).ravel()]
    found = [model.sampler(name)[1] for name in model.samplers]
    if not any(map(_decodes, found)):
        raise fail("E507", f"model `{model.name}` has no decoder: its samplers are {listed(model.samplers)}")
    return list(filter(_decodes, found))


def _with_steps(sampler: ir.Sampler, steps: int) -> ir.Sampler:
    """Return the sampler with other `steps`, or unchanged if its schedule is one of counts."""
    call = call_of(sampler)
    schedule = call.arguments.get("schedule")
    if isinstance(schedule, tuple | ir.Input) or is_function(schedule):
        return sampler
    changed = replace(call, arguments={**call.arguments, "steps": ir.Literal(call.span, steps)})
    start = ir.start_of(sampler.body)
    body = changed if start is None else tuple(replace(k, call=changed) if k is start else k for k in sampler.body)  # type: ignore[union-attr]
    return replace(sampler, body=body)


def product_gap(model: JointModel, params: Params, mask: str | None = None, *, given: Given | None = None) -> Quantity:
    """Return the divergence of a block's conditional from the product of its marginals, exactly.

    It is E KL(p(x_K | x_-K[, K]), the product over K of its single-cell marginals), in nats. The
    expectation is over x ~ p and K ~ p(K | x). It is 0 if no block's cells depend on one another
    given the rest. No decoder whose step is a product over cells is closer on average to the
    block's conditional.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601, E602 if the enumeration is too large.

    Reference: Li et al. 2024, Proposition 3.
    """
    name, dynamics = dynamics_of(model, params, mask, "the product gap", given)
    return Quantity(product_gap_of(dynamics), "exact", f"product_gap({model.name}, mask={name!r})")


def product_gap_of(dynamics: BlockDynamics) -> float:
    """Return the product gap of block dynamics."""
    total = 0.0
    for block in dynamics:
        if len(block.axes) > 1:
            weight = dynamics.space.p * block.chance
            joint = block.conditional
            alive = (joint > 0) & (weight > 0)
            ratio = np.log(np.where(alive, joint, 1.0))
            for axis in block.axes:
                others = tuple(a for a in block.axes if a != axis)
                ratio = ratio - np.log(np.where(alive, joint.sum(axis=others, keepdims=True), 1.0))
            total += float((weight * np.where(alive, ratio, 0.0)).sum())
    return max(total, 0.0)


def _conditional_params(model: ConditionalModel, params: Params) -> Networks:
    """Return the verified parameters of a model with a `conditional`."""
    verify_is_model(model)
    if model.graph.network is None:
        help = "this is asked of models with a `conditional`"
        raise fail("E743", f"model `{model.name}` has a joint distribution: its conditionals agree", help=help)
    return verified_params(model.graph.network, params)


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
    checked = _conditional_params(model, params)
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
    checked = _conditional_params(network, network_params)
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
