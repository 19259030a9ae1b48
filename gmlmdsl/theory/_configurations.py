"""Every configuration of a small model with its probability and its score.

They are tensors with one axis per cell.

The factors are tabulated too, each over the cells that it mentions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, no_attribute
from .._types import AnyArray, Configuration, Given, ParamsLike
from ..data import bound_once, decode
from ..derive import bounded_jit
from ..evaluate import flatten as flat_vector
from ..evaluate import known_params, log_completions, tangent, unflatten
from ..graph import FactorGraph, FactorGroup, Lowered, joint_count, verify_is_model
from ..graph.nodes import evaluate, numpy_leaves
from ..model import Fit
from ..train import NetworkFit
from .limits import CONSTANT_SCORE, MOST_SCORES, MOST_STATES, MOST_TABLE_ENTRIES, ROWS_AT_ONCE

if TYPE_CHECKING:
    from ..model import Model

Array = np.ndarray
BY_SAMPLING = "estimate: `compare_masks(.., draws=)`, `estimated_covariance`, `spectral_gap(.., draws=)`"


@dataclass(frozen=True, eq=False)
class Configurations:
    """All configurations of some cells, as tensors with one axis per cell.

    The cell with the first position is the slowest axis.

    Attributes:
        lowered: the model, with its given data.
        params: parameters, float64.
        cells: the positions of the cells, ascending: every cell of a `var`, and every cell of a
            `latent` if the state includes latents.
        codes: shape (cells of the graph, configurations), -1 for a latent that is summed out.
        log_p: log p of each configuration, a tensor; -inf for an impossible configuration.
    """

    lowered: Lowered
    params: Mapping[str, jax.Array]
    cells: Array
    codes: Array
    log_p: Array

    @property
    def host(self) -> FactorGraph:
        """The factor graph."""
        return self.lowered.graph

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each cell."""
        return self.log_p.shape

    @property
    def count(self) -> int:
        """The number of configurations."""
        return self.log_p.size

    @cached_property
    def p(self) -> Array:
        """p of each configuration, a tensor with sum 1."""
        return np.exp(self.log_p)

    @cached_property
    def support(self) -> Array:
        """The numbers of the configurations with p > 0, ascending."""
        return np.flatnonzero(self.log_p.ravel() > -np.inf)

    @cached_property
    def basis(self) -> Array:
        """An orthonormal basis of the directions in which the parameters may move.

        It has the shape (parameters, directions).
        """
        return tangent(self.host, frozenset())

    @cached_property
    def scores(self) -> Array:
        """The score u(x) = grad log p(x) in the directions of `basis`, shape (*sizes, directions).

        It is 0 if p is 0, and has mean 0 under p.

        Raises:
            GmlmError: E601 for more entries than the limit.
        """
        directions = self.basis.shape[1]
        if self.count * directions > MOST_SCORES:
            message = f"the scores of {self.count:,} configurations in {directions} directions: {self.count * directions:.3g} numbers"
            help = f"take fewer cells or parameters, or {BY_SAMPLING}"
            raise no_attribute("E601", f"{message}, more than the limit of {MOST_SCORES:.3g}", help)
        if not directions:
            return np.zeros((*self.sizes, 0))
        with jax.enable_x64(True):
            raw = np.concatenate([self._slopes(rows) for rows in self._pieces(self.codes)])
        alive = self.log_p.reshape(-1, 1) > -np.inf
        raw = np.where(alive, raw, 0.0)
        found = np.where(alive, raw - self.p.ravel() @ raw, 0.0)
        constant = np.abs(found).max(axis=0) <= CONSTANT_SCORE * np.abs(raw).max(axis=0)
        return np.where(constant, 0.0, found).reshape(*self.sizes, directions)

    def _slopes(self, rows: Array) -> Array:
        """Return the derivatives of log_potential with latents summed out.

        The array has the shape (rows, directions).
        """
        vector, directions = flat_vector(self.host, self.params), jnp.asarray(self.basis.T)
        device = derive.graph_arrays(self.host)
        if (rows >= 0).all():
            return np.asarray(_slopes(device, _Frame(self.host), vector, directions, jnp.asarray(rows))).T

        def summed(v: jax.Array) -> AnyArray:
            return log_completions(self.host, device, unflatten(self.host, v), rows)

        return np.asarray(jax.lax.map(lambda d: jax.jvp(summed, (vector,), (d,))[1], directions)).T

    @staticmethod
    def _pieces(codes: Array) -> list[Array]:
        return [codes[:, at : at + ROWS_AT_ONCE] for at in range(0, codes.shape[1], ROWS_AT_ONCE)]

    def values(self) -> Configuration:
        """Return the configurations as the model takes them, with rows as the first axis.

        They are an array, or a dict by variable if there are several variables.
        """
        inside = np.zeros(self.host.n_cells, bool)
        inside[self.cells] = True
        found = decode(self.host, np.maximum(self.codes, 0), (self.count,))
        kept = {v.name: found[v.name] for v in self.host.variables if inside[v.offset]}
        return kept if len(kept) > 1 else next(iter(kept.values()))

    def place(self, codes: Array) -> int:
        """Return the number of one configuration, given by the codes of all its cells."""
        return int(np.ravel_multi_index(tuple(codes[self.cells]), self.sizes))


