"""Rejection of strings and of symbols, backtracking, best of n: how a row moves in a turn."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from ..derive import Words, exponential, finite, float_type, pick_token
from ._run import AbstractMethod, Law, Rules, Run, drawn, likeliest

NONE = -1  # no symbol; no limit
# log values that differ by less, in parts of themselves where they are above 1, are equal: rounding
# alone tells them apart
TIE = 1e-5
# symbols at one position that are counted: each whole number up to there is one of single precision
MOST_REFUSED = 1 << 24
Rows = Int[Array, " rows"]


class Plain(AbstractMethod):
    """Symbol after symbol from the distribution, or each the likeliest; nothing is verified."""

    greedy: bool = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = False

    def begin(self, rules: Rules, run: Run) -> None:
        """Nothing."""

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """A symbol of every row that is not whole."""
        symbols = likeliest(law) if self.greedy else drawn(law, run)
        return jnp.where(run.done, NONE, symbols), run.counted(~run.done, jnp.zeros_like(run.done))

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """Nothing is lost."""
        return jnp.zeros_like(run.lengths), run.settled(rules.whole(run.lengths, run.last), jnp.zeros_like(run.done))


class Rejection(AbstractMethod):
    """Whole strings until V = 1.

    Attributes:
        tries: how many may be refused; None: any number.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> Rows:
        """The strings that may still be refused."""
        return jnp.full_like(run.lengths, NONE if self.tries is None else self.tries)

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """The next symbol; asked where it makes the string whole."""
        symbols = jnp.where(run.done, NONE, drawn(law, run))
        asked = ~run.done & rules.whole(run.lengths + 1, symbols)
        return symbols, run.counted(~run.done, asked).having(asked=asked)

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """A refused string is lost, but for its prompt."""
        taken, lost = run.asked & (v > -jnp.inf), run.asked & (v == -jnp.inf)
        left = run.memory - lost.astype(jnp.int32)
        out = lost & (left == 0) if self.tries is not None else jnp.zeros_like(lost)
        return jnp.where(lost & ~out, run.lengths - run.base, 0), run.having(memory=left).settled(taken | out, out)


class TokenMemory(NamedTuple):
    """The draws at this position that may still be refused, the symbols refused here, and those that the distribution gives."""

    left: Rows
    refused: Bool[Array, "rows values"]
    possible: Bool[Array, "rows values"]


class TokenwiseRejection(AbstractMethod):
    """Each symbol until V of the prefix that it ends is 1 (Li 2025, Definition 3.1.5).

    Attributes:
        tries: how many draws at one position may be refused; None: any number, until every symbol
            is.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> TokenMemory:
        """Nothing is refused yet."""
        none = jnp.zeros((run.lengths.shape[0], rules.n_values), bool)
        return TokenMemory(jnp.full_like(run.lengths, NONE if self.tries is None else self.tries), none, none)

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """A symbol, which is asked for."""
        symbols = jnp.where(run.done, NONE, drawn(law, run))
        memory = run.memory._replace(possible=law > -jnp.inf)
        return symbols, run.counted(~run.done, ~run.done).having(asked=~run.done, memory=memory)

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """A refused symbol is lost."""
        taken, lost = run.asked & (v > -jnp.inf), run.asked & (v == -jnp.inf)
        m: TokenMemory = run.memory
        own = jnp.arange(rules.n_values, dtype=jnp.int32)[None] == run.last[:, None]
        refused = (m.refused | (own & lost[:, None])) & ~taken[:, None]
        if self.tries is None:
            left, out = m.left, lost & (refused | ~m.possible).all(axis=1)
        else:
            left = jnp.where(taken, self.tries, m.left - lost.astype(jnp.int32))
            out = lost & (left == 0)
        done = (taken & rules.whole(run.lengths, run.last)) | out
        run = run.having(memory=TokenMemory(left, refused, m.possible)).settled(done, out)
        return (lost & ~out).astype(jnp.int32), run


class TokenwiseByValue(AbstractMethod):
    """Each symbol until one is taken, with probability V(prefix and symbol) / the most of any: so from p(symbol | prefix) V, normalised.

    A turn is a position: which symbol is taken and how many are refused before it are independent,
    so both are drawn at once, and the values of its continuations are asked for once. With r = sum
    of p(a) V(a) / max V, P(k are refused) = (1 - r)^k r.

    Attributes:
        tries: how many draws at one position may be refused; None: any number. Where V is 0 of all
            symbols nothing is drawn.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = True
    after: ClassVar[bool] = False

    def begin(self, rules: Rules, run: Run) -> None:
        """Nothing."""

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """The symbol that is taken, with all calls of its position; none where `tries` were refused."""
        for_symbol, for_count = run.words(law.shape[-1], draws=2)
        weights = jnp.where(law > -jnp.inf, seen, -jnp.inf)
        most = weights.max(axis=1)
        stuck = ~run.done & (most == -jnp.inf)
        run = run.settled(stuck, stuck)
        taken = law + weights - finite(most)[:, None]
        refused = jnp.minimum(_failures(for_count, jnp.exp(logsumexp(taken, axis=1))), MOST_REFUSED if self.tries is None else self.tries)
        out = refused == self.tries if self.tries is not None else jnp.zeros_like(run.done)
        calls = jnp.where(run.done, 0, refused + (~out).astype(jnp.int32))
        run = run.counted(calls, jnp.where(run.done, 0, rules.n_values)).settled(out, out)
        return jnp.where(run.done, NONE, pick_token(taken, for_symbol)), run

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """Nothing is lost."""
        return jnp.zeros_like(run.lengths), run.settled(rules.whole(run.lengths, run.last), jnp.zeros_like(run.done))


