"""The laboratory of decoders: its distances against enumeration, its grids and losses against what is known, the pages against kept output."""

import itertools
import re
from dataclasses import replace

import character_tables
import characters
import decoder_tables
import decoders
import distances
import laboratory
import listed
import nine
import numpy as np
import pytest
import sudoku_tables
import sudokus
import units
from chi_square import p_value
from laboratory import AGREE, DISAGREE, UNTESTED
from markdown_blocks import ROOT

import gmlmdsl as gm

pytestmark = pytest.mark.usefixtures("standard_promotion")
LABS = {"decoders": decoders, "sudokus": sudokus, "nine": nine, "characters": characters}
P = np.random.default_rng(0).dirichlet(np.full(8, 0.7)).reshape(2, 2, 2)
ROWS = np.array(list(itertools.product([0, 1], repeat=3)))


def predict(x, hidden):
    """log p of each cell of rows of P given the cells that are seen, by sums over all rows."""
    logs = np.zeros((*x.shape, 2))
    for k, (row, gone) in enumerate(zip(x, hidden, strict=True)):
        agree = ((row == ROWS) | gone).all(axis=1)
        for i, v in itertools.product(range(3), range(2)):
            logs[k, i, v] = np.log(P.ravel()[agree & (ROWS[:, i] == v)].sum() / P.ravel()[agree].sum()) if gone[i] else 0.0
    return logs


def test_the_distances_of_two_laws_follow_from_their_ratios():
    p, q = np.random.default_rng(1).dirichlet(np.ones(6), 2)
    drawn = np.random.default_rng(2).choice(6, size=40_000, p=p)
    kl, tv = distances.from_ratios(np.log(p / q)[drawn])
    assert abs(kl.value - (p * np.log(p / q)).sum()) < 4 * kl.error < 0.1
    assert abs(tv.value - np.abs(p - q).sum() / 2) < 4 * tv.error < 0.1


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("passes", [1, 2, 3, 5, 8])
def test_counts_are_those_of_the_languages_schedules(schedule, passes):
    profile = gm.theory.InformationProfile(np.random.default_rng(0).random(8), np.zeros(8), True)
    best = gm.theory.suggest_schedule(decoders.model_of("ring", 8, 1), {}, passes, profile=profile)
    assert profile.path_divergence(distances.counts_of(8, passes, schedule)) == pytest.approx(getattr(best, schedule), abs=1e-12)


def test_the_mean_over_all_orders_is_the_law_of_a_random_order():
    """Two cells, then one: p_decoder is the mean over the three orders; one order bounds the divergence from above."""
    orders = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0]])
    each = np.stack([distances.log_p_of_orders(predict, ROWS, np.tile(o, (8, 1))) for o in orders])
    law = np.zeros(8)
    for o in orders:
        first, last = np.flatnonzero(o == 0), int(np.flatnonzero(o == 1)[0])
        for k, row in enumerate(ROWS):
            ones = [P.sum(axis=tuple(j for j in range(3) if j != i))[row[i]] for i in first]
            seen = tuple(slice(None) if j == last else row[j] for j in range(3))
            law[k] += np.prod(ones) * P[tuple(row)] / P[seen].sum() / 3
    np.testing.assert_allclose(np.exp(distances.mixed(each)), law, rtol=1e-12)
    assert np.exp(distances.mixed(each)).sum() == pytest.approx(1)
    assert (distances.mixed(each) >= each.mean(axis=0)).all()


def test_orders_stay_within_their_blocks():
    found = distances.orders_of(np.random.default_rng(0), 3000, [2, 4], [1, 1, 3, 1])
    assert (np.sort(found[:, :2], axis=1) == [0, 1]).all() and (np.sort(found[:, 2:], axis=1) == [2, 2, 2, 3]).all()
    assert p_value(np.bincount(found[:, 2:].argmax(axis=1), minlength=4), np.full(4, 0.25)) > 1e-4
    assert p_value(np.bincount(found[:, 0], minlength=2), np.full(2, 0.5)) > 1e-4


def test_draws_tell_laws_apart_by_no_more_than_their_total_variation():
    """Shifted normal distributions: the best event is a half-space; equal ones are not told apart."""
    rng, above = np.random.default_rng(0), []
    for seed in range(20):
        same = distances.told_apart(*np.random.default_rng(seed).normal(size=(2, 400, 3)))
        above.append(abs(same.value) > 1.96 * same.error)
    assert sum(above) <= 4
    for away in (0.3, 1.0):
        ours, theirs = rng.normal(size=(2, 20_000, 3))
        found = distances.told_apart(ours + np.array([away, 0, 0]), theirs)
        truth = 2 * 0.5 * (1 + _erf(away / 2 / np.sqrt(2))) - 1
        assert truth - 0.02 < found.value < truth + 4 * found.error


