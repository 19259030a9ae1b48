"""Markov chains of small models: matrices or operators, their distributions and components.

A chain is a matrix if it is small enough to store densely, and an operator otherwise.

Its stationary distribution is compared with p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import rel_entr

from .. import derive
from .._diagnostics import fail
from .._types import ArrayLike, Given
from ..data import encode
from ..derive import sampler_bias
from ..graph.colours import colour
from ..masks import lower_mask
from ..plan import repeat_count, row_weights, sweep_blocks
from ..program import ir
from ..read import verify_unmasked
from ._block_dynamics import BlockDynamics, block_dynamics, dynamics_of
from ._configurations import Configurations, configurations, verify_model
from .limits import MOST_DENSE

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
Step = tuple[Callable[[Array], Array], Callable[[Array], Array]]


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain on the configurations of a model with p > 0.

    Attributes:
        name: the name of the chain in messages.
        space: the configurations.
        apply: the map of functions f -> P f, on tensors.
        push: the map of distributions mu -> mu P, on tensors.
        dense: a function that returns the matrix over the support.
        dynamics: the block dynamics if the chain is that of a mask, which is reversible; else None.
        keeps: whether every update leaves p invariant.
        joined: a function that returns the component of each configuration of the support. No step
            joins two components.
    """

    name: str
    space: Configurations
    apply: Callable[[Array], Array]
    push: Callable[[Array], Array]
    dense: Callable[[], Array]
    dynamics: BlockDynamics | None
    keeps: bool
    joined: Callable[[], Array]

    @property
    def size(self) -> int:
        """The number of configurations with p > 0."""
        return len(self.space.support)

    @property
    def is_small(self) -> bool:
        """Whether the chain is stored as a matrix."""
        return self.size <= MOST_DENSE

    @cached_property
    def matrix(self) -> Array:
        """P over the support; its rows sum to 1."""
        return self.dense()

    @cached_property
    def is_irreducible(self) -> bool:
        """Whether every configuration of the support is reached from every other."""
        return bool(self.joined().max(initial=0) == 0)

    @cached_property
    def law(self) -> Array | None:
        """The stationary distribution over the support; None if there are several."""
        if self.keeps:
            return self.target if self.is_irreducible else None
        return sampler_bias.stationary_law(self.matrix)

    @property
    def target(self) -> Array:
        """p over the support."""
        return self.space.p.ravel()[self.space.support]


def chain_of(model: JointModel, params: Params, sampler: str | None, mask: str | None, what: str, given: Given | None = None) -> Chain:
    """Return the chain of a sampler's body, or of the block dynamics of a mask.

    Args:
        model: the model.
        params: parameters.
        sampler: the sampler's name, or None.
        mask: the mask's name, or None for the sampler.
        what: the name of the quantity in error messages.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 if both are named, E601, E602 if the model is too large.
    """
    if sampler is not None and mask is not None:
        raise fail("E507", f"{what}: name a sampler or a mask, not both", help="`mask=` is the sampler that updates K ~ mask")
    verify_model(model)
    if mask is not None:
        name, dynamics = dynamics_of(model, params, mask, what, given)
        return mask_chain(f"mask `{name}`", dynamics)
    name, checked = model.sampler(sampler)
    if isinstance(checked.body, ir.FormCall) and model.graph.network is None:
        raise derive.no_chain(checked.body)
    if isinstance(checked.body, ir.FormCall):
        raise fail(
            "E742", f"`{checked.body.form.name}` decodes a network, which declares no joint distribution to compare with", checked.span
        )
    space = configurations(model, params, what, latents=True, given=given)
    return sampler_chain(f"sampler `{name}`", space, checked, what)


def mask_chain(name: str, dynamics: BlockDynamics) -> Chain:
    """Return the chain that draws K from a mask and redraws x_K."""
    return Chain(name, dynamics.space, dynamics.apply, dynamics.push, dynamics.dense, dynamics, True, dynamics.components)


