"""Values of factors: for whole configurations, and for the factors that touch a block.

The factors that touch a block are evaluated under all joint values of the block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float, Int

from .._types import ArrayLike
from ..graph.nodes import Leaves, evaluate
from ..program import OPERATORS as ON_NUMBERS
from ..program import Operator
from ._arrays import Blocks, Codes, Graph, Group, float_type
from .limits import LEAST_SCORES_IN_TURN, MOST_UNROLLED, STEEP

Params = Mapping[str, Array]


def log_potential(graph: Graph, params: Params, codes: Codes) -> Float[Array, " rows"]:
    """Return the unnormalised log p of whole configurations: the sum of the values of all factors.

    It is -inf for a configuration that violates a requirement.
    """
    total = jnp.zeros(codes.shape[1], float_type())
    for group in graph.groups:
        values = all_values(group, params, codes)
        total = total + (jnp.where(values.all(axis=0), 0.0, -jnp.inf) if group.kind == "require" else values.sum(axis=0))
    return total


def all_values(group: Group, params: Params, codes: Codes) -> Array:
    """Return the value of every instance, shape (instances, rows); requirements give booleans."""
    # axes: 1 block, instances, 1 value, rows
    slots = [codes[group.cells[:, k]][None, :, None, :] for k in range(group.cells.shape[1])]
    instances = jnp.arange(group.n, dtype=jnp.int32)[None, :, None]
    values = evaluate_slots(group, params, instances, slots)
    return jnp.broadcast_to(values, (1, group.n, 1, codes.shape[1]))[0, :, 0, :]


def local_scores(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """Return the sum of the factors that touch each block, under every joint value of its cells.

    All other cells have their values in `codes`. A score is -inf if the block does not have that
    joint value or a requirement forbids it.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        blocks: the blocks.
    """
    scores = jnp.where(blocks.valid, 0.0, -jnp.inf).astype(float_type())
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1]:
            scores = scores + touching_sum(group, params, codes, blocks.cells, touch, blocks.codes)
    return jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))


def lacking(blocks: Blocks, codes: Codes, n_cells: int) -> Bool[Array, "blocks members rows"]:
    """Return for each member of a block whether the row lacks it, that is, has the code -1."""
    # for padding this is the code of some cell
    here = codes[blocks.cells, jnp.arange(codes.shape[1])]
    return (here < 0) & (blocks.cells < n_cells)


def scored(blocks: Blocks, codes: Codes, n_cells: int) -> Bool[Array, "blocks rows"]:
    """Return for each block whether a row has an observed value for at least one of its members."""
    return ((blocks.cells < n_cells) & ~lacking(blocks, codes, n_cells)).any(axis=1)


def observed_scores(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """Return `local_scores` of observed values: a factor of a missing cell is left out.

    A missing cell has the code -1. A missing member of a block does not belong to it: only the
    first value of that member counts, whichever it is.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: codes of the rows, shape (cells, rows).
        blocks: the blocks.
    """
    known, rows = jnp.maximum(codes, 0), jnp.arange(codes.shape[1])
    moved = (lacking(blocks, codes, graph.n_cells)[:, None] & (blocks.codes > 0)).any(axis=2)
    scores = jnp.where(blocks.valid & ~moved, 0.0, -jnp.inf).astype(float_type())
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1]:
            whole = (codes[group.cells] >= 0).all(axis=1)  # axes: instances, rows
            held = jnp.where(whole[jnp.maximum(touch, 0), rows], touch, -1)
            scores = scores + touching_sum(group, params, known, blocks.cells, held, blocks.codes)
    return jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))


def scores_in_turn(graph: Graph, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
    """Return `local_scores`, added instance by instance or value by value.

    This order is fast on a CPU. It serves calls that do not differentiate.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        blocks: the blocks.
    """
    scores = jnp.where(blocks.valid, 0.0, -jnp.inf).astype(float_type())
    scores = jnp.broadcast_to(scores, (*scores.shape[:2], codes.shape[1]))
    cells, given = blocks.cells, blocks.codes
    for group, touch in zip(graph.groups, blocks.touch[: len(graph.groups)], strict=True):
        if touch.shape[1] > 1 and scores.size >= LEAST_SCORES_IN_TURN:

            def add(total: Array, one: Array, group: Group = group) -> tuple[Array, None]:
                return total + touching_sum(group, params, codes, cells, one[:, None], given), None

            scores, _ = jax.lax.scan(add, scores, jnp.moveaxis(touch, 1, 0))
        elif touch.shape[1] and blocks.n_values <= MOST_UNROLLED:
            # The values are evaluated one after another, because an axis of values in the middle
            # prevents the vectorisation of the loop over rows. Each result is written to its place,
            # because XLA 0.10 fuses a concatenation of the values' arrays into functions that it
            # then fails to compile.
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
    """Return the sum of a group's instances that touch each block, up to broadcasting.

    The members of a block have the codes `given`. The sum is -inf where a requirement fails.

    Args:
        group: the group of factors.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        members: the cells of each block.
        touch: the instances that touch each block, -1 for none.
        given: the codes of the members under each joint value.
    """
    values = _values_under(group, params, codes, members, touch, given)
    here = (touch >= 0)[:, :, None, :]
    if group.kind == "require":
        return jnp.where((values | ~here).all(axis=1), 0.0, -jnp.inf).astype(float_type())
    return jnp.where(here, values, 0.0).sum(axis=1)


def local_values(
    group: Group, params: Params, codes: Codes, blocks: Blocks, touch: Int[Array, "blocks width rows"]
) -> Float[Array, "blocks width values rows"]:
    """Return the value of each touching instance under every joint value of the block.

    The shape holds up to broadcasting.

    Args:
        group: the group of factors.
        params: parameters.
        codes: the configurations, shape (cells, rows).
        blocks: the blocks.
        touch: the instances that touch each block, -1 for none.
    """
    return _values_under(group, params, codes, blocks.cells, touch, blocks.codes)


def _values_under(
    group: Group,
    params: Params,
    codes: Codes,
    members: Int[Array, "blocks members rows"],
    touch: Int[Array, "blocks width rows"],
    given: Int[Array, "blocks values members rows"],
) -> Float[Array, "blocks width values rows"]:
    """Return the value of each touching instance under the codes `given` of the block's members."""
    instances = jnp.maximum(touch, 0)
    slots = []
    for k in range(group.cells.shape[1]):
        scope = group.cells[:, k][instances]  # axes: blocks, width, rows or 1
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
    """Evaluate the expression tree of a group from the code in each of its slots.

    Requirements give booleans, and all other groups floats.

    Args:
        group: the group of factors.
        params: parameters.
        instances: the number of each instance in its group.
        slots: the codes of the cells of each instance, an array for each slot.
    """

    def column(k: int, depth: int) -> Array:
        values = group.columns[k]
        if values.shape[0] == 1:
            return values[0].reshape((*values.shape[1:], 1, 1, 1, 1))
        return jnp.moveaxis(values, 0, -1)[..., instances][..., None, :]

    def cells(start: int, shape: tuple[int, ...]) -> Array:
        if not shape:
            return slots[start]
        # an unused slot is constant along some axes
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


