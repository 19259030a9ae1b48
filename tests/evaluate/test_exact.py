"""Marginals, modes and independent draws by elimination, against enumeration; refused where they cost too much, with the figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import BY_NAME, CASES, Case, case
from chi_square import p_value
from given_cases import CASES as GIVEN
from given_cases import ROWS, Rows
from oracle import Oracle
from test_latent import LOOPS, MIXED
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import _exact_answers as _exact

pytestmark = [
    pytest.mark.usefixtures("float64", "compiled_sums"),
    pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning"),
]
EXACT: Any = {"rtol": 1e-9, "atol": 1e-11}
LEAST_P = 1e-4  # of a test of draws at a fixed seed
LATENT = case("latent", MIXED)
ALL = [*CASES, LATENT]


def marginals_of(oracle: Oracle, p: np.ndarray) -> dict[str, np.ndarray]:
    """p(x_i = v) of every cell by counting, from a probability of every configuration."""
    out = {}
    for name, v in oracle.bound.variables.items():
        if v.role != "given":
            cells = oracle.positions(name)
            values = [[p[oracle.states[:, c] == k].sum() for k in range(len(v.values))] for c in cells.ravel()]
            out[name] = np.reshape(values, (*cells.shape, len(v.values)))
    return out


def held(oracle: Oracle, codes: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """A clamp at a configuration, the first variable as a whole and the last cell of the last one, and which configurations agree."""
    values = {k: v.astype(int) for k, v in oracle.decode(codes).items()}
    first, last = next(iter(values)), list(values)[-1]
    shape = values[last].shape
    clamp: dict[str, Any] = {last: {tuple(n - 1 for n in shape): values[last][tuple(n - 1 for n in shape)]}}
    cells = [oracle.positions(last).ravel()[-1]]
    if first != last:
        clamp[first] = values[first]
        cells += oracle.positions(first).ravel().tolist()
    return clamp, (oracle.states[:, cells] == codes[cells]).all(axis=1)


def given_held(probabilities: np.ndarray, agree: np.ndarray) -> np.ndarray:
    """Probabilities given what is clamped."""
    kept = np.where(agree, probabilities, 0.0)
    return kept / kept.sum()


def verify(of: Any, oracle: Oracle, params: dict[str, np.ndarray], p: np.ndarray, best: float, **options: Any) -> None:
    """Marginals and mode of one law over configurations, and log_prob of its best one."""
    found = of.marginals(params, **options)
    expected = marginals_of(oracle, p)
    assert list(found) == list(expected)
    for name, table in expected.items():
        np.testing.assert_allclose(found[name], table, **EXACT, err_msg=name)
    x, value = of.map(params, **options)
    np.testing.assert_allclose(value, best, **EXACT)
    codes = oracle.encode(x if isinstance(x, dict) else {next(iter(expected)): x})
    assert p[(oracle.states == codes).all(axis=1)] == pytest.approx(p.max(), rel=1e-9)


@pytest.mark.check
@pytest.mark.parametrize("of", thinned(ALL, 2), ids=str)
def test_marginals_and_a_mode(of: Case):
    p = of.oracle.probabilities(of.params)
    verify(of.model, of.oracle, of.params, p, np.log(p.max()))


@pytest.mark.parametrize("of", thinned([*CASES[::2], LATENT], 8, 3), ids=str)
def test_marginals_and_a_mode_given_clamped_cells(of: Case):
    p = of.oracle.probabilities(of.params)
    clamp, agree = held(of.oracle, of.rows[0])
    verify(of.model, of.oracle, of.params, given_held(p, agree), np.log(p[agree].max()), clamp=clamp)


@pytest.mark.parametrize("name", thinned(GIVEN, 4, 3))
def test_marginals_and_a_mode_given_covariates(name: str):
    of: Rows = GIVEN[name]
    laws = [o.probabilities(of.params) for o in of.oracles]
    found = of.model.marginals(of.params, given=of.given)
    x, value = of.model.map(of.params, given=of.given)
    one = name == "same"  # the same data for all rows: no axis of rows
    assert value.shape == (() if one else (ROWS,))
    for r, (oracle, p) in enumerate(zip(of.oracles, laws, strict=True)):
        at = () if one else r
        for variable, table in marginals_of(oracle, p).items():
            np.testing.assert_allclose(found[variable][at], table, **EXACT)
        np.testing.assert_allclose(value[at], np.log(p.max()), **EXACT)
        values = {k: v[at] for k, v in x.items()} if isinstance(x, dict) else {next(iter(found)): x[at]}
        assert p[(oracle.states == oracle.encode(values)).all(axis=1)] == pytest.approx(p.max(), rel=1e-9)
        clamp, agree = held(oracle, of.codes[0])
        if not one and r == 0:
            verify(of.model, oracle, of.params, given_held(p, agree), np.log(p[agree].max()), clamp=clamp, given=of.row(0))


def test_every_cell_clamped():
    of = BY_NAME["weather"]
    values = {k: v.astype(int) for k, v in of.oracle.decode(of.rows[3]).items()}
    found = of.model.marginals(of.params, clamp=values)
    for name, table in marginals_of(of.oracle, (of.oracle.states == of.rows[3]).all(axis=1).astype(float)).items():
        np.testing.assert_array_equal(found[name], table)
    x, value = of.model.map(of.params, clamp=values)
    np.testing.assert_allclose(value, of.oracle.log_prob(of.params, of.rows[3]), **EXACT)
    assert all((x[k] == v).all() for k, v in values.items())


def test_labels_and_letters_clamp_by_name():
    of = BY_NAME["weather"]
    p = of.oracle.probabilities(of.params)
    agree = of.oracle.states[:, of.oracle.positions("w")] == 2
    verify(of.model, of.oracle, of.params, given_held(p, agree), np.log(p[agree].max()), clamp={"w": "snow"})


# Independent draws


def counts_of(of: Any, draws: Any) -> np.ndarray:
    """How often each configuration was drawn."""
    posterior = draws["posterior"]
    values = {name: posterior[name].values for name in of.oracle.bound.variables}
    codes = of.oracle.encode({k: v.reshape(-1, *v.shape[2:]) for k, v in values.items()})
    return np.bincount(np.ravel_multi_index(tuple(codes.T), of.oracle.domain_sizes), minlength=len(of.oracle.states))


@pytest.mark.parametrize("of", thinned(ALL, 2, 1), ids=str)
def test_draws_follow_p(of: Case):
    """20 000 draws at a fixed seed: chi-square against p, p-value above 1e-4."""
    draws = of.model.sample(of.params, "exact", draws=500, chains=40, seed=11)
    assert p_value(counts_of(of, draws), of.oracle.probabilities(of.params)) > LEAST_P
    assert draws["posterior"].attrs["starts"] == "none: draws are independent"


@pytest.mark.parametrize("of", thinned([BY_NAME["weather"], BY_NAME["branches"], LATENT], 3, 2), ids=str)
def test_draws_given_clamped_cells(of: Case):
    p = of.oracle.probabilities(of.params)
    clamp, agree = held(of.oracle, of.rows[0])
    draws = of.model.sample(of.params, "exact", draws=500, chains=40, seed=12, clamp=clamp)
    assert p_value(counts_of(of, draws), given_held(p, agree)) > LEAST_P


def test_draws_given_covariates():
    of = GIVEN["fields"]
    for r in (4,):
        draws = of.model.sample(of.params, "exact", draws=500, chains=40, seed=3, given=of.row(r))
        codes = of.oracles[r].encode({k: draws["posterior"][k].values.reshape(20_000, -1) for k in ("x", "w")})
        counts = np.bincount(np.ravel_multi_index(tuple(codes.T), of.oracles[r].domain_sizes), minlength=len(of.oracles[r].states))
        assert p_value(counts, of.oracles[r].probabilities(of.params)) > LEAST_P


def test_draw_t_of_chain_c_depends_on_the_seed_c_and_t_only():
    of = BY_NAME["computed"]
    few = of.model.sample(of.params, "exact", draws=6, chains=2, seed=5)["posterior"]
    many = of.model.sample(of.params, "exact", draws=11, chains=3, seed=5, warmup=70, thin=3)["posterior"]
    other = of.model.sample(of.params, "exact", draws=11, chains=3, seed=6)["posterior"]
    for name in ("x", "k", "y"):
        np.testing.assert_array_equal(few[name].values, many[name].values[:2, :6])
    assert any((many[n].values != other[n].values).any() for n in ("x", "k", "y"))
    assert (many["x"].values[0] != many["x"].values[1]).any()


@pytest.mark.slow  # `test_stored_draws.py` has draws that are observed alone
def test_observed_functions_without_the_draws():
    of = BY_NAME["computed"]
    options = {"draws": 200, "chains": 10, "seed": 5, "observe": {"first": lambda x: x["x"][0] * x["k"]}}
    whole = of.model.sample(of.params, "exact", **options)["posterior"]
    short = of.model.sample(of.params, "exact", keep_draws=False, **options)["posterior"]
    np.testing.assert_array_equal(whole["first"].values, whole["x"].values[..., 0] * whole["k"].values)
    np.testing.assert_array_equal(short["first"].values, whole["first"].values)
    assert "x" not in short
    named = of.model.sample(of.params, "exact", draws=3, chains=2, seed=5, observe=["chosen"])["posterior"]
    assert named["chosen"].shape == (2, 3)


def test_draws_start_nowhere():
    of = BY_NAME["first"]
    with pytest.raises(gm.GmlmError, match="independent") as caught:
        of.model.sample(of.params, "exact", init=[1, 1, 1])
    assert caught.value.codes == ("E507",)


def test_a_sampler_of_that_name_comes_first():
    text = "model m {\n  var x[i in range(2)] : bit\n  param h\n  factor h * x[0]\n}\nsampler exact { update x[0] }\n"
    draws = gm.parse(text).model().sample({"h": 0.3}, "exact", draws=50, chains=2, init=[0, 1])
    assert (draws["posterior"]["x"].values[..., 1] == 1).all()


NET = case(
    "net",
    """
