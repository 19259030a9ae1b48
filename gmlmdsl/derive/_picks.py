"""Draws in proportion to weights, exact up to rounding relative to each probability, however small.

Inversion of the distribution function with one number is inaccurate for small probabilities. In the
middle of the range, neither the number nor the preceding sums are fine enough. Therefore the values
are split into parts repeatedly, each time by a number of its own. The number is as fine near 0 as
necessary. The smaller of two parts is taken if the number times the sum of both is below its
weight. The weight of a part is a sum of few terms, or a sum of sums. Errors therefore grow with the
logarithm of the number of values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from ._random import Words, words_apart
from .limits import MOST_MASKED, MOST_SPLIT_THRICE, MOST_SPLIT_TWICE

Picked = Int[Array, "..."]


def levels_of(values: int) -> int:
    """Return the number of levels of words that a draw among `values` values takes."""
    if values <= MOST_SPLIT_THRICE:
        return 1 if values <= MOST_SPLIT_TWICE else 3
    return (values - 1).bit_length()


def second_of_two(first: Array | float, second: Array | float, number: Array) -> Bool[Array, ...]:
    """Return whether the second of two weights is drawn.

    A weight of 0 is never drawn against a positive one; of two zero weights the first is drawn.
    """
    least = number * (first + second) < jnp.minimum(first, second)
    return least != (first < second)


def happens(yes: Array | float, no: Array | float, words: Words) -> Bool[Array, ...]:
    """Return True with probability yes / (yes + no).

    Each weight should be as exact as the probability that it represents has to be.
    """
    return second_of_two(no, yes, words.number())


def accepted(log_ratio: Array, words: Words) -> Bool[Array, ...]:
    """Return True with probability min(1, ratio); the result is False if the ratio is nan."""
    capped = jnp.minimum(log_ratio, 0.0)
    return happens(jnp.exp(capped), -jnp.expm1(capped), words)


def pick_of_weights(weights: Sequence[Array], words: Words) -> Picked:
    """Draw one of up to `MOST_SPLIT_THRICE` values by weight; the first if all are 0."""
    if len(weights) == 1:
        return jnp.zeros(words.high.shape[1:], jnp.int32)
    if 2 < len(weights) <= MOST_SPLIT_TWICE:
        return _parted(weights, words.numbers())
    return _parted(weights, [words.number(k) for k in range(words.high.shape[0])])


def _parted(weights: Sequence[Array], numbers: Sequence[Array]) -> Picked:
    """Split the values into two or three parts, take one of them, and split it in turn.

    All parts except the last have the same size.
    """
    if len(weights) <= 3:
        return _one_of(weights, numbers[0]) if len(weights) > 1 else jnp.zeros(numbers[0].shape, jnp.int32)
    size = 2 if len(weights) == 4 else -(-len(weights) // 3)
    parts = [weights[k : k + size] for k in range(0, len(weights), size)]
    part = _one_of([reduce(add, p) for p in parts], numbers[0])
    nothing = jnp.zeros_like(weights[0])
    within = [_chosen([p[k] if k < len(p) else nothing for p in parts], part) for k in range(size)]
    return part * size + _parted(within, numbers[1:])


def _chosen(each: Sequence[Array], which: Picked) -> Array:
    """Return the array with number `which`."""
    return reduce(lambda found, k: jnp.where(which == k, each[k], found), range(1, len(each)), each[0])


def _one_of(weights: Sequence[Array], number: Array) -> Picked:
    """Draw one of two or three values; the first if all weights are 0.

    The smallest weights are next to 0, where the number is fine.
    """
    if len(weights) == 2:
        return second_of_two(weights[0], weights[1], number).astype(jnp.int32)
    a, b, c = weights
    low, high, a_low = jnp.minimum(a, b), jnp.maximum(a, b), a < b
    second = a_low.astype(jnp.int32)  # the place of the larger one
    first = 1 - second
    above_low, above_high = low < c, high < c
    threshold = number * (low + high + c)
    small = jnp.minimum(low, c)
    least, most = jnp.where(above_low, first, 2), jnp.where(above_high, 2, second)
    middle = jnp.where(above_high, second, jnp.where(above_low, 2, first))
    both = small + jnp.where(above_high, high, jnp.maximum(low, c))
    return jnp.where(threshold < small, least, jnp.where(threshold < both, middle, most))


def pick(weights: Array, words: Words, axis: int) -> Picked:
    """Draw one value along an axis in proportion to weights; the first if all are 0."""
    if weights.shape[axis] > MOST_SPLIT_THRICE:
        return pick_along(weights, words, axis)
    return pick_of_weights([jax.lax.index_in_dim(weights, k, axis, keepdims=False) for k in range(weights.shape[axis])], words)


def pick_along(leaves: Array, words: Words, axis: int, weight: Callable[[Array], Array] = lambda leaf: leaf) -> Picked:
    """Draw one value along an axis in proportion to `weight` of leaves; the first if all are 0.

    Values are the leaves of a tree. Node k of a level with n nodes is the parent of the nodes k and
    k + n of the level below.

    Args:
        leaves: an array with the values along `axis`.
        words: random words of the shape of the draws.
        axis: the axis of values.
        weight: the function that maps leaves to weights.
    """
    axis %= leaves.ndim
    levels, of = [(leaves, weight)], weight
    while levels[-1][0].shape[axis] > 1:
        below, of = levels[-1]
        levels.append((_halved(below, axis, of), lambda leaf: leaf))
    place = jnp.zeros(words.high.shape[1:], jnp.int32)
    for k, (level, of) in enumerate(reversed(levels[:-1])):
        count = level.shape[axis]
        other = place + (count + 1) // 2
        first, second = of(_read(level, place, axis)), of(_read(level, jnp.minimum(other, count - 1), axis))
        goes = second_of_two(first, jnp.where(other < count, second, 0), words.number(k))
        place = jnp.where(goes & (other < count), other, place)
    return place


def _halved(level: Array, axis: int, of: Callable[[Array], Array]) -> Array:
    count = level.shape[axis]
    half = (count + 1) // 2
    front, back = of(jax.lax.slice_in_dim(level, 0, half, axis=axis)), of(jax.lax.slice_in_dim(level, half, count, axis=axis))
    return front + jnp.pad(back, [(0, 2 * half - count if a == axis else 0) for a in range(level.ndim)])


def _read(level: Array, place: Picked, axis: int) -> Array:
    """Return one value along an axis.

    Among few values it is found by comparisons, which are vectorised, whereas a look-up is not.
    """
    where = jnp.expand_dims(place, axis)
    if level.shape[axis] > MOST_MASKED:
        if level.size == level.shape[axis]:  # the level is the same for all draws
            return level.reshape(-1)[place]
        shape = [level.shape[a] if a == axis else where.shape[a] for a in range(level.ndim)]
        return jnp.squeeze(jnp.take_along_axis(jnp.broadcast_to(level, shape), where, axis=axis), axis)
    shape = [-1 if a == axis else 1 for a in range(level.ndim)]
    here = jnp.arange(level.shape[axis], dtype=jnp.int32).reshape(shape) == where
    return jnp.where(here, level, jnp.zeros_like(level)).sum(axis=axis)


def pick_token(logits: Float[Array, "*shape values"], words: Words) -> Int[Array, "*shape"]:
    """Draw a value with probability proportional to exp(logits).

    `words` are random words of the shape `shape`, see `token_words`.
    """
    top = logits.max(axis=-1, keepdims=True)
    scores = logits - jnp.where(jnp.isfinite(top), top, 0.0)
    if logits.shape[-1] <= MOST_SPLIT_THRICE:
        return pick_of_weights([jnp.exp(scores[..., v]) for v in range(logits.shape[-1])], words)
    return pick_along(scores, words, -1, jnp.exp)


def token_words(keys: PRNGKeyArray, n: int, values: int) -> Words:
    """Return random words for n calls of `pick_token` for each key, of shape (n, keys)."""
    return words_apart(keys, n, levels_of(values))


def whole_below(n: int | Array, words: Words) -> Picked:
    """Draw an integer from 0 to n - 1, all with the same probability up to rounding.

    The relative error of a probability is at most n 2^-64. The integer is the integer part of n
    times a fraction of 64 bits.
    """
    n = jnp.asarray(n, jnp.uint32)
    whole, behind = _times(words.high[0], n)
    carried = behind + _times(words.low[0], n)[0]
    return (whole + (carried < behind).astype(jnp.uint32)).astype(jnp.int32)


def _times(a: UInt32[Array, ...], b: UInt32[Array, ...]) -> tuple[UInt32[Array, ...], UInt32[Array, ...]]:
    """Return the high and the low word of a product, computed from half words."""
    (a1, a0), (b1, b0) = ((w >> 16, w & 0xFFFF) for w in (a, b))
    low, first, second = a0 * b0, a0 * b1, a1 * b0
    middle = (low >> 16) + (first & 0xFFFF) + (second & 0xFFFF)
    return a1 * b1 + (first >> 16) + (second >> 16) + (middle >> 16), (low & 0xFFFF) | (middle << 16)


def exponential(words: Words) -> Float[Array, ...]:
    """Draw from the distribution of density exp(-x).

    A bit that no fraction reads decides from which end the fraction is counted.
    """
    half = words.number() / 2
    return jnp.where(words.high[0] & 1 == 1, -jnp.log(half), -jnp.log1p(-half))


def pick_value(scores: Float[Array, "blocks values rows"], words: Words) -> tuple[Int[Array, "blocks rows"], Array]:
    """Draw one value per block in proportion to exp(scores), and return whether any is possible.

    `words` are random words of shape (blocks, rows).
    """
    if scores.shape[1] <= MOST_SPLIT_THRICE:
        return pick_of_few([scores[:, v] for v in range(scores.shape[1])], words)
    top = scores.max(axis=1)
    possible = jnp.isfinite(top)
    return pick_along(scores - jnp.where(possible, top, 0.0)[:, None], words, 1, jnp.exp), possible


def pick_of_few(scores: list[Float[Array, "blocks rows"]], words: Words) -> tuple[Int[Array, "blocks rows"], Array]:
    """Do the same as `pick_value`, written out value by value.

    This is one loop over blocks and rows, whereas sums along an axis would take several loops.
    """
    top = reduce(jnp.maximum, scores)
    possible = jnp.isfinite(top)
    safe = jnp.where(possible, top, 0.0)
    return pick_of_weights([jnp.exp(s - safe) for s in scores], words), possible
