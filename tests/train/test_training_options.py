"""Training: averages over save points, runs that are made longer, logs of runs that were cut off, divergence, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from networks_cases import made
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.networks import network_shapes
from gmlmdsl.train._checkpoints import Checkpoints

pytestmark = pytest.mark.usefixtures("standard_promotion")

N, Q = 4, 3
SGD = optax.sgd(0.3)  # one object for all: what is compiled for one fit serves the next


@pytest.fixture(scope="module")
def model():
    return made("mlp(layers = 1, width = 8)", N, Q, "mask whole = everything(x)\n")


def rows(count: int = 24, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, Q, (count, N))


def same(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def fitted(model, optimizer=SGD, x=None, seed=0, **options):
    return model.fit(
        rows() if x is None else x, optimizer=optimizer, seed=seed, method=gm.Training(**{"steps": 24, "batch_size": 8} | options)
    )


class Killed(Exception):
    """A run is cut off."""


def cut_off(monkeypatch: pytest.MonkeyPatch, model, at: int, **options) -> None:
    """A run that is cut off behind its checkpoint of a step."""
    plain = Checkpoints.save

    def save(self, step, state, notes):
        plain(self, step, state, notes)
        if step == at:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", save)
        with pytest.raises(Killed):
            fitted(model, **options)


def mean(trees: list) -> object:
    return jax.tree.map(lambda *a: np.mean([np.asarray(x, np.float64) for x in a], axis=0), *trees)


def close(a, b) -> bool:
    return all(np.allclose(x, y, atol=1e-6) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.slow
def test_the_average_is_over_the_last_save_points(model):
    """Save points 7, 14, 21 and the last step; the weights at each are those of a run that ends there."""
    at = {steps: fitted(model, steps=steps).params["net"] for steps in (14, 21, 24)}
    assert close(fitted(model, save_every=7, average_last=3).params["net"], mean(list(at.values())))
    assert close(fitted(model, save_every=7, average_last=2).params["net"], mean([at[21], at[24]]))
    assert close(fitted(model, save_every=7, average_last=1).params["net"], at[24])
    assert not close(at[21], at[24])


@pytest.mark.slow  # dear to compile; test_training.py measures validation
def test_validation_measures_the_average_from_its_first_save_point(model):
    other = {"validation": {"x": rows(7, 2)}, "evaluate_every": 7}
    found = fitted(model, save_every=7, average_last=2, **other)
    plain = fitted(model, **other)
    assert found.validation_trace[:3].tolist() == plain.validation_trace[:3].tolist()  # at 21, the average is over one
    assert found.validation_trace[3, 1] == pytest.approx(float(model.loss(found.params, rows(7, 2))) / N, rel=1e-5)
    assert found.validation_trace[3, 1] != plain.validation_trace[3, 1]


@pytest.mark.slow  # `test_checkpoints.py` cuts runs off, and a check of planted bugs averages
@pytest.mark.parametrize("at", thinned([7, 21], 2))
def test_an_average_that_was_cut_off_ends_bit_for_bit(model, tmp_path, monkeypatch, at: int):
    options = {"save_every": 7, "average_last": 3}
    cut_off(monkeypatch, model, at, checkpoint=tmp_path, **options)
    assert same(fitted(model, checkpoint=tmp_path, **options).params, fitted(model, **options).params)
    with pytest.raises(gm.GmlmError, match="these differ: average_last") as caught:
        fitted(model, checkpoint=tmp_path, **options | {"average_last": 2})
    assert caught.value.codes == ("E752",)


@pytest.mark.slow
def test_a_run_is_made_longer(model, tmp_path):
    """With an optimiser that knows no number of steps it ends as one that was asked for all of them at once."""
    fitted(model, steps=10, checkpoint=tmp_path, save_every=5)
    longer = fitted(model, steps=24, checkpoint=tmp_path)
    whole = fitted(model, steps=24)
    assert same(longer.params, whole.params)
    assert longer.loss_trace.tolist() == whole.loss_trace.tolist()
    with pytest.raises(gm.GmlmError, match="has taken 24 steps, and this one is to take 9") as caught:
        fitted(model, steps=9, checkpoint=tmp_path)
    assert caught.value.codes == ("E752",)


def test_what_differs_is_named(model, tmp_path):
    fitted(model, steps=2, checkpoint=tmp_path)
    changes = {
        "first weights, seed": {"seed": 1},
        "x, given or weights": {"x": rows(24, 5)},
        "label_smoothing": {"label_smoothing": 0.1},
        "optimizer": {"optimizer": optax.sgd(0.2)},
        "optimizer, steps": {"optimizer": None},
        "evaluate_every, validation": {"validation": {"x": rows(5)}},
    }
    for named, change in changes.items():
        with pytest.raises(gm.GmlmError) as caught:
            fitted(model, **{"steps": 2, "checkpoint": tmp_path} | change)
        assert caught.value.codes == ("E752",)
        assert f"these differ: {named.replace('optimizer', 'optimizer (with its learning rate and schedule)')}\n" in f"{caught.value}\n"
        assert ("does not depend on `steps`" in str(caught.value)) == ("steps" in named)


@pytest.mark.slow
def test_a_run_whose_schedule_depends_on_its_steps_is_not_made_longer(model, tmp_path):
    fitted(model, None, steps=2, checkpoint=tmp_path)
    with pytest.raises(gm.GmlmError, match="these differ: optimizer .*, steps"):
        fitted(model, None, steps=3, checkpoint=tmp_path)


def steps_of(path: Path) -> list[tuple[int, str]]:
    return [(line["step"], "loss" if "loss" in line else "validation") for line in map(json.loads, path.read_text().splitlines())]


@pytest.mark.slow
def test_a_log_has_no_line_twice(model, tmp_path, monkeypatch):
    """A run is cut off at step 20 behind its last checkpoint; its log is cut back to where it goes on."""
    options = {"validation": {"x": rows(5)}, "evaluate_every": 6}
    fitted(model, log=tmp_path / "whole", save_every=5, checkpoint=tmp_path / "other", **options)
    cut_off(monkeypatch, model, 15, log=tmp_path / "log", save_every=5, checkpoint=tmp_path / "run", **options)
    with (tmp_path / "log").open("a") as file:
        file.write('{"step": 16, "loss": 0.5}\n{"step": 17, "lo')  # written before the end, with a line that was cut off
    fitted(model, log=tmp_path / "log", save_every=5, checkpoint=tmp_path / "run", **options)
    assert steps_of(tmp_path / "log") == steps_of(tmp_path / "whole")
    fitted(model, log=tmp_path / "log", steps=3)
    assert steps_of(tmp_path / "log") == [(3, "loss")]


def test_another_file_is_not_overwritten_by_a_log(model, tmp_path):
    path = tmp_path / "notes"
    for content in ("my notes\n", '{"a": 1}\n', "[1]\n"):
        path.write_text(content)
        with pytest.raises(gm.GmlmError, match="not a log of a training") as caught:
            fitted(model, log=path)
        assert caught.value.codes == ("E560",)
        assert path.read_text() == content


def bursts(at: int) -> optax.GradientTransformation:
    """Gradient descent whose step after `at` of them is infinite."""
    return optax.sgd(lambda count: np.float32(0.3) / (count < at))


@pytest.mark.slow
def test_a_run_that_diverges_returns_finite_weights(model, tmp_path):
    """Looks at steps 20 and 40: the weights of the first one are kept."""
    optimizer = bursts(22)
    fit = fitted(model, optimizer, steps=60)
    assert fit.reason == "diverged"
    assert same(fit.params, fitted(model, optimizer, steps=20).params)
    assert "These are the weights after 20 steps, the last that are finite numbers" in repr(fit)
    first = fitted(model, bursts(0))
    assert same(first.params["net"], model.init_params(0)["net"])
    assert "These are the first weights" in repr(first)
    fit.save(tmp_path / "a.fit")
    assert repr(gm.load_fit(tmp_path / "a.fit")) == repr(fit)


def test_a_last_update_that_is_infinite_is_divergence(model):
    """The loss of every step was finite: the weights themselves are looked at."""
    optimizer = bursts(23)
    fit = fitted(model, optimizer)
    assert np.isfinite(fit.loss_trace).all()
    assert fit.reason == "diverged"
    assert same(fit.params, fitted(model, optimizer, steps=20).params)


@pytest.mark.slow
def test_a_run_that_diverges_returns_the_best_of_those_measured(model):
    optimizer = bursts(22)
    fit = fitted(model, optimizer, steps=60, validation={"x": rows(9, 3)}, evaluate_every=5)
    best = int(fit.validation_trace[fit.validation_trace[:, 1].argmin(), 0])
    assert fit.reason == "diverged"
    assert same(fit.params, fitted(model, optimizer, steps=best).params)
    assert f"after {best} steps, the best on validation rows" in repr(fit)


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("learning_rate is an option of the default", {"learning_rate": 0.1}),
        ("warmup is an option of the default", {"warmup": 3}),
        ("evaluate_every counts", {"evaluate_every": 3}),
        ("save_every is about checkpoints", {"save_every": 3}),
        ("resume is about checkpoints", {"resume": False}),
        ("average_last and ema", {"average_last": 2, "ema": 0.9}),
        ("average_last and patience", {"average_last": 2, "patience": 3, "validation": {"x": rows(4)}}),
        ("average_last=9, and the run has 4 save points", {"average_last": 9, "save_every": 7}),
        ("average_last must be", {"average_last": 0}),
    ],
)
def test_options_that_would_be_ignored_are_refused(model, word: str, options: dict):
    with pytest.raises(gm.GmlmError, match=word) as caught:
        fitted(model, **options)
    assert caught.value.codes == ("E704",)


@pytest.mark.slow
def test_a_fit_says_what_its_batches_were(model):
    fit = fitted(model, batch_size=500, buckets=(3, 4, 90), steps=1)
    assert "; batches of 24 rows, widths 4" in repr(fit)


@pytest.mark.parametrize(
    "name",
    [
        *("standard_errors", "covariance", "interval", "contrast", "simulated_errors"),
        *("status", "objective", "bootstrap", "profile", "predictive", "evidence"),
    ],
)
def test_what_other_fits_have_is_refused_with_the_reason(model, name: str):
    fit = fitted(model, steps=1)
    with pytest.raises(gm.GmlmError, match=f"no `{name}`: ") as caught:
        getattr(fit, name)
    assert caught.value.codes == ("E543",)
    assert not hasattr(fit, name)
    assert getattr(fit, name, "nothing") == "nothing"
    assert not hasattr(fit, "nothing_of_the_sort")
    assert fit.mask == "whole"


def test_training_is_no_method_for_a_model_without_a_network():
    ising = gm.parse(
        "model m {\n  var x[i in range(2)] : spin\n  param J\n  factor J * x[0] * x[1]\n}\nmask one = subsets(x, size = 1)\n"
    ).model()
    with pytest.raises(gm.GmlmError, match="trains networks, and this model has none") as caught:
        ising.fit([[1, -1]], method=gm.Training())
    assert caught.value.codes == ("E704",)
    assert float(ising.loss({"J": 0.1}, [[1, -1]], key=3, n_masks=2)) == float(
        ising.loss({"J": 0.1}, [[1, -1]], key=jax.random.key(3), n_masks=2)
    )


def test_a_key_may_be_a_seed(model):
    params, x = model.init_params(1), rows(3)
    assert float(model.loss(params, x, key=7)) == float(model.loss(params, x, key=jax.random.key(7)))
    for key in (-1, 1.5, True, "a", jax.random.split(jax.random.key(0), 2), np.zeros(3)):
        with pytest.raises(gm.GmlmError, match="key must be a seed") as caught:
            model.loss(params, x, key=key)
        assert caught.value.codes == ("E507",)


def test_shapes_are_found_once_for_each_form(model):
    form = model.graph.network
    assert network_shapes(form) is network_shapes(form)


def test_a_callback_gets_the_lines_of_the_log_and_ends_the_run(tmp_path: Path) -> None:
    model = made("mlp(layers = 1, width = 8)", N, Q, "mask whole = everything(x)\nmask single = subsets(x, size = 1)\n")
    lines: list[dict] = []
    method = gm.Training(
        steps=60, batch_size=8, log=tmp_path / "log", callback=lines.append, evaluate_every=20,
        validation={"x": rows(9, 1), "masks": ["single"]},
    )  # fmt: skip
    fit = model.fit(rows(), mask="whole", method=method)
    assert lines == [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    steps, measured = ([line for line in lines if ("loss" in line) == own] for own in (True, False))
    assert [line["step"] for line in steps] == [line["step"] for line in measured] == [20, 40, 60]
    last = measured[-1]["validation_losses"]["single"]
    assert last == pytest.approx(float(model.loss(fit.params, rows(9, 1), mask="single")), abs=0.15)
    # nats per hidden cell: the mask hides one cell, so that its loss is that number
    assert all(line["gradient_norm"] > 0 for line in steps)
    assert steps[0]["learning_rate"] > steps[1]["learning_rate"] > steps[2]["learning_rate"] > 0
    ended = model.fit(rows(), mask="whole", method=gm.Training(steps=400, batch_size=8, callback=lambda line: line["step"] >= 40))
    assert ended.reason == "callback" and len(ended.loss_trace) == 40
    ended.save(tmp_path / "ended.fit")
    assert gm.load_fit(tmp_path / "ended.fit").reason == "callback"


def test_the_logged_norm_and_rate_are_those_of_the_step(model) -> None:
    lines: list[dict] = []
    start = model.init_params(3)
    model.fit(rows(8), init=start, optimizer=SGD, method=gm.Training(steps=1, batch_size=8, callback=lines.append))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda params: model.loss(params, rows(8), mask="whole") / N))(start)
    squares = sum(float((np.asarray(g) ** 2).sum()) for g in jax.tree.leaves(gradient[model.graph.network.label]))
    assert lines[-1]["gradient_norm"] == pytest.approx(squares**0.5, rel=1e-4)
    assert "learning_rate" not in lines[-1]


@pytest.mark.produces("E704")
def test_callbacks_and_masks_that_do_not_fit(model) -> None:
    wrong = (
        ({"callback": 3}, "callback must be a function"),
        ({"callback": lambda line: 1 / 0}, "callback raised ZeroDivisionError"),
        ({"validation": {"x": rows(3), "masks": "whole"}}, "must be a list of names"),
        ({"validation": {"x": rows(3), "masks": 3}}, "must be a list of names"),
        ({"validation": {"x": rows(3), "masks": ["hole"]}}, "did you mean `whole`"),
    )
    for options, words in wrong:
        with pytest.raises(gm.GmlmError, match=words):
            fitted(model, **options)


@pytest.mark.slow
@pytest.mark.parametrize("last", [20, 40])
def test_a_run_that_a_callback_ends_has_the_weights_of_its_last_step(model, last: int) -> None:
    ended = model.fit(
        rows(), optimizer=SGD, method=gm.Training(steps=400, batch_size=8, callback=lambda line: np.bool_(line["step"] >= last))
    )
    plain = model.fit(rows(), optimizer=SGD, method=gm.Training(steps=last, batch_size=8))
    assert ended.meta["kept"] == last and same(ended.params["net"], plain.params["net"])
    measured = {"validation": {"x": rows(5, 1)}, "evaluate_every": last}
    by_validation = gm.Training(steps=400, batch_size=8, callback=lambda line: "validation_loss" in line, **measured)
    assert same(model.fit(rows(), optimizer=SGD, method=by_validation).params["net"], plain.params["net"])
