"""A model as a NumPyro distribution: normalised, with exact draws.

The parameters may be traced or come in batches.

The functions of parameters and codes are log p, with latents summed out, and independent draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.util import validate_sample
from numpyro.util import is_prng_key

from .. import derive
from .._diagnostics import fail, listed
from .._types import ArrayLike, Arrays, ParamsLike
from ..evaluate import Contractions, batched_params, known_rows
from ..graph import Lowered, VariableArray

Params = Mapping[str, jax.Array]
WHAT = "log Z of a distribution"


class Law:
    """The distribution of the observed cells, for each row of given data, without the parameters.

    An object equals only itself, so that compiled programs can distinguish distributions without
    comparing their contents.

    Args:
        lowered: the model, with given data if it has given variables.
        kept: the contractions of the same graph.
    """

    def __init__(self, lowered: Lowered, kept: Contractions):
        self.graph, self.data, self._kept = lowered.graph, lowered.data, kept
        self.device = derive.graph_arrays(self.graph)
        self.rows = derive.on_device(known_rows(self.graph, self.data), np.int32)
        self.shape = () if self.data is None else self.data.shape

    def verify(self) -> None:
        """Raise E601 if log p of the distribution costs too much.

        Raises:
            GmlmError: E601 with the cost if log Z, or the sum over the latents, is above the
                budget.
        """
        _ = self.latent, self.whole

    @cached_property
    def latent(self) -> derive.Contraction | None:
        """The contraction of the latents; None if there are none."""
        hidden = ~self.graph.is_observed
        hidden[[] if self.graph.row_cell is None else [self.graph.row_cell]] = False
        return self._kept.holding(~hidden, "the sum over the latents")[1] if hidden.any() else None

    @cached_property
    def whole(self) -> derive.Contraction | None:
        """The contraction of all cells; None for a product of distributions, whose log Z is 0."""
        return None if self.graph.is_normalised else self._kept.whole(WHAT)[1]

    @cached_property
    def parents_first(self) -> derive.AbstractKernel:
        """A kernel that draws from a product of distributions, each cell given its parents."""
        # The kept value outlives a function that is traced now.
        with jax.ensure_compile_time_eval():
            return derive.ancestral_kernel(self.graph)

    @property
    def observed(self) -> tuple[VariableArray, ...]:
        """The variables of an event."""
        return self.graph.observed

    def log_prob(self, params: Params, codes: jax.Array, row: jax.Array) -> jax.Array:
        """Return log p of configurations, with latents summed out.

        Args:
            params: the parameters, each with its own shape.
            codes: shape (cells, configurations); values of latents have no effect.
            row: the number of the row of given data of each configuration; 0 if there are none.

        Returns:
            An array of shape (configurations,).
        """
        return _log_prob(self.device, params, self.with_row(codes, row), row, self.rows, self.latent, self.whole)

    def log_joint(self, params: Params, codes: jax.Array, row: jax.Array) -> jax.Array:
        """Return log p of configurations with the values of latents in `codes`."""
        return _log_prob(self.device, params, self.with_row(codes, row), row, self.rows, None, self.whole)

    def draw(self, params: Params, keys: jax.Array, row: jax.Array) -> jax.Array:
        """Return independent configurations, one for each key.

        The codes have the shape (cells, configurations).
        """
        codes = self.with_row(jnp.zeros((self.graph.n_cells, row.shape[0]), jnp.int32), row)
        if self.whole is None:
            return _step(self.parents_first, derive.Target(self.device, params, None), keys, codes)
        return _drawn(self.device, params, keys, codes, self.whole, self.data is None)

    def with_row(self, codes: jax.Array, row: jax.Array) -> jax.Array:
        """Return codes that contain the number of the row of given data of each configuration."""
        return codes if self.graph.row_cell is None else codes.at[self.graph.row_cell].set(row)

    def params(self, params: ParamsLike) -> tuple[Arrays, tuple[int, ...]]:
        """Return verified parameters from a user, and the shape of their batch.

        The batch consists of the axes before the axes of each parameter.

        Raises:
            GmlmError: E507, E506 or E501 for a dict that does not fit; without a batch, also the
                errors of `log_prob`.
        """
        return batched_params(self.graph, params)


def codes_with(codes: jax.Array, variables: tuple[VariableArray, ...], values: Mapping[str, jax.Array]) -> jax.Array:
    """Return codes (.., cells) in which some variables have the given values, (.., *axes).

    A value outside the domain is replaced by the nearest code.
    """
    for v in variables:
        given = jnp.asarray(values[v.name]).reshape(*codes.shape[:-1], v.size)
        whole = jnp.rint((given - v.first) / v.step).astype(codes.dtype)
        codes = codes.at[..., v.offset : v.offset + v.size].set(jnp.clip(whole, 0, len(v.labels) - 1))
    return codes


def values_of(codes: jax.Array, variables: tuple[VariableArray, ...]) -> dict[str, jax.Array]:
    """Return the values of some variables, (.., *axes), from codes of shape (.., cells)."""
    parts = {v: codes[..., v.offset : v.offset + v.size].reshape(*codes.shape[:-1], *v.shape) for v in variables}
    return {v.name: v.values_of(c) for v, c in parts.items()}


@derive.bounded_jit
def _log_prob(
    device: derive.Graph,
    params: Params,
    codes: jax.Array,
    row: jax.Array,
    rows: jax.Array,
    latent: derive.Contraction | None,
    whole: derive.Contraction | None,
) -> jax.Array:
    """Return the log of the sum over the latents minus log Z of each configuration's row.

    `row` contains the rows of given data. `whole` is None if log Z is 0.
    """
    found = derive.log_potential(device, params, codes) if latent is None else derive.log_sum(device, params, codes, latent)
    return found if whole is None else found - derive.log_sum(device, params, rows, whole)[row]


@derive.bounded_jit
def _step(kernel: derive.AbstractKernel, target: derive.Target, keys: jax.Array, codes: jax.Array) -> jax.Array:
    return kernel.step(target, keys, derive.State(codes))[0].codes


@derive.bounded_jit
def _drawn(device: derive.Graph, params: Params, keys: jax.Array, codes: jax.Array, c: derive.Contraction, alike: bool) -> jax.Array:
    """Return draws by the backward pass.

    If all configurations have one distribution (`alike`), one forward pass serves them.
    """
    unary = None if c.loop is None else jnp.zeros((c.free.shape[0], device.most_values, 1), derive.float_type())
    found = derive.forward(device, params, codes[:, :1] if alike else codes, c, unary)
    return derive.IndependentKernel(c, found).step(derive.Target(device, params, None), keys, derive.State(codes))[0].codes


class CellValues(Constraint):
    """The constraint that each cell of an event has a value of its domain.

    The domain of a cell is low, low + step, .., high.
    It is static data of compiled programs.
    """

    is_discrete = True

    def __init__(self, low: tuple[int, ...], high: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]):
        self.low, self.high, self.step, self.shape = low, high, step, shape

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of axes of an event."""
        return len(self.shape)

    def __call__(self, x: Any) -> Any:
        x = x if isinstance(x, jax.Array) else np.asarray(x)
        if jnp.issubdtype(x.dtype, jnp.integer):  # A narrow type may not hold the bounds.
            x = x.astype(jnp.int32 if isinstance(x, jax.Array) else np.int64)
        low, high, step = (np.broadcast_to(np.reshape(a, self.shape).astype(x.dtype), x.shape) for a in (self.low, self.high, self.step))
        good = (x >= low) & (x <= high) & ((x - low) % step == 0)
        return good.reshape(*good.shape[: good.ndim - len(self.shape)], -1).all(-1)

    def feasible_like(self, prototype: Any) -> Any:
        """Return the lowest value of each cell."""
        return jnp.broadcast_to(jnp.reshape(jnp.asarray(self.low), self.shape), jnp.shape(prototype))

    def tree_flatten(self) -> Any:
        return (), ((), self.__dict__)

    def eq(self, other: object, static: bool = False) -> Any:
        return isinstance(other, CellValues) and self.__dict__ == other.__dict__


