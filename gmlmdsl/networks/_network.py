"""Base classes of networks: functions of one row, over which callers map.

Codes outside a domain are hidden cells.

All passes and candidates of one row share the output of an encoder.
"""

from __future__ import annotations

import abc

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree


class Attention(eqx.Module):
    """The attention weights of one pass; each row sums to 1 over the last axis.

    Attributes:
        self_weights: the weights of every layer and head from each cell (third axis) to each cell.
        cross_weights: the weights from each cell to each given entry; None without an encoder.
        positional_weights: the weights of the positional sub-layers; None without them.
    """

    self_weights: Float[Array, "layers heads n n"]
    cross_weights: Float[Array, "layers heads n m"] | None = None
    positional_weights: Float[Array, "layers heads n n"] | None = None


class AbstractLengthHead(eqx.Module):
    """A predictor of the number of cells of a row.

    Attributes:
        needs_place: whether it reads the encoder's output at an additional place.
    """

    needs_place: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def scores(self, encoded: PyTree) -> Float[Array, " lengths"]:
        """Return a log score of every length; entry k belongs to length k + 1.

        The scores of a head that is not a classifier are defined up to a constant.
        """

    @abc.abstractmethod
    def loss(self, encoded: PyTree, length: Int[Array, ""]) -> Float[Array, ""]:
        """Return the loss of one row whose length is known."""


class AbstractNetwork(eqx.Module):
    """The conditionals p(x_i | x_rest, K) of the cells of one row, all in one pass.

    A cell is a code 0..q-1, or q if it is hidden. Cells at positions >= `length` are padding, and
    no result depends on their codes. All leaves are trainable arrays of one float type, in which
    the network computes. Sums of squares, softmax and logits are computed in float32 at least.

    Attributes:
        n_values: q.
        length_head: the length head; None if lengths are not predicted.
        length_weight: the weight of a row's length loss relative to its loss of cells.
    """

    n_values: eqx.AbstractVar[int]
    length_head: eqx.AbstractVar[AbstractLengthHead | None]
    length_weight: eqx.AbstractVar[float]

    @abc.abstractmethod
    def encode(self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None) -> PyTree:
        """Return the arrays that depend only on the given arrays, for all passes and candidates.

        Args:
            given: one vector for each given variable: codes, or real numbers.
            lengths: the number of entries of each vector that are not padding.
            key: the key of dropout; None for no dropout.
        """

    @abc.abstractmethod
    def prepare(self, encoded: PyTree, length: Int[Array, ""], n: int) -> PyTree:
        """Return the arrays that depend only on the row's length, for all passes.

        Args:
            encoded: the result of `encode`.
            length: the number of cells that are not padding.
            n: the width of `seen`.
        """

    @abc.abstractmethod
    def logits(
        self, encoded: PyTree, prepared: PyTree, seen: Int[Array, " n"], length: Int[Array, ""], *, key: PRNGKeyArray | None = None
    ) -> Float[Array, "n values"]:
        """Return unnormalised log p(x_i | x_rest, K) of every cell.

        Args:
            encoded: the result of `encode`.
            prepared: the result of `prepare`.
            seen: the codes of the cells. It may be narrower than the declared number of cells.
            length: the number of cells that are not padding.
            key: the key of dropout; None for no dropout.
        """

    @abc.abstractmethod
    def attention(self, encoded: PyTree, prepared: PyTree, seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the attention weights of one pass.

        Args:
            encoded: the result of `encode`.
            prepared: the result of `prepare`.
            seen: the codes of the cells.
            length: the number of cells that are not padding.

        Raises:
            GmlmError: E738 for a network without attention.
        """


class AbstractCausalNetwork(AbstractNetwork):
    """A network whose logits of a cell depend only on the cells before it.

    p(x) is the product of its conditionals, and rows are drawn cell by cell. The result of
    `prepare` depends only on the width, not on the given arrays.

    Attributes:
        start: the input at the first cell, as wide as a state.
    """

    start: eqx.AbstractVar[Float[Array, " width"]]

    @property
    @abc.abstractmethod
    def n_layers(self) -> int:
        """The number of layers of the stack over the cells."""

    @abc.abstractmethod
    def first_layers(self, n: int) -> AbstractCausalNetwork:
        """Return the network with its first n layers, followed by its last norm."""

    @abc.abstractmethod
    def begin(self, n: int) -> PyTree:
        """Return an empty cache for at most `n` cells."""

    @abc.abstractmethod
    def enter(
        self, encoded: PyTree, prepared: PyTree, cache: PyTree, previous: Int[Array, " m"], t: Int[Array, ""]
    ) -> tuple[Float[Array, "m width"], PyTree]:
        """Return the last layer's states at cells t .. t + m - 1, and the updated cache.

        Each state depends on the cells before its cell. Entries of the cache at cell t and after it
        are overwritten and never read. To go back is therefore to enter at a lower t.

        Args:
            encoded: the result of `encode`.
            prepared: the result of `prepare`.
            cache: the cache of all cells before `t` except the last one.
            previous: the codes of cells t - 1 .. t + m - 2. The first is ignored at t = 0.
            t: the first of the cells.
        """

    @abc.abstractmethod
    def read(self, states: Float[Array, "m width"]) -> Float[Array, "m values"]:
        """Return unnormalised log p(x_i | x_<i) from the last layer's states at cells i."""

    def advance(
        self, encoded: PyTree, prepared: PyTree, cache: PyTree, previous: Int[Array, ""], t: Int[Array, ""]
    ) -> tuple[Float[Array, " values"], PyTree]:
        """Return unnormalised log p(x_t | x_<t), and the cache of the cells before t + 1.

        The function is `enter` for one cell, followed by `read`.

        Args:
            encoded: the result of `encode`.
            prepared: the result of `prepare`.
            cache: the cache, as in `enter`.
            previous: the code of cell t - 1.
            t: the cell.
        """
        states, cache = self.enter(encoded, prepared, cache, previous[None], t)
        return self.read(states)[0], cache


class Encoding(eqx.Module):
    """The encoded given arrays of one row.

    Attributes:
        states: the encoder's output at every given entry.
        shown: a mask of the entries that are not padding.
        length: the number of these entries.
        place: the output at an additional place before all entries, from which a classifier reads
            the length; None without a classifier.
        keys: the keys of cross-attention in every layer of the decoder.
        values: the values of cross-attention in every layer of the decoder.
    """

    states: Float[Array, "m width"]
    shown: Bool[Array, " m"]
    length: Int[Array, ""]
    place: Float[Array, " width"] | None
    keys: tuple[Float[Array, "heads size m"], ...]
    values: tuple[Float[Array, "heads m size"], ...]