def _erf(z):
    from scipy.special import erf

    return float(erf(z))


@pytest.mark.parametrize("sampler", ["ancestral", "cap", "rescale"])
def test_products_over_cells_are_the_law_that_the_library_lists(sampler):
    """Of a ring of four spins with as many passes, where all branches are few."""
    size = replace(decoders.QUICK, spins=4)
    found = decoders.ring_row(size, sampler, 4)
    law = gm.theory.output_law(decoders.model_of("ring", 4, 4), {}, sampler=sampler)
    assert found["kl"] == pytest.approx(law.kl(), rel=1e-5) and found["tv"] == pytest.approx(law.total_variation, rel=1e-5)
    p = decoders.ring_law(size)
    np.testing.assert_allclose(np.exp(decoders.model_of("ring", 4, 1).log_prob({}, 2 * ROWS4 - 1)), p.ravel(), rtol=1e-5)


ROWS4 = np.array(list(itertools.product([0, 1], repeat=4)))


def test_the_correlation_length_is_the_number_of_spins():
    assert -1 / np.log(np.tanh(decoders.coupling(8))) == pytest.approx(8)


@pytest.mark.slow
def test_a_bound_by_orders_is_that_of_the_library():
    size = replace(decoders.QUICK, symbols=8, rows=60, orders=40)
    x, _ = decoders.exact_rows(size)
    for sampler in ("random", "cosine", "blocks"):
        model = decoders.model_of("chain", 8, 4)
        own = decoders.by_orders(size, model, sampler, 4, None, x[:60]).mean(axis=0)
        bound = model.log_prob_bound({}, x[:60], sampler=sampler, draws=400)
        away = (own - bound.values).mean()
        assert abs(away) < 4 * (own - bound.values).std() / np.sqrt(60) + 1e-3, sampler


@pytest.mark.slow  # statistical
def test_exchanges_draw_every_small_grid_alike():
    size = replace(sudokus.QUICK, chains=40, draws=60, apart=12)
    drawn, every = sudokus.grids(size, 3), sudokus.small()[0]
    assert len(every) == 288
    rules = sudokus.grid_model(2, 2)
    assert sudokus.are_solved(rules, drawn).all() and not sudokus.are_solved(rules, np.zeros((1, 16), int)).any()
    index = {bytes(row.astype(np.int8)): k for k, row in enumerate(every)}
    counts = np.bincount([index[bytes(row.astype(np.int8))] for row in drawn], minlength=288)
    assert p_value(counts, np.full(288, 1 / 288)) > 1e-4


@pytest.mark.slow
def test_chains_of_large_grids_begin_at_different_grids():
    """Around three boxes at random, so that few numbers are where another grid has them."""
    model = sudokus.grid_model(3, 3)
    found = replace(nine.QUICK, chains=3).starts(model, np.random.default_rng(0)).reshape(3, 81)
    assert sudokus.are_solved(model, found).all()
    assert all((a == b).mean() < 0.4 for a, b in itertools.combinations(found, 2))


def test_messages_along_units_treat_cells_and_numbers_alike():
    """Of boxes of two rows and three columns: rows of a band, stacks of boxes and numbers may change places, two rows of two bands may not."""
    import jax

    network = units.Units(36, 6, tall=2, wide=3, width=4, rounds=3, key=jax.random.key(0), given=())
    rng = np.random.default_rng(1)
    seen = np.where(rng.random((6, 6)) < 0.5, 6, rng.integers(6, size=(6, 6)))

    def out(grid):
        return np.asarray(network(grid.ravel())).reshape(6, 6, 6)

    here, numbers = out(seen), rng.permutation(6)
    for rows, columns in (([1, 0, 2, 3, 4, 5], [3, 4, 5, 0, 1, 2]), ([4, 5, 0, 1, 2, 3], [0, 2, 1, 3, 4, 5])):
        np.testing.assert_allclose(out(seen[rows][:, columns]), here[rows][:, columns], atol=1e-5)
    np.testing.assert_allclose(out(np.append(numbers, 6)[seen])[..., numbers], here, atol=1e-5)
    apart = [0, 2, 1, 3, 4, 5]
    assert np.abs(out(seen[apart]) - here[apart]).max() > 1e-3


