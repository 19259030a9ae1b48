"""The ambient mesh of devices, and arrays that are spread over one of its axes.

A mesh is set by JAX alone: `with jax.set_mesh(jax.make_mesh((4,), ("data",))):`. XLA splits a
program whose arrays are spread, and inserts the communication.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

from .._diagnostics import fail, unknown
from ._bounded_jit import ambient_mesh, automatic


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

    @property
    def several(self) -> bool:
        """Whether the devices belong to several processes."""
        return len({device.process_index for device in self.mesh.devices.flat}) > 1

    @property
    def writes(self) -> bool:
        """Whether this process writes files: of several processes only the first one does."""
        return jax.process_index() == 0

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
        words = self.put(np.asarray(jax.random.key_data(keys)), 0)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(keys))


def of_first(content: bytes) -> bytes:
    """Return the bytes of the first process, in all processes that call this together."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    room = np.zeros(int(broadcast_one_to_all(np.int32(len(content)))), np.uint8)
    return np.asarray(broadcast_one_to_all(np.frombuffer(content, np.uint8) if jax.process_index() == 0 else room)).tobytes()


def of_all(number: int) -> list[int]:
    """Return the numbers of all processes that call this together, by rank."""
    from jax.experimental.multihost_utils import process_allgather

    return np.ravel(process_allgather(np.int32(number))).tolist()


def spread_over(axis: object) -> Spread:
    """Return an axis of the ambient mesh.

    Args:
        axis: the value of an option `mesh_axis=`.

    Raises:
        GmlmError: E507 if no mesh is set, or if it has no axis of that name.
    """
    mesh = ambient_mesh()
    if mesh is None:
        message = f"mesh_axis={axis!r} is an axis of the mesh of devices, and no mesh is set"
        raise fail("E507", message, help='`with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("data",))):`')
    if axis not in mesh.axis_names:
        raise unknown(f"mesh_axis: the mesh has no axis `{axis}`", str(axis), [str(n) for n in mesh.axis_names], "E507")
    return Spread(automatic(mesh), str(axis))
