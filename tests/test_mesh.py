"""Rows and chains over several devices and processes: the numbers of one device."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType
from real_data import real_file
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.data import hash_of_computation
from gmlmdsl.decode import _decoding
from gmlmdsl.derive import Spread, _mesh, _packed_sweep, build_kernel, over_cells

CHILD, SENTENCES = (Path(__file__).with_name(name) for name in ("mesh_child.py", "sentences_child.py"))
MODEL = "model m { var x[i in range(3)] : bit  param J  factor J * x[i] * x[i + 1] for i in range(2) }\nmask one = subsets(x, size = 1)\n"
MODEL += "sampler s { update x[i] for i in range(3) }"
ROWS = [[0, 1, 0], [1, 1, 1], [0, 0, 1]]


def started(*words: int, child: Path = CHILD) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))} | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(child), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def answer(child: subprocess.Popen[str]) -> dict[str, float]:
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def agree(found: dict[str, float], count: int = 1) -> None:
    """Estimates to 1e-9 of the largest (a search that ends elsewhere by rounding), draws to the bit, trainings to 1e-5."""
    samplers = ("sweep", "pairs", "hot", "exact")
    names, swept = (("equal", "signs", "glass", "potts"), ("sweep", "hot")) if count == 1 else (("equal", "potts"), ("sweep",))
    lattices = {f"draws {m} {s} {n}" for m in names for s in swept for n in (1, 2)}
    assert {k for k in found if k.startswith("draws")} == {f"draws {s}" for s in samplers} | lattices
    assert len(found) == (41 if count > 1 else 53)
    for name, off in found.items():
        most = 0 if name.startswith("draws") else 1e-5 if name.endswith("training") else 1e-9
        assert off <= most, (name, off)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_virtual_devices_give_the_numbers_of_one(devices: int):
    agree(answer(started(devices)))


def processes(count: int, child: Path) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [started(1, rank, count, port, child=child) for rank in range(count)]


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one():
    for child in processes(2, CHILD):
        agree(answer(child), count=2)


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "count"), [(2, 1), (4, 1), (1, 2), (1, 4)])
def test_fits_to_real_rows_are_those_of_one_device(devices: int, count: int, monkeypatch: pytest.MonkeyPatch):
    """Votes with holes, whose sums are all in float64: to 1e-12. An alignment with weights, whose search begins in float32: to 1e-4."""
    monkeypatch.setenv("GMLM_REAL_ROWS", str(real_file("DHFR.a2m").parent))
    for child in [started(devices)] if count == 1 else processes(count, CHILD):
        found = answer(child)
        most = {"params of votes": 1e-12, "objective of votes": 1e-12, "params of DHFR": 1e-4, "objective of DHFR": 1e-8}
        assert found.keys() == most.keys()
        assert {name: off for name, off in found.items() if off > most[name]} == {}


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "count"), [(2, 1), (4, 1), (1, 2), (1, 4)])
def test_a_translator_over_devices_and_processes_is_that_of_one(devices: int, count: int):
    """Translations, scores, distilled texts and draws to the bit, a training to 1e-5."""
    children = [started(devices, child=SENTENCES)] if count == 1 else processes(count, SENTENCES)
    for child in children:
        found = answer(child)
        assert len(found) == 17
        assert {name: off for name, off in found.items() if off > (1e-5 if "trained" in name else 0)} == {}


@pytest.mark.usefixtures("standard_promotion")
def test_an_axis_needs_a_mesh():
    model = gm.parse(MODEL).model()
    fit = model.fit(ROWS, progress=False)
    calls = [lambda: model.fit(ROWS, mesh_axis="data"), lambda: model.sample({"J": 0.1}, mesh_axis="data")]
    calls += [lambda: fit.bootstrap(2, mesh_axis="data"), lambda: fit.cross_validate(2, mesh_axis="data")]
    for call in calls:
        with pytest.raises(gm.GmlmError, match=r"(?s)no mesh is set.*jax\.set_mesh"):
            call()
    with jax.set_mesh(jax.make_mesh((1,), ("data",))), pytest.raises(gm.GmlmError, match=r"(?s)no axis `rows`"):
        model.fit(ROWS, mesh_axis="rows")


SEARCH = """
network net = transformer(layers = 1, heads = 2, width = 8, causal = true)
network two = transformer(layers = 1, heads = 2, width = 8)
model text { var y[i in range(4)] : range(3)  conditional y ~ net() }
model more { var y[i in range(4)] : range(3)  conditional y ~ two() }
sampler drawn for text = autoregressive(decode = sample)
sampler cells for more { update y[i] for i in range(4) }
"""


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize(("name", "sampler"), thinned([("text", "drawn"), ("more", "cells")], 2))
@pytest.mark.slow
def test_decodes_and_chains_of_a_network_need_a_mesh_too(name: str, sampler: str):
    program = gm.parse(SEARCH)
    model = program.model(name)
    params, options = model.init_params(0), {"draws": 4, "chains": 3, "seed": 2, "progress": False}
    with pytest.raises(gm.GmlmError, match=r"(?s)no mesh is set.*jax\.set_mesh"):
        model.sample(params, sampler, mesh_axis="data", **options)
    alone = model.sample(params, sampler, **options)["posterior"]["y"].values
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        spread = model.sample(params, sampler, mesh_axis="data", **options)["posterior"]["y"].values
    assert (alone == spread).all() and len(np.unique(alone)) == 3
    with pytest.raises(gm.GmlmError, match="no mesh is set"):
        program.model("text").decode(program.model("text").init_params(0), mesh_axis="data")


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_chains_that_fill_up_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Three chains of one row over a mesh that asks for six: as many draws as without it, and equal ones."""
    model = gm.parse(SEARCH).model("more")
    params, options = model.init_params(0), {"draws": 4, "chains": 3, "seed": 2, "progress": False}
    alone = model.sample(params, "cells", **options)["posterior"]["y"].values
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        with pytest.raises(gm.GmlmError, match=r"E507[\s\S]*written by one device"):
            model.sample(params, "cells", mesh_axis="data", store=tmp_path / "y.nc", **options)
        monkeypatch.setattr(_decoding, "_shared_out", lambda rows, per_row, spread: rows[[0, 0]])
        spread = model.sample(params, "cells", mesh_axis="data", **options)["posterior"]["y"].values
    assert spread.shape == alone.shape == (3, 4, 4) and (spread == alone).all()


