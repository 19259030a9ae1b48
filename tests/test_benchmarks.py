"""The benchmarks run and write what they say; how fast is nobody's test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from benchmarks import _table, _tasks, potts, votes
from benchmarks._autocorrelation import autocorrelation
from benchmarks._first_child import first_blocks
from benchmarks._ising_data import ising_data
from benchmarks._measure import ROOT, Check, Figure, counted_programs, pooled, ratio, run_process
from benchmarks._plmc_peer import Potts, read_parameters
from benchmarks._votes_child import HOLE

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


@pytest.mark.slow
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
    other = tmp_path / "other.md"
    other.write_text(f"{_table.BEGIN}\n{_table.END}\n")
    assert run("--merge", str(out), "--page", str(other)).returncode == 0
    between = text[text.index(_table.BEGIN) : text.index(_table.END)]
    assert between in other.read_text()  # nothing was measured anew


@pytest.mark.slow
def test_sampling_and_fitting_agree_with_the_peers(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    names = ("first_draw", "t1", "t2", "t3", "disordered", "t4", "f1")
    done = run(*(a for n in names for a in ("--only", n)), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    verify_well_formed(json.loads(out.read_text()), set(names))


@pytest.mark.slow
def test_fits_and_first_answers_agree_with_the_peers(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    names = ("potts_dhfr", "first_answers", "votes", "chains", "large")
    done = run(*(a for n in names for a in ("--only", n)), "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    verify_well_formed(found, set(names))
    compiled = {f["quantity"]: f["value"] for f in found["figures"] if f["unit"] == "programs"}
    assert compiled["compiled by README's fit"] > 0
    assert compiled["compiled by second fit of an equal program, parsed anew"] == 0
    for name in names:
        assert any(f["unit"] == "MiB" or f["value"] is None for f in found["figures"] if f["benchmark"] == name)


@pytest.mark.slow
def test_boltzmann_learning_says_what_it_reached_beside_its_peer(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run("--only", "boltzmann_20", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    verify_well_formed(found, {"boltzmann_20"})
    reached = {f["implementation"]: f["value"] for f in found["figures"] if f["quantity"].startswith("Pearson correlation of new chains")}
    assert reached["gmlmdsl"] > 0.9


@pytest.mark.slow
def test_strips_have_kaufmans_energy_and_forget_faster_than_cells(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run("--only", "strips", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    verify_well_formed(found, {"strips"})
    assert len(found["checks"]) == 7
    times = {f["implementation"]: f["value"] for f in found["figures"] if f["quantity"] == "integrated autocorrelation time, energy"}
    assert times["rows, then columns"] < times["rows"] < times["cells in turn"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gibbs", "theory", "inclusion", "items", "bayesian", "modes", "searches"])
def test_a_benchmark_runs_and_its_checks_pass(name: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    done = run("--only", name, "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    verify_well_formed(json.loads(out.read_text()), {name})


def test_ratios_that_another_page_quotes_are_those_of_the_runs() -> None:
    """The table of times of "come from other tools": its last two columns are a benchmark and its ratio."""
    found = (ROOT / "docs" / "reference" / "benchmarks.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "come-from-other-tools.md").read_text(encoding="utf-8")
    quoted = re.findall(r"\| `(\w+)` \| ([\d.]+) \|$", page, flags=re.MULTILINE)
    assert len(quoted) > 5
    for name, value in quoted:
        assert re.search(rf"^\| {name} \|.*\| {re.escape(value)} (ratio|x) \|", found, flags=re.MULTILINE), (name, value)


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
    assert json.dumps(Check("t1", "energy", np.float64(1.0), 1.1, 0.2).passed) == "true"


WHERE = {"date": "2026-01-01", "cores": 2, "architecture": "a", "system": "b", "load": 0, "load_after": 1, "python": "3", "versions": {}}


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="wants the lines"):
        _table.write_page(page, [_table.Run(WHERE, [Figure("t1", "x", "speed", 2.0, "1/s")], [])])
    assert page.read_text() == "nothing"


def test_each_benchmark_renews_its_own_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = _table.own_marks("strips")
    page.write_text(f"{_table.BEGIN}\nthe others\n{_table.END}\n\n{begin}\nold\n{end}\n")
    one, other, third = (Figure(name, "x", "speed", 2.0, "1/s") for name in ("strips", "t1", "t2"))
    check = Check("strips", "energy", 1.0, 1.0, 0.1)
    _table.write_page(page, [_table.Run(WHERE, [one], [check])])
    text = page.read_text()
    assert "the others" in text and "old" not in text
    assert text.index(begin) < text.index("| strips | x |") < text.index("| strips | energy |") < text.index(end)
    _table.write_page(page, [_table.Run(WHERE, [one, other], [check]), _table.Run(WHERE | {"date": "2026-01-02"}, [third], [])])
    text = page.read_text()
    assert "the others" not in text
    assert text.index("| t1 | x |") < text.index("| t2 | x |") < text.index(begin) < text.index("| strips | x |")
    assert [text.count(d) for d in ("2026-01-01", "2026-01-02", "| strips | x |", "| strips | energy |")] == [2, 1, 1, 1]


@pytest.mark.slow
def test_what_a_process_held_is_not_what_its_parent_held() -> None:
    held = np.ones(40_000_000)
    took = run_process([sys.executable, "-S", "-c", "sum(range(3_000_000)); print('said')"], os.environ)
    assert took.peak < held.nbytes / 4
    assert 0 < took.processor < 10
    assert took.printed == "said\n"
    with pytest.raises(RuntimeError, match="why"):
        run_process([sys.executable, "-S", "-c", "raise SystemExit('why')"], os.environ)


def test_a_program_read_from_a_cache_is_not_compiled() -> None:
    import jax

    def asked(read: bool) -> None:
        if read:
            jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
        jax.monitoring.record_event_duration_secs("/jax/core/compile/backend_compile_duration", 0.1)

    with counted_programs() as found:
        counts = []
        for read in (False, True, False):
            asked(read)
            counts.append(len(found))
        assert counts == [1, 1, 2]
    asked(False)
    assert len(found) == 2


def test_a_goal_says_whether_it_was_met() -> None:
    assert ratio("f1", "x", "fit", [1.0, 2.0, 9.0], [1.0, 1.0, 1.0], 2).notes == "goal: at most 2, met"
    assert ratio("f1", "x", "fit", [1.0, 3.0, 9.0], [1.0, 1.0, 1.0], 2).notes == "goal: at most 2, not met"
    assert ratio("f1", "x", "fit", [4.0], [2.0], None).runs == (2.0,)


def test_figures_of_several_runs_are_one() -> None:
    parts = [Figure("f1", "x", "fit", v, "s", (v,), "a note", 2.0) for v in (1.0, 5.0, 3.0)]
    absent = Figure("f1", "y", "fit", None, "s", (), "why")
    (one, other) = pooled([*parts, absent, absent])
    assert (one.value, one.runs, one.notes, other) == (3.0, (1.0, 5.0, 3.0), "a note; goal: at most 2, not met", absent)


def test_figures_stand_beside_those_of_another_version() -> None:
    then = [
        Figure("f1", "x", "fit", 1250.0, "s", (1.0, 2.0), "a note"),
        Figure("f1", "y", "fit", None, "s"),
        Figure("f2", "x", "fit", 1.0, "s"),
    ]
    page = "# Speed\n\n" + _table.markdown(_table.HEADINGS, _table.figure_rows(then))
    here = [Figure("f1", "x", "fit", 2500.0, "s"), Figure("f1", "y", "fit", 1.0, "s"), Figure("f2", "x", "fit", 1.0, "M/s")]
    assert _table.beside(here, page) == [("f1", "x", "fit", "1,250 s", "2,500 s", "2")]


def random_potts(n: int, q: int) -> Potts:
    rng = np.random.default_rng(0)
    return Potts(rng.normal(size=(n, q)), rng.normal(size=(n * (n - 1) // 2, q, q)))


def test_the_objective_of_plmc_cell_by_cell() -> None:
    of, rng = random_potts(4, 3), np.random.default_rng(1)
    x, weights, expected = rng.integers(0, 3, (5, 4)), rng.random(5), 0.0
    at = {pair: k for k, pair in enumerate(combinations(range(4), 2))}
    for row, w in zip(x, weights, strict=True):

        def energy(row: np.ndarray) -> float:
            return sum(of.h[i, row[i]] for i in range(4)) + sum(of.J[k, row[i], row[j]] for (i, j), k in at.items())

        for i in range(4):
            others = [energy(np.where(np.arange(4) == i, a, row)) for a in range(3)]
            expected -= w * (energy(row) - np.log(np.exp(others).sum()))
    expected += 0.01 * (of.h**2).sum() + 16 * (of.J**2).sum()
    assert potts.objective(of, x, weights) == pytest.approx(expected, rel=1e-12)


def test_scores_of_pairs_lose_their_average_product() -> None:
    norms = np.array([3.0, 1.0, 2.0])  # pairs 01, 02, 12: means of sites 2, 2.5, 1.5, of all 2
    found = potts.scores(norms[:, None, None] * np.full((3, 2, 2), 0.5), 3)
    np.testing.assert_allclose(found, norms - np.array([2 * 2.5, 2 * 1.5, 2.5 * 1.5]) / 2)
    assert potts.rank_correlation(np.array([1.0, 2, 3]), np.array([10.0, 30, 20])) == pytest.approx(0.5)


def test_the_file_of_plmc_is_read(tmp_path: Path) -> None:
    """Its order of numbers: `OutputParametersFull` in plmc's src/plm.c."""
    of, path = random_potts(3, 2), tmp_path / "p.params"
    head = [np.int32([3, 2, 4, 1, 100]), np.float32([0.2, 0.01, 16, 0, 2.5]), np.frombuffer(b"-A", np.int8), np.float32([1, 0, 2, 4, 1])]
    focus = [np.frombuffer(b"AAA", np.int8), np.int32([1, 2, 3])]
    tables = [np.float32(t).ravel() for t in (np.zeros((3, 2)), of.h, np.zeros((3, 2, 2)), of.J)]
    path.write_bytes(b"".join(t.tobytes() for t in (*head, *focus, *tables)))
    found, effective = read_parameters(path)
    assert effective == 2.5
    np.testing.assert_array_equal(found.h, np.float32(of.h))
    np.testing.assert_array_equal(found.J, np.float32(of.J))


