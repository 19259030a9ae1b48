"""The state of rows while they are drawn, and one iteration of all rows.

An iteration evaluates the distribution, moves, judges, and removes symbols.
"""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..derive import Words, float_type, levels_of, narrow, pick_token, words_apart
from ._judges import AbstractJudge, View
from .limits import MOST_TURNS

if TYPE_CHECKING:
    import numpy as np

Law = Float[Array, "rows values"]


class Rules(eqx.Module):
    """The end of strings, and the temperature and truncation of the oracle's distribution.

    See the forms of guided samplers.
    """

    n_cells: int = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    end: int | None = eqx.field(static=True, default=None)
    temperature: Array | np.float64 | float = 1.0  # These numbers are not part of the compiled program.
    top_k: int | None = eqx.field(static=True, default=None)
    top_p: Array | np.float64 | None = None

    def law(self, log_p: Law) -> Law:
        """Return the distribution from which the sampler draws, as log probabilities.

        A row is -inf if the oracle gives no symbol a probability, and nan if its distribution is
        invalid.
        """
        top_p = None if self.top_p is None else jnp.asarray(self.top_p, log_p.dtype)
        logits = narrow(log_p / jnp.asarray(self.temperature, log_p.dtype), self.top_k, top_p)
        total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        found = jnp.where(jnp.isfinite(total), logits - jnp.where(jnp.isfinite(total), total, 0), -jnp.inf)
        return jnp.where(lawless(log_p)[..., None], jnp.nan, found)

    def whole(self, lengths: Array | np.ndarray | int, last: Array | np.ndarray | int) -> Any:
        """Return whether a prefix with this last symbol is a whole string."""
        full = lengths >= self.n_cells
        return full if self.end is None else full | ((last == self.end) & (lengths > 0))


def lawless(log_p: Law) -> Bool[Array, " rows"]:
    """Return which rows have nan or +infinity as log probabilities.

    A prefix without a continuation has -infinity everywhere, which is allowed.
    """
    top = log_p.max(axis=-1)
    return jnp.isnan(top) | (top == jnp.inf)


class Run(eqx.Module):
    """The rows while they are drawn.

    Attributes:
        codes: the symbols; entries after a row's length are undefined.
        lengths: the number of symbols of each row, including its prompt.
        base: the number of symbols of its prompt that may not be removed.
        keys: the random key of each row. Iteration t of a row depends only on (key, t).
        turn: the number of iterations so far.
        calls: the number of calls of the oracle.
        checks: the number of evaluations of the verifier or value.
        backs: the number of removals, by the position of the rejected symbol.
        asked: whether the result of the judge counts in this iteration.
        done: whether the row is finished.
        failed: whether the row failed to give a string.
        memory: the memory of the method.
    """

    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]
    base: Int[Array, " rows"]
    keys: PRNGKeyArray
    turn: Int[Array, ""]
    calls: Int[Array, " rows"]
    checks: Int[Array, " rows"]
    backs: Int[Array, "rows cells"]
    asked: Bool[Array, " rows"]
    done: Bool[Array, " rows"]
    failed: Bool[Array, " rows"]
    memory: PyTree

    def having(self, **fields: PyTree) -> Run:
        """Return a copy with some fields replaced."""
        return replace(self, **fields)

    @property
    def rows(self) -> Array:
        """The numbers of the rows."""
        return jnp.arange(self.codes.shape[0])

    @property
    def last(self) -> Int[Array, " rows"]:
        """The last symbol of each row; undefined for an empty row."""
        return self.codes[self.rows, jnp.maximum(self.lengths - 1, 0)]

    def view(self, rules: Rules) -> View:
        """Return the prefixes in the form that a verifier or value takes."""
        return View(self.codes, self.lengths, rules.whole(self.lengths, self.last), self.asked)

    def words(self, values: int, turns: Int[Array, " rows"] | None = None, draws: int = 1) -> list[Words]:
        """Return random words for the draws of this iteration, or of iteration `turns` of each row.

        Args:
            values: the maximum number of values of a draw.
            turns: the iteration of each row; None selects the common one.
            draws: the number of draws.
        """
        turns = jnp.broadcast_to(self.turn, self.done.shape) if turns is None else turns
        every = words_apart(jax.vmap(jax.random.fold_in)(self.keys, turns), draws, levels_of(values))
        return [every.having(lambda w, k=k: w[:, k]) for k in range(draws)]

    def appended(self, symbols: Int[Array, " rows"]) -> Run:
        """Return the rows with a further symbol in each row whose symbol is not negative."""
        more = symbols >= 0
        place = jnp.where(more, self.lengths, self.codes.shape[1])
        return self.having(codes=self.codes.at[self.rows, place].set(symbols, mode="drop"), lengths=self.lengths + more.astype(jnp.int32))

    def counted(self, calls: Array, checks: Array) -> Run:
        """Return the rows with added numbers of calls and evaluations."""
        return self.having(calls=self.calls + calls.astype(jnp.int32), checks=self.checks + checks.astype(jnp.int32))

    def settled(self, done: Array, failed: Array) -> Run:
        """Return the rows with newly finished and failed rows."""
        return self.having(done=self.done | done, failed=self.failed | (failed & ~self.done))


