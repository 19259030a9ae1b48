"""Queries of a conditional model: its loss, conditional tables and small transition matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, listed
from .._types import ArrayLike, Given, Missing, Rows
from ..data import (
    NetworkRows,
    bound_to_rows,
    given_arrays,
    is_traced,
    network_rows,
    present_lengths,
    random_key,
    standard_widths,
    verified_key,
    verified_weights,
    whole_numbers,
)
from ..derive import NetworkLoss, bounded_jit, fold, noisy_mask, on_device, visit_law
from ..graph import Corruption, FactorGraph, Lowered, NetworkForm, lower_corruption, refinement
from ..masks import VisitMask, lower_mask
from ..networks import AbstractCausalNetwork, build_network, network_shapes, parameter_counts
from ..plan import BUDGET
from ..program import ir
from ._named_conditionals import verified_block
from ._prefixes import prefix_codes
from ._row_sizes import answer
from .limits import MOST_ATTENTION_WEIGHTS, MOST_LOGITS, MOST_OPERATIONS, ROWS_PER_CALL

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..derive import Networks
    from ..networks import AbstractNetwork

Array = np.ndarray


def init_params(graph: FactorGraph, seed: int) -> dict[str, AbstractNetwork]:
    """Return random weights of the network, in a dict under the network's name."""
    assert graph.network is not None
    return {graph.network.label: build_network(graph.network, random_key(seed))}


def counts(form: NetworkForm) -> dict[str, int]:
    """Return the number of parameters of each part of the network."""
    return parameter_counts(network_shapes(form))


def loss(
    lowered: Lowered,
    params: Networks,
    x: Rows,
    mask: ir.Mask,
    weights: ArrayLike | None,
    key: jax.Array | int | None,
    n_masks: int | None,
    missing: Missing | None,
    given: Given | None,
) -> jax.Array:
    """Return the mean over rows of the mean loss over masks; see `ConditionalModel.loss`.

    Args:
        lowered: the model.
        params: the network under its name.
        x: the rows.
        mask: the mask of the loss.
        weights: weights of the rows; None weights all rows equally.
        key: a key with which masks are drawn; None sums over the support of the mask.
        n_masks: the number of masks drawn for each row.
        missing: the marker of missing cells in `x`.
        given: data of given variables.

    Raises:
        GmlmError: E505 if x has no rows; E507 for `n_masks` without a key; E602 if the loss has no
            affordable sum over masks and no key is given; E601 if the passes cost too much; E511
            for missing cells under a mask that looks at x.
    """
    rows = network_rows(lowered, x, missing, given)
    count, key = verified_count(n_masks), verified_key(key)
    if not rows.n_rows:
        raise fail("E505", "x has no rows")
    if key is None and n_masks is not None:
        raise fail("E507", "`n_masks=` says how many masks are drawn, and there is no `key=` to draw them with")
    verify_known(mask, lowered, rows)
    found, corruption = mask_loss(lowered, mask, count)
    whole = any(law.groups() for law in found.mask.laws)
    if whole and lowered.graph.given:
        lowered = bound_to_rows(lowered, rows, given)
        found, corruption = mask_loss(lowered, mask, count)
    w = np.ones(rows.n_rows) if weights is None else verified_weights(rows.matched(weights, "weights"), rows.n_rows)
    found = NetworkLoss(found.mask, found.label, found.n_masks, 0.0, lowered.graph.n_random)
    _verify_passes(lowered, params, rows.n_rows, int(count))
    if key is None and corruption.is_certain and _has_one_block(lowered, mask):
        key, count = random_key(0), 1  # Nothing is random here, so every draw is the same.
    if key is None and not corruption.is_fixed:
        why = "is not random, but only losses of one stage in which every cell of K is hidden are summed over a list"
        why = why if corruption.is_certain else "is random: its loss has no sum over a list"
        message = f"what the network sees under mask `{mask.name}` {why}"
        raise fail("E602", message, mask.span, help="draw: `key=0, n_masks=16`")
    out = []
    for some in _pieces(lowered, rows.n_rows, params):
        part = rows.take(some)
        if key is None:
            out.append(_listed(lowered, params, part, mask))
        else:
            out.append(_drawn(found, params, on_device(part.codes), *device_given(part), key, on_device(some, np.uint32)))
    losses = _joined(out, rows.n_rows)
    mean = (losses * w).sum() / w.sum()
    return mean if is_traced(mean) else on_device(mean, losses.dtype)


