"""Values of factors: of a whole configuration, and of the factors that touch a block under all its joint values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from ..graph.nodes import Leaves, evaluate
from ..program import OPERATORS as ON_NUMBERS
from ..program import Operator
from ._arrays import Blocks, Graph, Group, float_type

Params = Mapping[str, Array]
Codes = Int[Array, "cells rows"]
# Scores of blocks from which on instances are added one after another: each is then a loop that
# stays in the cache and runs on vectors, where a sum along an axis of instances does neither. Fewer
# scores are done before such a loop has started.
LEAST_IN_TURN = 4096
MOST_UNROLLED = 8  # joint values of a block that are written out one by one


def log_potential(graph: Graph, params: Params, codes: Codes) -> Float[Array, " rows"]:
    """The unnormalised log p of whole configurations: the sum of all factors, -inf where a requirement fails."""
    total = jnp.zeros(codes.shape[1], float_type())
    for group in graph.groups:
        values = all_values(group, params, codes)
        total = total + (jnp.where(values.all(axis=0), 0.0, -jnp.inf) if group.kind == "require" else values.sum(axis=0))
    return total


def all_values(group: Group, params: Params, codes: Codes) -> Array:
    """The value of every instance, shape (instances, rows); conditions as booleans."""
    # 1 block, instances, 1 value, rows
    slots = [codes[group.cells[:, k]][None, :, None, :] for k in range(group.cells.shape[1])]
    instances = jnp.arange(group.n, dtype=jnp.int32)[None, :, None]
    values = evaluate_slots(group, params, instances, slots)
    return jnp.broadcast_to(values, (1, group.n, 1, codes.shape[1]))[0, :, 0, :]


def local_scores(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """The sum of the factors that touch each block, under every joint value of its cells, the rest as in `codes`.

    Values that a block does not have, and those that a requirement forbids, are -inf.
    """
    scores = jnp.where(blocks.valid, 0.0, -jnp.inf).astype(float_type())
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1]:
            scores = scores + touching_sum(group, params, codes, blocks.cells, touch, blocks.codes)
    return jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))


def lacking(blocks: Blocks, codes: Codes, n_cells: int) -> Bool[Array, "blocks members rows"]:
    """Which members of each block a row lacks: their code is -1."""
    here = codes[blocks.cells, jnp.arange(codes.shape[1])]  # of padding, that of some cell
    return (here < 0) & (blocks.cells < n_cells)


def scored(blocks: Blocks, codes: Codes, n_cells: int) -> Bool[Array, "blocks rows"]:
    """Whether a row holds some member of each block."""
    return ((blocks.cells < n_cells) & ~lacking(blocks, codes, n_cells)).any(axis=1)


def observed_scores(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """`local_scores` of what rows hold: a factor of a missing cell, whose code is -1, is left out.

    A missing member of a block is no part of it: only its first value counts, whatever it is.
    """
    known, rows = jnp.maximum(codes, 0), jnp.arange(codes.shape[1])
    moved = (lacking(blocks, codes, graph.n_cells)[:, None] & (blocks.codes > 0)).any(axis=2)
    scores = jnp.where(blocks.valid & ~moved, 0.0, -jnp.inf).astype(float_type())
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1]:
            whole = (codes[group.cells] >= 0).all(axis=1)  # instances, rows
            held = jnp.where(whole[jnp.maximum(touch, 0), rows], touch, -1)
            scores = scores + touching_sum(group, params, known, blocks.cells, held, blocks.codes)
    return jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))


def scores_in_turn(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """The same in the order that is quick on a CPU and needs no derivative: instance by instance, or value by value."""
    scores = jnp.where(blocks.valid, 0.0, -jnp.inf).astype(float_type())
    scores = jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))
    cells, given = blocks.cells, blocks.codes
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1] > 1 and scores.size >= LEAST_IN_TURN:

            def add(total: Array, one: Array, group: Group = group) -> tuple[Array, None]:
                return total + touching_sum(group, params, codes, cells, one[:, None], given), None

            scores, _ = jax.lax.scan(add, scores, jnp.moveaxis(touch, 1, 0))
        elif touch.shape[1] and blocks.n_values <= MOST_UNROLLED:
            # One value after another: an axis of values in the middle keeps the loop over rows from
            # running on vectors. Each into its place: joining the values' arrays is what XLA 0.10
            # fuses into functions that it fails to compile.
            for v in range(blocks.n_values):
                scores = scores.at[:, v].add(touching_sum(group, params, codes, cells, touch, given[:, v : v + 1])[:, 0])
        elif touch.shape[1]:
            scores = scores + touching_sum(group, params, codes, cells, touch, given)
    return scores


def touching_sum(
    group: Group,
    params: Params,
    codes: Codes,
    members: Int[Array, "blocks members rows"],
    touch: Int[Array, "blocks width rows"],
    given: Int[Array, "blocks values members rows"],
) -> Float[Array, "blocks values rows"]:
    """The sum of a group's instances that touch each block, its members' codes being `given`, up to broadcasting.

    It is -inf where a requirement fails.
    """
    values = _values_under(group, params, codes, members, touch, given)
    here = (touch >= 0)[:, :, None, :]
    if group.kind == "require":
        return jnp.where((values | ~here).all(axis=1), 0.0, -jnp.inf).astype(float_type())
    return jnp.where(here, values, 0.0).sum(axis=1)


def local_values(
    group: Group, params: Params, codes: Codes, blocks: Blocks, touch: Int[Array, "blocks width rows"]
) -> Float[Array, "blocks width values rows"]:
    """The value of each touching instance under every joint value of the block, up to broadcasting."""
    return _values_under(group, params, codes, blocks.cells, touch, blocks.codes)


def _values_under(
    group: Group,
    params: Params,
    codes: Codes,
    members: Int[Array, "blocks members rows"],
    touch: Int[Array, "blocks width rows"],
    given: Int[Array, "blocks values members rows"],
) -> Float[Array, "blocks width values rows"]:
    """The same under some joint values, whose members' codes are `given`."""
    instances = jnp.maximum(touch, 0)
    slots = []
    for k in range(group.cells.shape[1]):
        scope = group.cells[:, k][instances]  # blocks, width, rows or 1
        rest = codes[scope[..., 0]] if scope.shape[-1] == 1 else codes[scope, jnp.arange(codes.shape[1])]
        value = rest[:, :, None, :]
        for m in range(members.shape[1]):
            inside = scope == members[:, None, m, :]
            value = jnp.where(inside[:, :, None, :], given[:, None, :, m, :], value)
        slots.append(value)
    return evaluate_slots(group, params, instances, slots)


