"""Clusters of cells under bonds, redrawn among their images.

This is Wolff's update, for any tables that `plan/_clusters.py` accepts. All clusters of a
configuration are found at once, by labels that decrease to the minimum over their cluster. In each
round the two ends of a bond take the smaller of their labels, and each label is replaced by its
label's label. The number of rounds therefore grows with the logarithm of a cluster's size.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..graph import FactorGraph
from ..plan import ClusterPlan, FactorTable
from ._arrays import Group, float_type, group_arrays, on_device
from ._block_tables import entries_of, table_codes
from ._energy import Codes, Params, all_values
from ._kernel import AbstractKernel, Info, State, Target
from ._picks import happens, levels_of, pick_value, whole_below
from ._random import fold, words


class BondTables(eqx.Module):
    """Tables of edges at some parameters.

    `costs` has the maximum decrease of log p when one end of an edge moves to an image. `means` has
    the fields of the cells.
    """

    costs: Float[Array, " groups_kinds_q_q"]
    means: Float[Array, "cells q"] | None


class ClusterKernel(AbstractKernel):
    """Kernel that redraws the cluster of a uniform cell among its images.

    An image has probability proportional to p(x) p(K | x).

    Attributes:
        plans: the tables of the factors with bonds.
        has_means: whether the tables have fields of single cells.
        cells: the cells of the mask, ascending.
        ends: the places of the two ends of each edge among `cells`.
        tables: the codes of the slots of each group with bonds, see `Table`.
        places: see `plan.Bonds`.
        kind: the table of each edge.
        groups: the groups of exchanges of values, with an image for each exchange.
        log_weights: the log weight of each image, -inf for padding.
        breaks: where a bond is certain, see `plan.Bonds`; None if nothing is required.
        rest: the factors that touch the mask's cells and are not bonds.
        bonds: the tables at some parameters; None before `prepared`.
    """

    plans: tuple[FactorTable, ...] = eqx.field(static=True)
    has_means: bool = eqx.field(static=True)
    cells: Int[Array, " inside"]
    ends: Int[Array, "two edges"]
    tables: tuple[tuple[Int[Array, "factors values"], ...], ...]
    places: Int[Array, "kinds factors q q"]
    kind: Int[Array, " edges"]
    groups: Int[Array, "groups size q"]
    log_weights: Float[Array, "groups size"]
    breaks: Bool[Array, "groups kinds q q"] | None
    rest: tuple[Group, ...]
    bonds: BondTables | None = None

    def held(self, cells: int) -> float:
        each = sum(g.n for g in self.rest) * (1 + self.groups.shape[1])
        return float(self.kind.shape[0] * 6 + 3 * cells + each) * float_type().itemsize

    def prepared(self, target: Target) -> ClusterKernel:
        return self if self.bonds is not None else replace(self, bonds=self.bond_tables(target))

    def bond_tables(self, target: Target) -> BondTables:
        """Return the tables of edges at the target's parameters."""
        entries = entries_of(target.graph, target.params, self.plans, self.tables)
        found = entries[self.places].sum(axis=1)  # axes: kinds, q, q
        whole = found - found.mean(axis=(1, 2), keepdims=True)
        rows, columns = whole.mean(axis=2), whole.mean(axis=1)
        joint = whole - rows[:, :, None] - columns[:, None, :]
        costs = joint[None] - joint[:, self.groups].min(axis=2).swapaxes(0, 1)
        if not self.has_means:
            return BondTables(costs.ravel(), None)
        means = jnp.zeros((self.cells.shape[0], found.shape[1]), found.dtype)
        means = means.at[self.ends[0]].add(rows[self.kind]).at[self.ends[1]].add(columns[self.kind])
        return BondTables(costs.ravel(), means)

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        bonds = self.prepared(target).bonds
        assert bonds is not None
        codes = state.codes
        here, chains = codes[self.cells], codes.shape[1]
        drawn = words(fold(keys, 0), (3,), levels_of(self.groups.shape[1]))
        for_group, for_seed, for_image = (drawn.having(lambda w, k=k: w[:, k]) for k in range(3))
        group = whole_below(self.groups.shape[0], for_group)
        stands = self.draw_bonds(target, bonds, here, group, fold(keys, 1))
        label = labels(self.ends, stands, here.shape[0])
        seed = whole_below(here.shape[0], for_seed)
        inside = label == jnp.take_along_axis(label, seed[None], axis=0)
        images = jnp.moveaxis(self.groups[group], 0, -1)  # axes: size, q, chains
        scores = jax.lax.map(lambda image: self.score_image(target, bonds, codes, inside, image), images)
        scores = scores + self.log_weights[group].T
        choice, _ = pick_value(scores[None], for_image.having(lambda w: w[:, None]))
        image = jnp.take_along_axis(images, choice[:, None], axis=0)[0]  # axes: q, chains
        after = codes.at[self.cells].set(self.moved(here, inside, image).astype(codes.dtype))
        none = jnp.zeros((0, chains), jnp.int32)
        drawn = inside if target.clamped is None else inside & ~target.clamped[self.cells].reshape(here.shape[0], -1)
        changed = (after != codes).sum(axis=0, dtype=jnp.int32)
        return State(after), Info(changed[None], drawn.sum(axis=0, dtype=jnp.int32)[None], none, none)

    def draw_bonds(self, target: Target, bonds: BondTables, here: Codes, group: Array, keys: PRNGKeyArray) -> Bool[Array, "edges chains"]:
        """Draw which edges have a bond; the probability of a bond is 1 - exp(-cost).

        Args:
            target: the distribution to draw from.
            bonds: the tables of the edges.
            here: the codes of the mask's cells.
            group: the group of exchanges of each chain.
            keys: a key for each chain.
        """
        q, kinds = self.groups.shape[2], self.places.shape[0]
        place = ((group[None] * kinds + self.kind[:, None]) * q + here[self.ends[0]]) * q + here[self.ends[1]]
        costs = bonds.costs[place]
        if target.beta is not None:
            costs = costs * target.beta[None]
        if self.breaks is not None:
            costs = jnp.where(self.breaks.ravel()[place], jnp.inf, costs)
        return happens(-jnp.expm1(-costs), jnp.exp(-costs), words(keys, (self.kind.shape[0],)))

    def moved(self, here: Codes, inside: Array, image: Int[Array, "q chains"]) -> Codes:
        """Return the codes of the mask's cells after the cluster has moved to an image."""
        return jnp.where(inside, jnp.take_along_axis(image, here, axis=0), here)

    def score_image(self, target: Target, bonds: BondTables, codes: Codes, inside: Array, image: Array) -> Float[Array, " chains"]:
        """Return by how much log p without the bonds is higher at an image than now.

        It is -inf if a clamped cell would move.

        Args:
            target: the distribution to draw from.
            bonds: the tables of the edges.
            codes: the configurations, shape (cells, chains).
            inside: which of the mask's cells belong to the cluster of each chain.
            image: the value that replaces each value, in each chain.
        """
        here = codes[self.cells]
        moved = self.moved(here, inside, image)
        after = codes.at[self.cells].set(moved.astype(codes.dtype))
        total = jnp.zeros(codes.shape[1], float_type())
        if bonds.means is not None:
            total = total + (jnp.take_along_axis(bonds.means, moved, axis=1) - jnp.take_along_axis(bonds.means, here, axis=1)).sum(axis=0)
        for part in self.rest:
            total = total + _gain(part, target.params, codes, after)
        if target.beta is not None:
            total = jnp.where(total == -jnp.inf, total, target.beta * total)
        if target.clamped is not None:
            held = target.clamped[self.cells].reshape(here.shape[0], -1)
            total = jnp.where((held & (moved != here)).any(axis=0), -jnp.inf, total)
        return total


