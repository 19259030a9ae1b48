"""Programs of many kinds with numbers that are known: a closed form, a published count, or a sum that is written out in NumPy.

The programs stand in `tests/programs`; what a number is compared with shares no code with the package, see `known_numbers.py`.
"""

from __future__ import annotations

import itertools
import math
import re
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from known_numbers import COUNTS, LAWS, TOTALS, Count, Law, Total, binomial, log_sum, on_or_off, rows_of, sigmoid, simplex
from oracle import Oracle

import gmlmdsl as gm
from gmlmdsl.evaluate import log_prior

pytestmark = [pytest.mark.usefixtures("float64", "standard_promotion"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
FOLDERS = [Path(__file__).parents[1] / "programs" / folder for folder in ("valid", "good")]


def the_model(name: str, of: str | None = None, **inputs: Any) -> Any:
    """A model of one of the programs."""
    path = next(folder / f"{name}.gmlm" for folder in FOLDERS if (folder / f"{name}.gmlm").is_file())
    return gm.load(path, **inputs).model(*([of] if of else []))


@pytest.mark.parametrize("case", COUNTS, ids=lambda c: f"{c.program}-{c.number}")
def test_counts(case: Count):
    model = the_model(case.program, case.model, **case.inputs)
    assert math.exp(float(model.log_partition(case.params))) == pytest.approx(case.number, rel=1e-9)


@pytest.mark.parametrize("case", TOTALS, ids=lambda c: c.program)
def test_log_z(case: Total):
    model = the_model(case.program, **case.inputs)
    assert float(model.log_partition(case.params)) == pytest.approx(case.wanted(case.params), abs=1e-9)


@pytest.mark.parametrize("case", LAWS, ids=lambda c: c.program)
def test_laws(case: Law, rng: np.random.Generator):
    """Log Z is 0, every log p is that of the law, and marginals of latent cells given what was seen are its own."""
    model = the_model(case.program, **case.inputs)
    codes = rows_of(*map(range, case.sizes))
    p = case.law(case.params, codes)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert float(model.log_partition(case.params)) == pytest.approx(0, abs=1e-9)
    at, cells = 0, {}
    for name, m in model.marginals(case.params).items():
        m = np.asarray(m)
        size = int(np.prod(m.shape[:-1]))
        cells[name] = codes[:, at : at + size].reshape(-1, *m.shape[:-1])
        mine = (codes[:, at : at + size, None] == np.arange(m.shape[-1])) * p[:, None, None]
        np.testing.assert_allclose(m.reshape(size, -1), mine.sum(0), atol=1e-9)
        at += size
    some = rng.permutation(len(p))[:200]
    found = np.exp(np.asarray(model.log_prob(case.params, {k: v[some] for k, v in cells.items()})))
    np.testing.assert_allclose(found, p[some], rtol=1e-9, atol=1e-15)


def test_asia_has_the_published_marginals():
    """Lauritzen and Spiegelhalter (1988)."""
    found = the_model("asia").marginals({})
    published = {"tub": 0.0104, "lung": 0.055, "bronc": 0.45, "either": 0.0648, "xray": 0.1103, "dysp": 0.4360}
    assert {k: round(float(found[k][1]), 4) for k in published} == published


def tables_of_alarm() -> tuple[dict[str, list[str]], dict[str, tuple[list[str], np.ndarray]]]:
    """The values of each variable, and parents and tables, read from the text."""
    text = next(f / "alarm.gmlm" for f in FOLDERS if (f / "alarm.gmlm").is_file()).read_text().replace("1 / 3", repr(1 / 3))
    domains = {n: literal_eval(f"[{v}]") for n, v in re.findall(r"domain (\w+) = labels\(([^)]*)\)", text)}
    values = {v: domains[t] for names, t in re.findall(r"var ([\w, ]+) : (\w+)", text) for v in names.split(", ")}
    tables = {}
    for v, entries, parents in re.findall(r"(\w+)\s+~ categorical\(([{\[].*?[}\]])(?:\[([\w,\s]+)\])?\)$", text, re.DOTALL | re.MULTILINE):
        names, rows = re.findall(r"\w+", parents), literal_eval(entries)
        keys = itertools.product(*(values[n] for n in names))
        table = [rows[k[0] if len(k) == 1 else k] for k in keys] if names else [rows]
        tables[v] = names, np.array(table).reshape(*(len(values[n]) for n in names), -1)
    return values, tables


def eliminated(tables: Mapping[str, tuple[list[str], np.ndarray]], seen: Mapping[str, int], wanted: str) -> np.ndarray:
    """Sum out variable after variable, each time the one whose factors make the smallest table."""
    factors = [([*names, v], t) for v, (names, t) in tables.items()]
    factors = [([n for n in ns if n not in seen], t[tuple(seen.get(n, slice(None)) for n in ns)]) for ns, t in factors]
    left = {n for ns, _ in factors for n in ns} - {wanted}
    while left:
        v = min(left, key=lambda v: len({n for ns, _ in factors if v in ns for n in ns}))
        here, names = [f for f in factors if v in f[0]], dict.fromkeys(n for ns, _ in factors if v in ns for n in ns)
        number = {n: k for k, n in enumerate(names)}
        kept = [n for n in names if n != v]
        parts = [a for ns, t in here for a in (t, [number[n] for n in ns])]
        factors = [f for f in factors if v not in f[0]] + [(kept, np.einsum(*parts, [number[n] for n in kept]))]
        left -= {v}
    p = math.prod(np.asarray(t) for ns, t in factors)
    return p / p.sum()


def test_alarm_by_elimination():
    """All 37 marginals of the published network, before and after two alarms."""
    values, tables = tables_of_alarm()
    assert len(tables) == len(values) == 37
    model = the_model("alarm")
    for seen in ({}, {"bp": "low", "expco2": "zero", "hrekg": "high"}):
        found = model.marginals({}, clamp=seen)
        codes = {k: values[k].index(v) for k, v in seen.items()}
        for v in values:
            if v not in seen:
                np.testing.assert_allclose(found[v], eliminated(tables, codes, v), atol=1e-9)
    draw, best = model.map({}, clamp={"bp": "low"})
    assert np.isfinite(float(best)) and set(draw) == set(values)


# What is seen of chains and mixtures: latent cells summed out by recursions


def chain(first: np.ndarray, move: np.ndarray, seen: np.ndarray) -> float:
    """log p of what is seen of a hidden chain; `seen`: p of each symbol in each state."""
    at = first * seen[0]
    for row in seen[1:]:
        at = (at @ move) * row
    return math.log(at.sum())


def test_hidden_markov(rng: np.random.Generator):
    model, x = the_model("hmm", n_tags=3, width=5), np.array([4, 0, 28, 7, 7])
    p = {"first": simplex(rng, 3), "move": simplex(rng, 3, 3), "emit": simplex(rng, 3, 29)}
    assert float(model.log_prob(p, x)) == pytest.approx(chain(p["first"], p["move"], p["emit"][:, x].T), abs=1e-9)


def test_two_hidden_chains(rng: np.random.Generator):
    model, x = the_model("factorial_chains"), np.array([0, 3, 1, 1, 2, 3])
    p = {"slow": simplex(rng, 2, 2), "fast": simplex(rng, 3, 3), "emit": simplex(rng, 2, 3, 4)}
    first = np.kron([0.5, 0.5], [0.2, 0.3, 0.5])
    wanted = chain(first, np.kron(p["slow"], p["fast"]), p["emit"].reshape(6, 4)[:, x].T)
    assert float(model.log_prob(p, x)) == pytest.approx(wanted, abs=1e-9)


def test_segments_of_a_hidden_chain(rng: np.random.Generator):
    """The forward sum over segments: each has a state and a length, and the last one may be cut."""
    x, p = np.array([1, 1, 0, 0, 0, 1, 0, 1]), {"last": simplex(rng, 2, 3), "on": np.array([0.8, 0.3])}
    seen = on_or_off(p["on"][:, None], x)  # by state and time

    def from_here(t: int, a: int) -> float:
        """p of what is seen from t on, where a segment of state a begins."""
        total = 0.0
        for k in range(3):
            end = min(t + k + 1, 8)
            total += p["last"][a, k] * seen[a, t:end].prod() * (from_here(end, 1 - a) if end < 8 else 1)
        return total

    wanted = math.log(0.5 * from_here(0, 0) + 0.5 * from_here(0, 1))
    assert float(the_model("semi_markov").log_prob(p, x)) == pytest.approx(wanted, abs=1e-9)


def test_a_mixture_of_two_potts_models(rng: np.random.Generator):
    """k has probability 0.3 of 1, and each copy is normalised by itself."""
    p = {f"{m}.{k}": rng.normal(size=(3, 3)) for m in "ab" for k in "hJ"}
    x = rows_of(range(3), repeat=3)

    def law(m: str) -> np.ndarray:
        e = p[f"{m}.h"][np.arange(3), x].sum(1) + p[f"{m}.J"][x[:, :-1], x[:, 1:]].sum(1)
        return np.exp(e - log_sum(e))

    found = the_model("mixture_of_potts", "family").log_prob(p, {"a.x": x})
    np.testing.assert_allclose(np.exp(np.asarray(found)), 0.7 * law("a") + 0.3 * law("b"), rtol=1e-9)


def test_a_change_that_nobody_saw():
    y, p = np.array([1, 0, 2, 1, 3, 4, 3, 2, 4, 4]), {"before": 0.3, "after": 0.8}
    each = [binomial(y[:k], 4, 0.3).prod() * binomial(y[k:], 4, 0.8).prod() for k in range(10)]
    model = the_model("change_point")
    assert float(model.log_partition(p)) == pytest.approx(math.log(10), abs=1e-9)  # nothing is said of when
    assert float(model.log_prob(p, y)) == pytest.approx(math.log(np.mean(each)), abs=1e-9)
    np.testing.assert_allclose(model.marginals(p, clamp={"y": y})["when"], np.array(each) / np.sum(each), atol=1e-9)


def test_ragged_rows():
    """Persons with visits of their own number, graded 0 to 3."""
    model = the_model("panel", "panel", persons=3, visits=[1, 3, 2])
    p = {"mu": 0.1, "tau": 0.7, "a": np.array([0.4, -1.0, 0.2]), "b": 0.5, "cut": np.array([-1.0, 0.3, 1.1])}
    age, y = np.array([1.0, -0.5, 2.0]), [[3], [0, 1, 0], [2, 2]]
    above = sigmoid((p["a"] + 0.5 * age)[:, None] - np.array([-np.inf, *p["cut"], np.inf]))
    wanted = sum(math.log(above[i, v] - above[i, v + 1]) for i in range(3) for v in y[i])
    assert float(model.log_prob(p, y, given={"age": age})) == pytest.approx(wanted, abs=1e-9)


# Modes


def test_the_best_of_a_knapsack():
    worth, weights, best = np.arange(1.0, 13) ** 0.7, [3, 5, 7, 2, 9, 4, 6, 8, 1, 5, 3, 7], np.zeros(21)
    for v, w in zip(worth, weights, strict=True):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    x, _ = the_model("knapsack").map({"worth": worth})
    assert float(np.asarray(x) @ worth) == pytest.approx(best[-1], abs=1e-9)


def test_the_largest_cut_of_the_graph_of_petersen():
    model = the_model("maximum_cut")
    _, best = model.map({})
    assert float(best) + float(model.log_partition({})) == pytest.approx(12, abs=1e-9)


def test_a_code_corrects_one_error():
    model = the_model("hamming_code")
    words = [
        w for w in itertools.product((0, 1), repeat=7) if all(sum(w[i] for i in range(7) if (i + 1) >> k & 1) % 2 == 0 for k in range(3))
    ]
    assert len(words) == 16
    for word, k in zip(words, [0, 1, 2, 3, 4, 5, 6] * 3, strict=False):
        y = np.array(word) ^ (np.arange(7) == k)
        np.testing.assert_array_equal(np.asarray(model.map({}, given={"y": y})[0]), word)
    weights = [sum(w) for w in words]
    wanted = log_sum([w * math.log(0.1) + (7 - w) * math.log(0.9) for w in weights])
    found = model.log_partition({}, given={"y": np.zeros(7, int)})
    assert float(np.squeeze(found)) == pytest.approx(wanted, abs=1e-9)


def test_a_network_recalls_its_patterns():
    stored = np.array([[1, 1, 1, 1, -1, -1, -1, -1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1, 1, -1]])
    x, _ = the_model("stored_patterns").map({"beta": 1.0})
    assert max(abs(stored @ np.asarray(x))) == 10
    draws = the_model("stored_patterns").map({"beta": 1.0}, clamp={"x": {k: int(stored[1, k]) for k in range(6)}})[0]
    np.testing.assert_array_equal(np.asarray(draws), stored[1])


@pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")
def test_chains_of_kempe_keep_a_colouring():
    model = the_model("kempe_chains")
    draws = model.sample({}, "kempe", draws=100, chains=4, seed=0, progress=False).posterior["x"].values
    edges = [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
    assert all((draws[..., i] != draws[..., j]).all() for i, j in edges)
    assert len({tuple(d) for d in draws.reshape(-1, 10)}) > 30


PUZZLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"


@pytest.mark.slow  # `test_forced.py` has one that needs a search
def test_a_sudoku_by_what_follows_from_its_numbers():
    """Cells that others leave one value are settled, until all are: the solution is the only one. Refused: numbers that contradict."""
    model, seen = the_model("sudoku"), {divmod(k, 9): int(c) - 1 for k, c in enumerate(PUZZLE) if c != "0"}
    found = np.asarray(model.marginals({}, clamp={"s": seen})["s"])
    assert set(found.ravel().tolist()) == {0.0, 1.0}
    s = found.argmax(axis=-1)
    assert all(s[k] == v for k, v in seen.items())
    boxes = s.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    for groups in (s, s.T, boxes):
        np.testing.assert_array_equal(np.sort(groups, axis=1), np.broadcast_to(np.arange(9), (9, 9)))
    np.testing.assert_array_equal(model.map({}, clamp={"s": seen})[0], s)
    draws = model.sample({}, "exact", draws=3, chains=1, clamp={"s": seen}, progress=False).posterior["s"].values
    np.testing.assert_array_equal(draws, np.broadcast_to(s, draws.shape))
    with pytest.raises(gm.GmlmError, match="no configuration agrees with the clamped values of") as caught:
        model.map({}, clamp={"s": seen | {(0, 2): 8}})
    assert caught.value.codes == ("E512",)


# Hyperparameters


def test_a_walk_of_couplings_has_the_prior_of_a_walk():
    p = {"tau": 0.5, "J": np.linspace(-1, 1.5, 6)}
    norm = scipy.stats.norm.logpdf
    wanted = scipy.stats.halfnorm.logpdf(0.5) + norm(-1.0) + norm(p["J"][1:], p["J"][:-1], 0.5).sum()
    arrays = {k: np.asarray(v) for k, v in p.items()}
    assert float(log_prior(the_model("random_walk_couplings").graph, arrays)) == pytest.approx(wanted, abs=1e-9)


Y = np.array([14, 9, 12, 3, 10, 11, 16, 13])


def schools_by_hand() -> None:
    """The program, as one writes it for NumPyro."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Binomial(20, logits=theta), obs=Y)


@pytest.mark.slow
def test_eight_schools_have_the_density_of_a_model_by_hand(rng: np.random.Generator):
    from numpyro.infer.util import log_density

    ours = the_model("eight_schools").to_numpyro(Y[None], mask="all", calibrate=None)
    for tau in (0.3, 1.4):
        at = {"mu": 0.2, "tau": tau, "theta": rng.normal(size=8)}
        assert float(log_density(ours, (), {}, at)[0]) == pytest.approx(float(log_density(schools_by_hand, (), {}, at)[0]), abs=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* diverged:gmlmdsl.SamplingWarning")  # the funnel of its centred form
def test_eight_schools_have_the_posterior_of_a_model_by_hand():
    """Means within Monte Carlo errors: four standard errors of at least 400 independent draws of each."""
    import jax
    from numpyro.infer import MCMC, NUTS

    chain = MCMC(
        NUTS(schools_by_hand, target_accept_prob=0.95),
        num_warmup=500,
        num_samples=2000,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    chain.run(jax.random.key(1))
    theirs = chain.get_samples()
    ours = the_model("eight_schools").posterior(Y[None], mask="all", draws=2000, chains=2, warmup=500, seed=2).posterior
    for name in ("mu", "tau", "theta"):
        one, other = np.asarray(theirs[name]), np.asarray(ours[name])
        other = other.reshape(-1, *other.shape[2:])
        assert np.abs(one.mean(0) - other.mean(0)).max() < 4 * (2 / 400) ** 0.5 * one.std(0).max()
        np.testing.assert_allclose(one.std(0), other.std(0), rtol=0.25)


# All valid programs that are small


def at_random(model: gm.Model, rng: np.random.Generator) -> dict[str, Any]:
    """Parameters within their bounds."""
    made = {
        "real": lambda p: rng.normal(size=p.shape),
        "positive": lambda p: rng.exponential(size=p.shape) + 0.1,
        "bounded": lambda p: np.clip(rng.normal(size=p.shape), p.lower, p.upper),
        "simplex": lambda p: simplex(rng, *p.shape),
        "ordered": lambda p: np.sort(rng.normal(size=p.shape), axis=-1),
    }
    return {p.name: made[p.kind](p) for p in model.graph.parameters}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDERS[0].glob("*.gmlm")), ids=lambda p: p.stem)
def test_small_programs_have_the_log_z_of_the_oracle(path: Path, rng: np.random.Generator):
    """Of every model without given data, a network or more configurations than are quickly listed."""
    program = gm.load(path, allow_python=True)
    for name in program.checked.models:
        graph = (model := program.model(name)).graph
        if graph.network is not None or graph.given or graph.sizes.astype(float).prod() > 20_000:
            continue
        params = at_random(model, rng)
        wanted = Oracle(program.checked, name, {}).log_partition(params)
        assert float(model.log_partition(params)) == pytest.approx(wanted, abs=1e-8)
