"""The ambient mesh of devices, and arrays that are spread over one of its axes.

A mesh is set by JAX alone: `with jax.set_mesh(jax.make_mesh((4,), ("data",))):`. XLA splits a
program whose arrays are spread, and inserts the communication.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

from .._diagnostics import fail, unknown
from .._types import ArrayLike

SETTING = 'with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("data",))):'


@dataclass(frozen=True)
class Spread:
    """An axis of a mesh, over whose devices an axis of arrays is spread.

    Attributes:
        mesh: the mesh.
        axis: the name of its axis.
    """

    mesh: Mesh
    axis: str

    @property
    def devices(self) -> int:
        """The number of devices along the axis."""
        return self.mesh.shape[self.axis]

    def filled(self, count: int) -> int:
        """Return a number of rows or chains that the devices share equally, at least `count`."""
        return count + -count % self.devices

    def put(self, a: np.ndarray, place: int = -1) -> jax.Array:
        """Return an array on the devices.

        Args:
            a: the array.
            place: the axis that is spread; its length is a multiple of the devices.
        """
        axes: list[str | None] = [None] * a.ndim
        axes[place] = self.axis
        return jax.device_put(a, NamedSharding(self.mesh, PartitionSpec(*axes)))

    def put_keys(self, keys: PRNGKeyArray) -> PRNGKeyArray:
        """Return random keys, one for each chain, on the devices."""
        words = np.asarray(jax.random.key_data(keys))
        placed = jax.device_put(words, NamedSharding(self.mesh, PartitionSpec(self.axis, None)))
        return jax.random.wrap_key_data(placed, impl=jax.random.key_impl(keys))


def spread_over(axis: object) -> Spread | None:
    """Return an axis of the ambient mesh, or None if no axis is named.

    Args:
        axis: the value of an option `mesh_axis=`.

    Raises:
        GmlmError: E507 if no mesh is set, or if it has no axis of that name.
    """
    if axis is None:
        return None
    mesh = _ambient()
    if mesh is None:
        raise fail("E507", f"mesh_axis={axis!r} is an axis of the mesh of devices, and no mesh is set", help=f"`{SETTING}`")
    if axis not in mesh.axis_names:
        raise unknown(f"mesh_axis: the mesh has no axis `{axis}`", str(axis), [str(n) for n in mesh.axis_names], "E507")
    return Spread(_automatic(mesh), str(axis))


def _ambient() -> Mesh | None:
    """Return the ambient mesh, or None if there is none or a function is being traced."""
    try:
        mesh = jax.sharding.get_mesh()
    except ValueError:
        return None
    return None if mesh.empty else mesh


def _automatic(mesh: Mesh) -> Mesh:
    """Return the same devices, with axes over which XLA decides what each device computes."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def fetched(a: ArrayLike) -> np.ndarray:
    """Return an array on the host, gathered from all processes if they hold parts of it."""
    if isinstance(a, jax.Array) and not (a.is_fully_addressable or a.is_fully_replicated):
        from jax.experimental.multihost_utils import process_allgather

        return np.asarray(process_allgather(a, tiled=True))
    return np.asarray(a)


@contextlib.contextmanager
def automatic_mesh() -> Iterator[None]:
    """Run programs under the ambient mesh with automatic axes.

    The axes of `jax.make_mesh` are explicit: programs would have to state the sharding of each of
    their arrays.
    """
    mesh = _ambient()
    if mesh is None or all(t == AxisType.Auto for t in mesh.axis_types):
        yield
        return
    with jax.set_mesh(_automatic(mesh)):
        yield
