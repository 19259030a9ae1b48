"""`gmlm fit` on tables and alignments: sizes and labels come from the data, groups and weights from options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from markdown_blocks import ROOT
from typer.testing import CliRunner

import gmlmdsl as gm
from gmlmdsl.cli._commands import app

VOTES = ROOT / "examples" / "votes.gmlm"
POTTS = ROOT / "examples" / "potts.gmlm"
NAMES = ["mx-missile", "crime", "duty-free"]


def gmlm(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert "Traceback" not in result.output
    assert "internal error" not in result.output
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture
def folder(tmp_path, monkeypatch, rng):
    """Votes of two parties, and a family of sequences."""
    monkeypatch.chdir(tmp_path)
    yes = rng.random((40, 3)) < 0.5
    yes[:, 1] ^= yes[:, 0]
    rows = [",".join(["left" if r % 4 else "right", *np.where(v, "y", "n"), str(1 + r % 2)]) for r, v in enumerate(yes)]
    (tmp_path / "votes.csv").write_text("\n".join(["Class, " + ", ".join(NAMES) + ",w", *rows]) + "\n")
    letters = rng.choice(list("ACD-"), size=(12, 4))
    letters[0] = list("ACDA")
    (tmp_path / "fam.a2m").write_text("".join(f">s{k}/5-8\n{''.join(r)}\n" for k, r in enumerate(letters)) + ">odd\nACXA\n")
    np.savez(tmp_path / "pairs.npz", pairs=np.array([[0, 1], [1, 2]]))
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_names_of_columns_flow_from_the_file_to_draws(folder):
    words = ("fit", VOTES, "votes.csv", "--where", "Class=left", "--weights", "w", "--mask", "single")
    output = gmlm(*words, "--out", "v.fit", "--report", "v.html")
    assert "n = 3, from the columns of votes.csv" in output
    assert "30 rows of votes.csv (with a header, 3 columns)" in output
    for text in ("h[mx-missile]", "J[mx-missile, crime]", "J[crime, duty-free]"):
        assert text in output
    assert "J[mx-missile, crime]" in (folder / "v.html").read_text()
    fit = gm.load_fit("v.fit")
    table = gm.read_table("votes.csv", "1:3", where={"Class": "left"})
    again = gm.load(VOTES, n=3, coords={"vote": NAMES}).model().fit(table, mask="single", weights=table.numbers("w"))
    assert list(fit.summary().index) == list(again.summary().index)
    assert np.allclose(fit.params["J"], again.params["J"], atol=1e-6)
    gmlm("sample", "v.fit", "--sampler", "sweep", "--draws", "60", "--warmup", "5", "--chains", "2", "--out", "d.npz")
    assert np.load(folder / "d.npz")["posterior/coords/vote"].tolist() == NAMES


def test_options_are_named_as_on_the_command_line():
    from gmlmdsl.cli._console import as_on_command_line

    for text, wanted in (
        ("Raise `max_steps`", "Raise `--max-steps`"),
        ("else see `impute=True`", "else see `impute=True` in Python"),
        ('`fit.summary(errors="laplace")` counts', '`fit.summary(errors="laplace")` in Python counts'),
        ("`level=0.95`, say", "`--level 0.95`, say"),
        ("`missing=['DK', '-9', '?']`", "`--missing DK --missing -9 --missing '?'`"),
        ("`columns='a b:'`", "`--columns 'a b:'`"),
        ("`columns=`", "`--columns`"),
    ):
        assert as_on_command_line(text) == wanted


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_missing_cells_of_a_table_are_summed_out_of_the_fit(folder):
    (folder / "holes.csv").write_text("a,b\ny,?\nn,n\ny,y\nn,n\ny,y\n?,y\n")
    output = gmlm("fit", VOTES, "holes.csv", "--missing", "?", "--mask", "single")
    assert "2 of 12 cells are missing: a 1, b 1" in output
    assert "2 missing cells in 2 rows: summed out in 2" in output
    assert "J[a, b]" in output


@pytest.mark.usefixtures("standard_promotion")
def test_gaps_may_be_left_out(folder):
    (folder / "holes.csv").write_text("a,b\ny,?\nn,n\ny,y\nn,n\ny,y\n?,y\nn,y\n")
    options = ("fit", VOTES, "holes.csv", "--missing", "?", "--mask", "single")
    output = gmlm(*options, "--gaps", "ignore", "--out", "holes.fit")
    assert "2 missing cells in 2 rows: left out, with the factors that touch them. That is biased" in output
    assert "; `--gaps sum` sums them out" in output
    ignored, x = gm.load_fit("holes.fit"), np.array([["y", "?"], ["n", "n"], ["y", "y"], ["n", "n"], ["y", "y"], ["?", "y"], ["n", "y"]])
    again = ignored.model.fit(x, mask="single", missing="?", gaps="ignore")
    assert ignored.objective == pytest.approx(again.objective, rel=1e-9)


def test_gaps_of_a_required_cell_are_not_left_out(folder):
    (folder / "one.gmlm").write_text(
        "model m { var x[i in range(3)] : bit require sum(x[i] for i in range(3)) <= 2 } mask s = subsets(size = 1)"
    )
    (folder / "one.csv").write_text("0,1,?\n1,0,0\n")
    output = gmlm("fit", "one.gmlm", "one.csv", "--missing", "?", "--gaps", "ignore", status=1)
    assert "E511" in output
    assert "leave `--gaps ignore` out" in output
    refused = gmlm("fit", "one.gmlm", "one.csv", "--gaps", "drop", status=2)
    assert "'drop'" in refused
    assert "'ignore'" in refused


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.slow
def test_a_family_sizes_its_model_and_weighs_its_rows(folder):
    # Of the letters that are there: with all 21 the time goes into matrices of a thousand rows.
    (folder / "potts.gmlm").write_text(POTTS.read_text().replace("-ACDEFGHIKLMNPQRSTVWY", "-ACD"))
    output = gmlm(
        "fit", "potts.gmlm", "fam.a2m", "--inputs", "pairs.npz", "--identity", "0.75", "--out", "p.fit", "--max-steps", "3", "--rows", "2"
    )
    assert "n_sites = 4, from the columns of fam.a2m" in output
    assert "12 rows of fam.a2m (focus `s0/5-8`: 4 of 4 match columns; dropped 1 sequences for letters outside" in output
    weights = gm.sequence_weights(gm.read_alignment("fam.a2m"), 0.75)
    assert f"effective number of rows at identity 0.75: {weights.sum():.1f} of 12" in output
    assert gm.load_fit("p.fit").model.graph.cell_name(2) == "x[D7]"


def read(program, data, **options):
    from gmlmdsl.cli._data_files import Reading, program_and_data
    from gmlmdsl.program import check_file

    inputs = options.pop("inputs", {})
    return program_and_data(check_file(program), next(iter(check_file(program).models)), inputs, data, Reading(**options))


def test_an_input_that_is_given_or_has_a_default_stays(folder, capsys):
    program, _ = read(VOTES, folder / "votes.csv", columns="1:2", inputs={"n": 2})
    assert (int(program.bound.inputs["n"]), capsys.readouterr().err) == (2, "")
    program, _ = read(VOTES, folder / "votes.csv", columns="1:2", inputs={"n": 3})
    assert int(program.bound.inputs["n"]) == 3
    assert program.bound.coords == {}  # two names are none for three
    (folder / "d.gmlm").write_text("input n : int = 5 graph G = chain(n) model m { var x[i in G.nodes] : bit factor x[0] }")
    assert int(read(folder / "d.gmlm", folder / "votes.csv", columns="1:2")[0].bound.inputs["n"]) == 5


SIZED = {
    "index set": "index s = range(n) model m { var x[i in s] : bit factor x[0] }",
    "graph over an index set": "index s = range(n) graph G = complete(s) model m { var x[i in G.nodes] : bit factor x[0] }",
    "graph": "graph G = chain(n) model m { var x[i in G.nodes] : bit factor x[0] }",
}


@pytest.mark.parametrize("name", SIZED)
def test_whatever_the_axis_it_gets_its_size_and_its_names(folder, name):
    (folder / "p.gmlm").write_text("input n : int " + SIZED[name])
    (folder / "p.csv").write_text("a,b\n0,1\n")
    program, _ = read(folder / "p.gmlm", folder / "p.csv")
    assert program.model().graph.cell_name(1) == "x[b]"


def test_names_of_cells_and_numbers_are_no_labels(folder):
    (folder / "p.gmlm").write_text("input n : int " + SIZED["index set"])
    for header, name in (("x[1],id,x[0]", "x[1]"), ("7,8,9", "x[8]")):
        (folder / "p.csv").write_text(header + "\n0,1,1\n")
        program, data = read(folder / "p.gmlm", folder / "p.csv", header=True)
        assert program.model().graph.cell_name(1) == name
    del data
    (folder / "p.csv").write_text("0,1,1\n1,1,0\n")
    assert read(folder / "p.gmlm", folder / "p.csv")[0].bound.coords == {}
    np.save(folder / "p.npy", np.zeros((5, 4), int))
    assert int(read(folder / "p.gmlm", folder / "p.npy")[0].bound.inputs["n"]) == 4


def test_missing_cells_are_counted_by_column(folder):
    from gmlmdsl.cli._data_files import missing_words
    from gmlmdsl.data._values import encode

    (folder / "m.csv").write_text("a,b,c\ny,?,n\nNA,?,y\n")
    program, data = read(VOTES, folder / "m.csv", missing=["?", "NA"])
    assert missing_words(data.x) == "3 of 6 cells are missing: b 2, a 1"
    assert encode(program.model().graph, data.x, missing=data.missing).codes.T.tolist() == [[1, -1, 0], [-1, -1, 1]]
    np.save(folder / "m.npy", np.array([[1, -9], [0, 1]]))
    (folder / "p.gmlm").write_text("input n : int " + SIZED["index set"])
    program, data = read(folder / "p.gmlm", folder / "m.npy", missing=["-9"])
    assert encode(program.model().graph, data.x, missing=data.missing).codes.T.tolist() == [[1, -1], [0, 1]]


FAULTS = {
    "unknown column": (("votes.csv", "--columns", "crim,1"), "did you mean `crime`?"),
    "unknown group": (("votes.csv", "--where", "Class=lef"), "did you mean `left`?"),
    "no group": (("votes.csv", "--where", "Class"), "expected `column=value`"),
    "no value of the model": (("votes.csv",), "leave it out: list the others with `--columns`"),
    "where of an alignment": (("fam.a2m", "--where", "a=b"), "`--where` is for tables of text: fam.a2m is not one"),
    "focus of a table": (("votes.csv", "--focus", "a", "--row-gaps", "0.5"), "`--focus`, `--row-gaps` are for alignments"),
    "two weights": (("votes.csv", "--where", "Class=left", "--weights", "w", "--identity", "0.8"), "leave `--weights` out"),
    "missing of an alignment": (("fam.a2m", "--missing", "X"), "`--unknown-letters missing`"),
    "two codes": (("pairs.npz", "--missing", "-9", "--missing", "1"), "missing=1 is a value of `x`"),
    "identity": (("votes.csv", "--columns", "1:3", "--identity", "80"), "identity is a share between 0 and 1"),
    "cells": (("votes.csv", "--columns", "1:2", "--input", "n=3"), "votes.csv has 2 columns, the model has 3 cells"),
    "a hole": (("holes.csv",), "`--missing '?'`"),
    "header": (("twice.csv",), "`--no-header`"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_options_that_do_not_fit_say_what_does(folder, name):
    (folder / "holes.csv").write_text("a,b\ny,?\n")
    (folder / "twice.csv").write_text("a,a\ny,n\n")
    words, wanted = FAULTS[name]
    assert wanted in gmlm("fit", VOTES, *words, "--mask", "single", status=1)


@pytest.mark.slow  # a fit more
@pytest.mark.usefixtures("standard_promotion")
def test_a_network_of_the_language_is_fitted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = "network net = transformer(layers = 1, heads = 1, width = 4)\nmodel m { var x[i in range(3)] : range(3)  conditional x ~ net() }"
    Path("net.gmlm").write_text(f"{net}\nmask half = bernoulli(x, rate = 0.5)\n")
    Path("x.csv").write_text("0,1,2\n1,1,1\n2,0,1\n")
    assert "nats per hidden cell" in gmlm("fit", "net.gmlm", "x.csv", "--max-steps", "2")
    refused = gmlm("fit", "net.gmlm", "x.csv", "--gaps", "ignore", status=1)
    assert "E507" in refused and "--gaps" in refused
