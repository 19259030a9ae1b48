"""Programs, models, fits and errors travel to other processes, and answer the same there; copies are independent."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

import gmlmdsl as gm

PLAIN = """
input n : int
index site = range(n)
model m {
  var x[i in site] : spin
  given g : real
  param h[i in site] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor (h[i] + g) * x[i] for i in site
  factor J * x[0] * x[1]
}
mask one = subsets(x, size = 1)
sampler sweep { update x[i] for i in site }
"""
HIDDEN = PLAIN.replace("given g", "latent z : bit given g").replace("factor J", "factor J * z").replace("in site }", "in site update z }")
NET = """
index site = range(4)
network net = mlp(width = 4)
model m { var x[i in site] : bit conditional x ~ net() }
mask any = bernoulli(x, rate = 0.5)
"""
OWN = NET.replace("mlp(width = 4)", 'python("own_network:Table", scale = 2)')
ASK = """
import pickle, sys
import numpy as np
if sys.argv[3] == "x64":
    import jax
    jax.config.update("jax_enable_x64", True)
fit = pickle.load(open(sys.argv[1], "rb"))
np.savez(sys.argv[2], J=fit.params["J"], errors=fit.standard_errors["h"], again=fit.bootstrap(2).estimates)
"""


@pytest.fixture(autouse=True, scope="module")
def standard() -> Iterator[None]:
    """Fits are made as users make them."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def made(text: str, missing: int | None) -> gm.Fit:
    rng = np.random.default_rng(0)
    x = np.sign(rng.normal(size=(60, 1)) + rng.normal(size=(60, 3))).astype(int)
    if missing is not None:
        x[:3, 0] = missing
    program = gm.parse(text, n=3, coords={"site": ["a", "b", "c"]})
    model = program.model(plan="enumeration")
    return model.fit(x, missing=missing, given={"g": rng.normal(size=60)}, weights=np.arange(60.0) + 1)


@pytest.fixture(scope="module")
def fit() -> gm.Fit:
    return made(PLAIN, None)


def sent(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def same(a: gm.Fit, b: gm.Fit) -> None:
    """Two fits that say the same, whatever they are asked."""
    for name, value in a.params.items():
        np.testing.assert_array_equal(b.params[name], value)
        np.testing.assert_array_equal(b.standard_errors[name], a.standard_errors[name])
    assert repr(b) == repr(a) and b.summary().equals(a.summary())
    np.testing.assert_array_equal(b.loss_trace, a.loss_trace)
    np.testing.assert_array_equal(b.covariance_of("laplace"), a.covariance_of("laplace"))
    np.testing.assert_array_equal(b.bootstrap(2).estimates, a.bootstrap(2).estimates)
    np.testing.assert_array_equal(np.asarray(b.evidence.codes), a.evidence.codes)


@pytest.mark.slow  # rows that are summed out
def test_a_fit_with_latents_and_missing_cells_answers_the_same():
    one = made(HIDDEN, 9)
    again = sent(one)
    same(one, again)
    assert again.missing is not None and again.missing.words == one.missing.words  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("through", [sent, copy.copy, copy.deepcopy])
def test_a_fit_answers_the_same_with_its_data(fit: gm.Fit, through: Callable[[Any], Any]):
    same(fit, through(fit))


def test_a_deep_copy_is_of_its_own(fit: gm.Fit):
    again, before = copy.deepcopy(fit), fit.params["J"].copy()
    again.params["J"] += 1
    again.meta["mask"] = "none"
    again.loss_trace[:] = 0
    assert fit.params["J"] == before and fit.mask == "one" and fit.loss_trace.any()
    assert again.model is fit.model


@pytest.mark.slow  # two interpreters that compile a fit
@pytest.mark.parametrize("kind", ["float32", "x64"])
def test_another_process_answers_the_same(fit: gm.Fit, tmp_path: Path, kind: str):
    with jax.enable_x64(kind == "x64"):
        expected = fit.bootstrap(2).estimates
    (tmp_path / "fit").write_bytes(pickle.dumps(fit))
    subprocess.run([sys.executable, "-c", ASK, str(tmp_path / "fit"), str(tmp_path / "out.npz"), kind], check=True)
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["J"], fit.params["J"])
    np.testing.assert_array_equal(found["errors"], fit.standard_errors["h"])
    np.testing.assert_allclose(found["again"], expected, rtol=1e-6)


