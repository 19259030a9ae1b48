"""A small causal network with the exact law of its rows, and an independent beam search."""

import itertools
from functools import cache

import jax
import numpy as np

import gmlmdsl as gm

V, N = 3, 4
PROGRAM = """
index s = range(4)
index t = range(4)
network net = encoder_decoder(layers = 2, heads = 2, width = 8, causal = true)
model m {
  given src[i in s] : range(3)
  var   x[j in t] : range(3)
  conditional x ~ net(src)
}
mask forced     = everything(x, noise = {keep: 1})
sampler greedy  = autoregressive(end = 1)
sampler whole   = autoregressive()
sampler wide    = autoregressive(beam = 3)
sampler beam    = autoregressive(end = 1, beam = 3)
sampler short   = autoregressive(end = 1, beam = 3, length_penalty = 0)
sampler every   = autoregressive(end = 1, beam = 81)
sampler drawn   = autoregressive(end = 1, decode = sample)
sampler sharp   = autoregressive(decode = sample, temperature = 0.5, top_k = 2)
"""
SOURCES = np.array([[0, 2, 1, 1], [2, 2, 0, -1], [1, -1, -1, -1]])


@cache
def weights() -> dict:
    with jax.enable_x64(True):  # weights under which beams change places, so that each needs a cache of its own
        return gm.parse(PROGRAM).model().init_params(10)


@cache
def next_values() -> dict[int, dict[tuple[int, ...], np.ndarray]]:
    """log p(x_i | x_<i) for every prefix of each source, from log p of whole rows."""
    with jax.enable_x64(True):
        every = np.array(list(itertools.product(range(V), repeat=N)))
        model, found = gm.parse(PROGRAM).model(), {}
        for r, source in enumerate(SOURCES):
            log_p = np.asarray(model.log_prob(weights(), every, missing=-1, given={"src": np.tile(source, (len(every), 1))}))
            p = np.exp(log_p).reshape((V,) * N)
            tables = {}
            for n in range(N):
                joint = p.sum(axis=tuple(range(n + 1, N)))
                for prefix in itertools.product(range(V), repeat=n):
                    row = joint[prefix]
                    tables[prefix] = np.log(row / row.sum())
            found[r] = tables
        return found


def rows_that_end(end: int | None) -> list[tuple[int, ...]]:
    """Every row: up to its first end, or of all cells."""
    out = {row[: row.index(end) + 1] if end in row else row for row in itertools.product(range(V), repeat=N)}
    return sorted(out)


def log_p(tables: dict, row: tuple[int, ...]) -> float:
    return float(sum(tables[row[:i]][value] for i, value in enumerate(row)))


def searched(tables: dict, end: int | None, beam: int, penalty: float) -> list[tuple[float, tuple[int, ...]]]:
    """Beam search in plain Python: of the best 2 b continuations those among the first b that end are set aside."""
    live, done = [(0.0, ())], []
    for t in range(N):
        best = sorted(((p + tables[row][v], (*row, v)) for p, row in live for v in range(V)), reverse=True)[: 2 * beam]
        for p, row in best[:beam]:
            if row[-1] == end or t == N - 1:
                done.append((p / len(row) ** penalty, row))
        live = [(p, row) for p, row in best if row[-1] != end][:beam]
        if len(done) >= beam or not live:
            break
    return sorted(done, reverse=True)[:beam]


def filled(row: tuple[int, ...]) -> list[int]:
    """As arrays hold a row: -1 behind its end."""
    return [*row, *[-1] * (N - len(row))]


def mass() -> list[float]:
    """The sum of p over all rows of full length, for each source."""
    every = np.array(list(itertools.product(range(V), repeat=N)))
    model = gm.parse(PROGRAM).model()
    given = (np.tile(source, (len(every), 1)) for source in SOURCES)
    return [float(np.exp(model.log_prob(weights(), every, missing=-1, given={"src": g})).sum()) for g in given]
