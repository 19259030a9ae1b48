"""The full transition matrix of a sampler on all configurations of a small model, in float64.

It is assembled from the conditionals, corrections and mask distributions that the kernels use.
Whatever is proved for the matrix therefore holds for the chain. The matrix of a conditional model
is built from products of the network's outputs over each K.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph, FactorGroup, Lowered, joint_count
from ..masks import lower_mask
from ..plan import (
    BUDGET,
    ClusterPlan,
    alike_blocks,
    entry_values,
    plan_clusters,
    plan_temper,
    repeat_count,
    row_weights,
    sweep_blocks,
    verify_positive,
)
from ..program import ir
from ._arrays import Blocks, Graph, fixed_blocks, graph_arrays, on_device
from ._bounded_jit import bounded_jit
from ._conditional import rest_possible, tempered
from ._energy import Params, local_scores, log_potential
from ._kernels import log_acceptance, proposed_pairs
from ._mask_law import AbstractMaskLaw, mask_law
from ._network import NetworkGraph, Networks, cell_tables, undefined_outputs
from ._network_kernels import LeastConfidentKernel, least, network_update, present_values, unadapted
from ._samplers import fresh, single_cells
from .limits import CERTAIN_COST, MOST_CLUSTER_WORK

Array = np.ndarray


def all_states(graph: FactorGraph, limit: float = BUDGET.states, what: str = "all configurations") -> Array:
    """Return every configuration as codes of shape (cells, configurations).

    The first position varies slowest.

    Raises:
        GmlmError: E601 if there are more than `limit` configurations.
    """
    count = joint_count(graph.sizes)
    if count > limit:
        message = f"{what} of {graph.n_random} cells: {count:.3g} configurations, more than the limit of {limit:.3g}"
        raise fail("E601", message, help="use a smaller model, or sample and look at the diagnostics")
    return np.stack(np.unravel_index(np.arange(int(count)), tuple(graph.sizes.tolist()))).astype(np.int32)


class Transitions:
    """Transition matrices of one model at given parameters, for p to the power `beta`.

    They must be computed under 64-bit types.
    """

    def __init__(self, lowered: Lowered, params: Params, beta: float = 1.0):
        self.params, self.beta = params, on_device([beta])
        self.device: Graph = graph_arrays(lowered.graph)
        self.enumerate(lowered)

    def enumerate(self, lowered: Lowered) -> None:
        """List the configurations, and the place value of each cell's code in their numbers."""
        self.lowered, self.host = lowered, lowered.graph
        self.states = all_states(lowered.graph, what="the transition matrix")
        self.codes = on_device(self.states)
        sizes = self.host.sizes.astype(np.int64)
        self.place = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)
        self.count = self.states.shape[1]

    def matrix(self, body: Sequence[ir.Kernel]) -> Array:
        """Return the matrix of kernels that run in order."""
        matrix = np.eye(self.count)
        for kernel in body:
            matrix = matrix @ kernel.accept(self)
        return matrix

    def cycle(self, kernel: ir.Cycle) -> Array:
        """Return the matrix of kernels that run one after another."""
        return self.matrix(kernel.body)

    def repeat(self, kernel: ir.Repeat) -> Array:
        """Return a power of the body's matrix."""
        return np.linalg.matrix_power(self.matrix(kernel.body), repeat_count(self.lowered, kernel))

    def mixture(self, kernel: ir.KernelMixture) -> Array:
        """Return the weighted mean of the parts' matrices."""
        rows = zip(row_weights(self.lowered, kernel), kernel.parts, strict=True)
        return sum((w * part.accept(self) for w, part in rows), np.zeros((self.count, self.count)))

    def temper(self, kernel: ir.Temper) -> Array:
        """Raise E507: the state of `temper` has the configurations of several replicas."""
        message = "`temper` moves a replica for each beta at once: its step is not a matrix over the configurations of one"
        help = "`sample` it; the matrix of its body says how each update moves"
        raise fail("E507", message, kernel.span, "several replicas", help=help)

    def start(self, kernel: ir.Start) -> Array:
        """Raise E507: the start of a draw does not depend on a state."""
        raise fresh(kernel)

    def sweep(self, sweep: ir.Sweep) -> Array:
        """Return the product of the blocks' matrices in the order of their colours."""
        from ..graph.colours import colour

        blocks = sweep_blocks(self.lowered, sweep.blocks)
        if sweep.independently:
            verify_positive(self.lowered, sweep)
        order = range(len(blocks)) if sweep.independently else np.argsort(colour(self.host, blocks), kind="stable")
        found = {} if sweep.independently else self.pieces(blocks)
        matrix = np.eye(self.count)
        for k in order:
            step = self.parallel(blocks[k : k + 1]) if sweep.independently else self.block(blocks[k : k + 1], found[k])
            matrix = matrix @ step
        return matrix

    def random(self, update: ir.RandomUpdate) -> Array:
        """Return the sum over blocks of p(K | x) times the block's own matrix.

        An empty block leaves the configuration unchanged.
        """
        if update.mask.body.is_percolation:
            return self.clusters(update)
        mask = lower_mask(self.lowered, update.mask)
        mask.verify(self.host.sizes, {k: np.asarray(v) for k, v in self.params.items()})
        if update.independently:
            verify_positive(self.lowered, update)
        if mask.support_size > BUDGET.support:
            message = f"the transition matrix sums over {mask.support_size:.3g} blocks, more than the limit of {BUDGET.support:,}"
            help = "take an update whose mask has fewer blocks, or draw: `sample`, and `gm.theory.spectral_gap(.., draws=)` for the gap"
            raise fail("E602", message, update.span, help=help)
        blocks, probabilities = mask.enumerate_blocks()
        law = mask_law(mask)
        found = self.pieces(blocks, mask.weight_groups if probabilities is None else ())
        matrix = np.zeros((self.count, self.count))
        for k in range(len(blocks)):
            block, correction = blocks[k : k + 1], None
            if probabilities is None:
                table = self.law_table(law, block, found[k])
                chosen = np.take_along_axis(table, self.value_now(block), axis=0)[0]
                with np.errstate(divide="ignore"):
                    correction = np.log(table) if mask.is_adaptive else None
            else:
                chosen = np.full(self.count, probabilities[k])
            step = self.parallel(block) if update.independently else self.block(block, found[k], correction)
            matrix += chosen[:, None] * step
        # The remaining probability belongs to the empty K, which results if every weight is 0.
        return matrix + np.diag(np.maximum(0.0, 1 - matrix.sum(axis=1)))

    def clusters(self, update: ir.RandomUpdate) -> Array:
        """Return the matrix that draws a cluster and redraws it among its images."""
        log_p = np.asarray(log_potential(self.device, self.params, self.codes), float)
        params = {k: np.asarray(v, float) for k, v in self.params.items()}
        return cluster_matrix(plan_clusters(self.lowered, update), self.states, log_p, params, float(self.beta[0]))

    def pieces(self, blocks: Array, extra: Sequence[FactorGroup] = ()) -> Mapping[int, Blocks | None]:
        """Return every block separately.

        Similar blocks get arrays of the same shape, so that few programs are compiled.
        """
        out: dict[int, Blocks] = {}
        for like in alike_blocks(self.host, blocks):
            together = jax.tree.map(np.asarray, fixed_blocks(self.host, blocks[like], extra))
            out |= {int(k): jax.tree.map(lambda a, at=at: a[at : at + 1], together) for at, k in enumerate(like)}
        return out

    def law_table(self, law: AbstractMaskLaw, block: Array, found: Blocks | None) -> Array:
        """Return p(K | x') under every joint value of the block, shape (values, configurations)."""
        assert found is not None
        table = np.exp(np.asarray(_law_table(law, self.params, self.codes, found, found.touch[len(self.device.groups) :])))
        n_values = len(self.values(block))
        return np.broadcast_to(table[0, :n_values], (n_values, self.count))

    def value_now(self, block: Array) -> Array:
        """Return the joint value of a block in each configuration, shape (1, configurations)."""
        members = self.members(block)
        sizes = tuple(self.host.sizes[members].tolist())
        return np.ravel_multi_index(tuple(self.states[members]), sizes)[None] if sizes else np.zeros((1, self.count), int)  # pyright: ignore[reportIndexIssue]

    def members(self, block: Array) -> Array:
        """Return the cells of a padded block."""
        return block[0][block[0] < self.host.n_cells]

    def values(self, block: Array) -> Array:
        """Return the codes of a block's members under each of its joint values.

        The shape is (values, members).
        """
        sizes = tuple(self.host.sizes[self.members(block)].tolist())
        return np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1) if sizes else np.zeros((1, 0), int)

    def conditional(self, block: Array, found: Blocks | None, correction: Array | None = None) -> tuple[Array, Array]:
        """Return p(x_K = value | rest), and the configurations whose rest is impossible.

        The shape of the probabilities is (values, configurations).
        """
        assert found is not None
        local, possible = (np.asarray(a) for a in _scores(self.device, self.params, self.codes, found, self.beta))
        scores = local[: len(self.values(block))] + (0.0 if correction is None else correction)
        top = scores.max(axis=0)
        impossible = ~np.isfinite(top) | ~possible
        weights = np.exp(scores - np.where(impossible, 0.0, top))
        return weights / np.where(impossible, 1.0, weights.sum(axis=0)), impossible

    def block(self, block: Array, found: Blocks | None, correction: Array | None = None) -> Array:
        """Return the matrix that draws one block from its conditional."""
        table, impossible = self.conditional(block, found, correction)
        return self.spread(block, table, impossible)

    def parallel(self, block: Array) -> Array:
        """Return the matrix that draws all cells of a block at once.

        Each cell is drawn from its own conditional at the old x.
        """
        codes = self.values(block)
        table = np.ones((len(codes), self.count))
        cells = single_cells(block[0], self.host.n_cells)
        found = self.pieces(cells) if len(cells) else {}
        for m, cell in enumerate(cells):
            alone, impossible = self.conditional(cell[None], found[m])
            stay = self.states[cell[0]][None] == np.arange(len(alone))[:, None]
            table *= np.where(impossible, stay, alone)[codes[:, m]]
        return self.spread(block, table, np.zeros(self.count, bool))

    def spread(self, block: Array, table: Array, impossible: Array) -> Array:
        """Return the matrix over configurations for a table over a block's values."""
        members, codes = self.members(block), self.values(block)
        base = np.arange(self.count) - self.place[members] @ self.states[members]
        target = base[None] + (codes @ self.place[members])[:, None]
        matrix = np.zeros((self.count, self.count))
        source = np.broadcast_to(np.arange(self.count), target.shape)
        np.add.at(matrix, (source, target), np.where(impossible, 0.0, table))
        matrix[impossible, impossible] = 1.0
        return matrix


