"""Exact answers in NumPy: against enumeration, against compiled sums, and which of the two engines answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import BY_NAME, Case
from events import programs, traced_or_compiled
from test_exact import ALL, EXACT, given_held, held, verify
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import limits

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
# Eight questions of Asia (Lauritzen and Spiegelhalter 1988), whose answers are published with it.
ASIA = """
domain yes = labels("no", "yes")
model asia {
  var asia, tub, smoke, lung, bronc, either, xray, dysp : yes
  asia ~ categorical([0.99, 0.01])
  tub ~ categorical(if asia == "yes" then [0.95, 0.05] else [0.99, 0.01])
  smoke ~ categorical([0.5, 0.5])
  lung ~ categorical(if smoke == "yes" then [0.9, 0.1] else [0.99, 0.01])
  bronc ~ categorical(if smoke == "yes" then [0.4, 0.6] else [0.7, 0.3])
  either ~ categorical(if lung == "yes" or tub == "yes" then [0, 1] else [1, 0])
  xray ~ categorical(if either == "yes" then [0.02, 0.98] else [0.95, 0.05])
  dysp ~ categorical(if either == "yes" then (if bronc == "yes" then [0.1, 0.9] else [0.3, 0.7])
                     else (if bronc == "yes" then [0.2, 0.8] else [0.9, 0.1]))
}
"""
GRID = """
model m {
  var x[i in range(12), j in range(12)] : spin
  param J
  factor J * x[i, j] * x[i + 1, j] for i in range(11), j in range(12)
  factor J * x[i, j] * x[i, j + 1] for i in range(12), j in range(11)
}
"""


def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are compiled from now on."""
    monkeypatch.setattr(limits, "HOST_SECONDS", -1.0)


@pytest.mark.parametrize("of", ALL, ids=str)
def test_answers_are_those_of_enumeration(of: Case):
    p = of.oracle.probabilities(of.params)
    with traced_or_compiled() as events:
        verify(of.model, of.oracle, of.params, p, np.log(p.max()))
        clamp, agree = held(of.oracle, of.rows[0])
        verify(of.model, of.oracle, of.params, given_held(p, agree), np.log(p[agree].max()), clamp=clamp)
        found = of.model.log_prob(of.params, of.values(of.rows[:3]))
    np.testing.assert_allclose(found, of.oracle.log_prob(of.params, of.rows[:3]), **EXACT)
    assert programs(events) == 0


@pytest.mark.parametrize("of", thinned(ALL[::3], 2), ids=str)
def test_both_engines_choose_the_same_mode(of: Case, monkeypatch: pytest.MonkeyPatch):
    found, _ = of.model.map(of.params)
    compiled(monkeypatch)
    wanted, _ = of.model.map(of.params)
    for name in wanted if isinstance(wanted, dict) else [None]:
        np.testing.assert_array_equal(found if name is None else found[name], wanted if name is None else wanted[name])


def test_incomplete_rows_and_joint_marginals(monkeypatch: pytest.MonkeyPatch):
    of = BY_NAME["weather"]
    names = list(of.oracle.bound.variables)
    x = {k: v.astype(int) for k, v in of.oracle.decode(of.rows[:4]).items()}
    for k, name in enumerate(names):
        x[name].reshape(4, -1)[k % 4, 0] = -9
    over = [tuple(n for n in names if x[n].ndim == 1)[:2]]

    def answers() -> list[Any]:
        model = of.program.model()
        return [
            model.marginals(of.params, x=x, missing=-9),
            {"log p": model.log_prob(of.params, x, missing=-9)},
            model.marginals(of.params, over=over) if over[0] else {},
        ]

    found = answers()
    compiled(monkeypatch)
    for mine, wanted in zip(found, answers(), strict=True):
        assert mine.keys() == wanted.keys()
        for name in wanted:
            np.testing.assert_allclose(mine[name], wanted[name], **EXACT, err_msg=str(name))


CHAIN = """
model hmm {
  latent z[t in range(6)] : range(2)
  var x[t in range(6)] : range(3)
  param move[a in range(2), b in range(2)] : simplex
  param play[a in range(2), c in range(3)] : simplex
  z[0] ~ categorical([0.5, 0.5])
  z[t] ~ categorical(move[z[t - 1]]) for t in range(1, 6)
  x[t] ~ categorical(play[z[t]]) for t in range(6)
}
"""


