"""The laboratory of statements: its bounds hold for other masks, its fits are minimisers, its page has the numbers of the kept output."""

import itertools
import json

import adaptive_search as search
import bound_trial as trial
import energies
import jax
import laboratory
import mask_networks
import numpy as np
import pytest
import statement_tables
import statements
import tree_walk
from markdown_blocks import LABS
from thinned import thinned

import gmlmdsl as gm

STATES = np.array(list(np.ndindex(2, 2, 2)))
FAMILIES = list(statements.FAMILIES.values())


def problem(seed, blocks):
    """Three coupled spins of random parameters."""
    s = trial.setting("one")
    p = s.law(np.random.default_rng(seed).normal(0, 0.7, 6))
    return search.problem_of(p, s.features - p @ s.features, STATES, blocks)


def random_mask(own, mean, rng, fixed=False):
    shape = (len(own.sizes),) if fixed else (8, len(own.sizes))
    return search.masks(own, rng.normal(0, 3, shape), mean, fixed)[0]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize(("blocks", "mean"), FAMILIES)
def test_masks_have_the_mean_size_and_see_x_only_where_they_may(blocks, mean, fixed):
    own, rng = problem(1, blocks), np.random.default_rng(2)
    chances = random_mask(own, mean, rng, fixed)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_allclose(own.p @ (chances @ own.sizes), mean)
    assert np.allclose(chances, chances[0]) == fixed


@pytest.mark.parametrize("of", [search.trace, search.less_gap])
@pytest.mark.parametrize(("blocks", "mean"), FAMILIES)
def test_derivatives_are_differences(of, blocks, mean):
    own, rng = problem(3, blocks), np.random.default_rng(4)
    w, way = rng.normal(size=(2, 8, len(blocks)))

    def value(t):
        return of(own, own.p[:, None] * search.masks(own, w + t * way, mean, False)[0])

    chances = search.masks(own, w, mean, False)[0]
    _, _, y = value(0.0)
    slope = search.slope(own, chances, -(own.away(own.p[:, None] * chances, y) ** 2).sum(axis=2).T, False)
    np.testing.assert_allclose((value(1e-5)[0] - value(-1e-5)[0]) / 2e-5, (slope * way).sum(), rtol=1e-4)


@pytest.mark.parametrize(
    ("of", "fixed"), thinned([(search.trace, False), (search.less_gap, False), (search.less_gap, True), (search.trace, True)], 2)
)
@pytest.mark.parametrize(("blocks", "mean"), FAMILIES)
def test_no_mask_is_below_the_bound_of_any_mask(of, blocks, mean, fixed):
    """The bound is valid at any mask, not at the optimum alone; near the optimum it is sharp."""
    own, rng = problem(5, blocks), np.random.default_rng(6)
    q = own.p[:, None] * random_mask(own, mean, rng, fixed)
    _, constant, y = of(own, q)
    bound = constant - search.largest(own, y, q, mean, fixed)
    found = search.best(own, of, mean, fixed)
    others = [of(own, own.p[:, None] * random_mask(own, mean, rng, fixed))[0] for _ in range(200)]
    assert found.bound >= bound - 1e-9
    assert found.bound <= found.value <= min(others) + 1e-9
    assert found.value - found.bound < 0.02 * abs(found.value)


def test_the_hessian_is_that_of_the_language_for_any_mask():
    rng = np.random.default_rng(7)
    params = {"h": rng.normal(0, 0.7, 3), "J": rng.normal(0, 0.7, 3)}
    s = trial.setting("one")
    p = s.law(np.concatenate([params["h"], params["J"]]))
    for blocks, mean in FAMILIES:
        own = search.problem_of(p, s.features - p @ s.features, STATES, blocks)
        chances = random_mask(own, mean, rng)
        for goal in ("trace", "constant"):
            np.testing.assert_allclose(
                statements.number(own, goal, chances), statements.by_the_language(params, blocks, chances, goal), rtol=1e-6
            )


@pytest.mark.parametrize("mask", thinned(trial.MASKS, 3))
def test_a_setting_is_the_model_of_the_program_and_its_fits_are_minimisers(mask):
    s, model, rng = trial.setting(mask), trial.program().model(), np.random.default_rng(8)
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.log(s.law(s.truth)), model.log_prob(trial.TRUTH, STATES), rtol=1e-9)
        counts = rng.multinomial(2000, s.law(s.truth))
        shares = np.stack([rng.multinomial(c, np.full(len(s.groups), 1 / len(s.groups))) for c in counts], axis=1) / 2000
        v = s.fit(shares)
        blocks = [b for b in np.ndindex(2, 2, 2) if sum(b) == trial.MASKS[mask]]

        def loss(v):
            params = {"h": v[:3], "J": v[3:]}
            total = 0.0
            for block, share in zip(blocks, shares, strict=True):
                K = [int(k) for k in np.flatnonzero(block)]
                table = np.asarray(model.log_conditional(params, STATES, K=K)).reshape(8, *(2,) * len(K))
                total -= sum(share[a] * table[(a, *x[K])] for a, x in enumerate(STATES))
            return total

        least = loss(v)
        np.testing.assert_allclose(least, -(shares * s.conditionals(v)).sum(), rtol=1e-9)
        for _ in range(12):
            assert loss(v + rng.normal(0, 0.02, 6)) > least