def replica_matrix(lowered: Lowered, params: Params, kernel: ir.Temper, turn: int) -> tuple[Array, Array]:
    """Return the matrix of step number `turn` of a `temper`, and its target distribution.

    The matrix acts on the product of the replicas' configurations, with ascending betas, the first
    varying slowest. It must be computed under 64-bit types, for very small models.

    Args:
        lowered: the model.
        params: parameters.
        kernel: the `temper` statement.
        turn: the number of the step.

    Returns:
        The distribution that the step should leave invariant, which is the product of the p^beta,
        and the matrix.
    """
    betas = plan_temper(lowered, kernel).betas
    every = Transitions(lowered, params)
    log_p = np.asarray(log_potential(every.device, params, every.codes), float)
    law, body = np.ones(1), np.ones((1, 1))
    for beta in betas:
        weight = np.exp(beta * np.where(log_p > -np.inf, log_p - log_p.max(), 0.0)) * (log_p > -np.inf)
        law = np.kron(law, weight / weight.sum())
        body = np.kron(body, Transitions(lowered, params, beta).matrix(kernel.body))
    replicas = np.indices((every.count,) * len(betas)).reshape(len(betas), -1)
    ladder = jnp.broadcast_to(jnp.asarray(betas)[:, None], replicas.shape)
    accept = np.exp(np.minimum(np.asarray(log_acceptance(ladder, jnp.asarray(log_p[replicas]))), 0.0))
    for pair in np.flatnonzero(np.asarray(proposed_pairs(jnp.asarray([turn]), len(betas) - 1))[:, 0]):
        swapped = replicas.copy()
        swapped[[pair, pair + 1]] = replicas[[pair + 1, pair]]
        other = np.ravel_multi_index(tuple(swapped), (every.count,) * len(betas))
        # The transition goes from each state to itself, or to the state with the pair exchanged.
        # The other replicas have the same configurations in both.
        body = body * (1 - accept[pair]) + (body * accept[pair])[:, other]
    return law, body


