"""The loss of rows with missing cells: -log p(x_O) + log p(x_{O - K}), the missing cells summed out of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph
from ..plan import GapTerms
from ._arrays import Blocks, Graph, block_arrays, drawn_blocks, float_type
from ._conditional import logsumexp, pick_value, put_value
from ._energy import Codes, Params, evaluate_slots, local_scores, log_potential


class Parts(eqx.Module):
    """Instances of one group that touch a component in as many cells, one per entry.

    Attributes:
        group: which group. instances: (parts,). rows: the row of each. tables: the table that each adds to.
        cells, radix, strides: the component's cells among the instance's, (members, parts), and how their joint values are listed.
    """

    group: int = eqx.field(static=True)
    instances: Int[Array, "... parts"]
    rows: Int[Array, "... parts"]
    tables: Int[Array, "... parts"]
    cells: Int[Array, "... members parts"]
    radix: Int[Array, "... members parts"]
    strides: Int[Array, "... members parts"]


class Tables(eqx.Module):
    """Sums of factors over the joint values of some cells of a component, `count` of them with `values` entries each.

    Attributes:
        place: the tables of each term, (tables of a term, terms); `count` for padding.
        members: which of the component's cells they are over, (cells, tables of a term, terms). strides: how they are listed.
    """

    count: int = eqx.field(static=True)
    values: int = eqx.field(static=True)
    place: Int[Array, "... each terms"]
    members: Int[Array, "... cells each terms"]
    strides: Int[Array, "... cells each terms"]
    parts: tuple[Parts, ...]


class Gaps(eqx.Module):
    """Terms alike in size; see `plan.GapTerms`. Of a `GapLoss`, arrays have chunks in front.

    Attributes:
        rows: (terms,). cells, radix, strides: (members, terms). predicted: (members, terms). weights: (terms,).
        tables: a component's scores are sums of tables over few of its cells: a factor is evaluated for the values of its own cells only.
        values: the most joint values of a component.
    """

    rows: Int[Array, "... terms"]
    cells: Int[Array, "... members terms"]
    radix: Int[Array, "... members terms"]
    strides: Int[Array, "... members terms"]
    predicted: Bool[Array, "... members terms"]
    weights: Float[Array, "... terms"]
    tables: tuple[Tables, ...]
    values: int = eqx.field(static=True)

    @property
    def blocks(self) -> Blocks:
        """The components as blocks, one per column, without the factors that touch them."""
        return Blocks(self.values, self.cells[None], self.radix[None], self.strides[None], ())


class GapLoss(eqx.Module):
    """The loss of rows with missing cells, over every mask of theirs.

    Attributes:
        codes: (cells, rows), any value where a cell is missing.
    """

    graph: Graph
    codes: Codes
    gaps: tuple[Gaps, ...]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """The mean over masks of -log p(x_K | x_rest), missing cells summed out; 0 where no cell of K is observed."""

        def chunk(total: Array, gap: Gaps) -> Array:
            losses = gap.weights * term_losses(self.graph, params, self.codes, gap)
            return total.at[gap.rows].add(jnp.where(gap.weights > 0, losses, 0.0))

        return self.over_chunks(chunk, jnp.zeros(self.codes.shape[1], float_type()))

    def over_chunks(self, chunk: Callable[[Any, Gaps], Any], total: Any) -> Any:
        """A running total over all chunks; the gradient computes each chunk anew, so that memory stays bounded."""
        for gaps in self.gaps:
            once = jax.checkpoint(chunk)  # pyright: ignore[reportPrivateImportUsage]
            total, _ = jax.lax.scan(lambda t, gap, once=once: (once(t, gap), None), total, gaps)
        return total


def component_scores(graph: Graph, params: Params, codes: Codes, gap: Gaps) -> Float[Array, "values terms"]:
    """The sum of the factors that touch each component, under every joint value of its cells; -inf where there is none."""
    blocks = gap.blocks
    digits = blocks.codes[0]  # values, members, terms
    scores = jnp.where(blocks.valid[0], 0.0, -jnp.inf).astype(float_type())
    for table in gap.tables:
        sums = jnp.zeros((table.count + 1, table.values), float_type())
        for part in table.parts:
            sums = sums.at[part.tables].add(_part_values(graph, params, codes, part, table.values))
        chosen = digits[:, table.members, jnp.arange(digits.shape[-1])]  # values, cells, each, terms
        entry = (chosen * table.strides[None]).sum(axis=1, dtype=jnp.int32)
        scores = scores + jnp.ravel(sums)[table.place[None] * table.values + entry].sum(axis=1)
    return scores


def _part_values(graph: Graph, params: Params, codes: Codes, part: Parts, values: int) -> Float[Array, "parts values"]:
    """The value of each instance under every joint value of its cells in the component."""
    group = graph.groups[part.group]
    scope = group.cells[part.instances].T  # slots, parts
    slots = jnp.broadcast_to(codes[scope, part.rows][:, None], (scope.shape[0], values, scope.shape[1]))
    own = (jnp.arange(values, dtype=jnp.int32)[:, None, None] // part.strides[None]) % part.radix[None]
    for m in range(part.cells.shape[0]):
        slots = jnp.where((scope == part.cells[m][None])[:, None], own[None, :, m], slots)
    found = evaluate_slots(group, params, part.instances[None, None], list(slots[:, None, None]))
    found = jnp.broadcast_to(found, (1, 1, values, scope.shape[1]))[0, 0].T
    return jnp.where(found, 0.0, -jnp.inf).astype(float_type()) if group.kind == "require" else found


def term_losses(graph: Graph, params: Params, codes: Codes, gap: Gaps) -> Float[Array, " terms"]:
    """log of the sum over a component's values, minus that over the values which agree with its predicted cells."""
    scores = component_scores(graph, params, codes, gap)[None]
    here = codes[jnp.minimum(gap.cells, graph.n_cells - 1), gap.rows]
    agrees = ((gap.blocks.codes == here[None, None]) | ~gap.predicted[None, None]).all(axis=2)
    observed, every = logsumexp(jnp.where(agrees, scores, -jnp.inf))[0], logsumexp(scores)[0]
    impossible = observed == -jnp.inf
    return jnp.where(impossible, jnp.inf, jnp.where(impossible, 0.0, every) - jnp.where(impossible, 0.0, observed))