def _verify_passes(lowered: Lowered, params: Networks, rows: int, n_masks: int) -> None:
    """Raise E601 if the passes through the network exceed the limit on operations.

    Raises:
        GmlmError: E601.
    """
    size = sum(a.size for a in jax.tree.leaves(params) if hasattr(a, "size"))
    operations = 2.0 * size * lowered.graph.n_random * rows * min(n_masks, 10**18)
    if operations > MOST_OPERATIONS:
        message = (
            f"{n_masks:,} masks for each of {rows:,} rows take {operations:.3g} operations, more than the limit of {MOST_OPERATIONS:.3g}"
        )
        raise fail("E601", message, help="a smaller `n_masks=`, or fewer rows")


def _has_one_block(lowered: Lowered, mask: ir.Mask) -> bool:
    found = lower_mask(lowered, mask)
    return not found.is_adaptive and found.support_size == 1


def _pieces(lowered: Lowered, rows: int, params: Networks) -> list[np.ndarray]:
    """Split rows into pieces of one size whose logits fit into memory.

    The last row is repeated to fill the last piece; `_joined` removes the repeats. Few sizes occur
    unless parameters are traced. With traced parameters the caller is compiled for the number of
    rows anyway.
    """
    size = max(1, MOST_LOGITS // (lowered.graph.n_random * int(lowered.graph.sizes.max())))
    size = min(size, rows if is_traced(params) else min(ROWS_PER_CALL, 1 << max(0, rows - 1).bit_length()))
    return [np.minimum(np.arange(start, start + size), rows - 1) for start in range(0, rows, size)]


def _joined(pieces: Sequence[jax.Array], rows: int) -> Any:
    """Concatenate the answers of pieces, whose first axis is rows, and drop the repeated rows.

    The result is on the host unless the pieces are traced.
    """
    if is_traced(pieces):
        return jnp.concatenate(pieces)[:rows]
    return np.concatenate([np.asarray(p) for p in pieces])[:rows]


class OfNetwork(eqx.Module):
    """Factory of a network's conditional for some rows of given data."""

    given: tuple[jax.Array, ...]
    given_lengths: tuple[jax.Array, ...]
    lengths: jax.Array

    def __call__(self, params: Networks, codes: jax.Array) -> derive.NetworkGraph:
        (label, network), *_ = params.items()
        encoded = derive.encode_rows(network, self.given, self.given_lengths, self.lengths.shape[0])
        return derive.network_graph(network, label, encoded, self.lengths, codes.shape[0])


def device_given(rows: NetworkRows) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Return the given data of rows on the device, and the number of their present entries."""
    given = tuple(on_device(np.maximum(g, 0) if g.dtype.kind != "f" else g) for g in rows.given)
    return given, tuple(on_device(present_lengths(g)) for g in rows.given)


@bounded_jit
def _drawn(
    found: NetworkLoss,
    params: Networks,
    codes: jax.Array,
    given: tuple[jax.Array, ...],
    lengths: tuple[jax.Array, ...],
    key: jax.Array,
    numbers: jax.Array,
) -> jax.Array:
    return found.rows(params, codes, given, lengths, fold(jnp.broadcast_to(key, numbers.shape), numbers))[0]


def _listed(lowered: Lowered, params: Networks, rows: NetworkRows, mask: ir.Mask) -> PyTree:
    """Return the loss of each row summed over the whole support of the mask.

    A block K of the support hides all of its cells.

    Raises:
        GmlmError: E602 if the support is too large, or if its blocks differ from row to row.
    """
    lowered_mask, n = lower_mask(lowered, mask), lowered.graph.n_random
    help = "draw some: `key=0, n_masks=16`"
    make = OfNetwork(*device_given(rows), on_device(present_lengths(rows.codes[:n].T)[:, None]))
    if isinstance(lowered_mask, VisitMask) and lowered_mask.has_one_path:
        law = derive.visit_law(lowered, lowered_mask)
        return -_along_path(make, law, params, on_device(rows.codes[:n]))
    if lowered_mask.support_size > BUDGET.support:
        message = f"mask `{mask.name}` has {lowered_mask.support_size:.3g} distinct blocks, more than the limit of {BUDGET.support}"
        raise fail("E602", message, mask.span, help=help)
    if isinstance(lowered_mask, VisitMask):
        return _bound(lowered, params, rows, lowered_mask, make, help)
    blocks, probabilities = lowered_mask.enumerate_blocks()
    padded = bool((rows.codes[:n] < 0).any())
    if probabilities is None or (padded and lowered_mask.counts_cells):
        # `mask.given` is empty for a mixture, whose parts name the given variables.
        looks = f"looks at {listed(mask.given)}" if mask.given else "looks at x"
        why = looks if probabilities is None else "draws subsets of a row's cells, and rows differ in length"
        raise fail("E602", f"mask `{mask.name}` {why}: its blocks differ from row to row", mask.span, help=help)
    held = np.zeros((len(blocks), lowered.graph.n_cells + 1), bool)
    held[np.arange(len(blocks))[:, None], blocks] = True
    codes, hidden, weights = (on_device(a) for a in (rows.codes[:n], held[:, :n], probabilities))
    return fixed_losses(make, params, codes, hidden, weights)


def _bound(lowered: Lowered, params: Networks, rows: NetworkRows, mask: VisitMask, make: OfNetwork, help: str) -> jax.Array:
    """Return a decoder's bound of -log p for each row, over every block K that it may hide.

    Raises:
        GmlmError: E602 for rows that differ in length.
    """
    n = lowered.graph.n_random
    if (rows.codes[:n] < 0).any():
        raise fail("E602", "a sampler's passes over rows that differ in length hide other cells", mask.span, help=help)
    temperature = float(refinement(mask.call, lowered.bound)["temperature"])  # type: ignore[arg-type]
    hidden, scored, weights = mask.scored_blocks()
    codes, held, weigh, counts = (on_device(a) for a in (rows.codes[:n], hidden[:, :n], weights, scored[:, :n]))
    return fixed_losses(make, params, codes, held, weigh, counts, temperature)


@bounded_jit
def _along_path(make: OfNetwork, law: derive.VisitLaw, params: Networks, codes: jax.Array) -> jax.Array:
    return law.log_p(make(params, codes), params, jnp.maximum(codes, 0), codes >= 0)


@bounded_jit
def fixed_losses(
    make: Any,
    params: Networks,
    codes: jax.Array,
    held: jax.Array,
    probabilities: jax.Array,
    scored: jax.Array | None = None,
    temperature: float = 1.0,
) -> jax.Array:
    """Return `fixed_loss` of the conditional that a factory makes for some rows."""
    return derive.fixed_loss(make(params, codes), params, codes, held, probabilities, scored, temperature)


@bounded_jit
def _graph(make: OfNetwork, params: Networks, codes: jax.Array) -> derive.NetworkGraph:
    return make(params, codes)


def log_prob(lowered: Lowered, params: Networks, x: Rows, missing: Missing | None, given: Given | None) -> jax.Array:
    """Return log p of rows under a causal network.

    It is the sum over the cells i of a row of log p(x_i | the cells before i).

    Args:
        lowered: the model.
        params: its network.
        x: the rows.
        missing: the marker of missing cells in `x`.
        given: data of given variables.

    Raises:
        GmlmError: E511 for rows with a missing cell before their end.
    """
    graph = lowered.graph
    rows, n = network_rows(lowered, x, missing, given), graph.n_random
    lengths = present_lengths(rows.codes[:n].T)
    if ((rows.codes[:n] < 0) & (np.arange(n)[:, None] < lengths)).any():
        raise fail("E511", "x lacks cells before the end of a row, and the cells behind them depend on them", help="leave these rows out")
    out = []
    for some in _pieces(lowered, rows.n_rows, params):
        part, own = rows.take(some), lengths[some]
        # Padding dominates the cost of short rows, so that the width is cut to that of the longest
        # row.
        width = min(standard_widths(int(own.max(initial=1)))[-1], n)
        make = OfNetwork(*device_given(part), on_device(own[:, None]))
        out.append(_log_prob(make, params, on_device(part.codes[:width])))
    return answer(_joined(out, rows.n_rows) if out else np.zeros(0, derive.float_type()), rows.shape)


def next_symbol(lowered: Lowered, params: Networks, prefix: ArrayLike, given: Given | None, missing: Missing | None = None) -> np.ndarray:
    """Return p(x_t | the cells before t) under a causal network, for prefixes of t cells each.

    All prefixes have one length t, and x_t is the first cell after them.

    Args:
        lowered: the model.
        params: its network.
        prefix: the prefixes.
        given: data of given variables.
        missing: the value that marks padding in given data.

    Returns:
        Array of shape (rows.., values).

    Raises:
        GmlmError: as `prefix_codes`.
    """
    arrays, shape = given_arrays(lowered, given, missing)
    codes, cell, lead = prefix_codes(lowered.graph, prefix, shape if lowered.graph.given else None)
    count, n, q = codes.shape[1], lowered.graph.n_random, int(lowered.graph.sizes.max())
    rows = NetworkRows(codes, tuple(np.broadcast_to(g, (count, g.shape[1])) for g in arrays), lead)
    out = []
    for some in _pieces(lowered, count, params) if count else ():
        part = rows.take(some)
        make = OfNetwork(*device_given(part), on_device(np.full((part.n_rows, 1), n, np.int32)))
        out.append(_next(make, params, on_device(part.codes[:n]), on_device(cell, np.int32)))
    return np.asarray(_joined(out, count) if out else np.zeros((0, q), derive.float_type())).reshape(*lead, q)


@bounded_jit
def _next(make: OfNetwork, params: Networks, codes: jax.Array, cell: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.take(make(params, codes).logits(params, codes), cell, axis=1), axis=-1)


def features(lowered: Lowered, params: Networks, prefixes: np.ndarray, given: Given | None) -> np.ndarray:
    """Return the last layer's state of a causal network at the last cell of each prefix.

    Args:
        lowered: the model.
        params: its network.
        prefixes: codes, shape (prefixes, cells), with -1 after the last cell of each prefix.
        given: data of given variables, one row for each prefix or one for all.

    Returns:
        Array of shape (prefixes, width).

    Raises:
        GmlmError: E510 if the rows of given data do not match the prefixes.
    """
    arrays, shape = given_arrays(lowered, given, None)
    count = len(prefixes)
    if shape not in ((), (count,)):
        raise fail("E510", f"given: rows of shape {shape}, and there are {count} prefixes")
    rows = NetworkRows(prefixes.T, tuple(np.broadcast_to(g, (count, g.shape[1])) for g in arrays), (count,))
    out = []
    for some in _pieces(lowered, count, params):
        part = rows.take(some)
        out.append(_features(params, *device_given(part), on_device(part.codes.T)))
    return _joined(out, count)


@bounded_jit
def _features(params: Networks, given: tuple[jax.Array, ...], given_lengths: tuple[jax.Array, ...], prefixes: jax.Array) -> jax.Array:
    (network,) = params.values()
    assert isinstance(network, AbstractCausalNetwork)
    encoded = derive.encode_rows(network, given, given_lengths, prefixes.shape[0])
    oracle = derive.CausalOracle(network, encoded, prefixes.shape[1])
    return oracle.features(oracle.start(prefixes))


def is_causal(graph: FactorGraph) -> bool:
    """Return whether the network sees only the cells before each cell."""
    assert graph.network is not None
    return graph.network.options.get("causal") is True


def verify_causal(graph: FactorGraph) -> None:
    """Raise E742 unless the network is causal; only causal networks define log p.

    Raises:
        GmlmError: E742.
    """
    if not is_causal(graph):
        raise derive.no_joint(graph)


def verify_all_seen(graph: FactorGraph) -> None:
    """Raise E742 if the network is causal; a causal network does not define p(x_i | x_rest).

    Raises:
        GmlmError: E742.
    """
    if is_causal(graph):
        assert graph.network is not None
        message = "a `causal` network gives p(x_i | the cells before it), and no p(x_i | x_rest)"
        help = "ask for `log_prob`, or `loss` under a mask with `noise = {keep: 1}`"
        raise fail("E742", message, graph.network.span, "sees the cells before", help=help)


@bounded_jit
def _log_prob(make: OfNetwork, params: Networks, codes: jax.Array) -> jax.Array:
    logits = make(params, codes).logits(params, codes)
    return -jnp.where(codes >= 0, derive.negative_log(logits, codes), 0.0).sum(axis=0)


def log_conditional(lowered: Lowered, params: Networks, x: Rows, K: Sequence[int] | int, given: Given | None) -> jax.Array:
    """Return the sum of log p(x_i | x_rest, K) over the cells i of K, for every joint value of K.

    The network predicts the cells of K independently of one another.

    Args:
        lowered: the model.
        params: its network.
        x: the rows.
        K: positions of the hidden cells.
        given: data of given variables.

    Returns:
        Array of shape (rows.., values of the first cell of K, .., values of its last cell).

    Raises:
        GmlmError: E742 for a causal network; E601 if the table is too large; E504 if x lacks cells
            outside K.
    """
    verify_all_seen(lowered.graph)
    host, rows = lowered.graph, network_rows(lowered, x, None, given)
    cells = verified_block(host, K)
    q = int(host.sizes.max())
    entries = float(q) ** len(cells) * rows.n_rows
    if entries > MOST_LOGITS:
        message = f"the table over {len(cells)} cells of {q} values for {rows.n_rows:,} rows has {entries:.3g} entries"
        raise fail("E601", f"{message}, more than the limit of {MOST_LOGITS:,}", help="ask for one cell at a time: they are independent")
    held = np.zeros((host.n_random, 1), bool)
    held[cells] = True
    if ((rows.codes[: host.n_random] < 0) & ~held).any():
        raise fail("E504", "x lacks cells that are not in K", help="ask about whole rows, or put these cells into K: they are hidden then")
    found = []
    for some in _pieces(lowered, rows.n_rows, params):
        part = rows.take(some)
        make = OfNetwork(*device_given(part), on_device(np.full((part.n_rows, 1), host.n_random, np.int32)))
        found.append(_own_tables(make, params, on_device(part.codes[: host.n_random]), on_device(held)))
    tables = _joined(found, rows.n_rows)[:, cells]
    out = tables[:, 0]
    for m in range(1, len(cells)):
        out = out[..., None] + tables[:, m].reshape(-1, *(1,) * m, q)
    return answer(out, (*rows.shape, *out.shape[1:]))


def log_hidden(lowered: Lowered, params: Networks, codes: Array, hidden: Array, given: tuple[Array, ...]) -> Array:
    """Return the sum over hidden cells i of log p(x_i | the visible cells) of rows with one input.

    The hidden cells of a row are predicted in one pass, independently of one another. Few programs
    are compiled: one for each power of two of rows and each standard width.

    Args:
        lowered: the model.
        params: its network.
        codes: the codes of whole rows, shape (rows, cells), -1 after the length of each.
        hidden: which cells the network does not see, shape (rows, cells).
        given: the codes of each given variable, shape (1, entries), -1 for padding.

    Returns:
        Array of shape (rows,).

    Raises:
        GmlmError: E742 for a causal network.
    """
    verify_all_seen(lowered.graph)
    lengths, n = present_lengths(codes), lowered.graph.n_random
    width = min(standard_widths(int(lengths.max(initial=1)))[-1], n)
    most = max(1, MOST_LOGITS // (width * int(lowered.graph.sizes.max())))
    count = 1 << min(max(len(codes) - 1, 0).bit_length(), most.bit_length() - 1)
    make, found = device_given(NetworkRows(codes[:1].T, given, (1,))), []
    for start in range(0, len(codes), count):
        some = np.minimum(np.arange(start, start + count), len(codes) - 1)
        of = OfNetwork(*make, on_device(lengths[None, some]))
        found.append(_log_hidden(of, params, on_device(codes[some, :width].T), on_device(hidden[some, :width].T)))
    return _joined(found, len(codes))


@bounded_jit
def _log_hidden(make: OfNetwork, params: Networks, codes: jax.Array, hidden: jax.Array) -> jax.Array:
    graph = make(params, codes)
    logits = graph.logits(params, jnp.where(hidden, graph.most_values, codes))
    return -jnp.where(hidden & (codes >= 0), derive.negative_log(logits, codes), 0.0).sum(axis=0)


@bounded_jit
def _own_tables(make: OfNetwork, params: Networks, codes: jax.Array, held: jax.Array) -> jax.Array:
    return derive.cell_tables(make(params, codes), params, codes, held)


@bounded_jit
def _tables(graph: derive.NetworkGraph, params: Networks, codes: jax.Array, held: jax.Array) -> jax.Array:
    return derive.cell_tables(graph, params, codes, held)


def attention(
    lowered: Lowered, params: Networks, x: Rows, given: Given | None, missing: Missing | None, lengths: ArrayLike | None = None
) -> dict[str, np.ndarray]:
    """Return the attention weights of one pass over rows, by kind.

    The network sees a missing cell within a row as hidden.

    Args:
        lowered: the model.
        params: its network.
        x: the rows.
        given: data of given variables.
        missing: the marker of missing cells in `x`.
        lengths: the length of each row, or one length for all rows; None ends each row at its last
            value.

    Raises:
        GmlmError: E507 for lengths that do not fit the rows; E601 if there are too many weights.
    """
    rows = network_rows(lowered, x, missing, given)
    n = lowered.graph.n_random
    seen = rows.codes[:n].T
    ends = shown = present_lengths(seen)
    if lengths is not None:
        stated = whole_numbers(lengths, "lengths")
        if stated is None or stated.shape not in ((), shown.shape):
            raise fail("E507", f"lengths must be whole numbers, one or one for each of {len(shown)} rows, got {lengths!r:.60}")
        ends = np.broadcast_to(np.clip(stated, 0, n + 1).astype(np.int32), shown.shape)
        if ((ends < shown) | (ends > n)).any():
            raise fail("E507", f"lengths of rows lie between the place of their last value and {n}, got {ends.min()} to {ends.max()}")
    seen = np.where((seen < 0) & (np.arange(n) < ends[:, None]), int(lowered.graph.sizes.max()), seen)
    arguments = (params, *device_given(rows), on_device(seen), on_device(ends))
    entries = sum(float(np.prod(a.shape)) for a in jax.tree.leaves(eqx.filter_eval_shape(_attention, *arguments)))
    if entries > MOST_ATTENTION_WEIGHTS:
        message = f"the attention of {rows.n_rows:,} rows has {entries:.3g} weights"
        message += f", more than the limit of {MOST_ATTENTION_WEIGHTS:.3g}"
        raise fail("E601", message, help="take fewer rows at a time")
    found = _attention(*arguments)
    kinds = {"self": found.self_weights, "cross": found.cross_weights, "positional": found.positional_weights}
    return {k: np.asarray(v) for k, v in kinds.items() if v is not None}


@bounded_jit
def _attention(
    params: Networks, given: tuple[jax.Array, ...], given_lengths: tuple[jax.Array, ...], seen: jax.Array, lengths: jax.Array
) -> PyTree:
    (network,) = params.values()

    def one(given: tuple[jax.Array, ...], given_lengths: tuple[jax.Array, ...], seen: jax.Array, length: jax.Array) -> PyTree:
        encoded = network.encode(given, given_lengths)
        return network.attention(encoded, network.prepare(encoded, length, seen.shape[0]), seen, length)

    return jax.vmap(one)(given, given_lengths, seen, lengths)


def transition_matrix(lowered: Lowered, params: Networks, sampler: ir.Sampler, given: Given | None) -> np.ndarray:
    """Return the transition matrix of one run of an update sampler, over all configurations.

    Args:
        lowered: the model.
        params: its network.
        sampler: the sampler.
        given: one row of given data.

    Raises:
        GmlmError: E507 for a decoder.
    """
    if isinstance(sampler.body, ir.FormCall):
        message = f"sampler `{sampler.name}` decodes: its draw depends on no draw before it, so it has a distribution and no matrix"
        raise fail("E507", message, sampler.span, "a decoder", help="draw from it: `sample(.., draws=1000)`")
    return updates_matrix(lowered, params, sampler.body, given)


def updates_matrix(lowered: Lowered, params: Networks, body: Sequence[ir.Kernel], given: Given | None) -> np.ndarray:
    """Return the transition matrix of a sequence of updates, over all configurations.

    Args:
        lowered: the model.
        params: its network.
        body: the updates in order.
        given: one row of given data.
    """
    with jax.enable_x64(True):
        states = derive.all_states(lowered.graph, what="the transition matrix").shape[1]
        wide, graph = _over_states(lowered, params, states, given, "a transition matrix")
        return derive.NetworkTransitions(lowered, wide, graph).matrix(body)


def tables(lowered: Lowered, params: Networks, codes: np.ndarray, held: np.ndarray, given: Given | None) -> np.ndarray:
    """Return log p(x_i | x_rest, K) of every cell for each of the configurations, in float64.

    Args:
        lowered: the model.
        params: its network.
        codes: configurations, shape (cells, configurations).
        held: the cells of K in each configuration, shape (cells, configurations or 1).
        given: one row of given data.

    Returns:
        Array of shape (configurations, cells, values); only the entries of cells in K are
            meaningful.
    """
    verify_all_seen(lowered.graph)
    with jax.enable_x64(True):
        wide, graph = _over_states(lowered, params, codes.shape[1], given, "tables of conditionals")
        return np.asarray(_tables(graph, wide, on_device(codes, np.int32), on_device(held)))


def _over_states(
    lowered: Lowered, params: Networks, states: int, given: Given | None, what: str
) -> tuple[dict[str, AbstractNetwork], derive.NetworkGraph]:
    """Return the network in float64, and its graph for many configurations given one row of data.

    Raises:
        GmlmError: E510 unless given data are a single row.
    """
    arrays, shape = given_arrays(lowered, given, None)
    if shape != ():
        raise fail("E510", f"given: {what} takes one row, without an axis of rows; got rows of shape {shape}")
    wide = {k: jax.tree.map(_as_double, v) for k, v in params.items()}
    rows = NetworkRows(np.zeros((lowered.graph.n_cells, 1), np.int32), arrays, ())
    n = lowered.graph.n_random
    make = OfNetwork(*device_given(rows), on_device(np.full((1, states), n), np.int32))
    return wide, _graph(make, wide, on_device(rows.codes[:n]))


def _as_double(leaf: PyTree) -> PyTree:
    return leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf


def mask_loss(
    lowered: Lowered, mask: ir.Mask, n_masks: int = 1, smoothing: float = 0.0, kind: str = "cross_entropy"
) -> tuple[NetworkLoss, Corruption]:
    """Return the loss of a network under a mask, and the mask's noise.

    Args:
        lowered: the model.
        mask: the mask.
        n_masks: the number of masks drawn for each row.
        smoothing: the label smoothing.
        kind: the kind of loss.

    Raises:
        GmlmError: E702 for a mask that mentions a parameter.
    """
    network = lowered.graph.network
    assert network is not None
    if mask.mentions_parameter:
        raise fail("E702", f"mask `{mask.name}` mentions a parameter: it may sample, not fit", mask.span, "mentions a parameter")
    found = lower_corruption(lowered.bound, mask.body)
    drawn = lower_mask(lowered, mask) if mask.body.is_visits else None
    law = visit_law(lowered, drawn) if isinstance(drawn, VisitMask) else noisy_mask(lowered, found)
    return NetworkLoss(law, network.label, n_masks, smoothing, kind=kind), found


def verified_count(n_masks: object) -> int:
    """Return the number of masks drawn for a row, by default 1.

    Raises:
        GmlmError: E507 for anything but a whole number above 0.
    """
    if n_masks is None:
        return 1
    if not isinstance(n_masks, int | np.integer) or isinstance(n_masks, bool) or n_masks < 1:
        raise fail("E507", f"n_masks must be a whole number above 0 or None, got {n_masks!r}")
    return int(n_masks)


def verify_known(mask: ir.Mask, lowered: Lowered, rows: NetworkRows) -> None:
    """Raise E511 if cells are missing, as padding too, under a mask that looks at x.

    The weights of such a mask have no value at missing cells.

    Raises:
        GmlmError: E511.
    """
    if lower_mask(lowered, mask).is_adaptive and (rows.codes[: lowered.graph.n_random] < 0).any():
        message = f"mask `{mask.name}` looks at x, and some cells of x are missing or padding"
        raise fail("E511", message, mask.span, "looks at x", help="take a mask that does not look at x, or rows of full length")
