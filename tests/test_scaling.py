"""The model of communication: its page, and its bytes beside those of compiled programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import scaling

CHILD = Path(__file__).with_name("collectives_child.py")


def test_the_page_is_that_of_the_model():
    assert scaling.page() == scaling.PAGE.read_text(encoding="utf-8")


def test_exchanges_only_cost():
    assert scaling.all_reduce(1, 1e9) == 0
    for work in scaling.works():
        assert work.speedup(1) == 1
        assert all(work.speedup(d) <= d for d in scaling.DEVICES)


def compiled(devices: int) -> dict:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))} | {"JAX_PLATFORMS": "cpu"}
    environment["GMLM_CACHE"] = "off"
    done = subprocess.run([sys.executable, str(CHILD), str(devices)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def of_kind(kind: str, operations: list[list]) -> list[int]:
    return [size for name, size in operations if name == kind]


@pytest.mark.slow
def test_one_device_exchanges_nothing():
    assert not any(found for programs in compiled(1)["programs"].values() for found in programs.values())


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 4])
def test_compiled_programs_exchange_what_the_model_says(devices: int):
    found = compiled(devices)
    few = 2048
    programs = {name: [o for p in work.values() for o in p] for name, work in found["programs"].items()}
    assert programs["rows"] == [["all-reduce", scaling.rows_bytes(6, 3)]]
    assert programs["chains"] == []
    # another exchange, which need not wait for this one, might meet it in another process
    assert programs["lattice"] == [["all-gather", scaling.colour_bytes(found["cells"], 2, 32)]]
    update = programs["training"]
    gradient = scaling.training_bytes(found["weights"])
    assert gradient <= sum(of_kind("all-reduce", update)) <= gradient + few
    assert sum(size for kind, size in update if kind != "all-reduce") <= few
