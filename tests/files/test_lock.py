"""One run in a folder: the second is told who holds it; what a killed run left holds nobody up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.files import alone

HOLDS = "import sys, time\nfrom gmlmdsl.files import alone\nwith alone(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(60)\n"
pytestmark = pytest.mark.usefixtures("standard_promotion")


def refused(call: Any, code: str = "E588") -> Any:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    assert caught.value.codes == (code,), str(caught.value)
    return caught.value.diagnostics[0]


@pytest.mark.produces("E588")
def test_the_second_is_told_who_holds_the_folder(tmp_path: Path):
    with alone(tmp_path / "run"):
        found = refused(lambda: alone(tmp_path / "run").__enter__())
        assert f"process {os.getpid()}, since 20" in found.message
        assert f"`kill {os.getpid()}`" in found.help
    assert not (tmp_path / "run").exists()  # it was made, and nothing was left in it
    with alone(tmp_path / "run"):
        (tmp_path / "run" / "kept").touch()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["kept"]


@pytest.mark.parametrize("said", [b"", b"{", b"[1]", b'{"pid": "x"}', b"\xff\xfe", b"[" * 900, b'{"pid": 1, "since": "' + b"9" * 5000])
def test_a_lock_that_says_nothing_holds_all_the_same_and_an_old_one_does_not(tmp_path: Path, said: bytes):
    (tmp_path / ".lock").write_bytes(said)  # of a run that was killed
    with alone(tmp_path):
        assert json.loads((tmp_path / ".lock").read_bytes())["pid"] == os.getpid()
        (tmp_path / ".lock").write_bytes(said)
        assert "another run is at work in" in refused(lambda: alone(tmp_path).__enter__()).message


@pytest.mark.slow
def test_another_process_holds_it_until_it_is_killed(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert f"process {process.pid}, since" in refused(lambda: alone(tmp_path).__enter__()).message
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (tmp_path / ".lock").exists()  # nobody could remove it
    with alone(tmp_path):
        pass
    assert not (tmp_path / ".lock").exists()


def test_what_is_no_folder_is_said(tmp_path: Path):
    (tmp_path / "file").touch()
    assert "cannot write" in refused(lambda: alone(tmp_path / "file").__enter__(), "E560").message
    assert "cannot write" in refused(lambda: alone("a\0b").__enter__(), "E560").message


@pytest.mark.slow
def test_two_trainings_do_not_share_checkpoints(tmp_path: Path):
    pytest.importorskip("orbax.checkpoint")
    text = "network net = mlp(layers = 1, width = 4) model m { var x[i in range(2)] : bit conditional x ~ net() } mask any = bernoulli(x, rate = 0.5)"
    model, x = gm.parse(text).model(), np.zeros((4, 2), int)
    how = gm.Training(steps=2, batch_size=4, checkpoint=tmp_path / "run", save_every=1)
    with alone(tmp_path / "run"):
        found = refused(lambda: model.fit(x, mask="any", method=how, progress=False))
        assert f"process {os.getpid()}" in found.message
        assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [".lock"]
