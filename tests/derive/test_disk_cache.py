"""Compiled programs on disk: later processes read them, for our programs alone, and whatever is wrong costs only the time to compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from cli_cases import CHAIN
from jax._src import compilation_cache as jax_cache
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._commands import app
from gmlmdsl.derive import _bounded_jit, bounded_jit

SETTINGS = ("jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs")
X = np.arange(5.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of the test's own, in a process whose user has set nothing of JAX's cache."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    for name, value in zip(SETTINGS, (None, True, 1.0), strict=True):
        jax.config.update(name, value)
    monkeypatch.setenv("GMLM_CACHE", str(tmp_path / "cache"))
    jax_cache.reset_cache()
    _bounded_jit.PROGRAMS.kept.clear()
    yield tmp_path / "cache"
    for name, value in before.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()
    _bounded_jit._opened.cache_clear()


def wave() -> Callable[[np.ndarray], jax.Array]:
    """The same program as before, compiled as in another process."""

    def waved(x: np.ndarray) -> jax.Array:
        return jnp.sin(x) * 3

    return bounded_jit(waved)


def ramp() -> Callable[[np.ndarray], jax.Array]:
    return bounded_jit(lambda x: x - 7)


def settings() -> dict[str, object]:
    return {name: getattr(jax.config, name, None) for name in jax.config.values}


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.entry"))


@pytest.fixture
def hits() -> Iterator[list[str]]:
    """An event for each program that JAX read from disk."""
    found: list[str] = []

    def heard(event: str, **_: object) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            found.append(event)

    jax.monitoring.register_event_listener(heard)
    yield found
    jax.monitoring.unregister_event_listener(heard)


def test_a_program_is_kept_and_read(folder: Path, hits: list[str]):
    first = wave()(X)
    kept = entries(folder)
    assert len(kept) == 1 and not hits
    assert np.array_equal(wave()(X), first) and len(hits) == 1
    assert entries(folder) == kept
    wave()(X[1:])
    assert len(hits) == 1 and len(entries(folder)) == 2


DAMAGE = {
    "cut off": lambda b: b[:100],
    "zeros": lambda b: bytes(len(b)),
    "a flipped bit": lambda b: b[:500] + bytes([b[500] ^ 4]) + b[501:],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_program_is_compiled_anew_without_a_word(how: str, folder: Path, hits: list[str], capfd: pytest.CaptureFixture[str]):
    wave()(X)
    path = entries(folder)[0]
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[how](whole))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(wave()(X), np.sin(X) * 3, rtol=1e-5)
    assert not hits and capfd.readouterr() == ("", "")
    wave()(X)
    assert len(hits) == 1  # it was put anew


def test_programs_under_each_others_names_are_compiled_anew(folder: Path, hits: list[str]):
    wave()(X), ramp()(X)
    a, b = entries(folder)
    contents = a.read_bytes(), b.read_bytes()
    a.write_bytes(contents[1]), b.write_bytes(contents[0])
    np.testing.assert_allclose(wave()(X), np.sin(X) * 3, rtol=1e-5)
    np.testing.assert_array_equal(ramp()(X), X - 7)
    assert not hits


def test_another_processor_or_release_reads_nothing(folder: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch):
    def elsewhere() -> None:
        wave()(X)
        _bounded_jit._opened.cache_clear()
        jax_cache.reset_cache()

    elsewhere()
    features = _bounded_jit._processor()
    assert len(features.split()) >= 2  # a system that lists nothing names the machine
    monkeypatch.setattr(_bounded_jit, "_processor", lambda: features.rsplit(" ", 1)[0])
    elsewhere()
    monkeypatch.setattr(_bounded_jit.jaxlib, "__version__", "0")
    elsewhere()
    assert not hits and len(entries(folder)) == 3
    monkeypatch.undo()
    monkeypatch.setenv("GMLM_CACHE", str(folder))
    elsewhere()
    assert len(hits) == 1


def test_a_system_that_lists_no_features_names_the_machine(monkeypatch: pytest.MonkeyPatch):
    here = _bounded_jit._processor()

    def nothing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(_bounded_jit.Path, "open", nothing)
    assert _bounded_jit.platform.node() in _bounded_jit._processor() != here


@pytest.mark.parametrize(
    "off",
    [{"GMLM_CACHE": "off"}, {"jax_enable_compilation_cache": False}, {"GMLM_CACHE": "/proc/none"}],
    ids=["off", "JAX's off", "no folder"],
)
def test_switched_off_or_impossible_nothing_is_kept(off: dict[str, object], folder: Path, hits: list[str], monkeypatch: pytest.MonkeyPatch):
    wave()(X)
    for name, value in off.items():
        monkeypatch.setenv(name, value) if name == "GMLM_CACHE" else jax.config.update(name, value)
    jax_cache.reset_cache()
    np.testing.assert_array_equal(ramp()(X), X - 7)
    wave()(X)
    assert len(entries(folder)) == 1 and not hits


def test_a_folder_that_others_may_write_to_is_refused_once(folder: Path):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(gm.GmlmWarning, match="may be written by others") as said:
        wave()(X), ramp()(X), wave()(X)
    assert len(said) == 1 and not entries(folder)


def test_a_cache_that_the_user_sets_first_is_theirs(folder: Path, tmp_path: Path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    wave()(X)
    assert not entries(folder) and list((tmp_path / "theirs").glob("*-cache"))


def test_a_cache_that_the_user_sets_has_their_other_settings(folder: Path, tmp_path: Path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    wave()(X)  # compiled in less than the second from which on JAX keeps programs
    assert not folder.exists() and not list((tmp_path / "theirs").glob("*-cache"))


def test_where_jaxs_cache_is_switched_off_no_folder_is_made(folder: Path):
    jax.config.update("jax_enable_compilation_cache", False)
    wave()(X)
    assert not folder.exists()


def test_a_cache_that_the_user_sets_later_is_theirs_from_then_on(folder: Path, tmp_path: Path):
    wave()(X)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.jit(lambda x: x * 5 + 1)(X)
    assert len(list((tmp_path / "theirs").glob("*-cache"))) == 1
    ramp()(X)
    assert len(entries(folder)) == 1 and len(list((tmp_path / "theirs").glob("*-cache"))) == 2


def test_the_users_own_programs_and_settings_are_left_alone(folder: Path, hits: list[str]):
    before = settings()

    def own(x: np.ndarray) -> jax.Array:
        return jnp.cos(x) - 2

    wave()(X)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.jit(own)(X)
    jax.jit(lambda x: own(x))(X)
    assert len(entries(folder)) == 1 and not hits
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    assert settings() == before


SCRIPT = """
import json, sys
import numpy as np, jax
import gmlmdsl as gm

