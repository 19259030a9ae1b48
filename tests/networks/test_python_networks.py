"""A file alone never runs code: classes of Python are imported where the call allows it, and not before the model is made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.program import network_options

ROOT = Path(__file__).parents[2]
TEXT = """\
network net = python("own_network:Table", scale = 2)
model m {
  var x[i in range(4)] : range(3)
  conditional x ~ net()
}
mask some = bernoulli(x, rate = 0.5)
sampler s { update x[i] for i in range(4) }
"""


def refused(call) -> gm.Diagnostic:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    (d,) = caught.value.diagnostics
    return d


@pytest.mark.produces("E739")
def test_the_model_is_refused_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "own_network", None)  # an import of it would fail
    program = gm.parse(TEXT)
    d = refused(program.model)
    assert d.code == "E739"
    assert "own_network:Table" in d.message
    assert "allow_python=True" in d.help
    assert "--allow-python" in d.help
    assert d.span is not None
    assert d.span.text.startswith("python(")


def test_a_call_that_allows_it_makes_the_model(tmp_path: Path):
    path = tmp_path / "own.gmlm"
    path.write_text(TEXT)
    for program in (gm.parse(TEXT, allow_python=True), gm.load(path, allow_python=True)):
        assert program.model().graph.network.name == "python"
        assert program.extended("mask one = subsets(x, size = 1)\n").model("m").name == "m"
    assert refused(gm.load(path).extended("mask one = subsets(x, size = 1)\n").model).code == "E739"


CAUSAL = """\
network net = python("own_network:Table", causal = true)
model m {
  var x[i in range(4)] : range(3)
  conditional x ~ net()
}
mask forced = everything(x, noise = {keep: 1})
"""


def test_a_causal_class_is_passed_what_is_written_and_trains_on_what_it_sees():
    program = gm.parse(CAUSAL)
    assert program.checked.warnings == ()  # none says that it learns to copy
    assert network_options(program.checked.networks["net"]) == {"target": "own_network:Table", "causal": True}


@pytest.mark.parametrize(
    "line",
    [
        "sampler s = autoregressive(end = 1)",
        "verifier good = brackets(1)",
        "verifier seen = probe(net)",
    ],
)
def test_what_goes_on_from_a_prefix_wants_a_network_of_the_package(line: str):
    d = refused(lambda: gm.parse(CAUSAL.replace("range(3)", "range(2)") + line + "\n"))
    assert (d.code, "keeps nothing" in d.message) == ("E327", True)


def test_a_causal_class_has_no_features(monkeypatch: pytest.MonkeyPatch):
    model = gm.parse(CAUSAL, allow_python=True).model()
    assert refused(lambda: gm.prefix_features(model, {}, [[0]])).code == "E506"


def test_other_networks_need_no_permission():
    other = TEXT.replace('python("own_network:Table", scale = 2)', "mlp(width = 4)")
    assert gm.parse(other).model().name == "m"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gmlmdsl", *map(str, arguments)]
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "NO_COLOR": "1", "PATH": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A program whose network is a module that leaves a mark when it is imported."""
    mark = tmp_path / "ran"
    (tmp_path / "poison.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    path = tmp_path / "poison.gmlm"
    path.write_text(TEXT.replace("own_network:Table", "poison:Table"))
    (tmp_path / "x.csv").write_text("0,1,2,0\n1,1,1,1\n")
    return path


@pytest.mark.parametrize("command", thinned(["check", "explain", "info", "format", "fit", "sample"], 3, 1))
def test_no_command_imports_the_class_unless_it_is_told_to(command: str, poisoned: Path):
    more = [poisoned.parent / "x.csv"] if command == "fit" else []
    environment = {"PYTHONPATH": f"{ROOT}:{poisoned.parent}", "NO_COLOR": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-m", "gmlmdsl", command, poisoned, *more], capture_output=True, text=True, env=environment, timeout=300
    )
    assert not (poisoned.parent / "ran").exists()
    assert (done.returncode == 0) == (command not in ("fit", "sample")), done.stderr
    if command == "fit":
        assert "E739" in done.stderr
        assert "--allow-python" in done.stderr


@pytest.mark.slow
def test_info_counts_a_class_where_that_is_allowed(tmp_path: Path):
    path = tmp_path / "own.gmlm"
    path.write_text(TEXT)
    assert "--allow-python" in run("info", path).stderr
    assert "12" in run("info", path, "--allow-python").stdout


@pytest.mark.slow
def test_a_network_is_fitted_and_sampled_from_the_command_line(tmp_path: Path):
    path, data, out = tmp_path / "own.gmlm", tmp_path / "x.csv", tmp_path / "own.fit"
    path.write_text(TEXT)
    data.write_text("0,1,2,0\n1,1,1,1\n2,0,1,1\n")
    fitted = run("fit", path, data, "--max-steps", "3", "--out", out, "--allow-python")
    assert fitted.returncode == 0, fitted.stderr
    assert "to 3 rows" in fitted.stdout
    assert "nats per hidden cell" in fitted.stdout
    refusal = run("sample", out, "--draws", "4")
    assert refusal.returncode == 1
    assert "E739" in refusal.stderr
    drawn = run("sample", out, "--draws", "4", "--warmup", "1", "--allow-python")
    assert drawn.returncode == 0, drawn.stderr
    assert "x[3]" in drawn.stdout
    unfitted = run("sample", path, "--allow-python")
    assert "which a saved fit holds" in unfitted.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_saved_fit_asks_for_permission_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fit = gm.parse(TEXT, allow_python=True).model().fit([[0, 1, 2, 0], [1, 1, 1, 1]], max_steps=2)
    fit.save(tmp_path / "own.fit")
    again = gm.load_fit(tmp_path / "own.fit", allow_python=True)
    assert (again.params["net"].module.logits == fit.params["net"].module.logits).all()
    monkeypatch.setitem(sys.modules, "own_network", None)  # an import of it would fail
    assert refused(lambda: gm.load_fit(tmp_path / "own.fit")).code == "E739"