@dataclass(frozen=True)
class _Frame:
    host: FactorGraph


@bounded_jit
def _slopes(graph: derive.Graph, frame: _Frame, vector: jax.Array, directions: jax.Array, codes: jax.Array) -> jax.Array:
    """Return directional derivatives of log_potential, shape (directions, rows).

    The derivatives of impossible rows are 0.
    """

    def finite(v: jax.Array) -> jax.Array:
        value = derive.log_potential(graph, unflatten(frame.host, v), codes)
        return jnp.where(jnp.isfinite(value), value, 0.0)

    return jax.lax.map(lambda d: jax.jvp(finite, (vector,), (d,))[1], directions)


def verify_model(model: Any) -> None:
    """Raise an error for a fit in place of a model, or a model without a joint distribution.

    Raises:
        GmlmError: E507, E742.
    """
    if isinstance(model, Fit | NetworkFit):
        raise fail("E507", "this takes a model and parameters, and got a fit", help="pass `fit.model, fit.params`")
    verify_is_model(model)
    if model.graph.network is not None:
        raise derive.no_joint(model.graph)


def verify_count(host: FactorGraph, cells: Array, what: str, most: int = MOST_STATES, help: str = "") -> None:
    """Raise E601 for more configurations than the limit of enumeration.

    Args:
        host: the factor graph.
        cells: the positions of the cells.
        what: the name of the quantity in error messages.
        most: the limit.
        help: the suggested fix; empty for the default one.

    Raises:
        GmlmError: E601 with the number.
    """
    count = joint_count(host.sizes[cells])
    if count > most:
        message = f"{what} lists all configurations: {len(cells)} cells have {count:.3g}, more than the limit of {most:,}"
        raise fail("E601", message, help=help or f"take a smaller model, or {BY_SAMPLING}")


def configurations(
    model: Model, params: ParamsLike, what: str, *, latents: bool = False, given: Given | None = None, most: int = MOST_STATES
) -> Configurations:
    """Return the configurations of a model.

    Args:
        model: the model.
        params: parameters.
        what: the purpose of the enumeration, in words.
        latents: whether configurations include the latents, which are otherwise summed out.
        given: one row of given data.
        most: the limit on the number of configurations.

    Raises:
        GmlmError: E601 for too many configurations, or for a costly sum over latents; E510 for
            given data that do not fit.
    """
    verify_model(model)
    lowered = bound_once(model.lowered, given, what)
    with jax.enable_x64(True):
        return listed(lowered, known_params(lowered.graph, params), what, latents, most)


def listed(lowered: Lowered, params: Mapping[str, jax.Array], what: str, latents: bool = False, most: int = MOST_STATES) -> Configurations:
    """Return the configurations of a model with its given data; 64-bit types must be enabled.

    Args:
        lowered: the model, with its given data.
        params: parameters.
        what: the purpose of the enumeration, in words.
        latents: whether configurations include the latents, which are otherwise summed out.
        most: the limit on the number of configurations.

    Raises:
        GmlmError: E601 for too many configurations; E512 if every configuration is impossible.
    """
    host = lowered.graph
    cells = np.arange(host.n_random) if latents else np.flatnonzero(host.is_observed)
    verify_count(host, cells, what, most)
    sizes = tuple(host.sizes[cells].tolist())
    codes = np.zeros((host.n_cells, int(np.prod(sizes, dtype=np.int64))), np.int32)
    codes[np.flatnonzero(host.is_latent)] = -1
    codes[cells] = np.stack(np.unravel_index(np.arange(codes.shape[1]), sizes))
    device = derive.graph_arrays(host)
    pieces = Configurations._pieces(codes)
    found = np.concatenate([np.asarray(_log_potential(host, device, params, rows)) for rows in pieces])
    top = found.max()
    if not top > -np.inf:
        raise fail("E512", "every configuration is impossible at these parameters: no `require` is ever met, or every factor is log 0")
    weights = np.exp(found - top)
    return Configurations(lowered, params, cells, codes, (found - top - np.log(weights.sum())).reshape(sizes))