def test_parts_are_dealt_out_to_the_places_of_an_axis(monkeypatch: pytest.MonkeyPatch):
    """Process 0 has two of three places, and computes parts 0, 1, 3, 4, ..; the other sends it the rest."""
    mine, other = jax.devices()[0], SimpleNamespace(process_index=1)
    devices = np.array([[other, mine], [mine, mine], [other, other]])
    mesh: Any = SimpleNamespace(shape={"data": 3}, axis_names=("data", "copies"), devices=devices)
    spread, begun, open_ = Spread(mesh, "data"), [], [0, 0]
    assert spread.several and spread.places == [mine, mine, other]

    def part(k: int, device: Any) -> Any:
        assert device is mine and jax.sharding.get_mesh().devices.ravel().tolist() == [mine]
        begun.append(k)
        open_[0] += 1
        open_[1] = max(open_)
        yield
        yield
        open_[0] -= 1
        return {"a b": np.full(2, k), "c": np.float32(k)}

    def of_all_processes(content: bytes) -> list[bytes]:
        theirs = io.BytesIO()
        np.savez(theirs, allow_pickle=False, **{"2 a b": np.full(2, 2), "5 a b": np.full(2, 5)})
        return [content, theirs.getvalue()]

    monkeypatch.setattr(_mesh, "of_every", of_all_processes)
    found = list(_mesh.in_parts(spread, 7, part))
    assert begun == [0, 1, 3, 4, 6] and open_ == [0, 2]
    assert [part["a b"].tolist() for part in found] == [[k, k] for k in range(7)]
    assert found[3]["c"].dtype == np.float32 and found[3]["c"] == 3
    monkeypatch.setattr(_mesh, "of_every", None)  # a single part is computed by every process
    turned: Any = SimpleNamespace(shape={"data": 3}, axis_names=("data", "copies"), devices=devices[::-1])
    assert [found["c"] for found in _mesh.in_parts(Spread(turned, "data"), 1, part)] == [0]