def _failures(words: Words, chance: Float[Array, " rows"]) -> Rows:
    """How many trials of that chance fail before one does not, by inverting P(at least k fail) = (1 - chance)^k."""
    found = jnp.floor(-exponential(words) / jnp.log1p(-jnp.clip(chance, 0, 1)))
    return jnp.minimum(jnp.where(jnp.isnan(found), MOST_REFUSED, found), MOST_REFUSED).astype(jnp.int32)


class BackMemory(NamedTuple):
    """The quota that is left, and the symbols that are still to be regenerated."""

    quota: Rows
    owed: Rows


class Backtracking(AbstractMethod):
    """Symbol after symbol; a refused prefix loses its last B, Q times, and gets B likeliest ones instead (Li 2025, Algorithm 1).

    Attributes:
        quota: Q. Once it is used up nothing is verified. It and B are arrays: a program serves all
            of them.
        stride: B. Where the string has fewer it loses all of them.
        regenerate: whether the B symbols are replaced by likeliest ones, unverified, never beyond
            the string's end.
        erase_prompt: whether they may reach into the prompt.
    """

    quota: Int[Array, ""]
    stride: Int[Array, ""]
    regenerate: bool = eqx.field(static=True)
    erase_prompt: bool = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> BackMemory:
        """The whole quota."""
        return BackMemory(jnp.full_like(run.lengths, self.quota), jnp.zeros_like(run.lengths))

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """The likeliest symbol where one is owed, else one that is drawn and, within the quota, asked for."""
        owed = run.memory.owed > 0
        symbols = jnp.where(owed, likeliest(law), drawn(law, run))
        asked = ~run.done & ~owed & (run.memory.quota > 0)
        return jnp.where(run.done, NONE, symbols), run.counted(~run.done, asked).having(asked=asked)

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """A refused prefix loses its last symbols."""
        lost = run.asked & (v == -jnp.inf)
        floor = jnp.zeros_like(run.base) if self.erase_prompt else run.base
        back = jnp.where(lost, jnp.minimum(self.stride, run.lengths - floor), 0)
        whole = ~lost & ~run.done & rules.whole(run.lengths, run.last)
        owed = jnp.where(whole, 0, jnp.maximum(run.memory.owed - 1, 0))
        owed = jnp.where(lost, self.stride, owed) if self.regenerate else owed
        backs = run.backs.at[run.rows, run.lengths - 1].add(lost.astype(jnp.int32))
        memory = BackMemory(run.memory.quota - lost.astype(jnp.int32), owed)
        return back, run.having(memory=memory, backs=backs).settled(whole, jnp.zeros_like(whole))


class BlockMemory(NamedTuple):
    """Where the block begins, how many candidates it has had, the best of them, and whether that one is written again."""

    start: Rows
    tried: Rows
    value: Float[Array, " rows"]
    codes: Int[Array, "rows cells"]
    lengths: Rows
    again: Bool[Array, " rows"]


class BlockBest(AbstractMethod):
    """Block after block, the continuation of the highest V among n, the first of equals.

    Attributes:
        n: candidates.
        block: symbols of each; None: whole strings.
    """

    n: int = eqx.field(static=True)
    block: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> BlockMemory:
        """No candidate yet."""
        none = jnp.zeros_like(run.lengths)
        return BlockMemory(run.lengths, none, jnp.zeros(none.shape, float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))

    def propose(self, rules: Rules, run: Run, law: Law, seen: Any) -> tuple[Rows, Run]:
        """The next symbol of a candidate, or of the best one once more, which is no call."""
        m: BlockMemory = run.memory
        place = jnp.minimum(run.lengths, rules.n_cells - 1)
        symbols = jnp.where(m.again, m.codes[run.rows, place], drawn(law, run))
        new = ~run.done & ~m.again
        ends = rules.whole(run.lengths + 1, symbols)
        if self.block is not None:
            ends |= run.lengths + 1 - m.start == self.block
        return jnp.where(run.done, NONE, symbols), run.counted(new, new & ends).having(asked=new & ends)

    def settle(self, rules: Rules, run: Run, v: Any) -> tuple[Rows, Run]:
        """A candidate is lost, but for the last one where it is the best."""
        m: BlockMemory = run.memory
        better = run.asked & ((m.tried == 0) | (v > m.value + TIE * jnp.maximum(1, jnp.abs(v))))
        codes = jnp.where(better[:, None], run.codes, m.codes)
        lengths, value = jnp.where(better, run.lengths, m.lengths), jnp.where(better, v.astype(m.value.dtype), m.value)
        count = m.tried + run.asked.astype(jnp.int32)
        last = run.asked & (count == self.n)
        again = m.again | (last & ~better)
        back = jnp.where(run.asked & ~(last & better), run.lengths - m.start, 0)
        closed = (last & better) | (m.again & (run.lengths == lengths))
        start = jnp.where(closed, run.lengths, m.start)
        memory = BlockMemory(start, jnp.where(closed, 0, count), value, codes, lengths, again & ~closed)
        done = closed & rules.whole(run.lengths, run.last)
        return back, run.having(memory=memory).settled(done, jnp.zeros_like(done))