def test_data_without_a_minimiser_have_no_fit():
    s = trial.setting("three")
    assert s.fit(np.eye(8)[:1]) is None


def test_fits_to_the_truth_itself_are_the_truth():
    for mask in trial.MASKS:
        s = trial.setting(mask)
        shares = np.tile(s.law(s.truth) / len(s.groups), (len(s.groups), 1))
        np.testing.assert_allclose(s.fit(shares), s.truth, atol=1e-9)


def test_the_needed_numbers_are_where_the_parts_are_small():
    with jax.enable_x64(True):
        model = trial.program().model()
        options = {"box": trial.WIDTH, "epsilon": trial.EPSILON, "delta": trial.DELTA}
        b = gm.theory.generalization_bound(model, trial.TRUTH, "two", n=1e3, m=1, **options)
        m, n = np.exp(trial.needed_masks(b)), np.exp(trial.needed_rows(b))
        b = gm.theory.generalization_bound(model, trial.TRUTH, "two", n=n, m=m, **options)
    for part in (np.exp(b.log_mask_term), b.row_term):
        np.testing.assert_allclose(np.sqrt(b.tensorization / 2 * part * -b.log_beta), trial.GOAL, rtol=1e-6)


def test_the_votes_are_the_model_of_their_program():
    votes = trial.votes()
    s, model = trial.setting("two", votes), votes.program().model()
    x = np.array(list(np.ndindex((2,) * 6)))
    assert s.groups.shape == (15, 64) and s.features.shape == (64, 21)
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.log(s.law(s.truth)), model.log_prob(votes.truth, x), rtol=1e-8)
        table = np.asarray(model.log_conditional(votes.truth, x, K=[4, 5])).reshape(64, 2, 2)
    np.testing.assert_allclose(s.conditionals(s.truth)[0], table[np.arange(64), x[:, 4], x[:, 5]], rtol=1e-8)
    shares = np.tile(s.law(s.truth) / 15, (15, 1))
    np.testing.assert_allclose(s.fit(shares), s.truth, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_chains_of_what_is_learnt_under_a_mask_settle_at_p_and_those_that_forget_it_do_not(seed):
    rng = np.random.default_rng(seed)
    p, chances = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(3), 8)
    q = mask_networks.exact(p, chances)
    for row, x in enumerate(mask_networks.STATES):  # Equation 1
        for i in range(3):
            other = x.copy()
            other[i] = 1 - x[i]
            there = int(other @ [4, 2, 1])
            joint = p[[row, there]] * chances[[row, there], i]
            assert q[row, i] == pytest.approx(joint[0] / joint.sum())
            assert mask_networks.plain(q, chances)[row, i] == pytest.approx(p[row] / (p[row] + p[there]))
    found = mask_networks.distances(p, q, chances)
    assert found["own"] < 1e-9 and found["gibbs"] < 1e-9 and found["forgets"] > 1e-3
    np.testing.assert_allclose(mask_networks.chain(q, chances).sum(axis=1), 1)


@pytest.mark.slow  # about ten seconds, most of it compiling
def test_a_network_learns_what_its_mask_makes_of_a_conditional():
    rng = np.random.default_rng(4)
    p, chances = rng.dirichlet(5 * np.ones(8)), rng.dirichlet(5 * np.ones(3), 8)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        q = mask_networks.learnt(p, chances, 20_000, 3000, 0, 2e-3)
    right, forgotten = mask_networks.exact(p, chances), mask_networks.exact(p, np.full((8, 3), 1 / 3))
    assert np.abs(q - right).mean() < 0.1 * np.abs(forgotten - right).mean()


def test_solutions_are_those_of_a_search():
    weight = np.array([3, 1, 4, 1, 5, 9])
    for c in range(24):
        assert statements.solutions(weight, c) == sum(
            weight[list(s)].sum() == c for r in range(7) for s in itertools.combinations(range(6), r)
        )


def test_who_wins_follows_from_certified_bounds():
    plain = {"fixed": 10.0, "fixed bound": 9.995, "adaptive": 9.0, "adaptive bound": 8.9}
    assert statement_tables.wins(plain) == "wins"
    assert statement_tables.wins(plain | {"fixed bound": 9.0}) == "open"
    assert statement_tables.wins(plain | {"adaptive": 9.999, "adaptive bound": 9.998}) == "draws"
    assert statement_tables.gain(plain) == pytest.approx(0.1)