def drawn(law: Law, run: Run) -> Int[Array, " rows"]:
    """Draw a symbol from each row's distribution, with the random words of this iteration."""
    return pick_token(law, run.words(law.shape[-1])[0])


def likeliest(law: Law) -> Int[Array, " rows"]:
    """Return the most probable symbol of each row, the first one among equals."""
    return jnp.argmax(law, axis=-1).astype(jnp.int32)


class AbstractMethod(eqx.Module):
    """The algorithm of a sampler, which moves each row in an iteration.

    A move depends on the distribution of the next symbol and on verifiers or values.

    Attributes:
        before: whether V of the prefix's continuations is evaluated before the move.
        after: whether V of the prefix is evaluated after the move.
    """

    before: ClassVar[bool]
    after: ClassVar[bool]

    def begin(self, rules: Rules, run: Run) -> PyTree:
        """Return the memory before the first iteration; None by default."""
        return None

    def unfinished(self, run: Run) -> Bool[Array, " rows"]:
        """Return which rows continue."""
        return ~run.done & (run.turn < MOST_TURNS)

    @abc.abstractmethod
    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Int[Array, " rows"], Run]:
        """Return the next symbol of each row, negative for none, and the rows with their counts.

        The symbols are not yet appended.

        Args:
            rules: the rules.
            run: the rows.
            law: the distribution of the next symbol.
            seen: log V of the prefix's continuations, if `before` is true.
        """

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Int[Array, " rows"], Run]:
        """Return how many symbols each row loses, and the updated rows; none by default.

        The rows are returned with the symbols that are to be removed. `v` is log V, shape
        (rows,), or None if `after` is false.
        """
        done = rules.whole(run.lengths, run.last)
        return jnp.zeros_like(run.lengths), run.settled(done, jnp.zeros_like(run.done))


class Game(eqx.Module):
    """The parts that draw strings: an oracle, a verifier or value, a method and its rules."""

    oracle: Any
    judge: AbstractJudge | None
    method: AbstractMethod
    rules: Rules


class Standing(eqx.Module):
    """The rows, and the states of the oracle and of the judge for them."""

    run: Run
    oracle: Any
    judge: PyTree


class Wrong(eqx.Module):
    """Rows with an invalid result of a judge or an oracle.

    Attributes:
        rows: the rows with an invalid value.
        values: the log value of each row.
        codes: the prefix of each value.
        lengths: the length of this prefix.
        lawless: the rows whose oracle returned no distribution of the next symbol.
    """

    rows: Bool[Array, " rows"]
    values: Float[Array, " rows"]
    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]
    lawless: Bool[Array, " rows"]

    def with_law(self, run: Run, asked: Bool[Array, " rows"], law: Law) -> Wrong:
        """Return the same, with the rows that count and whose distribution is invalid."""
        bad = asked & (run.lengths < run.codes.shape[1]) & lawless(law)
        codes, lengths = jnp.where(bad[:, None], run.codes, self.codes), jnp.where(bad, run.lengths, self.lengths)
        return replace(self, rows=self.rows & ~bad, codes=codes, lengths=lengths, lawless=bad)

    @property
    def any(self) -> Bool[Array, ""]:
        """Whether some row has an invalid result."""
        return (self.rows | self.lawless).any()