class OverTwo(Spread):
    """An axis that counts as one of two devices."""

    devices = 2  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((3, 8), (None, "data")), ((8, 4), ("data", None)), ((6, 9), ("data", None)), ((4, 4), ("data", None)), ((5,), (None,)), ((), ())],
)
def test_weights_are_shared_out_along_their_longest_axis_that_allows_it(shape: tuple[int, ...], wanted: tuple[str | None, ...]):
    spread = OverTwo(jax.make_mesh((1,), ("data",)), "data")
    assert tuple(spread.layout(shape).spec) == wanted


def test_weights_are_shared_out_where_batches_are():
    model = gm.parse(SEARCH.replace("sampler", "mask some for more = bernoulli(y, rate = 0.5)\nsampler", 1)).model("more")
    y = np.random.default_rng(0).integers(0, 3, (12, 4))
    with jax.set_mesh(jax.make_mesh((1,), ("data",))), pytest.raises(gm.GmlmError, match=r"(?s)E507.*add `mesh_axis=`"):
        model.fit(y, "some", max_steps=2, progress=False, weight_axis="data")


@pytest.mark.parametrize(("rows", "per_row", "devices", "wanted"), [(1, 4, 8, 2), (4, 3, 6, 4), (4, 3, 8, 8), (64, 1, 3, 66)])
def test_rows_are_filled_up_until_devices_share_their_chains_equally(rows: int, per_row: int, devices: int, wanted: int):
    mesh: Any = SimpleNamespace(shape={"data": devices})
    found = _decoding._shared_out(np.arange(rows), per_row, Spread(mesh, "data"))
    assert found.tolist() == [*range(rows), *[rows - 1] * (wanted - rows)]


@pytest.mark.usefixtures("standard_promotion")
def test_a_mesh_of_one_device_changes_nothing():
    model = gm.parse(MODEL).model()
    alone = model.fit(ROWS, progress=False)
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        for axis in (None, "data"):
            found = model.fit(ROWS, progress=False, mesh_axis=axis)
            assert float(found.params["J"]) == float(alone.params["J"])
            assert float(found.standard_errors["J"]) == float(alone.standard_errors["J"])


GRID = "graph G = grid(8, 8, wrap = true)  model m { var x[i in G.nodes] : spin  param h  param J[(i, j) in G.edges]  "
GRID += "factor h * x[i] for i in G.nodes  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges }  sampler s { update x[i] for i in G.nodes }"
LARGE = """
import hashlib, json, jax, numpy as np
import gmlmdsl as gm
text = "graph G = grid(1024, 1024, wrap = true)  model ising { var x[i in G.nodes] : spin  param J  "
text += "factor J * x[i] * x[j] for (i, j) in G.edges }  sampler sweep { update x[i] for i in G.nodes }"
options = {"draws": 2, "warmup": 2, "chains": 2, "seed": 1, "progress": False}
with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("data",))):
    draws = gm.parse(text).model().sample({"J": 0.4}, cell_axis="data", **options)
x = np.asarray(draws["posterior"]["x"].values)
print(json.dumps({"digest": hashlib.sha256(x.tobytes()).hexdigest(), "moved": float((x[:, 0] != x[:, 1]).mean())}))
"""