def cell_values(variables: tuple[VariableArray, ...], shape: tuple[int, ...]) -> CellValues:
    """Return the constraint of some variables' cells, one variable after another."""
    ends = [(v.first, v.values_of(len(v.labels) - 1), v.step) for v in variables for _ in range(v.size)]
    low, high, step = zip(*ends, strict=True) if ends else ((), (), ())
    return CellValues(low, high, step, shape)


class GmlmDistribution(Distribution):
    """The distribution p(x) of a model at given parameters; see `Model.distribution`.

    Attributes:
        params: the parameters by name, each with its own shape, or with the axes of a batch before
            it.
        law: the data that do not change with the parameters.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    pytree_data_fields = ("params",)
    pytree_aux_fields = ("law",)
    params: Arrays
    law: Law

    def __init__(self, law: Law, params: ParamsLike, *, validate_args: bool | None = None):
        self.law = law
        self.params, batch = law.params(params)
        variables = law.observed
        shape = variables[0].shape if len(variables) == 1 else (sum(v.size for v in variables),)
        try:
            batch = np.broadcast_shapes(batch, law.shape)
        except ValueError:
            raise fail("E510", f"given has rows of shape {law.shape}, and params come in a batch of shape {batch}") from None
        super().__init__(batch, shape, validate_args=validate_args)

    @property
    def support(self) -> CellValues:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The values of every cell.

        Some configurations of these values may still have probability zero; `log_prob` is -inf
        there.
        """
        return cell_values(self.law.observed, self.event_shape)

    def log_prob(self, value: ArrayLike, intermediates: object = None) -> jax.Array:
        """Return log p(value), normalised, with latents summed out.

        The result is -inf if a cell has a value outside its domain.

        Args:
            value: shape (.., *batch_shape, *event_shape); it may be traced.
            intermediates: not used.

        Raises:
            GmlmError: E501 for a shape that does not fit, E502 unless `value` is an array of
                numbers.
        """
        del intermediates
        return self._log_prob(self._verified_event(value))

    @validate_sample
    def _log_prob(self, value: ArrayLike) -> jax.Array:
        value, batch = jnp.asarray(value), self._batch()
        lead = np.broadcast_shapes(value.shape[: value.ndim - len(self.event_shape)], batch)
        good = self.support(value)
        codes = jnp.moveaxis(jnp.broadcast_to(self._codes(value), (*lead, self.law.graph.n_cells)), -1, 0)
        found = self._by_batch(self.law.log_prob, batch, lead, codes)
        return jnp.where(jnp.broadcast_to(good, lead), found.reshape(lead), -jnp.inf)

    def sample(self, key: jax.Array | None, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return independent draws, of shape (*sample_shape, *batch_shape, *event_shape).

        The values are integers, as in `Model.sample`.
        """
        batch = self._batch()
        lead = (*sample_shape, *batch)
        keys = jax.random.split(typed(key), math.prod(lead)).reshape(lead)
        codes = self._by_batch(lambda p, k, row: self.law.draw(p, k, row).T, batch, lead, keys)
        return self._values(codes.reshape(*lead, -1))

    def unpack(self, value: ArrayLike) -> dict[str, jax.Array]:
        """Return the parts of an event by variable, each of shape (.., *axes).

        An event of several variables contains their cells one after another.

        Raises:
            GmlmError: E501 for a shape that does not fit, E502 unless `value` is an array of
                numbers.
        """
        value, at, out = self._verified_event(value, batched=False), 0, {}
        lead = value.shape[: value.ndim - len(self.event_shape)]
        flat = value.reshape(*lead, -1)
        for v in self.law.observed:
            out[v.name] = flat[..., at : at + v.size].reshape(*lead, *v.shape)
            at += v.size
        return out

    def pack(self, x: Mapping[str, ArrayLike]) -> jax.Array:
        """Return an event from its parts by variable; this is the inverse of `unpack`.

        The parts are numbers, or codes for letters and labels.

        Raises:
            GmlmError: E507 or E506 unless `x` is a dict of every variable.
        """
        names = [v.name for v in self.law.observed]
        if not isinstance(x, Mapping) or not all(n in x for n in names):
            raise fail("E506" if isinstance(x, Mapping) else "E507", f"pack takes a dict of {listed(names)}")
        parts = {v: _numbers(x[v.name], f"pack: {v.name}") for v in self.law.observed}
        lead = np.broadcast_shapes(*(a.shape[: a.ndim - len(v.shape)] for v, a in parts.items()))
        flat = [jnp.broadcast_to(a, (*lead, *v.shape)).reshape(*lead, v.size) for v, a in parts.items()]
        return jnp.concatenate(flat, axis=-1).reshape(*lead, *self.event_shape)

    def _verified_event(self, value: ArrayLike, batched: bool = True) -> jax.Array:
        """Return an array of values after verifying its shape.

        If `batched` is set, its rows must fit the batch of the distribution.
        """
        event = self.event_shape
        if isinstance(value, Mapping):
            raise fail("E502", "an event is one array, got a dict by variable", help="`pack` makes one of it")
        value = _numbers(value, "an event")
        shape = np.shape(value)
        try:
            np.broadcast_shapes(shape[: len(shape) - len(event)], self._batch() if batched else ())
        except ValueError:
            message = f"rows of values of shape {shape} do not fit the batch of the distribution, {self._batch()}"
            raise fail("E501", message, help="the batch's axes stand last before the event's") from None
        if shape[len(shape) - len(event) :] != event:
            raise fail("E501", f"an event has shape {event}, or axes before it, got {shape}", help=f"it is of {self._told()}")
        return value

    def _told(self) -> str:
        return listed([f"{v.name}, {v.shape or 'a number'}" for v in self.law.observed])

    def _batch(self) -> tuple[int, ...]:
        """Return the present batch of the parameters and given data.

        Under `jax.vmap` it differs from the batch at construction.
        """
        shapes = [np.shape(self.params[p.name])[: np.ndim(self.params[p.name]) - len(p.shape)] for p in self.law.graph.parameters]
        return np.broadcast_shapes(*shapes, self.law.shape)

    def _by_batch(self, function: Any, batch: tuple[int, ...], lead: tuple[int, ...], what: Any) -> jax.Array:
        """Evaluate a function for each member of a batch.

        The arguments of the function are parameters, arrays whose last axes are `lead`, and rows of
        given data. The first axis of the function's result runs over configurations.
        """
        graph, shape = self.law.graph, what.shape[: what.ndim - len(lead)]
        row = jnp.broadcast_to(jnp.arange(math.prod(self.law.shape), dtype=jnp.int32).reshape(self.law.shape), batch)
        if all(np.shape(self.params[p.name]) == p.shape for p in graph.parameters):
            return function(self.params, what.reshape(*shape, -1), jnp.broadcast_to(row, lead).ravel())
        members, draws = math.prod(batch), math.prod(lead[: len(lead) - len(batch)])
        params = {p.name: jnp.broadcast_to(self.params[p.name], (*batch, *p.shape)).reshape(members, *p.shape) for p in graph.parameters}
        each = jnp.moveaxis(what.reshape(*shape, draws, members), -1, 0)
        rows = jnp.broadcast_to(row.ravel()[:, None], (members, draws))
        found = jax.vmap(function)(params, each, rows)  # members, draws, ..
        return jnp.moveaxis(found, 0, 1).reshape(*lead, *found.shape[2:])

    def _codes(self, value: jax.Array) -> jax.Array:
        """Return codes of all cells, (.., cells), from an event's values.

        The code is 0 in latents, and if there is no such value.
        """
        codes = jnp.zeros((*value.shape[: value.ndim - len(self.event_shape)], self.law.graph.n_cells), jnp.int32)
        return codes_with(codes, self.law.observed, self.unpack(value))

    def _values(self, codes: jax.Array) -> jax.Array:
        """Return an event's values from codes of all cells, (.., cells)."""
        values = [a.reshape(*codes.shape[:-1], -1) for a in values_of(codes, self.law.observed).values()]
        return jnp.concatenate(values, axis=-1).reshape(*codes.shape[:-1], *self.event_shape)


def typed(key: Any) -> jax.Array:
    """Return a JAX key of the new style from a key of either style.

    Raises:
        GmlmError: E507 unless `key` is a key.
    """
    if not is_prng_key(key):
        raise fail(
            "E507", f"a draw takes a key of JAX's, got {key!r}", help="`jax.random.key(0)`; within NumPyro, `handlers.seed(model, 0)`"
        )
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)


def distribution(law: Law, params: ParamsLike) -> GmlmDistribution:
    """Return p(x) as a NumPyro distribution; see `Model.distribution`."""
    law.verify()
    return GmlmDistribution(law, params)


def _numbers(value: ArrayLike, what: str) -> jax.Array:
    """Return an array of numbers, which may be traced.

    Raises:
        GmlmError: E502 for anything else.
    """
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError):
        help = "codes from 0 of letters and labels"
        raise fail("E502", f"{what} must be an array of numbers, got {type(value).__name__}", help=help) from None
