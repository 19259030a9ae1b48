"""Strict JAX for every test: no silent promotion of types or ranks; compiled programs are kept between tests."""

from __future__ import annotations

import gc
import getpass
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

# Programs of a test run once or twice, and compiling them is what takes time: these options of XLA's compiler for CPUs halve that.
# A release that does not know one of them would stop the process, so they are for those that were tried.
if version("jaxlib").startswith("0.10."):
    FAST = "--xla_cpu_use_fusion_emitters=false --xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{FAST} {os.environ.get('XLA_FLAGS', '')}".strip()

import jax
import numpy as np
import pytest

from gmlmdsl._diagnostics import Diagnostic
from gmlmdsl.derive._bounded_jit import PROGRAMS
from gmlmdsl.derive.limits import MOST_GONE
from gmlmdsl.evaluate import limits

# A test file takes what another one has, of whatever folder, and a file that is run alone finds it too.
sys.path.extend(sorted({str(path.parent) for path in Path(__file__).parent.glob("*/test_*.py")}))
os.environ.setdefault("CI", "1")  # no progress bars
COMPILED = Path(tempfile.gettempdir()) / f"gmlmdsl-tests-{getpass.getuser()}"
os.environ["GMLM_CACHE"] = str(COMPILED / "processes")  # that of processes which a test starts
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_traceback_in_locations_limit", 0)  # no test reads where an operation was traced
gc.set_threshold(100_000, 20, 50)  # tracing makes millions of small objects, few of them in circles


MOST_MAPPINGS = 20_000  # a process may have 65 530 memory mappings; every compiled program takes some, and beyond them it crashes


@pytest.fixture(autouse=True, scope="module")
def few_mappings() -> Iterator[None]:
    """Compiled programs are let go between files where there are many."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def no_clearing_within() -> None:
    """All that JAX remembers is cleared from time to time; that falls between two tests, for some count what is traced or compiled."""
    if PROGRAMS.gone > MOST_GONE // 2:
        jax.clear_caches()
        PROGRAMS.gone = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test with `@pytest.mark.produces("E548")` fails where no diagnostic of that code is made into text while it runs."""
    promised = {code for mark in item.iter_markers("produces") for code in mark.args}
    if not promised:
        return (yield)
    produced, render = set[str](), Diagnostic.render

    def recorded(diagnostic: Diagnostic) -> str:
        produced.add(diagnostic.code)
        return render(diagnostic)

    with patch.object(Diagnostic, "render", recorded):
        yield
    assert promised <= produced, f"not produced: {sorted(promised - produced)}"


@pytest.fixture
def float64() -> Iterator[None]:
    """64-bit types within one test; outside, the library's default of 32 bits is what is tested."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def float32() -> Iterator[None]:
    """The default precision within one test, for what only that has: packed chains, goldens of draws. See `make doubles`."""
    with jax.enable_x64(False):
        yield


@pytest.fixture
def standard_promotion() -> Iterator[None]:
    """For tests that fit: optax's L-BFGS mixes 32- and 64-bit integers."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture
def compiled_in_full() -> Iterator[None]:
    """With the optimisations that other tests leave out: for what runs long, and where errors of the compiler are errors too."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def compiled_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled eliminations for models that NumPy would sum: `test_host_elimination.py` compares the two."""
    monkeypatch.setattr(limits, "HOST_SECONDS", -1.0)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240721)
