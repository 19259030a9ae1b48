"""A compiled sampler as a block of NumPyro's Gibbs kernel.

Block dynamics draw the cells, and NUTS draws the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution
from numpyro.infer.gibbs import GIBBS_SITES_KWARG
from numpyro.infer.mcmc import MCMCKernel
from numpyro.util import is_prng_key

from .. import derive
from .._diagnostics import fail, listed
from .._types import ArrayLike
from ..data import value_codes
from ..evaluate import init_params
from ..graph import VariableArray, is_positive
from ..sample import starts
from ._distribution import CellValues, Law, cell_values, codes_with, typed, values_of

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray
Sites = Mapping[str, Any]


class BlockState(NamedTuple):
    """The state of `GmlmKernel`.

    It contains the values of the sites by name, the share of cells that the last step changed, and
    the key of the next step.
    """

    z: dict[str, jax.Array]
    changed: jax.Array
    rng_key: jax.Array


class UniformCells(Distribution):
    """The uniform distribution over the values of some cells.

    It is the site of cells whose distribution is a factor, see `GmlmKernel.sites`.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    pytree_aux_fields = ("variable",)
    variable: VariableArray

    def __init__(self, variable: VariableArray, batch_shape: tuple[int, ...] = (), *, validate_args: bool | None = None):
        self.variable = variable
        super().__init__(batch_shape, variable.shape, validate_args=validate_args)

    @property
    def support(self) -> CellValues:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The values of every cell."""
        return cell_values((self.variable,), self.variable.shape)

    def sample(self, key: jax.Array | None, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Return independent uniform values."""
        codes = jax.random.randint(typed(key), self.shape(sample_shape), 0, len(self.variable.labels), jnp.int32)
        return self.variable.values_of(codes)

    def log_prob(self, value: Any, intermediates: object = None) -> jax.Array:
        """Return log p(value)."""
        del intermediates
        lead = jnp.shape(value)[: jnp.ndim(value) - len(self.event_shape)]
        each = -self.variable.size * math.log(len(self.variable.labels))
        return jnp.full(np.broadcast_shapes(lead, self.batch_shape), each)


class GmlmKernel(MCMCKernel):
    """A kernel that redraws the cells that data lack by a sampler of the program.

    The cells are redrawn given the parameters; see `Model.numpyro_kernel`.

    Attributes:
        names: the names of the sites, which are the variables that the data lack.
        shape: the axes of rows, which come before a variable's own axes.
    """

    sample_field = "z"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    def __init__(self, law: Law, kernel: derive.AbstractKernel, x: Mapping[str, ArrayLike], params: Callable[[Sites], Sites] | None):
        self.law, self._kernel, self._params = law, kernel, params
        self._free = tuple(v for v in law.graph.variables if v.name not in x)
        self.names = tuple(v.name for v in self._free)
        held, codes, self.shape = _held(law, x)
        self._rows = math.prod(self.shape)
        self._clamped = derive.on_device(np.append(held, False)) if held.any() else None
        self._start = derive.on_device(_possible(law, held, codes).T.reshape(*self.shape, -1), np.int32)
        lead = law.shape or self.shape
        self._row = derive.on_device(np.broadcast_to(np.arange(math.prod(law.shape)).reshape(law.shape), lead).ravel(), np.int32)

    @property
    def default_fields(self) -> Any:
        """The fields of the state that a run records."""
        return ("z", "changed")

    def sites(self, params: Sites) -> dict[str, jax.Array]:
        """Declare the sites and the factor of the cells, inside a NumPyro model.

        There is a site for each variable that the data lack. The factor is log p(all cells |
        params) of every row.

        Raises:
            GmlmError: E601 with the cost if log Z is above the budget.
        """
        found: dict[str, PyTree] = {v.name: numpyro.sample(v.name, UniformCells(v, self.shape)) for v in self._free}
        uniform = sum(v.size * math.log(len(v.labels)) for v in self._free)
        numpyro.factor(f"{'_'.join(self.names)}_law", self.log_prob(params, found) + uniform)
        return found

    def log_prob(self, params: Sites, z: Sites) -> jax.Array:
        """Return the normalised joint log p of the data's cells and the cells in `z`, per row."""
        known, _ = self.law.params(params)
        codes = jnp.moveaxis(codes_with(self._start, self._free, z).reshape(self._rows, -1), -1, 0)
        return self.law.log_joint(known, codes, self._row).reshape(self.shape)

    def init(self, rng_key: jax.Array, num_warmup: int, init_params: PyTree, model_args: PyTree, model_kwargs: PyTree) -> BlockState:
        """Return a state with NumPyro's starting values, if they are possible.

        Args:
            rng_key: a JAX key, or one for each chain.
            num_warmup: has no effect, because nothing adapts.
            init_params: the starting values of sites by name; the others are drawn.
            model_args: has no effect.
            model_kwargs: has no effect.
        """
        del num_warmup, model_args, model_kwargs
        return self._mapped(rng_key, lambda key, z: self._begun(key, z or {}), init_params)

    def sample(self, state: BlockState, model_args: PyTree, model_kwargs: PyTree) -> BlockState:
        """Run the sampler's body once."""
        del model_args
        sites = (model_kwargs or {}).get(GIBBS_SITES_KWARG, {})
        return self._mapped(state.rng_key, lambda _, s: self._stepped(s, sites), state)

    def refresh(self, state: PyTree, model_args: PyTree, model_kwargs: PyTree) -> PyTree:
        """Return the state unchanged: it contains no data of the other sites."""
        del model_args, model_kwargs
        return state

    def get_constrain_fn(self, model_args: PyTree, model_kwargs: PyTree) -> Callable[[PyTree], PyTree]:
        """Return the identity."""
        del model_args, model_kwargs
        return lambda z: z

    def get_diagnostics_str(self, state: PyTree) -> Any:
        """Return the text of the progress bar of a run."""
        return f"changed={float(state.changed):.2f}"

    def __repr__(self) -> str:
        return f"NumPyro kernel of {listed(self.names)} in {self._rows:,} rows"

    def _mapped(self, key: jax.Array, function: Callable[[PyTree, PyTree], BlockState], what: PyTree) -> BlockState:
        """Call a function of one chain, or map it over several chains."""
        return function(key, what) if is_prng_key(key) else jax.vmap(function)(key, what)

    def _begun(self, key: jax.Array, z: Sites) -> BlockState:
        lacking = [v for v in self._free if v.name not in z]
        keys = jax.random.split(key, len(lacking) + 1)
        drawn = {v.name: UniformCells(v, self.shape).sample(k) for v, k in zip(lacking, keys[1:], strict=True)}
        codes = codes_with(self._start, self._free, {**drawn, **z})
        flat = codes.reshape(self._rows, -1).T
        good = jnp.isfinite(derive.log_potential(self.law.device, _usual(self.law), flat)).reshape(*self.shape, 1)
        return BlockState(values_of(jnp.where(good, codes, self._start), self._free), jnp.zeros(()), key)

    def _stepped(self, state: BlockState, sites: Sites) -> BlockState:
        key, own = jax.random.split(state.rng_key)
        params = sites if self._params is None else self._params(sites)
        known, batch = self.law.params({p.name: params[p.name] for p in self.law.graph.parameters if p.name in params})
        if batch:
            raise fail("E501", f"params of a kernel have no batch, got one of shape {batch}")
        before = codes_with(self._start, self._free, state.z)
        codes = self.law.with_row(before.reshape(self._rows, -1).T, self._row)
        target = derive.Target(self.law.device, known, self._clamped)
        keys = jax.random.split(typed(own), self._rows)
        after = self._kernel.step(target, keys, self._kernel.init(codes))[0].codes.T.reshape(before.shape)
        free = jnp.concatenate([jnp.arange(v.offset, v.offset + v.size) for v in self._free])
        changed = (before[..., free] != after[..., free]).mean(dtype=jnp.zeros(()).dtype)
        return BlockState(values_of(after, self._free), changed, key)


