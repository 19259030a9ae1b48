"""Second-order sums of exponential families from local statistics, by matrix products.

A block has the scores s_v(r) of its values v at row r, and the derivatives phi_v(r) of the scores
by the parameters. The Hessian of its loss is the covariance of phi over the values.

Tables give phi_v = A_v z(r), with the indicators z of the block's contexts. The Hessian is then the
sum over pairs of values of A_v (sum_r w (p_v 1{v = u} - p_v p_u) z z') A_u'. These are products of
the few entries of z. The difference p_v - p_v^2 is computed as p_v times the sum of the other
probabilities.

If there are many pairs, or if phi comes from trees, the covariance is computed as a sum of squares.
With the values in an order, the squares are of each value's phi minus the mean of the phi of later
values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from ..derive import Blocks, Chunks, TabledBlocks, block_weights, bounded_jit, listed_second_order, quickly_compiled
from ._colouring import Colouring
from ._objective import Objective, finite, is_affine
from ._parameters import unflatten
from .limits import MANY_PRODUCTS, MOST_HELD_SCORES, MOST_HELD_STATISTICS

if TYPE_CHECKING:
    from jaxtyping import PyTree


Array = np.ndarray


@dataclass(frozen=True)
class Sums:
    """Sums over rows, with the gradient u_r = w_r grad loss_r of row r.

    Attributes:
        hessian: the Hessian of sum w loss.
        first: the sum of u_r.
        second: the sum of u_r u_r'.
        rows: the number of rows of positive weight.
    """

    hessian: Array
    first: Array
    second: Array
    rows: int

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def second_order(objective: Objective, vector: jax.Array, colours: Colouring) -> Sums:
    """Return the sums over all rows, in parameter space."""
    size, start = vector.shape[0], 0
    hessian, first, square, spread = np.zeros((size, size)), np.zeros(size), np.zeros((size, size), order="F"), objective.spread
    for more, sums, scores in _chunks(objective, vector, colours, False):
        u = scores[:-1]
        if spread is not None:  # each of these rows stands for several equal rows
            part = spread[start : start + u.shape[1]]
            u = u[:, : len(part)] * part
            start += len(part)
        hessian += more[:-1, :-1]
        first += sums[:-1]
        square = scipy.linalg.blas.dsyrk(1.0, u.T, beta=1.0, c=square, trans=1, overwrite_c=1)  # pyright: ignore[reportAttributeAccessIssue]
    second = square.T + square  # `dsyrk` fills one triangle only
    second[np.diag_indices(size)] *= 0.5
    return Sums(hessian, first, second, objective.n_rows)


def one_mask_moments(objective: Objective, vector: jax.Array, colours: Colouring) -> Array:
    """Return the sum over all rows of w^2 E_K g_K g_K', in parameter space.

    g_K is the gradient of the loss under the mask K.
    """
    size = vector.shape[0]
    if objective.repeated is not None:
        objective = dataclasses.replace(objective, weights=np.sqrt(objective.repeated[1]))
    return sum((found[0][:-1, :-1] for found in _chunks(objective, vector, colours, True)), np.zeros((size, size)))


def _chunks(objective: Objective, vector: jax.Array, colours: Colouring, one_mask: bool) -> Iterator[tuple[Array, ...]]:
    """Yield `_chunk_sums` of all rows, chunk by chunk."""
    slopes = colours.directions if colours.slopes is None else colours.slopes
    codes, weights = objective.host_codes, objective.host_weights
    chunk = _chunk(objective, colours, vector.shape[0])
    padding = -codes.shape[1] % chunk
    codes, weights = np.pad(codes, ((0, 0), (0, padding)), mode="edge"), np.pad(weights, (0, padding))
    one = dataclasses.replace(
        objective, gaps=None, gap_weights=None, masks=None, codes=None, weights=None, chunks=Chunks(0), rough=False, repeated=None
    )
    for start in range(0, codes.shape[1], chunk):
        rows = slice(start, start + chunk)
        found = _chunk_sums(one, vector, codes[:, rows], weights[rows], colours.directions, slopes, colours.seen, one_mask)
        yield tuple(np.asarray(a) for a in found)


def _chunk(objective: Objective, colours: Colouring, size: int) -> int:
    """Return the rows per chunk: all rows if their statistics and scores fit into memory."""
    loss, rows = objective.exact_loss, objective.codes.shape[1]
    count, each = len(colours.directions), [1]
    for b, t in zip(loss.blocks, loss.tabled, strict=True):
        if t is not None and by_pairs(t, count):
            each.append(count + 3 * seen_numbers(t))
        else:
            each.append(count * b.n_values * (1 if t is not None else b.cells.shape[0]))
    pieces = int(np.ceil(rows * max(max(each) / MOST_HELD_STATISTICS, size / MOST_HELD_SCORES)))
    return max(1, int(np.ceil(rows / max(pieces, 1))))


@quickly_compiled(lambda objective, vector, codes, *_: objective.products_of(codes) < MANY_PRODUCTS)
def _chunk_sums(
    objective: Objective,
    vector: jax.Array,
    codes: Any,
    weights: Any,
    directions: Any,
    slopes: PyTree,
    seen: tuple[PyTree, ...],
    one_mask: bool,
) -> tuple[jax.Array, ...]:
    """Return H, the sum of u_r, and u_r of some rows; with `one_mask` only the one-mask moments.

    u_r has the shape (parameters + 1, rows). The extra parameter collects the colours in which a
    block depends on no parameter.
    """
    size, loss = vector.shape[0] + 1, objective.exact_loss
    params = unflatten(objective.frame.host, vector)
    total = (jnp.zeros((size, size)),)
    if not one_mask:
        total = *total, jnp.zeros((size, codes.shape[1]))
    stacked = None if loss.tables is None else jnp.concatenate([loss.tables.entries(params)[None], slopes])
    for k, tabled in enumerate(loss.tabled):
        shares, correction = loss.shares(params, codes, k)
        if tabled is None:
            scores, phi = statistics(objective, loss.blocks[k], codes, vector, directions)
            by_block = (seen[k], shares, scores if correction is None else scores + correction, jnp.moveaxis(phi, 1, 0))
        else:
            excluded = tabled.excluded(codes)
            more = excluded if correction is None else correction if excluded is None else excluded + correction
            by_block = (seen[k], shares, more, None)
        here = loss.observed(codes, loss.blocks[k])
        tables = None if tabled is None else (tabled, stacked, tabled.indicators(codes, slopes.dtype))
        total = _summed(total, by_block, here, weights, tables, one_mask)
    return total if one_mask else (total[0], total[-1].sum(axis=1), total[-1])


def by_pairs(tabled: TabledBlocks, colours: int) -> bool:
    """Return whether pairs of values give a Hessian faster than squares do.

    Pairs take products of indicators. Squares take the derivatives of each value along the colours.
    """
    return tabled.blocks.n_values / 2 * seen_numbers(tabled) ** 2 < colours**2


def seen_numbers(tabled: TabledBlocks) -> int:
    """Return the length of z: the number of indicators of a block, plus one for the constant."""
    return 1 + sum(p.shape[3] * (p.shape[4] - 1) for p in tabled.places)


def _summed(
    total: tuple[jax.Array, ...], by_block: tuple[PyTree, ...], here: jax.Array, weights: jax.Array, tables: PyTree, one_mask: bool
) -> tuple[jax.Array, ...]:
    """Add the sums of a set of blocks to the total, one block after another."""
    tabled: TabledBlocks | None
    stacked: PyTree
    tabled, stacked, indicators = (None, None, None) if tables is None else tables
    places = None if tabled is None else (tabled.inside, tabled.places, tuple(c.of for c in tabled.contexts), tabled.blocks.valid[:, :, 0])

    pairs = tabled is not None and by_pairs(tabled, stacked.shape[0] - 1)

    def add(sums: tuple[jax.Array, ...], one: tuple[PyTree, ...]) -> tuple[tuple[jax.Array, ...], None]:
        (at, share, scores, phi), observed, mine = one
        if mine is None:
            return _with(sums, at, _squares(share, scores, phi, observed, weights, one_mask)), None
        maps, z = _maps(stacked, indicators, mine, weights.shape[0])
        # the first value has the score 0
        found = jnp.where(mine[-1][:, None], jnp.pad(maps[0] @ z, ((1, 0), (0, 0))), -jnp.inf)
        scores = found if scores is None else found + scores
        if pairs:
            return _with(sums, at, _products(share, scores, maps[1:], z, observed, weights, one_mask)), None
        several, values, numbers = maps[1:].shape
        phi = (maps[1:].reshape(several * values, numbers) @ z).reshape(several, values, weights.shape[0])
        phi = jnp.pad(phi, ((0, 0), (1, 0), (0, 0)))
        return _with(sums, at, _squares(share, scores, phi, observed, weights, one_mask)), None

    return jax.lax.scan(add, total, (by_block, here, places))[0]


def _maps(stacked: PyTree, indicators: PyTree, mine: tuple[PyTree, ...], rows: int) -> tuple[jax.Array, jax.Array]:
    """Return A_v and z of one block.

    A_v is of the scores and of each colour, with the shape (1 + colours, values - 1, numbers). z
    has the shape (numbers, rows).
    """
    inside, places, contexts, _ = mine
    made = jax.vmap(block_weights, (0, None, None))(stacked, inside, places)
    parts, seen = [made.constant[:, :, None]], [jnp.ones((1, rows), made.constant.dtype)]
    for w, z, of in zip(made.matrices, indicators, contexts, strict=True):
        several, values, columns, width = w.shape
        parts.append(w.reshape(several, values, columns * width))
        seen.append((z if of is None else z[of]).reshape(columns * width, rows))
    return jnp.concatenate(parts, axis=2), jnp.concatenate(seen)


def _with(sums: tuple[jax.Array, ...], at: jax.Array, found: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Add the sums of one block, at the parameter that it depends on in each colour."""
    square = sums[0].at[at[:, None], at[None]].add(found[0])
    return (square, *(of_rows.at[at].add(more) for of_rows, more in zip(sums[1:], found[1:], strict=True)))


