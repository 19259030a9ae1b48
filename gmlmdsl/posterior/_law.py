"""p(x) of a model as functions of parameters and codes that JAX may trace: log p, latents summed out, and independent draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from ..evaluate import Contractions, batched_params, known_rows
from ..graph import Lowered, VariableArray

Params = Mapping[str, Any]
WHAT = "log Z of a distribution"


class Law:
    """The distribution of the data's cells, for each row of given data: what does not change with the parameters.

    It is equal to itself only, so that compiled programs tell distributions apart without looking
    into them.

    Args:
        lowered: the model, with given data where it has given variables.
        kept: contractions of the same graph.
    """

    def __init__(self, lowered: Lowered, kept: Contractions):
        self.graph, self.data, self._kept = lowered.graph, lowered.data, kept
        self.device = derive.graph_arrays(self.graph)
        self.rows = derive.on_device(known_rows(self.graph, self.data), np.int32)
        self.shape = () if self.data is None else self.data.shape

    def verify(self) -> None:
        """Refuse a distribution whose log p costs too much.

        Raises:
            GmlmError: E601 with the cost where log Z, or the sum over the latents, is above the
                budget.
        """
        _ = self.latent, self.whole

    @cached_property
    def latent(self) -> derive.Contraction | None:
        """The contraction of the latents; None where there are none."""
        hidden = ~self.graph.is_observed
        hidden[[] if self.graph.row_cell is None else [self.graph.row_cell]] = False
        return self._kept.holding(~hidden, "the sum over the latents")[1] if hidden.any() else None

    @cached_property
    def whole(self) -> derive.Contraction | None:
        """The contraction of all cells; None for a product of distributions, whose log Z is 0."""
        return None if self.graph.is_normalised else self._kept.whole(WHAT)[1]

    @cached_property
    def parents_first(self) -> derive.AbstractKernel:
        """Draws of a product of distributions, each cell given its parents."""
        with jax.ensure_compile_time_eval():  # what is kept outlives a function that is traced now
            return derive.ancestral_kernel(self.graph)

    @property
    def observed(self) -> tuple[VariableArray, ...]:
        """The variables of an event."""
        return self.graph.observed

    def log_prob(self, params: Params, codes: jax.Array, row: jax.Array) -> jax.Array:
        """log p of configurations, latents summed out.

        Args:
            params: parameters, each of its own shape.
            codes: (cells, configurations); what they hold in latents does not matter.
            row: which row of given data each goes with; 0 where there are none.

        Returns:
            Shape (configurations,).
        """
        return _log_prob(self.device, params, self.with_row(codes, row), row, self.rows, self.latent, self.whole)

    def log_joint(self, params: Params, codes: jax.Array, row: jax.Array) -> jax.Array:
        """The same with the latents as they are in `codes`."""
        return _log_prob(self.device, params, self.with_row(codes, row), row, self.rows, None, self.whole)

    def draw(self, params: Params, keys: jax.Array, row: jax.Array) -> jax.Array:
        """Independent configurations, one for each key; codes of shape (cells, configurations)."""
        codes = self.with_row(jnp.zeros((self.graph.n_cells, row.shape[0]), jnp.int32), row)
        if self.whole is None:
            return _step(self.parents_first, derive.Target(self.device, params, None), keys, codes)
        return _drawn(self.device, params, keys, codes, self.whole, self.data is None)

    def with_row(self, codes: jax.Array, row: jax.Array) -> jax.Array:
        """Codes that say which row of given data each configuration goes with."""
        return codes if self.graph.row_cell is None else codes.at[self.graph.row_cell].set(row)

    def params(self, params: Params) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Parameters from a user, and the shape of the batch: what stands before the axes of each.

        Raises:
            GmlmError: E507, E506, E501 for a dict that does not fit; without a batch what
                `log_prob` refuses, too.
        """
        return batched_params(self.graph, params)


def codes_with(codes: jax.Array, variables: tuple[VariableArray, ...], values: Mapping[str, Any]) -> jax.Array:
    """Codes (.., cells) with those of some variables' values, (.., *axes), in their places; the nearest code of what is no value."""
    for v in variables:
        given = jnp.asarray(values[v.name]).reshape(*codes.shape[:-1], v.size)
        whole = jnp.rint((given - v.first) / v.step).astype(codes.dtype)
        codes = codes.at[..., v.offset : v.offset + v.size].set(jnp.clip(whole, 0, len(v.labels) - 1))
    return codes


def values_of(codes: jax.Array, variables: tuple[VariableArray, ...]) -> dict[str, jax.Array]:
    """The values of some variables, (.., *axes), from codes of shape (.., cells)."""
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
    """log of the sum over the latents, less the log Z of each configuration's row of given data; `whole` is None where that is 0."""
    found = derive.log_potential(device, params, codes) if latent is None else derive.log_sum(device, params, codes, latent)
    return found if whole is None else found - derive.log_sum(device, params, rows, whole)[row]


@derive.bounded_jit
def _step(kernel: derive.AbstractKernel, target: derive.Target, keys: jax.Array, codes: jax.Array) -> jax.Array:
    return kernel.step(target, keys, derive.State(codes))[0].codes


@derive.bounded_jit
def _drawn(device: derive.Graph, params: Params, keys: jax.Array, codes: jax.Array, c: derive.Contraction, alike: bool) -> jax.Array:
    """Draws by the backward pass; where all configurations have one law, `alike`, one forward pass serves them."""
    unary = None if c.loop is None else jnp.zeros((c.free.shape[0], device.most_values, 1), derive.float_type())
    found = derive.forward(device, params, codes[:, :1] if alike else codes, c, unary)
    return derive.IndependentKernel(c, found).step(derive.Target(device, params, None), keys, derive.State(codes))[0].codes
