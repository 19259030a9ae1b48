"""Brackets that match, by a stack: of each prefix is kept where its last open bracket stands, which is all that is needed to close it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._judges import AbstractJudge, View, log_of

Rows = Int[Array, " rows"]
WRONG = -1  # the depth of a prefix that no string of the language begins with


class BracketState(eqx.Module):
    """What is kept of each prefix of each row; nothing behind a row's length is read, so to take symbols back is to lower it.

    Attributes:
        lengths: symbols of each row.
        kind: of the bracket at each place, 1-based; 0 stands before the first.
        top: the place of the last open bracket behind so many symbols, 0 for none.
        depth: how many are open, WRONG where one was closed that is not the last.
    """

    lengths: Rows
    kind: Int[Array, "rows places"]
    top: Int[Array, "rows places"]
    depth: Int[Array, "rows places"]


class Brackets(AbstractJudge):
    """1 where brackets match and, where strings are to be closed, those that are open can be closed in the cells left.

    Attributes:
        kinds: k; the values 2 a and 2 a + 1 open and close a bracket of kind a < k.
        others: whether there are values behind these, which may stand anywhere.
        most: the most brackets open at once; None: any number.
        closed: whether every bracket of a whole string is closed.
        n_cells: the most symbols of a string.
    """

    kinds: int = eqx.field(static=True)
    others: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)
    closed: bool = eqx.field(static=True)
    n_cells: int = eqx.field(static=True)

    @property
    def looks_ahead(self) -> bool:
        """A wrong bracket stays wrong."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> BracketState:
        """The prompt's symbols, one after another; -1 behind each is none."""
        none = jnp.zeros((prompts.shape[0], self.n_cells + 1), jnp.int32)
        empty = BracketState(jnp.zeros(prompts.shape[0], jnp.int32), none, none, none)
        return jax.lax.scan(lambda state, symbols: (self.push(state, symbols), None), empty, prompts.T.astype(jnp.int32))[0]

    def push(self, state: BracketState, symbols: Rows) -> BracketState:
        """One symbol more for each row whose symbol is not below 0."""
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        kind, top, depth = self._after(state, symbols)
        rows, place = jnp.arange(symbols.shape[0]), jnp.where(more, state.lengths + 1, self.n_cells + 1)
        old, new = (state.kind, state.top, state.depth), (kind, top, depth)
        written = (a.at[rows, place].set(b, mode="drop") for a, b in zip(old, new, strict=True))
        return BracketState(state.lengths + more.astype(jnp.int32), *written)

    def pop(self, state: BracketState, n: Rows) -> BracketState:
        """Each row without its last n symbols."""
        return BracketState(jnp.maximum(state.lengths - n, 0), state.kind, state.top, state.depth)

    def _after(self, state: BracketState, symbols: Int[Array, "rows ..."]) -> tuple[Array, Array, Array]:
        """The kind of a symbol more, and where the last open bracket then stands and how many are open; symbols are of rows first."""
        wide = (slice(None), *(None,) * (symbols.ndim - 1))
        rows = jnp.arange(symbols.shape[0])
        top, depth = state.top[rows, state.lengths], state.depth[rows, state.lengths]
        below, kind = state.top[rows, jnp.maximum(top - 1, 0)][wide], symbols // 2
        bracket = symbols < 2 * self.kinds
        opens, closes = bracket & (symbols % 2 == 0), bracket & (symbols % 2 == 1)
        right = (depth > 0)[wide] & (state.kind[rows, top][wide] == kind)
        top, before = top[wide], depth[wide]
        depth = before + jnp.where(opens, 1, jnp.where(closes, -1, 0))
        wrong = (before == WRONG) | (closes & ~right)
        if self.most is not None:
            wrong |= depth > self.most
        top = jnp.where(opens, (state.lengths + 1)[wide], jnp.where(closes, below, top))
        return kind, top, jnp.where(wrong, WRONG, depth)

    def values(self, state: BracketState, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """The logarithm of 0 or 1."""
        depth = state.depth[jnp.arange(view.lengths.shape[0]), state.lengths]
        return log_of(self._may(depth, state.lengths, view.whole))

    def children(
        self, state: BracketState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any
    ) -> Float[Array, "rows values"]:
        """The same behind each symbol."""
        symbols = jnp.broadcast_to(jnp.arange(whole.shape[1], dtype=jnp.int32), whole.shape)
        return log_of(self._may(self._after(state, symbols)[2], (state.lengths + 1)[:, None], whole))

    def _may(self, depth: Array, lengths: Array, whole: Array) -> Bool[Array, "rows ..."]:
        """Whether a prefix that is no whole string can become one, or a whole string is one."""
        if not self.closed:
            return depth != WRONG
        left = self.n_cells - lengths
        fits = (depth <= left) & ((left - depth) % 2 == 0 if not self.others else True)
        return (depth != WRONG) & jnp.where(whole, depth == 0, fits)
