"""Compilation of functions as a whole, with a bounded number of cached programs.

This is the only place that caches programs. A compiled program takes memory and up to some hundred
memory mappings. A system grants a process about 65 530 mappings, and the process crashes beyond
that. Therefore only the most recently used programs are cached. A program that leaves the cache is
really released: each program has a compiled function of its own, and JAX forgets the program of a
function that no longer exists.

Copies on disk serve later processes. JAX looks into its persistent cache before it compiles. The
key of a program covers everything that it is compiled from: text, options, versions, devices. JAX's
own cache has four disadvantages here:

- It serves all programs of a process.
- It trusts the entries that it reads.
- It does not write an entry as a whole.
- It limits its size only with a further package.

Therefore our cache takes its place. It serves only our programs, and only while one of them is
called. It steps aside for good if the user has set JAX's own cache. The user's programs see no
change.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jaxlib
import numpy as np
from jax.sharding import AxisType, Mesh
from jaxtyping import PyTree

from ..files import CACHE, CacheEntries, cache_folder
from ..graph import versions
from .limits import MOST_GONE, MOST_MAPPINGS, MOST_PROGRAMS

# JAX has no public way to replace the cache. If these private parts are missing, nothing is cached.
try:
    from jax._src import compilation_cache as _jax_cache
    from jax._src.config import compilation_cache_dir as _theirs
    from jax._src.config import enable_compilation_cache as _enabled
    from jax._src.config import persistent_cache_min_compile_time_secs as _least_seconds

    _PARTS = all(hasattr(_jax_cache, name) for name in ("_cache", "_cache_initialized", "_cache_initialized_mutex", "reset_cache"))
except ImportError:
    _PARTS = False

F = TypeVar("F", bound=Callable[..., PyTree])
Arguments = tuple[tuple[PyTree, ...], dict[str, PyTree]]
Arrays = tuple[list[jax.Array], ...]  # of each part of a call's arguments
ProgramKey = tuple[Callable[..., PyTree], "tuple[_Part, ...]"]  # the function and its arguments
# XLA's older emitter of loops halves the compilation time, for loops that run about a tenth slower.
QUICK = {"xla_cpu_use_fusion_emitters": False}
UNKNOWN = "No such compile option"
_compiled_only = threading.local()
_asked = threading.local()


def bounded_jit(function: F) -> F:
    """Compile the function as a whole.

    Arrays among its arguments are traced, and all other arguments are constants of the program. The
    constants are compared by `==`, and floats by their bits. Equal graphs of separately parsed
    programs therefore share a program.
    """
    return quickly_compiled(lambda *args, **kwargs: False)(function)


def quickly_compiled(wanted: Callable[..., bool] = lambda *args, **kwargs: True) -> Callable[[F], F]:
    """Return a decorator like `bounded_jit` that can compile faster to a slower program.

    It does so if `wanted` is true for the arguments, which suits calls whose cost is mostly
    compilation.
    """

    def decorate(function: F) -> F:
        return _compiled(function, wanted)

    return decorate


def bound_jit(function: Callable[..., PyTree], *first: PyTree, waits: bool = True) -> Callable[..., PyTree]:
    """Return the compiled function of the other arguments, with the first ones fixed.

    It shares the programs of all calls with equal constants and shapes. The first arguments, such
    as the weights of a network, are examined once and not at every call.

    Args:
        function: the function.
        first: its first arguments.
        waits: whether a call waits for its results. Otherwise other devices can start meanwhile.
    """
    return _compiled(function, lambda *args, **kwargs: False, (first, {}), waits)


class _Part:
    """Everything about some arguments of a call but the numbers of their arrays: a key of programs."""

    def __init__(self, tree: Arguments):
        leaves, self.structure = jax.tree.flatten(tree)
        self.traced = tuple(map(eqx.is_array, leaves))
        self.rest = [None if is_array else leaf for leaf, is_array in zip(leaves, self.traced, strict=True)]
        told = tuple((type(leaf), leaf.hex() if isinstance(leaf, float) else leaf) for leaf in self.rest)
        self.key = self.structure, self.traced, told, tuple((a.shape, a.dtype) for a in leaves if eqx.is_array(a))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Part) and self.key == other.key)

    def arguments(self, arrays: Sequence[PyTree]) -> Arguments:
        """Return the arguments with other arrays in the places of the arrays."""
        given = iter(arrays)
        return jax.tree.unflatten(self.structure, [next(given) if a else leaf for a, leaf in zip(self.traced, self.rest, strict=True)])


def _arrays(tree: Arguments) -> list[jax.Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf)]


def _compiled(function: F, wanted: Callable[..., bool], first: Arguments | None = None, waits: bool = True) -> F:
    before = () if first is None else ((_arrays(first), _Part(first)),)

    @functools.wraps(function)
    def call(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arrays, parts = zip(*before, (_arrays((args, kwargs)), _Part((args, kwargs))), strict=True)
        run = _not_run if getattr(_compiled_only, "here", False) else _run if waits else _started
        with kept_on_disk(), automatic_mesh():
            try:
                return run(PROGRAMS.program((function, parts), PROGRAMS.quick and wanted(*args, **kwargs)), arrays)
            except jax.errors.JaxRuntimeError as error:
                if UNKNOWN not in str(error):
                    raise
            PROGRAMS.forget_quick()  # another release of XLA does not know the option
            return run(PROGRAMS.program((function, parts), False), arrays)

    return call  # pyright: ignore[reportReturnType]


def ambient_mesh() -> Mesh | None:
    """Return the ambient mesh, or None if there is none or a function is being traced."""
    try:
        mesh = jax.sharding.get_mesh()
    except ValueError:
        return None
    return None if mesh.empty else mesh


def automatic(mesh: Mesh) -> Mesh:
    """Return the same devices, with axes over which XLA decides what each device computes."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