def subprocess_of(text: str, devices: int) -> subprocess.Popen[str]:
    flags = {"NPROC": "32", "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | flags
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_a_large_lattice_has_the_draws_of_one_device():
    found = [answer(subprocess_of(LARGE, devices)) for devices in (1, 2, 4)]
    assert found[0]["digest"] == found[1]["digest"] == found[2]["digest"]
    assert 0.05 < found[0]["moved"] < 0.5


def test_only_sweeps_spread_cells():
    model = gm.parse(MODEL + "\nsampler joint { update x[K] where K ~ one }").model()
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        for sampler in ("joint", "exact"):
            with pytest.raises(gm.GmlmError, match=r"(?s)a sweep of single cells, which this sampler has not.*mesh_axis"):
                model.sample({"J": 0.1}, sampler, cell_axis="data")


@pytest.mark.slow  # packed sweeps are below
def test_cells_that_are_spread_are_drawn_alike():
    model = gm.parse(MODEL).model()
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        alone, spread = (model.sample({"J": 0.1}, "s", draws=400, progress=False, **o) for o in ({}, {"cell_axis": "data"}))
    assert (alone["posterior"]["x"].values == spread["posterior"]["x"].values).all()


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("signs", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.slow
def test_colours_of_several_turns_are_drawn_at_once(signs: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_packed_sweep, "CELLS_PER_TURN", 8)
    model = gm.parse(GRID).model()
    J = np.random.default_rng(0).choice([-0.6, 0.6], 128) if signs else np.full(128, 0.6)
    params, options = {"h": 0.2, "J": J}, {"draws": 100, "warmup": 5, "chains": 4, "seed": 2, "progress": False}
    kernel = build_kernel(model.lowered, model.sampler("s")[1], {k: jnp.asarray(v) for k, v in params.items()}, keep=True).kernel
    assert isinstance(kernel, _packed_sweep.PackedSweepKernel) and kernel.stages[0].cells.shape[1] == 8
    alone = model.sample(params, "s", **options)
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        spread = model.sample(params, "s", cell_axis="data", **options)
    assert (alone["posterior"]["x"].values == spread["posterior"]["x"].values).all()


def test_devices_share_a_colour_equally():
    kernel = build_kernel(gm.parse(MODEL).model().lowered, gm.parse(MODEL).model().sampler("s")[1]).kernel
    mesh: Any = SimpleNamespace(shape={"data": 3})
    with pytest.raises(gm.GmlmError, match="3 devices do not share the 2 cells of a colour equally"):
        over_cells(kernel, Spread(mesh, "data"))


@pytest.mark.parametrize("more", [{"method": "pcd"}, {"impute": True}, {"optimizer": "adam"}])
def test_rows_of_other_fits_are_not_spread(more: dict[str, object]):
    more = {"optimizer": optax.adam(0.1)} if "optimizer" in more else more
    with jax.set_mesh(jax.make_mesh((1,), ("data",))), pytest.raises(gm.GmlmError, match="rows of a full-batch fit"):
        gm.parse(MODEL).model().fit(ROWS, mesh_axis="data", **more)


def test_the_identity_of_a_run_does_not_depend_on_the_mesh():
    optimizer = optax.adafactor(0.1)
    weights = {"a": jnp.ones((4, 4))}
    state = optimizer.init(weights)

    def found() -> str:
        return hash_of_computation(lambda w, s: optimizer.update(w, s, w), weights, state)

    alone = found()
    with jax.set_mesh(jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,))):
        assert found() == alone


def test_a_traced_call_goes_on_under_a_mesh():
    model = gm.parse(MODEL).model()
    wanted = float(model.log_potential({"J": 0.3}, [1, 1, 0]))
    traced = jax.jit(lambda J: model.log_potential({"J": J}, [1, 1, 0]))
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        assert float(traced(0.3)) == pytest.approx(wanted)
        assert float(model.log_partition({"J": 0.3})) == pytest.approx(float(model.log_partition({"J": 0.3})))
