"""Fitting and sampling on the command line: files, columns, options, weights, and what is refused of them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cli_cases import ROWS, gmlm
from cli_cases import folder as folder

import gmlmdsl as gm


@pytest.mark.check
def test_fit_then_sample(folder, standard_promotion):
    output = gmlm("fit", "m.gmlm", "x.csv", "--mask", "single", "--out", "m.fit", "--report", "fit.html", "--rows", "2").output
    assert "4 rows of x.csv (no header, 4 columns)" in output
    assert "converged" in output
    assert "2 of 5 rows" in output
    assert "converged" in (folder / "fit.html").read_text()
    words = ("sample", "m.fit", "--draws", "120", "--warmup", "10", "--clamp", "x[0]=1", "--out", "d.npz", "--report", "s.html")
    output = gmlm(*words).output
    assert "4 chains of 120 draws from `m` by sampler `gibbs`" in output
    assert "r_hat" in output
    assert (np.load(folder / "d.npz")["posterior/x"][..., 0] == 1).all()
    assert "Can the draws be trusted?" in (folder / "s.html").read_text()


def test_independent_draws_need_no_sampler(folder):
    (folder / "pair.gmlm").write_text("model m { var x[i in range(2)] : spin  param J  factor J * x[0] * x[1] }")
    np.savez(folder / "J.npz", J=np.array(20.0))
    words = ("sample", "pair.gmlm", "--params", "J.npz", "--sampler", "exact", "--draws", "60", "--out", "d.npz", "--report", "s.html")
    assert "4 chains of 60 draws from `m` by sampler `exact`" in gmlm(*words).output
    drawn = np.load(folder / "d.npz")["posterior/x"]
    assert (drawn[..., 0] == drawn[..., 1]).all() and len(np.unique(drawn)) == 2
    assert "4 chains of 60 independent draws." in (folder / "s.html").read_text()


def test_sample_of_given_parameters(folder):
    np.savez(folder / "p.npz", u=np.array([0.0, 1.0, -1.0]))
    output = gmlm("sample", "labels.gmlm", "--params", "p.npz", "--draws", "60", "--chains", "2").output
    assert "frequency" in output  # of labels
    assert "sun" in output
    assert "warning: The number of samples is too small" in output
    assert "needed" in gmlm("sample", "labels.gmlm", status=1).output
    assert "no parameter `v`" in gmlm("sample", "labels.gmlm", "--params", _npz(folder, v=np.zeros(3)), status=1).output


def _npz(folder: Path, **arrays: np.ndarray) -> str:
    np.savez(folder / "some.npz", **arrays)
    return "some.npz"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("x[3],x[2],x[1],x[0]\n1,1,-1,1\n1,-1,1,-1\n-1,1,1,1\n-1,1,-1,-1\n", ()),
        ("x_3;id;x_2;x_1;x_0\n1;7;1;-1;1\n1;8;-1;1;-1\n-1;9;1;1;1\n-1;10;1;-1;-1\n", ()),
        ("d\tc\tb\ta\n+1\t1\t-1\t1.0\n1\t-1\t1\t-1\n-1\t1\t1\t1\n-1\t1\t-1\t-1\n", ("--columns", "a,b,c,d")),
        ("0 1 2 3 4\n1 -1 1 1 9\n-1 1 -1 1 9\n1 1 1 -1 9\n-1 -1 1 -1 9\n", ("--columns", "0,1,2,3", "--header")),
    ],
)
def test_columns_find_their_cells(folder, text, options):
    from gmlmdsl.cli._data_files import Reading

    (folder / "data.csv").write_text(text)
    reading = Reading(options[1] if options else None, header=True if "--header" in options else None)
    wanted = (np.loadtxt(ROWS.splitlines(), delimiter=",") + 1) // 2
    assert codes_of(folder / "m.gmlm", folder / "data.csv", reading).T.tolist() == wanted.tolist()


def codes_of(program: Path, data: Path, reading=None):
    """The codes of a file's rows, as `gmlm fit` reads them."""
    from gmlmdsl.cli._data_files import Reading, program_and_data
    from gmlmdsl.data._values import encode
    from gmlmdsl.program import check_file

    checked = check_file(program)
    bound, found = program_and_data(checked, "m", {}, data, reading or Reading())
    return encode(bound.model().graph, found.x).codes


