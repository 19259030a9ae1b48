"""The walk on the tree of prefixes (Li 2025, Algorithm 2): up with weight V(prefix), down with weight p(symbol | prefix) V(child).

What the oracle and the value say of a prefix is remembered. So a turn is a stroll: every row goes
on for as long as it stands on prefixes that it has left before, or on whole strings, which asks
nobody anything; then all rows are asked about at once. The states of the oracle and of the judge
stand where the row last was asked about, less what it went back since, and are brought up to it a
symbol at each turn.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..derive import float_type, pick_token, whole_below
from ._run import MOST_TURNS, AbstractMethod, Game, Law, Rules, Run, Standing, Wrong, law_here, refused_behind, seen_before

Rows = Int[Array, " rows"]
NOBODY = -1
LONGEST = 1 << 10  # steps of a stroll, after which an interrupt is heard


class WalkMemory(NamedTuple):
    """The nodes that a run has met, for only what is new is counted, and what is left of the run.

    What is written of nodes says in which run it was: nothing is cleared where a run is made again.

    Attributes:
        nodes: the number of the node of each prefix of the row.
        up: log V of each prefix of the row that has a parent.
        child: the number of each node's children, plus the number of nodes for each run before;
            below that where one was not met.
        children: log V of each node's children.
        down: log of p(symbol | node) V(child).
        known: the last run in which a step was made from a node; NOBODY: none.
        met: nodes met so far in this run.
        left: steps of the run that are left; below 0 where their number is still to be drawn.
        step: steps of all runs.
        run: runs before this one.
        held: symbols that the states of the oracle and of the judge hold; those of the row from
            there on are to be pushed.
        agreed: how many of them the row still has.
        waiting: whether the row stands on a prefix about which nothing is known, and goes on.
    """

    nodes: Int[Array, "rows steps"]
    up: Float[Array, "rows steps"]
    child: Int[Array, "rows most values"]
    children: Float[Array, "rows most values"]
    down: Float[Array, "rows most values"]
    known: Int[Array, "rows most"]
    met: Rows
    left: Rows
    step: Rows
    run: Rows
    held: Rows
    agreed: Rows
    waiting: Bool[Array, " rows"]


class Walk(AbstractMethod):
    """A lazy random walk on prefixes.

    Each step stays with probability 1/2. Else it goes up with weight V(prefix), never at the root,
    or down to a child with weight p(symbol | prefix) V(child), never from a whole string; it stays
    where all weights are 0. A step that does not stay at a node that was not left before in the run
    is one call of the oracle and q + 1 values.

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
        dtype, none = float_type(), jnp.zeros(rows, jnp.int32)
        each = (rows, most, rules.n_values)
        left = jnp.full(rows, NOBODY if self.result == "uniform_node" else self.steps, jnp.int32)
        return WalkMemory(
            nodes=jnp.zeros((rows, rules.n_cells + 1), jnp.int32),
            up=jnp.full((rows, rules.n_cells + 1), -jnp.inf, dtype),
            child=jnp.full(each, NOBODY, jnp.int32),
            children=jnp.full(each, -jnp.inf, dtype),
            down=jnp.full(each, -jnp.inf, dtype),
            known=jnp.full((rows, most), NOBODY, jnp.int32),
            met=jnp.ones(rows, jnp.int32),
            left=left,
            step=none,
            run=none,
            held=run.lengths,
            agreed=run.lengths,
            waiting=jnp.zeros(rows, bool),
        )

    def unfinished(self, run: Run) -> Bool[Array, " rows"]:
        """Rows that go on; those that are done wait for the states of the oracle and of the judge."""
        m: WalkMemory = run.memory
        return (~run.done & (m.step < MOST_TURNS)) | (run.done & ~run.failed & (m.held < run.lengths))

    def propose(self, rules: Rules, run: Run, law: Law | None, seen: Any) -> tuple[Rows, Run]:
        """Down to a child, or not; rows at a prefix about which nothing is known wait."""
        m, (coin, way, count) = run.memory, run.words(rules.n_values + 1, run.memory.step, 3)
        node, whole = m.nodes[run.rows, run.lengths], rules.whole(run.lengths, run.last)
        new = m.known[run.rows, node] != m.run
        goes = ~run.done & (coin.high[0] >> 31 == 1)
        waiting = goes & new & ~whole | (m.step >= MOST_TURNS)
        here, goes = ~run.done & ~waiting, goes & ~waiting
        up = jnp.where(run.lengths > run.base, m.up[run.rows, run.lengths], -jnp.inf)
        ways = jnp.concatenate([up[:, None], jnp.where(whole[:, None], -jnp.inf, m.down[run.rows, node])], axis=1)
        pick, some = pick_token(ways, way), (ways > -jnp.inf).any(axis=1)
        moves = goes & some
        symbols = jnp.where(moves & (pick > 0), pick - 1, NOBODY)
        # a whole string: others are counted where they are asked about
        one, fresh = here.astype(jnp.int32), goes & new
        left = jnp.where((m.left < 0) & here, 1 + whole_below(self.steps, count), m.left)
        m = m._replace(
            known=m.known.at[run.rows, node].max(jnp.where(fresh, m.run, NOBODY)), left=left - one, step=m.step + one, waiting=waiting
        )
        stuck = goes & ~some & (run.lengths == run.base) if self.result == "uniform_node" else jnp.zeros_like(goes)
        run = run.having(memory=self._entered(run, m, node, symbols), asked=moves & (pick == 0))
        return symbols, run.counted(fresh, jnp.where(fresh, rules.n_values + 1, 0)).settled(stuck, stuck)

    def _entered(self, run: Run, m: WalkMemory, node: Rows, symbols: Rows) -> WalkMemory:
        """With the child that is gone to, which has the next number where it was not met."""
        down, symbol, past = symbols >= 0, jnp.maximum(symbols, 0), m.run * m.known.shape[1]
        found = m.child[run.rows, node, symbol]
        new = down & (found < past)
        number = jnp.where(new, m.met, found - past)
        child = m.child.at[run.rows, node, symbol].set(jnp.where(new, number + past, found))
        place = jnp.where(down, run.lengths + 1, m.nodes.shape[1])
        nodes = m.nodes.at[run.rows, place].set(number, mode="drop")
        up = m.up.at[run.rows, place].set(m.children[run.rows, node, symbol], mode="drop")
        return m._replace(nodes=nodes, up=up, child=child, met=m.met + new.astype(jnp.int32))

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """Up, or to the root where the run is made again."""
        m: WalkMemory = run.memory
        back = (run.asked & ~run.done).astype(jnp.int32)
        leaf, ended = ~run.asked & rules.whole(run.lengths, run.last), m.left == 0
        if self.result == "first_leaf":
            return back, run.settled(leaf | ended, ended & ~leaf)
        if self.result == "last_node":
            return back, run.settled(ended, ended & ~leaf)
        again = ended & ~leaf & ~run.done
        memory = m._replace(met=jnp.where(again, 1, m.met), left=jnp.where(again, NOBODY, m.left), run=m.run + again.astype(jnp.int32))
        return jnp.where(again, run.lengths - run.base, back), run.having(memory=memory).settled(ended & leaf, jnp.zeros_like(leaf))

    def strolled(self, rules: Rules, run: Run) -> tuple[Run, Rows, Rows]:
        """All rows until each is done or waits, or for long; how many symbols its states lose, and which they get, below 0 for none."""
        most = jnp.minimum(run.turn + LONGEST, MOST_TURNS)

        def goes(run: Run) -> Array:
            return (~run.done & ~run.memory.waiting & (run.memory.step < most)).any()

        def step(run: Run) -> Run:
            symbols, run = self.propose(rules, run, None, None)
            back, run = self.settle(rules, run.appended(symbols), None)
            lengths = run.lengths - back
            return run.having(lengths=lengths, memory=run.memory._replace(agreed=jnp.minimum(run.memory.agreed, lengths)))

        held = run.memory.held
        run = run.having(memory=run.memory._replace(waiting=jnp.zeros_like(run.done)))
        run = jax.lax.while_loop(goes, step, run)
        m: WalkMemory = run.memory
        more = (m.agreed < run.lengths) & ~run.failed
        symbols = jnp.where(more, run.codes[run.rows, jnp.minimum(m.agreed, run.codes.shape[1] - 1)], NOBODY)
        now = m.agreed + more.astype(jnp.int32)
        return run.having(memory=m._replace(held=now, agreed=now), turn=m.step.max()), held - m.agreed, symbols

    def ready(self, run: Run) -> Bool[Array, " rows"]:
        """Rows that are asked about: they wait, and the states hold them whole."""
        return ~run.done & run.memory.waiting & (run.memory.step < MOST_TURNS) & (run.memory.held == run.lengths)

    def learnt(self, rules: Rules, run: Run, ready: Bool[Array, " rows"], law: Law, children: Float[Array, "rows values"]) -> Run:
        """With what was said of rows that were asked about, which is counted."""
        m: WalkMemory = run.memory
        node = jnp.where(ready, m.nodes[run.rows, run.lengths], m.known.shape[1])
        children = children.astype(m.children.dtype)
        memory = m._replace(
            known=m.known.at[run.rows, node].set(m.run, mode="drop"),
            children=m.children.at[run.rows, node].set(children, mode="drop"),
            down=m.down.at[run.rows, node].set(law.astype(m.down.dtype) + children, mode="drop"),
        )
        return run.having(memory=memory).counted(ready, jnp.where(ready, rules.n_values + 1, 0))


def walk_turn(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    """A stroll of all rows; then those that wait are asked about."""
    method = game.method
    assert isinstance(method, Walk)
    run, back, symbols = method.strolled(game.rules, at.run)
    at = brought_up(game, at, run, back, symbols)
    ready = method.ready(run)

    def ask(_: None) -> tuple[Array, Array]:
        return law_here(game, at).astype(float_type()), seen_before(game, at, ready).astype(float_type())

    def nothing(_: None) -> tuple[Array, Array]:
        none = jnp.full((run.lengths.shape[0], game.rules.n_values), -jnp.inf, float_type())
        return none, none

    law, children = jax.lax.cond(ready.any(), ask, nothing, None)
    return Standing(method.learnt(game.rules, run, ready, law, children), at.oracle, at.judge), refused_behind(
        run, ready, children
    ).with_law(run, ready, law)


def brought_up(game: Game, at: Standing, run: Run, back: Array, symbols: Array) -> Standing:
    """The states of the oracle and of the judge nearer to where the rows stand."""
    assert game.judge is not None
    oracle, judge = game.oracle.pop(at.oracle, back), game.judge.pop(at.judge, back)
    return Standing(run, game.oracle.push(oracle, symbols), game.judge.push(judge, symbols))
