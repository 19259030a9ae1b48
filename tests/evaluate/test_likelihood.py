"""Uncertain evidence, and the clamped cells that contradict each other, beside sums over all configurations written here."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from events import programs, traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.evaluate import limits
from gmlmdsl.evaluate._host_elimination import HostElimination

TEXT = """
domain sky = labels("sun", "rain", "snow")
model m {
  latent z : range(2)
  var x[i in range(3)] : bit
  var w : sky
  param J, b[a in sky]
  factor J * x[i] * x[i + 1] for i in range(2)
  factor b[w] + 0.7 * z * x[0] - 0.4 * x[2] * (w == "rain")
  require w != "snow" or x[1] == 0
}
"""
PARAMS = {"J": 0.8, "b": [0.2, -0.3, 0.5]}
WEIGHTS = {"x": {1: [0.2, 0.7]}, "w": [0.1, 3.0, 0.5]}


@pytest.fixture(params=["numpy", "compiled"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "compiled":
        monkeypatch.setattr(limits, "HOST_SECONDS", 0.0)
    return gm.parse(TEXT).model()


def table() -> dict[tuple[int, ...], float]:
    """p, unnormalised, of (z, x0, x1, x2, w), with and without the evidence."""
    out = {}
    for z, *x, w in itertools.product(range(2), range(2), range(2), range(2), range(3)):
        f = 0.8 * (x[0] * x[1] + x[1] * x[2]) + PARAMS["b"][w] + 0.7 * z * x[0] - 0.4 * x[2] * (w == 1)
        out[z, *x, w] = np.exp(f) * (w != 2 or x[1] == 0)
    return out


def told(state: tuple[int, ...]) -> float:
    return WEIGHTS["x"][1][state[2]] * WEIGHTS["w"][state[4]]


@pytest.mark.parametrize("clamp", [None, {"x": {2: 1}}])
def test_marginals_are_those_of_p_times_the_weights(model: Any, clamp: dict[str, Any] | None):
    p = {s: v * told(s) for s, v in table().items() if clamp is None or s[3] == 1}
    total = sum(p.values())
    found = model.marginals(PARAMS, clamp, likelihood=WEIGHTS)
    wanted = [[sum(v for s, v in p.items() if s[k] == a) / total for a in range(3 if k == 4 else 2)] for k in range(5)]
    np.testing.assert_allclose(found["z"], wanted[0], atol=2e-6)
    np.testing.assert_allclose(found["x"], wanted[1:4], atol=2e-6)
    np.testing.assert_allclose(found["w"], wanted[4], atol=2e-6)


def test_the_mode_is_that_of_p_times_the_weights(model: Any):
    p = table()
    best = max(p, key=lambda s: p[s] * told(s))
    configuration, log_p = model.map(PARAMS, likelihood=WEIGHTS)
    assert (int(configuration["z"]), *configuration["x"].tolist(), int(configuration["w"])) == best
    np.testing.assert_allclose(log_p, np.log(p[best] / sum(p.values())), rtol=1e-5)
    other, _ = model.map(PARAMS)
    assert int(other["w"]) != int(configuration["w"])  # the evidence decides


def test_a_weight_of_zero_excludes_a_value(model: Any):
    found = model.marginals(PARAMS, likelihood={"w": [1, 0, 1]})
    np.testing.assert_allclose(found["w"][1], 0.0, atol=1e-12)
    clamped = model.marginals(PARAMS, {"w": "snow"})
    only = model.marginals(PARAMS, likelihood={"w": [0, 0, 5.0]})
    for name in ("x", "z"):
        np.testing.assert_allclose(only[name], clamped[name], atol=2e-6)


@pytest.mark.parametrize(
    ("likelihood", "said"),
    [
        ([0.1], "E507.*must be a dict by variable"),
        ({"v": [1, 1]}, "no variable `v`"),
        ({"w": [1, 1]}, "E501.*must have shape \\(3,\\), got \\(2,\\)"),
        ({"x": {0: [1, 1, 1]}}, "E501.*\\(2,\\) for each cell"),
        ({"x": {7: [1, 1]}}, "7"),
        ({"w": [1, -1, 1]}, "E507.*at least 0"),
        ({"w": [0, 0, 0]}, "E507.*at least 0"),
        ({"w": ["a", "b", "c"]}, "E501.*must be numbers"),
    ],
)
def test_wrong_weights_are_refused(likelihood: Any, said: str):
    with pytest.raises(gm.GmlmError, match=f"(?s){said}"):
        gm.parse(TEXT).model().marginals(PARAMS, likelihood=likelihood)


def product(state: tuple[int, ...]) -> float:
    """p times the weights, unnormalised."""
    return table()[state] * told(state)


def test_log_z_and_log_p_are_those_of_p_times_the_weights(model: Any):
    """Log Z of the product minus log Z is the log of the mean weight; rows may lack cells."""
    p = table()
    total = sum(p[s] * told(s) for s in p)
    np.testing.assert_allclose(model.log_partition(PARAMS, likelihood=WEIGHTS), np.log(total), rtol=1e-6)
    np.testing.assert_allclose(model.log_partition(PARAMS), np.log(sum(p.values())), rtol=1e-6)
    rows = {"z": [1, 0], "x": [[0, 1, 1], [1, 1, 0]], "w": ["rain", "sun"]}
    wanted = np.log([product((1, 0, 1, 1, 1)) / total, product((0, 1, 1, 0, 0)) / total])
    np.testing.assert_allclose(model.log_prob(PARAMS, rows, likelihood=WEIGHTS), wanted, rtol=1e-5)
    of_w = [sum(product(s) for s in p if s[4] == a) / total for a in range(3)]
    found = model.log_prob(PARAMS, {"w": [0, 1, 2]}, missing=-1, likelihood=WEIGHTS)
    np.testing.assert_allclose(found, np.log(of_w), rtol=1e-5)


def test_rows_and_groups_have_the_evidence_too(model: Any):
    found = model.marginals(PARAMS, x={"x": [[-1, -1, 1], [-1, 0, -1]]}, missing=-1, likelihood=WEIGHTS)
    for r, clamp in enumerate(({"x": {2: 1}}, {"x": {1: 0}})):
        for name, wanted in model.marginals(PARAMS, clamp, likelihood=WEIGHTS).items():
            np.testing.assert_allclose(found[name][r], wanted, atol=2e-6)
    group = ("w", ("x", 1))
    joint = model.marginals(PARAMS, over=[group], likelihood=WEIGHTS)[group]
    wanted = [[sum(product(s) for s in table() if s[4] == a and s[2] == b) for b in range(2)] for a in range(3)]
    np.testing.assert_allclose(joint, np.array(wanted) / np.sum(wanted), atol=2e-6)


@pytest.mark.parametrize("method", ["belief-propagation", "chains", "anneal", "max-product"])
def test_approximations_have_the_evidence_too(method: str):
    """Without the couplings of x the factor graph is a tree, of which messages are exact."""
    model = gm.parse(TEXT).model()
    if method in ("anneal", "max-product"):
        found, wanted = (model.map(PARAMS, likelihood=WEIGHTS, method=m) for m in (method, None))
        assert all((found[0][k] == wanted[0][k]).all() for k in "zxw")
        np.testing.assert_allclose((found.log_potential, found.log_prob), (wanted.log_potential, wanted.log_prob), rtol=1e-5)
    else:
        found, wanted = (model.marginals(PARAMS, likelihood=WEIGHTS, method=m) for m in (method, None))
        np.testing.assert_allclose(found["w"], wanted["w"], atol=0.02)


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("sampler", ["exact", pytest.param("sweep", marks=pytest.mark.slow)])
def test_draws_are_those_of_p_times_the_weights(sampler: str):
    """4000 draws of w, whose shares have standard errors of at most 0.008; a weight of 0 excludes its value."""
    model = gm.parse(TEXT + "sampler sweep { update z update x[i] for i in range(3) update w }").model()
    options: dict[str, Any] = {"draws": 1000, "chains": 4, "seed": 2, "progress": False}
    drawn = model.sample(PARAMS, sampler, likelihood=WEIGHTS, **options)["posterior"]["w"].values
    shares = np.bincount(drawn.ravel(), minlength=3) / drawn.size
    np.testing.assert_allclose(shares, model.marginals(PARAMS, likelihood=WEIGHTS)["w"], atol=0.035)
    only = model.sample(PARAMS, sampler, likelihood={"w": [1, 0, 1]}, **options)["posterior"]["w"].values
    assert not (only == 1).any() and (only == 0).any()


def test_evidence_on_terms_of_a_count_and_beside_given_data():
    """A requirement of 16 cells is summed over counts; a model with given data is compiled."""
    count = gm.parse("model m { var x[i in range(16)] : bit  require count(x[i] == 1 for i in range(16)) == 1 }").model()
    weights = np.stack([np.ones(16), np.arange(1, 17)], axis=1)
    found = count.marginals({}, likelihood={"x": weights})["x"][:, 1]
    np.testing.assert_allclose(found, np.arange(1, 17) / np.arange(1, 17).sum(), atol=1e-6)
    assert count.map({}, likelihood={"x": weights})[0].argmax() == 15
    given = gm.parse("model m { given a : real  var x : bit  factor a * x }").model()
    odds = np.exp([0.5, -1.0]) * 3
    p = given.marginals({}, given={"a": [0.5, -1.0]}, likelihood={"x": [1, 3]})["x"][:, 1]
    np.testing.assert_allclose(p, odds / (1 + odds), rtol=1e-5)


def test_other_evidence_on_the_same_cells_compiles_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "HOST_SECONDS", 0.0)
    model = gm.parse(TEXT).model()
    model.marginals(PARAMS, likelihood=WEIGHTS)
    with traced_or_compiled() as events:
        model.marginals(PARAMS, likelihood={"x": {1: [0.5, 0.3]}, "w": [1.0, 2.0, 0.5]})
    assert programs(events) == 0


def test_evidence_that_changes_nothing():
    model = gm.parse(TEXT).model()
    for nothing in ({}, {"w": [1, 1, 1]}):
        np.testing.assert_array_equal(model.marginals(PARAMS, likelihood=nothing)["w"], model.marginals(PARAMS)["w"])


def test_decoders_and_grown_strings_say_that_they_have_no_likelihood():
    text = 'model m { var x[i in range(3)] : letters("AB")  param h  factor h * (x[0] == "A") }'
    model: Any = gm.parse(text + " verifier ok for m = completable(m) sampler d = random_order() sampler r = rejection(ok)").model()
    evidence = {"x": {0: [1, 2]}}
    with pytest.raises(gm.GmlmError, match=r"E507.*`likelihood` is of the model, and `sampler` of a decoder"):
        model.log_prob({"h": 0.0}, ["ABA"], sampler="d", likelihood=evidence)
    with pytest.raises(gm.GmlmError, match=r"E507.*`likelihood=` has no meaning for sampler `r`"):
        model.sample({"h": 0.0}, "r", draws=2, likelihood=evidence)
    drawn = model.sample({"h": 0.0}, "d", draws=2000, seed=1, likelihood=evidence, progress=False)["posterior"]["x"].values[..., 0]
    assert abs(drawn.mean() - 2 / 3) < 0.03  # a decoder draws by the conditionals of the product


def test_a_mode_has_labels():
    """Of labels and of letters, as texts that `log_prob` takes; for each row of given data."""
    mode = gm.parse(TEXT).model().map(PARAMS, {"w": "rain"})
    assert mode.labels["w"] == "rain" and mode.configuration["w"] == 1
    np.testing.assert_array_equal(mode.labels["x"], mode.configuration["x"])
    text = 'model m { given a : real  var x[i in range(2)] : letters("AB")  factor a * (x[i] == "B") for i in range(2) }'
    rows = gm.parse(text).model().map({}, given={"a": [1.0, -1.0]})
    assert rows.labels.tolist() == [["B", "B"], ["A", "A"]]
    assert pickle.loads(pickle.dumps(rows)).labels.tolist() == rows.labels.tolist()


def test_the_clamped_cells_that_contradict_each_other_are_named():
    """w = snow needs x[1] = 0; the other clamped cells have nothing to do with it."""
    model = gm.parse(TEXT).model()
    clamp = {"w": "snow", "x": {0: 1, 1: 1, 2: 0}, "z": 1}
    for call in (model.marginals, model.map):
        with pytest.raises(gm.GmlmError, match=r"clamped values of `x\[1\]`, `w`: together") as caught:
            call(PARAMS, clamp)
        assert "x[0]" not in str(caught.value)


def test_the_cells_of_a_row_that_contradict_each_other_are_named(model: Any):
    """Row 1 has snow and x[1] = 1; the rows have different gaps, and so different sums."""
    rows = {"x": [[0, 1, -1], [1, 1, 0]], "w": [0, 2]}
    with pytest.raises(gm.GmlmError, match=r"E512(.|\n)*agrees with row 1 of x at `x\[1\]`, `w`: together"):
        model.marginals(PARAMS, x=rows, missing=-1)


@pytest.mark.parametrize("verb", ["joint", "exact", "mean-field"])
def test_other_answers_name_the_cells_too(model: Any, verb: str):
    clamp = {"w": "snow", "x": {0: 1, 1: 1}}
    calls = {
        "joint": lambda: model.marginals(PARAMS, clamp, over=[("z", ("x", 2))]),
        "exact": lambda: model.sample(PARAMS, "exact", draws=2, clamp=clamp),
        "mean-field": lambda: model.marginals(PARAMS, clamp, method="mean-field"),
    }
    with pytest.raises(gm.GmlmError, match=r"E512(.|\n)*clamped values of `x\[1\]`, `w`: together"):
        calls[verb]()


def test_among_many_clamped_cells_two_are_found_by_halves(monkeypatch: pytest.MonkeyPatch):
    """Of 120 clamped cells 17 and 100 contradict each other: 2 * 2 * log2(60) sums for each of two orders, and a few."""
    pairs = "factor 0.1 * x[i] * x[i + 1] for i in range(119)  require x[17] != x[100]"
    model = gm.parse(f"model m {{ var x[i in range(121)] : bit {pairs} }}").model()
    asked, plain = [], HostElimination.log_sums
    monkeypatch.setattr(HostElimination, "log_sums", lambda self, codes: asked.append(0) or plain(self, codes))
    clamp = {"x": {i: 0 for i in range(120)}}
    with pytest.raises(gm.GmlmError, match=r"clamped values of `x\[17\]`, `x\[100\]`: together"):
        model.marginals({}, clamp)
    assert len(asked) < 60
    monkeypatch.setattr(limits, "MOST_CHECKED", 2)  # the search ends early: the two are still among those named
    with pytest.raises(gm.GmlmError, match=r"clamped values of `x\[\d+\]`, .* and \d+ more: together"):
        model.marginals({}, clamp)


def test_contradictions_that_propagation_finds_name_cells_of_which_none_can_be_left_out():
    """27 cells that differ from each other in rows of 9, whose sum costs too much: two of the clamped are alike, the third is not to blame."""
    text = "model m { var x[r in range(3), c in range(9)] : range(9)  require x[r, c] != x[r, d] for r in range(3), c in range(9), d in range(9) if c < d"
    text += "  require x[r, c] != x[s, c] for r in range(3), s in range(3), c in range(9) if r < s }"
    with pytest.raises(gm.GmlmError, match=r"E512(.|\n)*clamped values of `x\[0, 4\]`, `x\[0, 7\]`: together"):
        gm.parse(text).model().map({}, clamp={"x": {(0, 4): 2, (0, 7): 2, (2, 1): 5}})


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0)])
def test_the_smaller_of_two_contradictions_is_named(order: tuple[int, ...]):
    """Two cells contradict each other, and so do three; one of the two directions of the search finds the three."""
    a, b, c, d = order
    text = f"model m {{ var x[i in range(4)] : bit  require x[{a}] != x[{b}]  require x[{b}] + x[{c}] + x[{d}] <= 2 }}"
    one, other = sorted((a, b))
    with pytest.raises(gm.GmlmError, match=rf"clamped values of `x\[{one}\]`, `x\[{other}\]`: together"):
        gm.parse(text).model().map({}, clamp={"x": {0: 1, 1: 1, 2: 1, 3: 1}})
