"""The benchmarks run and write what they say; how fast is nobody's test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import _table, _tasks
from benchmarks._autocorrelation import autocorrelation
from benchmarks._ising_data import ising_data
from benchmarks._measure import Check, Figure

RUN = Path(__file__).parent / "benchmarks" / "run.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), "--quick", *arguments], capture_output=True, text=True, check=False, env=dict(os.environ)
    )


def verify_well_formed(found: dict, names: set[str]) -> None:
    assert found["quick"] is True
    assert found["provenance"]["versions"]["jax"]
    assert found["provenance"]["cores"] >= 1
    assert {f["benchmark"] for f in found["figures"]} == names
    for f in found["figures"]:
        assert f["value"] is None or np.isfinite(f["value"])
        assert f["unit"]
        assert f["quantity"]
    assert all(c["passed"] for c in found["checks"])


def test_one_command_writes_json_a_table_and_the_page(tmp_path: Path) -> None:
    out, page = tmp_path / "found.json", tmp_path / "page.md"
    page.write_text(f"# Speed\n\n{_table.BEGIN}\nold\n{_table.END}\n\nafter\n")
    done = run("--only", "lowering", "--out", str(out), "--page", str(page))
    assert done.returncode == 0, done.stderr
    verify_well_formed(json.loads(out.read_text()), {"lowering"})
    assert "factors lowered per second" in done.stdout
    text = page.read_text()
    assert "old" not in text
    assert "| lowering | gmlmdsl |" in text
    assert text.endswith("after\n")


@pytest.mark.slow
def test_sampling_and_fitting_agree_with_the_peers(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    names = ("first_draw", "t1", "t2", "t3", "f1")
    done = run(*(a for n in names for a in ("--only", n)), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    verify_well_formed(json.loads(out.read_text()), set(names))


@pytest.mark.slow
def test_strips_have_kaufmans_energy_and_forget_faster_than_cells(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run("--only", "strips", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    verify_well_formed(found, {"strips"})
    assert len(found["checks"]) == 5
    times = {f["implementation"]: f["value"] for f in found["figures"] if f["quantity"] == "integrated autocorrelation time, energy"}
    assert times["rows, then columns"] < times["rows"] < times["cells in turn"]


@pytest.mark.slow
def test_estimates_of_the_theory_agree_with_exact_answers(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run("--only", "theory", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    verify_well_formed(json.loads(out.read_text()), {"theory"})


def test_autocorrelation_times_are_those_of_an_autoregression() -> None:
    """x_t = r x_t-1 + noise: the integrated time is (1 + r) / (1 - r) / 2, and the standard error of the mean follows."""
    rng, r = np.random.default_rng(0), 0.8
    x = np.zeros((200, 4000))
    x[:, 0] = rng.normal(size=200) / np.sqrt(1 - r**2)
    for t in range(1, 4000):
        x[:, t] = r * x[:, t - 1] + rng.normal(size=200)
    found = autocorrelation(x[:20])
    assert abs(found.time - 4.5) < 4 * found.error
    assert found.error < 0.2
    assert found.enough
    assert found.effective == pytest.approx(80000 / (2 * found.time))
    z = [one.mean / one.standard_error for one in (autocorrelation(row[None]) for row in x)]
    assert 0.85 < np.std(z) < 1.15
    assert not autocorrelation(x[:1, :60]).enough
    assert autocorrelation(rng.normal(size=(4, 5000))).time == pytest.approx(0.5, abs=0.05)
    assert np.isnan(autocorrelation(np.ones((2, 10))).time)


def test_what_was_not_measured_says_so() -> None:
    rows = _table.figure_rows([Figure("t1", "thrml", "site updates", None, "M/s", (), "thrml is not installed")])
    assert rows == [("t1", "thrml", "site updates", "not measured", "", "thrml is not installed")]


def test_a_check_of_not_a_number_fails() -> None:
    assert Check("t1", "energy", 1.0, 1.1, 0.2).passed
    assert not Check("t1", "energy", 1.0, 1.3, 0.2).passed
    assert not Check("t1", "energy", float("nan"), 1.0, 0.2).passed


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="wants the lines"):
        _table.write_page(page, {}, [], [])
    assert page.read_text() == "nothing"


def test_a_run_of_one_benchmark_renews_its_own_part_of_the_page(tmp_path: Path) -> None:
    page, where = tmp_path / "page.md", {"date": "2026-01-01", "cores": 2, "architecture": "a", "system": "b", "load": 0, "load_after": 1}
    where |= {"python": "3", "versions": {}}
    begin, end = (m.replace(" -->", " strips -->") for m in (_table.BEGIN, _table.END))
    page.write_text(f"{_table.BEGIN}\nthe others\n{_table.END}\n\n{begin}\nold\n{end}\n")
    one, other = (Figure(name, "x", "speed", 2.0, "1/s") for name in ("strips", "t1"))
    _table.write_page(page, where, [one], [])
    text = page.read_text()
    assert "the others" in text and "old" not in text
    assert text.index(begin) < text.index("| strips | x |") < text.index(end)
    _table.write_page(page, where, [one, other], [])
    text = page.read_text()
    assert "the others" not in text and text.index("| t1 | x |") < text.index(begin)


@pytest.mark.parametrize("name", list(_tasks.TASKS))
def test_the_plain_energy_is_the_programs(name: str) -> None:
    import gmlmdsl as gm

    task = _tasks.TASKS[name](True)
    codes = task.starts(0)
    values = 2 * codes - 1 if task.spin else codes
    model = gm.parse(task.program, **task.inputs).model()
    expected = np.asarray(model.log_potential(task.params, values))
    np.testing.assert_allclose(-task.energy(codes) * task.n * task.unit, expected, rtol=1e-4, atol=1e-4)


def test_the_exact_energy_of_the_square_lattice() -> None:
    assert _tasks.onsager_energy(0.3) == pytest.approx(-0.70450, abs=5e-6)
    assert _tasks.onsager_energy(0.01) == pytest.approx(-2 * np.tanh(0.01), abs=1e-5)


def test_the_data_are_spins_with_the_sign_of_their_couplings() -> None:
    data = ising_data(10, 1000)
    assert set(np.unique(data.x)) == {-1, 1}
    products = (data.x[:, data.edges[:, 0]] * data.x[:, data.edges[:, 1]]).mean(axis=0)
    assert (np.sign(products) == np.sign(data.couplings)).mean() > 0.9
