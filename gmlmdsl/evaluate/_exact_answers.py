"""Exact answers for whole models by elimination: log Z, marginals, a mode, independent draws.

They exist if some order of elimination is affordable. Each elimination has a plan with its order
and cost, and a contraction, which is the compiled sum over the free (unknown) cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail
from .._types import AnyArray, Clamp
from ..data import Data
from ..derive import bounded_jit
from ..graph import FactorGraph, GivenRows, grouped
from ..plan import searched
from . import limits
from ._contractions import Contractions, contradiction, impossible, seen_term, verify_possible
from ._host_elimination import HostSums
from ._magnitude import largest_factor, verified_partition
from ._row_sizes import is_traced, over_rows, placed

Array = np.ndarray
CLAMPED = " that agrees with the clamped cells"
Params = Mapping[str, jax.Array]


def known_rows(graph: FactorGraph, given: GivenRows | None) -> Array:
    """Return codes (cells, rows) whose row cell holds the number of each row of given data.

    The row cell is the cell that selects a row of the given data. The codes of all other cells are
    0 and have no meaning.
    """
    codes = np.zeros((graph.n_cells, 1 if given is None else given.rows), np.int32)
    if graph.row_cell is not None and given is not None:
        codes[graph.row_cell] = np.arange(given.rows)
    return codes


def log_partition(kept: Contractions, device: derive.Graph, params: Params, given: GivenRows | None) -> AnyArray:
    """Return log Z for each row of given data, or an array of shape (1,) without given data.

    The result is on the host unless parameters are traced.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        given: rows of given data.

    Raises:
        GmlmError: E601 with the cost if it is above the budget, before any work.
    """
    held, codes = _start(kept, None, given, params)
    engine = kept.on_host(held, params)
    if engine is not None:
        return working(engine.log_sums(codes).values)
    _, c = kept.holding(held, "log Z", keeps=False)

    def log_z(some: tuple[jax.Array, jax.Array | None]) -> jax.Array:
        asked, unary = (device, params, some[0], c), _term(device, c, some[1])
        return log_sums(*asked) if unary is None else _passed(*asked, unary)[1]

    return over_rows(log_z, (codes, kept.seen(c, held, codes)), params, c.entries)


def log_sums_of_rows(kept: Contractions, params: Params, codes: Array) -> Array | None:
    """Return the log sum over the unknown cells of each row, or None if a compiled engine serves.

    Args:
        kept: the contractions of the model.
        params: parameters.
        codes: (cells, rows), -1 for an unknown cell.
    """
    if codes.shape[1] > limits.MOST_HOST_ROWS:
        return None
    found = np.zeros(codes.shape[1])
    for pattern, rows in grouped(codes.T >= 0):
        engine = kept.on_host(pattern, params, len(rows))
        if engine is None:
            return None
        found[rows] = engine.log_sums(np.maximum(codes[:, rows], 0)).values
    return working(found)


def working(values: Array) -> Array:
    """Return numbers in the working float type."""
    with np.errstate(over="ignore"):
        return values.astype(derive.float_type())


log_sums = bounded_jit(derive.log_sum)


def _term(device: derive.Graph, c: derive.Contraction, seen: AnyArray | None = None) -> jax.Array | None:
    """Return the term added to each value of a free cell; `seen` is that of known cells, if any is free.

    For a contraction with a loop the term is zeros if no free cell is known, so that queries with
    known cells enter the same program; a loop holds its inputs and messages anyway. For a
    contraction without a loop the term is then None: log Z and marginals are then one program each,
    which holds no more than it needs.
    """
    if seen is not None or c.loop is None:
        return seen  # pyright: ignore[reportReturnType]
    return derive.on_device(np.zeros((len(c.free), device.most_values, 1)), derive.float_type())


@bounded_jit
def _passed(
    device: derive.Graph, params: Params, codes: jax.Array, c: derive.Contraction, unary: jax.Array | None
) -> tuple[derive.Forward, jax.Array]:
    """Return the forward pass, and the log sum of each row."""
    found = derive.forward(device, params, codes, c, unary)
    return found, derive.rest_sum(device, params, codes, c) + found.sums.sum(axis=0)


def _modes(device: derive.Graph, params: Params, codes: Array, c: derive.Contraction, unary: Array | None) -> tuple[Array, Array]:
    """Return codes (cells, rows) of a most probable configuration, and its unnormalised log p."""

    def modes(some: tuple[jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        here, seen = some
        return _best(device, params, here, c, _term(device, c, seen))

    return over_rows(modes, (codes, unary), params, c.entries)


@bounded_jit
def _best(
    device: derive.Graph, params: Params, codes: jax.Array, c: derive.Contraction, unary: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    found = derive.forward(device, params, codes, c, unary, combine=derive.maximum)
    return derive.backward(c, codes, found), derive.rest_sum(device, params, codes, c) + found.sums.sum(axis=0)


def laws(device: derive.Graph, params: Params, codes: Array, c: derive.Contraction, unary: Array | None = None) -> tuple[Array, Array]:
    """Return the log sum of each row, and p(x_i = v | the known cells) of every free cell.

    The second array has the shape (free, values, rows).
    """

    def each(some: tuple[jax.Array, jax.Array | None]) -> tuple[jax.Array, jax.Array]:
        here, seen = some
        if c.loop is None:
            return _marginals(device, params, here, c, seen)
        passed, value = _passed(device, params, here, c, _term(device, c, seen))
        return value, _looped_laws(c, passed, device.most_values, here.shape[1])

    return over_rows(each, (codes, unary), params, c.entries)


@bounded_jit
def _marginals(
    device: derive.Graph, params: Params, codes: jax.Array, c: derive.Contraction, unary: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    found, table = derive.log_marginals(device, params, codes, c, unary)
    return found, jnp.broadcast_to(table, (*table.shape[:2], codes.shape[1]))


@bounded_jit
def _looped_laws(c: derive.Contraction, passed: derive.Forward, values: int, rows: int) -> jax.Array:
    table = derive.laws(c, passed, values)
    return jnp.broadcast_to(table, (*table.shape[:2], rows))


def marginals(kept: Contractions, device: derive.Graph, params: Params, clamp: Clamp | None, given: GivenRows | None) -> dict[str, Array]:
    """Return p(x_i = v) of every cell given the clamped cells.

    A clamped cell has probability 1 of its value.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        clamp: values of clamped cells by variable.
        given: rows of given data.

    Returns:
        Arrays by variable, of shape (rows.., *axes, values), with the axes of rows that given data
            have.

    Raises:
        GmlmError: E601 with the cost; E512 if no configuration agrees with the clamped cells.
    """
    graph = kept.graph
    held, codes = _start(kept, clamp, given, params)
    lead = () if given is None else given.shape
    engine = kept.on_host(held, params, codes.shape[1], limits.LAW_PASSES, keeps=True)
    if engine is not None:
        sums, table = engine.laws(codes, graph.most_values)
        _verify_agreement(kept, device, params, held, codes, sums.values)
        _verify_sums(graph, sums, held)
        return by_variable(graph, with_known(graph, engine.free, codes, working(table), held), lead)
    if is_traced(params):
        return by_variable(graph, traced_marginals(kept, device, params, held, codes), lead)
    for c, seen in kept.beside(held, codes, "a table of marginals"):
        found, table = laws(device, params, codes, c, seen)
        if _has_digits(found):
            break
    _verify_agreement(kept, device, params, held, codes, found)
    _verify_digits(graph, device, params, codes, c, found, held)
    return by_variable(graph, with_known(graph, np.asarray(c.free), codes, table, held), lead)


def traced_marginals(kept: Contractions, device: derive.Graph, params: Params, known: Array, codes: AnyArray) -> jax.Array:
    """Return p(x_i = v | the known cells) of every cell, where JAX traces the parameters or the codes.

    The result may be differentiated. It is nan in a row whose known cells are impossible together.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        known: booleans of the cells that are known in every row.
        codes: the values of the known cells, shape (cells, rows). If they are traced, -1 stands for
            a cell that a row lacks.

    Returns:
        Array of shape (cells, values, rows).

    Raises:
        GmlmError: E601 with the cost.
    """
    _, c = kept.holding(known, "a table of marginals")
    n, free = kept.graph.n_random, np.asarray(c.free)
    some, seen = known[:, None], kept.seen(c, known, codes)
    if isinstance(codes, jax.Array):
        some, seen = codes >= 0, derive.evidence(device, codes, c)
    here = jnp.maximum(jnp.asarray(codes, jnp.int32), 0)
    found, table = derive.log_marginals(device, params, here, c, seen, differentiated=True)
    sure = (here[:n, None] == jnp.arange(device.most_values, dtype=jnp.int32)[None, :, None]).astype(table.dtype)
    full = sure.at[free].set(jnp.where(some[free][:, None], sure[free], table))
    return jnp.where(jnp.isfinite(found)[None, None], full, jnp.nan)


def _verify_agreement(
    kept: Contractions, device: derive.Graph, params: Params, held: Array, codes: Array, values: Array, rows: Array | None = None
) -> None:
    """Raise E512 if the sum of a row is 0, and name known cells that no configuration agrees with.

    They are named if the sums without some of them are affordable, in NumPy or by the contraction
    of all cells.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        held: booleans of the known cells.
        codes: their values, shape (cells, rows).
        values: the log sum of each row.
        rows: the numbers of the rows of x, for messages; None for clamped cells.
    """
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return
    row, known = codes[:, bad[:1]], np.arange(len(held)) < kept.graph.n_random

    def possible(rest: Array) -> bool | None:
        """Return whether known cells are possible together; None if the sum is dear."""
        engine = kept.on_host(rest, params)
        if engine is not None:
            return bool(np.isfinite(engine.log_sums(row).values[0]))
        c = kept.affordable("a sum") if kept.is_affordable(limits.CHEAP_ENTRIES) else None
        return None if c is None else bool(np.isfinite(laws(device, params, row, c, seen_term(kept.graph, c, rest[:, None], row))[0][0]))

    where = "the clamped values of" if rows is None else f"row {rows[bad[0]]} of x at"
    if held[known].any() and possible(held & ~known):  # else known cells are not to blame, or it is not known
        raise contradiction(kept.graph, held, possible, where)
    if rows is None:
        raise impossible(held)
    message = f"no configuration agrees with row {rows[bad[0]]} of x: what is known of it has probability zero"
    raise fail("E512", message, help="see the `require`s of the model")


def marginals_of_rows(kept: Contractions, device: derive.Graph, params: Params, x: Data) -> dict[str, Array]:
    """Return p(x_i = v) of every cell given the known cells of each row.

    A known cell has probability 1 of its value. Rows that know the same cells share the contraction
    of the other cells. If there are several such patterns, and the contraction of all cells is
    affordable, this contraction serves all rows. Known values are entered row by row.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        x: the rows; the row cell holds the number of the row of given data. The partial sums that
            `kept` has as cells are unknown.

    Returns:
        Arrays by variable, of shape (rows.., *axes, values).

    Raises:
        GmlmError: E601 with the cost; E512 for a row whose known cells are impossible together.
    """
    graph, lead = kept.graph, x.shape
    if x.lacks is not None:
        more = graph.n_cells - len(x.codes)
        codes = jnp.pad(x.codes, ((0, more), (0, 0)), constant_values=-1)
        found = traced_marginals(kept, device, params, np.pad(~x.lacks[0], (0, more)), codes)
        return by_variable(graph, jnp.where(x.is_invalid, jnp.nan, found), lead)
    known, here, patterns = kept.known_of_rows(params, x)
    if is_traced(params):
        parts = [(rows, traced_marginals(kept, device, params, pattern, here[:, rows])) for pattern, rows in patterns]
        return by_variable(graph, placed(here.shape[1], parts, (graph.n_random, device.most_values)), lead)
    what, full = "a table of marginals", np.zeros((graph.n_random, graph.most_values, here.shape[1]), derive.float_type())
    if _rows_on_host(kept, device, params, here, patterns, full):
        return by_variable(graph, full, lead)
    if len(patterns) > 1 and (c := kept.affordable(what)) is not None:
        found, table = laws(device, params, here, c, seen_term(graph, c, known, here))
        if _has_digits(found):
            if len(bad := np.flatnonzero(~np.isfinite(found))[:1]):
                _verify_agreement(kept, device, params, known[:, bad[0]], here[:, bad], found[bad], bad)
            return by_variable(graph, with_known(graph, np.asarray(c.free), here, table, known), lead)
    for pattern, rows in patterns:
        _, c = kept.holding(pattern, what)
        found, table = laws(device, params, here[:, rows], c, kept.seen(c, pattern, here[:, rows]))
        _verify_agreement(kept, device, params, pattern, here[:, rows], found, rows)
        _verify_digits(graph, device, params, here[:, rows], c, found, pattern)
        full[..., rows] = with_known(graph, np.asarray(c.free), here[:, rows], table, pattern)
    return by_variable(graph, full, lead)


def _rows_on_host(
    kept: Contractions, device: derive.Graph, params: Params, codes: Array, patterns: Sequence[tuple[Array, Array]], full: Array
) -> bool:
    """Write the distributions of all rows to `full`, and return whether the engine in NumPy serves.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        codes: (cells, rows).
        patterns: the distinct sets of known cells, with the numbers of their rows.
        full: the result, shape (cells, values, rows).
    """
    for pattern, rows in patterns:
        engine = kept.on_host(pattern, params, len(rows), limits.LAW_PASSES, keeps=True)
        if engine is None:
            return False
        sums, table = engine.laws(codes[:, rows], full.shape[1])
        _verify_agreement(kept, device, params, pattern, codes[:, rows], sums.values, rows)
        _verify_sums(kept.graph, sums, pattern)
        full[..., rows] = with_known(kept.graph, engine.free, codes[:, rows], table, pattern)
    return True


def with_known(graph: FactorGraph, free: Array, codes: Array, table: Array, known: Array) -> Array:
    """Return the distributions of all cells, shape (cells, values, rows).

    The free cells have the distributions in `table`. Every other cell, and every known one, has
    probability 1 of its value in `codes`. Of long partial sums the first values are kept.

    Args:
        graph: the factor graph.
        free: the cells of `table`.
        codes: (cells, rows).
        table: shape (free, values, rows).
        known: booleans of known cells, shape (cells,) or (cells, rows).
    """
    n = graph.n_random  # the row cell is not part of the answer
    full, table = np.zeros((n, graph.most_values, codes.shape[1]), table.dtype), table[:, : graph.most_values]
    np.put_along_axis(full, codes[:n, None], 1.0, axis=1)
    full[free] = np.where(known.reshape(len(known), 1, -1)[free], full[free], table)
    return full


def by_variable(graph: FactorGraph, full: AnyArray, lead: tuple[int, ...]) -> dict[str, Any]:
    """Return the distributions of all cells, (cells, values, rows), by variable; long partial sums are left out."""
    out: dict[str, Any] = {}
    xp: Any = jnp if is_traced(full) else np
    for v in (v for v in graph.variables if len(v.labels) <= full.shape[1]):
        part = xp.moveaxis(full[v.offset : v.offset + v.size, : len(v.labels)], 2, 0)
        out[v.name] = part.reshape(*lead, *v.shape, len(v.labels))
    return out


def joint_marginals(
    kept: Contractions, device: derive.Graph, params: Params, clamp: Clamp | None, given: GivenRows | None, cells: Array
) -> Array:
    """Return p(x_A = v) of several cells A together, given the clamped cells.

    It is the product p(all cells of A but the last) p(the last cell | the others).

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        clamp: values of clamped cells by variable.
        given: rows of given data.
        cells: the positions A, shape (k,).

    Returns:
        Array of shape (rows.., values of the first cell, .., values of the last cell), with the
            axes of rows that given data have.

    Raises:
        GmlmError: E601 with the cost, also for more than `MOST_JOINT` values; E512 if no
            configuration agrees with the clamped cells.
    """
    graph = kept.graph
    held, codes = _start(kept, clamp, given, params)
    sizes, rows = graph.sizes[cells], codes.shape[1]
    if not sizes.astype(float).prod() <= limits.MOST_JOINT:
        message = f"a joint distribution of {sizes.astype(float).prod():.3g} values: up to {limits.MOST_JOINT:,} are given"
        raise fail("E601", message, help='ask for fewer cells together, or draw from the model: `model.sample(params, "exact")`')
    engine = _joint_on_host(kept, device, params, held, codes, cells)
    if engine is not None:
        return engine.reshape(*(() if given is None else given.shape), *sizes)
    first = np.stack(np.unravel_index(np.arange(int(sizes[:-1].prod())), sizes[:-1])) if len(cells) > 1 else np.zeros((0, 1), int)
    here = np.repeat(codes, first.shape[1], axis=1)  # rows are the outer axis
    at = np.tile(first, rows)
    possible = np.all(~held[cells[:-1], None] | (here[cells[:-1]] == at), axis=0)
    traced = is_traced(params)
    what = "a table of marginals"
    for c, seen in [kept.fixing(held, codes, what)] if traced else kept.beside(held, codes, what):
        free, values = np.asarray(c.free), device.most_values
        known = np.zeros((len(free), values, 1)) if seen is None else np.repeat(seen, first.shape[1], axis=2)
        known = np.broadcast_to(known, (len(free), values, here.shape[1])).astype(derive.float_type())
        for cell, wanted in zip(cells[:-1], at, strict=True):
            k = np.searchsorted(free, cell)
            if k < len(free) and free[k] == cell:
                known[k][np.arange(values)[:, None] != wanted] = -np.inf
        if traced:
            found, table = derive.log_marginals(device, params, jnp.asarray(here, jnp.int32), c, jnp.asarray(known), differentiated=True)
            found = jnp.where(possible, found, -jnp.inf)
            break
        found, table = laws(device, params, here, c, known)
        found = np.where(possible, found, -np.inf)
        if _has_digits(found):
            break
    last = np.searchsorted(free, cells[-1])
    xp: Any = jnp if traced else np
    own = table[last] if last < len(free) and free[last] == cells[-1] else (np.arange(values)[:, None] == here[cells[-1]])
    level: Any = found.reshape(rows, -1)
    if not traced:
        _verify_agreement(kept, device, params, held, codes, level.max(axis=1))
        _verify_digits(graph, device, params, here, c, found, held)
    weight = xp.exp(level - level.max(axis=1, keepdims=True))
    weight = weight / weight.sum(axis=1, keepdims=True)
    law = xp.where(xp.isfinite(level)[..., None], xp.asarray(own, derive.float_type())[: sizes[-1]].T.reshape(rows, -1, sizes[-1]), 0.0)
    return (weight[..., None] * law).reshape(*(() if given is None else given.shape), *sizes)


def _joint_on_host(kept: Contractions, device: derive.Graph, params: Params, held: Array, codes: Array, cells: Array) -> Array | None:
    """Return p(x_A = v) of several cells A, shape (rows, values), or None if a compiled engine serves.

    It is proportional to the sum over the other cells at each value of A.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        held: booleans over cells, True for clamped cells.
        codes: the values of the clamped cells, shape (cells, rows).
        cells: the positions A.
    """
    known = held.copy()
    known[cells] = True
    sizes = kept.graph.sizes[cells]
    count, rows = int(np.prod(sizes)), codes.shape[1]
    engine = kept.on_host(known, params, rows * count)
    if engine is None:
        return None
    values = np.tile(np.stack(np.unravel_index(np.arange(count), sizes)), rows)
    here = np.repeat(codes, count, axis=1)
    possible = np.all(~held[cells, None] | (here[cells] == values), axis=0)
    here[cells] = values
    sums = engine.log_sums(here)
    level = np.where(possible, sums.values, -np.inf).reshape(rows, count)
    _verify_agreement(kept, device, params, held, codes, level.max(axis=1))
    weight = np.exp(level - level.max(axis=1, keepdims=True))
    return working(weight / weight.sum(axis=1, keepdims=True))


def best(
    kept: Contractions,
    device: derive.Graph,
    params: Params,
    clamp: Clamp | None,
    given: GivenRows | None,
) -> tuple[Array, Array]:
    """Return a most probable configuration that agrees with the clamped cells.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        clamp: values of clamped cells by variable.
        given: rows of given data.

    Returns:
        Codes (cells, rows) of the configuration, and its unnormalised log p.

    Raises:
        GmlmError: E601 with the cost; E512 if no configuration agrees with the clamped cells.
    """
    return _mode(kept, device, params, *_start(kept, clamp, given, params))


def modes_of_rows(kept: Contractions, device: derive.Graph, params: Params, x: Data) -> tuple[Array, Array]:
    """Return a most probable configuration that agrees with the known cells of each row.

    If the rows know different cells, and the contraction of all cells is affordable, it serves all
    rows, as in `marginals_of_rows`.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        x: the rows, as in `marginals_of_rows`.

    Returns:
        Codes (cells, rows) of the configurations, and their unnormalised log p, shape (rows,).

    Raises:
        GmlmError: E601 with the cost; E512 for a row whose known cells are impossible together.
    """
    graph, (known, here, patterns) = kept.graph, kept.known_of_rows(params, x)
    found, values = here.copy(), np.zeros(here.shape[1], derive.float_type())
    for pattern, rows in patterns:
        part = _mode_on_host(kept, device, params, pattern, here[:, rows], rows)
        if part is None:
            break
        found[:, rows], values[rows] = part
    else:
        return found, values
    if len(patterns) > 1 and (c := kept.affordable("a mode")) is not None:
        found, values = _modes(device, params, here, c, seen_term(graph, c, known, here))
        if _has_digits(values):
            if len(bad := np.flatnonzero(~np.isfinite(values))[:1]):
                held, row = known[:, bad[0]], here[:, bad]
                _verify_agreement(kept, device, params, held, row, values[bad], bad)
            return found, values
    for pattern, rows in patterns:
        found[:, rows], values[rows] = _mode(kept, device, params, pattern, here[:, rows], rows)
    return found, values


def _mode_on_host(
    kept: Contractions, device: derive.Graph, params: Params, held: Array, codes: Array, rows: Array | None
) -> tuple[Array, Array] | None:
    """Return the same as `_mode`, or None if a compiled engine serves."""
    engine = kept.on_host(held, params, codes.shape[1], keeps=True)
    if engine is None:
        return None
    sums, found = engine.modes(codes)
    _verify_agreement(kept, device, params, held, codes, sums.values, rows)
    _verify_sums(kept.graph, sums, held)
    return found, working(sums.values)


def _mode(
    kept: Contractions, device: derive.Graph, params: Params, held: Array, codes: Array, rows: Array | None = None
) -> tuple[Array, Array]:
    """Return a most probable configuration that agrees with the known cells, for each row of them.

    Elimination may be too costly while all configurations of the free cells that satisfy the
    requirements are equally probable. Then a search for one of them answers too.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        held: booleans of the known cells.
        codes: their values, shape (cells, rows).
        rows: the numbers of the rows of x, for messages; None for clamped cells.
    """
    answered = _mode_on_host(kept, device, params, held, codes, rows)
    if answered is not None:
        return answered
    try:
        kept.holding(held, "a mode")
    except GmlmError:
        found = _satisfying(kept.graph, device, params, held, codes)
        if found is None:
            raise
        return found
    for c, seen in kept.beside(held, codes, "a mode"):
        found, value = _modes(device, params, codes, c, seen)
        if _has_digits(value):
            break
    _verify_agreement(kept, device, params, held, codes, value, rows)
    _verify_digits(kept.graph, device, params, codes, c, value, held)
    return found, value


def _satisfying(graph: FactorGraph, device: derive.Graph, params: Params, held: Array, codes: Array) -> tuple[Array, Array] | None:
    """Return codes (cells, rows) that satisfy all requirements, and their unnormalised log p.

    None is returned if other factors have free cells, if there are many rows, or if a search finds
    nothing.
    """
    free = np.append(~held, False)
    others = (g for g in graph.groups if g.n and g.kind != "require")
    if codes.shape[1] > limits.MOST_HOST_ROWS or any(free[g.cells].any() for g in others):
        return None

    def value(found: Array) -> Array:
        return np.asarray(derive.compiled.log_potential(device, params, jnp.asarray(found)))

    known, rng = {name: np.asarray(a, float) for name, a in params.items()}, np.random.default_rng(0)
    rows = [searched(graph, held, r, known, rng, lambda c: value(c[:, None])[0] > -np.inf) for r in codes.T]
    if any(row is None for row in rows):
        return None
    found = np.stack(rows, axis=1)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return found, value(found)


def independent_kernel(
    kept: Contractions, device: derive.Graph, params: Params, held: tuple[Array, Array]
) -> tuple[derive.AbstractKernel, str]:
    """Return a kernel whose steps are independent draws given the fixed cells, and a line about it.

    The draws are made by elimination, or with parents first if elimination is not affordable and
    the model is normalised.

    Args:
        kept: the contractions of the model.
        device: the factor graph on the device.
        params: parameters.
        held: booleans of the clamped cells, and codes of shape (cells,), or (cells, chains) if each
            chain has its own row of given data.

    Raises:
        GmlmError: E601 if neither method is affordable; E512 if no configuration agrees with the
            clamped cells.
    """
    graph = kept.graph
    try:
        plan = kept.plan(held[0], "an exact draw")
    except GmlmError:
        if graph.is_normalised and not held[0].any():
            return derive.ancestral_kernel(graph), "`exact`: every cell given its parents"
        raise
    known = held[1].reshape(graph.n_cells, -1).astype(np.int32)
    for c, seen in kept.beside(held[0], known, "an exact draw"):
        found, value = _passed(device, params, derive.on_device(known), c, _term(device, c, seen))
        if _has_digits(value):
            break
    _verify_agreement(kept, device, params, held[0], known, np.asarray(value))
    _verify_digits(graph, device, params, known, c, value, held[0])
    return derive.IndependentKernel(c, found), f"`exact`: {plan.words}"


def _start(kept: Contractions, clamp: Clamp | None, given: GivenRows | None, params: Params) -> tuple[Array, Array]:
    """Return booleans of the known cells, and codes (cells, rows) that hold their values."""
    held, codes = kept.clamped(clamp, params)
    return held, np.where(held[:, None], codes[:, None], known_rows(kept.graph, given)).astype(np.int32)


def _has_digits(value: AnyArray) -> bool:
    """Return whether every finite sum is small enough to leave digits to spare.

    A sum without digits to spare exceeds `SPARE_FRACTION` times the largest factor of its type. An
    infinite sum, that of an impossible row, passes.
    """
    found = np.asarray(value)
    return not (np.isfinite(found) & (np.abs(found) > limits.SPARE_FRACTION * largest_factor(found.dtype))).any()


def _verify_sums(graph: FactorGraph, sums: HostSums, held: Array) -> None:
    """Raise as `_verify_possible` and `_verify_digits` do, for sums of NumPy."""
    found, rest = working(sums.values), working(np.where(np.isfinite(sums.rest), sums.rest, 0.0))
    verify_possible(found, held)
    if (found < -largest_factor(found.dtype)).any():
        verified_partition(graph, found - rest, CLAMPED if held.any() else "")


def _verify_digits(
    graph: FactorGraph, device: derive.Graph, params: Params, codes: AnyArray, c: derive.Contraction, value: AnyArray, held: Array
) -> None:
    """Raise E591 if a sum is dominated by a penalty in every configuration.

    Only factors that touch a free cell count; the factors among known cells cancel.

    Raises:
        GmlmError: E591.
    """
    found = np.asarray(value)
    if (found < -largest_factor(found.dtype)).any():
        rest = np.asarray(derive.rest_sum(device, params, derive.on_device(codes, np.int32), c))
        verified_partition(graph, np.where(np.isfinite(rest), found - rest, 0.0).astype(found.dtype), CLAMPED if held.any() else "")