@pytest.mark.slow  # a second fit
def test_a_fit_of_a_file_and_one_by_an_optimizer_arrive_without_data(fit: gm.Fit, tmp_path: Path):
    fit.save(tmp_path / "a.fit")
    loaded = gm.load_fit(tmp_path / "a.fit")
    optimised = fit.model.fit(np.ones((4, 3), int), given={"g": 0.0}, optimizer=optax.adam(0.1), max_steps=2)
    for one in (loaded, optimised):
        again = sent(one)
        np.testing.assert_array_equal(again.params["h"], one.params["h"])
        with pytest.raises(gm.GmlmError) as caught:
            again.bootstrap(2)
        assert caught.value.codes == ("E505",)


def test_programs_and_models_are_made_again_of_their_text(fit: gm.Fit):
    program = fit.model.program
    again = sent(program)
    assert again == program and again.bound.coords == program.bound.coords and copy.deepcopy(program) is program
    model = sent(fit.model)
    assert model.graph.method == "enumeration" and model.program == program and copy.deepcopy(fit.model) is fit.model
    jax.jit(lambda p: fit.model.log_potential(p, np.ones(3, int), given={"g": 0.0}))(fit.params)  # what is compiled stays here
    np.testing.assert_array_equal(
        sent(fit.model).marginals(fit.params, given={"g": 0.5})["x"], fit.model.marginals(fit.params, given={"g": 0.5})["x"]
    )


def test_a_program_of_several_files_travels(tmp_path: Path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "site.gmlm").write_text("index site = range(3)\n")
    (tmp_path / "main.gmlm").write_text('import "parts/site.gmlm"\nmodel m { var x[i in site] : bit factor x[0] }\n')
    program = gm.load(tmp_path / "main.gmlm")
    again = sent(program)
    assert [s.text for s in again.checked.sources] == [s.text for s in program.checked.sources]
    assert sent(again.model()).log_partition({}) == program.model().log_partition({})


@pytest.mark.slow  # trains a network
def test_a_network_travels_with_its_weights():
    x = np.array([[0, 1, 1, 0], [1, 1, 0, 0]])
    one = gm.parse(NET).model().fit(x, method=gm.Training(steps=2))
    for again in (sent(one), copy.copy(one), copy.deepcopy(one)):
        assert jax.tree.all(jax.tree.map(np.array_equal, again.params, one.params))
        np.testing.assert_array_equal(again.loss_trace, one.loss_trace)
        assert again.meta == one.meta and again.model.name == "m"


@pytest.mark.produces("E739")
def test_a_class_of_python_is_not_run_by_loading_a_pickle():
    model = gm.parse(OWN, allow_python=True).model()
    with pytest.raises(gm.GmlmError) as caught:
        pickle.dumps(model)
    assert caught.value.codes == ("E739",) and "pickled" in str(caught.value)


def test_errors_travel():
    for text in ("model m { var x : bit factor y }", "model"):
        with pytest.raises(gm.GmlmError) as caught:
            gm.parse(text)
        again = sent(caught.value)
        assert str(again) == str(caught.value) and again.codes == caught.value.codes
        assert copy.copy(caught.value).diagnostics == caught.value.diagnostics


def test_an_error_of_a_missing_attribute_stays_one(fit: gm.Fit, tmp_path: Path):
    fit.save(tmp_path / "a.fit")
    with pytest.raises(AttributeError) as caught:
        gm.load_fit(tmp_path / "a.fit").evidence  # noqa: B018
    assert type(sent(caught.value)) is type(caught.value)


def test_labels_of_rows_travel():
    import pandas as pd

    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.choice([-1, 1], (30, 2)), index=[f"r{k}" for k in range(30)], columns=["0", "1"])
    text = "model m { var x[i in range(2)] : spin param J ~ normal(0, 1) factor J * x[0] * x[1] }\nmask one = subsets(x, size = 1)"
    fit = gm.parse(text).model().fit(frame.rename(columns=int), mask="one")
    groups = pd.Series(np.arange(30) // 3, index=frame.index)
    shuffled = groups.sample(frac=1, random_state=0)
    found, again = (str(f.cross_validate(3, groups=shuffled, seed=0, progress=False)) for f in (fit, sent(fit)))
    assert found == again == str(fit.cross_validate(3, groups=groups, seed=0, progress=False))
