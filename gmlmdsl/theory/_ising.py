"""Ising models, recognised by the numbers of their factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import fail
from .._types import Given, ParamsLike
from ..data import bound_once
from ..evaluate import known_params
from ..graph import FactorGraph, verify_is_model
from ._local_tables import LocalTables, local_tables

if TYPE_CHECKING:
    from ..model import JointModel

Array = np.ndarray
NEGLIGIBLE = 1e-9  # fraction of the largest coefficient below which a coefficient is rounding
MOST_ORDERS = 1 << 20  # limit on the sets of three or more cells whose coefficients are summed


@dataclass(frozen=True, eq=False)
class Ising:
    """An Ising model, with log p(x) = constant + sum of h_i s_i + sum of J_ij s_i s_j.

    The first sum is over cells i. The second sum is over pairs i < j, so that each unordered pair
    occurs once. s_i is -1 at the first value of a cell and +1 at the second, whatever its domain
    calls them.

    Attributes:
        graph: the factor graph, whose cells i counts, with latents among them.
        h: shape (cells,).
        J: symmetric with a zero diagonal, shape (cells, cells).
    """

    graph: FactorGraph
    h: Array
    J: Array


def ising(model: JointModel, params: ParamsLike, what: str, given: Given | None = None) -> Ising:
    """Return a model as an Ising model, from the exact expansion of all its factors.

    Every function of two-valued cells is a sum of products of spins in a unique way, with its Walsh
    coefficients. A model is therefore an Ising model if the coefficients of all products of three
    or more spins are 0 after the factors are added.

    Args:
        model: the model.
        params: parameters.
        what: the name of the quantity in error messages.
        given: one row of data of given variables.

    Raises:
        GmlmError: E711 if the model is not an Ising model; E601 for a factor over very many cells;
            E510 for given data that do not fit.

    Reference: Li et al. 2024, Equations 5 and 6; a pair counts once.
    """
    verify_is_model(model)
    lowered = bound_once(model.lowered, given, what)
    graph, n = lowered.graph, lowered.graph.n_random
    sizes = graph.sizes[:n]
    if (sizes != 2).any():
        cell = int(np.argmax(sizes != 2))
        raise _none(what, f"`{graph.cell_name(cell)}` has {sizes[cell]} values", "it needs cells of two values each")
    with jax.enable_x64(True):
        numbers = {k: np.asarray(v, np.float64) for k, v in known_params(lowered.graph, params).items()}
    h, J, higher = np.zeros(n), np.zeros((n, n)), {}
    for tables in local_tables(graph, what):
        _expand(graph, tables, numbers, what, h, J, higher)
    scale = max(np.abs(h).max(initial=0.0), np.abs(J).max(initial=0.0), max(map(abs, higher.values()), default=0.0))
    for cells, value in higher.items():
        if abs(value) > NEGLIGIBLE * scale:
            names = " * ".join(graph.cell_name(c) for c in cells)
            raise _none(
                what,
                f"log p as a function of spins has the term {value:.6g} * {names}",
                "it needs log p affine in single spins and pairs of them",
            )
    return Ising(graph, h, J + J.T)


def _none(what: str, found: str, needed: str) -> Exception:
    return fail("E711", f"{what}: the model is not an Ising model, {found}", help=needed)


def _expand(
    graph: FactorGraph,
    tables: LocalTables,
    params: Mapping[str, Array],
    what: str,
    h: Array,
    J: Array,
    higher: dict[tuple[int, ...], float],
) -> None:
    """Add the coefficients of the factors of one kind; pairs are in the upper triangle of J."""
    found, axes = tables.values(params), len(tables.sizes)
    if not np.isfinite(found).all():
        instance = int(np.argmax(~np.isfinite(found.reshape(len(found), -1)).all(axis=1)))
        names = ", ".join(graph.cell_name(int(c)) for c in tables.cells[instance])
        raise _none(what, f"a factor over {names} is not finite at some values", "it needs every configuration to be possible")
    for axis in range(1, axes + 1):
        first, second = np.take(found, 0, axis), np.take(found, 1, axis)
        found = np.stack([(first + second) / 2, (second - first) / 2], axis)
    found = found.reshape(len(found), -1)
    inside = np.stack(np.unravel_index(np.arange(found.shape[1]), tables.sizes), axis=1) if axes else np.zeros((1, 0), int)
    order = inside.sum(axis=1)
    for k in np.flatnonzero(order == 1):
        np.add.at(h, tables.cells[:, inside[k] == 1][:, 0], found[:, k])
    for k in np.flatnonzero(order == 2):
        i, j = tables.cells[:, inside[k] == 1].T
        np.add.at(J, (i, j), found[:, k])
    floor = NEGLIGIBLE**2 * np.abs(found[:, order > 0]).max(initial=0.0)
    for k in np.flatnonzero(order > 2):
        for instance in np.flatnonzero(np.abs(found[:, k]) > floor):
            cells = tuple(tables.cells[instance, inside[k] == 1].tolist())
            higher[cells] = higher.get(cells, 0.0) + float(found[instance, k])
        if len(higher) > MOST_ORDERS:
            raise _none(what, f"log p has more than {MOST_ORDERS:,} products of three and more spins", "it needs none")
