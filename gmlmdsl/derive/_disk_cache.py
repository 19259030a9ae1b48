"""Compiled programs on disk: later processes read the programs that an earlier process compiled.

JAX looks into its persistent cache before it compiles. The key of a program covers everything that
it is compiled from: text, options, versions, devices. JAX's own cache has four disadvantages here:

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
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxlib

from ..files import CACHE, CacheEntries, cache_folder
from ..graph import versions

# JAX has no public way to replace the cache. If these private parts are missing, nothing is cached.
try:
    from jax._src import compilation_cache as _jax_cache
    from jax._src.config import compilation_cache_dir as _theirs
    from jax._src.config import enable_compilation_cache as _enabled
    from jax._src.config import persistent_cache_min_compile_time_secs as _least_seconds

    _PARTS = all(hasattr(_jax_cache, name) for name in ("_cache", "_cache_initialized", "_cache_initialized_mutex", "reset_cache"))
except ImportError:
    _PARTS = False
_asked = threading.local()


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