def _log_potential(host: FactorGraph, device: derive.Graph, params: Mapping[str, jax.Array], rows: Array) -> AnyArray:
    if (rows >= 0).all():
        return derive.compiled.log_potential(device, params, jnp.asarray(rows))
    return log_completions(host, device, params, rows)


@dataclass(frozen=True, eq=False)
class LocalTables:
    """Factors whose tables have one shape.

    Attributes:
        group: the factors.
        cells: the distinct cells of each factor, ascending, shape (factors, axes).
        sizes: the number of values along each axis.
        axes: the axis of each slot of the group; -1 for a slot without a cell.
    """

    group: FactorGroup
    cells: Array
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    def values(self, params: Mapping[str, Array]) -> Array:
        """Return the tables at parameters, shape (factors, *sizes).

        A `require` is 0 at values that satisfy it, and -inf elsewhere.
        """
        count = int(np.prod(self.sizes, dtype=np.int64))
        grid = [*np.unravel_index(np.arange(count), self.sizes)] if self.sizes else []
        nothing = np.zeros(count, np.int64)
        codes = {slot: grid[axis] if axis >= 0 else nothing for slot, axis in enumerate(self.axes)}
        leaves = numpy_leaves(self.group.columns, self.group.tables, codes, slice(0, self.group.n), params)
        with np.errstate(all="ignore"):
            found = np.asarray(evaluate(self.group.root, leaves))
        if self.group.kind == "require":
            found = np.where(found.astype(bool), 0.0, -np.inf)
        return np.broadcast_to(found.astype(np.float64), (self.group.n, count)).reshape(self.group.n, *self.sizes)


def local_tables(graph: FactorGraph, what: str) -> list[LocalTables]:
    """Return the tables of all factors and requirements of a graph.

    Raises:
        GmlmError: E601 with the number of entries if tables are too large.
    """
    return [t for group in graph.groups for t in _of_group(graph, group, what)]


def _of_group(graph: FactorGraph, group: FactorGroup, what: str) -> list[LocalTables]:
    if not group.cells.shape[1]:
        return [LocalTables(group, group.cells, (), ())]
    none = graph.n_random  # the row cell and the padding are not cells of variables
    slots = np.minimum(group.cells, none)
    ordered = np.sort(slots, axis=1)
    repeated = np.concatenate([np.zeros((group.n, 1), bool), ordered[:, 1:] == ordered[:, :-1]], axis=1)[:, : slots.shape[1]]
    distinct = np.sort(np.where(repeated, none, ordered), axis=1)
    axis_of = np.where(slots < none, (slots[:, :, None] == distinct[:, None, :]).argmax(axis=2), -1)
    sizes = np.append(graph.sizes[:none], 1)[distinct]
    kinds, kind = np.unique(np.concatenate([axis_of, sizes, distinct < none], axis=1), axis=0, return_inverse=True)
    out = []
    for k, row in enumerate(kinds):
        members, width = np.flatnonzero(kind.reshape(-1) == k), slots.shape[1]
        used = int(row[2 * width :].sum())
        shape = tuple(row[width : width + used].tolist())
        entries = len(members) * float(np.prod(np.array(shape, float)))
        if entries > MOST_TABLE_ENTRIES:
            message = f"{what} lists the tables of all factors: {len(members):,} of shape {shape} have {entries:.3g} entries"
            help = "take factors over fewer cells"
            raise fail("E601", f"{message}, more than the limit of {MOST_TABLE_ENTRIES:,}", group.span, help=help)
        out.append(LocalTables(group.take(members), distinct[members, :used], shape, tuple(row[:width].tolist())))
    return out
