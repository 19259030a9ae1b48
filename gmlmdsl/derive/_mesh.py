"""The ambient mesh of devices, and arrays that are spread over one of its axes.

A mesh is set by JAX alone: `with jax.set_mesh(jax.make_mesh((4,), ("data",))):`. XLA splits a
program whose arrays are spread, and inserts the communication.

Computations in parts, such as decodes batch by batch, are divided in another way: each device
computes whole parts alone. The parts then have the numbers of one device, to the bit, because each
is computed by the same program from arrays of the same shapes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray, PyTree

from .._diagnostics import fail, unknown
from ._arrays import fetched
from ._bounded_jit import ambient_mesh, automatic

Device = Any  # `jax.Device`, which is declared without a type
Found = dict[str, np.ndarray]
# a part of a computation, which pauses whenever its device computes
Task = Generator[None, None, Found]
T = TypeVar("T", bound=PyTree)


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

    @property
    def places(self) -> list[Device]:
        """The devices that compute parts, one for each place along the axis.

        The devices of other axes of the mesh would compute the same.
        """
        at = self.mesh.axis_names.index(self.axis)
        rows = np.moveaxis(self.mesh.devices, at, 0).reshape(self.devices, -1)
        return [min(row, key=lambda device: device.process_index) for row in rows]

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

    def layout(self, shape: tuple[int, ...]) -> NamedSharding:
        """Return how arrays of a shape are shared out.

        They are spread along their longest axis that the devices share equally. If there is no such
        axis, each device holds the whole array.
        """
        fitting = [n * (n % self.devices == 0) for n in shape]
        axes: list[str | None] = [None] * len(shape)
        if any(fitting):
            axes[int(np.argmax(fitting))] = self.axis
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def put_keys(self, keys: PRNGKeyArray) -> PRNGKeyArray:
        """Return random keys, one for each chain, on the devices."""
        words = self.put(np.asarray(jax.random.key_data(keys)), 0)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(keys))


def placed(tree: T, device: Device | None) -> T:
    """Return a tree with copies of its arrays on a device; None leaves them where they are."""
    if device is None:
        return tree
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(lambda a: jax.device_put(fetched(a), device), arrays), rest)


def in_parts(
    spread: Spread | None, count: int, part: Callable[[int, Device | None], Task]
) -> Iterator[Found]:  # fmt: skip
    """Yield the results of the parts of a computation, in their order.

    Part k is computed at place k, modulo the number of places, of an axis of a mesh. All processes
    get all results. A single part is computed by each process itself.

    Args:
        spread: the axis of a mesh, or None: the parts are computed one after the other.
        count: the number of parts.
        part: a function that starts a part on a device. It pauses after each call of a program,
            which must not wait for its results.
    """
    if spread is None:
        for k in range(count):
            yield _together({k: part(k, None)}, {})[k]
        return
    places, here = spread.places, jax.process_index()
    if count == 1:
        places = [d for d in places if d.process_index == here] or jax.local_devices()
    found: dict[int, Found] = {}
    for first in range(0, count, len(places)):
        dealt = zip(range(first, count), places, strict=False)
        own = {k: device for k, device in dealt if device.process_index == here}
        found |= _together({k: part(k, device) for k, device in own.items()}, own)
    if spread.several and count > 1:
        found = _exchanged(found)
    yield from (found[k] for k in range(count))


def _together(tasks: dict[int, Task], devices: dict[int, Device]) -> dict[int, Found]:
    """Return the results of parts that take turns: while one waits, the others compute."""
    found: dict[int, Found] = {}
    while len(found) < len(tasks):
        for k, task in tasks.items():
            if k not in found:
                try:
                    with jax.set_mesh(_alone(devices[k])) if k in devices else nullcontext():
                        next(task)
                except StopIteration as end:
                    found[k] = end.value
    return found


def _alone(device: Device) -> Mesh:
    """Return the mesh of one device: programs under it run there."""
    return Mesh(np.array([device]), ("alone",), axis_types=(AxisType.Auto,))


def _exchanged(found: dict[int, Found]) -> dict[int, Found]:
    """Return the results of all processes."""
    own = io.BytesIO()
    named = {f"{k} {name}": a for k, part in found.items() for name, a in part.items()}
    np.savez(own, allow_pickle=False, **named)
    out: dict[int, Found] = {}
    for content in of_every(own.getvalue()):
        with np.load(io.BytesIO(content)) as arrays:
            for key in arrays.files:
                k, name = key.split(" ", 1)
                out.setdefault(int(k), {})[name] = arrays[key]
    return out


def of_every(content: bytes) -> list[bytes]:
    """Return the bytes of all processes that call this together, by rank."""
    from jax.experimental.multihost_utils import process_allgather

    sizes = of_all(len(content))
    own = np.zeros(1 << (max(sizes) - 1).bit_length(), np.uint8)  # few lengths: each is compiled
    own[: len(content)] = np.frombuffer(content, np.uint8)
    rows = np.asarray(process_allgather(own))
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def of_first(content: bytes) -> bytes:
    """Return the bytes of the first process, in all processes that call this together."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    room = np.zeros(int(broadcast_one_to_all(np.int32(len(content)))), np.uint8)
    return np.asarray(broadcast_one_to_all(np.frombuffer(content, np.uint8) if jax.process_index() == 0 else room)).tobytes()


def of_all(number: int) -> list[int]:
    """Return the numbers of all processes that call this together, by rank."""
    from jax.experimental.multihost_utils import process_allgather

    return np.ravel(process_allgather(np.int32(number))).tolist()


def spread_of(axis: object | None) -> Spread | None:
    """Return an axis of the ambient mesh, or None for None; see `spread_over`."""
    return None if axis is None else spread_over(axis)


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