def _products(
    share: jax.Array, scores: jax.Array, maps: jax.Array, z: jax.Array, observed: jax.Array, weights: jax.Array, one_mask: bool
) -> tuple[jax.Array, ...]:
    """Return H and u_r of one block, or its one-mask moments, by pairs of values.

    H and the moments have the shape (colours, colours), and u_r has the shape (colours, rows).
    """
    p = _shares_of(scores)
    rest = (1 - jnp.eye(p.shape[0], dtype=p.dtype)) @ p
    # derivative of the loss by the scores
    slope = jnp.where(jnp.arange(p.shape[0])[:, None] == observed[None], -rest, p)[1:]
    p, rest, (first, second) = p[1:], rest[1:], np.triu_indices(p.shape[0] - 1)

    def pair(_: None, at: tuple[jax.Array, jax.Array]) -> tuple[None, jax.Array]:
        v, u = at
        if one_mask:
            # a pair of equal values is halved, because every pair is counted twice
            by = jnp.where(v == u, 0.5, 1.0) * slope[v] * slope[u] * (share * weights**2)
        else:
            by = jnp.where(v == u, 0.5 * p[v] * rest[v], -p[v] * p[u]) * (share * weights)
        return None, (z * by[None]) @ z.T

    def value(total: jax.Array, one: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        return total + one[0] @ (z * (one[1] * share * weights)[None]), None

    colours, values, numbers = maps.shape
    # shape (pairs, numbers, numbers)
    found = jax.lax.scan(pair, None, (jnp.asarray(first), jnp.asarray(second)))[1]
    whole = jnp.zeros((values, numbers, values, numbers), z.dtype).at[first, :, second].set(found)
    flat = maps.reshape(colours, values * numbers)
    half = flat @ whole.reshape((values * numbers,) * 2) @ flat.T
    if one_mask:
        return (half + half.T,)
    of_rows = jax.lax.scan(value, jnp.zeros((colours, z.shape[1]), z.dtype), (jnp.moveaxis(maps, 1, 0), slope))[0]
    return half + half.T, of_rows


def _squares(
    share: jax.Array, scores: jax.Array, phi: jax.Array, observed: jax.Array, weights: jax.Array, one_mask: bool
) -> tuple[jax.Array, ...]:
    """Return the sums of `_products` as sums of squares.

    phi has the shape (colours, values, rows).
    """
    p = _shares_of(scores)
    mean = (phi * p[None]).sum(axis=1)  # shape (colours, rows)
    gradient = mean - jnp.take_along_axis(phi, observed[None, None], axis=1)[:, 0]
    if one_mask:
        one = gradient * (jnp.sqrt(share) * weights)[None]
        return (one @ one.T,)
    weighted = share * weights
    # The covariance as a sum of squares. The weight of value v is p_v s_v / (p_v + s_v), with the
    # sum s_v of the probabilities of later values. The square is that of phi_v minus the mean of
    # phi over later values.
    # sum over a value and all later values
    behind = jnp.flip(jnp.cumsum(jnp.flip(p, 0), axis=0), 0)
    after, rest = behind[1:], jnp.flip(jnp.cumsum(jnp.flip(phi * p[None], 1), axis=1), 1)[:, 1:]
    gap = phi[:, :-1] - rest / jnp.where(after > 0, after, 1.0)[None]
    size = jnp.where(behind[:-1] > 0, p[:-1] * after / jnp.where(behind[:-1] > 0, behind[:-1], 1.0), 0.0) * weighted[None]
    squares = (gap * jnp.sqrt(size)[None]).reshape(phi.shape[0], (phi.shape[1] - 1) * phi.shape[2])
    return squares @ squares.T, gradient * weighted[None]


def _shares_of(scores: jax.Array) -> jax.Array:
    """Return the probabilities of the values; zeros if no value is possible.

    No value is possible for a block that the mask cannot draw at this row.
    """
    top = scores.max(axis=0, keepdims=True)
    weights = jnp.exp(scores - jnp.where(jnp.isfinite(top), top, 0.0))
    total = weights.sum(axis=0, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


def statistics(
    objective: Objective, blocks: Blocks, codes: jax.Array, vector: jax.Array, directions: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the scores and their derivatives phi along the directions of the colours.

    Args:
        objective: the objective.
        blocks: a set of blocks.
        codes: the rows, (cells, rows).
        vector: the flat parameter vector.
        directions: the directions of the colours, (colours, parameters).

    Returns:
        Scores of shape (blocks, values, rows), -inf for impossible values, and phi of shape
            (colours, blocks, values, rows).
    """
    host, loss = objective.frame.host, objective.exact_loss

    def finite(v: jax.Array) -> jax.Array:
        scores = loss.by_trees(unflatten(host, v), codes, blocks)
        return jnp.where(jnp.isfinite(scores), scores, 0.0)

    scores = loss.by_trees(unflatten(host, vector), codes, blocks)
    return scores, jax.lax.map(lambda d: jax.jvp(finite, (vector,), (d,))[1], directions)


@quickly_compiled()
def gap_second_order(objective: Objective, vector: jax.Array, basis: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the Hessian and the scores of the rows that lack cells.

    The first is basis' H basis, with the Hessian H of the sum of c w_r loss_r. The second is u_r =
    c w_r grad loss_r along the basis, shape (rows, directions).
    """
    gaps, host = objective.gaps, objective.frame.host
    assert gaps is not None
    assert objective.gap_weights is not None
    hessian, scores = jnp.zeros((basis.shape[1], basis.shape[1])), jnp.zeros((gaps.count, basis.shape[1]))
    if gaps.listed is not None:
        weights = objective.gap_weights[gaps.places[0]]
        hessian, found = listed_second_order(gaps.listed, lambda v: unflatten(host, v), vector, basis, weights, is_affine(host))
        scores = scores.at[gaps.places[0]].set(found)
    if gaps.eliminated is not None:
        weights, rows = objective.gap_weights[gaps.places[1]], gaps.eliminated.rows

        def weighted(v: jax.Array) -> jax.Array:
            return weights * finite(rows(unflatten(host, v)), weights)

        def slope(d: jax.Array) -> tuple[jax.Array, jax.Array]:
            curved = jax.jvp(jax.grad(lambda v: weighted(v).sum()), (vector,), (d,))[1]
            return basis.T @ curved, jax.jvp(weighted, (vector,), (d,))[1]

        more, found = jax.lax.map(slope, basis.T)
        hessian, scores = hessian + more, scores.at[gaps.places[1]].set(found.T)
    return objective.factor * hessian, objective.factor * scores


def differences(objective: Objective, vector: jax.Array, colours: Colouring) -> Iterator[tuple[Array, Array]]:
    """Yield for each block its parameters, and the distinct differences phi(x) - phi(a).

    The differences are rows, over data rows x and values a of the block. The parameters are those
    that the block depends on.
    """
    keep = objective.host_weights > 0
    codes = np.unique(objective.host_codes[:, keep], axis=1)
    loss = objective.exact_loss
    for k, (blocks, seen) in enumerate(zip(loss.blocks, colours.seen, strict=True)):
        for b in range(blocks.cells.shape[0]):
            one = jax.tree.map(lambda a, b=b: a[b : b + 1], blocks)
            # Rows that do not observe a cell of the block are left out.
            held = codes[:, (codes[cells_of(one, loss.graph.n_cells)] >= 0).any(axis=0)]
            _, first = np.unique(held[neighbourhood(loss.graph, one)], axis=1, return_index=True)
            mine = seen[b] < vector.shape[0]
            tabled = loss.tabled[k]
            if not len(first):
                continue
            if tabled is not None and loss.is_plain[k]:
                possible, found, at = _of_tables(tabled, colours, mine, b, held[:, first])
            else:
                possible, found, at = _of_trees(objective, one, held, first, vector, colours)
                found = found[mine]
            gaps = found[:, at, np.arange(len(first))][:, None] - found  # colours, values, rows
            other = possible & possible[at, np.arange(len(first))] & (np.arange(found.shape[1])[:, None] != at)
            rows = np.round(gaps[:, other].T, 10)
            yield seen[b][mine], np.unique(rows[(rows != 0).any(axis=1)], axis=0)


def _of_tables(tabled: TabledBlocks, colours: Colouring, mine: Array, b: int, codes: Array) -> tuple[Array, Array, Array]:
    """Return the possible values, phi, and the observed value, of one block and some rows.

    phi is of the colours in which the block depends on a parameter.
    """
    assert colours.slopes is not None
    slopes = colours.slopes[mine]
    found = slopes[:, np.asarray(tabled.inside[b])].sum(axis=1)[:, :, None]  # colours, values, rows
    padded = np.concatenate([codes, np.zeros_like(codes[:1])])
    for c in tabled.contexts:
        which = np.arange(c.cells.shape[0]) if c.of is None else np.asarray(c.of)[b]
        members = padded[np.asarray(c.cells)[which]]
        # shape (columns, rows)
        value = (members * np.asarray(c.strides)[which][:, :, None]).sum(axis=1)
        value = np.where((members < 0).any(axis=1), c.places.shape[-1] - 1, value)
        places = np.asarray(c.places[b])  # shape (several, values, columns, width)
        for column in np.flatnonzero((places < slopes.shape[1] - 1).any(axis=(0, 1, 3))):
            found = found + slopes[:, places[:, :, column]].sum(axis=1)[:, :, value[column]]
    block = jax.tree.map(lambda a: np.asarray(a[b]), (tabled.blocks.cells, tabled.blocks.strides, tabled.blocks.radix))
    cells, strides, radix = (a[:, 0] for a in block)
    at = np.where((cells < len(codes))[:, None], padded[cells] * strides[:, None], 0).sum(axis=0)
    found = np.broadcast_to(found, (*found.shape[:2], codes.shape[1]))
    possible = np.arange(found.shape[1])[:, None] < radix.prod()
    return np.broadcast_to(possible, found.shape[1:]), found, at


def _of_trees(
    objective: Objective, one: Blocks, codes: Array, first: Array, vector: jax.Array, colours: Colouring
) -> tuple[Array, Array, Array]:
    """Return the possible values, phi of all colours, and the observed value, by trees."""
    # The number of rows is padded, so that few shapes are compiled.
    padded = np.resize(first, max(32, 1 << (len(first) - 1).bit_length()))
    found = _block_statistics(objective, one, jnp.asarray(codes[:, padded]), vector, jnp.asarray(colours.directions))
    alive, phi, here = (np.asarray(a)[..., : len(first)] for a in found)
    return alive[0], phi[:, 0], here[0]


@bounded_jit
def _block_statistics(
    objective: Objective, block: Blocks, codes: jax.Array, vector: jax.Array, directions: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the possible values, phi, and the observed value.

    Under a data-dependent mask a value must be possible given K too.
    """
    loss = objective.loss
    scores, phi = statistics(objective, block, codes, vector, directions)
    if loss.probabilities is None:  # type: ignore[union-attr]
        scores = scores + loss.correction(unflatten(objective.frame.host, vector), codes, block)  # type: ignore[union-attr]
    return jnp.isfinite(scores), phi, loss.observed(codes, block)  # type: ignore[union-attr]


def cells_of(block: Blocks, n_cells: int) -> Array:
    """Return the cells of one block."""
    cells = np.asarray(block.cells).ravel()
    return cells[cells < n_cells]


def neighbourhood(graph: object, block: Blocks) -> Array:
    """Return the cells of the factors that touch a block."""
    cells = [cells_of(block, graph.n_cells)]  # type: ignore[attr-defined]
    for group, touch in zip(graph.groups, block.touch, strict=False):  # type: ignore[attr-defined]
        instances = np.asarray(touch).ravel()
        cells.append(np.asarray(group.cells)[instances[instances >= 0]].ravel())
    found = np.unique(np.concatenate(cells))
    return found[found < graph.n_cells]  # type: ignore[attr-defined]
