"""A hidden Markov model by scaled forward and backward recursions, and Viterbi's algorithm.

Conventions: `first` of shape (states,), `move` (states, states) from row to column, `emit` (states, symbols); observed strings `x`
are integers of shape (rows, time), -1 where a symbol is unobserved (its likelihood is 1 for every state).

Reference: Rabiner 1989, "A tutorial on hidden Markov models and selected applications in speech recognition".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Smoothed:
    """What the two recursions give for each row.

    Attributes:
        log_likelihood: log p(x) of the observed symbols, shape (rows,).
        posterior: p(z_t | x), shape (rows, time, states).
        pairs: p(z_t, z_t+1 | x) summed over t, shape (rows, states, states).
        predicted: p(z_t | x_<t), shape (rows, time, states).
        ahead: p(x_>t | z_t) up to a factor of t and row, shape (rows, time, states).
    """

    log_likelihood: Array
    posterior: Array
    pairs: Array
    predicted: Array
    ahead: Array


def likelihoods(emit: Array, x: Array) -> Array:
    """p(x_t | z_t), shape (rows, time, states)."""
    x = np.asarray(x)
    return np.where((x >= 0)[..., None], np.asarray(emit, float).T[np.maximum(x, 0)], 1.0)


def smooth(first: Array, move: Array, emit: Array, x: Array) -> Smoothed:
    """Forward and backward; every vector is divided by its sum, and the logs of the forward sums add up to log p(x).

    A row of probability zero has log-likelihood -inf and nan elsewhere.
    """
    first, move = np.asarray(first, float), np.asarray(move, float)
    seen = likelihoods(emit, x)
    rows, time, states = seen.shape
    predicted, filtered, ahead = (np.empty((rows, time, states)) for _ in range(3))
    scale, below, pairs = np.empty((rows, time)), np.empty((rows, time)), np.zeros((rows, states, states))
    with np.errstate(divide="ignore", invalid="ignore"):
        for t in range(time):
            predicted[:, t] = first if t == 0 else filtered[:, t - 1] @ move
            joint = predicted[:, t] * seen[:, t]
            scale[:, t] = joint.sum(axis=1)
            filtered[:, t] = joint / scale[:, t, None]
        ahead[:, -1] = 1.0
        for t in reversed(range(time - 1)):
            back = (seen[:, t + 1] * ahead[:, t + 1]) @ move.T
            below[:, t] = back.max(axis=1)
            ahead[:, t] = back / below[:, t, None]
            joint = filtered[:, t, :, None] * move * (seen[:, t + 1] * ahead[:, t + 1])[:, None]
            pairs += joint / joint.sum(axis=(1, 2), keepdims=True)
        posterior = filtered * ahead
        posterior /= posterior.sum(axis=2, keepdims=True)
        total = np.log(scale).sum(axis=1)
    return Smoothed(np.where(np.isnan(total), -np.inf, total), posterior, pairs, predicted, ahead)


def log_likelihood(first: Array, move: Array, emit: Array, x: Array) -> Array:
    """log p of the observed symbols of each row, shape (rows,)."""
    seen = likelihoods(emit, x)
    filtered, total = np.asarray(first, float), np.zeros(len(seen))
    with np.errstate(divide="ignore", invalid="ignore"):
        for t in range(seen.shape[1]):
            joint = filtered * seen[:, t]
            scale = joint.sum(axis=1)
            total += np.log(scale)
            filtered = (joint / scale[:, None]) @ np.asarray(move, float)
    return np.where(np.isnan(total), -np.inf, total)


def symbol_marginals(first: Array, move: Array, emit: Array, x: Array) -> Array:
    """p(x_t = c | the observed symbols), shape (rows, time, symbols): 0 or 1 where x_t is observed."""
    posterior = smooth(first, move, emit, x).posterior
    given = np.eye(emit.shape[1])[np.maximum(x, 0)]
    return np.where((np.asarray(x) >= 0)[..., None], given, posterior @ np.asarray(emit, float))


def next_symbol(first: Array, move: Array, emit: Array, x: Array) -> Array:
    """p(x_t = c | x_<t) for every t, shape (rows, time, symbols)."""
    return smooth(first, move, emit, x).predicted @ np.asarray(emit, float)


def viterbi(first: Array, move: Array, emit: Array, x: Array) -> tuple[Array, Array]:
    """A most probable path of states of each row, shape (rows, time), and log p(path, x); ties go to the lowest state."""
    with np.errstate(divide="ignore"):
        log_first, log_move, seen = np.log(first), np.log(move), np.log(likelihoods(emit, x))
    rows, time, states = seen.shape
    best, came = log_first + seen[:, 0], np.zeros((rows, time, states), int)
    for t in range(1, time):
        through = best[:, :, None] + log_move
        came[:, t] = through.argmax(axis=1)
        best = through.max(axis=1) + seen[:, t]
    path = np.empty((rows, time), int)
    path[:, -1] = best.argmax(axis=1)
    for t in reversed(range(1, time)):
        path[:, t - 1] = came[np.arange(rows), t, path[:, t]]
    return path, best.max(axis=1)


def span_losses(first: Array, move: Array, emit: Array, x: Array, width: int, starts: Sequence[int] | None = None) -> Array:
    """-log p(x_s..s+width-1 | the rest of the row) for every span, shape (rows, spans): log p(rest) - log p(x).

    The sum over what is hidden in the span runs from the filtered law before it to the backward vector behind it.
    """
    x, move = np.asarray(x), np.asarray(move, float)
    whole = smooth(first, move, emit, x)
    seen = likelihoods(emit, x)
    places = range(x.shape[1] - width + 1) if starts is None else starts
    found = []
    for s in places:
        with_span, without, log_with = whole.predicted[:, s], whole.predicted[:, s], np.zeros(len(x))
        for t in range(s, s + width):
            with_span = with_span * seen[:, t]
            scale = with_span.sum(axis=1, keepdims=True)
            with_span, log_with = with_span / scale, log_with + np.log(scale[:, 0])
            if t < s + width - 1:
                with_span, without = with_span @ move, without @ move
        last = whole.ahead[:, s + width - 1]
        found.append(np.log((without * last).sum(axis=1)) - np.log((with_span * last).sum(axis=1)) - log_with)
    return np.stack(found, axis=1)


def span_loss(first: Array, move: Array, emit: Array, x: Array, width: int) -> float:
    """The mean over rows and spans of -log p(span | rest): the loss of the mask whose blocks are all spans of that width."""
    return float(span_losses(first, move, emit, x, width).mean())
