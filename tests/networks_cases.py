"""Networks whose every number is known: classes that programs of the tests name, the same in NumPy, and programs with them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from oracle import _tabular as oracle

import gmlmdsl as gm

STRENGTH = 0.8


class Tabular(eqx.Module):
    """An exact law's log p(x_i | visible others) for every pattern of hidden cells; padding counts as hidden.

    Where a variable is given, its first entry says which of as many laws as it has values.
    """

    tables: Float[Array, "laws patterns cells values"]

    def __init__(self, *, key, n_cells, n_values, given, seed=0):
        count = given[0][2] if given else 1
        self.tables = jnp.log(jnp.stack([jnp.asarray(table_of(law(n_cells, n_values, seed + g))) for g in range(count)]))

    def __call__(self, seen, *given):
        q = self.tables.shape[-1]
        pattern = 0
        for i in range(self.tables.shape[-2]):
            pattern = pattern * (q + 1) + jnp.minimum(seen[i], q)
        which = given[0][0] if given else 0
        return self.tables[which, pattern]


def law(n: int, q: int, seed: int = 0) -> np.ndarray:
    """The joint law that `Tabular` holds."""
    return oracle.potts(n, q, seed, STRENGTH)


def table_of(p: np.ndarray) -> np.ndarray:
    """The exact conditionals for every pattern, q where hidden, the first cell slowest."""
    n, q = p.ndim, p.shape[0]
    return np.stack([oracle.conditionals(p, seen) for seen in itertools.product(range(q + 1), repeat=n)])


def exact(n: int, q: int, seed: int = 0) -> oracle.Predictor:
    """What `Tabular` predicts."""
    p = law(n, q, seed)
    found: dict[tuple[int, ...], np.ndarray] = {}

    def predict(seen: Sequence[int]) -> np.ndarray:
        pattern = tuple(min(int(v), q) for v in seen)
        if pattern not in found:
            found[pattern] = oracle.conditionals(p, pattern)
        return found[pattern]

    return predict


class Pairs(eqx.Module):
    """Random logits, a sum over what each cell and each given entry shows; these are nobody's conditionals. Padding adds nothing."""

    own: Float[Array, "cells values"]
    cells: Float[Array, "cells cells codes values"]
    given: tuple[Float[Array, "entries codes cells values"], ...]

    def __init__(self, *, key, n_cells, n_values, given, seed=0, scale=1.0):
        own, cells, of_given = pair_weights(n_cells, n_values, given, seed, scale)
        self.own, self.cells, self.given = jnp.asarray(own), jnp.asarray(cells), tuple(jnp.asarray(g) for g in of_given)

    def __call__(self, seen, *given):
        n = self.own.shape[0]
        total = self.own + self.cells[:, jnp.arange(n), seen].sum(axis=1)
        for weights, codes in zip(self.given, given, strict=True):
            total = total + weights[jnp.arange(len(codes)), codes].sum(axis=0)
        return total


def pair_weights(n: int, q: int, given: Any, seed: int, scale: float) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Weights of `Pairs`."""
    rng = np.random.default_rng(seed)
    own, cells = rng.normal(size=(n, q)), scale * rng.normal(size=(n, n, q + 2, q))
    cells[:, :, q + 1] = 0
    of_given = [scale * rng.normal(size=(m, v + 1, n, q)) for _, m, v in given]
    for g in of_given:
        g[:, -1] = 0
    return own, cells, of_given


def pairs(n: int, q: int, seed: int = 0, scale: float = 1.0, given: Any = (), rows: Sequence[Sequence[int]] = ()) -> Any:
    """Logits of `Pairs` in NumPy: of what is seen, with padding behind; `rows` are what is given, padded or not."""
    own, cells, of_given = pair_weights(n, q, given, seed, scale)

    def logits(seen: Sequence[int]) -> np.ndarray:
        total = own.copy()
        for j, code in enumerate(seen):
            total += cells[:, j, code]
        for weights, row in zip(of_given, rows, strict=True):
            for k, code in enumerate(row):
                total += weights[k, code]
        return total[: len(seen)]

    return logits


def normalised(logits: Any) -> oracle.Predictor:
    """Logits as a predictor."""

    def predict(seen: Sequence[int]) -> np.ndarray:
        rows = np.exp(logits(seen) - logits(seen).max(axis=1, keepdims=True))
        return rows / rows.sum(axis=1, keepdims=True)

    return predict


class OneHot(eqx.Module):
    """Cell i takes f_i of one other cell and no other value; the table f is the user's product kernel."""

    logits: Float[Array, "cells codes values"]
    source: Array

    def __init__(self, *, key, n_cells, n_values, given, shift=1):
        self.source = jnp.asarray([(i + shift) % n_cells for i in range(n_cells)], jnp.int32)
        kernel = np.full((n_cells, n_values + 2, n_values), 1 / n_values)
        for i in range(n_cells):
            for v in range(n_values):
                kernel[i, v] = np.eye(n_values)[one_hot_value(i, v, n_values)]
        self.logits = jnp.log(jnp.asarray(kernel))

    def __call__(self, seen, *given):
        cells = jnp.arange(self.source.shape[0])
        return self.logits[cells, seen[self.source]]


