"""Potts models of plmc and adabmDCA: their numbers beside other readers, round trips, and what is refused."""

from __future__ import annotations

import itertools
import struct
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from benchmarks._plmc_peer import read_parameters
from cli_cases import folder as folder
from cli_cases import gmlm

import gmlmdsl as gm
from gmlmdsl.exchange import limits

Array = np.ndarray
LETTERS, SITES, ROWS = "-AC", 4, 5
PAIRS = list(itertools.combinations(range(SITES), 2))


def numbers(seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    q = len(LETTERS)
    return rng.normal(size=(SITES, q)).astype(np.float32), rng.normal(size=(len(PAIRS), q, q)).astype(np.float32)


def plmc_file(h: Array, j: Array, focus: str = "CA-C", places: tuple[int, ...] = (11, 12, 14, 15), letters: str = LETTERS) -> bytes:
    """A file part by part as `OutputParametersFull` of plmc writes it, with frequencies and weights that are no parameters."""
    sites, q = h.shape
    out = struct.pack("<5i5f", sites, q, ROWS, 1, 100, 0.2, 0.01, 16.0, 0.0, 3.5) + letters.encode()
    out += struct.pack(f"<{ROWS + 1}f", *range(ROWS + 1)) + focus.encode() + struct.pack(f"<{sites}i", *places)
    out += struct.pack(f"<{sites * q}f", *[0.25] * (sites * q))
    out += b"".join(struct.pack("<f", h[i, a]) for i in range(sites) for a in range(q))
    out += struct.pack(f"<{j.size}f", *[0.125] * j.size)
    pairs = range(len(j))
    return out + b"".join(struct.pack("<f", j[k, a, b]) for k in pairs for a in range(q) for b in range(q))


def adabm_file(h: Array, j: Array, names: str | None = LETTERS) -> str:
    """A text with couplings first, as both versions of adabmDCA write it."""
    name = (lambda a: names[a]) if names else str
    lines = [f"J {i} {k} {name(a)} {name(b)} {j[p, a, b]!s}" for p, (i, k) in enumerate(PAIRS) for a, b in np.ndindex(3, 3)]
    return "\n".join([*lines, *(f"h {i} {name(a)} {h[i, a]!s}" for i, a in np.ndindex(SITES, 3))]) + "\n"


def log_p(h: Array, j: Array, x: Array) -> float:
    """The sum of fields and couplings of a row of codes, term by term."""
    return sum(float(h[i, x[i]]) for i in range(len(x))) + sum(float(j[p, x[a], x[b]]) for p, (a, b) in enumerate(PAIRS))


def bound(found: gm.ImportedModel) -> gm.JointModel:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = gm.parse(found.text, coords=found.coords, **found.inputs).model()
    assert model.warnings == ()
    return model


def potentials(found: gm.ImportedModel) -> Array:
    """Log p up to log Z at all rows of codes, the last cell fastest."""
    model = bound(found)
    (v,) = model.graph.variables
    rows = np.array(list(itertools.product(range(len(v.labels)), repeat=model.graph.n_random)))
    with jax.enable_x64(True):
        params = {name: np.asarray(value, float) for name, value in found.params.items()}
        return np.asarray(model.log_potential(params, v.values_of(rows)))


@pytest.mark.check
@pytest.mark.parametrize("kind", ["plmc", "letters", "numbers"])
def test_a_file_is_the_sum_of_its_fields_and_couplings(kind, tmp_path):
    h, j = numbers()
    if kind == "plmc":
        (tmp_path / "m.model").write_bytes(plmc_file(h, j))
    else:
        (tmp_path / "m.model").write_text(adabm_file(h, j, LETTERS if kind == "letters" else None))
    found = gm.read_model(tmp_path / "m.model")
    wanted = [log_p(h, j, np.array(x)) for x in itertools.product(range(3), repeat=SITES)]
    np.testing.assert_allclose(potentials(found), wanted, atol=1e-12 if kind == "plmc" else 1e-5)
    assert 'domain value = letters("-AC")' in found.text or kind == "numbers"
    assert not found.inputs and ("complete(site)" in found.text)


def test_a_file_of_plmc_is_read_as_by_another_reader(tmp_path):
    h, j = numbers(1)
    (tmp_path / "m.model").write_bytes(plmc_file(h, j))
    found, (other, effective) = gm.read_model(tmp_path / "m.model"), read_parameters(tmp_path / "m.model")
    assert effective == 3.5
    np.testing.assert_array_equal(found.params["h"], other.h)
    np.testing.assert_array_equal(found.params["J"], other.J)
    assert found.params["J"].dtype == np.float32
    assert found.coords == {}  # the focus sequence has a gap


def test_residues_of_the_focus_sequence_are_labels(tmp_path):
    h, j = numbers()
    for focus, places, labels in (("CAAC", (11, 12, 14, 15), ("C11", "A12", "A14", "C15")), ("----", (1, 2, 3, 4), None)):
        (tmp_path / "m.model").write_bytes(plmc_file(h, j, focus, places))
        found = gm.read_model(tmp_path / "m.model")
        assert found.coords == ({} if labels is None else {"site": labels})
        model = bound(found)
        model.export(found.params, tmp_path / "again.model")
        assert gm.read_model(tmp_path / "again.model").coords == found.coords
    assert model.graph.cell_name(0) == "x[0]"


@pytest.mark.parametrize("ending", ["model", "dat"])
def test_round_trips_are_exact(ending, tmp_path):
    h, j = numbers(2)
    (tmp_path / "m.model").write_bytes(plmc_file(h, j))
    first = gm.read_model(tmp_path / "m.model")
    bound(first).export(first.params, tmp_path / f"n.{ending}")
    second = gm.read_model(tmp_path / f"n.{ending}")
    for name in ("h", "J"):
        np.testing.assert_array_equal(np.asarray(second.params[name], np.float32), first.params[name])
    assert second.text.partition("\n")[2].replace("model n ", "model m ") == first.text.partition("\n")[2]
    if ending == "model":
        np.testing.assert_array_equal(read_parameters(tmp_path / "n.model")[0].J, j)


MIXED = """
domain aa = letters("-AC")
model m {
  var x[i in range(4)] : aa
  param u[a in aa, b in aa]
  factor 0.5
  factor u[x[3], x[1]]
  factor u[x[2], x[0]]
  factor if x[0] == x[2] then 1 else 0
  factor 0.3 * (if x[1] == "A" then 1 else 0)
  factor 0.2 * (if x[1] == "C" then 1 else 0)
  factor u[x[3], x[3]]
}
"""


@pytest.mark.parametrize("ending", ["model", "dat"])
def test_factors_in_any_order_of_their_cells_are_couplings(ending, tmp_path):
    first, u = gm.parse(MIXED).model(), np.arange(9.0).reshape(3, 3) / 8
    first.export({"u": u}, tmp_path / f"m.{ending}")
    rows = np.array(list(itertools.product(range(3), repeat=4)))
    with jax.enable_x64(True):
        wanted = np.asarray(first.log_potential({"u": u}, first.graph.variables[0].values_of(rows)))
    found = potentials(gm.read_model(tmp_path / f"m.{ending}"))
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-6)
    if ending == "dat":
        assert [line[:5] for line in (tmp_path / "m.dat").read_text().splitlines()[:18:9]] == ["J 0 2", "J 1 3"]


