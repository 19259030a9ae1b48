"""A NumPyro site for each parameter.

A site has a distribution from the declared prior, and NumPyro's unconstrained coordinates of its
values. A parameter that moves in a subspace, for example on a gauge, has its site on an orthonormal
basis of that subspace, and the array itself is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import ImproperUniform

from .._diagnostics import not_implemented
from .._types import AnyArray, Label
from ..derive import float_type, on_device
from ..evaluate import density_of, free_basis
from ..graph import FactorGraph, ParameterArray

if TYPE_CHECKING:
    from numpyro.distributions import Distribution
    from numpyro.distributions.transforms import Transform

Array = np.ndarray


class Flat(ImproperUniform):
    """The density 1 on a support, from which nothing can be drawn.

    NumPyro's kernels and guides start such sites by themselves.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleVariableOverride]
    pytree_aux_fields = ("name", "why")
    name: str
    why: str

    def __init__(self, name: str, why: str, support: Any, shape: tuple[int, ...]):
        self.name, self.why = name, why
        super().__init__(support, (), shape)

    def sample(self, key: jax.Array | None, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Raise E507, because nothing can be drawn.

        Raises:
            GmlmNotImplementedError: E507; it is also a NotImplementedError.
        """
        del key, sample_shape
        message = f"there is nothing to draw `{self.name}` from before the data: {self.why}"
        help = "give it a prior; or its value: `numpyro.handlers.substitute(model, {..})`, or call the model with it"
        raise not_implemented("E507", message, help=help)


@dataclass(frozen=True, eq=False)
class Site:
    """The site of one parameter.

    The coordinates of a site are flat and unconstrained, and NumPyro's kernels move in them. They
    are defined by `biject_to` of the distribution's support.
    """

    parameter: ParameterArray

    @property
    def on_tangent(self) -> bool:
        """Whether the parameter moves in a subspace: on a gauge, or with some entries held."""
        return bool(self.parameter.gauge or self.parameter.still)

    @property
    def is_bounded(self) -> bool:
        """Whether the site's values are not all real numbers, so that its coordinates are others."""
        p = self.parameter
        return not self.on_tangent and (p.kind in ("simplex", "ordered") or math.isfinite(p.lower) or math.isfinite(p.upper))

    @property
    def name(self) -> str:
        """The name `J`, or `J.tangent` for a parameter that moves in a subspace."""
        return f"{self.parameter.name}.tangent" if self.on_tangent else self.parameter.name

    @cached_property
    def basis(self) -> Array:
        """Orthonormal directions in which the flat parameter moves, shape (entries, dimensions)."""
        return free_basis(self.parameter)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value of the site."""
        return (self.basis.shape[1],) if self.on_tangent else self.parameter.shape

    @property
    def size(self) -> int:
        """The number of coordinates."""
        p = self.parameter
        return p.size // p.shape[-1] * (p.shape[-1] - 1) if p.kind == "simplex" and p.size else math.prod(self.shape)

    def law(self) -> tuple[Distribution, bool]:
        """Return the site's distribution, and whether the prior must still be added.

        NumPyro does not have every prior on every support.
        """
        from numpyro.distributions import constraints

        p = self.parameter
        if self.on_tangent:
            found = _on_basis(p, self.basis)
            return found or _flat(p, constraints.real_vector, self.shape), found is None and p.prior is not None
        found = _even(p) if p.prior is None else _declared(p)
        return found or _flat(p, _support(p), p.shape), found is None and p.prior is not None

    def value(self, drawn: jax.Array, held: AnyArray) -> jax.Array:
        """Return the parameter at a value of the site; `held` has the entries that do not move."""
        return _moved(self, held, drawn) if self.on_tangent else drawn

    def coordinates(self, value: AnyArray) -> jax.Array:
        """Return the coordinates of a parameter's value, shape (size,)."""
        if self.on_tangent:
            return jnp.asarray(self.basis.T, float_type()) @ jnp.ravel(value)
        return jnp.ravel(self._transform.inv(value))

    def at(self, coordinates: jax.Array, value: AnyArray) -> Any:
        """Return the parameter at some coordinates.

        On a subspace, `value` provides the part outside of the subspace.
        """
        if self.on_tangent:
            return _moved(self, value, coordinates)
        return self._transform(self.unflattened(coordinates))

    def unflattened(self, coordinates: jax.Array) -> Any:
        """Return flat coordinates in the shape that NumPyro's kernels use."""
        return coordinates if self.on_tangent else coordinates.reshape(self._transform.inverse_shape(self.shape))

    @cached_property
    def _transform(self) -> Transform:
        """The transform of the distribution's support.

        It is made of numbers only, so that it can be cached.
        """
        from numpyro.distributions import biject_to

        return biject_to(_support(self.parameter))


def sites_of(graph: FactorGraph, fixed: tuple[str, ...] = ()) -> tuple[Site, ...]:
    """Return the sites of a model's parameters except the fixed ones, in order of declaration."""
    return tuple(Site(p) for p in graph.parameters if p.name not in fixed)


def coordinates(sites: tuple[Site, ...], params: Mapping[str, AnyArray]) -> jax.Array:
    """Return the coordinates of all sites as one vector."""
    return jnp.concatenate([s.coordinates(params[s.parameter.name]) for s in sites] or [jnp.zeros(0)])


def at_coordinates(sites: tuple[Site, ...], vector: jax.Array, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters, with the parameters of the sites moved to some coordinates."""
    out, at = dict(params), 0
    for s in sites:
        out[s.parameter.name] = s.at(vector[at : at + s.size], params[s.parameter.name])
        at += s.size
    return out


def jacobian(graph: FactorGraph, sites: tuple[Site, ...], params: Mapping[str, AnyArray], basis: Array) -> Array:
    """Return the derivative of the flat parameters with respect to the coordinates.

    It is computed site by site, so that no array is larger than the derivative of one parameter. It
    must be called under 64-bit types.

    Args:
        graph: the factor graph with the parameters.
        sites: the sites.
        params: the parameters at which the derivative is evaluated.
        basis: orthonormal directions of the flat parameters, as columns.

    Returns:
        An array of shape (directions, coordinates), in the directions of `basis`.
    """
    starts = dict(zip((p.name for p in graph.parameters), np.cumsum([0, *(p.size for p in graph.parameters)]), strict=False))
    parts = []
    for s in sites:
        value, at = jnp.asarray(params[s.parameter.name]), starts[s.parameter.name]
        mine = basis[at : at + s.parameter.size].T
        if s.on_tangent:
            mine = mine @ s.basis
        elif s.parameter.kind != "real":
            mine = mine @ np.asarray(jax.jacfwd(lambda c, s=s, v=value: jnp.ravel(s.at(c, v)))(s.coordinates(value)))
        parts.append(mine)
    return np.concatenate(parts, axis=1) if parts else np.zeros((basis.shape[1], 0))


def _moved(site: Site, value: Any, coordinates: jax.Array) -> Any:
    """Return a value whose part in the site's subspace is replaced."""
    basis, flat = jnp.asarray(site.basis, float_type()), jnp.ravel(value)
    return (flat + basis @ (coordinates - basis.T @ flat)).reshape(site.parameter.shape)


def _support(p: ParameterArray) -> Any:
    from numpyro.distributions import constraints

    low, high = math.isfinite(p.lower), math.isfinite(p.upper)
    if p.kind == "simplex":
        return constraints.simplex
    if p.kind == "ordered":
        return constraints.ordered_vector
    if low and high:
        return constraints.interval(p.lower, p.upper)
    if low:
        return constraints.greater_than(p.lower)
    return constraints.less_than(p.upper) if high else constraints.real


def _on_basis(p: ParameterArray, basis: Array) -> Distribution | None:
    """Return the distribution of the coordinates on a basis, or None.

    If the prior is normal with one standard deviation, the coordinates are normal and independent.
    """
    from numpyro.distributions import Normal

    if p.prior is None or p.prior.name != "normal" or p.still:
        return None
    mean, sd = (np.broadcast_to(p.prior.arguments[k], p.shape).ravel() for k in ("mean", "sd"))
    if not len(sd) or np.ptp(sd):
        return None
    return Normal(_number(basis.T @ mean), _number(np.full(basis.shape[1], sd[0]))).to_event(1)


def _even(p: ParameterArray) -> Distribution | None:
    """Return the uniform distribution on a range of finite size; None for another range."""
    import numpyro.distributions as dist

    if p.kind == "simplex":
        return dist.Dirichlet(_number(np.ones(p.shape))).to_event(len(p.shape) - 1) if p.size else None
    if not (math.isfinite(p.lower) and math.isfinite(p.upper)):
        return None
    return dist.Uniform(_number(np.full(p.shape, p.lower)), _number(np.full(p.shape, p.upper))).to_event(len(p.shape))


def _flat(p: ParameterArray, support: Any, shape: tuple[int, ...]) -> Distribution:
    """Return the density 1 on the support."""
    return Flat(p.name, "it has no prior" if p.prior is None else "NumPyro has no such prior on its range", support, shape)


def _declared(p: ParameterArray) -> Distribution | None:
    """Return the declared prior on the parameter's range.

    The result is None if NumPyro has no such distribution.
    """
    import numpyro.distributions as dist

    assert p.prior is not None
    a = {k: _number(np.broadcast_to(v, p.shape)) for k, v in p.prior.arguments.items()}
    density = density_of(p)
    if density is None or p.kind == "ordered":
        return None
    found = density.numpyro(dist, a)
    if density.by_rows:
        return found.to_event(len(p.shape) - 1)
    bounded = {k: v for k, v in (("low", p.lower), ("high", p.upper)) if math.isfinite(v)}
    own = {k: v for k, v in (("low", density.lower), ("high", density.upper)) if v is not None}
    if own and bounded != own:
        return None
    if bounded and not own:
        found = dist.TruncatedDistribution(found, low=bounded.get("low"), high=bounded.get("high"))
    return found.to_event(len(p.shape))


def _number(value: Array) -> Any:
    return on_device(value, float_type())


def axes_of_parameters(graph: FactorGraph) -> tuple[dict[str, list[str]], dict[str, Sequence[Label]]]:
    """Return the names of the axes of each parameter, and the labels along each axis."""
    dims = {p.name: list(p.dims) for p in graph.parameters}
    return dims, {d: list(c) for p in graph.parameters for d, c in zip(p.dims, p.coords, strict=True)}
