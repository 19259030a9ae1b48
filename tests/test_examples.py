"""The programs of `examples/` are sound and compile; its script and the demo run, in small."""

import importlib.util
import re
import sys

import numpy as np
import pytest
from markdown_blocks import ROOT

import gmlmdsl as gm
from gmlmdsl.program import check_file

EXAMPLES = ROOT / "examples"
PAIRS = np.array([[0, 1], [2, 1]])
INPUTS = {
    "adaptive": {"L": 3},
    "denoise": {"height": 2, "width": 3},
    "digits": {"n_pixels": 3, "pairs": PAIRS},
    "hmm": {"n_tags": 2, "width": 3},
    "ising": {"L": 3},
    "masked_text": {"n": 4, "width": 8},
    "mixed": {},
    "ordinal": {"n": 3},
    "potts": {"n_sites": 3, "pairs": PAIRS},
    "rbm": {"n_visible": 3, "n_hidden": 2},
    "tables": {"U": np.zeros(3), "T": np.zeros((2, 3, 4)), "P": np.ones((2, 2))},
    "tagger": {"length": 3, "n_words": 2},
    "text": {"vocab": 5, "n": 4},
    "translate": {"source_vocab": 7, "target_vocab": 5},
    "votes": {"n": 3},
}


def test_every_program_has_inputs_here():
    assert {p.stem for p in EXAMPLES.glob("*.gmlm")} == set(INPUTS)


@pytest.mark.parametrize("name", INPUTS)
def test_a_program_checks(name):
    warned = {w.code for w in check_file(EXAMPLES / f"{name}.gmlm").warnings}
    # `naive` draws independently what interacts, `mask_predict` hides cells that no mask trains, to show that it is said
    assert warned <= {"W801", "W813"}


@pytest.mark.parametrize("name", INPUTS)
def test_a_program_gives_rows_their_probability(name):
    program = gm.load(EXAMPLES / f"{name}.gmlm", **INPUTS[name])
    for of_program in (m.name for m in program.checked.models.values() if m.conditional is None):
        model = program.model(of_program)
        first = {v.name: np.broadcast_to(v.labels[0], (1, *v.shape)) for v in model.graph.variables}
        x = first if len(first) > 1 else next(iter(first.values()))
        given = {v.name: np.zeros(v.shape, float if v.real else int) for v in model.graph.given} or None
        assert np.isfinite(np.asarray(model.log_potential(model.init_params(), x, given=given))).all()


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_script_is_tested():
    elsewhere = {"denoise", "tagger", "masked_text"}  # test_crf_examples.py, test_masked_text.py
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {"quickstart", "rbm_digits"} | elsewhere


@pytest.mark.slow  # long; the gate runs the script, and looks at no result
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")  # a hundred draws are few
def test_the_quickstart_finds_what_it_drew_from(capsys):
    fit = load_script("quickstart").main(side=3, draws=100)
    assert fit.status.converged
    worst = re.search(r"in standard errors ([\d.]+)", capsys.readouterr().out)
    assert float(worst[1]) < 5  # eighteen couplings; 5 standard errors happen once in 10^5


@pytest.mark.slow  # long; tests/fit and tests/sample have its parts
@pytest.mark.usefixtures("standard_promotion")
def test_hidden_units_give_held_out_digits_more_than_independent_pixels(tmp_path, capsys):
    pytest.importorskip("sklearn")
    found = load_script("rbm_digits").main(steps=800, betas=200, chains=32, out=str(tmp_path / "digits.png"))
    alone, hidden = (found[name] for name in ("independent pixels", "persistent chains"))
    assert hidden.gain > 4 * hidden.gain_error > 0 == alone.gain
    assert "cannot be summed out" in capsys.readouterr().out
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"


def test_the_digits_need_scikit_learn(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert load_script("rbm_digits").main() == {}
    assert "gmlmdsl[demo]" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_the_demo_prints_its_tables_and_writes_its_report(tmp_path, capsys):
    pytest.importorskip("sklearn")
    from gmlmdsl import demo

    page = demo.run(tmp_path / "new" / "report", quick=True).read_text(encoding="utf-8")
    titles = ("Data and samples", "Couplings", "Chains", "Two masks side by side", "The program")
    places = [page.index(f">{title}</h2>") for title in titles]
    assert places == sorted(places)
    assert "Warning:" not in page[: page.index("</figure>")]  # the converged model and its picture lead
    assert page.count("<svg") >= 6
    printed = capsys.readouterr().out
    for text in ("Efficiency of two masks", "Couplings under both masks", "ess_bulk", "the worst", "report.html"):
        assert text in printed


def test_the_demo_says_which_extra_it_needs(monkeypatch):
    from gmlmdsl import demo

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(gm.GmlmError, match=r"gmlmdsl\[demo\]"):
        demo.load_images()


def test_the_demo_takes_the_pixels_that_vary():
    pytest.importorskip("sklearn")
    from gmlmdsl import demo

    digits = demo.load_images()
    assert (len(digits.x), len(digits.pixels)) == (1797, 47)
    on = digits.x.sum(axis=0)
    assert min(on.min(), (1797 - on).min()) >= demo.MIN_ROWS
    assert np.array_equal(digits.as_images(digits.x)[:, digits.places[:, 1], digits.places[:, 0]], digits.x)


def test_efficiency_is_a_geometric_mean_of_variance_ratios_over_finite_parameters():
    from types import SimpleNamespace

    from gmlmdsl import demo

    def fit(separated, full, one):
        status = SimpleNamespace(separated=np.array(separated), undetermined=np.zeros(3, bool))
        return SimpleNamespace(status=status, full_covariance=np.diag(full), one_mask_covariance=np.diag(one))

    fits = {"a": fit([0, 0, 1], [1.0, 4.0, np.inf], [2.0, 8.0, np.inf]), "b": fit([0, 0, 1], [0.5, 4.0, np.inf], [1.0, 4.0, np.inf])}
    found = demo.compare(fits)
    assert found.all_masks == pytest.approx({"a": 1.0, "b": np.sqrt(2)})
    assert found.one_mask == pytest.approx({"a": 0.5, "b": 1.0})