def test_pairs_that_are_not_in_the_file_have_no_coupling(tmp_path):
    h, j = numbers()
    lines = [line for line in adabm_file(h, j).splitlines() if line[0] == "h" or line.split()[1:3] in (["0", "2"], ["1", "3"])]
    turned = [line.replace("J 1 3 - A", "J 3 1 A -") for line in lines]
    for some in (lines, turned):
        (tmp_path / "m.dat").write_text("\n".join(some))
        found = gm.read_model(tmp_path / "m.dat")
        assert found.inputs["pairs"].tolist() == [[0, 2], [1, 3]]
        np.testing.assert_allclose(found.params["J"], j[[1, 4]], rtol=1e-6)
        bound(found).export(found.params, tmp_path / "again.dat")
        assert gm.read_model(tmp_path / "again.dat").inputs["pairs"].tolist() == [[0, 2], [1, 3]]
    bound(found).export(found.params, tmp_path / "all.model")
    read = gm.read_model(tmp_path / "all.model").params["J"]
    np.testing.assert_allclose(read[[1, 4]], j[[1, 4]], rtol=1e-6)
    assert not read[[0, 2, 3, 5]].any()


def test_letters_have_the_order_of_the_fields_whatever_couplings_come_first(tmp_path):
    h, j = numbers()
    lines = adabm_file(h, j).splitlines()
    (tmp_path / "m.dat").write_text("\n".join(["# a comment", "", *lines[: len(j) * 9][::-1], "# fields", *lines[len(j) * 9 :]]))
    found = gm.read_model(tmp_path / "m.dat")
    assert 'letters("-AC")' in found.text
    np.testing.assert_array_equal(found.params["h"].astype(np.float32), h)
    np.testing.assert_array_equal(found.params["J"].astype(np.float32), j)


