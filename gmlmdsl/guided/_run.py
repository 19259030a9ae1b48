"""What rows hold while they are drawn, and one turn of all of them: the distribution, a move, a judgement, what is taken back."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..derive import Words, float_type, levels_of, narrow, pick_token, words_apart
from ._judges import AbstractJudge, View

Law = Float[Array, "rows values"]
MOST_TURNS = 1 << 22  # of a row


class Rules(eqx.Module):
    """How strings end, and how the oracle's distribution is sharpened and cut; see the forms of guided samplers."""

    n_cells: int = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    end: int | None = eqx.field(static=True, default=None)
    temperature: Any = 1.0  # numbers that are no part of the compiled program
    top_k: int | None = eqx.field(static=True, default=None)
    top_p: Any = None

    def law(self, log_p: Law) -> Law:
        """The oracle's distribution as the sampler draws from it; -inf alone where the oracle has none, nan where it said nan."""
        top_p = None if self.top_p is None else jnp.asarray(self.top_p, log_p.dtype)
        logits = narrow(log_p / jnp.asarray(self.temperature, log_p.dtype), self.top_k, top_p)
        total = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        found = jnp.where(jnp.isfinite(total), logits - jnp.where(jnp.isfinite(total), total, 0), -jnp.inf)
        return jnp.where(lawless(log_p)[..., None], jnp.nan, found)

    def whole(self, lengths: Any, last: Any) -> Any:
        """Whether a prefix with that last symbol is a whole string."""
        full = lengths >= self.n_cells
        return full if self.end is None else full | ((last == self.end) & (lengths > 0))


def lawless(log_p: Law) -> Bool[Array, " rows"]:
    """Where an oracle says nan, or +infinity: no log probabilities. A prefix that nothing follows has -infinity everywhere."""
    top = log_p.max(axis=-1)
    return jnp.isnan(top) | (top == jnp.inf)


class Run(eqx.Module):
    """Rows while they are drawn.

    Attributes:
        codes: the symbols, of no meaning behind a row's length.
        lengths: symbols of each row, its prompt's included.
        base: those of its prompt that may not be taken back.
        keys: of each row; turn t of a row follows from (key, t) alone.
        turn: of all rows.
        calls: of the oracle.
        checks: of the verifier or value.
        backs: how often something was taken back, by the position of the symbol that was refused.
        asked: whether the judgement of this turn counts.
        done: whether the row is drawn.
        failed: whether nothing was found.
        memory: what the method remembers.
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
    memory: Any

    def having(self, **fields: Any) -> Run:
        """The same with some fields replaced."""
        return replace(self, **fields)

    @property
    def rows(self) -> Array:
        """The numbers of the rows."""
        return jnp.arange(self.codes.shape[0])

    @property
    def last(self) -> Int[Array, " rows"]:
        """The last symbol of each row; of no meaning where it has none."""
        return self.codes[self.rows, jnp.maximum(self.lengths - 1, 0)]

    def view(self, rules: Rules) -> View:
        """What a verifier or value is asked about."""
        return View(self.codes, self.lengths, rules.whole(self.lengths, self.last), self.asked)

    def words(self, values: int, turns: Int[Array, " rows"] | None = None, draws: int = 1) -> list[Words]:
        """The random words of the draws of this turn, or of a turn of each row's own; a draw is of so many values at most."""
        turns = jnp.broadcast_to(self.turn, self.done.shape) if turns is None else turns
        every = words_apart(jax.vmap(jax.random.fold_in)(self.keys, turns), draws, levels_of(values))
        return [every.having(lambda w, k=k: w[:, k]) for k in range(draws)]

    def appended(self, symbols: Int[Array, " rows"]) -> Run:
        """With one symbol more in each row whose symbol is not below 0."""
        more = symbols >= 0
        place = jnp.where(more, self.lengths, self.codes.shape[1])
        return self.having(codes=self.codes.at[self.rows, place].set(symbols, mode="drop"), lengths=self.lengths + more.astype(jnp.int32))

    def counted(self, calls: Array, checks: Array) -> Run:
        """With so many more calls and judgements in each row."""
        return self.having(calls=self.calls + calls.astype(jnp.int32), checks=self.checks + checks.astype(jnp.int32))

    def settled(self, done: Array, failed: Array) -> Run:
        """With the rows that are drawn now, and those of them that failed."""
        return self.having(done=self.done | done, failed=self.failed | (failed & ~self.done))


def drawn(law: Law, run: Run) -> Int[Array, " rows"]:
    """A symbol from each row's distribution, by the words of this turn."""
    return pick_token(law, run.words(law.shape[-1])[0])


def likeliest(law: Law) -> Int[Array, " rows"]:
    """The likeliest symbol of each row, the first of equals."""
    return jnp.argmax(law, axis=-1).astype(jnp.int32)


class AbstractMethod(eqx.Module):
    """An algorithm: what a row does in a turn, given the distribution of its next symbol and what verifiers or values say.

    Attributes:
        before: whether V of the prefix's continuations is asked before the move.
        after: whether V of the prefix is asked after it.
    """

    before: ClassVar[bool]
    after: ClassVar[bool]

    @abc.abstractmethod
    def begin(self, rules: Rules, run: Run) -> Any:
        """What it remembers before the first turn."""

    def unfinished(self, run: Run) -> Bool[Array, " rows"]:
        """Rows that go on."""
        return ~run.done & (run.turn < MOST_TURNS)

    @abc.abstractmethod
    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Int[Array, " rows"], Run]:
        """The symbol that each row gets, below 0 for none, and the rows with their counts, the symbols not yet among them.

        `seen`: log V of the prefix's continuations, where these are asked.
        """

    @abc.abstractmethod
    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Int[Array, " rows"], Run]:
        """How many symbols each row loses, and the rows with what is done and counted, the symbols still among them; `v` is log V."""