@contextlib.contextmanager
def automatic_mesh() -> Iterator[None]:
    """Run programs under the ambient mesh with automatic axes.

    The axes of `jax.make_mesh` are explicit: programs would have to state the sharding of each of
    their arrays.
    """
    mesh = ambient_mesh()
    if mesh is None or all(t == AxisType.Auto for t in mesh.axis_types):
        yield
        return
    with jax.set_mesh(automatic(mesh)):
        yield


def under_automatic_mesh(verb: F) -> F:
    """Return a function all of whose operations, compiled or not, run as in `automatic_mesh`."""

    @functools.wraps(verb)
    def running(*args: object, **options: object) -> object:
        with automatic_mesh():
            return verb(*args, **options)

    return running  # pyright: ignore[reportReturnType]


@contextlib.contextmanager
def compiled_only() -> Iterator[None]:
    """Compile but do not run the programs that this thread calls within the context.

    Each call returns zeros, unless zeros cannot represent its arrays; then it runs.
    """
    before, _compiled_only.here = getattr(_compiled_only, "here", False), True
    try:
        yield
    finally:
        _compiled_only.here = before


def _run(program: jax.stages.Wrapped, arrays: Arrays) -> PyTree:
    return jax.block_until_ready(program(arrays))


def _started(program: jax.stages.Wrapped, arrays: Arrays) -> PyTree:
    return program(arrays)


def _not_run(program: jax.stages.Wrapped, arrays: Arrays) -> PyTree:
    program.lower(arrays).compile()
    shapes = jax.eval_shape(program, arrays)
    if any(s.weak_type or jax.dtypes.issubdtype(s.dtype, jax.dtypes.prng_key) for s in jax.tree.leaves(shapes)):
        return _run(program, arrays)  # JAX distinguishes weakly typed arrays
    return jax.tree.map(lambda s: jax.device_put(np.zeros(s.shape, s.dtype)), shapes)


class Programs:
    """The most recently used compiled programs, by their keys."""

    def __init__(self) -> None:
        self.kept: OrderedDict[ProgramKey, jax.stages.Wrapped] = OrderedDict()
        self.gone = 0
        self.quick = True  # whether XLA has the option to compile faster
        self._lock = threading.Lock()

    def forget_quick(self) -> None:
        """Stop compiling programs with the faster option."""
        with self._lock:
            self.quick = False
            self.kept.clear()

    def program(self, key: ProgramKey, quick: bool) -> jax.stages.Wrapped:
        """Return the function of the arrays alone, compiled for this key.

        Args:
            key: the function and the parts of its arguments.
            quick: whether to compile faster to a slower program.
        """
        with self._lock:
            if key not in self.kept:
                self._make_room()
                self.kept[key] = _program(*key, quick)
            self.kept.move_to_end(key)
            return self.kept[key]

    def _make_room(self) -> None:
        """Release the least recently used programs until there is room for one more.

        JAX keeps the last 2048 traces of each kind, including those of released programs, some
        megabytes for each fit. Therefore all its caches are cleared from time to time. They are
        also cleared if functions of JAX alone, or of the user, hold too many mappings.
        """
        while len(self.kept) >= MOST_PROGRAMS or (self.kept and mappings() > MOST_MAPPINGS):
            self.kept.popitem(last=False)
            self.gone += 1
        if self.gone >= MOST_GONE or mappings() > MOST_MAPPINGS:
            jax.clear_caches()
            self.gone = 0