def sampler_chain(name: str, space: Configurations, sampler: ir.Sampler, what: str) -> Chain:
    """Return the chain of a sampler's body.

    A small chain is the matrix of the kernels' own conditionals. A larger chain is an operator.

    Args:
        name: the name of the chain in messages.
        space: the configurations.
        sampler: the sampler.
        what: the name of the quantity in error messages.
    """
    assert isinstance(sampler.body, tuple)
    updates = list(ir.updates_in(sampler.body))
    mask = updates[0].drawn_mask if updates == list(sampler.body) and len(updates) == 1 else None
    if mask is not None and not updates[0].independently and not mask.body.is_percolation:
        return mask_chain(name, block_dynamics(space, lower_mask(space.lowered, mask), what))
    if len(space.support) > MOST_DENSE:
        parts = _Steps(space, what)
        steps = [k.accept(parts) for k in sampler.body]
        return Chain(name, space, parts.forward(steps), parts.backward(steps), _never, None, True, parts.components)
    inside = space.support
    with jax.enable_x64(True):
        whole = derive.Transitions(space.lowered, space.params).matrix(sampler.body)
    matrix = whole[np.ix_(inside, inside)]

    def on(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def tensor(a: Array) -> Array:
            flat = a.reshape(space.count, -1)
            out = np.zeros_like(flat, float)
            out[inside] = f(flat[inside])
            return out.reshape(a.shape)

        return tensor

    def parts_of() -> Array:
        return connected_components(scipy.sparse.csr_matrix(matrix), connection="strong")[1]

    keeps = not any(u.independently for u in updates)
    return Chain(name, space, on(lambda f: matrix @ f), on(lambda law: matrix.T @ law), lambda: matrix, None, keeps, parts_of)


def _never() -> Array:
    raise AssertionError("a large chain has no matrix")


class _Steps:
    """Kernels of a sampler as operators on tensors, on functions and on distributions."""

    def __init__(self, space: Configurations, what: str):
        self.space, self.what = space, what
        self.blocks: list[BlockDynamics] = []

    def start(self, kernel: ir.Start) -> Step:
        """Raise an error: the start of a draw does not depend on a state."""
        raise derive.fresh(kernel)

    def sweep(self, kernel: ir.Sweep) -> Step:
        """Return the updates of blocks in the order of their colours."""
        self.verify_joint(kernel)
        blocks = sweep_blocks(self.space.lowered, kernel.blocks)
        order = np.argsort(colour(self.space.host, blocks), kind="stable")
        return self.in_order([self.kept(self.single(blocks[k])) for k in order])

    def random(self, kernel: ir.RandomUpdate) -> Step:
        """Return the update of a block drawn from a mask."""
        self.verify_joint(kernel)
        if kernel.mask.body.is_percolation:
            message = f"{self.what}: clusters are listed for a matrix, and {len(self.space.support):,} configurations"
            raise fail("E601", f"{message} are more than the limit of {MOST_DENSE:,} for one", kernel.span)
        return self.kept(block_dynamics(self.space, lower_mask(self.space.lowered, kernel.mask), self.what))

    def cycle(self, kernel: ir.Cycle) -> Step:
        """Return the steps one after another."""
        return self.in_order([k.accept(self) for k in kernel.body])

    def repeat(self, kernel: ir.Repeat) -> Step:
        """Return the body repeated as often as the kernel states."""
        return self.in_order([k.accept(self) for k in kernel.body] * repeat_count(self.space.lowered, kernel))

    def mixture(self, kernel: ir.KernelMixture) -> Step:
        """Return the weighted mean of the steps of the rows."""
        weights, parts = row_weights(self.space.lowered, kernel), [k.accept(self) for k in kernel.parts]
        return (
            lambda f: sum((w * p[0](f) for w, p in zip(weights, parts, strict=True)), np.zeros_like(f)),
            lambda law: sum((w * p[1](law) for w, p in zip(weights, parts, strict=True)), np.zeros_like(law)),
        )

    def temper(self, kernel: ir.Temper) -> Step:
        """Raise E507: the state of `temper` consists of several replicas."""
        raise fail("E507", "`temper` moves a replica for each beta at once: it is not a chain on configurations", kernel.span)

    def verify_joint(self, update: ir.Sweep | ir.RandomUpdate) -> None:
        """Raise E601 for an update that draws cells `independently`."""
        if update.independently:
            message = (
                f"{self.what}: an update drawn `independently` is a product over cells, and {len(self.space.support):,} configurations"
            )
            raise fail("E601", f"{message} are more than the limit of {MOST_DENSE:,} for its matrix", update.span)

    def single(self, block: Array) -> BlockDynamics:
        """Return the dynamics that always redraw one block."""
        axes = np.searchsorted(self.space.cells, block[block < self.space.host.n_cells])
        return BlockDynamics(self.space, [tuple(axes.tolist())], [np.asarray(1.0)])

    def kept(self, dynamics: BlockDynamics) -> Step:
        """Return the operators of block dynamics, and record the dynamics for `components`."""
        self.blocks.append(dynamics)
        return dynamics.apply, dynamics.push

    def in_order(self, steps: list[Step]) -> Step:
        """Return the steps one after another, on functions and on distributions."""
        return self.forward(steps), self.backward(steps)

    @staticmethod
    def forward(steps: list[Step]) -> Callable[[Array], Array]:
        """Return the steps on functions, on which the last step acts first: P1 P2 f."""

        def apply(f: Array) -> Array:
            for step, _ in reversed(steps):
                f = step(f)
            return f

        return apply

    @staticmethod
    def backward(steps: list[Step]) -> Callable[[Array], Array]:
        """Return the steps on distributions, on which the first step acts first."""

        def push(law: Array) -> Array:
            for _, step in steps:
                law = step(law)
            return law

        return push

    def components(self) -> Array:
        """Return the components of the support that no update joins.

        The order of updates has no effect, because every update may also leave a configuration
        unchanged.
        """
        every = [(b, c) for d in self.blocks for b, c in zip(d.blocks, d.chances, strict=True)]
        return BlockDynamics(self.space, [b for b, _ in every], [np.asarray(c) / len(every) for _, c in every]).components()


def start_of(chain: Chain, start: ArrayLike | str, what: str) -> Array:
    """Return a start as a distribution over the support.

    The start is a configuration as the model takes it, or the probabilities of all configurations.

    Raises:
        GmlmError: E501, E502 for a configuration that does not fit, E509 for probabilities that do
            not sum to 1 over possible configurations, E512 for an impossible configuration.
    """
    space = chain.space
    verify_unmasked(start, f"{what}: the start")
    try:
        array = np.asarray(start)
    except ValueError:
        array = np.zeros(())  # `encode` reports the fault
    if array.dtype.kind == "f" and array.shape == (space.count,):
        law = array[space.support]
        if (law < 0).any() or abs(law.sum() - 1) > 1e-8:
            raise fail(
                "E509", f"{what}: a start that is a distribution has probabilities of sum 1 over possible configurations, got {law.sum():g}"
            )
        return law
    host = space.host
    codes = encode(host, start, "start").codes
    if codes.shape[1] != 1 or (codes[space.cells] < 0).any():
        raise fail("E501", f"{what}: a start is one configuration of all its cells, without an axis of rows")
    law = np.zeros(space.count)
    law[space.place(codes[:, 0])] = 1.0
    if not law[space.support].any():
        raise fail("E512", f"{what}: the start has probability 0")
    return law[space.support]


def stationary_law(
    model: JointModel, params: Params, sampler: str | None = None, *, mask: str | None = None, given: Given | None = None
) -> Array:
    """Return the distribution pi with pi P = pi of a chain, exactly.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        given: one row of data of given variables.

    Returns:
        Array of shape (configurations,), with the first position slowest.

    Raises:
        GmlmError: E601 if the enumeration is too large, E713 if the chain converges to no single
            distribution.
    """
    chain = chain_of(model, params, sampler, mask, "the stationary distribution", given)
    out = np.zeros(chain.space.count)
    out[chain.space.support] = _settled(chain)
    return out


def _settled(chain: Chain) -> Array:
    law = chain.law
    if law is None:
        parts = int(chain.joined().max()) + 1
        message = f"the chain of {chain.name} falls into parts, {parts} of them: its long run depends on the start"
        raise fail("E713", message, help="a block that joins them is missing; `mixing_time` and `spectral_gap` say inf and 0")
    return law


@dataclass(frozen=True)
class Bias:
    """The distance of the stationary distribution pi of a chain from p.

    Attributes:
        total_variation: max over sets A of |pi(A) - p(A)|.
        kl: KL(pi, p) in nats.
        reverse_kl: KL(p, pi) in nats; inf if pi is 0 at a configuration that p allows.
        name: the name of the chain.
    """

    total_variation: float
    kl: float
    reverse_kl: float
    name: str

    def __repr__(self) -> str:
        return f"{self.name} beside p: TV {self.total_variation:.6g}, KL(pi, p) {self.kl:.6g}, KL(p, pi) {self.reverse_kl:.6g} nats"


def stationary_bias(
    model: JointModel, params: Params, sampler: str | None = None, *, mask: str | None = None, given: Given | None = None
) -> Bias:
    """Return the distance of the stationary distribution of a chain from p, exactly.

    It is 0 up to rounding, except for updates drawn `independently`.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601 if the enumeration is too large, E713 if the chain converges to no single
            distribution.

    Reference: Li et al. 2024, Definition 11. For pairwise models the independent update of all
    cells is reversible. For Ising models its distribution is proportional to exp(h.x) prod_i 2
    cosh(h_i + sum_j J_ij x_j).
    """
    chain = chain_of(model, params, sampler, mask, "the bias of a sampler", given)
    law, p = np.maximum(_settled(chain), 0.0), chain.target
    return Bias(float(0.5 * np.abs(law - p).sum()), float(rel_entr(law, p).sum()), float(rel_entr(p, law).sum()), chain.name)
