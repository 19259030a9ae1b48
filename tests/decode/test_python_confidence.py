"""Confidences, planners and schedules of the user's own: those of the language written again in Python decode alike, and what they may not be."""

from __future__ import annotations

import pickle
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import Source
from gmlmdsl.explain import explain
from gmlmdsl.graph import bind
from gmlmdsl.plan import check_bound
from gmlmdsl.program import check_source

pytestmark = [
    pytest.mark.usefixtures("float64"),
    *map(pytest.mark.filterwarnings, ("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.sample.SamplingWarning")),
]
PROGRAM = """
model m {
  var   x[i in range(4)] : range(3)
  param J
  factor J * x[i] * x[i + 1] for i in range(3)
  factor if x[i] == 1 then 0.2 * i for i in range(4)
}
sampler named  = refinement(steps = 2, schedule = linear, decode = sample, confidence = NAMED)
sampler called = refinement(steps = 2, schedule = linear, decode = sample, confidence = python("own_confidence:NAMED"))
"""
NETWORK = "network net = mlp(width = 4)\nmodel m { var x[i in range(4)] : range(3) conditional x ~ net() }\n"
PLAIN = "model m { var x[i in range(4)] : range(3) factor 0.3 * x[i] * x[i + 1] for i in range(3) }"
DECODERS = """
sampler listed  for m = random_order(schedule = counts([1, 1, 2]))
sampler counted for m = random_order(schedule = python("own_confidence:counts"))
sampler capped  for m = refinement(decode = sample, remask = remdm_cap, eta = 0.4, schedule = counts([1, 1, 2]))
sampler hiding  for m = refinement(decode = sample, remask = remdm_cap, eta = 0.4, schedule = python("own_confidence:counts"))
sampler self    for m = refinement(steps = 3, schedule = linear, decode = sample, planner = self, eta = 2)
sampler planned for m = refinement(steps = 3, schedule = linear, decode = sample, planner = python("own_confidence:plan"), eta = 2)
"""
PARAMS = {"J": 0.3}


def entropy(log_p):
    """1 - entropy / log q."""
    p = jnp.exp(log_p)
    return 1 + jnp.where(p > 0, p * log_p, 0.0).sum(-1) / jnp.log(log_p.shape[-1])


def margin(log_p):
    """The lead of the likeliest value."""
    best = jnp.sort(jnp.exp(log_p), axis=-1)
    return best[..., -1] - best[..., -2]


def last(log_p):
    """Confident in the last cells, whatever their distributions are."""
    return jnp.broadcast_to(jnp.arange(log_p.shape[-2], dtype=log_p.dtype), log_p.shape[:-1])


def counts(n):
    """One cell in each pass, and the rest in the last."""
    return [1, 1, n - 2]