PROGRAMS = Programs()


def _program(function: Callable[..., PyTree], parts: Sequence[_Part], quick: bool) -> jax.stages.Wrapped:
    def run(arrays: Arrays) -> PyTree:
        given = [part.arguments(own) for part, own in zip(parts, arrays, strict=True)]
        return function(*(a for args, _ in given for a in args), **{k: v for _, kwargs in given for k, v in kwargs.items()})

    run.__name__ = run.__qualname__ = function.__name__
    return jax.jit(run, compiler_options=QUICK if quick and jax.default_backend() == "cpu" else None)


def mappings() -> int:
    """Return the number of memory mappings of the process; 0 if the system does not report it."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


# Programs on disk


class DiskCache:
    """Stand-in for JAX's persistent cache, with entries for our programs and none for others."""

    def __init__(self, entries: CacheEntries) -> None:
        self.entries = entries
        self._path = entries.folder  # JAX logs this path

    def get(self, key: str) -> bytes | None:
        if _theirs.value:
            # The user has set a cache since; JAX opens that one when it writes.
            _jax_cache.reset_cache()
            return None
        return self.entries.get(key) if getattr(_asked, "by_us", False) else None

    def put(self, key: str, value: bytes) -> None:
        if getattr(_asked, "by_us", False):
            self.entries.put(key, value)


@contextlib.contextmanager
def kept_on_disk() -> Iterator[None]:
    """Look up and store on disk the programs that this thread compiles within the context."""
    if not _PARTS or not _installed():
        yield
        return
    before, _asked.by_us = getattr(_asked, "by_us", False), True
    try:
        with _least_seconds(0.0):
            yield
    finally:
        _asked.by_us = before


def _installed() -> bool:
    """Return whether JAX uses our cache now, after installing it if that is allowed.

    It is allowed if the user has set neither another cache nor `GMLM_CACHE=off`.
    """
    ours = None
    if _enabled.value and not _theirs.value:
        ours = _opened(os.environ.get(CACHE, ""))
    if _jax_cache._cache is not ours:
        with _jax_cache._cache_initialized_mutex:
            if ours is not None and _jax_cache._cache is None:
                _jax_cache._cache, _jax_cache._cache_initialized = ours, True
        if isinstance(_jax_cache._cache, DiskCache) and _jax_cache._cache is not ours:
            _jax_cache.reset_cache()
    return ours is not None and _jax_cache._cache is ours


@functools.cache
def _opened(setting: str) -> DiskCache | None:
    """Return the cache of this process for a value of `GMLM_CACHE`; None if there is none.

    The absence of a cache is reported once.
    """
    del setting
    folder = cache_folder()
    entries = CacheEntries.opened(folder, "programs", _label()) if folder else None
    return DiskCache(entries) if entries else None


def _label() -> str:
    """Return the properties in which a program on disk must agree with this process.

    They are the releases and the instructions of the processor; JAX itself distinguishes the rest.
    A home directory may be shared by machines of several kinds, and a program with an instruction
    that the processor lacks ends the process.
    """
    releases = "-".join([versions()["gmlmdsl"], jax.__version__, jaxlib.__version__])
    return f"{releases}-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}"


def _processor() -> str:
    """Return the kind of processor with all its features.

    If the system does not list the features, the name of the machine takes their place.
    """
    kind = f"{platform.system()} {platform.machine()}"
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            features = [next(line for line in lines if line.lower().startswith(("flags", "features")))]
    except (OSError, StopIteration):
        features = [platform.processor(), platform.node()]
    return " ".join([kind, *features])