def test_next_symbols_are_those_of_the_forward_algorithm():
    move, play = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.6, 0.4, 0.0], [0.1, 0.3, 0.6]])
    model, prefix = gm.parse(CHAIN).model(), [0, 2, 1]
    hidden = np.array([0.5, 0.5])
    for symbol in prefix:
        hidden = (hidden * play[:, symbol]) @ move
    with traced_or_compiled() as events:
        found = model.next_symbol({"move": move, "play": play}, [prefix, [0, 0, 0]])
        impossible = model.next_symbol({"move": np.eye(2), "play": np.eye(3)[[0, 1]]}, [[0, 2]])
    np.testing.assert_allclose(found[0], hidden / hidden.sum() @ play, **EXACT)
    assert np.isnan(impossible).all() and programs(events) == 0


def test_asia_gives_its_published_answers():
    model = gm.parse(ASIA).model()
    found = model.marginals({})
    wanted = {"tub": 0.0104, "lung": 0.055, "bronc": 0.45, "either": 0.064828, "xray": 0.11029004, "dysp": 0.4359706}
    for name, p in wanted.items():
        np.testing.assert_allclose(found[name][1], p, atol=1e-7)
    ill = {"dysp": "yes", "asia": "yes", "smoke": "yes"}
    assert model.marginals({}, clamp=ill)["bronc"][1] > found["bronc"][1]
    joint = model.marginals({}, over=[("lung", "bronc")])["lung", "bronc"]
    np.testing.assert_allclose(joint[1, 1], 0.5 * 0.1 * 0.6 + 0.5 * 0.01 * 0.3, atol=1e-12)


def test_impossible_evidence_is_refused_as_ever():
    model = gm.parse(ASIA).model()
    with pytest.raises(gm.GmlmError) as caught:
        model.marginals({}, clamp={"either": "no", "lung": "yes"})
    assert caught.value.codes == ("E512",)
    with pytest.raises(gm.GmlmError) as caught:
        model.map({}, clamp={"either": "no", "lung": "yes"})
    assert caught.value.codes == ("E512",)


def test_a_model_that_is_asked_again_and_again_is_compiled(monkeypatch: pytest.MonkeyPatch):
    """The estimated time of all answers decides, and no clock: the third question is the first to be compiled."""
    model = gm.parse(ASIA).model()
    monkeypatch.setattr(limits, "HOST_SECONDS", 1e9)
    found = model.marginals({})
    one = model._contractions._host_seconds
    assert one > 0
    model = gm.parse(ASIA).model()
    monkeypatch.setattr(limits, "HOST_SECONDS", 2.5 * one)
    counts = []
    for _ in range(3):
        with traced_or_compiled() as events:
            again = model.marginals({})
        counts.append(programs(events) > 0)
        for name, table in found.items():
            np.testing.assert_allclose(again[name], table, **EXACT)
    assert counts == [False, False, True]


def test_large_sums_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch):
    model = gm.parse(GRID).model()
    found = model.log_partition({"J": 0.3})
    monkeypatch.setattr(limits, "HOST_SECONDS", 0.01)
    model = gm.parse(GRID).model()
    with traced_or_compiled() as events:
        again = model.log_partition({"J": 0.3})
    assert programs(events) > 0
    np.testing.assert_allclose(found, again, rtol=1e-12)


def test_parameters_are_read_at_each_call():
    model = gm.parse("model m { var x[i in range(3)] : spin  param h[i in range(3)]  factor h[i] * x[i] for i in range(3) }").model()
    for h in (np.array([0.1, 0.2, 0.3]), np.array([1.0, -0.5, 0.0])):
        np.testing.assert_allclose(model.marginals({"h": h})["x"][:, 1], 1 / (1 + np.exp(-2 * h)), **EXACT)


def test_joint_marginals_of_a_clamped_cell_hold_its_value():
    model = gm.parse(ASIA).model()
    joint = model.marginals({}, clamp={"smoke": "yes"}, over=[("smoke", "lung")])["smoke", "lung"]
    np.testing.assert_allclose(joint, [[0, 0], [0.9, 0.1]], atol=1e-12)
