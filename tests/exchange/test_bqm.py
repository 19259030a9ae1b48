"""Binary quadratic models: energies, log Z and what is refused."""

from __future__ import annotations

import itertools
import json
import warnings

import jax
import numpy as np
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm

import gmlmdsl as gm

COO = "# vartype=SPIN\n0 0 0.5\n1 1 -0.25\n0 1 -1.0\n1 2 0.75\n2 1 0.25\n"
BQM = {
    "type": "BinaryQuadraticModel",
    "version": {"bqm_schema": "3.0.0"},
    "use_bytes": False,
    "index_type": "uint16",
    "bias_type": "float32",
    "num_variables": 3,
    "num_interactions": 2,
    "variable_labels": ["a", "b c", 7],
    "variable_type": "BINARY",
    "offset": 1.5,
    "info": {},
    "linear_biases": [0.5, -0.25, 0.0],
    "quadratic_biases": [-1.0, 2.0],
    "quadratic_head": [0, 2],
    "quadratic_tail": [1, 1],
}


def model(path) -> gm.JointModel:
    found = gm.read_model(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = gm.parse(found.text, **found.inputs)
    assert bound.model().warnings == ()
    return bound.model()


def energies(model: gm.JointModel, params=None) -> np.ndarray:
    """Minus log p without log Z, at every joint value, the last cell fastest."""
    rows = np.array(list(itertools.product(range(2), repeat=model.graph.n_random)))
    (v,) = model.graph.variables
    with jax.enable_x64(True):
        return -np.asarray(model.log_potential(params or {}, v.values_of(rows)))


@pytest.mark.check
def test_coordinates_are_an_energy_of_spins(tmp_path):
    (tmp_path / "m.coo").write_text(COO)
    found = [
        0.5 * a - 0.25 * b - a * b + 1.0 * b * c  # the terms 1 2 and 2 1 are added
        for a, b, c in itertools.product((-1, 1), repeat=3)
    ]
    np.testing.assert_allclose(energies(model(tmp_path / "m.coo")), found, rtol=1e-12)


def test_json_is_an_energy_of_bits_with_an_offset(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(BQM))
    found = [1.5 + 0.5 * a - 0.25 * b - a * b + 2 * b * c for a, b, c in itertools.product((0, 1), repeat=3)]
    read = model(tmp_path / "m.json")
    np.testing.assert_allclose(energies(read), found, rtol=1e-12)
    with jax.enable_x64(True):
        assert float(read.log_partition({})) == pytest.approx(np.log(np.exp(-np.array(found)).sum()), abs=1e-10)
    assert "# x[1] is `b c` there\n# x[2] is `7` there\n" in gm.read_model(tmp_path / "m.json").text


def test_dimod_reads_what_is_written_and_its_files_are_read(tmp_path):
    dimod = pytest.importorskip("dimod")
    coo = pytest.importorskip("dimod.serialization.coo")
    theirs = dimod.BinaryQuadraticModel({0: 0.5, 1: -0.25, 2: 1.0}, {(0, 1): -1.0, (1, 2): 0.75}, 1.5, "BINARY")
    (tmp_path / "m.json").write_text(json.dumps(theirs.to_serializable()))
    found = [theirs.energy(dict(enumerate(x))) for x in itertools.product((0, 1), repeat=3)]
    read = model(tmp_path / "m.json")
    np.testing.assert_allclose(energies(read), found, rtol=1e-6)
    read.export({}, tmp_path / "again.json")
    again = dimod.BinaryQuadraticModel.from_serializable(json.loads((tmp_path / "again.json").read_text()))
    read.export({}, tmp_path / "m.coo")
    with (tmp_path / "m.coo").open() as file:
        listed = coo.load(file, vartype="BINARY")
    for x, expected in zip(itertools.product((0, 1), repeat=3), found, strict=True):
        for bqm in (again, listed):
            labels = sorted(bqm.variables, key=str)
            assert bqm.energy(dict(zip(labels, x, strict=True))) - bqm.offset == pytest.approx(expected - 1.5, abs=1e-6)


@pytest.mark.parametrize("kind", ["spin", "bit", 'labels("u", "v")'])
@pytest.mark.parametrize("ending", ["json", "coo"])
def test_exported_models_have_the_energy_of_the_model(kind, ending, tmp_path):
    number = "x[{}]" if "labels" not in kind else '(if x[{}] == "v" then 1 else 0)'
    i, j = number.format("i"), number.format("j")
    text = f"""model m {{
  var x[i in range(5)] : {kind}
  param h[i in range(5)]
  param J
  factor h[i] * {i} for i in range(5)
  factor J * {i} * {j} for i in range(5) for j in range(5) if i < j
  factor exp(0.1 * {i}) for i in range(5) if i < 2
}}
"""
    first, params = gm.parse(text).model(), {"h": np.linspace(-1, 1, 5), "J": 0.3}
    notes = first.export(params, tmp_path / f"m.{ending}")
    second = model(tmp_path / f"m.{ending}")
    assert second.graph.variables[0].kind == ("spin" if kind == "spin" else "bit")
    change = energies(second) - energies(first, params)
    np.testing.assert_allclose(change, change[0], atol=1e-12)
    assert (ending == "json" and abs(change[0]) < 1e-12) or "no offset" in notes[0]


def test_many_numbers_are_inputs(folder):
    rows = [f"{k} {(k + 1) % 100} {0.01 * k}" for k in range(100)]
    (folder / "ring.coo").write_text("# vartype=BINARY\n" + "\n".join(rows) + "\n")
    assert "wrote ring.npz" in gmlm("import", "ring.coo").output
    assert "no faults" in gmlm("check", "ring.gmlm", "--inputs", "ring.npz").output
    gmlm("export", "ring.gmlm", "--inputs", "ring.npz", "--out", "again.coo")
    again = [line.split() for line in (folder / "again.coo").read_text().splitlines()[1:]]
    found = {(int(a), int(b)): float(v) for a, b, v in again if a != b}
    assert found == pytest.approx({tuple(sorted((k, (k + 1) % 100))): 0.01 * k for k in range(100)}, abs=1e-15)


def test_a_file_of_fields_alone_has_no_pairs(tmp_path):
    (tmp_path / "m.coo").write_text("# vartype=SPIN\n0 0 1\n")
    np.testing.assert_allclose(energies(model(tmp_path / "m.coo")), [-1, 1])


REFUSED = {
    "no vartype": ("0 0 1\n", "E532", "spins or bits"),
    "no terms": ("# vartype=SPIN\n", "E532", "no terms"),
    "two words": ("# vartype=SPIN\n0 1\n", "E532", "not a term"),
    "word": ("# vartype=SPIN\n0 1 much\n", "E532", "not a term"),
    "below 0": ("# vartype=SPIN\n0 -1 2\n", "E532", "not a term"),
    "infinite": ("# vartype=SPIN\n0 1 1e999\n", "E533", "not finite"),
    "huge number": ("# vartype=SPIN\n0 99999999 1\n", "E535", "variable 99999999"),
    "cut": (json.dumps(BQM)[:-40], "E532", "not JSON"),
    "deep": ('{"a": ' + "[" * 100_000, "E532", "too deep"),
    "another type": ('{"type": "SampleSet"}', "E532", "no `BinaryQuadraticModel`"),
    "bytes": (json.dumps(BQM | {"use_bytes": True}), "E532", "packed as bytes"),
    "vartype": (json.dumps(BQM | {"variable_type": "INTEGER"}), "E532", "INTEGER, not SPIN"),
    "labels": (json.dumps(BQM | {"variable_labels": 3}), "E532", "not a list of names"),
    "label twice": (json.dumps(BQM | {"variable_labels": ["a", "a", "b"]}), "E532", "a name twice"),
    "short": (json.dumps(BQM | {"linear_biases": [1.0]}), "E532", "has 3 numbers, found 1"),
    "text": (json.dumps(BQM | {"linear_biases": [1.0, "a", True]}), "E532", "not a list of numbers"),
    "nan": (json.dumps(BQM | {"linear_biases": [1.0, 2.0, float("nan")]}), "E533", "not finite"),
    "whole number": (json.dumps(BQM | {"linear_biases": [1, 2, 10**400]}), "E533", "not finite"),
    "end": (json.dumps(BQM | {"quadratic_head": [0, 3]}), "E532", "numbers from 0 to 2"),
    "loop": (json.dumps(BQM | {"quadratic_head": [1, 2]}), "E532", "with itself"),
    "offset": (json.dumps(BQM | {"offset": "x"}), "E532", "not a list of numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_refused(name, tmp_path):
    text, code, words = REFUSED[name]
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(tmp_path / "a.json")
    found = caught.value.diagnostics[0]
    assert (found.code, words in found.message) == (code, True), found


NOT_EXPORTED = {
    "three values": ("var x[i in range(2)] : range(3)  factor x[0] * x[1]", "`x` has 3 values"),
    "three cells": ("var x[i in range(3)] : bit  factor x[0] * x[1] * x[2]", "a factor has 3 cells"),
    "require": ("var x[i in range(2)] : bit  require x[0] == x[1]", "a factor is infinite"),
}


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_models_that_are_not_quadratic_are_not_written(name, tmp_path):
    text, words = NOT_EXPORTED[name]
    with pytest.raises(gm.GmlmError, match=words) as caught:
        gm.parse(f"model m {{ {text} }}").model().export({}, tmp_path / "m.json")
    assert caught.value.codes == ("E534",)
    assert not list(tmp_path.iterdir())
