"""What cannot be asked of a conditional model, and what is asked wrongly: a code, and words that say what was found and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest
from networks_cases import made, program

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")

N, Q, M = 4, 3, 5
MORE = """
mask one = subsets(x, size = 1)
mask whole = everything(x)
mask nothing = bernoulli(x, rate = 0)
mask many = bernoulli(x, rate = 0.5)
mask looks given s { choose {x[i]} for i in range(4) weight s[i] }
sampler cells { update x[i] for i in range(4) }
sampler pairs { update x[K] independently where K ~ many }
sampler weighed { update x[K] independently where K ~ looks }
sampler decode = refinement(steps = 2)
"""
GIVEN = f"s[j in range({M})] : range(4)\nw[j in range(2)] : real"


@pytest.fixture(scope="module")
def model() -> Any:
    return made("mlp(layers = 1, width = 4)", N, Q, MORE, GIVEN)


@pytest.fixture(scope="module")
def params(model: Any) -> Any:
    return model.init_params()


X = np.array([[0, 1, 2, 0], [2, 2, 1, 1]])
G = {"s": np.array([[0, 1, 2, 3, 0], [3, 3, 1, -1, -1]]), "w": np.array([[0.5, -1.0], [2.0, 0.0]])}
ONE = {"s": [0, 1, 2, 3, 0], "w": [0.5, -1.0]}


def refused(call: Callable[[], object], code: str) -> str:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    assert caught.value.codes == (code,), str(caught.value)
    return str(caught.value)


# No joint law

VERBS: dict[str, Callable[[Any, Any], object]] = {
    "log_prob": lambda m, p: m.log_prob(p, X, given=G, missing=-1),
    "log_potential": lambda m, p: m.log_potential(p, X, given=G, missing=-1),
    "log_partition": lambda m, p: m.log_partition(p, given=ONE),
    "map": lambda m, p: m.map(p, given=ONE),
    "marginals": lambda m, p: m.marginals(p, given=ONE),
    "next_symbol": lambda m, p: m.next_symbol(p, [[0]], given=ONE),
    "bridge": lambda m, p: m.bridge_log_partition(p, "cells"),
    "annealed": lambda m, p: m.annealed_log_partition(p, "cells"),
    "annealed_sweeps": lambda m, p: m.annealed_log_partition(p),
    "bias": lambda m, p: m.sampler_bias(p, "cells", given=ONE),
    "exact": lambda m, p: m.sample(p, "exact", given=ONE, draws=3),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_of_a_joint_law_are_refused_with_the_reason(model: Any, params: Any, verb: str):
    text = refused(lambda: VERBS[verb](model, params), "E742")
    assert "p(x_i | x_rest, K)" in text
    assert "no joint distribution" in text
    assert "`log_conditional`, `loss`, `fit` and `sample`" in text


@pytest.fixture(scope="module")
def plain() -> Any:
    """A model of the same kind without given variables."""
    return made("mlp(layers = 1, width = 4)", N, 2, MORE.replace("given s", "").replace("weight s[i]", "weight 1 + i"))


THEORY: dict[str, Callable[[Any, Any], object]] = {
    "fisher_information": lambda m, p: gm.theory.fisher_information(m, p),
    "asymptotic_covariance": lambda m, p: gm.theory.asymptotic_covariance(m, p, mask="one"),
    "estimated_covariance": lambda m, p: gm.theory.estimated_covariance(m, p, mask="one"),
    "pseudolikelihood_information": lambda m, p: gm.theory.pseudolikelihood_information(m, p),
    "compare_masks": lambda m, p: gm.theory.compare_masks(m, p, masks=["one", "whole"]),
    "suggest_masks": lambda m, p: gm.theory.suggest_masks(m, p),
    "product_gap": lambda m, p: gm.theory.product_gap(m, p, mask="whole"),
    "entropy_tensorization": lambda m, p: gm.theory.entropy_tensorization(m, p, mask="one"),
    "log_sobolev_constant": lambda m, p: gm.theory.log_sobolev_constant(m, p, mask="one"),
    "divergence": lambda m, p: gm.theory.divergence(m, p, mask="one"),
    "poincare_constant": lambda m, p: gm.theory.poincare_constant(m, p, mask="one"),
    "relaxation_time": lambda m, p: gm.theory.relaxation_time(m, p, mask="one"),
    "spectral_gap": lambda m, p: gm.theory.spectral_gap(m, p, sampler="cells"),
    "mixing_time": lambda m, p: gm.theory.mixing_time(m, p, sampler="cells"),
    "mixing_time_of_a_mask": lambda m, p: gm.theory.mixing_time(m, p, mask="one"),
    "stationary_law": lambda m, p: gm.theory.stationary_law(m, p, sampler="cells"),
    "stationary_bias": lambda m, p: gm.theory.stationary_bias(m, p, sampler="pairs"),
    "hitting_time": lambda m, p: gm.theory.hitting_time(m, p, lambda x: x.sum() == 0, sampler="cells"),
    "sampler_agreement": lambda m, p: gm.theory.sampler_agreement(m, p, ["cells", "exact"]),
    "mode_separation": lambda m, p: gm.theory.mode_separation(m, p, k=2),
    "generalization_bound": lambda m, p: gm.theory.generalization_bound(m, p, mask="one", box=0.5, n=100, m=10, epsilon=0.1),
    "decoder": lambda m, p: gm.theory.spectral_gap(m, p, sampler="decode"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "sampler_agreement")) for n in THEORY])
def test_theory_that_needs_a_joint_law_is_refused(plain: Any, name: str):
    params = plain.init_params()
    text = refused(lambda: THEORY[name](plain, params), "E742")
    assert "joint distribution" in text


@pytest.mark.parametrize(
    ("sampler", "code", "words"),
    [
        ("sampler s { temper(betas = [0.5, 1]) { update x[i] for i in range(4) } }", "E314", "scales log p"),
        ("sampler s { update x }", "E314", "independently"),
        ("sampler s { update x[K] where K ~ whole }", "E314", "independently"),
        ("sampler s { update {x[0], x[1]} }", "E314", "independently"),
        ("mask eyes given x { choose {x[0]} weight x[1] }\nsampler s { update x[K] where K ~ eyes }", "E307", "cannot be corrected"),
        (
            "mask eyes given x { choose {x[0]} weight x[1] }\nsampler s { update x[K] independently where K ~ eyes }",
            "E307",
            "without `given`",
        ),
        ("mask eyes given x { choose {x[0]} weight x[1] }\nsampler s = refinement(schedule = eyes)", "E307", "cannot be corrected"),
    ],
)
def test_samplers_that_need_a_joint_law_are_refused_before_anything_runs(sampler: str, code: str, words: str):
    text = program("mlp(layers = 1, width = 4)", N, Q, f"mask whole = everything(x)\n{sampler}\n")
    assert words in refused(lambda: gm.parse(text), code)


def test_a_mask_whose_weights_mention_given_data_does_not_sample(model: Any, params: Any):
    text = refused(lambda: model.sample(params, "weighed", given=ONE, draws=2), "E741")
    assert "looks at given data" in text
    assert "E741" in refused(lambda: model.transition_matrix(params, "weighed", given=ONE), "E741")


@pytest.mark.slow  # a training; the gate's are in tests/train
def test_a_mask_whose_weights_mention_given_data_trains(model: Any):
    fit = model.fit(X, "looks", given={"s": np.ones((2, M), int), "w": G["w"]}, method=gm.Training(steps=1))
    assert np.isfinite(fit.loss_trace).all()


# Parameters


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda p: None, "NoneType"),
        (lambda p: p["net"], "MLP"),
        (lambda p: {}, "a dict of \\[\\]"),
        (lambda p: p | {"more": 1}, "more"),
        (lambda p: {"other": p["net"]}, "other"),
        (lambda p: {"net": 3}, "does not fit its declaration"),
        (lambda p: {"net": jax.tree.map(lambda a: a[:1], p["net"])}, "does not fit its declaration"),
    ],
)
def test_parameters_are_the_declared_network(model: Any, params: Any, change: Callable[[Any], Any], word: str):
    wrong = change(params)
    for call in (lambda: model.loss(wrong, X, "one", given=G, missing=-1), lambda: model.sample(wrong, "decode", given=ONE)):
        with pytest.raises(gm.GmlmError, match=word) as caught:
            call()
        assert caught.value.codes == ("E509",)
    with pytest.raises(gm.GmlmError) as caught:
        model.fit(X, "one", init=wrong if wrong is not None else 3, given=G, missing=-1)
    assert caught.value.codes == ("E509",)


@pytest.mark.slow
def test_parameters_of_another_size_name_the_array(model: Any):
    other = made("mlp(layers = 1, width = 6)", N, Q, MORE, GIVEN)
    text = refused(lambda: model.loss(other.init_params(), X, "one", given=G, missing=-1), "E509")
    assert "is (" in text
    assert "were these parameters made for other sizes or options?" in text


def test_parameters_of_the_same_shapes_must_mean_the_same():
    def net(options: str) -> Any:
        return made(f"transformer(layers = 1, width = 8, {options})", N, Q, "mask one = subsets(x, size = 1)")

    model = net("heads = 2, dropout = 0.1")
    # The first difference in the order of declaration, whatever else differs: heads stand before the table with a column for each.
    other = {
        "heads = 4": ".encoder.layers[0].attention.heads is 4, not 2",
        "heads = 2, position_embeddings = true": ".position_embeddings is True, not False",
    }
    for options, words in other.items():
        params = net(options).init_params()
        assert words in refused(lambda p=params: model.loss(p, X, "one", missing=-1), "E509")
    assert np.isfinite(model.loss(net("heads = 2").init_params(), X, "one", missing=-1))  # how it is trained may differ


# Data

BAD_DATA: list[tuple[str, str, Callable[[Any, Any], object]]] = [
    ("E510", "given", lambda m, p: m.loss(p, X, "one")),
    ("E510", "`w`", lambda m, p: m.loss(p, X, "one", given={"s": G["s"]}, missing=-1)),
    ("E510", "`more`", lambda m, p: m.loss(p, X, "one", given=G | {"more": [1]}, missing=-1)),
    ("E510", "rows of shape", lambda m, p: m.loss(p, X, "one", given={"s": G["s"][:1], "w": G["w"][:1]}, missing=-1)),
    ("E510", "before its last one", lambda m, p: m.loss(p, X, "one", given={"s": [0, -1, 2, 3, 0], "w": [0.0, 1.0]}, missing=-1)),
    ("E501", "shape", lambda m, p: m.loss(p, X[:, :3], "one", given=G, missing=-1)),
    ("E502", "3", lambda m, p: m.loss(p, X + 1, "one", given=G, missing=-1)),
    ("E502", "9", lambda m, p: m.loss(p, X, "one", given={"s": G["s"] * 0 + 9, "w": G["w"]}, missing=-1)),
    (
        "E510",
        "missing: given values have no distribution",
        lambda m, p: m.loss(p, X, "one", given={"s": abs(G["s"]), "w": G["w"] * np.nan}),
    ),
    ("E506", "`none`", lambda m, p: m.loss(p, X, "none", given=G, missing=-1)),
    ("E505", "one axis of rows", lambda m, p: m.fit(X[0], "one", given=ONE)),
    ("E505", "rows", lambda m, p: m.fit(X[:0], "one", given=ONE)),
    ("E410", "never hides a cell", lambda m, p: m.fit(X, "nothing", given=G, missing=-1)),
    ("E501", "weights", lambda m, p: m.fit(X, "one", given=G, missing=-1, weights=[1.0])),
    ("E507", "K must be distinct", lambda m, p: m.log_conditional(p, X, K=(0, 4), given={"s": abs(G["s"]), "w": G["w"]})),
    ("E507", "distinct", lambda m, p: m.log_conditional(p, X, K=(1, 1), given={"s": abs(G["s"]), "w": G["w"]})),
    ("E510", "one row", lambda m, p: m.transition_matrix(p, "cells", given={"s": abs(G["s"]), "w": G["w"]})),
    ("E507", "no matrix", lambda m, p: m.transition_matrix(p, "decode", given=ONE)),
]


@pytest.mark.parametrize(("code", "word", "call"), BAD_DATA, ids=[f"{c}-{w}" for c, w, _ in BAD_DATA])
def test_data_that_do_not_fit(model: Any, params: Any, code: str, word: str, call: Callable[[Any, Any], object]):
    assert word in refused(lambda: call(model, params), code)


def test_a_table_or_a_matrix_that_is_too_large_says_how_large():
    more = "mask one = subsets(x, size = 1)\nsampler s { update x[K] where K ~ one }\n"
    large = made("mlp(layers = 1, width = 4)", 14, 4, more)
    params = large.init_params()
    assert "2.68e+08 entries" in refused(lambda: large.log_conditional(params, [0] * 14, K=range(14)), "E601")
    assert "configurations" in refused(lambda: large.transition_matrix(params, "s"), "E601")


# Sampling

BAD_SAMPLES: list[tuple[str, str, dict[str, Any]]] = [
    ("E507", "from 1 to 4", {"lengths": 0}),
    ("E507", "from 1 to 4", {"lengths": 5}),
    ("E507", "from 1 to 4", {"lengths": 2.0}),
    ("E507", "from 1 to 4", {"lengths": [2, 3, 4]}),
    ("E507", "from 1 to 4", {"lengths": True}),
    ("E507", "from 1 to 4", {"lengths": "two"}),
    ("E506", "`paths`", {"observe": ["paths"]}),
    ("E507", "lists some of candidates, trace", {"observe": {"m": lambda x: x.sum()}}),
    ("E507", "lists some of candidates, trace", {"observe": "trace"}),
    ("E507", "keep_draws", {"keep_draws": False}),
    ("E507", "draws", {"draws": 0}),
    ("E507", "chains", {"chains": -1}),
    ("E507", "seed", {"seed": -1}),
    ("E501", "init", {"init": [[0, 1]]}),
    ("E502", "init", {"init": [0, 1, 2, 7]}),
    ("E501", "clamp", {"clamp": {"x": [0, 1]}}),
    ("E507", "9", {"clamp": {"x": {9: 1}}}),
    ("E510", "given", {"given": None}),
    ("E510", "before its last one", {"given": {"s": [0, -1, 2, 3, 0], "w": [0.0, 1.0]}, "missing": -1}),
    ("E501", "init must hold", {"given": {k: np.abs(v) for k, v in G.items()}, "init": np.zeros((3, 4), int)}),
    ("E501", "clamp['x'] must hold", {"given": {k: np.abs(v) for k, v in G.items()}, "clamp": {"x": np.full((3, 4), -1)}, "missing": -1}),
]


@pytest.mark.parametrize(
    ("code", "word", "options"), BAD_SAMPLES, ids=[f"{next(reversed(o))}-{k}" for k, (_, _, o) in enumerate(BAD_SAMPLES)]
)
def test_a_decode_that_is_asked_for_wrongly(model: Any, params: Any, code: str, word: str, options: dict[str, Any]):
    assert word in refused(lambda: model.sample(params, "decode", **{"given": ONE} | options), code)


def test_several_lengths_need_a_network_that_predicts_them():
    more = "mask whole = everything(x)\nsampler s = refinement(lengths = 2)\n"
    text = program("mlp(layers = 1, width = 4)", N, Q, more)
    assert "there is one length" in refused(lambda: gm.parse(text), "E325")


def test_a_sampler_that_there_is_not(model: Any, params: Any):
    assert "`cels`" in refused(lambda: model.sample(params, "cels", given=ONE), "E506")


# Training

BAD_TRAINING: list[tuple[str, Any]] = [
    *(
        (name, {name: value})
        for name in ("steps", "batch_size", "accumulate", "evaluate_every", "save_every")
        for value in (0, 1.5, True, "2")
    ),
    *(("label_smoothing", {"label_smoothing": v}) for v in (-0.1, 1.0, "much")),
    *(("ema", {"ema": v}) for v in (1.0, -1)),
    *(("learning_rate", {"learning_rate": v}) for v in (0, -1, "fast", float("nan"))),
    ("warmup", {"warmup": -1}),
    ("precision", {"precision": "float16"}),
    ("patience", {"patience": 3}),
    ("validation", {"validation": {"y": X}}),
    ("validation", {"validation": X}),
    ("patience", {"patience": 0, "validation": {"x": X}}),
]


@pytest.mark.parametrize(("word", "options"), BAD_TRAINING, ids=[f"{w}-{k}" for k, (w, _) in enumerate(BAD_TRAINING)])
def test_options_of_training_that_cannot_be_meant(plain: Any, word: str, options: dict[str, Any]):
    text = refused(lambda: plain.fit(X % 2, "one", method=gm.Training(**options)), "E704")
    assert word in text


@pytest.mark.parametrize(
    ("code", "word", "options"),
    [
        ("E704", "gm.Training", {"method": "adam"}),
        ("E704", "gm.Training", {"method": gm.PersistentContrastiveDivergence()}),
        ("E704", "`batch_size`", {"method": gm.Training(steps=1), "batch_size": 3}),
        ("E704", "`max_steps`", {"method": gm.Training(steps=1), "max_steps": 3}),
        ("E507", "n_masks", {"n_masks": "all"}),
        ("E507", "n_masks", {"n_masks": 0}),
        ("E507", "optimizer", {"optimizer": "adam"}),
        ("E507", "buckets", {"method": gm.Training(steps=1, buckets=(2, 3))}),
        ("E507", "buckets", {"method": gm.Training(steps=1, buckets=(4, 4))}),
        ("E506", "mask", {"mask": None}),
    ],
)
def test_arguments_of_a_fit_that_cannot_be_meant(plain: Any, code: str, word: str, options: dict[str, Any]):
    assert word in refused(lambda: plain.fit(X % 2, **{"mask": "one"} | options), code)


def test_validation_rows_are_checked_as_rows_are(plain: Any):
    assert "E502" in refused(lambda: plain.fit(X % 2, "one", method=gm.Training(steps=1, validation={"x": X})), "E502")


@pytest.mark.slow
def test_a_log_that_cannot_be_written(plain: Any, tmp_path: Any):
    refused(lambda: plain.fit(X % 2, "one", optimizer=optax.sgd(0.1), method=gm.Training(steps=1, log=tmp_path / "none" / "log")), "E560")


def test_a_plan_has_no_meaning_for_a_product(plain: Any):
    assert "product over cells" in refused(lambda: plain.program.model("by_net", plan="enumeration"), "E507")


def test_the_model_says_what_it_is(model: Any, params: Any):
    count = sum(a.size for a in jax.tree.leaves(params))
    assert repr(model) == f"Model `by_net`: 4 cells, network `net` of {count:,} parameters"