def test_letters_may_be_strings_and_labels_may_be_codes(folder):
    (folder / "s.gmlm").write_text('model m { var x[i in range(3)] : letters("ACGT") factor 1 }')
    (folder / "s.csv").write_text("sequence\nACG\nTTA\n")
    assert codes_of(folder / "s.gmlm", folder / "s.csv").T.tolist() == [[0, 1, 2], [3, 3, 0]]
    (folder / "l.csv").write_text("k,w[0],w[1]\n2,sun,rain\n0,rain,rain\n")
    assert codes_of(folder / "labels.gmlm", folder / "l.csv").T.tolist() == [[0, 1, 2], [1, 1, 0]]  # w[0], w[1], k
    (folder / "l.csv").write_text("k,w[0],w[1]\n2,0,1\n0,1,1\n")
    assert codes_of(folder / "labels.gmlm", folder / "l.csv").T.tolist() == [[0, 1, 2], [1, 1, 0]]


FAULTS = {
    "ragged": ("1,-1,1,1\n1,1,1\n", "line 2: 3 fields, the first line has 4"),
    "outside the domain": (
        "1,-1,1,1\n\n1,1,1,0\n",
        'line 3, column 3 (counted from 0) is "0": not a value of `x`; its values are `-1`, `1`',
    ),
    "bits for spins": ("0,1,1,0\n1,1,0,0\n", "declare `x` as `bit`"),
    "named column": ("x[0],x[1],x[2],x[3]\n1,-1,1,up\n", 'line 2, column `x[3]` is "up"'),
    "empty field": ("a,b,c,d\n1,,1,1\n", "line 2, column `b` is empty"),
    "not a number": ("1,-1,nan,1\n", 'is "nan"'),
    "no rows": ("", "bad.csv is empty"),
    "only a header": ("a,b,c,d\n", "has no rows"),
    "too few columns": ("1,-1\n", "has 2 columns, the model has 4 cells"),
    "twice": ("a,a,b,c\n1,1,1,1\n", "two columns are called `a`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_data_that_does_not_fit_says_where(folder, name):
    text, wanted = FAULTS[name]
    (folder / "bad.csv").write_text(text)
    output = gmlm("fit", "m.gmlm", "bad.csv", "--mask", "single", "--out", "m.fit", status=1).output
    assert wanted in output
    assert "bad.csv" in output
    assert not (folder / "m.fit").exists()


SIZED = "input n : int\nmodel m { var x[i in range(n)] : bit  factor x[i] for i in range(n) }\nmask one = subsets(x, size = 1)\n"
HEADERS = {
    "an index": (
        ",a,b\n0,1,0\n",
        (),
        "column 0 (counted from 0) of line 1 has no name\nhelp: give it a name, or leave it out: `--columns 'a:'`",
    ),
    "a trailing comma": ("a,b,\n0,1,\n", (), "leave it out: `--columns ':b'`"),
    "a blank one": ("a, ,c\n0,1,0\n", (), "leave it out: `--columns ':a,c:'`"),
    "listed": ("a, ,c\n0,1,0\n", ("--columns", "0,1"), "leave it out: `--columns a`"),
    "twice": ("a,b,a\n0,1,0\n", (), "two columns are called `a`: columns 0 and 2 of line 1, counted from 0"),
    "numbers among names": ("a,5,c\n0,1,7\n", (), 'line 2, column `c` is "7"'),
    "a column that is named": ("a,5,6,7\n0,1,0,7\n", ("--columns", "5:,a"), 'line 2, column `7` is "7"'),
    "not found": ("a,5,6,7\n0,1,0,1\n", (), "if line 1 names the columns, say `--header`"),
    "as many numbers": ("1,2,3\n0,1,0\n", ("--no-header",), 'line 1, column 1 (counted from 0) is "2"'),
    "marks": ("a,b,c\nDK,1,0\n0,1,-9\n", (), "pass `--missing DK --missing -9`"),
    "cells": ("x[0],c,d\n7,0,0\n", (), "n = 1, from the columns of s.csv that name cells; 2 other columns left out"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_the_first_line_is_told(folder, name):
    text, options, wanted = HEADERS[name]
    (folder / "sized.gmlm").write_text(SIZED)
    (folder / "s.csv").write_text(text)
    assert wanted in gmlm("fit", "sized.gmlm", "s.csv", *options, status=1).output


def test_consecutive_numbers_may_be_a_header(folder):
    (folder / "levels.gmlm").write_text(SIZED.replace("bit", "range(1, 6)"))
    (folder / "s.csv").write_text("1,2,3\n4,1,9\n")
    output = gmlm("fit", "levels.gmlm", "s.csv", status=1).output
    assert "line 1 of s.csv (1, 2, 3) is read as data; if it names the columns, say `--header`" in output


def test_columns_that_name_no_cell_are_counted(folder):
    from gmlmdsl.cli._data_files import words_of

    (folder / "s.csv").write_text("x[0],c,d\n1,0,0\n")
    table = gm.read_table(folder / "s.csv")
    words = words_of(gm.parse(SIZED, n=1).model().graph, table)
    assert words == "with a header, 1 column; 2 columns left out: `c`, `d`"


def test_files_that_are_no_data(folder):
    (folder / "noise.csv").write_bytes(bytes(range(256)) * 10)
    (folder / "latin.csv").write_bytes("1,1,1,1\n\xe9,1,1,1\n".encode("latin-1"))
    (folder / "noise.npz").write_bytes(b"PK nonsense")
    np.save(folder / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    for name, wanted in (
        ("noise.csv", "is not text"),
        ("latin.csv", "in line 2, byte 0xe9"),
        ("noise.npz", "is not an .npz file"),
        ("objects.npy", "Python objects"),
        ("nope.csv", "does not exist"),
        (".", "is a directory"),
    ):
        assert wanted in gmlm("fit", "m.gmlm", name, "--mask", "single", status=1).output


def test_arrays_that_declare_too_much_are_not_read(folder):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    bomb = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (folder / "bomb.npy").write_bytes(bomb)
    with zipfile.ZipFile(folder / "bomb.npz", "w") as archive:
        archive.writestr("x.npy", bomb)
    for name in ("bomb.npy", "bomb.npz"):
        assert "more than the limit" in gmlm("fit", "m.gmlm", name, "--mask", "single", status=1).output
    short = bomb.replace(b"(1000000000, 1000)", b"(1000, 4)         ")
    (folder / "short.npy").write_bytes(short)
    assert "is damaged" in gmlm("fit", "m.gmlm", "short.npy", "--mask", "single", status=1).output


def test_arrays_name_their_file(folder):
    np.save(folder / "x.npy", np.array([[1, -1, 1, 3]]))
    assert "x.npy: x at (0, 3) is 3" in gmlm("fit", "m.gmlm", "x.npy", "--mask", "single", status=1).output
    np.save(folder / "x.npy", np.ones((2, 3)))
    assert "x.npy: x must have shape (rows, 4), got (2, 3)" in gmlm("fit", "m.gmlm", "x.npy", "--mask", "single", status=1).output
    name = _npz(folder, w=np.zeros((3, 2), int))
    assert "some.npz lacks `k`" in gmlm("fit", "labels.gmlm", name, status=1).output


OPTIONS = {
    "unknown mask": (["--mask", "singel"], "did you mean `single`?"),
    "which mask": ([], "model `m` has 2 masks: say which"),
    "unknown model": (["--model", "n"], "the program has no model `n`"),
    "unknown input": (["-i", "K=3"], "the program has no input `K`"),
    "input without value": (["-i", "L"], "expected `name=value`"),
    "input that is not a number": (["-i", "L=two"], '"two" is not a number'),
    "input with many digits": (["-i", "L=" + "9" * 400], "input `L` must be an integer"),
    "input twice": (["-i", "L=2", "-i", "L=3"], "is given twice"),
    "masks": (["-m", "single", "--n-masks", "0"], "expected a whole number above 0, or `all`"),
    "input in words": (["-i", "L=two"], "a number, `--input L=8`"),
    "data in words": (["-m", "single", "--weights", "n.csv"], 'n.csv, line 2, column `w` is "p": not a number\nhelp: '),
    "negative weights": (["-m", "single", "--weights", "v.csv"], "weights must be finite and not negative: row 1 (counted from 0) has -2"),
    "no weights": (["-m", "single", "--weights", "z.csv"], "weights must not all be zero"),
    "which of two masks": ([], "`--mask single`, or another: "),
    "weights": (["-m", "single", "--weights", "w"], "there is no column and no file `w`"),
    "no folder": (["-m", "single", "--out", "no/m.fit"], "there is no folder"),
    "a folder": (["-m", "single", "--report", "."], "it is a folder"),
    "a report of another kind": (["-m", "single", "--report", "x.csv"], "cannot write x.csv: the name must end in .html"),
    "the program": (["-m", "single", "--out", "./m.gmlm"], "cannot write m.gmlm: the same command reads this file"),
    "the data": (["-m", "single", "--out", "x.csv"], "cannot write x.csv: the same command reads this file"),
    "the weights": (["-m", "single", "--weights", "w.csv", "--out", "w.csv"], "the same command reads this file"),
    "one file for two": (["-m", "single", "--out", "a.html", "--report", "a.html"], "writes another output to it"),
    "columns": (["-m", "single", "--columns", "a,b,c,d"], "columns are numbered 0 to 3"),
    "array file": (["--inputs", "nope.npz"], "`nope.npz` does not exist"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_do_not_fit(folder, name):
    words, wanted = OPTIONS[name]
    for file, weights in (("n", "p111"), ("v", "1-211"), ("z", "0000")):
        (folder / f"{file}.csv").write_text("w\n" + "\n".join(re.findall(r"-?\w", weights)) + "\n")
    assert wanted in gmlm("fit", "m.gmlm", "x.csv", *words, status=1).output


SWAPPED = {
    "swapped": (
        ("fit", "x.csv", "m.gmlm"),
        "m.gmlm is a program, and no data\nhelp: data stand behind the program: `gmlm fit m.gmlm x.csv`",
    ),
    "twice": (("fit", "m.gmlm", "m.gmlm"), "`gmlm fit m.gmlm DATA.csv`"),
    "check": (("check", "x.csv"), "x.csv is a table, not a program\nhelp: a program is fitted to it: `gmlm fit PROGRAM.gmlm x.csv`"),
    "sample": (("sample", "x.csv"), "x.csv is a table, not a program"),
    "explain": (("explain", "x.csv"), "x.csv is a table, not a program"),
}


@pytest.mark.parametrize("name", SWAPPED)
def test_a_table_is_no_program(folder, name):
    words, wanted = SWAPPED[name]
    output = gmlm(*words, status=1).output
    assert wanted in output and output.count("error[") == 1


def test_weights_come_from_a_column_or_a_file(folder):
    from gmlmdsl.cli._program_arguments import read_weights
    from gmlmdsl.read import read_table

    (folder / "d.csv").write_text("x,w\n1,2\n1,0.5\n")
    table = read_table(folder / "d.csv")
    assert read_weights("w", table).tolist() == [2, 0.5]
    (folder / "w.csv").write_text("weight\n1\n3\n")
    assert read_weights("w.csv", table).tolist() == [1, 3]
    np.save(folder / "w.npy", np.array([1.0, 4.0]))
    assert read_weights("w.npy", table).tolist() == [1, 4]


CLAMPS = {
    "x[9]=1": "not a cell of `x`",
    "x=1": "say which cell of `x`",
    "y[0]=1": "no variable `y`",
    "x[0]": "expected `x[3]=1`",
    "x[a]=1": "`a` is not a member of axis 0 of `x`",
    "x[-1]=1": "`-1` is not a member of axis 0 of `x`",
    "x[0]=up": "is not a whole number",
    "x[0]=3": "not a value of `x`",
}


@pytest.mark.parametrize("clamp", CLAMPS)
def test_clamps_that_do_not_fit(folder, clamp):
    name = _npz(folder, h=np.zeros(4), J=np.zeros(()))
    assert CLAMPS[clamp] in gmlm("sample", "m.gmlm", "--params", name, "--clamp", clamp, status=1).output


def test_a_cell_is_held_by_its_label(folder, standard_promotion):
    """Labels are those of the table's columns, which a fit keeps."""
    (folder / "named.gmlm").write_text(
        "input n : int\nindex trait = range(n)\nmodel m { var x[i in trait] : bit  param h[i in trait] ~ normal(0, 1)\n"
        "  factor h[i] * x[i] for i in trait }\nmask one = subsets(x, size = 1)"
    )
    (folder / "named.csv").write_text("A1,B 2\n0,1\n1,0\n1,1\n0,0\n")
    gmlm("fit", "named.gmlm", "named.csv", "--out", "named.fit")
    for place, held in (("A1", 0), ("B 2", 1), ("1", 1)):
        gmlm("sample", "named.fit", "--sampler", "exact", "--draws", "50", "--out", "d.npz", "--clamp", f"x[{place}]=1")
        drawn = np.load(folder / "d.npz")["posterior/x"]
        assert (drawn[..., held] == 1).all() and len(np.unique(drawn)) == 2


def test_a_saved_fit_is_no_program_and_the_message_says_what_takes_it(folder):
    with zipfile.ZipFile(folder / "v.fit", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", b"\xff\xfe" * 50)
    output = gmlm("info", "v.fit", status=1).output
    assert "it is an archive" in output and "`gmlm sample`" in output


def test_sample_refuses_what_it_cannot_use(folder):
    assert "`nope.fit` does not exist" in gmlm("sample", "nope.fit", status=1).output
    assert "must end in .nc or .npz" in gmlm("sample", "m.gmlm", "--out", "d.txt", status=1).output
    (folder / "broken.fit").write_bytes(b"PK\x03\x04 nonsense")
    assert "is not a saved fit" in gmlm("sample", "broken.fit", status=1).output
    np.savez(folder / "p.npz", u=np.array([0.0, 1.0, -1.0]))
    refused = gmlm("sample", "labels.gmlm", "--params", "p.npz", "--draws", "1000000000", status=1).output
    assert "fewer `--draws` or `--chains`" in refused and "draws=" not in refused


def test_one_of_anything_is_no_plural(folder):
    (folder / "one.gmlm").write_text(
        "model m { var x : bit param h factor h * x }\nmask q = subsets(x, size = 1)\nsampler s { update x }\n"
    )
    assert "model m: 1 cell, 1 factor\n" in gmlm("info", "one.gmlm").output
    for words in (("explain", "one.gmlm"), ("explain", "one.gmlm", "--stage", "graph"), ("explain", "one.gmlm", "--stage", "plan")):
        output = gmlm(*words).output
        assert "1 cell" in output and "1 cells" not in output and "1 levels" not in output and "no factor between" not in output


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_fit_and_sample_say_what_the_sizes_show(folder):
    text = "model m {\n  var x[i in range(3)] : bit\n  param h ~ normal(0, 1)\n  factor h * x[i] for i in range(3)\n"
    text += "  param a\n  param b\n  factor (a + b) * x[0]\n  factor h * x[i] for i in range(3) if i > 5\n}\n"
    text += "mask part = blocks({x[i]} for i in range(3) if i < 2)\nsampler stays { update x[i] for i in range(3) if i > 0 }\n"
    (folder / "part.gmlm").write_text(text)
    (folder / "b.csv").write_text("0,1,1\n1,0,1\n1,1,0\n")
    fit = gmlm("fit", "part.gmlm", "b.csv", "--max-steps", "2", "--out", "b.fit").output
    assert "warning[W811 cells-never-hidden]: mask `part` never hides `x[2]`" in fit
    assert [fit.count(f"warning[{code} ") for code in ("W811", "W820", "W823", "W812")] == [1, 1, 1, 0]
    sample = gmlm("sample", "b.fit", "--draws", "2", "--warmup", "0", "--chains", "1").output
    assert "warning[W812 cells-never-moved]: sampler `stays` never moves `x[0]`" in sample
    assert "W811" not in sample


@pytest.mark.usefixtures("standard_promotion")
def test_the_best_of_several_starts_is_told(folder):
    output = gmlm("fit", "m.gmlm", "x.csv", "--mask", "single", "--starts", "2").output
    assert "starts: 2 of 2 starts reach the lowest objective within 0.01 nats" in output
    text = "network f = mlp()\nmodel m {\n  var x[i in range(4)] : spin\n  conditional x ~ f()\n}\nmask all = bernoulli(x, rate = 0.5)\n"
    (folder / "net.gmlm").write_text(text)
    assert "--starts" in gmlm("fit", "net.gmlm", "x.csv", "--starts", "2", status=1).output
    assert "--checkpoint" in gmlm("fit", "net.gmlm", "x.csv", "--checkpoint", "run", status=1).output


@pytest.mark.usefixtures("standard_promotion")
def test_a_fit_whose_state_is_saved_prints_the_same(folder):
    words = ["fit", "m.gmlm", "x.csv", "--mask", "single"]
    lines = [gmlm(*words, *more).output.splitlines()[2:] for more in ((), ("--checkpoint", "run"))]
    assert lines[0] == lines[1] and not (folder / "run").exists()


@pytest.mark.usefixtures("standard_promotion")
def test_the_probability_of_intervals_is_an_option(folder):
    output = gmlm("fit", "m.gmlm", "x.csv", "--mask", "single", "--level", "0.95", "--report", "fit.html").output
    assert "97.5%" in output
    assert "95 % interval" in (folder / "fit.html").read_text()
    assert "level" in gmlm("fit", "m.gmlm", "x.csv", "--mask", "single", "--level", "95", status=1).output


def test_draws_go_to_a_store(folder):
    (folder / "pair.gmlm").write_text("model m { var x[i in range(2)] : spin  param J  factor J * x[0] * x[1] }")
    words = ("sample", "pair.gmlm", "--params", _npz(folder, J=np.array(0.5)), "--sampler", "exact", "--draws", "60")
    for name in ("d.nc", "d.zarr"):
        output = gmlm(*words, "--store", name, "--rows", "1").output
        assert "the worst 1 of 2 cells" in output
        assert f"the draws are in {name}" in output
        assert xr.open_dataset(folder / name, group="posterior")["x"].shape == (4, 60, 2)
    assert "must end in .nc or .zarr" in gmlm(*words, "--store", "d.npz", status=1).output
