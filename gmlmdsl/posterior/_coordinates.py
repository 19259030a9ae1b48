"""Parameters as one vector without bounds: orthonormal coordinates of gauges, the unconstrained scale of bounded ones and simplexes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..derive import float_type
from ..evaluate import bijection, free_basis
from ..graph import FactorGraph, ParameterArray


@dataclass(frozen=True)
class Coordinates:
    """The map between a model's parameters and one flat vector; a part of compiled programs, for which `host` is without data."""

    host: FactorGraph

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return sum(math.prod(_shape(p)) for p in self.host.parameters)

    def places(self, name: str) -> np.ndarray:
        """Where the entries of a real parameter without a gauge stand, flat."""
        at, p = next((at, p) for at, p in self._parts() if p.name == name)
        return np.arange(at, at + p.size)

    def params(self, vector: Any) -> dict[str, jax.Array]:
        """The parameters at a vector."""
        return {p.name: value for p, _, value in self._values(vector)}

    def log_slope(self, vector: Any) -> jax.Array:
        """log of the volume of parameters that a unit of volume of vectors becomes: what densities of parameters are multiplied by."""
        total = jnp.zeros((), float_type())
        for p, free, value in self._values(vector):
            if _is_bounded(p):
                total = total + bijection(p).log_abs_det_jacobian(free, value).sum()  # pyright: ignore[reportAttributeAccessIssue]
        return total

    def vector(self, params: Mapping[str, Any]) -> jax.Array:
        """The vector of parameters, which lie on their gauges."""
        parts = [jnp.zeros(0, float_type())]
        for p in self.host.parameters:
            value = jnp.asarray(params[p.name], float_type())
            parts.append(jnp.asarray(free_basis(p), float_type()).T @ value.ravel() if p.gauge else jnp.ravel(bijection(p).inv(value)))
        return jnp.concatenate(parts)

    def _values(self, vector: Any) -> Iterator[tuple[ParameterArray, Any, Any]]:
        """Each parameter with its part of the vector and its value."""
        for at, p in self._parts():
            shape = _shape(p)
            free = vector[at : at + math.prod(shape)].reshape(shape)
            yield p, free, (jnp.asarray(free_basis(p), float_type()) @ free).reshape(p.shape) if p.gauge else bijection(p)(free)

    def _parts(self) -> Iterator[tuple[int, ParameterArray]]:
        at = 0
        for p in self.host.parameters:
            yield at, p
            at += math.prod(_shape(p))


def _is_bounded(p: ParameterArray) -> bool:
    return p.kind == "simplex" or math.isfinite(p.lower) or math.isfinite(p.upper)


def _shape(p: ParameterArray) -> tuple[int, ...]:
    """Of a parameter's part of the vector."""
    if p.kind == "simplex":
        return (*p.shape[:-1], p.shape[-1] - 1)
    return (free_basis(p).shape[1],) if p.gauge else p.shape