def number(a: ArrayLike) -> Array:
    """Convert `a` to floats of the working type; a true condition becomes 1 and a false one 0."""
    return jnp.asarray(a, dtype=float_type()) if not isinstance(a, jax.Array) or not jnp.issubdtype(a.dtype, jnp.floating) else a


def integer(a: ArrayLike) -> Array:
    """Convert `a` to 32-bit integers."""
    a = jnp.asarray(a)
    return (jnp.rint(a) if jnp.issubdtype(a.dtype, jnp.floating) else a).astype(jnp.int32)


def _is_whole(a: ArrayLike) -> bool:
    return isinstance(a, bool | int) or (isinstance(a, jax.Array) and not jnp.issubdtype(a.dtype, jnp.floating))


def _numbers(f: Callable[..., Array]) -> Callable[..., Array]:
    """Return `f` with its operands converted to floats.

    The integers of a model are small, but their products need not fit into 32 bits.
    """
    return lambda *operands: f(*(number(o) for o in operands))


def _integers(f: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *operands: f(*(integer(o) for o in operands))


def _compared(f: Callable[[Array, Array], Array]) -> Callable[[ArrayLike, ArrayLike], Array]:
    """Return the comparison `f`, which compares two integers as integers."""

    def operator(a: ArrayLike, b: ArrayLike) -> Array:
        convert = integer if _is_whole(a) and _is_whole(b) else number
        return f(convert(a), convert(b))

    return operator


def _power(a: ArrayLike, b: ArrayLike) -> Array:
    if isinstance(b, int) and not isinstance(b, bool):
        return jax.lax.integer_pow(number(a), b)
    return _raised(number(a), number(b))


@jax.custom_jvp
def _raised(base: Array, exponent: Array) -> Array:
    """Return `base` to the power `exponent`, both floats, with a derivative at base 0.

    h^0 is 1 everywhere, and h^1 has slope 1 at 0.
    """
    return base**exponent


def _raised_jvp(primals: tuple[Array, Array], tangents: tuple[Array | SymbolicZero, Array | SymbolicZero]) -> tuple[Array, Array]:
    """Return the power and its tangent.

    The logarithm of the base is taken only if the exponent is differentiated, for otherwise the
    base may be negative.
    """
    base, exponent = primals
    value = _raised(base, exponent)
    slope = jnp.zeros_like(value)
    if not isinstance(tangents[0], SymbolicZero):
        flat = (exponent == 0) & (jnp.abs(base) < math.sqrt(float(jnp.finfo(base.dtype).tiny)))
        steep = (base == 0) & (exponent > 0) & (exponent < 1)
        flat = flat | steep
        inner = _raised(base, jnp.where(flat, 1.0, exponent) - 1.0)
        slope = slope + jnp.where(steep, STEEP, exponent * inner) * tangents[0]
    if not isinstance(tangents[1], SymbolicZero):
        none = base == 0
        slope = slope + jnp.where(none, 0.0, jnp.log(jnp.where(none, 1.0, base))) * value * tangents[1]
    return value, slope


_raised.defjvp(_raised_jvp, symbolic_zeros=True)


def _steep_at(
    f: Callable[[Array], Array], at: tuple[float, ...], tangent: Callable[[Array, Array, Array], Array]
) -> Callable[[ArrayLike], Array]:
    """Return `f` with the derivative `STEEP` at places where its own is infinite.

    A probability such as `p * a` is exactly 0 at the value 0 of the cell a, for every p. Then log p
    is -inf, and the entry adds nothing to any sum. An infinite derivative times 0 would make the
    derivative of the sum undefined; a large finite one times 0 is 0.

    Args:
        f: the function.
        at: the places.
        tangent: a function of the tangent, the operand (1/2 at these places) and the value there.
    """

    @jax.custom_jvp
    def steep(x: Array) -> Array:
        return f(x)

    def jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,) = primals
        singular = functools.reduce(jnp.logical_or, [x == place for place in at])
        usual = jnp.where(singular, 0.5, x)
        return steep(x), jnp.where(singular, STEEP * tangents[0], tangent(tangents[0], usual, f(usual)))

    steep.defjvp(jvp)
    return lambda a: steep(number(a))


