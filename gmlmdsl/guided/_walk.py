"""The walk on the tree of prefixes (Li 2025, Algorithm 2): up with weight V(prefix), down with weight p(symbol | prefix) V(child)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ._run import AbstractMethod, Law, Rules, Run

Rows = Int[Array, " rows"]
NOBODY = -1


class WalkMemory(NamedTuple):
    """The nodes that a run has met, for only what is new is counted, and what is left of the run.

    Attributes:
        nodes: the number of the node of each prefix of the row.
        child: the number of each node's children, below 0 where one was not met.
        known: whether a step was made from a node.
        met: nodes met so far.
        left: steps of the run that are left; below 0 where their number is still to be drawn.
        up: whether this turn goes to the parent.
    """

    nodes: Int[Array, "rows steps"]
    child: Int[Array, "rows most values"]
    known: Bool[Array, "rows most"]
    met: Rows
    left: Rows
    up: Bool[Array, " rows"]


class Walk(AbstractMethod):
    """A lazy random walk on prefixes.

    Each turn stays with probability 1/2. Else it goes up with weight V(prefix), never at the root, or down to a child with weight
    p(symbol | prefix) V(child), never from a whole string; it stays where all weights are 0. A step that does not stay at a node that
    was not left before in the run is one call of the oracle and q + 1 values.

    Attributes:
        steps: T.
        result: last_node, uniform_node or first_leaf.
    """

    steps: int = eqx.field(static=True)
    result: str = eqx.field(static=True)
    before: ClassVar[bool] = True
    after: ClassVar[bool] = False

    def begin(self, rules: Rules, run: Run) -> WalkMemory:
        """At the root, which is the prompt."""
        rows, most = run.lengths.shape[0], self.steps + 1
        nodes, child = jnp.zeros((rows, rules.n_cells + 1), jnp.int32), jnp.full((rows, most, rules.n_values), NOBODY, jnp.int32)
        left = jnp.full(rows, NOBODY if self.result == "uniform_node" else self.steps, jnp.int32)
        none = jnp.zeros(rows, bool)
        return WalkMemory(nodes, child, jnp.zeros((rows, most), bool), jnp.ones(rows, jnp.int32), left, none)

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """Down to a child, or not."""
        (here, children), m, u = seen, run.memory, run.uniforms()
        left = jnp.where(m.left < 0, 1 + jnp.floor(u[2] * self.steps).astype(jnp.int32), m.left)
        up = jnp.where(run.lengths > run.base, here, 0)[:, None]
        whole = rules.whole(run.lengths, run.last)[:, None]
        weights = jnp.concatenate([up, jnp.where(whole, 0, jnp.exp(law) * children)], axis=1)
        below = jnp.cumsum(weights, axis=1)
        total = below[:, -1]
        goes = ~run.done & (u[0] >= 0.5)
        pick = jnp.minimum((below <= (u[1] * total)[:, None]).sum(axis=1, dtype=jnp.int32), rules.n_values)
        moves = goes & (total > 0)
        symbols = jnp.where(moves & (pick > 0), pick - 1, NOBODY)
        node = m.nodes[run.rows, run.lengths]
        fresh = goes & ~m.known[run.rows, node]
        known = m.known.at[run.rows, node].max(goes)
        memory = self._entered(run, m._replace(known=known, left=left - (~run.done).astype(jnp.int32)), node, symbols)
        stuck = goes & (total <= 0) & (run.lengths == run.base) if self.result == "uniform_node" else jnp.zeros_like(goes)
        run = run.having(memory=memory._replace(up=moves & (pick == 0)))
        return symbols, run.counted(fresh, jnp.where(fresh, rules.n_values + 1, 0)).settled(stuck, stuck)

    def _entered(self, run: Run, m: WalkMemory, node: Rows, symbols: Rows) -> WalkMemory:
        """With the child that is gone to, which has the next number where it was not met."""
        down = symbols >= 0
        symbol = jnp.maximum(symbols, 0)
        found = m.child[run.rows, node, symbol]
        new = down & (found < 0)
        number = jnp.where(new, m.met, found)
        child = m.child.at[run.rows, node, symbol].set(jnp.where(down, number, found))
        place = jnp.where(down, run.lengths + 1, m.nodes.shape[1])
        nodes = m.nodes.at[run.rows, place].set(number, mode="drop")
        return m._replace(nodes=nodes, child=child, met=m.met + new.astype(jnp.int32))

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """Up, or to the root where the run is made again."""
        m: WalkMemory = run.memory
        back = (m.up & ~run.done).astype(jnp.int32)
        leaf, ended = ~m.up & rules.whole(run.lengths, run.last), m.left == 0
        if self.result == "first_leaf":
            return back, run.settled(leaf | ended, ended & ~leaf)
        if self.result == "last_node":
            return back, run.settled(ended, ended & ~leaf)
        again = ended & ~leaf & ~run.done
        fresh = self.begin(rules, run)
        memory = WalkMemory(*(jnp.where(again.reshape(-1, *(1,) * (a.ndim - 1)), b, a) for a, b in zip(m, fresh, strict=True)))
        return jnp.where(again, run.lengths - run.base, back), run.having(memory=memory).settled(ended & leaf, jnp.zeros_like(leaf))
