"""Rows and chains over several devices and processes: the numbers of one device."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import gmlmdsl as gm

CHILD = Path(__file__).with_name("mesh_child.py")
MODEL = "model m { var x[i in range(3)] : bit  param J  factor J * x[i] * x[i + 1] for i in range(2) }\nmask one = subsets(x, size = 1)\n"
MODEL += "sampler s { update x[i] for i in range(3) }"
ROWS = [[0, 1, 0], [1, 1, 1], [0, 0, 1]]


def started(*words: int) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))} | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(CHILD), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def answer(child: subprocess.Popen[str]) -> dict[str, float]:
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def agree(found: dict[str, float]) -> None:
    """Estimates to 1e-9 of the largest (a search that ends elsewhere by rounding), draws to the bit, trainings to 1e-5."""
    assert {k for k in found if k.startswith("draws")} == {f"draws {s}" for s in ("sweep", "pairs", "hot", "exact")}
    assert len(found) == 34
    for name, off in found.items():
        most = 0 if name.startswith("draws") else 1e-5 if name.endswith("training") else 1e-9
        assert off <= most, (name, off)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_virtual_devices_give_the_numbers_of_one(devices: int):
    agree(answer(started(devices)))


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [started(1, rank, 2, port) for rank in range(2)]
    for child in children:
        agree(answer(child))


def test_an_axis_needs_a_mesh():
    model = gm.parse(MODEL).model()
    for call in (lambda: model.fit(ROWS, mesh_axis="data"), lambda: model.sample({"J": 0.1}, mesh_axis="data")):
        with pytest.raises(gm.GmlmError, match=r"(?s)no mesh is set.*jax\.set_mesh"):
            call()
    with jax.set_mesh(jax.make_mesh((1,), ("data",))), pytest.raises(gm.GmlmError, match=r"(?s)no axis `rows`"):
        model.fit(ROWS, mesh_axis="rows")


@pytest.mark.usefixtures("standard_promotion")
def test_a_mesh_of_one_device_changes_nothing():
    model = gm.parse(MODEL).model()
    alone = model.fit(ROWS, progress=False)
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        for axis in (None, "data"):
            found = model.fit(ROWS, progress=False, mesh_axis=axis)
            assert float(found.params["J"]) == float(alone.params["J"])
            assert float(found.standard_errors["J"]) == float(alone.standard_errors["J"])


@pytest.mark.parametrize("more", [{"method": "pcd"}, {"impute": True}, {"optimizer": "adam"}])
def test_rows_of_other_fits_are_not_spread(more: dict[str, object]):
    import optax

    more = {"optimizer": optax.adam(0.1)} if "optimizer" in more else more
    with jax.set_mesh(jax.make_mesh((1,), ("data",))), pytest.raises(gm.GmlmError, match="rows of a full-batch fit"):
        gm.parse(MODEL).model().fit(ROWS, mesh_axis="data", **more)


def test_a_traced_call_goes_on_under_a_mesh():
    model = gm.parse(MODEL).model()
    wanted = float(model.log_potential({"J": 0.3}, [1, 1, 0]))
    traced = jax.jit(lambda J: model.log_potential({"J": J}, [1, 1, 0]))
    with jax.set_mesh(jax.make_mesh((1,), ("data",))):
        assert float(traced(0.3)) == pytest.approx(wanted)
        assert float(model.log_partition({"J": 0.3})) == pytest.approx(float(model.log_partition({"J": 0.3})))
