"""Methods of guided samplers: rejection of strings and of symbols, backtracking, best of n."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int

from ..derive import Words, exponential, finite, float_type, pick_token
from ._run import AbstractMethod, Law, Rules, Run, drawn, likeliest
from .limits import MOST_REFUSED, TIE

NONE = -1  # This number stands for no symbol, and for no limit.
Rows = Int[Array, " rows"]


class Plain(AbstractMethod):
    """A method that appends random or most probable symbols without a judge."""

    greedy: bool = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = False

    def propose(self, rules: Rules, run: Run, law: Law, seen: None) -> tuple[Rows, Run]:
        """Propose a symbol for every row that is not whole."""
        symbols = likeliest(law) if self.greedy else drawn(law, run)
        return jnp.where(run.done, NONE, symbols), run.counted(~run.done, jnp.zeros_like(run.done))


class Rejection(AbstractMethod):
    """Rejection of whole strings until V = 1.

    Attributes:
        tries: the number of strings that may be rejected; None allows any number.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> Rows:
        """Return the number of strings that may still be rejected."""
        return jnp.full_like(run.lengths, NONE if self.tries is None else self.tries)

    def propose(self, rules: Rules, run: Run, law: Law, seen: None) -> tuple[Rows, Run]:
        """Propose the next symbol; the judge is evaluated if it makes the string whole."""
        symbols = jnp.where(run.done, NONE, drawn(law, run))
        asked = ~run.done & rules.whole(run.lengths + 1, symbols)
        return symbols, run.counted(~run.done, asked).having(asked=asked)

    def settle(self, rules: Rules, run: Run, v: Float[Array, " rows"]) -> tuple[Rows, Run]:
        """Remove all symbols of a rejected string except its prompt."""
        taken, lost = run.asked & (v > -jnp.inf), run.asked & (v == -jnp.inf)
        left = run.memory - lost.astype(jnp.int32)
        out = lost & (left == 0) if self.tries is not None else jnp.zeros_like(lost)
        return jnp.where(lost & ~out, run.lengths - run.base, 0), run.having(memory=left).settled(taken | out, out)


class TokenMemory(NamedTuple):
    """The memory of tokenwise rejection.

    Attributes:
        left: the number of draws at this position that may still be rejected.
        refused: the symbols that were rejected at this position.
        possible: the symbols of positive probability.
    """

    left: Rows
    refused: Bool[Array, "rows values"]
    possible: Bool[Array, "rows values"]