hits, compiled = [], []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
jax.monitoring.register_event_duration_secs_listener(lambda event, _, **__: compiled.append(event) if "backend_compile" in event else None)
params = {"h": np.linspace(-1, 1, 4), "J": np.array(0.3)}
value = gm.parse(sys.stdin.read()).model().log_prob(params, np.ones((100, 4), int)).sum()  # compiled: more than 64 rows
print(json.dumps([float(value), len(hits), len(compiled), jax.config.jax_compilation_cache_dir]))
"""


@pytest.mark.slow
def test_a_later_process_reads_what_the_first_one_compiled(tmp_path: Path):
    """With nothing set but the folder of the user's caches."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_") and k != "GMLM_CACHE"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    found = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", SCRIPT], input=CHAIN, capture_output=True, text=True, env=environment)
        assert (run.returncode, run.stderr) == (0, "")
        found.append(json.loads(run.stdout))
    (value, none, *_), (again, read, asked, setting) = found
    assert value == again and none == 0 and setting is None
    assert 0 < read <= asked
    assert len(entries(tmp_path / "gmlmdsl")) == read
    assert oct((tmp_path / "gmlmdsl").stat().st_mode & 0o777) == "0o700"


@pytest.mark.slow  # two processes
@pytest.mark.usefixtures("standard_promotion")
def test_the_command_line_reads_what_it_kept(folder: Path, hits: list[str], tmp_path: Path):
    (tmp_path / "m.gmlm").write_text(CHAIN)
    np.savez(tmp_path / "p.npz", h=np.linspace(-1, 1, 4), J=np.array(0.3))
    words = ["sample", str(tmp_path / "m.gmlm"), "--params", str(tmp_path / "p.npz"), "--draws", "120", "--warmup", "4", "--rows", "3"]
    first = CliRunner().invoke(app, words)
    kept = entries(folder)
    _bounded_jit.PROGRAMS.kept.clear()
    again = CliRunner().invoke(app, words)
    assert first.exit_code == again.exit_code == 0
    assert first.output.split("\n")[1:] == again.output.split("\n")[1:]  # the first line says how long it took
    assert kept and entries(folder) == kept and len(hits) == len(kept)


def test_the_installed_jax_has_the_parts_that_the_store_stands_on():
    assert _bounded_jit._PARTS