def evaluate_slots(
    group: Group, params: Params, instances: Int[Array, "blocks width rows"], slots: Sequence[Int[Array, "blocks width values rows"]]
) -> Array:
    """The root of a group's tree, from the codes in each slot; conditions of requirements as booleans, the rest as floats."""

    def column(k: int, depth: int) -> Array:
        values = group.columns[k]
        if values.shape[0] == 1:
            return values[0].reshape((*values.shape[1:], 1, 1, 1, 1))
        return jnp.moveaxis(values, 0, -1)[..., instances][..., None, :]

    def cells(start: int, shape: tuple[int, ...]) -> Array:
        if not shape:
            return slots[start]
        # an unused slot does not vary
        found = jnp.stack(jnp.broadcast_arrays(*slots[start : start + math.prod(shape)]))
        return found.reshape((*shape, *found.shape[1:]))

    def gather(name: str, table: int, index: Array) -> Array:
        return (jnp.ravel(params[name]) if name else group.tables[table])[index]

    leaves = Leaves(column, cells, gather, number, integer, OPERATORS, WHOLE, jnp)
    value = evaluate(group.root, leaves)
    if group.kind == "require":
        return jnp.broadcast_to(jnp.asarray(value, bool), jnp.broadcast_shapes(jnp.shape(value), (1, 1, 1, 1)))
    value = number(value)
    return jnp.broadcast_to(value, jnp.broadcast_shapes(value.shape, (1, instances.shape[1], 1, 1)))