@bounded_jit
def _scores(graph: Graph, params: Params, codes: jax.Array, block: Blocks, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the scores of the block's values, and whether the rest is possible."""
    local = local_scores(graph, params, codes, block)
    return tempered(local, beta)[0], rest_possible(graph, params, codes, block, local)


@bounded_jit
def _law_table(law: AbstractMaskLaw, params: Params, codes: jax.Array, block: Blocks, touch: tuple[jax.Array, ...]) -> jax.Array:
    return law.log_probability(params, codes, block, iter(touch))


def cluster_matrix(plan: ClusterPlan, states: Array, log_p: Array, params: dict[str, Array], beta: float) -> Array:
    """Return the transition matrix P(x, y) of a cluster update.

    P(x, y) is a sum over groups of exchanges, seeds and clusters K. A term is p(K | x) times the
    probability of the image y_K. Here p(K | x) is |K| / n times the probability that bonds connect
    K, times the probability that no bond joins K to other cells. The probability that bonds connect
    K is the same at every image of x_K. The image is therefore drawn in proportion to p(x) times
    the probability that no bond joins K to other cells.

    Args:
        plan: the plan of the update.
        states: every configuration, codes of shape (cells, configurations), the first cell slowest.
        log_p: the unnormalised log p of each configuration.
        params: parameters.
        beta: the power of p.

    Raises:
        GmlmError: E601 for too many clusters.
    """
    cells, sizes = plan.mask.cells, plan.graph.sizes.astype(np.int64)
    n, count = len(cells), states.shape[1]
    if 3.0**n * count * len(plan.groups) > MOST_CLUSTER_WORK:
        message = f"the transition matrix lists all clusters of {n} cells in {count:,} configurations"
        raise fail("E601", message, plan.update.span, help="use a smaller model, or sample and look at the diagnostics")
    stride = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)[cells]
    joint = _joint(plan, params)
    first, second = np.searchsorted(cells, plan.mask.edges.T)
    matrix, here = np.zeros((count, count)), states[cells]
    source = np.arange(count)
    for group, weights, breaks in zip(plan.groups, plan.weights, plan.bonds.breaks(plan.groups), strict=True):
        place = plan.bonds.kind[:, None], here[first], here[second]  # axes: edges, configurations
        finite = beta * (joint - joint[:, group].min(axis=1))
        costs = np.where(breaks[place], CERTAIN_COST, finite[place])
        inner = _inner(costs, first, second, n)
        connected, places = _connected(inner), np.arange(n)
        for k in range(1, 2**n):
            inside = ((k >> places) & 1).astype(bool)
            if not connected[k].any():
                continue
            cut = costs[inside[first] != inside[second]].sum(axis=0)
            drawn = inside.sum() / n * connected[k] * np.exp(-cut)
            # axes: images, configurations
            target = source + ((group[:, here[inside]] - here[inside]) * stride[inside][:, None]).sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                scores = beta * (log_p[target] - log_p) - cut[target] + np.log(weights)[:, None]
            scores = np.where(log_p == -np.inf, np.where(target == source, 0.0, -np.inf), scores)
            images = np.exp(scores - scores.max(axis=0))
            np.add.at(matrix, (np.broadcast_to(source, target.shape), target), drawn * images / images.sum(axis=0))
    return matrix / len(plan.groups)


