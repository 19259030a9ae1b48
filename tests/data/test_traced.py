"""Verbs inside `jax.jit` and `jax.grad`: what may be traced, and one clear line for what may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

TEXT = """
model m { var x[i in range(3)] : bit  param h[i in range(3)]  factor h[i] * x[i] for i in range(3) }
mask one = subsets(x, size = 1)
sampler s { update x[i] for i in range(3) }
"""
plain = gm.parse(TEXT).model()
given = gm.parse(TEXT.replace("var x", "given a : real  var x").replace("factor h[i]", "factor a * h[i]")).model()
LOOKING = "mask one sees x { choose exp(x[0] + x[i]) : {x[i]} for i in range(3) }"
looking = gm.parse(TEXT.replace("mask one = subsets(x, size = 1)", LOOKING)).model()
NETWORK = """
network net = mlp(layers = 1, width = 4)
model p { var x[i in range(3)] : bit  conditional x ~ net() }
mask w = everything(x)
sampler s { update x[i] for i in range(3) }
sampler d = refinement(steps = 2)
"""
net = gm.parse(NETWORK).model()
H, X = np.array([0.3, -0.2, 0.1], np.float32), np.array([[0, 1, 1], [1, 1, 0]])
P, Q = {"h": H}, net.init_params()


@pytest.mark.parametrize("verb", thinned(["log_prob", "log_potential", "log_partition", "loss", "log_conditional"], 6))
def test_gradients_of_losses_and_of_log_p(verb: str):
    """The first call of a model is the traced one: nothing that it keeps is lost with the trace."""
    model = gm.parse(TEXT).model()
    value: dict[str, Callable[[Any], Any]] = {
        "log_prob": lambda h: model.log_prob({"h": h}, X).sum(),
        "log_potential": lambda h: model.log_potential({"h": h}, X).sum(),
        "log_partition": lambda h: model.log_partition({"h": h}),
        "loss": lambda h: model.loss({"h": h}, X, "one"),
        "log_conditional": lambda h: model.log_conditional({"h": h}, X, K=[0])[:, 0].sum(),
    }
    found = jax.jit(jax.grad(value[verb]))(H)
    np.testing.assert_allclose(found, jax.grad(value[verb])(H), rtol=1e-5, atol=1e-6)
    step = 1e-2
    for k in range(3):
        up, down = (float(value[verb](H + s * step * np.eye(3, dtype=np.float32)[k])) for s in (1, -1))
        assert found[k] == pytest.approx((up - down) / (2 * step), abs=2e-3)


CALLS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "marginals by chains": (lambda h: plain.marginals({"h": h}, method="chains"), H, "params"),
    "masks that look": (lambda x: looking.loss(P, x, "one", key=0, n_masks=1), X, "x"),
    "weights": (lambda w: plain.fit(X, "one", weights=w), np.ones(2), "weights"),
    "key": (lambda k: plain.loss(P, X, "one", key=k, n_masks=1), jax.random.key(0), "key"),
    "fit": (lambda x: plain.fit(x, "one"), X, "x"),
    "K": (lambda k: plain.log_conditional(P, X, K=k), np.array([0]), "K"),
    "given": (lambda a: given.loss(P, X, "one", given={"a": a}), np.ones(2, np.float32), "given"),
    "init": (lambda h: plain.fit(X, "one", init={"h": h}), H, "init"),
    "start": (lambda x: plain.sample(P, "s", draws=2, init=x, progress=False), X[0], "init"),
    "clamp": (lambda c: plain.sample(P, "s", draws=2, clamp={"x": {0: c}}, progress=False), 1, "clamp"),
    "sample": (lambda h: plain.sample({"h": h}, "s", draws=2, progress=False), H, "params"),
    "marginals of traced clamps": (lambda c: plain.marginals(P, {"x": {0: c}}), 1, "clamp"),
    "marginals by messages": (lambda h: plain.marginals({"h": h}, method="belief-propagation"), H, "params"),
    "map": (lambda h: plain.map({"h": h}), H, "params"),
    "map of rows": (lambda x: plain.map(P, x=x), X, "x"),
    "likelihood": (lambda w: plain.log_partition(P, likelihood={"x": w}), np.ones((3, 2), np.float32), "likelihood"),
    "next_symbol": (lambda h: plain.next_symbol({"h": h}, [0]), H, "params"),
    "transition_matrix": (lambda h: plain.transition_matrix({"h": h}, "s"), H, "params"),
    "bridge_log_partition": (lambda h: plain.bridge_log_partition({"h": h}), H, "params"),
    "annealed_log_partition": (lambda h: plain.annealed_log_partition({"h": h}), H, "params"),
    "theory": (lambda h: gm.theory.compare_masks(plain, {"h": h}, measure=False), H, "params"),
    "loss of a network": (lambda x: net.loss(Q, x, "w", key=0, n_masks=1), X, "x"),
    "sample of a network": (lambda q: net.sample(q, "s", draws=2, progress=False), Q, "params"),
    "decode of a network": (lambda q: net.decode(q, "d"), Q, "params"),
}


ROWS: dict[str, Callable[[gm.Model, Any, Any], Any]] = {
    "log_prob": lambda m, h, x: m.log_prob({"h": h}, x),
    "log_potential": lambda m, h, x: m.log_potential({"h": h}, x),
    "loss": lambda m, h, x: m.loss({"h": h}, x, "one")[None],
    "loss of drawn masks": lambda m, h, x: m.loss({"h": h}, x, "one", key=3, n_masks=2)[None],
    "loss of masks that look": lambda m, h, x: looking.loss({"h": h}, x, "one")[None],
    "a dict": lambda m, h, x: m.log_prob({"h": h}, {"x": x}),
    "a list": lambda m, h, x: m.log_prob({"h": h}, [x[0], x[1]]),
}


@pytest.mark.parametrize("verb", thinned(ROWS, 2))
def test_rows_may_be_traced_with_the_parameters(verb: str):
    """One compiled function of a training loop serves every batch; a value that no cell has gives nan."""
    model, ask = gm.parse(TEXT).model(), ROWS[verb]
    compiled = jax.jit(lambda h, x: ask(model, h, x))
    slopes = jax.jit(jax.grad(lambda h, x: ask(model, h, x).sum()))
    for h, x in ((H, X), (2 * H, X[::-1].copy())):
        np.testing.assert_allclose(compiled(h, x), ask(plain, h, x), rtol=1e-5)
        np.testing.assert_allclose(slopes(h, x), jax.grad(lambda h, x=x: ask(plain, h, x).sum())(h), rtol=1e-4, atol=1e-6)
    assert np.isnan(compiled(H, np.array([[0, 2, 1], [0, 1, 1]]))[0])
    assert np.isnan(compiled(H, np.array([[0, 0.5, 1], [0, 1, 1]]))[0])


def test_traced_rows_of_spins_beside_labels_given_data_and_a_latent():
    text = """model m { latent z : bit  var s[i in range(2)] : spin  var w : labels("a", "b", "c")  var k : range(2, 5)  given a : real
      param J  factor J * a * s[0] * s[1] + 0.3 * z * k + 0.2 * (w == "c") * s[0] }"""
    model: Any = gm.parse(text).model()
    x = {"z": [0, 1, 1], "s": [[1, -1], [1, 1], [-1, -1]], "w": [2, 0, 2], "k": [2, 4, 3]}
    given, rows = {"a": [0.5, -1.0, 2.0]}, {name: np.array(value) for name, value in x.items()}
    found = jax.jit(lambda J, s, k: model.log_prob({"J": J}, {**rows, "s": s, "k": k}, given=given))(0.7, rows["s"], rows["k"])
    np.testing.assert_allclose(found, model.log_prob({"J": 0.7}, x, given=given), rtol=1e-5)
    by_row = jax.vmap(lambda s, w, z, k: model.log_potential({"J": 0.7}, {"s": s, "w": w, "z": z, "k": k}, given={"a": 0.5}))
    wanted = model.log_potential({"J": 0.7}, x, given={"a": 0.5})
    np.testing.assert_allclose(by_row(*(rows[name] for name in "swzk")), wanted, rtol=1e-5)
    for bad, said in (({**rows, "s": rows["s"][:, :1]}, "E501.*`s` has the shape"), ({"z": rows["z"]}, "E503.*lacks")):
        with pytest.raises(gm.GmlmError, match=said):
            jax.jit(lambda some: model.log_prob({"J": 0.7}, some, given=given))(bad)


MOODS = """
model m {
  latent z[t in range(4)] : range(3)
  var x[t in range(4)] : bit
  param A[a in range(3), b in range(3)], B[a in range(3)]
  factor A[z[t], z[t + 1]] for t in range(4) if t < 3
  factor B[z[t]] * x[t] for t in range(4)
}
"""
GRID = """
graph G = grid(3, 3)
model m {
  var x[i in G.nodes] : spin
  param A[a in range(3), b in range(3)], B[a in range(3)]
  factor (B[0] + 0.1 * i) * x[i] for i in range(9)
  factor A[0, 1] * x[i] * x[j] for (i, j) in G.edges
}
"""
SEEN = np.array([[0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 1, 1]])
GAPS = np.array([[0, -1, 1, 0], [1, 1, -1, -1]])
PAIR = (("z", 0), ("z", 2))
ASKED: dict[str, Callable[[gm.Model, Any], Any]] = {
    "alone": lambda m, p: m.marginals(p),
    "clamped": lambda m, p: m.marginals(p, {"x": {1: 1}, "z": {3: 2}}),
    "over": lambda m, p: m.marginals(p, {"x": {1: 1}}, over=[PAIR, (("x", 0),), (("z", 0), ("x", 1))]),
    "rows": lambda m, p: m.marginals(p, x=SEEN),
    "rows with gaps": lambda m, p: m.marginals(p, x=GAPS, missing=-1),
    "likelihood": lambda m, p: m.marginals(p, likelihood={"x": {0: [0.2, 0.8]}}),
}


def moods() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    return gm.parse(MOODS).model(), {"A": rng.normal(size=(3, 3)), "B": rng.normal(size=3)}


GAPPED = (
    MOODS
    + """