def test_values_may_be_numbers(tmp_path):
    (tmp_path / "m.dat").write_text("h 0 1 0.5\nh 0 0 -1\n")
    found = gm.read_model(tmp_path / "m.dat")
    assert "domain value = range(2)" in found.text and found.params["h"].tolist() == [[-1, 0.5]]
    spins = gm.parse("model m { var x[i in range(2)] : spin  factor 0.7 * x[0] * x[1] }").model()
    assert spins.export({}, tmp_path / "s.dat") == ("the values `-1`, `1` are the numbers 0 to 1 there",)
    np.testing.assert_allclose(gm.read_model(tmp_path / "s.dat").params["J"][0], [[0.7, -0.7], [-0.7, 0.7]], rtol=1e-15)
    turned = gm.parse('model m { var x[i in range(2)] : letters("10")  factor if x[0] == "1" then 3 else 0 }').model()
    assert turned.export({}, tmp_path / "t.dat")
    np.testing.assert_allclose(gm.read_model(tmp_path / "t.dat").params["h"], [[3, 0], [0, 0]], atol=1e-15)
    proteins = "".join(f"h 0 {a} {a}\n" for a in range(21))
    (tmp_path / "p.dat").write_text(proteins)
    read = gm.read_model(tmp_path / "p.dat")
    assert 'letters("-ACDEFGHIKLMNPQRSTVWY")' in read.text and "are read as -ACDEF" in read.notes[0]


@pytest.mark.usefixtures("standard_promotion")
def test_a_fit_begins_at_imported_parameters(tmp_path):
    (tmp_path / "m.dat").write_text(adabm_file(*numbers()))
    found = gm.read_model(tmp_path / "m.dat")
    model = bound(found)
    rows = np.random.default_rng(0).integers(0, 3, size=(30, SITES))
    fit = model.fit(model.graph.variables[0].values_of(rows), init={"h": found.params["h"]}, fixed=found.params)
    np.testing.assert_allclose(fit.params["J"], found.params["J"], rtol=1e-6)


@pytest.mark.usefixtures("standard_promotion")
def test_the_command_line_writes_parameters_and_reads_them(folder):
    h, j = numbers()
    (folder / "p.model").write_bytes(plmc_file(h, j))
    said = gmlm("import", "p.model").output
    assert "wrote p.params.npz, its parameters" in said and "p.npz" not in said
    assert "no faults" in gmlm("check", "p.gmlm").output
    assert "frequencies are 0" in gmlm("export", "p.gmlm", "--params", "p.params.npz", "--out", "q.model").output
    np.testing.assert_array_equal(read_parameters(Path("q.model"))[0].J, j)
    assert "there is a file already" in gmlm("import", "p.model", status=1).output
    (folder / "p.gmlm").unlink()
    assert "p.params.npz" in gmlm("import", "p.model", status=1).output


GOOD = plmc_file(*numbers())
NAN = numbers()[1].copy()
NAN[2, 1, 0] = np.nan
PLMC_REFUSED = {
    "cut": (GOOD[:-1], "E532", "which take"),
    "longer": (GOOD + b"\0", "E532", "which take"),
    "head alone": (GOOD[:20], "E532", "its numbers alone take 40"),
    "other sites": (struct.pack("<i", 5) + GOOD[4:], "E532", "declares 5 sites"),
    "rows below 0": (GOOD[:8] + struct.pack("<i", -1) + GOOD[12:], "E532", "and -1 and 1 sequences"),
    "no letters": (GOOD[:4] + struct.pack("<i", 0) + GOOD[8:], "E532", "0 letters"),
    "many sites": (struct.pack("<i", 65000) + GOOD[4:], "E535", "65,000 sites"),
    "many letters": (GOOD[:4] + struct.pack("<i", 1 << 30) + GOOD[8:], "E535", "letters"),
    "alphabet": (plmc_file(*numbers(), letters="-AA"), "E532", "distinct"),
    "nan": (plmc_file(numbers()[0], NAN), "E533", "nan among its couplings, at place (2, 1, 0)"),
}


@pytest.mark.parametrize("name", PLMC_REFUSED)
def test_damaged_files_of_plmc_are_refused(name, tmp_path):
    data, code, words = PLMC_REFUSED[name]
    (tmp_path / "a.model").write_bytes(data)
    found = refusal(lambda: gm.read_model(tmp_path / "a.model"))
    assert (found.code, words in found.message) == (code, True), found


