"""Clusters of cells under bonds, drawn and redrawn among their images: Wolff's update, for any tables that `plan/_clusters.py` accepts.

All clusters of a configuration are found at once by labels that fall to the least of their cluster:
ends of a bond pull one another's labels down, and labels jump to their labels' labels, so that the
number of rounds grows with the logarithm of a cluster's size.
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
from ._block_tables import Table, table_codes
from ._conditional import pick_value
from ._energy import Codes, Params, all_values
from ._kernel import AbstractKernel, Info, State, Target
from ._picks import happens, levels_of, whole_below
from ._random import fold, words


class BondTables(eqx.Module):
    """What edges read at some parameters: `costs`, how much log p falls below its best image where one end moves; `means`, the fields."""

    costs: Float[Array, " groups_kinds_q_q"]
    means: Float[Array, "cells q"] | None


class ClusterKernel(AbstractKernel):
    """The cluster of a uniform cell, redrawn among its images in proportion to p(x) p(K | x).

    Attributes:
        cells: of the mask, ascending; `ends` are places among them.
        tables: the codes of the slots of each group with bonds, see `Table`.
        places: see `plan.Bonds`; `kind` the table of each edge.
        groups: of exchanges of values; `log_weights` is -inf for those that fill up.
        breaks: where a bond stands for sure, see `plan.Bonds`; None where nothing is required.
        rest: the factors beside the bonds that touch the mask's cells.
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
        """The tables of edges at the target's parameters."""
        each = [Table(target.graph.groups[p.group], p, c) for p, c in zip(self.plans, self.tables, strict=True)]
        entries = jnp.concatenate([*(t.entries(target.params) for t in each), jnp.zeros(1, float_type())])
        found = entries[self.places].sum(axis=1)  # kinds, q, q
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
        images = jnp.moveaxis(self.groups[group], 0, -1)  # size, q, chains
        scores = jax.lax.map(lambda image: self.score_image(target, bonds, codes, inside, image), images)
        scores = scores + self.log_weights[group].T
        choice, _ = pick_value(scores[None], for_image.having(lambda w: w[:, None]))
        image = jnp.take_along_axis(images, choice[:, None], axis=0)[0]  # q, chains
        after = codes.at[self.cells].set(self.moved(here, inside, image).astype(codes.dtype))
        none = jnp.zeros((0, chains), jnp.int32)
        drawn = inside if target.clamped is None else inside & ~target.clamped[self.cells].reshape(here.shape[0], -1)
        changed = (after != codes).sum(axis=0, dtype=jnp.int32)
        return State(after), Info(changed[None], drawn.sum(axis=0, dtype=jnp.int32)[None], none, none)

    def draw_bonds(self, target: Target, bonds: BondTables, here: Codes, group: Array, keys: PRNGKeyArray) -> Bool[Array, "edges chains"]:
        """Which edges have a bond: with probability 1 - exp(-cost)."""
        q, kinds = self.groups.shape[2], self.places.shape[0]
        place = ((group[None] * kinds + self.kind[:, None]) * q + here[self.ends[0]]) * q + here[self.ends[1]]
        costs = bonds.costs[place]
        if target.beta is not None:
            costs = costs * target.beta[None]
        if self.breaks is not None:
            costs = jnp.where(self.breaks.ravel()[place], jnp.inf, costs)
        return happens(-jnp.expm1(-costs), jnp.exp(-costs), words(keys, (self.kind.shape[0],)))

    def moved(self, here: Codes, inside: Array, image: Int[Array, "q chains"]) -> Codes:
        """The codes of the mask's cells with the cluster at an image."""
        return jnp.where(inside, jnp.take_along_axis(image, here, axis=0), here)

    def score_image(self, target: Target, bonds: BondTables, codes: Codes, inside: Array, image: Array) -> Float[Array, " chains"]:
        """How much more log p has at an image than now beside the bonds; -inf where a clamped cell would move."""
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
    """The sum of what each factor gains: differences of equal values are 0, whatever the values."""
    old, new = (all_values(group, params, codes) for codes in (before, after))
    if group.kind == "require":
        return jnp.where((new | ~old).all(axis=0), 0.0, -jnp.inf).astype(float_type())
    return jnp.where((new == old) | (old == -jnp.inf), 0.0, new - old).sum(axis=0)


def labels(ends: Int[Array, "two edges"], stands: Bool[Array, "edges chains"], cells: int) -> Int[Array, "cells chains"]:
    """A number for each cell that is that of all cells it is connected with by bonds, and of no other: the least place among them.

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
        high = jnp.where(left, jnp.maximum(first, second), cells)  # no cell: nothing falls
        label = label.at[high, column].min(jnp.minimum(first, second), mode="drop")
        label = jnp.take_along_axis(label, label, axis=0)
        label = jnp.take_along_axis(label, label, axis=0)
        return label, apart(label)

    return jax.lax.while_loop(lambda at: at[1].any(), fall, (start, apart(start)))[0]


def cluster_kernel(graph: FactorGraph, plan: ClusterPlan) -> ClusterKernel:
    """The device form of a plan."""
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