mask one = subsets(x, size = 1)
mask pairs = blocks({x[t], x[t + 1]} for t in range(3))
mask all = everything(x)
mask looking sees x { choose exp(x[0] + x[t]) : {x[t]} for t in range(1, 4) }
"""
)
TRACED_ROWS: dict[str, Callable[[gm.Model, Any, Any, Any], Any]] = {
    "log_prob": lambda m, p, x, missing: m.log_prob(p, x, missing=missing),
    "log_potential": lambda m, p, x, missing: m.log_potential(p, x, missing=missing),
    "marginals": lambda m, p, x, missing: m.marginals(p, x=x, missing=missing)["z"],
    "marginals of x": lambda m, p, x, missing: m.marginals(p, x=x, missing=missing)["x"],
    "loss of single cells": lambda m, p, x, missing: m.loss(p, x, "one", missing=missing),
    "loss of pairs": lambda m, p, x, missing: m.loss(p, x, "pairs", missing=missing),
    "loss of all cells": lambda m, p, x, missing: m.loss(p, x, "all", missing=missing),
    "loss of drawn masks": lambda m, p, x, missing: m.loss(p, x, "pairs", missing=missing, key=3, n_masks=2),
}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("gaps", ["some", *(pytest.param(gaps, marks=pytest.mark.slow) for gaps in ("none", "nan"))])
@pytest.mark.parametrize("verb", thinned(TRACED_ROWS, 4, 1))
def test_traced_rows_may_lack_latents_and_cells(verb: str, gaps: str):
    """One compiled function serves any gaps: its values and gradients are those of known rows."""
    model, params, ask = gm.parse(GAPPED).model(), moods()[1], TRACED_ROWS[verb]
    missing = {"none": None, "some": -1, "nan": float("nan")}[gaps]
    compiled = jax.jit(lambda p, x: ask(model, p, x, missing))
    slopes = jax.jit(jax.grad(lambda p, x: ask(model, p, x, missing).sum()))
    for rows in (SEEN, GAPS, GAPS[::-1].copy()) if missing is not None else (SEEN, 1 - SEEN):
        x = np.where(rows < 0, np.nan, rows) if gaps == "nan" else rows
        np.testing.assert_allclose(compiled(params, x), ask(model, params, x, missing), atol=1e-10)
        some = jax.grad(lambda B, x=x: ask(model, params | {"B": B}, x, missing).sum())
        if not verb.startswith("marginals"):
            np.testing.assert_allclose(slopes(params, x)["B"], some(params["B"]), atol=1e-9)
    assert np.isnan(np.asarray(compiled(params, np.array([[0, 7, 1, 0], [1, 1, 1, 0]]))).ravel()[0])


def test_traced_rows_that_lack_a_cell_of_a_latent_of_a_mask_or_all_cells():
    model, params = gm.parse(GAPPED).model(), moods()[1]
    np.testing.assert_allclose(
        jax.jit(lambda z: model.log_potential(params, {"z": z}, missing=-1))(SEEN),
        model.log_potential(params, {"z": SEEN}, missing=-1),
        rtol=1e-5,
    )
    np.testing.assert_allclose(jax.jit(lambda x: model.loss(params, x, "one", missing=-1))(np.full((2, 4), -1)), 0, atol=1e-6)
    with pytest.raises(gm.GmlmError, match="E511.*looks at x"):
        jax.jit(lambda x: model.loss(params, x, "looking", missing=-1))(SEEN)
    with pytest.raises(gm.GmlmError, match="E507.*missing=0"):
        jax.jit(lambda x: model.log_prob(params, x, missing=0))(SEEN)


@pytest.mark.parametrize("missing", [None, -1])
def test_an_impossible_traced_row_has_an_infinite_loss(missing: int | None):
    """Also where no cell that is summed out is in the broken requirement."""
    text = """model m { latent z : bit  var x[i in range(12)] : bit  param h
      factor h * z * x[2] + x[2] * x[3]  factor h * x[i] * x[i + 1] for i in range(2, 11)  require x[0] != x[1] }
    mask one = blocks({x[i]} for i in range(2, 12))
    mask many = blocks({x[i] for i in range(2, 12)})"""
    model, rows = gm.parse(text).model(), np.zeros((3, 12), int)
    rows[:, :2] = [[1, 1], [1, 0], [0, 1]]
    for mask in ("one", "many"):
        compiled = jax.jit(jax.vmap(lambda x, mask=mask: model.loss({"h": 0.3}, x[None], mask, missing=missing)))
        found = compiled(rows)
        assert found[0] == np.inf and np.isfinite(found[1:]).all()
        wanted = [float(model.loss({"h": 0.3}, row[None], mask)) for row in rows[1:]]
        np.testing.assert_allclose(found[1:], wanted, rtol=1e-5)


def assert_alike(found: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert set(found) == set(wanted)  # JAX sorts the names
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, atol=1e-9)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("how", thinned(ASKED, 3, 1))
def test_marginals_of_traced_parameters_are_those_of_known_ones(how: str):
    (model, params), ask = moods(), ASKED[how]
    assert_alike(jax.jit(lambda p: ask(model, p))(params), ask(model, params))


@pytest.mark.usefixtures("float64")
@pytest.mark.slow
def test_marginals_of_traced_rows_with_and_without_latents():
    model, params = moods()
    wanted = model.marginals(params, x=SEEN)
    assert_alike(jax.jit(lambda p, x: model.marginals(p, x=x))(params, SEEN), wanted)
    assert_alike(jax.vmap(lambda x: model.marginals(params, x={"x": x}))(SEEN), wanted)
    z = np.array([[0, 1, 2, 0], [1, 1, 1, 0], [2, 0, 1, 1]])
    found = jax.jit(lambda x, z: model.marginals(params, x={"x": x, "z": z}))(SEEN, z)
    assert_alike(found, model.marginals(params, x={"x": SEEN, "z": z}))
    bad = jax.jit(lambda x: model.marginals(params, x=x)["z"])(np.array([[0, 2, 1, 0], [1, 1, 1, 0]]))
    assert np.isnan(bad[0]).all() and np.isfinite(bad[1]).all()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("text", [MOODS, pytest.param(GRID, marks=pytest.mark.slow)], ids=["stages", "loop"])
def test_gradients_of_marginals_are_differences(text: str):
    model, params = gm.parse(text).model(), moods()[1]
    name = "z" if text is MOODS else "x"

    def share(b: Any) -> Any:
        return model.marginals(params | {"B": b}, {"x": {1: 1}})[name][2, 1]

    found, step = jax.jit(jax.grad(share))(params["B"]), 1e-5
    for k in range(3):
        up, down = (float(share(params["B"] + s * step * np.eye(3)[k])) for s in (1, -1))
        assert found[k] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_marginals_given_what_is_impossible_are_nan_where_parameters_are_traced():
    model = gm.parse("model m { var x[i in range(3)] : bit  param h  factor h * x[0]  require x[0] != x[1] }").model()
    assert np.isnan(jax.jit(lambda h: model.marginals({"h": h}, {"x": {0: 1, 1: 1}})["x"])(0.3)).all()
    found = jax.jit(lambda h: model.marginals({"h": h}, {"x": {0: 1}})["x"])(0.3)
    np.testing.assert_allclose(found, [[0, 1], [1, 0], [0.5, 0.5]], atol=1e-6)


@pytest.mark.parametrize("call", CALLS)
def test_what_may_not_be_traced_says_so(call: str):
    verb, argument, name = CALLS[call]
    with pytest.raises(gm.GmlmError) as caught:
        jax.jit(verb)(argument)
    assert caught.value.codes == ("E513",) and str(caught.value).startswith(f"error[E513 traced-value]: {name} is traced by JAX")


def test_parameters_that_are_not_traced_may_stand_inside():
    assert float(jax.jit(lambda t: t * plain.loss(P, X, "one"))(2.0)) == pytest.approx(2 * float(plain.loss(P, X, "one")), rel=1e-6)


AT_ONCE: dict[str, Callable[[gm.Model], Any]] = {
    "marginals": lambda m: m.marginals(P)["x"],
    "map": lambda m: m.map(P)[0],
    "map of rows": lambda m: m.map(P, x=[[0, -1, 1]], missing=-1)[0],
    "next_symbol": lambda m: m.next_symbol(P, X[:, :1]),
    "transition_matrix": lambda m: m.transition_matrix(P),
    "sampler_bias": lambda m: m.sampler_bias(P),
    "effects": lambda m: m.effects(P, X[0], progress=False).singles,
    "bridge_log_partition": lambda m: m.bridge_log_partition(P, betas=5, draws=5, chains=4, progress=False).log_partition,
    "annealed_log_partition": lambda m: m.annealed_log_partition(P, betas=5, chains=4, progress=False).log_partition,
    "sample": lambda m: np.asarray(m.sample(P, draws=3, warmup=1, chains=2, progress=False).posterior["x"]),
    "exact": lambda m: np.asarray(m.sample(P, "exact", draws=3, chains=2, progress=False).posterior["x"]),
}


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("verb", thinned(AT_ONCE, 6))
def test_what_is_not_differentiated_is_computed_at_once_where_the_caller_is_traced(verb: str):
    """A function that the user compiles may ask a model at parameters that are known; the first call is the traced one."""
    found = []
    jax.jit(lambda h: (found.append(AT_ONCE[verb](gm.parse(TEXT).model())), h + 1)[1])(H)
    np.testing.assert_array_equal(found[0], AT_ONCE[verb](plain))