def test_the_objective_of_votes_sums_over_all_completions() -> None:
    rng = np.random.default_rng(0)
    h, J, x = rng.normal(size=3), rng.normal(size=3), np.array([[1, -1, HOLE], [HOLE, HOLE, 1], [-1, -1, 1], [HOLE, HOLE, HOLE]])
    rows = list(product([1, -1], repeat=3))
    p = {r: np.exp(h @ r + J @ [r[0] * r[1], r[0] * r[2], r[1] * r[2]]) for r in rows}

    def mass(known: dict[int, int]) -> float:
        return sum(p[r] for r in rows if all(r[i] == v for i, v in known.items()))

    expected = sum((v**2 / 2 + np.log(2 * np.pi) / 2).sum() for v in (h, J))
    for row in x:
        known = {i: int(v) for i, v in enumerate(row) if v != HOLE}
        expected -= sum(np.log(mass(known) / mass({j: v for j, v in known.items() if j != i})) for i in known)
    assert votes.penalised(x, h, J) == pytest.approx(expected, rel=1e-12)


def test_readme_begins_with_what_is_timed() -> None:
    program, script = first_blocks()
    assert "model votes" in program
    assert [line.split(" = ")[0] for line in script.splitlines()][-3:] == ["model", "fit", "draws"]


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