# Functions that are infinite, or have an infinite slope, where a probability is 0 or 1.
_STEEP = {
    "log": _steep_at(jnp.log, (0.0,), lambda g, x, _: g / x),
    "log1p": _steep_at(jnp.log1p, (-1.0,), lambda g, x, _: g / (x + 1)),
    "sqrt": _steep_at(jnp.sqrt, (0.0,), lambda g, _, value: g * (0.5 / value)),
}


def _conditions(f: Callable[..., Array]) -> Callable[..., Bool[Array, ...]]:
    return lambda *operands: f(*(jnp.asarray(o, bool) for o in operands))


def _values(operator: Operator) -> Callable[..., Array]:
    return partial(operator.array, jnp)


_ARITHMETIC = {
    **{name: _values(operator) for name, operator in ON_NUMBERS.items()},
    **_STEEP,
    "logit": lambda a: _STEEP["log"](a) - _STEEP["log1p"](-number(a)),
    "sigmoid": jax.nn.sigmoid,  # takes floats and has derivatives, like the next one
    "bit": lambda a: jnp.floor((a + 1) / 2),
}
_COMPARISONS: dict[str, Callable[..., Array]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_LOGIC: dict[str, Callable[..., Array]] = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "not": lambda a: ~a}
_SHARED = {k: _compared(f) for k, f in _COMPARISONS.items()} | {k: _conditions(f) for k, f in _LOGIC.items()}
OPERATORS: dict[str, Callable[..., Array]] = {k: _numbers(f) for k, f in _ARITHMETIC.items()} | _SHARED | {"^": _power}
WHOLE: dict[str, Callable[..., Array]] = {
    **{name: OPERATORS[name] if o.is_real else _integers(_values(o)) for name, o in ON_NUMBERS.items()},
    **_SHARED,
    "^": _integers(lambda a, b: a**b),
}