def plan(codes, log_p):
    """log p of each cell's value by the pass itself, which is the planner `self`."""
    return jnp.take_along_axis(log_p, codes[..., None], axis=-1)[..., 0]


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of this file as a module that programs can name."""
    own = type(sys)("own_confidence")
    vars(own).update(
        entropy=entropy,
        margin=margin,
        last=last,
        counts=counts,
        plan=plan,
        table=lambda log_p: log_p,
        whole=lambda log_p: log_p.argmax(axis=-1),
        second_axis=lambda log_p: log_p.max(axis=1),
        huge=lambda n: [2**62] * 4 + [n],
        broken=lambda log_p: log_p.nothing,
        undefined=lambda log_p: (jnp.exp(log_p) * log_p).sum(-1),
        number=3,
    )
    monkeypatch.setitem(sys.modules, "own_confidence", own)


def model_with(name: str) -> gm.Model:
    text = PROGRAM.replace('"own_confidence:NAMED"', f'"own_confidence:{name}"').replace(
        "NAMED", name if name in ("entropy", "margin") else "entropy"
    )
    return gm.parse(text, allow_python=True).model()


@pytest.mark.parametrize("name", thinned(["entropy", "margin"], 2))
@pytest.mark.slow
def test_a_function_decodes_as_the_word_that_it_writes_again(name: str) -> None:
    model = model_with(name)
    named, called = (np.asarray(gm.theory.output_law(model, PARAMS, sampler=s).probabilities) for s in ("named", "called"))
    np.testing.assert_allclose(called, named, atol=1e-12)
    drawn = [np.asarray(model.sample(PARAMS, s, draws=50, chains=1, seed=0).posterior["x"]) for s in ("named", "called")]
    np.testing.assert_array_equal(*drawn)


def test_an_order_of_places_is_a_confidence_too() -> None:
    """The last two cells settle first, the first two given them: the product of two marginals, and of two conditionals."""
    model = model_with("last")
    law = np.asarray(gm.theory.output_law(model, PARAMS, sampler="called").probabilities)
    states = np.indices((3,) * 4).reshape(4, -1).T
    p = np.exp(np.asarray(model.log_prob(PARAMS, states))).reshape(law.shape)
    tail = [p.sum(axis=tuple(k for k in range(4) if k != cell)) for cell in (2, 3)]
    given = p / p.sum(axis=(0, 1), keepdims=True)
    expected = given.sum(axis=1, keepdims=True) * given.sum(axis=0, keepdims=True) * tail[0][:, None] * tail[1][None, :]
    np.testing.assert_allclose(law, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table", r"must return floats of shape \(4,\) for log p of shape \(4, 3\), got float64 of shape \(4, 3\)"),
        ("whole", r"must return floats of shape \(4,\) for log p of shape \(4, 3\), got int"),
        ("second_axis", r"must return floats of shape \(5, 7, 4\) for log p of shape \(5, 7, 4, 3\), got float64 of shape \(5, 4, 3\)"),
        ("broken", "cannot be called: AttributeError"),
        ("undefined", "returns NaN where a value has probability 1"),
        ("number", "is not a function"),
        ("nowhere", "cannot be imported"),
    ],
)
def test_a_function_that_does_not_fit_is_reported_before_a_draw(name: str, words: str) -> None:
    with pytest.raises(gm.GmlmError, match=words):
        model_with(name).sample(PARAMS, "called", draws=1, chains=1)


def test_cells_whose_confidence_has_no_order_settle_in_the_last_pass() -> None:
    """The last two cells have numbers and settle first; NaN and -infinity of the first two come after them."""

    def some(log_p):
        place = jnp.broadcast_to(jnp.arange(log_p.shape[-2]), log_p.shape[:-1])
        unordered = jnp.where(jnp.isneginf(log_p[..., 1]), 0.0, jnp.where(place % 2 == 1, jnp.nan, -jnp.inf))
        return jnp.where(place >= 2, place.astype(log_p.dtype), unordered)

    vars(sys.modules["own_confidence"])["some"] = some
    laws = [np.asarray(gm.theory.output_law(model_with(f), PARAMS, sampler="called").probabilities) for f in ("some", "last")]
    np.testing.assert_allclose(*laws, atol=1e-12)


WRITTEN = [("listed", "counted"), ("self", "planned"), ("capped", "hiding")]


@pytest.mark.parametrize(("network", "word", "function"), thinned([(n, *w) for n in (True, False) for w in WRITTEN], 8))
def test_a_schedule_and_a_planner_decode_as_what_they_write_again(network: bool, word: str, function: str) -> None:
    text = NETWORK if network else PROGRAM[: PROGRAM.index("sampler")]
    bounds = "mask a = visits(listed)\nmask b = visits(counted)\n" * network
    model = gm.parse(text + DECODERS + bounds, allow_python=True).model()
    params = model.init_params(seed=0) if isinstance(model, gm.ConditionalModel) else PARAMS
    laws = [np.asarray(gm.theory.output_law(model, params, sampler=s).probabilities) for s in (word, function)]
    np.testing.assert_allclose(*laws, atol=1e-12)
    drawn = [np.asarray(model.sample(params, s, draws=30, chains=1, seed=0).posterior["x"]) for s in (word, function)]
    np.testing.assert_array_equal(*drawn)
    rows = drawn[0].reshape(-1, 4)[:5]
    if word == "listed":
        np.testing.assert_allclose(*(model.log_prob_bound(params, rows, sampler=s).values for s in (word, function)), atol=1e-12)
        curve = gm.theory.decoding_curve(model, params, [word, function], passes=[1, 4], truth=gm.parse(PLAIN).model())
        np.testing.assert_allclose(*curve.table.groupby("sampler")["kl"].apply(np.asarray), atol=1e-12)
    if network and word == "listed":
        np.testing.assert_allclose(*(model.loss(params, rows, mask=m) for m in "ab"), atol=1e-12)


def test_a_planner_without_an_order_trusts_the_cells_that_have_one() -> None:
    laws = []
    for least in (jnp.nan, -jnp.inf, -1e5):

        def plan(codes, log_p, least=least):
            odd = jnp.broadcast_to(jnp.arange(codes.shape[-1]) % 2 == 1, codes.shape)
            return jnp.where(odd & ~jnp.isinf(log_p[..., 1]), least, -1.0)

        sys.modules["own_confidence"].plan = plan  # type: ignore[attr-defined]
        model = gm.parse(NETWORK + DECODERS, allow_python=True).model()
        laws.append(np.asarray(gm.theory.output_law(model, model.init_params(seed=0), sampler="planned").probabilities))
    np.testing.assert_allclose(laws[0], laws[1], atol=1e-12)
    np.testing.assert_allclose(laws[0], laws[2], atol=1e-12)


@pytest.mark.slow
def test_a_planner_that_trusts_every_settled_cell_hides_none_again() -> None:
    never = next(line for line in DECODERS.splitlines() if " self " in line).replace(" self ", " never ", 1).replace("eta = 2", "eta = 0")
    sys.modules["own_confidence"].plan = lambda codes, log_p: jnp.zeros_like(log_p[..., 0])  # type: ignore[attr-defined]
    model = gm.parse(NETWORK + DECODERS + never, allow_python=True).model()
    params = model.init_params(seed=0)
    laws = [np.asarray(gm.theory.output_law(model, params, sampler=s).probabilities) for s in ("never", "planned", "self")]
    np.testing.assert_allclose(laws[0], laws[1], atol=1e-12)
    assert np.abs(laws[1] - laws[2]).max() > 1e-4
    drawn = [np.asarray(model.sample(params, s, draws=60, chains=1, seed=0).posterior["x"]) for s in ("never", "planned", "self")]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[1] != drawn[2]).any()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (lambda n: [1, 2], "`own_confidence:counts` settles 1, 2 cells, and there are 4"),
        (lambda n: [0, 4], "`own_confidence:counts` settles 0, 4 cells"),
        (lambda n: [0.5, 3.5], "must return a list of whole numbers, got float64"),
        (lambda n: n, r"must return a list of whole numbers, got int64 of shape \(\)"),
        (lambda n: 1 / 0, "cannot be called with 4 cells: ZeroDivisionError"),
        (3, "is not a function"),
    ],
)
def test_a_schedule_that_does_not_fit_is_reported_before_a_draw(found: object, words: str) -> None:
    sys.modules["own_confidence"].counts = found  # type: ignore[attr-defined]
    with pytest.raises(gm.GmlmError, match=words):
        gm.parse(PROGRAM[: PROGRAM.index("sampler")] + DECODERS, allow_python=True).model().sample(PARAMS, "counted", draws=1)


@pytest.mark.produces("E739")
@pytest.mark.parametrize("name", ["counted", "planned"])
def test_checks_and_explanations_run_no_schedule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "own_confidence")
    line = next(line for line in DECODERS.splitlines() if f" {name} " in line)
    checked = check_source(Source("m.gmlm", PROGRAM[: PROGRAM.index("sampler")] + line))
    notes, _ = check_bound(checked, {})
    assert [n.code for n in notes] == ["W828"]
    assert "own_confidence:" in explain(checked, bind(checked, {}), model="m", sampler=name)
    with pytest.raises(gm.GmlmError, match=f"sampler `{name}` calls the function `own_confidence:"):
        gm.parse(PROGRAM[: PROGRAM.index("sampler")] + line).model()


@pytest.mark.produces("E739")
def test_code_runs_where_the_call_allows_it_alone() -> None:
    text = PROGRAM.replace("NAMED", "entropy")
    with pytest.raises(gm.GmlmError, match="sampler `called` calls the function `own_confidence:entropy`"):
        gm.parse(text).model()
    with pytest.raises(gm.GmlmError, match="E739"):
        pickle.dumps(model_with("entropy"))
    said = " ".join(explain(check_source(Source("m.gmlm", text)), model="m").split())
    assert "the confidence in a cell is `own_confidence:entropy` of log p of its values" in said


@pytest.mark.produces("E739")
def test_a_planner_of_python_is_code_too() -> None:
    text = """
network own = mlp(width = 4)
network plans = python("own_confidence:Table")
model m { var x[i in range(3)] : bit conditional x ~ own() }
sampler s = refinement(steps = 3, schedule = linear, decode = sample, planner = plans)
"""
    with pytest.raises(gm.GmlmError, match="sampler `s` plans by the class `own_confidence:Table`"):
        gm.parse(text).model()


def test_counts_whose_sum_overflows_are_reported() -> None:
    text = PLAIN + '\nsampler wide for m = random_order(schedule = python("own_confidence:huge"))'
    with pytest.raises(gm.GmlmError, match="E409"):
        gm.parse(text, allow_python=True).model().sample({}, "wide", draws=1, chains=1)