@pytest.mark.slow
def test_the_list_of_grids_is_their_exact_denoiser():
    rows, params = sudokus.small()
    model, hidden = sudokus.solver("exact", 4, 4, 8, 1), np.zeros(16, bool)
    hidden[[0, 3, 5, 9, 10, 15]] = True
    found = np.exp(model.predict(params, rows[:20], hidden))
    for row, table in zip(rows[:20], found, strict=True):
        agree = rows[(rows[:, ~hidden] == row[~hidden]).all(axis=1)]
        wanted = np.stack([(agree == v).mean(axis=0) for v in range(4)], axis=1)
        np.testing.assert_allclose(table, wanted, atol=1e-6)
    network = listed.with_rows(model.init_params(), rows)["list"].module
    np.testing.assert_array_equal(network(np.array([0, 0, *[4] * 14])), np.zeros((16, 4)))  # no grid has the same number twice in a row


@pytest.mark.slow  # statistical
def test_one_cell_a_pass_of_the_exact_denoiser_draws_from_all_grids_alike():
    rows, params = sudokus.small()
    model = sudokus.solver("exact", 4, 16, 8, 1)
    np.testing.assert_allclose(np.exp(model.log_prob(params, rows, sampler="exact_margin")), 1 / 288, rtol=1e-4)


@pytest.mark.slow
def test_the_law_of_random_orders_is_what_their_draws_show():
    """Four passes from nothing."""
    params = sudokus.small()[1]
    found = sudokus.small_law(replace(sudokus.QUICK, orders=2000))["4"]
    model = sudokus.solver("exact", 4, 4, 8, 1)
    for name in ("random", "margin"):
        draws = model.sample(params, f"exact_{name}", draws=1, chains=4000, seed=9, progress=False)["posterior"]["x"].values
        share = sudokus.are_solved(sudokus.grid_model(2, 2), np.asarray(draws).reshape(4000, 16)).mean()
        assert abs(share - found[name][0]) < 4 * np.hypot(found[name][1], np.sqrt(share * (1 - share) / 4000)) + 1e-9


def test_losses_over_all_sets_are_those_of_the_language():
    model = characters.model_of("masked", 3, 16, 1)
    params, x = model.init_params(3), np.random.default_rng(0).integers(29, size=(30, 3))
    found = characters.all_losses(model, params, x)
    np.testing.assert_allclose(found["bound"], -model.log_prob_bound(params, x, sampler="one").values, rtol=1e-5)
    assert found["plain"].mean() == pytest.approx(float(model.loss(params, x, "plain")), rel=1e-5)
    assert found["bound"].mean() == pytest.approx(float(model.loss(params, x, "bound")), rel=1e-5)


def test_the_sum_of_a_bound_over_all_rows_is_at_most_one():
    model = characters.model_of("masked", 2, 16, 1)
    every = np.array(list(itertools.product(range(29), repeat=2)))
    found = characters.all_losses(model, model.init_params(0), every)
    assert np.exp(-found["bound"]).sum() <= 1 + 1e-5 and np.exp(-found["plain"]).sum() > 2


def test_without_the_book_the_laboratory_says_where_it_would_be(tmp_path, monkeypatch):
    monkeypatch.setattr(characters, "DATA", tmp_path)
    characters.book.cache_clear()
    with pytest.raises(SystemExit, match=r"there is no .*bible\.en-es\.tsv\.gz: GMLM_DATA names the folder"):
        characters.book()


def test_the_text_has_only_the_characters_of_the_program():
    if not (characters.DATA / characters.BOOK).is_file():
        pytest.skip(f"there is no {characters.DATA / characters.BOOK} (GMLM_DATA names another folder)")
    characters.book.cache_clear()
    text = characters.book()
    assert set(text) == set(characters.CHARS) and "  " not in text and text.startswith("in the beginning, god created")
    rows, new = (characters.rows_of(16, 50, held_out) for held_out in (False, True))
    spelt = ["".join(characters.CHARS[c] for c in row) for row in (*rows, *new)]
    cut = len(text) * 9 // 10
    assert all(s in text[:cut] for s in spelt[:50]) and all(s in text[cut:] for s in spelt[50:])