LINES = adabm_file(*numbers()).splitlines()
ADABM_REFUSED = {
    "five words": (["J 0 1 A 0.5", *LINES[1:]], "E532", "not a parameter", 1),
    "other kind": ([LINES[0], "K 0 1 A C 1", *LINES[2:]], "E532", "not a parameter", 2),
    "site": ([LINES[0], "J 0 -1 A C 1", *LINES[2:]], "E532", "expected a site", 2),
    "large site": ([LINES[0], "J 0 70000 A C 1", *LINES[2:]], "E532", "expected a site from 0 to 65,535, found `70000`", 2),
    "word": ([LINES[0], "J 0 1 A C much", *LINES[2:]], "E532", "expected a finite number, found `much`", 2),
    "nan": ([LINES[0], "J 0 1 A C nan", *LINES[2:]], "E533", "found `nan`", 2),
    "infinite": ([LINES[0], "J 0 1 A C 1e999", *LINES[2:]], "E533", "not finite", 2),
    "itself": ([LINES[0], "J 1 1 A C 1", *LINES[2:]], "E532", "with itself", 2),
    "twice": ([LINES[0], LINES[0], *LINES[2:]], "E532", "stands in two lines", 2),
    "twice turned": ([LINES[1], "J 1 0 A - 2", *LINES[2:]], "E532", "stands in two lines", 2),
    "field twice": ([*LINES, LINES[-1]], "E532", "stands in two lines", len(LINES) + 1),
    "cut": (LINES[:-1], "E532", "site 3 lacks a field: 4 sites of 3 values have 12, found 11", 1),
    "from 1": (["h 1 A 0", "h 1 C 1", "h 2 A 0", "h 2 C 0"], "E532", "site 0 lacks a field", 1),
    "long value": ([LINES[0], "J 0 1 Ala C 1", *LINES[2:]], "E532", "found `Ala`", 2),
    "unknown letter": ([LINES[0], "J 0 1 W C 1", *LINES[2:]], "E532", "no field has it", 2),
    "couplings alone": (LINES[:3], "E532", "no field has it", 1),
    "large value": (["h 0 70000 1"], "E535", "value 70000", 1),
    "huge value": (["h 0 99999999999 1"], "E532", "expected a letter or a number", 1),
}


@pytest.mark.parametrize("name", ADABM_REFUSED)
def test_damaged_files_of_adabm_are_refused_at_their_line(name, tmp_path):
    lines, code, words, number = ADABM_REFUSED[name]
    (tmp_path / "a.dat").write_text("\n".join(lines))
    found = refusal(lambda: gm.read_model(tmp_path / "a.dat"))
    assert (found.code, words in found.message) == (code, True), found
    assert found.span is not None and found.span.source.position(found.span.start)[0] == number
    assert found.help


def test_sizes_are_checked_before_anything_is_computed(tmp_path, monkeypatch):
    (tmp_path / "m.model").write_bytes(GOOD)
    (tmp_path / "m.dat").write_text("\n".join(LINES))
    model = bound(gm.read_model(tmp_path / "m.dat"))
    params = gm.read_model(tmp_path / "m.dat").params
    monkeypatch.setattr("gmlmdsl.exchange._plmc.MOST_COUPLINGS", 50)
    monkeypatch.setattr("gmlmdsl.exchange._adabm.MOST_COUPLINGS", 50)
    for name in ("m.model", "m.dat"):
        assert refusal(lambda name=name: gm.read_model(tmp_path / name)).code == "E535"
    assert refusal(lambda: model.export(params, tmp_path / "n.model")).code == "E535"
    assert limits.MOST_COUPLINGS > 50


NOT_WRITTEN = {
    "three cells": ("var x[i in range(3)] : bit  factor x[0] * x[1] * x[2]", "model", "a factor has 3 cells"),
    "require": ("var x[i in range(2)] : bit  require x[0] == x[1]", "dat", "a factor is infinite"),
    "two alphabets": ("var x : bit  var y : spin  factor x * y", "dat", "`x` and `y` have different values"),
    "words": ('var x[i in range(2)] : labels("no", "yes")  factor if x[0] == x[1] then 1 else 0', "model", "`no` is not one letter"),
    "spins": ("var x[i in range(2)] : spin  factor x[0] * x[1]", "model", "`-1` is not one letter"),
}


@pytest.mark.parametrize("name", NOT_WRITTEN)
def test_models_that_are_not_potts_models_are_not_written(name, tmp_path):
    text, ending, words = NOT_WRITTEN[name]
    found = refusal(lambda: gm.parse(f"model m {{ {text} }}").model().export({}, tmp_path / f"m.{ending}"))
    assert (found.code, words in found.message) == ("E534", True), found
    assert found.help and not list(tmp_path.iterdir())


def refusal(call: Any) -> gm.Diagnostic:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    return caught.value.diagnostics[0]


def test_packed_files(tmp_path):
    import gzip

    (tmp_path / "m.dat.gz").write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert gm.read_model(tmp_path / "m.dat.gz").params["h"].shape == (SITES, 3)
    (tmp_path / "m.model.gz").write_bytes(gzip.compress(GOOD))
    assert refusal(lambda: gm.read_model(tmp_path / "m.model.gz")).code == "E520"
    assert refusal(lambda: gm.read_model(tmp_path / "m.dat.gz", tmp_path / "m.dat")).code == "E507"