def gap_loss(host: FactorGraph, graph: Graph, codes: np.ndarray, terms: tuple[GapTerms, ...], most_values: int) -> GapLoss:
    """The loss of rows with gaps, in chunks of at most so many joint values (and at least one term)."""
    out = []
    for t in terms:
        size = int(min(max(1, most_values // t.values), len(t.rows)))
        chunks = [_chunk(host, t, slice(k, k + size)) for k in range(0, len(t.rows), size)]
        out.append(_stacked(host, t.values, size, chunks))
    return GapLoss(graph, jnp.asarray(np.maximum(codes, 0)), tuple(out))


@dataclass
class _Chunk:
    """A chunk of terms in NumPy: term arrays, and by the number of cells the tables and the parts (by group) that make them."""

    terms: dict[str, np.ndarray]
    tables: dict[int, dict[str, np.ndarray]]
    parts: dict[tuple[int, int], dict[str, np.ndarray]]


def _chunk(host: FactorGraph, t: GapTerms, span: slice) -> _Chunk:
    cells = t.cells[:, span].T  # terms, members
    inside = cells < host.n_cells
    _, radix, strides, *touch = block_arrays(host, cells)
    rows = t.rows[span]
    terms = {
        "rows": rows,
        "cells": cells,
        "radix": radix,
        "strides": strides,
        "predicted": t.predicted[:, span].T,
        "weights": t.weights[span],
    }
    nothing = np.zeros(0, np.int64)
    found = [(nothing, nothing, nothing, np.zeros((0, cells.shape[1]), bool))]  # a model may have no factors
    for k, (group, instances) in enumerate(zip(host.groups, touch, strict=True)):
        term, width = np.nonzero(instances >= 0)
        instance = instances[term, width]
        member = ((group.cells[instance][:, :, None] == cells[term][:, None, :]) & inside[term][:, None, :]).any(axis=1)
        found.append((np.full(len(term), k), term, instance, member))
    group_of, term, instance, member = (np.concatenate(a) for a in zip(*found, strict=True))
    tables, parts = {}, {}
    arity = member.sum(axis=1)
    for count in np.unique(arity).tolist():
        mine = np.flatnonzero(arity == count)
        keys, table = np.unique(np.column_stack([term[mine], member[mine]]), axis=0, return_inverse=True)
        table = table.reshape(-1)
        over = np.nonzero(keys[:, 1:])[1].reshape(-1, count)  # tables, cells
        own_radix = np.take_along_axis(radix[keys[:, 0]], over, axis=1)
        own_strides = np.cumprod(np.concatenate([own_radix[:, 1:], np.ones((len(keys), 1), np.int64)], axis=1)[:, ::-1], axis=1)[:, ::-1]
        first = np.searchsorted(keys[:, 0], np.arange(len(rows)))
        rank = np.arange(len(keys)) - first[keys[:, 0]]
        tables[count] = {"term": keys[:, 0], "rank": rank, "over": over, "radix": own_radix, "strides": own_strides}
        for g in np.unique(group_of[mine]).tolist():
            here = group_of[mine] == g
            at = table[here]
            parts[count, g] = {
                "instances": instance[mine][here],
                "rows": rows[term[mine][here]],
                "tables": at,
                "cells": np.take_along_axis(cells[keys[at, 0]], over[at], axis=1),
                "radix": own_radix[at],
                "strides": own_strides[at],
            }
    return _Chunk(terms, tables, parts)


def _stacked(host: FactorGraph, values: int, size: int, chunks: list[_Chunk]) -> Gaps:
    """Chunks of one shape each, padded, on the device."""
    fill = {"rows": 0, "cells": host.n_cells, "radix": 1, "strides": 1, "predicted": False, "weights": 0.0}
    terms = {k: np.stack([_pad(np.moveaxis(c.terms[k], 0, -1), size, fill[k]) for c in chunks]) for k in fill}
    tables = []
    for count in sorted(set().union(*(c.tables for c in chunks))):
        number = max(len(c.tables[count]["term"]) for c in chunks if count in c.tables)
        entries = max(int(np.prod(c.tables[count]["radix"], axis=1).max()) for c in chunks if count in c.tables)
        places = [_places(c.tables.get(count), count, size, number) for c in chunks]
        each = max(p[0].shape[0] for p in places)
        place = np.stack([_widen(p, each, number) for p, _, _ in places])
        members, strides = (np.stack([_widen(p[k], each, 0) for p in places]) for k in (1, 2))
        parts = tuple(_parts(host, count, g, number, chunks) for g in range(len(host.groups)) if any((count, g) in c.parts for c in chunks))
        tables.append(Tables(number, entries, _ints(place), _ints(members), _ints(strides), parts))
    cells, radix, strides = (_ints(terms[k]) for k in ("cells", "radix", "strides"))
    weights = jnp.asarray(terms["weights"], dtype=float_type())
    return Gaps(_ints(terms["rows"]), cells, radix, strides, jnp.asarray(terms["predicted"]), weights, tuple(tables), values)


def _places(table: dict[str, np.ndarray] | None, count: int, size: int, none: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tables of each term: their numbers, their members and strides."""
    each = 1 if table is None else int(table["rank"].max()) + 1
    place, members, strides = np.full((each, size), none), np.zeros((count, each, size), np.int64), np.zeros((count, each, size), np.int64)
    if table is not None:
        at = table["rank"], table["term"]
        place[at] = np.arange(len(table["term"]))
        members[:, *at], strides[:, *at] = table["over"].T, table["strides"].T
    return place, members, strides


def _parts(host: FactorGraph, count: int, group: int, none: int, chunks: list[_Chunk]) -> Parts:
    fill = {"instances": 0, "rows": 0, "tables": none, "cells": host.n_cells, "radix": 1, "strides": 1}
    most = max(len(c.parts[count, group]["rows"]) for c in chunks if (count, group) in c.parts)
    empty = {k: np.zeros((0, count) if k in ("cells", "radix", "strides") else 0, np.int64) for k in fill}
    found = [c.parts.get((count, group), empty) for c in chunks]
    arrays = {k: _ints(np.stack([_pad(np.moveaxis(f[k], 0, -1), most, v) for f in found])) for k, v in fill.items()}
    return Parts(group, **arrays)


def _pad(a: np.ndarray, size: int, fill: Any) -> np.ndarray:
    """The last axis filled up to a size."""
    return np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, size - a.shape[-1])], constant_values=fill)


def _widen(a: np.ndarray, size: int, fill: int) -> np.ndarray:
    """The last axis but one filled up to a size."""
    return np.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, size - a.shape[-2]), (0, 0)], constant_values=fill)


def _ints(a: np.ndarray) -> Array:
    return jnp.asarray(np.asarray(a, np.int32))


def log_marginal(gaps: GapLoss, params: Params) -> Float[Array, " rows"]:
    """The unnormalised log p of rows with missing cells: log of the sum over them of exp(log_potential).

    `gaps` holds one term for each component of missing cells. What its factors do not touch is that of a completed row; with the
    best values everywhere that is finite wherever any completion is.
    """
    graph = gaps.graph

    def chunk(total: tuple[Codes, Array], gap: Gaps) -> tuple[Codes, Array]:
        whole, more = total
        here = gaps.codes[:, gap.rows]
        scores = component_scores(graph, params, gaps.codes, gap)[None]
        best = jnp.argmax(scores, axis=1).astype(jnp.int32)
        top = jnp.take_along_axis(scores, best[:, None], axis=1)[0, 0]
        excess = jnp.where(jnp.isfinite(top), logsumexp(scores)[0] - jnp.where(jnp.isfinite(top), top, 0.0), -jnp.inf)
        filled = put_value(gap.blocks, here, best, jnp.zeros_like(best, bool))
        at = filled[jnp.minimum(gap.cells, graph.n_cells - 1), jnp.arange(filled.shape[1])]
        used = gap.weights > 0
        whole = whole.at[jnp.where(used, gap.cells, graph.n_cells), gap.rows].set(at, mode="drop")
        return whole, more.at[gap.rows].add(jnp.where(used, excess, 0.0))

    whole, more = gaps.over_chunks(chunk, (gaps.codes, jnp.zeros(gaps.codes.shape[1], float_type())))
    return log_potential(graph, params, whole) + more


def redraw_gaps(
    graph: Graph, params: Params, codes: Codes, cells: Int[Array, "steps members rows"], values: int, sweeps: int, key: Array
) -> Codes:
    """Redraw each row's missing cells from p(. | the rest), block by block: rows differ in their blocks.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows).
        cells: the blocks of each row in turn, padded with the number of cells.
        values: the most joint values of a block.
        sweeps: how often all of them are redrawn.
        key: what the draws depend on.
    """
    steps = cells.shape[0]

    def step(state: Codes, number: Array) -> tuple[Codes, None]:
        blocks = drawn_blocks(graph, cells[number % steps][None], values)
        uniform = jax.random.uniform(jax.random.fold_in(key, number), (1, state.shape[1]))
        value, possible = pick_value(local_scores(graph, params, state, blocks), uniform)
        return put_value(blocks, state, value, ~possible), None

    return jax.lax.scan(step, codes, jnp.arange(sweeps * steps))[0]