domain way = labels("left", "right", "back")
model net {
  var y    : way
  var b[i in range(2)] : bit
  latent z : range(3)
  var k    : range(3)
  param p[a in range(2), c in range(3), q in way] : simplex
  param e[c in range(3), a in range(2)] : simplex
  param f[a in range(2), c in range(3)] : simplex
  param g[a in range(2)] : simplex
  param u[c in range(3)] : simplex
  y ~ categorical(p[b[1], z])
  b[1] ~ categorical(e[k])
  z ~ categorical(f[b[0]])
  b[0] ~ categorical(g)
  k ~ categorical(u)
}
""",
    normalised=True,
)


@pytest.mark.parametrize("of", thinned([NET, BY_NAME["directed"]], 2), ids=str)
def test_laws_drawn_parents_first_follow_p(of: Case, monkeypatch: pytest.MonkeyPatch):
    """Where an elimination is refused, as it is made to be here, each cell is drawn given its parents."""

    def refused(*args: Any) -> Any:
        raise gm.GmlmError([gm.Diagnostic("E601", "too wide")])

    assert of.model.log_partition(of.params) == 0
    monkeypatch.setattr(_exact.Contractions, "plan", refused)
    draws = of.model.sample(of.params, "exact", draws=500, chains=40, seed=4)
    assert p_value(counts_of(of, draws), of.oracle.probabilities(of.params)) > LEAST_P
    with pytest.raises(gm.GmlmError):  # given cells need the sums
        of.model.sample(of.params, "exact", draws=1, clamp={next(iter(of.oracle.bound.variables)): 0})


# What is impossible, and what costs too much

HARD = "model m {\n  var x[i in range(3)] : bit\n  param h\n  factor h * x[i] for i in range(3)\n  require x[0] + x[1] == 1\n}\n"


def asks(model: Any, params: Any, clamp: Any) -> Iterator[Callable[[], Any]]:
    yield lambda: model.marginals(params, clamp=clamp)
    yield lambda: model.map(params, clamp=clamp)
    yield lambda: model.sample(params, "exact", draws=2, clamp=clamp)


@pytest.mark.parametrize("clamp", [{0: 1, 1: 1}, {0: 0, 1: 0, 2: 1}], ids=str)
def test_an_impossible_clamp_is_refused(clamp: dict[int, int]):
    for ask in asks(gm.parse(HARD).model(), {"h": 0.2}, {"x": clamp}):
        with pytest.raises(gm.GmlmError, match="no configuration agrees") as caught:
            ask()
        assert caught.value.codes == ("E512",)


def test_a_clamp_that_only_the_rest_makes_impossible():
    text = "model m {\n  var x[i in range(3)] : bit\n  require x[0] != x[1]\n  require x[1] != x[2]\n}\n"
    for ask in asks(gm.parse(text).model(), {}, {"x": {0: 1, 2: 0}}):
        with pytest.raises(gm.GmlmError) as caught:
            ask()
        assert caught.value.codes == ("E512",)


COUPLED = "index site = range(40)\ngraph G = complete(site)\nmodel m {\n  var x[i in site] : spin\n  param J\n  factor J * x[i] * x[j] for (i, j) in G.edges\n}\n"
CLIQUE = "index site = range(30)\nmodel m {\n  var x[i in site] : range(3)\n  param J\n  factor J * max(x[i] * x[(i + 1) % 30] for i in site)\n}\n"  # terms share their cells, so that no partial results help


@pytest.mark.parametrize(
    ("text", "cells"), thinned([(COUPLED, "40 cells"), (CLIQUE, "30 cells"), (LOOPS, "cells")], 3), ids=["coupled", "clique", "loops"]
)
def test_what_costs_too_much_is_refused_at_once_with_the_figure(text: str, cells: str):
    model = gm.parse(text).model()
    params = model.init_params()
    calls = [lambda: model.log_partition(params), lambda: next(asks(model, params, None))()]
    calls += [lambda: model.map(params), lambda: model.sample(params, "exact", draws=2)]
    if not any(v.role == "latent" for v in model.graph.variables):
        calls.append(lambda: model.next_symbol(params, np.zeros((1, 0), int)))
    else:
        calls.append(lambda: model.log_prob(params, np.ones((1, 1600), int)))
        calls.append(lambda: model.next_symbol(params, np.ones((1, 3), int)))
    for call in calls:
        elapsed = []
        for _ in range(2):
            started = time.process_time()
            with pytest.raises(gm.GmlmError) as caught:
                call()
            elapsed.append(time.process_time() - started)
        assert caught.value.codes == ("E601",)
        for part in (cells, "GiB", "limit"):
            assert part in str(caught.value)
        assert min(elapsed) < 5  # seconds of this process: what is refused would take years