def number(a: Any) -> Array:
    """As floats of the working type; conditions count 1 and 0."""
    return jnp.asarray(a, dtype=float_type()) if not isinstance(a, jax.Array) or not jnp.issubdtype(a.dtype, jnp.floating) else a


def integer(a: Any) -> Array:
    """As 32-bit integers."""
    a = jnp.asarray(a)
    return (jnp.rint(a) if jnp.issubdtype(a.dtype, jnp.floating) else a).astype(jnp.int32)


def _is_whole(a: Any) -> bool:
    return isinstance(a, bool | int) or (isinstance(a, jax.Array) and not jnp.issubdtype(a.dtype, jnp.floating))


def _numbers(f: Callable[..., Array]) -> Callable[..., Array]:
    """Operands as floats: whole numbers of a model are small, but their products need not fit into 32 bits."""
    return lambda *operands: f(*(number(o) for o in operands))


def _integers(f: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *operands: f(*(integer(o) for o in operands))


def _compared(f: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    """Whole numbers are compared as such."""

    def operator(a: Any, b: Any) -> Array:
        convert = integer if _is_whole(a) and _is_whole(b) else number
        return f(convert(a), convert(b))

    return operator


def _power(a: Any, b: Any) -> Array:
    if isinstance(b, int) and not isinstance(b, bool):
        return jax.lax.integer_pow(number(a), b)
    return _raised(number(a), number(b))


@jax.custom_jvp
def _raised(base: Array, exponent: Array) -> Array:
    """Floats to the power of floats, with a derivative for base 0 too: h^0 is 1 everywhere, h^1 has slope 1 at 0."""
    return base**exponent


def _raised_jvp(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    """Of an exponent that nothing differentiates no logarithm is taken: the base may be negative then."""
    base, exponent = primals
    value = _raised(base, exponent)
    slope = jnp.zeros_like(value)
    if not isinstance(tangents[0], SymbolicZero):
        flat = (exponent == 0) & (jnp.abs(base) < math.sqrt(float(jnp.finfo(base.dtype).tiny)))
        inner = _raised(base, jnp.where(flat, 1.0, exponent) - 1.0)
        slope = slope + exponent * inner * tangents[0]
    if not isinstance(tangents[1], SymbolicZero):
        none = base == 0
        slope = slope + jnp.where(none, 0.0, jnp.log(jnp.where(none, 1.0, base))) * value * tangents[1]
    return value, slope


_raised.defjvp(_raised_jvp, symbolic_zeros=True)


def _conditions(f: Callable[..., Array]) -> Callable[..., Bool[Array, ...]]:
    return lambda *operands: f(*(jnp.asarray(o, bool) for o in operands))


def _values(operator: Operator) -> Callable[..., Any]:
    return partial(operator.array, jnp)


_ARITHMETIC = {
    **{name: _values(operator) for name, operator in ON_NUMBERS.items()},
    "sigmoid": jax.nn.sigmoid,  # of floats, with derivatives, as the next
    "bit": lambda a: jnp.floor((a + 1) / 2),
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_LOGIC: dict[str, Callable[..., Any]] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "not": lambda a: ~a}
_SHARED = {k: _compared(f) for k, f in _COMPARISONS.items()} | {k: _conditions(f) for k, f in _LOGIC.items()}
OPERATORS: dict[str, Callable[..., Any]] = {k: _numbers(f) for k, f in _ARITHMETIC.items()} | _SHARED | {"^": _power}
WHOLE: dict[str, Callable[..., Any]] = {
    **{name: OPERATORS[name] if o.is_real else _integers(_values(o)) for name, o in ON_NUMBERS.items()},
    **_SHARED,
    "^": _integers(lambda a, b: a**b),
}
