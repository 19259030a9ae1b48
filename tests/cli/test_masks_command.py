"""`gmlm masks`: tables, data, text to paste, and faults without a traceback."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_cases import gmlm

import gmlmdsl as gm

TEXT = """\
input n : int = 3
graph G = chain(n)
domain base = letters("abc")
model m {
  var   x[i in G.nodes] : base
  param h[i in G.nodes] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h[i] * (x[i] == "a") for i in G.nodes
  factor J * (x[i] == x[j]) for (i, j) in G.edges
}
mask one   = subsets(x, size = 1)
mask ends  = blocks({x[0]}, {x[2]})
mask tuned { choose {x[0]} weight exp(J)  choose {x[1]} weight 1 }
sampler gibbs { update K where K ~ tuned }
sampler sweep { update x[i] for i in G.nodes }
"""
BIG = "graph G = grid(30, 30)\nmodel big {\n  var x[i in G.nodes] : spin\n  factor 0.2 * x[i] * x[j] for (i, j) in G.edges\n}\n"
BIG += "mask one = subsets(x, size = 1)\n"
GIVEN = "model m {\n  given z : bit\n  var x : bit\n  factor z * x\n}\nmask one = subsets(size = 1)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, its parameters and a fit of it, where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.gmlm").write_text(TEXT)
    (tmp_path / "given.gmlm").write_text(GIVEN)
    (tmp_path / "big.gmlm").write_text(BIG)
    (tmp_path / "two.gmlm").write_text(f"{BIG}sampler s {{ update x[i] for i in G.nodes }}\nsampler t {{ update K where K ~ one }}\n")
    np.savez(tmp_path / "p.npz", h=np.array([0.1, 0.4, -0.5]), J=0.7)
    return tmp_path


def test_the_table_and_what_it_means(folder):
    output = gmlm("masks", "m.gmlm", "--params", "p.npz", "--no-times").output
    assert "masks of `m`" in output
    assert "Exact, over 27 configurations." in output
    rows = [line.split() for line in output.splitlines()]
    assert next(r for r in rows if r[:1] == ["one"])[1:3] == ["3", "1"]
    assert next(r for r in rows if r[:1] == ["ends"])[3:6] == ["inf", "inf", "inf"]
    assert "tuned" not in output  # it mentions a parameter: it cannot fit
    assert "var, one: variance of a fit that draws one mask for each row" in output
    assert "ms/gradient" not in output
    assert "For `fit` as it runs by default: `one`" in output
    assert "The chain of `ends` never reaches all of the support." in output


def test_data_instead_of_text_have_the_kind_of_each_number(folder):
    found = json.loads(gmlm("masks", "m.gmlm", "--params", "p.npz", "--no-times", "--json", "-m", "one", "-m", "ends").stdout)
    one, ends = found["masks"]
    program = gm.load("m.gmlm")
    exact = gm.theory.poincare_constant(program.model(), dict(np.load("p.npz")), "one")
    assert one["poincare"] == {"value": pytest.approx(float(exact)), "kind": "exact", "error": None}
    assert ends["variance_one"]["value"] == "inf"
    assert ends["gradient_ms"] is None
    assert found["call"] == "compare_masks(m, masks=['one', 'ends'])"


@pytest.mark.slow
def test_estimates_have_errors_and_say_what_drew_them(folder):
    words = ("masks", "m.gmlm", "--params", "p.npz", "--no-times", "--draws", "400", "-m", "one")
    assert "400 independent draws" in gmlm(*words).output
    result = gmlm(*words, "--sampler", "sweep", "--seed", "3")
    assert "400 draws of sampler `sweep`, 20 chains" in result.stdout
    assert "draws=400, sampler='sweep', seed=3" in " ".join(result.stdout.split())
    assert "+-" in result.stdout


@pytest.mark.slow
def test_a_fit_brings_its_parameters_and_suggestions_extend_the_file(folder, standard_promotion):
    model = gm.load("m.gmlm").model()
    x = np.random.default_rng(0).integers(0, 3, (60, 3))
    model.fit(x, mask="one").save("m.fit")
    text = gmlm("masks", "m.fit", "--suggest", "--no-times").stdout
    gmlm("format", "m.gmlm", status=None)
    before = (folder / "m.gmlm").read_text()
    (folder / "m.gmlm").write_text(before.rstrip() + text)  # also behind a file without a last line break
    assert "error" not in gmlm("check", "m.gmlm").output
    (folder / "m.gmlm").write_text(before + text)
    assert "would change" not in gmlm("format", "--check", "m.gmlm").output
    assert set(gm.load("m.gmlm").model().masks) > {"one", "ends", "tuned", "subsets_2", "edges"}
    assert "leave `--params` out" in gmlm("masks", "m.fit", "--params", "p.npz", status=1).output


FAULTS = {
    "no parameters": (["m.gmlm"], "fit first and compare the masks of the saved fit"),
    "unknown mask": (["m.gmlm", "--params", "p.npz", "--mask", "oen"], "did you mean `one`?"),
    "a mask with a parameter": (["m.gmlm", "--params", "p.npz", "--mask", "tuned", "--draws", "300"], "error[E702"),
    "unknown sampler": (["m.gmlm", "--params", "p.npz", "--sampler", "sweeps"], "did you mean `sweep`?"),
    "few draws": (["m.gmlm", "--params", "p.npz", "--draws", "10"], "draws must be a whole number of at least 200"),
    "no file": (["nope.gmlm"], "`nope.gmlm` does not exist"),
    "not a fit": (["p.npz"], "error[E520"),
    "an array of another name": (["m.gmlm", "--params", "other.npz"], "no parameter `g`"),
    "no sampler for draws": (["big.gmlm"], "is too large to list and to draw from independently, and has no samplers"),
    "which sampler draws": (["two.gmlm"], "`--sampler s`, or another"),
    "given data": (["given.gmlm"], "takes no data of `z`"),
    "unknown input": (["m.gmlm", "--params", "p.npz", "-i", "N=3"], "the program has no input `N`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_have_codes(folder, name):
    words, wanted = FAULTS[name]
    np.savez("other.npz", g=np.zeros(3))
    output = gmlm("masks", *words, "--no-times", status=1).output
    assert wanted in output
    assert "error[E" in output


def test_suggestions_name_no_mask(folder):
    assert "--mask" in gmlm("masks", "m.gmlm", "--suggest", "--mask", "one", status=2).output.replace("\n", " ")
