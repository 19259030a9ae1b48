"""BIF: what is read, how it is written again, and what is refused with its place."""

from __future__ import annotations

import gzip
import itertools
import warnings

import jax
import numpy as np
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm
from exchange_cases import ASIA, ODD, asia_joint

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.exchange import _bif, limits
from gmlmdsl.exchange._network import BayesianNetwork
from gmlmdsl.syntax import format_source

TWO = "variable a {{ type discrete [ 2 ] {{ n, y }}; }}\nvariable b {{ type discrete [ 2 ] {{ n, y }}; }}\n{}"
ROOT = "probability ( a ) { table 0.2, 0.8; }\n"


def network(text: str) -> BayesianNetwork:
    return _bif.read_bif(Source("a.bif", text))


def tables(found: BayesianNetwork) -> dict[tuple[str, ...], np.ndarray]:
    names = [v.name for v in found.variables]
    return {(*(names[p] for p in c.parents), names[c.child]): c.table for c in found.conditionals}


def program(path) -> gm.BoundProgram:
    """The program of a file, whose check gives no warning."""
    found = gm.read_model(path)
    assert format_source(found.text) == found.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = gm.parse(found.text, **found.inputs)
    assert bound.model().warnings == ()
    return bound


def refusal(path, text: str) -> gm.Diagnostic:
    path.write_text(text)
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(path)
    return caught.value.diagnostics[0]


@pytest.mark.check
def test_asia_has_the_probabilities_of_its_file(tmp_path):
    (tmp_path / "asia.bif").write_text(ASIA)
    model, p = program(tmp_path / "asia.bif").model(), asia_joint()
    rows = np.array(list(itertools.product(range(2), repeat=8)))
    x = {v.name: rows[:, k] for k, v in enumerate(model.graph.variables)}
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.exp(model.log_prob({}, x)), p.ravel(), rtol=1e-12, atol=1e-300)
        assert float(model.log_partition({})) == pytest.approx(0, abs=1e-12)
        marginals = model.marginals({}, clamp={"xray": "yes", "asia": "yes"})
    given = p[0, :, :, :, :, :, 0] / p[0, :, :, :, :, :, 0].sum()
    np.testing.assert_allclose(np.asarray(marginals["lung"]), given.sum(axis=(0, 1, 3, 4, 5)), rtol=1e-6)


def test_asia_is_written_as_the_project_writes_it(tmp_path):
    (tmp_path / "asia.bif").write_text(ASIA)
    text = gm.read_model(tmp_path / "asia.bif").text
    assert text.startswith('# asia_network: the Bayesian network of asia.bif\ndomain yes_no = labels("yes", "no")\n')
    assert "  var asia, tub, smoke, lung, bronc, either, xray, dysp : yes_no\n" in text
    assert '  tub ~ categorical({"yes": [0.05, 0.95], "no": [0.01, 0.99]}[asia])\n' in text


def test_names_that_are_none_become_some_and_are_kept_in_comments(tmp_path):
    (tmp_path / "odd.bif").write_text(ODD)
    text = gm.read_model(tmp_path / "odd.bif").text
    assert "# two_days: the Bayesian network `two days` of odd.bif\n" in text
    assert 'labels("dry", "a bit wet", "<5mm")' in text
    for line in (
        "var day_1 : dry_a_bit_wet_5mm  # `day 1` there",
        "var x_2nd : dry_a_bit_wet_5mm  # `2nd` there",
        "var for_2 : yes_no  # `for` there",
    ):
        assert line in text
    program(tmp_path / "odd.bif")