def _joint(plan: ClusterPlan, params: dict[str, Array]) -> Array:
    """Return the tables of edges less their means over either cell, (kinds, q, q)."""
    values = [entry_values(plan.graph.groups[t.group], t, params).ravel() for t in plan.bonds.tables]
    found = plan.bonds.at(np.concatenate([*values, np.zeros(0)]))
    return found - found.mean(axis=2, keepdims=True) - found.mean(axis=1, keepdims=True) + found.mean(axis=(1, 2), keepdims=True)


def _inner(costs: Array, first: Array, second: Array, n: int) -> Array:
    """Return the sum of the costs of edges inside each set of cells, (sets, configurations).

    Bit i of a set's number stands for cell i.
    """
    out = np.zeros((2**n, costs.shape[1]))
    number = np.arange(2**n)
    for cost, i, j in zip(costs, first, second, strict=True):
        out[((number >> i) & (number >> j) & 1).astype(bool)] += cost
    return out


def _connected(inner: Array) -> Array:
    """Return the probability that the bonds inside each set connect it.

    It is 1 minus the probability that the cluster of the set's first cell is a proper subset.
    """
    out = np.ones_like(inner)
    for whole in range(1, len(inner)):
        lowest = whole & -whole
        others = whole ^ lowest
        part = (others - 1) & others if others else -1
        while others:  # every proper subset of the others, together with the first cell
            inside = part | lowest
            out[whole] -= out[inside] * np.exp(inner[inside] + inner[whole ^ inside] - inner[whole])
            if part == 0:
                break
            part = (part - 1) & others
    return np.maximum(out, 0.0)