class TokenwiseRejection(AbstractMethod):
    """Rejection of each symbol until V of the prefix with it is 1 (Li 2025, Definition 3.1.5).

    Attributes:
        tries: the number of draws at one position that may be rejected. None allows any number,
            until all symbols are rejected.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> TokenMemory:
        """Return a memory without rejected symbols."""
        none = jnp.zeros((run.lengths.shape[0], rules.n_values), bool)
        return TokenMemory(jnp.full_like(run.lengths, NONE if self.tries is None else self.tries), none, none)

    def propose(self, rules: Rules, run: Run, law: Law, seen: None) -> tuple[Rows, Run]:
        """Propose a symbol, at which the judge is evaluated."""
        symbols = jnp.where(run.done, NONE, drawn(law, run))
        memory = run.memory._replace(possible=law > -jnp.inf)
        return symbols, run.counted(~run.done, ~run.done).having(asked=~run.done, memory=memory)

    def settle(self, rules: Rules, run: Run, v: Float[Array, " rows"]) -> tuple[Rows, Run]:
        """Remove a rejected symbol."""
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
    """Rejection of each symbol by a value, which draws from p(symbol | prefix) V, normalised.

    A symbol is accepted with probability V(prefix with symbol) / max V, with the maximum over the
    symbols. An iteration is a position. The accepted symbol and the number of rejections before it
    are independent. Both are therefore drawn at once, and the values of the continuations are
    evaluated once. With r = sum of p(a) V(a) / max V, P(k rejections) = (1 - r)^k r.

    Attributes:
        tries: the number of draws at one position that may be rejected; None allows any number. A
            position at which V is 0 for all symbols ends the row as failed.
    """

    tries: int | None = eqx.field(static=True)
    before: ClassVar[bool] = True
    after: ClassVar[bool] = False

    def propose(self, rules: Rules, run: Run, law: Law, seen: Float[Array, "rows values"]) -> tuple[Rows, Run]:
        """Propose the accepted symbol, and count all calls of its position.

        There is no symbol if `tries` draws were rejected.
        """
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


def _failures(words: Words, chance: Float[Array, " rows"]) -> Rows:
    """Return the number of failed trials before the first success with probability `chance`.

    It is drawn by inverting P(at least k failures) = (1 - chance)^k.
    """
    found = jnp.floor(-exponential(words) / jnp.log1p(-jnp.clip(chance, 0, 1)))
    return jnp.minimum(jnp.where(jnp.isnan(found), MOST_REFUSED, found), MOST_REFUSED).astype(jnp.int32)


class BackMemory(NamedTuple):
    """The memory of backtracking.

    Attributes:
        quota: the remaining quota.
        owed: the number of symbols that are still to be regenerated.
    """

    quota: Rows
    owed: Rows


class Backtracking(AbstractMethod):
    """Backtracking, in which a rejected prefix loses its last B symbols (Li 2025, Algorithm 1).

    This happens at most Q times. B most probable symbols may replace them.

    Attributes:
        quota: Q. Once it is used up, the judge is no longer evaluated. Q and B are arrays, so that
            one compiled program serves all of them.
        stride: B. A string with fewer symbols loses all of them.
        regenerate: whether the B symbols are replaced by most probable ones. These are not judged,
            and never go beyond the string's end.
        erase_prompt: whether symbols of the prompt may be removed.
    """

    quota: Int[Array, ""]
    stride: Int[Array, ""]
    regenerate: bool = eqx.field(static=True)
    erase_prompt: bool = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> BackMemory:
        """Return the whole quota."""
        return BackMemory(jnp.full_like(run.lengths, self.quota), jnp.zeros_like(run.lengths))

    def propose(self, rules: Rules, run: Run, law: Law, seen: None) -> tuple[Rows, Run]:
        """Propose the most probable symbol if one is owed, otherwise a random one.

        Within the quota, the judge is evaluated at random symbols.
        """
        owed = run.memory.owed > 0
        symbols = jnp.where(owed, likeliest(law), drawn(law, run))
        asked = ~run.done & ~owed & (run.memory.quota > 0)
        return jnp.where(run.done, NONE, symbols), run.counted(~run.done, asked).having(asked=asked)

    def settle(self, rules: Rules, run: Run, v: Float[Array, " rows"]) -> tuple[Rows, Run]:
        """Remove the last symbols of a rejected prefix."""
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
    """The memory of best of n.

    Attributes:
        start: the length of the row at which the block begins.
        tried: the number of candidates so far.
        value: log V of the best candidate.
        codes: the codes of the row with the best candidate.
        lengths: the length of the row with the best candidate.
        again: whether the best candidate is being written again.
    """

    start: Rows
    tried: Rows
    value: Float[Array, " rows"]
    codes: Int[Array, "rows cells"]
    lengths: Rows
    again: Bool[Array, " rows"]


class BlockBest(AbstractMethod):
    """Best of n for each block: the continuation with the highest V, the first one among equals.

    Attributes:
        n: the number of candidates.
        block: the number of symbols of a candidate; None stands for whole strings.
    """

    n: int = eqx.field(static=True)
    block: int | None = eqx.field(static=True)
    before: ClassVar[bool] = False
    after: ClassVar[bool] = True

    def begin(self, rules: Rules, run: Run) -> BlockMemory:
        """Return a memory without a candidate."""
        none = jnp.zeros_like(run.lengths)
        return BlockMemory(run.lengths, none, jnp.zeros(none.shape, float_type()), run.codes, run.lengths, jnp.zeros_like(run.done))

    def propose(self, rules: Rules, run: Run, law: Law, seen: None) -> tuple[Rows, Run]:
        """Propose the next symbol of a candidate, or of the best one when it is written again.

        The latter does not count as a call.
        """
        m: BlockMemory = run.memory
        place = jnp.minimum(run.lengths, rules.n_cells - 1)
        symbols = jnp.where(m.again, m.codes[run.rows, place], drawn(law, run))
        new = ~run.done & ~m.again
        ends = rules.whole(run.lengths + 1, symbols)
        if self.block is not None:
            ends |= run.lengths + 1 - m.start == self.block
        return jnp.where(run.done, NONE, symbols), run.counted(new, new & ends).having(asked=new & ends)

    def settle(self, rules: Rules, run: Run, v: Float[Array, " rows"]) -> tuple[Rows, Run]:
        """Remove a candidate, unless it is the last and the best one."""
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
