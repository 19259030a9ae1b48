"""UAI: log Z and marginals of what is read and written, against sums over all values by NumPy."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from cli_cases import folder as folder
from cli_cases import gmlm
from exchange_cases import ASIA, joint
from refusals import refused

import gmlmdsl as gm

# A ring with a value more in one place, an impossible pair, a field and a constant.
RING = """\
MARKOV
4
2 2 3 2
6
1 0
2 0 1
2 1 2
2 2 3
2 3 0
0

2
0.3 1.7
4
1.0 2.0 0.5 0.0
6
1 2 3 4 5 6
6
.1 .2 .3 .4 .5 .6
4
2 1 1 2e0
1
2.5
"""
RING_TABLES = {
    (0,): [0.3, 1.7],
    (0, 1): [[1, 2], [0.5, 0]],
    (1, 2): [[1, 2, 3], [4, 5, 6]],
    (2, 3): [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]],
    (3, 0): [[2, 1], [1, 2]],
    (): 2.5,
}
RING_SIZES = [2, 2, 3, 2]
BAYES = "BAYES\n3\n2 2 3\n3\n1 0\n2 0 1\n3 1 0 2\n\n2\n 0.436 0.564\n4\n 0.128 0.872\n 0.920 0.080\n12\n"
BAYES += " 0.210 0.333 0.457\n 0.811 0.000 0.189\n 0.100 0.200 0.700\n 0.3333 0.3333 0.3333\n"


def grid_text(rows: int, columns: int, seed: int) -> tuple[str, list[int], dict[tuple[int, ...], np.ndarray]]:
    """A grid of bits with random tables: its text, its sizes and its tables."""
    draw = np.random.default_rng(seed)
    at = np.arange(rows * columns).reshape(rows, columns)
    pairs = [*zip(at[:, :-1].ravel().tolist(), at[:, 1:].ravel().tolist(), strict=True)]
    pairs += [*zip(at[:-1].ravel().tolist(), at[1:].ravel().tolist(), strict=True)]
    tables = {(k,): draw.uniform(0.1, 2, 2) for k in range(rows * columns)}
    tables |= {p: draw.uniform(0.1, 2, (2, 2)) for p in pairs}
    lines = ["MARKOV", str(at.size), " ".join(["2"] * at.size), str(len(tables))]
    lines += [f"{len(s)} {' '.join(map(str, s))}" for s in tables]
    lines += [f"\n{t.size}\n{' '.join(map(repr, t.ravel().tolist()))}" for t in tables.values()]
    return "\n".join(lines) + "\n", [2] * at.size, tables


def model(path, evidence=None) -> gm.JointModel:
    found = gm.read_model(path, evidence)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = gm.parse(found.text, **found.inputs)
    assert [w for w in bound.model().warnings if w.code != "W815"] == []
    return bound.model()


def log_z(model: gm.JointModel, params=None) -> float:
    with jax.enable_x64(True):
        return float(model.log_partition(params or {}))


@pytest.mark.check
def test_a_ring_has_the_log_z_and_marginals_of_its_tables(tmp_path):
    (tmp_path / "ring.uai").write_text(RING)
    found, p = model(tmp_path / "ring.uai"), joint(RING_SIZES, RING_TABLES)
    assert log_z(found) == pytest.approx(np.log(p.sum()), abs=1e-10)
    with jax.enable_x64(True):
        marginals = found.marginals({})
    for k, (name, cell) in enumerate([("x2", 0), ("x2", 1), ("x3", 0), ("x2", 2)]):
        others = tuple(a for a in range(4) if a != k)
        np.testing.assert_allclose(np.asarray(marginals[name])[cell], p.sum(axis=others) / p.sum(), rtol=1e-9)


@pytest.mark.parametrize("text", ["1\n2 0 1 2 2\n", "2 0 1 2 2", "1 2 0 1 2 2"], ids=["samples", "plain", "one line"])
def test_evidence_is_required(text, tmp_path):
    (tmp_path / "ring.uai").write_text(RING)
    (tmp_path / "ring.evid").write_text(text)
    p = joint(RING_SIZES, RING_TABLES)
    assert log_z(model(tmp_path / "ring.uai", tmp_path / "ring.evid")) == pytest.approx(np.log(p[1, :, 2].sum()), abs=1e-10)


def test_evidence_is_written_beside_the_file_and_read_as_the_same_model(tmp_path):
    (tmp_path / "ring.uai").write_text(RING)
    first, clamp = model(tmp_path / "ring.uai"), {"x3": {0: 2}, "x2": {0: 1}}
    first.export({}, tmp_path / "two.uai", clamp=clamp)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ring.uai", "two.uai", "two.uai.evid"]
    names = {cell: k for k, cell in enumerate(first.graph.cell_name(c) for c in range(4))}
    expected = sorted([(names["x3[0]"], 2), (names["x2[0]"], 1)])
    assert (tmp_path / "two.uai.evid").read_text() == f"2 {' '.join(f'{v} {x}' for v, x in expected)}\n"
    p = joint(RING_SIZES, RING_TABLES)
    second = model(tmp_path / "two.uai", tmp_path / "two.uai.evid")
    assert log_z(second) == pytest.approx(np.log(p[1, :, 2].sum()), abs=1e-10)
    with jax.enable_x64(True):
        ours, again = first.marginals({}, clamp), second.marginals({})
    for name in ours:
        np.testing.assert_allclose(again[name], ours[name], rtol=1e-9)


def test_labels_latents_and_a_network_have_evidence(tmp_path):
    text = 'model m {\n  var a : labels("u", "v", "w")\n  latent z : bit\n  a ~ categorical([0.2, 0.3, 0.5])\n'
    text += '  z ~ bernoulli(if a == "w" then 0.9 else 0.2)\n}\n'
    gm.parse(text).model().export({}, tmp_path / "m.uai", clamp={"a": "w", "z": 0})
    assert (tmp_path / "m.uai.evid").read_text() == "2 0 2 1 0\n"
    found = model(tmp_path / "m.uai", tmp_path / "m.uai.evid")
    assert log_z(found) == pytest.approx(np.log(0.5 * 0.1), abs=1e-10)
    gm.parse(text).model().export({}, tmp_path / "m.uai", clamp={})
    assert (tmp_path / "m.uai.evid").read_text() == "0\n"


@pytest.mark.parametrize(
    ("path", "clamp", "code"),
    [("m.bif", {"x": 1}, "E507"), ("m.json", {}, "E507"), ("m.uai", {"y": 1}, "E506"), ("m.uai", {"x": 2}, "E502")],
)
def test_evidence_that_cannot_be_written_is_refused_before_a_file_is(path, clamp, code, tmp_path):
    bound = gm.parse("model m {\n  var x : bit ~ bernoulli(0.2)\n}\n").model()
    refused(code, lambda: bound.export({}, tmp_path / path, clamp=clamp))
    assert not list(tmp_path.iterdir())


def test_no_evidence_changes_nothing(tmp_path):
    (tmp_path / "ring.uai").write_text(RING)
    (tmp_path / "ring.evid").write_text("0\n")
    assert gm.read_model(tmp_path / "ring.uai", tmp_path / "ring.evid").text == gm.read_model(tmp_path / "ring.uai").text


def test_a_bayesian_network_is_normalised_and_its_evidence_has_a_probability(tmp_path):
    (tmp_path / "b.uai").write_text(BAYES)
    (tmp_path / "b.evid").write_text("1\n1 2 1\n")
    last = np.array([[[0.21, 0.333, 0.457], [0.811, 0, 0.189]], [[0.1, 0.2, 0.7], [1 / 3] * 3]])
    p = joint([2, 2, 3], {(0,): [0.436, 0.564], (0, 1): [[0.128, 0.872], [0.92, 0.08]], (1, 0, 2): last})
    found = gm.read_model(tmp_path / "b.uai")
    assert "`variable 2`" in found.notes[0]
    assert log_z(model(tmp_path / "b.uai")) == pytest.approx(0, abs=1e-10)
    assert log_z(model(tmp_path / "b.uai", tmp_path / "b.evid")) == pytest.approx(np.log(p[..., 1].sum()), abs=1e-10)
    bare = model(tmp_path / "b.uai")
    bare.export({}, tmp_path / "b.bif")
    assert "network b" in (tmp_path / "b.bif").read_text()


def test_a_grid_is_one_array_and_two_statements(tmp_path):
    text, sizes, tables = grid_text(3, 4, seed=0)
    (tmp_path / "grid.uai").write_text(text)
    found = gm.read_model(tmp_path / "grid.uai")
    assert found.text.count("factor ") == 2
    assert "var x[v in cell] : range(2)\n" in found.text
    assert log_z(model(tmp_path / "grid.uai")) == pytest.approx(np.log(joint(sizes, tables).sum()), abs=1e-10)


@pytest.mark.parametrize("text", [RING, BAYES, grid_text(3, 3, seed=1)[0]], ids=["ring", "bayes", "grid"])
def test_what_is_exported_is_read_as_the_same_model(text, tmp_path):
    (tmp_path / "one.uai").write_text(text)
    first = model(tmp_path / "one.uai")
    first.export({}, tmp_path / "two.uai")
    second = model(tmp_path / "two.uai")
    assert (tmp_path / "two.uai").read_text().split()[0] == text.split()[0]
    assert log_z(second) == pytest.approx(log_z(first), abs=1e-10)
    second.export({}, tmp_path / "three.uai")
    assert (tmp_path / "three.uai").read_text() == (tmp_path / "two.uai").read_text()


MODELS = {
    "ising": (
        "model m {\n  var x[i in range(6)] : spin\n  param h[i in range(6)] ~ normal(0, 1)\n  param J ~ normal(0, 1)\n"
        "  factor h[i] * x[i] for i in range(6)\n  factor J * x[i] * x[(i + 1) % 6] for i in range(6)\n}\n",
        {"h": np.linspace(-1, 1.3, 6), "J": 0.7},
    ),
    "latent, required, twice": (
        'model m {\n  var a : labels("u", "v", "w")\n  latent z : bit\n  var y[i in range(2)] : range(3)\n  param p : simplex ~ dirichlet(2)\n'
        '  z ~ bernoulli([0.2, 0.7, 0.4][y[0]])\n  factor if a == "u" then 0.3 * y[0] else y[1] * 0.1\n  require y[0] + y[1] > 0\n'
        "  factor y[i] * y[j] * 0.25 for i in range(2) for j in range(2)\n  factor 1.5\n}\n",
        {},
    ),
    "no factor": ("model m {\n  var x[i in range(3)] : range(3)\n}\n", {}),
    "network": ("model m {\n  var x, y : bit\n  param p\n  x ~ bernoulli(0.25)\n  y ~ bernoulli(logit = p * x)\n}\n", {"p": 0.3}),
}


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_have_the_log_z_of_the_model(name, tmp_path):
    text, params = MODELS[name]
    text = text.replace("  param p : simplex ~ dirichlet(2)\n", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bound = gm.parse(text).model()
    bound.export(params, tmp_path / "m.uai")
    assert log_z(model(tmp_path / "m.uai")) == pytest.approx(log_z(bound, params), abs=1e-10)
    assert _log_z_of_file((tmp_path / "m.uai").read_text()) == pytest.approx(log_z(bound, params), abs=1e-10)


def _log_z_of_file(text: str) -> float:
    """log Z by enumeration, by a reader of its own."""
    words = iter(text.split())
    assert next(words) in ("MARKOV", "BAYES")
    sizes = [int(next(words)) for _ in range(int(next(words)))]
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
    total = np.zeros(sizes)
    codes = np.indices(sizes)
    for scope in scopes:
        table = np.array([float(next(words)) for _ in range(int(next(words)))]).reshape([sizes[k] for k in scope])
        with np.errstate(divide="ignore"):
            total = total + np.log(table)[tuple(codes[k] for k in scope)]
    return float(np.log(np.exp(total).sum()))


def test_asia_goes_through_all_three_formats(tmp_path):
    (tmp_path / "asia.bif").write_text(ASIA)
    model(tmp_path / "asia.bif").export({}, tmp_path / "asia.uai")
    model(tmp_path / "asia.uai").export({}, tmp_path / "asia.xmlbif")
    model(tmp_path / "asia.xmlbif").export({}, tmp_path / "again.uai")
    assert (tmp_path / "asia.uai").read_text() == (tmp_path / "again.uai").read_text()


REFUSED = {
    "no variables": ("MARKOV\n0\n0\n", "E532", "no variables"),
    "no values": ("MARKOV\n1\n0\n0\n", "E532", "variable 0 has no values"),
    "word": ("MARKOV\nmany\n", "E532", "the number of variables is a whole number, found `many`"),
    "below 0": ("MARKOV\n-3\n", "E532", "found `-3`"),
    "huge count of variables": ("MARKOV\n99999999\n2", "E535", "the number of variables is 99999999"),
    "huge domain": ("MARKOV\n1\n123456789012\n", "E535", "values of variable 0 is 123456789012"),
    "huge count of tables": ("MARKOV\n1\n2\n999999999\n", "E535", "the number of tables is 999999999"),
    "huge table": (f"MARKOV\n40\n{'2 ' * 40}\n1\n40 {' '.join(map(str, range(40)))}\n2\n1 1\n", "E535", "1,099,511,627,776 numbers"),
    "long scope": ("MARKOV\n1\n2\n1\n2 0 0\n", "E535", "variables of factor 0 is 2"),
    "scope twice": ("MARKOV\n2\n2 2\n1\n2 0 0\n4\n1 1 1 1\n", "E532", "names the variable 0 twice"),
    "unknown variable": ("MARKOV\n1\n2\n1\n1 1\n2\n1 1\n", "E532", "there is no variable 1"),
    "another count": ("MARKOV\n1\n2\n1\n1 0\n3\n1 1 1\n", "E532", "factor 0 has 2 entries, found the count 3"),
    "negative": ("MARKOV\n1\n2\n1\n1 0\n2\n1 -1\n", "E533", "-1 is not a probability or factor"),
    "nan": ("MARKOV\n1\n2\n1\n1 0\n2\n1 nan\n", "E532", "expected a number, found `nan`"),
    "infinite": ("MARKOV\n1\n2\n1\n1 0\n2\n1 1e400\n", "E533", "1e400 is no"),
    "all zero": ("MARKOV\n1\n2\n1\n1 0\n2\n0 0\n", "E533", "factor 0 is 0 everywhere"),
    "one too many": ("MARKOV\n1\n2\n1\n1 0\n2\n1 1 1\n", "E532", "`1` stands behind the last table"),
    "no distribution": ("BAYES\n1\n2\n1\n1 0\n2\n0.4 0.5\n", "E533", "probabilities of `variable 0` sum to 0.9"),
    "a constant": ("BAYES\n1\n2\n1\n0\n1\n1\n", "E532", "the distribution of no variable"),
    "two distributions": ("BAYES\n1\n2\n2\n1 0\n1 0\n2\n1 0\n2\n1 0\n", "E532", "`variable 0` has two distributions"),
    "cycle": ("BAYES\n2\n1 1\n2\n2 0 1\n2 1 0\n1\n1\n1\n1\n", "E532", "a cycle"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_refused_with_their_place(name, tmp_path):
    text, code, words = REFUSED[name]
    (tmp_path / "a.uai").write_text(text)
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(tmp_path / "a.uai")
    found = caught.value.diagnostics[0]
    assert (found.code, words in found.message) == (code, True), found
    assert name in ("two distributions",) or "a.uai:" in found.render()


@pytest.mark.parametrize("count", range(1, len(RING.split())))
def test_a_file_that_was_cut_off_is_refused_wherever_it_was(count, tmp_path):
    (tmp_path / "a.uai").write_text(" ".join(RING.split()[:count]))
    with pytest.raises(gm.GmlmError) as caught:
        gm.read_model(tmp_path / "a.uai")
    assert caught.value.codes == ("E532",)


EVIDENCE = {
    "empty": ("", "ends too early"),
    "cut": ("2 0 1", "ends too early"),
    "unknown variable": ("1 9 0", "there is no variable 9"),
    "unknown value": ("1 0 2", "variable 0 has no value 2"),
    "twice": ("2 0 1 0 1", "variable 0 has two values"),
    "samples": ("2 1 0 1 1 0 0 0", "2 samples of evidence"),
    "too many": ("1 0 1 1 1", "stands behind the last pair"),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_that_does_not_fit_is_refused(name, tmp_path):
    text, words = EVIDENCE[name]
    (tmp_path / "a.uai").write_text(RING)
    (tmp_path / "a.evid").write_text(text)
    with pytest.raises(gm.GmlmError, match=words) as caught:
        gm.read_model(tmp_path / "a.uai", tmp_path / "a.evid")
    assert caught.value.codes == ("E532",)


def test_models_that_no_tables_hold_are_refused_before_they_are_made(tmp_path):
    text = "model m {\n  var x[i in range(64)] : bit\n  require count(x[i] == 1 for i in range(64)) == 20\n}\n"
    with pytest.raises(gm.GmlmError, match=r"have 1\.84e\+19 numbers") as caught:
        gm.parse(text).model().export({}, tmp_path / "m.uai")
    assert caught.value.codes == ("E535",)
    assert caught.value.diagnostics[0].span is not None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [800, -800])
def test_factors_that_leave_the_numbers_of_the_format_are_refused(size, tmp_path):
    with pytest.raises(gm.GmlmError, match=f"`x` reach {size}") as caught:
        gm.parse(f"model m {{\n  var x : bit\n  param h\n  factor {size} * x\n  factor h * x\n}}\n").model().export(
            {"h": 0.0}, tmp_path / "m.uai"
        )
    assert caught.value.codes == ("E534",)


def test_the_command_line_takes_evidence_and_a_saved_fit(folder, standard_promotion):
    (folder / "ring.uai").write_text(RING)
    (folder / "ring.evid").write_text("1\n1 2 1\n")
    assert "wrote ring.npz" in gmlm("import", "ring.uai", "--evidence", "ring.evid").output
    assert "no faults" in gmlm("check", "ring.gmlm", "--inputs", "ring.npz").output
    gmlm("fit", "m.gmlm", "x.csv", "--mask", "pairs", "--out", "m.fit")
    assert gmlm("export", "m.fit", "--out", "m.uai").output == "wrote m.uai\n"
    known = ["export", "ring.gmlm", "--inputs", "ring.npz", "--clamp", "x2[0]=1", "--clamp", "x3[0]=2", "--out", "known.uai"]
    assert gmlm(*known).output == "wrote known.uai\nwrote known.uai.evid\n"
    assert (folder / "known.uai.evid").read_text() == "2 0 1 3 2\n"
    fit = gm.load_fit("m.fit")
    assert _log_z_of_file((folder / "m.uai").read_text()) == pytest.approx(log_z(fit.model, fit.params), abs=1e-10)