class NetworkTransitions(Transitions):
    """`Transitions` for conditionals that do not belong to a joint distribution.

    `network` covers one row of given data with one chain for each configuration.
    """

    def __init__(self, lowered: Lowered, params: Networks, network: NetworkGraph):
        self.params, self.network = params, network
        self.enumerate(lowered)

    def sweep(self, sweep: ir.Sweep) -> Array:
        """Return the product of the blocks' matrices in their order.

        No two blocks can be redrawn at once.
        """
        matrix = np.eye(self.count)
        for block in sweep_blocks(self.lowered, sweep.blocks):
            matrix = matrix @ self.block(block[None])
        return matrix

    def random(self, update: ir.RandomUpdate) -> Array:
        """Return the sum over K of p(K) times the product step of K.

        For `least_confident`, each state takes the step of its own K.
        """
        kernel = network_update(self.lowered, update) if update.mask.body.is_least_confident else None
        if not isinstance(kernel, LeastConfidentKernel):
            unadapted(self.lowered, update.mask)
            return super().random(update)
        cells = np.asarray(kernel.cells)
        values = np.full((self.host.n_random, self.count), np.inf)
        values[cells] = np.asarray(_present_values(self.network, self.params, self.codes[: self.host.n_random], kernel.cells))[cells]
        self._verify(np.asarray(np.isnan(values[cells]).any(axis=1)), cells)
        held = np.asarray(least(jnp.asarray(values), jnp.full(self.count, min(kernel.count, len(cells))))).T
        matrix = np.zeros((self.count, self.count))
        for members in np.unique(held, axis=0):
            mine = (held == members).all(axis=1)
            matrix[mine] = self.block(np.flatnonzero(members)[None])[mine]
        return matrix

    def pieces(self, blocks: Array, extra: Sequence[FactorGroup] = ()) -> Mapping[int, None]:
        """Return nothing for each block: a network needs only the cells."""
        return dict.fromkeys(range(len(blocks)))

    def conditional(self, block: Array, found: Blocks | None = None, correction: Array | None = None) -> tuple[Array, Array]:
        """Return the product over the block's cells, all hidden, of p(x_i | x_rest, K)."""
        members = self.members(block)
        held = np.zeros((self.host.n_random, 1), bool)
        held[members] = True
        tables = np.exp(np.asarray(_cell_tables(self.network, self.params, self.codes[: self.host.n_random], on_device(held)), np.float64))
        self._verify(np.asarray(np.isnan(tables[:, members]).any(axis=(0, 2))), members)
        table = np.ones((len(self.values(block)), self.count))
        for m, cell in enumerate(members):
            table *= tables[:, cell, self.values(block)[:, m]].T
        return table, np.zeros(self.count, bool)

    def _verify(self, bad: np.ndarray, cells: Array) -> None:
        """Raise an error if some configuration has no distribution at some cell."""
        if bad.any():
            cell = self.host.cell_name(int(cells[int(np.argmax(bad))]))
            raise undefined_outputs(f"network `{self.network.label}`", f"at {cell}")

    def block(self, block: Array, found: Blocks | None = None, correction: Array | None = None) -> Array:
        """Return the matrix that draws one block at once."""
        return self.spread(block, *self.conditional(block))

    def parallel(self, block: Array) -> Array:
        """Return the same matrix as `block`: a network draws several cells in no other way."""
        return self.block(block)


@bounded_jit
def _cell_tables(network: NetworkGraph, params: Networks, codes: jax.Array, held: jax.Array) -> jax.Array:
    return cell_tables(network, params, codes, held)


@bounded_jit
def _present_values(network: NetworkGraph, params: Networks, codes: jax.Array, cells: jax.Array) -> jax.Array:
    return present_values(network, params, codes, cells)