def one_hot_value(cell: int, v: int, q: int) -> int:
    """What cell i becomes where its source shows v."""
    return (v * (1 + cell % 2) + cell) % q


def program(network: str, n: int, q: int, more: str, given: str = "") -> str:
    """A program with one variable x of n cells and a network of this file, or any other."""
    names = ", ".join(line.split("[")[0].strip() for line in given.splitlines() if line.strip())
    lines = [f"  given {line.strip()}" for line in given.splitlines() if line.strip()]
    return "\n".join([f"network net = {network}", "model by_net {", *lines, f"  var x[i in range({n})] : range({q})", f"  conditional x ~ net({names})", "}", more])  # fmt: skip


def made(network: str, n: int, q: int, more: str, given: str = "") -> Any:
    """The model of `program`, its class of Python allowed."""
    return gm.parse(program(network, n, q, more, given), allow_python=True).model()


def stats(idata: Any, name: str) -> np.ndarray:
    """One of the sampler's statistics."""
    return np.asarray(idata["sample_stats"][name])


def draws(idata: Any, name: str = "x") -> np.ndarray:
    """The draws of a variable."""
    return np.asarray(idata["posterior"][name])


def numbers(codes: np.ndarray, q: int) -> np.ndarray:
    """The number of each configuration, cells along the last axis, the first slowest."""
    n = codes.shape[-1]
    return (codes * q ** np.arange(n - 1, -1, -1)).sum(axis=-1)


def keys(count: int, seed: int = 0) -> Any:
    """As many keys."""
    return jax.random.split(jax.random.key(seed), count)


class Copy(eqx.Module):
    """Every cell is most likely what it shows, and value 0 where it is hidden; the sharper, the surer."""

    sharp: Float[Array, ""]
    n_values: int = eqx.field(static=True)

    def __init__(self, *, key, n_cells, n_values, given, sharp=9.0):
        self.sharp, self.n_values = jnp.asarray(sharp), n_values

    def __call__(self, seen, *given):
        shown = jnp.where(seen < self.n_values, seen, 0)
        return self.sharp * jax.nn.one_hot(shown, self.n_values)


class Spread(eqx.Module):
    """Every cell is most likely the larger of what it and the cell before it show, 0 where hidden; `Spread.calls` counts passes."""

    sharp: Float[Array, ""]
    n_values: int = eqx.field(static=True)
    calls: ClassVar[list[int]] = []

    def __init__(self, *, key, n_cells, n_values, given):
        self.sharp, self.n_values = jnp.asarray(3.0), n_values

    def __call__(self, seen, *given):
        jax.debug.callback(lambda _: Spread.calls.append(1), seen)
        shown = jnp.where(seen < self.n_values, seen, 0)
        larger = jnp.maximum(shown, jnp.concatenate([shown[:1], shown[:-1]]))
        return self.sharp * (1 + 0.1 * shown[:, None].astype(self.sharp.dtype)) * jax.nn.one_hot(larger, self.n_values)


class Spy(eqx.Module):
    """The same logits whatever is seen, which is written down: `Spy.seen` has a row for every call."""

    own: Float[Array, "cells values"]
    seen: ClassVar[list[list[int]]] = []

    def __init__(self, *, key, n_cells, n_values, given, scale=1.0):
        rows = np.random.default_rng(0).normal(size=(n_cells, n_values)) * scale
        self.own = jnp.asarray(rows)

    def __call__(self, seen, *given):
        jax.debug.callback(lambda row: Spy.seen.append(np.asarray(row).tolist()), seen)
        return self.own