@pytest.mark.parametrize("coupling", [0.0, 0.5])
def test_metropolis_hastings_has_its_energy_as_law_and_gibbs_has_p(coupling):
    p = energies.ising(coupling)
    own, wrong = energies.conditionals(p), energies.learnt(p, 500, np.random.default_rng(1))
    for q in (own, wrong):
        matrix, accepted = energies.metropolis(q)
        law = energies.energy_law(q)
        np.testing.assert_allclose(law[:, None] * matrix, (law[:, None] * matrix).T, atol=1e-15)
        np.testing.assert_allclose(energies.stationary(matrix), law, atol=1e-12)
        assert 0 < accepted <= 1
    np.testing.assert_allclose(p @ energies.gibbs(own), p, atol=1e-15)
    product = np.prod([[p[a] / (p[a] + p[energies.FLIPPED[a, i]]) for i in range(4)] for a in range(16)], axis=1)
    np.testing.assert_allclose(energies.energy_law(own), product / product.sum())
    assert (energies.distances(own, p)["metropolis"] < 1e-9) == (coupling == 0)
    gibbs = energies.gibbs(wrong)
    flow = energies.stationary(gibbs)[:, None] * gibbs
    assert np.abs(flow - flow.T).max() > 1e-4  # its conditionals are those of no joint distribution


@pytest.mark.parametrize("horizon", [2, 5])
def test_the_walk_has_its_closed_form_with_exact_values_and_the_target_with_wrong_ones(horizon):
    found = tree_walk.times(tree_walk.values(horizon))
    assert found["leaves"] == pytest.approx(1 / (2 * horizon))
    assert found["relaxation"] == pytest.approx(2 / (1 - np.cos(np.pi / (2 * horizon))))
    exact = tree_walk.values(horizon)
    for level, v in enumerate(exact[:-1]):
        np.testing.assert_allclose(v, exact[level + 1].reshape(-1, 2).mean(axis=1))
    matrix, law = tree_walk.walk(tree_walk.values(horizon, 1.0, seed=3))
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(law @ matrix, law, atol=1e-15)
    leaves = law[-(2**horizon) :]
    bits = np.array(list(np.ndindex(*(2,) * horizon)))
    target = np.exp(tree_walk.TILT * (bits[:, :-1] * bits[:, 1:]).sum(axis=1))
    np.testing.assert_allclose(leaves / leaves.sum(), target / target.sum())


@pytest.mark.slow
def test_the_walk_is_that_of_the_language():
    steps = 40
    program = gm.load(LABS.parent / "guided" / "amplification.gmlm", L=4, sd=0.0, steps=steps)
    law = gm.theory.output_law(program.model("words"), {}, "walk")
    matrix, _ = tree_walk.walk(tree_walk.values(4))
    now = np.linalg.matrix_power(matrix, steps)[0][-16:]
    places = law.strings @ (2 ** np.arange(4)[::-1])
    np.testing.assert_allclose(law.probabilities, now[places], atol=1e-7)


def kept():
    found = json.loads((LABS / "statements" / "kept" / "statements" / "results.json").read_text(encoding="utf-8"))
    return {name: part["result"] for name, part in found["parts"].items()}


def test_the_page_has_the_numbers_of_the_kept_output():
    lab, results = statements.lab(), kept()
    page = lab.page.read_text(encoding="utf-8")
    loaded = laboratory.load(lab.kept / "results.json", lab.sizes["default"], lab.settings)
    tables = lab.tables(results, lab.sizes["default"]) | {"statements-time": laboratory.times(lab, loaded)}
    assert laboratory.filled(page, "statements", tables) == page


def test_the_kept_output_keeps_what_theory_says():
    results = kept()
    masks = [row for name, found in results.items() if name.startswith("mask: ") for row in found.values()]
    assert len(masks) == 45
    for row in masks:
        for goal in ("trace", "constant"):
            r = row[goal]
            np.testing.assert_allclose(r["by the language"], r["adaptive"], rtol=1e-5)
            assert r["limit"] * (1 - 1e-9) <= r["adaptive bound"] * (1 + 1e-4)
            assert r["adaptive bound"] <= r["adaptive"] * (1 + 1e-6)
            assert r["adaptive"] <= r["fixed"] * (1 + 1e-4) <= r["uniform"] * (1 + 2e-4)
    for n, r in results["hidden"].items():
        np.testing.assert_allclose(r["calls"], int(n) * 2.0 ** (int(n) - 1), rtol=1e-6)
        np.testing.assert_allclose(r["fails"], 1 - 2.0 ** (1 - int(n)), rtol=1e-6)
    for r in results["knapsack"].values():
        assert "refused" in r or (round(r["counted"]) == r["summed"] and r["right"] == 1)


@pytest.mark.slow
def test_the_quick_size_runs(tmp_path, capsys):
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        assert laboratory.main(statements.lab(), ["--quick", "--out", str(tmp_path)]) == 0
    assert "agree" in capsys.readouterr().out


def test_the_least_calls_for_a_hidden_string_are_those_of_the_best_order_of_questions():
    """Of M strings one is asked about; of one that is left nothing has to be asked."""
    least = [0.0, 0.0]
    for m in range(2, 33):
        least.append(1 + (m - 1) / m * least[m - 1])
    table = statement_tables.hidden_table({str(n): {"calls": 1, "fails": 0.0, "calls of symbols": 1} for n in (2, 4, 6)})
    printed = [float(line.split("|")[4]) for line in table.splitlines()[2:]]
    np.testing.assert_allclose(printed, [least[2], least[8], least[32]], rtol=1e-5)
