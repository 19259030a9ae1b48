"""A network as a conditional: p(x_K | x_rest, K) as a product over cells, its loss and draws.

A `NetworkGraph` is to a conditional model what the arrays of a factor graph are to other models. It
holds everything that does not change from pass to pass, above all the encoding of each row of given
data. As everywhere, a state is `codes` of shape (cells, chains). The chains of one row of given
data are adjacent and share its encoding.

Outputs define no distribution if they are nan, +infinity, or only -infinity. A cell that would be
drawn from such outputs gets the code `UNDEFINED` and keeps it. A compiled loop therefore tests
nothing; the code that takes the results from the device checks them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from .._diagnostics import GmlmError, fail
from ..networks import AbstractNetwork
from ._energy import Codes
from ._membership import AbstractScoredMask
from ._picks import pick_token, token_words
from ._random import fold_apart, words_apart

STRATA = 2**31 - 1  # number to fold into a row's key
Given = tuple[Int[Array, "rows entries"], ...]
Networks = Mapping[str, AbstractNetwork]


class NetworkGraph(eqx.Module):
    """Data that all passes of a network over some rows share.

    Attributes:
        n_cells: the width of the network's input: later cells do not exist here.
        most_values: the number of values of a cell, which is also the code of a hidden cell.
        label: the network's name among the parameters.
        encoded: the encoding of each row of given data.
        prepared: for each chain, the data that depend only on its length; leading axes (rows,
            chains of a row).
        lengths: the length of each chain, shape (rows, chains of a row): later cells are padding.
    """

    n_cells: int = eqx.field(static=True)
    most_values: int = eqx.field(static=True)
    label: str = eqx.field(static=True)
    encoded: PyTree
    prepared: PyTree
    lengths: Int[Array, "rows chains_of_a_row"]

    @property
    def present(self) -> Bool[Array, "cells chains"]:
        """Cells that are not padding."""
        return jnp.arange(self.n_cells, dtype=self.lengths.dtype)[:, None] < self.lengths.reshape(1, -1)

    def logits(self, params: Networks, seen: Codes, keys: PRNGKeyArray | None = None) -> Float[Array, "chains cells values"]:
        """Return the unnormalised log p of every value of every cell, all cells at once.

        `seen` has the code `most_values` where a cell is hidden.
        """
        network = params[self.label]
        shape = (*self.lengths.shape, self.n_cells)
        keys = None if keys is None else keys.reshape(self.lengths.shape)

        def one(encoded: PyTree, prepared: PyTree, seen: Array, length: Array, key: PRNGKeyArray | None) -> Array:
            return network.logits(encoded, prepared, seen, length, key=key)

        out = over_chains(one, self.encoded, self.prepared, seen.T.reshape(shape), self.lengths, keys)
        # A single chain has the layout of a product whose rows are cells.
        if out.shape[:2] == (1, 1):
            return out.reshape(1, *out.shape[2:])
        # The reshape has values as the first axis, which is the layout of a product with a table of
        # values: XLA then transposes nothing.
        by_value = jnp.moveaxis(out, -1, 0)
        return jnp.moveaxis(by_value.reshape(by_value.shape[0], -1, self.n_cells), 0, -1)


def over_chains(one: Callable[..., PyTree], shared: PyTree, *own: PyTree) -> PyTree:
    """Return the results of a function for every chain, with leading axes (rows, chains of a row).

    A single chain is not mapped over, because a mapped slice or update of one is compiled to a
    gather or a scatter, which takes longer on a CPU.

    Args:
        one: the function of a row's shared arrays and of a chain's own.
        shared: the arrays that the chains of a row share, with a leading axis of rows.
        own: arrays with the leading axes (rows, chains of a row).
    """
    if jax.tree.leaves(own)[0].shape[:2] != (1, 1):
        return jax.vmap(lambda row, *chains: jax.vmap(lambda *chain: one(row, *chain))(*chains))(shared, *own)
    found = one(jax.tree.map(lambda a: a[0], shared), *jax.tree.map(lambda a: a[0, 0], own))
    return jax.tree.map(lambda a: a[None, None], found)


def encode(network: AbstractNetwork, given: Given, given_lengths: Given, rows: int, keys: PRNGKeyArray | None = None) -> PyTree:
    """Return the encodings of `rows` rows of given data.

    Args:
        network: the network.
        given: the arrays of given data.
        given_lengths: the length of each row of these arrays.
        rows: the number of rows.
        keys: a key for each row, for dropout; None: no dropout.
    """
    every = jax.vmap(lambda g, n, k: network.encode(g, n, key=k), in_axes=(0, 0, None if keys is None else 0), axis_size=rows)
    return every(given, given_lengths, keys)


def network_graph(
    network: AbstractNetwork, label: str, encoded: PyTree, lengths: Int[Array, "rows chains_of_a_row"], n_cells: int
) -> NetworkGraph:
    """Return the shared data of passes over chains of the given lengths.

    Args:
        network: the network.
        label: its name among the parameters.
        encoded: the encoding of each row of given data.
        lengths: the length of each chain.
        n_cells: the width of the network's input.
    """
    prepare = jax.vmap(jax.vmap(lambda e, n: network.prepare(e, n, n_cells), in_axes=(None, 0)))
    return NetworkGraph(n_cells, network.n_values, label, encoded, prepare(encoded, lengths), lengths)


def reducible(logits: Float[Array, "rows *shape values"]) -> tuple[Float[Array, ...], int]:
    """Return logits in the layout that a network's product has on a CPU, and the axis of values.

    Values are the first axis, so that XLA vectorises reductions over rows and cells, unless there
    is a single row, whose product has values last. Another layout would be transposed at each use.
    """
    return (logits, logits.ndim - 1) if logits.shape[0] == 1 else (jnp.moveaxis(logits, -1, 0), 0)


def likeliest(logits: Float[Array, "rows *shape values"]) -> tuple[Float[Array, ...], Int[Array, ...]]:
    """Return the maximum over values and its place; ties go to the first place.

    The result is that of `argmax`, which XLA does not vectorise on a CPU.
    """
    most = logits.shape[-1]
    values, axis = reducible(logits)
    top = values.max(axis=axis, keepdims=True)
    places = jax.lax.broadcasted_iota(jnp.int32, values.shape, axis)
    return top.squeeze(axis), jnp.minimum(jnp.where(values == top, places, most).min(axis=axis), most - 1)


def negative_log(logits: Float[Array, "chains cells values"], codes: Codes, smoothing: float = 0.0) -> Float[Array, "cells chains"]:
    """Return -log p of each cell's value.

    With `smoothing` s the loss is (1 - s) of that and s times the mean over all values.

    Reference: Szegedy et al. 2016 (label smoothing).
    """
    by_value = jnp.moveaxis(logits, -1, 0)
    total = jax.nn.logsumexp(by_value, axis=0)
    own = jnp.take_along_axis(by_value, jnp.maximum(codes.T, 0)[None], axis=0)[0]
    loss = total - own
    if smoothing:
        loss = (1 - smoothing) * loss + smoothing * (total - by_value.mean(axis=0))
    return loss.T


def squared_error(outputs: Float[Array, "chains cells values"], codes: Codes, smoothing: float = 0.0) -> Float[Array, "cells chains"]:
    """Return the sum over values v of (output v - target v)^2.

    The target is 1 at the cell's value and 0 elsewhere, smoothed as in `negative_log`. The
    minimiser over functions is p(x_i | ..) itself, as it is for -log p (Brier 1950).
    """
    by_value = jnp.moveaxis(outputs, -1, 0)
    q = by_value.shape[0]
    own = jnp.arange(q).reshape(-1, *(1,) * codes.ndim) == codes.T[None]
    target = own * (1 - smoothing) + smoothing / q
    return jnp.square(by_value - target).sum(axis=0).T


CELL_LOSSES = {"cross_entropy": negative_log, "squared": squared_error}


class NetworkLoss(eqx.Module):
    """Loss of a mask: the mean over `n_masks` draws of the sum over K of the losses of its cells.

    A draw is of K and of the codes that the network sees. The loss of a cell is -log p(x_i |
    x_rest, K), or, with `kind` "squared", the squared error of the outputs. The loss of a mask with
    several stages is the mean over the stages. The values that a stage feeds back are integers, so
    no gradient passes through them, and only cells of K change.
    """

    mask: AbstractScoredMask
    label: str = eqx.field(static=True)
    n_masks: int = eqx.field(static=True, default=1)
    smoothing: float = eqx.field(static=True, default=0.0)
    # the width of the network's input, if the rows of states are wider
    width: int | None = eqx.field(static=True, default=None)
    kind: str = eqx.field(static=True, default="cross_entropy")  # a key of CELL_LOSSES

    def rows(
        self,
        params: Networks,
        codes: Codes,
        given: Given,
        given_lengths: Given,
        keys: PRNGKeyArray,
        dropout: bool = False,
        strata: Float[Array, " rows"] | None = None,
    ) -> tuple[Float[Array, " rows"], Float[Array, " rows"], Float[Array, " rows"]]:
        """Return for each row the loss, E(|K|), and the loss of the predicted length.

        The last is 0 if no length is predicted. Codes of -1 are missing: after the last value they
        are padding, before it they are hidden and not scored.

        Args:
            params: parameters.
            codes: the rows, shape (cells, rows).
            given: the arrays of given data.
            given_lengths: the length of each row of these arrays.
            keys: a key for each row.
            dropout: whether the network drops out.
            strata: numbers in [0, 1) by which the rows of a batch are stratified over the passes of
                a sampler; None: each row has a number of its own.
        """
        network: AbstractNetwork = params[self.label]
        width = codes.shape[0] if self.width is None else self.width
        lengths, present = row_lengths(codes[:width]), (codes >= 0) & (jnp.arange(codes.shape[0]) < width)[:, None]
        encoded = encode(network, given, given_lengths, codes.shape[1], fold_apart(keys, 0) if dropout else None)
        graph = network_graph(network, self.label, encoded, lengths[:, None], width)

        if strata is None and self.mask.is_stratified:
            strata = words_apart(fold_apart(keys, STRATA), 1).number()[0]

        def drawn(total: Array, m: Array) -> tuple[Array, None]:
            u = None if strata is None else jnp.mod(strata + m / self.n_masks, 1.0)
            return total + self._stages(graph, params, codes, present, fold_apart(keys, m + 1), dropout, u), None

        total = jax.lax.scan(drawn, jnp.zeros(codes.shape[1]), jnp.arange(self.n_masks), unroll=self.n_masks == 1)[0]
        head = network.length_head
        size = jnp.zeros(codes.shape[1]) if head is None else jax.vmap(head.loss)(encoded, lengths)
        return total / self.n_masks, self.mask.mean_members(codes, present), size

    def _stages(
        self, graph: NetworkGraph, params: Networks, codes: Codes, present: Array, keys: PRNGKeyArray, dropout: bool, u: Array | None
    ) -> Array:
        n, total = graph.n_cells, jnp.zeros(codes.shape[1])
        # A stratified mask may evaluate the network, whose rows have this width.
        if self.mask.is_stratified:
            k = self.mask.drawn(graph, params, jnp.maximum(codes[:n], 0), present[:n], keys, u)
        else:
            k = self.mask.drawn(graph, params, jnp.maximum(codes, 0), present, keys, u)
        held, scored, seen = k.held[:n], k.scored[:n], jnp.where(present[:n], k.seen[:n], graph.most_values)
        for stage in range(self.mask.stages):
            logits = self.mask.tempered(graph.logits(params, seen, fold_apart(keys, 10 + 2 * stage) if dropout else None))
            losses = CELL_LOSSES[self.kind](logits, codes[:n], self.smoothing)
            total = total + jnp.where(scored, losses, 0.0).sum(axis=0) / self.mask.stages
            if stage + 1 < self.mask.stages:
                fed = self._fed_back(jax.lax.stop_gradient(logits), fold_apart(keys, 11 + 2 * stage))
                seen = jnp.where(held, fed.astype(seen.dtype), seen)
        return total if k.weight is None else total * k.weight

    def _fed_back(self, logits: Float[Array, "rows cells values"], keys: PRNGKeyArray) -> Codes:
        if not self.mask.sampled:
            return likeliest(logits)[1].T
        return pick_token(logits, token_words(keys, *logits.shape[1:]).transposed).T


def row_lengths(codes: Codes) -> Int[Array, " rows"]:
    """Return the place after the last value of each row."""
    return jnp.max(jnp.where(codes >= 0, jnp.arange(1, codes.shape[0] + 1)[:, None], 0), axis=0).astype(jnp.int32)


def fixed_loss(
    graph: NetworkGraph,
    params: Networks,
    codes: Codes,
    blocks: Bool[Array, "blocks cells"],
    probabilities: Float[Array, " blocks"],
    scored: Bool[Array, "blocks cells"] | None = None,
    temperature: float = 1.0,
) -> Float[Array, " rows"]:
    """Return the mean loss over all K of a mask.

    It is the sum over K of p(K) * sum over i in K of -log p(x_i | x_rest, K), with K hidden.

    Args:
        graph: the network over some rows.
        params: parameters.
        codes: the rows, shape (cells, rows), -1 for padding.
        blocks: every K.
        probabilities: p(K).
        scored: the cells of each K that count, None for all; with it the probabilities are weights
            that need not sum to 1.
        temperature: the number by which logits are divided.
    """
    present = codes >= 0

    def one(total: Array, item: tuple[Array, Array, Array]) -> tuple[Array, None]:
        block, counts, probability = item
        held = block[:, None] & present
        logits = graph.logits(params, jnp.where(held | ~present, graph.most_values, codes)) / temperature
        losses = jnp.where(counts[:, None] & present, negative_log(logits, codes), 0.0)
        return total + probability * losses.sum(axis=0), None

    return jax.lax.scan(one, jnp.zeros(codes.shape[1]), (blocks, blocks if scored is None else scored, probabilities))[0]


def cell_tables(graph: NetworkGraph, params: Networks, codes: Codes, held: Bool[Array, "cells 1"]) -> Float[Array, "chains cells values"]:
    """Return log p(x_i | x_rest, K) of every cell: K is hidden and the rest is seen.

    Only the tables of the cells of K are meant to be read.

    Args:
        graph: the network over some rows.
        params: parameters.
        codes: the rows, shape (cells, rows), -1 for padding.
        held: the cells of K.
    """
    seen = jnp.where(held | (codes < 0), graph.most_values, codes)
    return jax.nn.log_softmax(graph.logits(params, seen), axis=-1)


UNDEFINED = -1
CURE = (
    "its weights are too large, or not finite: the `reason` of its fit says whether training diverged; go back to an earlier "
    "checkpoint, or train again with a smaller learning rate or a smaller `clip`. A network of your own must put out finite numbers, "
    "-infinity at some values aside"
)


def has_no_distribution(logits: Float[Array, "*shape values"]) -> Bool[Array, "*shape"]:
    """Return whether logits do not define a distribution, that is, their maximum is not finite.

    nan counts as larger than every number.
    """
    values, axis = reducible(logits)
    return ~jnp.isfinite(values.max(axis=axis))


def undefined_outputs(network: str, where: str) -> GmlmError:
    """Return E747, the error for a network or other oracle whose outputs define no distribution.

    `where` names the place in the message.
    """
    message = f"{network} puts out nan, or other numbers that are not log probabilities, {where}: nothing can be drawn from them"
    return fail("E747", message, help=CURE)
