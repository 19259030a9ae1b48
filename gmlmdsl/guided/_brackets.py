"""A verifier of matching brackets, which keeps a stack as an array.

For each prefix, the state contains the place of the last open bracket. This place suffices to close
the bracket.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from ._judges import AbstractJudge, View, log_of

Rows = Int[Array, " rows"]
WRONG = -1  # The depth of a prefix with which no string of the language begins.


class BracketState(eqx.Module):
    """The state of the prefixes of each row.

    Entries after a row's length are never read. Removing symbols therefore only lowers the length.

    Attributes:
        lengths: the number of symbols of each row.
        kind: the kind of the bracket at each place, counted from 1; place 0 contains 0.
        top: the place of the last open bracket after each number of symbols, 0 if there is none.
        depth: the number of open brackets, or WRONG if a bracket was closed that is not the last
            open one.
    """

    lengths: Rows
    kind: Int[Array, "rows places"]
    top: Int[Array, "rows places"]
    depth: Int[Array, "rows places"]


class Brackets(AbstractJudge):
    """A verifier that is 1 if the brackets of a prefix match, otherwise 0.

    If strings must be closed, the open brackets must also fit into the remaining cells.

    Attributes:
        kinds: the number k of kinds; the values 2 a and 2 a + 1 open and close a bracket of kind a
            < k.
        others: whether there are values above these, which may occur anywhere.
        most: the maximum number of simultaneously open brackets; None allows any number.
        closed: whether every bracket of a whole string must be closed.
        n_cells: the maximum number of symbols of a string.
    """

    kinds: int = eqx.field(static=True)
    others: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)
    closed: bool = eqx.field(static=True)
    n_cells: int = eqx.field(static=True)

    @property
    def looks_ahead(self) -> bool:
        """True, since a wrong bracket stays wrong."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> BracketState:
        """Return the state after the symbols of each prompt; prompts are padded with -1."""
        none = jnp.zeros((prompts.shape[0], self.n_cells + 1), jnp.int32)
        empty = BracketState(jnp.zeros(prompts.shape[0], jnp.int32), none, none, none)
        return jax.lax.scan(lambda state, symbols: (self.push(state, symbols), None), empty, prompts.T.astype(jnp.int32))[0]

    def push(self, state: BracketState, symbols: Rows) -> BracketState:
        """Append a symbol to each row whose symbol is not negative."""
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        kind, top, depth = self._after(state, symbols)
        rows, place = jnp.arange(symbols.shape[0]), jnp.where(more, state.lengths + 1, self.n_cells + 1)
        old, new = (state.kind, state.top, state.depth), (kind, top, depth)
        written = (a.at[rows, place].set(b, mode="drop") for a, b in zip(old, new, strict=True))
        return BracketState(state.lengths + more.astype(jnp.int32), *written)

    def pop(self, state: BracketState, n: Rows) -> BracketState:
        """Remove the last n symbols of each row."""
        return BracketState(jnp.maximum(state.lengths - n, 0), state.kind, state.top, state.depth)

    def _after(self, state: BracketState, symbols: Int[Array, "rows ..."]) -> tuple[Array, Array, Array]:
        """Return kind, place of the last open bracket, and depth after a further symbol.

        The kind is that of the symbol. The first axis of `symbols` is that of the rows.
        """
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

    def values(self, state: BracketState, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return 0 for each row whose prefix is accepted, and -inf for the others."""
        depth = state.depth[jnp.arange(view.lengths.shape[0]), state.lengths]
        return log_of(self._may(depth, state.lengths, view.whole))

    def children(
        self, state: BracketState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return 0 for each row and further symbol that are accepted, and -inf for the others."""
        symbols = jnp.broadcast_to(jnp.arange(whole.shape[1], dtype=jnp.int32), whole.shape)
        return log_of(self._may(self._after(state, symbols)[2], (state.lengths + 1)[:, None], whole))

    def _may(self, depth: Array, lengths: Array, whole: Array) -> Bool[Array, "rows ..."]:
        """Return whether a prefix can become a string of the language, or is one if it is whole."""
        if not self.closed:
            return depth != WRONG
        left = self.n_cells - lengths
        fits = (depth <= left) & ((left - depth) % 2 == 0 if not self.others else True)
        return (depth != WRONG) & jnp.where(whole, depth == 0, fits)