def begun(game: Game, prompts: Int[Array, "rows cells"], keys: PRNGKeyArray, live: Bool[Array, " rows"]) -> Standing:
    """Return the rows before their first iteration; rows that are not `live` are finished.

    Args:
        game: the oracle, judge, method and rules.
        prompts: codes, shape (rows, cells), padded with -1.
        keys: the random key of each row.
        live: whether each row is drawn; others only fill up.
    """
    rows, n = prompts.shape
    lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)
    none, never = jnp.zeros(rows, jnp.int32), jnp.zeros(rows, bool)
    backs, turn = jnp.zeros((rows, n), jnp.int32), jnp.zeros((), jnp.int32)
    run = Run(jnp.maximum(prompts, 0), lengths, lengths, keys, turn, none, none, backs, never, ~live, never, None)
    run = run.having(done=run.done | game.rules.whole(lengths, run.last))
    run = run.having(memory=game.method.begin(game.rules, run))
    judge = None if game.judge is None else game.judge.start(prompts)
    return Standing(run, game.oracle.start(prompts), judge)


def law_here(game: Game, at: Standing) -> Law:
    """Return the distribution from which rows draw."""
    return game.rules.law(game.oracle.next_log_probs(at.oracle))


def seen_before(game: Game, at: Standing, asked: Bool[Array, " rows"]) -> Array:
    """Return log V of the continuations of each row that counts; whole strings have none."""
    assert game.judge is not None
    rules, view = game.rules, at.run.having(asked=asked).view(game.rules)
    ends = rules.whole((view.lengths + 1)[:, None], jnp.arange(rules.n_values, dtype=jnp.int32)[None])
    ends = jnp.broadcast_to(ends, (view.lengths.shape[0], rules.n_values))
    goes_on = View(view.codes, view.lengths, view.whole, view.asked & ~view.whole)
    children = game.judge.children(at.judge, goes_on, ends, game.oracle, at.oracle)
    return jnp.where(view.whole[:, None], -jnp.inf, children)


def moved(game: Game, at: Standing, law: Law, seen: Array | None) -> tuple[Array, Run]:
    """Append the symbols that the method proposes, and return them with the rows.

    A row without a distribution fails.

    Args:
        game: the oracle, judge, method and rules.
        at: the rows and states.
        law: the distribution from which rows draw.
        seen: log V of the continuations, or None.
    """
    run = at.run
    if not game.method.before:
        dead = ~run.done & (law.max(axis=1) == -jnp.inf)
        run = run.settled(dead, dead)
    symbols, run = game.method.propose(game.rules, run, law, seen)
    return symbols, run.appended(symbols)


def judged(game: Game, run: Run, v: Array | None) -> tuple[Array, Run]:
    """Return how many symbols each row loses, and the rows without these symbols."""
    back, run = game.method.settle(game.rules, run, v)
    return back, run.having(lengths=run.lengths - back, turn=run.turn + 1)


def pushed(game: Game, at: Standing, run: Run, symbols: Array) -> tuple[PyTree, PyTree, Array | None]:
    """Append symbols to the states of the oracle and of the judge, and return log V, or None."""
    oracle = game.oracle.push(at.oracle, symbols)
    if game.judge is None:
        return oracle, None, None
    judge = game.judge.push(at.judge, symbols)
    seen = game.judge.values(judge, run.view(game.rules), game.oracle, oracle) if game.method.after else None
    return oracle, judge, seen


def one_turn(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    """Run one iteration of all rows, and return the rows with an invalid result."""
    law = law_here(game, at)
    seen = seen_before(game, at, ~at.run.done) if game.method.before else None
    symbols, run = moved(game, at, law, seen)
    oracle, judge, v = pushed(game, at, run, symbols)
    wrong = refused(run, v) if seen is None else refused_behind(at.run, ~at.run.done, seen)
    wrong = wrong.with_law(at.run, ~at.run.done, law)
    back, run = judged(game, run, v)
    judge = None if game.judge is None else game.judge.pop(judge, back)
    return Standing(run, game.oracle.pop(oracle, back), judge), wrong


def refused(run: Run, v: Array | None) -> Wrong:
    """Return the rows that count and whose value is not a finite number."""
    if v is None:
        return Wrong(jnp.zeros_like(run.done), jnp.zeros(run.done.shape, float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))
    return Wrong(run.asked & _wrong(v), v.astype(float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))


def refused_behind(run: Run, asked: Bool[Array, " rows"], children: Array) -> Wrong:
    """Return the rows that count with an invalid value of a continuation.

    The first such value is returned.
    """
    bad = _wrong(children)
    first = jnp.argmax(bad, axis=1).astype(jnp.int32)
    codes = run.codes.at[run.rows, run.lengths].set(first, mode="drop")
    return Wrong(asked & bad.any(axis=1), children.astype(float_type())[run.rows, first], codes, run.lengths + 1, jnp.zeros_like(run.done))


def _wrong(log_v: Array) -> Array:
    return jnp.isnan(log_v) | (log_v == jnp.inf)
