"""p(x) of a model as functions of parameters and codes that JAX may trace.

The functions are log p, with latents summed out, and independent draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._types import Arrays, ParamsLike
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
