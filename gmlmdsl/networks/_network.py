"""What every network is: functions of one row, over which callers map; codes outside of a domain are hidden cells."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Attention(eqx.Module):
    """The attention weights of one pass; each row sums to 1 over the last axis.

    Attributes:
        self_weights: of every layer and head, from each cell (third axis) to each cell.
        cross_weights: from each cell to each given entry; None where there is no encoder.
        positional_weights: of the positional sub-layers; None where there are none.
    """

    self_weights: Float[Array, "layers heads n n"]
    cross_weights: Float[Array, "layers heads n m"] | None = None
    positional_weights: Float[Array, "layers heads n n"] | None = None


class AbstractLengthHead(eqx.Module):
    """Predicts how many cells a row has.

    Attributes:
        needs_place: whether it reads the encoder's output at a place of its own.
    """

    needs_place: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def scores(self, encoded: Any) -> Float[Array, " lengths"]:
        """A log score of every length, entry k of length k + 1, up to a constant where the head is no classifier."""

    @abc.abstractmethod
    def loss(self, encoded: Any, length: Int[Array, ""]) -> Float[Array, ""]:
        """The loss of one row whose length is known."""


class AbstractNetwork(eqx.Module):
    """The conditionals p(x_i | x_rest, K) of the cells of one row, all in one pass.

    A cell is a code 0..q-1, or q where it is hidden. Cells at positions >= `length` are padding:
    nothing depends on what they hold. All leaves are trainable arrays of one float type, and that
    type is computed with; sums of squares, softmax and logits in float32 at least.

    Attributes:
        n_values: q.
        length_head: None where lengths are not predicted.
        length_weight: the weight of a row's length loss beside its loss of cells.
    """

    n_values: eqx.AbstractVar[int]
    length_head: eqx.AbstractVar[AbstractLengthHead | None]
    length_weight: eqx.AbstractVar[float]

    @abc.abstractmethod
    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> Any:
        """What depends on the given arrays alone, for all passes and candidates.

        Args:
            given: one vector for each given variable: codes, or real numbers.
            lengths: how many of its entries are no padding.
            key: for dropout; None: no dropout.
        """

    @abc.abstractmethod
    def prepare(self, encoded: Any, length: Int[Array, ""], n: int) -> Any:
        """What depends on the row's length alone, for all passes; `n` is the width of `seen`."""

    @abc.abstractmethod
    def logits(
        self, encoded: Any, prepared: Any, seen: Int[Array, " n"], length: Int[Array, ""], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n values"]:
        """Unnormalised log p(x_i | x_rest, K) of every cell; `seen` may be narrower than the declared number of cells."""

    @abc.abstractmethod
    def attention(self, encoded: Any, prepared: Any, seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """The attention weights of one pass.

        Raises:
            GmlmError: E738 for a network without attention.
        """


class AbstractCausalNetwork(AbstractNetwork):
    """A network whose logits of a cell depend on no cell from it on: p(x) is their product, and rows are drawn cell by cell.

    What it prepares depends on the width alone, and on nothing that is given.

    Attributes:
        start: what enters at the first cell, as wide as a state.
    """

    start: eqx.AbstractVar[Float[Array, " width"]]

    @property
    @abc.abstractmethod
    def n_layers(self) -> int:
        """How many layers its cells pass."""

    @abc.abstractmethod
    def first_layers(self, n: int) -> AbstractCausalNetwork:
        """The network of its first n layers, with its last norm behind them."""

    @abc.abstractmethod
    def begin(self, n: int) -> Any:
        """What is kept of the cells before the first of at most `n`: nothing yet."""

    @abc.abstractmethod
    def enter(
        self, encoded: Any, prepared: Any, cache: Any, previous: Int[Array, " m"], t: Int[Array, ""]
    ) -> tuple[Float[Array, "m width"], Any]:
        """The last layer's states at cells t .. t + m - 1, each from the cells before it, and what is kept with those that entered.

        What the cache keeps at cell t and behind it is written over and never read, so that to go
        back is to enter at a lower t.

        Args:
            encoded: of `encode`.
            prepared: of `prepare`.
            cache: what is kept of the cells before `t`, all but its last one.
            previous: the codes of cells t - 1 .. t + m - 2; the first is of no meaning at t = 0.
            t: the first of the cells.
        """

    @abc.abstractmethod
    def read(self, states: Float[Array, "m width"]) -> Float[Array, "m values"]:
        """Unnormalised log p(x_i | x_<i) from the last layer's states at cells i."""

    def advance(
        self, encoded: Any, prepared: Any, cache: Any, previous: Int[Array, ""], t: Int[Array, ""]
    ) -> tuple[Float[Array, " values"], Any]:
        """Unnormalised log p(x_t | x_<t), and what is kept of the cells before t + 1; `enter` of one cell, read."""
        states, cache = self.enter(encoded, prepared, cache, previous[None], t)
        return self.read(states)[0], cache