def numpyro_kernel(
    law: Law, kernel: derive.AbstractKernel, x: Mapping[str, ArrayLike], params: Callable[[Sites], Sites] | None
) -> GmlmKernel:
    """Return a sampler as a kernel for `numpyro.infer.Gibbs`; see `Model.numpyro_kernel`.

    Args:
        law: the distribution of the model.
        kernel: the kernel of the sampler.
        x: a dict of the observed variables.
        params: a function from the values of other sites to parameters, or None.

    Raises:
        GmlmError: E507 for a sampler whose state has more than the cells, for `params` that are not
            a function, or for data that leave no cell; E506 for an unknown variable; E501 for data
            whose rows do not fit.
    """
    if jax.tree.leaves(kernel.memory(jnp.zeros((law.graph.n_cells, 1), jnp.int32))):
        message = "this sampler keeps replicas at other temperatures: their distribution moves with the parameters, and keeps no posterior"
        raise fail("E507", message, help="take its body without `temper`")
    _verify_function(params)
    return GmlmKernel(law, kernel, x, params)


def _verify_function(params: Callable[[Sites], Sites] | None) -> None:
    if params is not None and not callable(params):
        message = f"params= must be a function from the other sites' values to parameters, got {type(params).__name__}"
        raise fail("E507", message, help="parameters that stay are `params=lambda sites: params`")


def _held(law: Law, x: Mapping[str, ArrayLike]) -> tuple[Array, Array, tuple[int, ...]]:
    """Return the observed cells, codes (cells, rows) with their values, and the axes of rows."""
    graph, shapes, parts = law.graph, {}, {}
    names = [v.name for v in graph.variables]
    unknown = [n for n in x if n not in names]
    if unknown:
        raise fail("E506", f"x: the model has no variable {listed(unknown)}", help=f"it has {listed(names)}")
    if set(names) <= set(x):
        raise fail("E507", "x holds every variable: there is no cell to redraw", help="leave out the latents, or what is to be drawn")
    for v in graph.variables:
        if v.name in x:
            parts[v.name], shapes[v.name] = value_codes(v, x[v.name], f"x[{v.name!r}]")
    lead = next(iter(shapes.values()), law.shape)
    wrong = {n: s for n, s in shapes.items() if s != lead}
    if wrong or law.shape not in ((), lead):
        raise fail("E501", f"x and given have rows of different shapes: {shapes}, {law.shape}", help="every variable needs as many rows")
    held, codes = np.zeros(graph.n_cells, bool), np.zeros((graph.n_cells, math.prod(lead)), np.int32)
    for v in graph.variables:
        if v.name in parts:
            held[v.offset : v.offset + v.size] = True
            codes[v.offset : v.offset + v.size] = parts[v.name].reshape(-1, v.size).T
    return held, codes, lead


def _possible(law: Law, held: Array, codes: Array) -> Array:
    """Return the codes with possible values of the other cells, for each row."""
    graph = law.graph
    if is_positive(graph, init_params(graph)):
        return codes
    params = {k: derive.on_device(v, derive.float_type()) for k, v in init_params(graph).items()}
    return np.concatenate([starts(graph, 1, 0, None, (held, row), params).codes for row in codes.T], axis=1)


def _usual(law: Law) -> dict[str, jax.Array]:
    return {k: jnp.asarray(v, derive.float_type()) for k, v in init_params(law.graph).items()}