def _gain(group: Group, params: Params, before: Codes, after: Codes) -> Float[Array, " chains"]:
    """Return the sum of the increases of all factors.

    The increase of a value that stays the same, or that was -inf, counts as 0.
    """
    old, new = (all_values(group, params, codes) for codes in (before, after))
    if group.kind == "require":
        return jnp.where((new | ~old).all(axis=0), 0.0, -jnp.inf).astype(float_type())
    return jnp.where((new == old) | (old == -jnp.inf), 0.0, new - old).sum(axis=0)


def labels(ends: Int[Array, "two edges"], stands: Bool[Array, "edges chains"], cells: int) -> Int[Array, "cells chains"]:
    """Return a label for each cell that identifies the cells connected with it by bonds.

    The label is the minimum place among these cells.

    Args:
        ends: the places of the two cells of each edge.
        stands: which edges have a bond, in each chain.
        cells: the number of cells.

    Reference: Shiloach and Vishkin 1982, "An O(log n) parallel connectivity algorithm".
    """
    chains = stands.shape[1]
    column = jnp.broadcast_to(jnp.arange(chains, dtype=jnp.int32), stands.shape)
    start = jnp.broadcast_to(jnp.arange(cells, dtype=jnp.int32)[:, None], (cells, chains))

    def apart(label: Array) -> Bool[Array, "edges chains"]:
        return stands & (label[ends[0]] != label[ends[1]])

    def fall(at: tuple[Array, Array]) -> tuple[Array, Array]:
        label, left = at
        first, second = label[ends[0]], label[ends[1]]
        # `cells` is not a cell, so no label decreases there
        high = jnp.where(left, jnp.maximum(first, second), cells)
        label = label.at[high, column].min(jnp.minimum(first, second), mode="drop")
        label = jnp.take_along_axis(label, label, axis=0)
        label = jnp.take_along_axis(label, label, axis=0)
        return label, apart(label)

    return jax.lax.while_loop(lambda at: at[1].any(), fall, (start, apart(start)))[0]


def cluster_kernel(graph: FactorGraph, plan: ClusterPlan) -> ClusterKernel:
    """Return the device form of a plan."""
    mask, bonds, sizes = plan.mask, plan.bonds, np.append(graph.sizes, 1)
    with np.errstate(divide="ignore"):
        weights = np.log(plan.weights)
    rest = tuple(group_arrays(g.take(rows), graph.n_cells) for g, rows in zip(graph.groups, plan.rest, strict=True) if len(rows))
    return ClusterKernel(
        bonds.tables,
        plan.means,
        on_device(mask.cells, np.int32),
        on_device(np.searchsorted(mask.cells, mask.edges.T), np.int32),
        tuple(table_codes(t, sizes[graph.groups[t.group].cells]) for t in bonds.tables),
        on_device(bonds.places, np.int32),
        on_device(bonds.kind, np.int32),
        on_device(plan.groups, np.int32),
        on_device(weights, float_type()),
        None if bonds.allowed.all() else on_device(bonds.breaks(plan.groups)),
        rest,
    )