class Game(eqx.Module):
    """An oracle, a verifier or value, a method and its rules: all that draws strings."""

    oracle: Any
    judge: AbstractJudge | None
    method: AbstractMethod
    rules: Rules


class Standing(eqx.Module):
    """The rows, and where the oracle and the judge stand for them."""

    run: Run
    oracle: Any
    judge: Any


class Wrong(eqx.Module):
    """Which rows got no value where one was asked for, the log of what they got, and the prefix that it was said of.

    `lawless` are those whose oracle gave no distribution of the next symbol.
    """

    rows: Bool[Array, " rows"]
    values: Float[Array, " rows"]
    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]
    lawless: Bool[Array, " rows"]

    def with_law(self, run: Run, asked: Bool[Array, " rows"], law: Law) -> Wrong:
        """The same, and the rows that are asked about whose law is nan, with their prefixes."""
        bad = asked & (run.lengths < run.codes.shape[1]) & lawless(law)
        codes, lengths = jnp.where(bad[:, None], run.codes, self.codes), jnp.where(bad, run.lengths, self.lengths)
        return replace(self, rows=self.rows & ~bad, codes=codes, lengths=lengths, lawless=bad)

    @property
    def any(self) -> Bool[Array, ""]:
        """Whether something is wrong in some row."""
        return (self.rows | self.lawless).any()


def begun(game: Game, prompts: Int[Array, "rows cells"], keys: PRNGKeyArray, live: Bool[Array, " rows"]) -> Standing:
    """Rows before their first turn; those that are not `live` are done."""
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
    """The distribution that rows draw from."""
    return game.rules.law(game.oracle.next_log_probs(at.oracle))


def seen_before(game: Game, at: Standing, asked: Bool[Array, " rows"]) -> Array:
    """log V of the continuations of each row that is asked about; whole strings have none."""
    assert game.judge is not None
    rules, view = game.rules, at.run.having(asked=asked).view(game.rules)
    ends = rules.whole((view.lengths + 1)[:, None], jnp.arange(rules.n_values, dtype=jnp.int32)[None])
    ends = jnp.broadcast_to(ends, (view.lengths.shape[0], rules.n_values))
    goes_on = View(view.codes, view.lengths, view.whole, view.asked & ~view.whole)
    children = game.judge.children(at.judge, goes_on, ends, game.oracle, at.oracle)
    return jnp.where(view.whole[:, None], -jnp.inf, children)


def moved(game: Game, at: Standing, law: Law, seen: Array | None) -> tuple[Array, Run]:
    """The symbols that rows get, and the rows with them; a row that has no distribution to draw from fails."""
    run = at.run
    if not game.method.before:
        dead = ~run.done & (law.max(axis=1) == -jnp.inf)
        run = run.settled(dead, dead)
    symbols, run = game.method.propose(game.rules, run, law, seen)
    return symbols, run.appended(symbols)


def judged(game: Game, run: Run, v: Array | None) -> tuple[Array, Run]:
    """How much each row loses, and the rows without it."""
    back, run = game.method.settle(game.rules, run, v)
    return back, run.having(lengths=run.lengths - back, turn=run.turn + 1)


def one_turn(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    """One turn of all rows, and which of them got no value where one was asked for."""
    law = law_here(game, at)
    seen = seen_before(game, at, ~at.run.done) if game.method.before else None
    symbols, run = moved(game, at, law, seen)
    oracle = game.oracle.push(at.oracle, symbols)
    judge = None if game.judge is None else game.judge.push(at.judge, symbols)
    v = game.judge.values(judge, run.view(game.rules), game.oracle, oracle) if game.judge is not None and game.method.after else None
    wrong = refused(run, v) if seen is None else refused_behind(at.run, ~at.run.done, seen)
    wrong = wrong.with_law(at.run, ~at.run.done, law)
    back, run = judged(game, run, v)
    judge = None if game.judge is None else game.judge.pop(judge, back)
    return Standing(run, game.oracle.pop(oracle, back), judge), wrong


def refused(run: Run, v: Array | None) -> Wrong:
    """Rows that are asked about whose value is no finite number."""
    if v is None:
        return Wrong(jnp.zeros_like(run.done), jnp.zeros(run.done.shape, float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))
    return Wrong(run.asked & _wrong(v), v.astype(float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))


def refused_behind(run: Run, asked: Bool[Array, " rows"], children: Array) -> Wrong:
    """Rows that are asked about with a continuation of whose value that is so, with the first such one of each."""
    bad = _wrong(children)
    first = jnp.argmax(bad, axis=1).astype(jnp.int32)
    codes = run.codes.at[run.rows, run.lengths].set(first, mode="drop")
    return Wrong(asked & bad.any(axis=1), children.astype(float_type())[run.rows, first], codes, run.lengths + 1, jnp.zeros_like(run.done))


def _wrong(log_v: Array) -> Array:
    return jnp.isnan(log_v) | (log_v == jnp.inf)
