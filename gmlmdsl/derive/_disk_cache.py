"""Compiled programs on disk: what one process compiled, later ones read.

JAX asks its persistent cache before it compiles, and names programs by all that they are compiled
from: text, options, versions, devices. Its own store is for all programs of a process, trusts what
it reads, writes in pieces and is bounded only with a further package. So ours stands in its place:
it answers for our programs alone, while one of them is called, and steps aside for ever where the
user has set JAX's own. Nothing that the user's programs see is changed.
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

# JAX has no public way to bring a store of one's own; where these parts are gone, nothing is kept
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
    """What JAX takes for its persistent cache: entries for our programs, and nothing for others."""

    def __init__(self, entries: CacheEntries) -> None:
        self.entries = entries
        self._path = entries.folder  # JAX logs it

    def get(self, key: str) -> bytes | None:
        if _theirs.value:
            _jax_cache.reset_cache()  # the user set one since: JAX opens that when it writes
            return None
        return self.entries.get(key) if getattr(_asked, "by_us", False) else None

    def put(self, key: str, value: bytes) -> None:
        if getattr(_asked, "by_us", False):
            self.entries.put(key, value)


@contextlib.contextmanager
def kept_on_disk() -> Iterator[None]:
    """What this thread compiles meanwhile is looked for on disk first, and kept there."""
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
    """Whether JAX has our store for its cache now; it is put there where the user has set neither another nor `GMLM_CACHE=off`."""
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
    """The store of this process for a value of `GMLM_CACHE`; None where there is none, said once."""
    del setting
    folder = cache_folder()
    entries = CacheEntries.opened(folder, "programs", _label()) if folder else None
    return DiskCache(entries) if entries else None


def _label() -> str:
    """What a program on disk must agree in with this process, beside what JAX tells apart: releases, and instructions of the processor.

    A home may be shared by machines of several kinds, and a program that has an instruction which
    the processor lacks ends the process.
    """
    releases = "-".join([versions()["gmlmdsl"], jax.__version__, jaxlib.__version__])
    return f"{releases}-{hashlib.sha256(_processor().encode()).hexdigest()[:16]}"


def _processor() -> str:
    """The kind of processor with all its features; where the system does not list them, the name of the machine."""
    kind = f"{platform.system()} {platform.machine()}"
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            features = [next(line for line in lines if line.lower().startswith(("flags", "features")))]
    except (OSError, StopIteration):
        features = [platform.processor(), platform.node()]
    return " ".join([kind, *features])