def test_rows_defaults_and_whole_tables_have_their_places():
    found = tables(network(ODD))
    np.testing.assert_allclose(found["day 1", "2nd"], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    whole = found["day 1", "2nd", "for"]
    np.testing.assert_allclose(whole[..., 0], np.arange(1, 10).reshape(3, 3) / 10)
    np.testing.assert_allclose(whole[..., 1], 1 - whole[..., 0])


@pytest.mark.parametrize("text", [ASIA, ODD], ids=["asia", "odd"])
def test_what_is_exported_is_read_as_the_same_tables(text, tmp_path):
    (tmp_path / "one.bif").write_text(text)
    model = program(tmp_path / "one.bif").model()
    model.export({}, tmp_path / "two.bif")
    again = program(tmp_path / "two.bif").model()
    again.export({}, tmp_path / "three.bif")
    assert (tmp_path / "two.bif").read_text().split("\n", 1)[1] == (tmp_path / "three.bif").read_text().split("\n", 1)[1]
    first, second = network(text), network((tmp_path / "two.bif").read_text())
    by_place = {c.child: c for c in second.conditionals}
    order = [model.graph.variable(v.name).offset for v in program(tmp_path / "one.bif").model().graph.variables]
    assert order == sorted(order)
    sizes = sorted(c.table.shape for c in first.conditionals)
    assert sizes == sorted(c.table.shape for c in by_place.values())
    for a, b in zip(_sorted(first), _sorted(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


def _sorted(found: BayesianNetwork) -> list[list[float]]:
    """The numbers of each table; sorted, as parents may have another order."""
    return sorted(sorted(c.table.ravel().tolist()) for c in found.conditionals)


def test_parameters_are_written_into_the_tables(tmp_path):
    text = """domain sky = labels("sun", "rain")
model m {
  var a, b : sky
  var n : range(3)
  param p[v in sky] : simplex
  param h
  a ~ categorical(p)
  b ~ bernoulli(logit = if a == "sun" then h else 2 * h)
  n ~ binomial(2, if b == "rain" then 0.25 else 0.5)
}
"""
    text = text.replace("var a, b : sky", "var a : sky\n  var b : bit").replace('b == "rain"', "b == 1")
    gm.parse(text).model().export({"p": [0.3, 0.7], "h": 0.5}, tmp_path / "m.bif")
    found = tables(network((tmp_path / "m.bif").read_text()))
    s = 1 / (1 + np.exp([-0.5, -1.0]))
    np.testing.assert_allclose(found["a",], [0.3, 0.7])
    np.testing.assert_allclose(found["a", "b"], np.stack([1 - s, s], axis=1))
    np.testing.assert_allclose(found["b", "n"], [[0.25, 0.5, 0.25], [0.5625, 0.375, 0.0625]])


def test_cells_of_arrays_get_words_for_names(tmp_path):
    text = "model m {\n  var x[i in range(2)] : spin\n  x[0] ~ categorical([0.5, 0.5])\n  x[1] ~ categorical({-1: [0.2, 0.8], 1: [0.9, 0.1]}[x[0]])\n}\n"
    notes = gm.parse(text).model().export({}, tmp_path / "m.bif")
    assert notes == ("`x[0]` is called `x_0` there", "`x[1]` is called `x_1` there")
    assert tables(network((tmp_path / "m.bif").read_text()))["x_0", "x_1"].tolist() == [[0.2, 0.8], [0.9, 0.1]]


def test_large_tables_are_inputs(tmp_path, folder):
    states = ", ".join(f"s{k}" for k in range(15))
    rows = "".join(f"  (s{k}) {', '.join(['0.04'] * 14)}, 0.44;\n" for k in range(15))
    text = "".join(f"variable {n} {{ type discrete [ 15 ] {{ {states} }}; }}\n" for n in "ab")
    text += f"probability ( a ) {{ table {', '.join(['0.04'] * 14)}, 0.44; }}\nprobability ( b | a ) {{\n{rows}}}\n"
    (folder / "large.bif").write_text(text)
    printed = gmlm("import", "large.bif").output
    assert "wrote large.gmlm\n" in printed
    assert "large.npz" in printed
    assert "input table_b[a_values, a_values] : simplex" in (folder / "large.gmlm").read_text()
    assert "no faults" in gmlm("check", "large.gmlm", "--inputs", "large.npz").output
    gmlm("export", "large.gmlm", "--inputs", "large.npz", "--out", "again.bif")
    found = tables(network((folder / "again.bif").read_text()))
    np.testing.assert_allclose(found["a", "b"], gm.read_model("large.bif").inputs["table_b"], rtol=1e-15)


def test_published_roundings_are_divided_by_their_sums_with_a_note(tmp_path):
    text = "variable a { type discrete [ 3 ] { u, v, w }; }\nprobability ( a ) { table 0.3333, 0.3333, 0.3333; }\n"
    found = network(text)
    assert found.conditionals[0].table.tolist() == [1 / 3] * 3
    assert "`a`" in found.notes[0]
    (tmp_path / "a.bif").write_text(text)
    assert gm.read_model(tmp_path / "a.bif").notes == found.notes


REFUSED = {
    "empty": ("", "E532", "it begins with nothing"),
    "another format": ("digraph { a -> b }\n", "E532", "none of the formats"),
    "no variable": ("network a {\n}\n", "E532", "declares no variable"),
    "unknown block": ("network a {\n}\nnode b {\n}\n", "E532", "`node` opens no block"),
    "cut in a name": (TWO.format("probability ( a"), "E532", "ends too early"),
    "cut in a row": (TWO.format("probability ( a ) { table 0.2"), "E532", "ends too early"),
    "cut between blocks": (TWO.format(ROOT), "E532", "`b` has no distribution"),
    "too few numbers": (TWO.format("probability ( a ) { table 0.2; }"), "E532", "has 2 numbers, found 1"),
    "too many numbers": (TWO.format("probability ( a ) { table 0.2, 0.3, 0.5; }"), "E532", "has 2 numbers, found more"),
    "no number": (TWO.format("probability ( a ) { table 0.2, much; }"), "E532", "expected a number, found `much`"),
    "nan": (TWO.format("probability ( a ) { table nan, nan; }"), "E532", "expected a number, found `nan`"),
    "below 0": (TWO.format("probability ( a ) { table -0.2, 1.2; }"), "E533", "-0.2 is not a probability"),
    "overflow": (TWO.format("probability ( a ) { table 1e999, 0; }"), "E533", "1e999 is not a probability"),
    "sum": (TWO.format("probability ( a ) { table 0.2, 0.7; }"), "E533", "sum to 0.9"),
    "sum a little off": (TWO.format("probability ( a ) { table 0.2, 0.7998; }"), "E533", "sum to 0.9998"),
    "unknown variable": (TWO.format("probability ( a | c ) { }"), "E532", "no variable `c`"),
    "unknown state": (TWO.format(ROOT + "probability ( b | a ) { (x) 0.2, 0.8; }"), "E532", "no state of `a` `x`"),
    "missing rows": (TWO.format(ROOT + "probability ( b | a ) { (n) 0.2, 0.8; }"), "E532", "`b` lacks 1 of 2 rows"),
    "row twice": (TWO.format(ROOT + "probability ( b | a ) { (n) 1, 0; (n) 1, 0; }"), "E532", "two rows for the same states"),
    "short key": (TWO.format(ROOT + "probability ( b | a ) { () 1, 0; }"), "E532", "this row names 0"),
    "long key": (TWO.format(ROOT + "probability ( b | a ) { (n, n) 1, 0; }"), "E532", "this row names more states"),
    "two distributions": (TWO.format(ROOT + ROOT + "probability ( b ) { table 1, 0; }"), "E532", "`a` has two distributions"),
    "own parent": (TWO.format("probability ( a | a ) { default 0.2, 0.8; }"), "E532", "stands twice"),
    "cycle": (TWO.format("probability ( a | b ) { default 0.2, 0.8; }\nprobability ( b | a ) { default 0.2, 0.8; }"), "E532", "a cycle"),
    "declared twice": (TWO.format("variable a { type discrete [ 1 ] { n }; }"), "E532", "declared twice"),
    "other count": ("variable a { type discrete [ 3 ] { n, y }; }", "E532", "declares 3 states and lists 2"),
    "state twice": ("variable a { type discrete [ 2 ] { n, n }; }", "E532", "the state `n` twice"),
    "continuous": ("variable a { type continuous; }", "E532", "of the type `continuous`"),
    "no type": ("variable a { }", "E532", "has no states"),
    "huge count": ("variable a { type discrete [ 99999999999 ] { n }; }", "E535", "99999999999, more than"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_refused_with_their_place(name, tmp_path):
    text, code, words = REFUSED[name]
    found = refusal(tmp_path / "a.bif", text)
    assert (found.code, words in found.message) == (code, True), found
    assert found.span is not None
    assert "a.bif:" in found.render()


def test_a_cycle_is_named_from_parent_to_child():
    text = "".join(f"variable {n} {{ type discrete [ 1 ] {{ s }}; }}\n" for n in "abcd")
    text += "".join(f"probability ( {child} | {parent} ) {{ (s) 1; }}\n" for child, parent in ("ba", "cb", "ac", "dc"))
    with pytest.raises(gm.GmlmError, match=r"b -> c -> a -> b|a -> b -> c -> a|c -> a -> b -> c"):
        network(text)


def test_long_chains_are_no_cycle():
    names = [f"v{k}" for k in range(3000)]
    text = "".join(f"variable {n} {{ type discrete [ 1 ] {{ s }}; }}\n" for n in names)
    text += "probability ( v0 ) { table 1; }\n"
    text += "".join(f"probability ( {b} | {a} ) {{ (s) 1; }}\n" for a, b in itertools.pairwise(names))
    assert len(network(text).conditionals) == 3000


def test_tables_above_the_limit_are_refused_before_they_are_made():
    names = [f"v{k}" for k in range(60)]
    text = "".join(f"variable {n} {{ type discrete [ 2 ] {{ n, y }}; }}\n" for n in names)
    text += f"probability ( {' '.join(names)} ) {{ default 0.5, 0.5; }}\n"
    with pytest.raises(gm.GmlmError, match=r"the table of `v0` has 1.15e\+18 numbers") as caught:
        network(text)
    assert caught.value.codes == ("E535",)


def test_many_tables_are_counted_together(monkeypatch):
    monkeypatch.setattr("gmlmdsl.exchange._network.MOST_NUMBERS", 5)
    with pytest.raises(gm.GmlmError, match="the table of `b` has 4 numbers; all tables may have 5"):
        network(TWO.format(ROOT + "probability ( b | a ) { default 0.5, 0.5; }"))


def test_a_text_above_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gmlmdsl.exchange._scan.MOST_CHARACTERS", 100)
    assert refusal(tmp_path / "asia.bif", ASIA).code == "E535"
    assert limits.MOST_CHARACTERS > 10_000_000


@pytest.mark.parametrize("cut", range(0, len(ASIA), 23))
def test_a_file_that_was_cut_off_is_refused_wherever_it_was(cut, tmp_path):
    assert refusal(tmp_path / "asia.bif", ASIA[:cut]).code in ("E532", "E533")


NOT_EXPORTED = {
    "factor": ("model m {\n  var x : bit\n  factor 0.5 * x\n}\n", "a model with a `factor`"),
    "require": ("model m {\n  var x, y : bit ~ bernoulli(0.5)\n  require x == y\n}\n", "a model with a `require`"),
    "bare": ("model m {\n  var x, y : bit\n  x ~ bernoulli(0.5)\n}\n", "`y` has no distribution of its own"),
    "given": ("model m {\n  given y : bit\n  var x : bit\n  x ~ bernoulli([0.2, 0.4][y])\n}\n", "the given variable `y`"),
}


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_models_that_are_no_networks_are_not_written(name, tmp_path):
    text, words = NOT_EXPORTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = gm.parse(text).model()
    with pytest.raises(gm.GmlmError, match=words) as caught:
        model.export({}, tmp_path / "m.bif")
    assert caught.value.codes == ("E534",)
    assert not list(tmp_path.iterdir())


# The command line


def test_import_writes_a_program_and_overwrites_nothing(folder):
    (folder / "asia.bif").write_text(ASIA)
    assert gmlm("import", "asia.bif").output == "wrote asia.gmlm\n"
    assert "no faults" in gmlm("check", "asia.gmlm").output
    assert "E560" in gmlm("import", "asia.bif", status=1).output
    assert gmlm("import", "asia.bif", "--out", "b.gmlm").output == "wrote b.gmlm\n"
    assert "E507" in gmlm("import", "asia.bif", "--out", "b.txt", status=1).output
    assert "E507" in gmlm("import", "asia.bif", "--out", "c.gmlm", "--evidence", "asia.bif", status=1).output
    assert "E120" in gmlm("import", ".", status=1).output
    assert "E120" in gmlm("import", "asi.bif", "--out", "c.gmlm", status=1).output


def test_a_packed_file_is_unpacked(folder):
    (folder / "asia.bif.gz").write_bytes(gzip.compress(ASIA.encode()))
    assert gmlm("import", "asia.bif.gz").output == "wrote asia.gmlm\n"
    assert "asia.bif.gz\n" in (folder / "asia.gmlm").read_text()


def test_faults_are_shown_with_their_line(folder):
    (folder / "asia.bif").write_text(ASIA.replace("0.05, 0.95;", "0.05, 0.85;", 1))
    printed = gmlm("import", "asia.bif", status=1).output
    assert "error[E533 model-numbers]: probabilities of `tub` sum to 0.9" in printed
    assert "--> asia.bif:31:9\n" in printed
    assert not (folder / "asia.gmlm").exists()


def test_export_takes_parameters_as_other_commands_do(folder):
    (folder / "p.gmlm").write_text("model m {\n  var x : bit\n  param h ~ normal(0, 1)\n  x ~ bernoulli(logit = h)\n}\n")
    assert "E507" in gmlm("export", "p.gmlm", "--out", "p.bif", status=1).output
    np.savez(folder / "p.npz", h=np.log(3))
    assert gmlm("export", "p.gmlm", "--params", "p.npz", "--out", "p.bif").output == "wrote p.bif\n"
    assert tables(network((folder / "p.bif").read_text()))["x",] == pytest.approx([0.25, 0.75])
    assert "E560" in gmlm("export", "p.gmlm", "--params", "p.npz", "--out", "p.txt", status=1).output
    np.savez(folder / "q.npz", h=np.zeros(4), J=0.5)
    assert "E534" in gmlm("export", "m.gmlm", "--params", "q.npz", "--out", "q.bif", status=1).output