def as_published(size):
    """Results of Sudokus in which margin is far above random on five seeds."""
    results = {"small grids, from nothing": {"grids": 288}, "small puzzles": {}, "grids": {"grids": 10, "different": 9}}
    for t in sudokus.FROM_NOTHING:
        results["small grids, from nothing"][str(t)] = {name: [0.5, 0.01] for name in sudokus.NAMES}
    for t in sudokus.small_passes(size):
        results["small puzzles"][str(t)] = {name: [0.5, 0.01] for name in sudokus.NAMES}
    solved = {"random": 0.07, "probability": 0.2, "margin": 0.9}
    for seed in range(size.seeds):
        own = {str(t): {k: v + 1e-3 * seed for k, v in solved.items()} for t in sudokus.passes(size)}
        results[f"network, {seed}"] = {"nats": 20.0, "weights": 100, "puzzles": 100, **own}
    return results


def test_verdicts_on_sudokus_follow_the_seeds():
    size = sudokus.Size()
    results = as_published(size)
    assert set(results) == set(sudokus.parts(size, ROOT))
    tables = sudoku_tables.tables(results, size)
    first = tables["sudokus-verdicts"].splitlines()[2]
    assert first.count(AGREE) == 3 and DISAGREE not in first and first.endswith("| 12.53 |")
    for seed in range(5):
        results[f"network, {seed}"][str(sudokus.passes(size)[0])]["margin"] = 0.01
    first = sudoku_tables.tables(results, size)["sudokus-verdicts"].splitlines()[2]
    assert first.count(DISAGREE) == 2 and first.count(AGREE) - first.count(DISAGREE) == 1
    assert set(sudoku_tables.draw(results, size)) == {"solved"}


def test_verdicts_on_characters_follow_the_seeds():
    size = characters.Size()
    results = {}
    for seed in range(5):
        few = 1e-3 * seed
        results[f"causal, {seed}"] = {"weights": 1, "bits": [2.0 + few, 0.01]}
        results[f"masked, {seed}"] = {"weights": 1, "bits": [2.3 + few, 0.01], "plain": 1.5 + few}
        results[f"short, {seed}"] = {"bound": {"sum": 0.9 + few, "bits": 3.0}, "plain": {"sum": 5.0 + few, "bits": 2.0}}
    assert set(results) == set(characters.parts(size, ROOT))
    assert character_tables.tables(results, size)["characters-verdicts"].count(f"| {AGREE} |") == 4
    for seed in range(5):
        results[f"masked, {seed}"]["bits"] = [1.9, 0.01]
    assert character_tables.tables(results, size)["characters-verdicts"].count(f"| {DISAGREE} |") == 1
    assert set(character_tables.draw(results, size)) == {"bits"}


def test_a_number_is_below_another_where_the_interval_of_the_difference_says_so():
    assert decoder_tables.below((1.0, 0.1), (2.0, 0.1)) == AGREE
    assert decoder_tables.below((2.0, 0.1), (1.0, 0.1)) == DISAGREE
    assert decoder_tables.below((1.0, 0.4), (2.0, 0.4)) == UNTESTED == decoder_tables.below((1.0, 0.0), (1.0, 0.0))


@pytest.mark.parametrize("name", LABS)
def test_the_page_has_the_numbers_of_the_kept_output(name):
    lab = LABS[name].lab()
    size = lab.sizes["default"]
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    results = {part: found["result"] for part, found in kept.items()}
    if name == "nine" and set(results) < set(lab.parts(size, lab.kept)):
        pytest.skip("not all seeds are kept: python examples/labs nine --page")
    assert set(results) == set(lab.parts(size, lab.kept))
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, name, lab.tables(results, size) | {f"{name}-time": laboratory.times(lab, kept)}) == page
    pictures = re.findall(rf"\]\((figures/{name}-[\w-]+\.png)\)", page)
    assert len(pictures) == (name != "nine") and all((lab.page.parent / p).stat().st_size < 150_000 for p in pictures)


@pytest.mark.slow  # compiles decoders and networks
@pytest.mark.parametrize("name", LABS)
def test_the_quick_size_runs_and_goes_on(name, tmp_path, capsys):
    if name == "characters" and not (characters.DATA / characters.BOOK).is_file():
        pytest.skip(f"there is no {characters.DATA / characters.BOOK} (GMLM_DATA names another folder)")
    lab = LABS[name].lab()
    assert laboratory.main(lab, ["--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"{name}-verdicts" in printed and re.search(rf"{name}: \d+ parts", printed)
    assert len(list(tmp_path.glob(f"{name}-*.png"))) == (name != "nine")
    assert laboratory.main(lab, ["--quick", "--out", str(tmp_path)]) == 0
    assert not re.search(r"^\d+/\d+ ", capsys.readouterr().out, re.M)  # nothing is run again
