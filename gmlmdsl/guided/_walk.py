"""The random walk on the tree of prefixes (Li 2025, Algorithm 2).

A step goes up with weight V(prefix), and down with weight p(symbol | prefix) V(child). The results
of the oracle and of the judge for a prefix are remembered. An iteration is therefore a stroll.
Every row takes steps as long as it stands on whole strings or on prefixes with remembered results,
which needs no evaluation. Then all rows are evaluated together. The states of the oracle and of the
judge belong to the place of the row's last evaluation, without symbols that were removed since.
They move towards the row by one symbol in each iteration.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..derive import float_type, pick_token, whole_below
from ._run import MOST_TURNS, AbstractMethod, Game, Law, Rules, Run, Standing, Wrong, law_here, refused_behind, seen_before
from .limits import LONGEST_STROLL

Rows = Int[Array, " rows"]
NOBODY = -1


class WalkMemory(NamedTuple):
    """The nodes that a run of the walk has met, and the remaining steps of the run.

    Only new nodes count as calls. Entries of nodes contain the number of their run, so that a new
    run does not need to clear them.

    Attributes:
        nodes: the number of the node of each prefix of the row.
        up: log V of each prefix of the row that has a parent.
        child: the number of each node's children, plus the number of nodes for each previous run. A
            smaller number marks a child that this run has not met.
        children: log V of each node's children.
        down: the log of p(symbol | node) V(child).
        known: the last run with a step from the node; NOBODY if there is none.
        met: the number of nodes met so far in this run.
        left: the number of remaining steps of the run; negative if the number of steps is still to
            be drawn.
        step: the number of steps of all runs.
        run: the number of previous runs.
        held: the number of symbols in the states of the oracle and of the judge; later symbols of
            the row are to be pushed.
        agreed: how many of these symbols the row still has.
        waiting: whether the row waits on a prefix without remembered results.
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

    Each step stays with probability 1/2. Otherwise it moves, unless all weights are 0:

    - up with weight V(prefix), but never from the root;
    - down to a child with weight p(symbol | prefix) V(child), but never from a whole string.

    With q values of a symbol, a step that does not stay counts as one call of the oracle and q + 1
    values. Only the first such step from a node counts in a run.

    Attributes:
        steps: the number T of steps.
        result: last_node, uniform_node or first_leaf.
    """

    steps: int = eqx.field(static=True)
    result: str = eqx.field(static=True)
    before: ClassVar[bool] = True
    after: ClassVar[bool] = False

    def begin(self, rules: Rules, run: Run) -> WalkMemory:
        """Return the memory at the root, which is the prompt."""
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
        """Return which rows continue.

        Finished rows wait for the states of the oracle and of the judge.
        """
        m: WalkMemory = run.memory
        return (~run.done & (m.step < MOST_TURNS)) | (run.done & ~run.failed & (m.held < run.lengths))

    def propose(self, rules: Rules, run: Run, law: Law | None, seen: Any) -> tuple[Rows, Run]:
        """Propose a step down to a child, or none.

        Rows on a prefix without remembered results wait.
        """
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
        # Only whole strings are counted here; other nodes are counted at their evaluation.
        one, fresh = here.astype(jnp.int32), goes & new
        left = jnp.where((m.left < 0) & here, 1 + whole_below(self.steps, count), m.left)
        m = m._replace(
            known=m.known.at[run.rows, node].max(jnp.where(fresh, m.run, NOBODY)), left=left - one, step=m.step + one, waiting=waiting
        )
        stuck = goes & ~some & (run.lengths == run.base) if self.result == "uniform_node" else jnp.zeros_like(goes)
        run = run.having(memory=self._entered(run, m, node, symbols), asked=moves & (pick == 0))
        return symbols, run.counted(fresh, jnp.where(fresh, rules.n_values + 1, 0)).settled(stuck, stuck)

    def _entered(self, run: Run, m: WalkMemory, node: Rows, symbols: Rows) -> WalkMemory:
        """Return the memory after a step to a child; a new child gets the next number."""
        down, symbol, past = symbols >= 0, jnp.maximum(symbols, 0), m.run * m.known.shape[1]
        found = m.child[run.rows, node, symbol]
        new = down & (found < past)
        number = jnp.where(new, m.met, found - past)
        child = m.child.at[run.rows, node, symbol].set(jnp.where(new, number + past, found))
        place = jnp.where(down, run.lengths + 1, m.nodes.shape[1])
        nodes = m.nodes.at[run.rows, place].set(number, mode="drop")
        up = m.up.at[run.rows, place].set(m.children[run.rows, node, symbol], mode="drop")
        return m._replace(nodes=nodes, up=up, child=child, met=m.met + new.astype(jnp.int32))

    def settle(self, rules: Rules, run: Run, v: Float[Array, " rows"] | None) -> tuple[Rows, Run]:
        """Go up, or to the root if the run starts again."""
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
        """Take steps in all rows until each is finished or waits, or a limit is reached.

        Returns:
            The rows, the numbers of symbols that the states lose, and the symbols that they get,
            negative for none.
        """
        most = jnp.minimum(run.turn + LONGEST_STROLL, MOST_TURNS)

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
        """Return which rows are to be evaluated.

        These rows wait, and the states contain all their symbols.
        """
        return ~run.done & run.memory.waiting & (run.memory.step < MOST_TURNS) & (run.memory.held == run.lengths)

    def learnt(self, rules: Rules, run: Run, ready: Bool[Array, " rows"], law: Law, children: Float[Array, "rows values"]) -> Run:
        """Return the rows with the results of their evaluation, which are remembered and counted.

        Args:
            rules: the rules.
            run: the rows.
            ready: whether each row was evaluated.
            law: the distribution of the next symbol.
            children: log V of the continuations.
        """
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
    """Run one iteration: a stroll of all rows, then an evaluation of the rows that wait."""
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
    """Move the states of the oracle and of the judge towards the places of the rows.

    Args:
        game: the oracle, judge, method and rules.
        at: the rows and states.
        run: the rows after the stroll.
        back: the number of symbols to remove from the states.
        symbols: the symbols to push, negative for none.
    """
    assert game.judge is not None
    oracle, judge = game.oracle.pop(at.oracle, back), game.judge.pop(at.judge, back)
    return Standing(run, game.oracle.push(oracle, symbols), game.judge.push(judge, symbols))
