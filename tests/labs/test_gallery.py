"""The gallery rebuilds in small, and its numbers are those of the theory, within their stated errors."""

import importlib
import importlib.util
import itertools
import re
import sys

import jax
import numpy as np
import pytest
from markdown_blocks import ROOT

from gmlmdsl.program import check_file

GALLERY = ROOT / "examples" / "labs" / "gallery"
PAGE = GALLERY / "README.md"
MOST_BYTES = 60_000


@pytest.fixture(scope="module")
def parts():
    """The scripts, as modules."""
    sys.path.insert(0, str(GALLERY))
    names = ("pictures", "estimation", "hitting", "theorems", "adaptive", "parallel")
    yield {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(GALLERY))
    for name in names:
        del sys.modules[name]


@pytest.fixture(scope="module")
def builder(parts):
    spec = importlib.util.spec_from_file_location("gallery_build", GALLERY / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("gallery")


@pytest.fixture(scope="module")
def built(builder, out):
    """Everything that the small version computes, by script."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return builder.build(out, small=True)


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.gmlm")), ids=lambda p: p.stem)
def test_a_program_of_the_gallery_checks_without_a_warning(path):
    assert check_file(path).warnings == ()


@pytest.mark.slow
def test_the_small_version_has_every_picture_and_every_table_of_the_page(built, builder, out):
    text = PAGE.read_text(encoding="utf-8")
    shown = {name for name in re.findall(r"\]\(figures/([\w.]+)\)", text)}
    assert {p.name for p in (out / "figures").iterdir()} == shown
    assert {p.name for p in (PAGE.parent / "figures").iterdir()} == shown
    fresh = (out / PAGE.name).read_text(encoding="utf-8")
    for page in (text, fresh):
        tables = [found[0] for found in builder.PLACE.finditer(page)]
        assert len(tables) == 12
        assert all("| --- |" in t and "nan" not in t for t in tables)
    heads = [re.findall(r"^\| (?:quantity|exact|J|C of).*", p, re.M)[0] for p in (text, fresh)]
    assert heads[0].split("|")[1:3] == heads[1].split("|")[1:3]


def test_committed_pictures_are_small():
    pictures = list((PAGE.parent / "figures").iterdir())
    assert all(p.read_bytes()[:4] == b"\x89PNG" and p.stat().st_size < MOST_BYTES for p in pictures)


def test_a_page_with_a_place_too_many_is_refused(builder, parts):
    table = parts["pictures"].Table("a", ["x"], [["1"]])
    assert builder.PAGE == PAGE
    assert "| 1 |" in builder.filled("<!-- numbers: a -->\n<!-- end -->", {"a": table})
    with pytest.raises(SystemExit, match="has places"):
        builder.filled("<!-- numbers: b -->\n<!-- end -->", {"a": table})


# Figures 1 and 2


def brute_trace(coupling, size):
    """The trace of H^-1, by loops: H is the mean over K and x of the covariance of the features given x_rest."""
    states = np.array(list(itertools.product([-1, 1], repeat=4)))
    pairs = list(itertools.combinations(range(4), 2))
    features = np.hstack([states, np.stack([states[:, i] * states[:, j] for i, j in pairs], axis=1)]).astype(float)
    p = np.exp(coupling * features[:, 4:].sum(axis=1))
    p /= p.sum()
    blocks = list(itertools.combinations(range(4), size))
    hessian = np.zeros((10, 10))
    for block, row in itertools.product(blocks, range(16)):
        rest = [i for i in range(4) if i not in block]
        alike = (states[:, rest] == states[row, rest]).all(axis=1)
        weights = np.where(alike, p, 0) / p[alike].sum()
        centred = features - weights @ features
        hessian += p[row] / len(blocks) * (centred.T * weights) @ centred
    return np.trace(np.linalg.inv(hessian))


@pytest.mark.slow
def test_squared_errors_come_to_the_trace(built):
    for curve in built["estimation"].curves:
        np.testing.assert_allclose(curve.trace, brute_trace(curve.coupling, curve.size), rtol=1e-9)
        mean, sd, kept = curve.mean()
        n = curve.rows[-1]
        assert kept[-1] == curve.squares.shape[1]
        # Eight means, of which one beyond 4 standard errors happens once in 2000; the next term of the theory is some rows in n.
        assert abs(n * mean[-1] - curve.trace) < 4 * n * sd[-1] / np.sqrt(kept[-1]) + 0.01 * curve.trace


@pytest.mark.slow
def test_data_without_a_minimiser_are_counted_and_not_averaged(built):
    by = {(c.coupling, c.size): c for c in built["estimation"].curves}
    assert by[0.3, 1].lost[0] > by[0.3, 2].lost[0] >= 1  # forty rows
    assert all(c.lost[-1] == 0 for c in built["estimation"].curves)
    assert all(np.nanmax(c.squares) < 1e3 for c in built["estimation"].curves)
    assert by[0.3, 1].mean()[2][0] == by[0.3, 1].squares.shape[1] - by[0.3, 1].lost[0]


def test_the_certificate_tells_data_with_a_minimiser_from_others(parts):
    states = np.array(list(itertools.product([-1, 1], repeat=2))).T
    features = np.stack([states[0], states[1], states[0] * states[1]], axis=1).astype(float)
    recession = parts["estimation"].recession
    whole = [(0, 1)]
    assert not recession(features, states, whole, np.ones((1, 4), bool))
    assert recession(features, states, whole, np.array([[1, 1, 0, 1]], bool))  # an empty cell of the table
    single = [(0,), (1,)]
    # Both cells vary for each value of the other, but cell 1 is only seen beside -1: nothing tells its field from the coupling.
    assert not recession(features, states, single, np.ones((2, 4), bool))
    assert recession(features, states, single, np.array([[0, 0, 0, 0], [1, 1, 0, 0]], bool))


# Figure 3


@pytest.mark.slow
def test_hitting_times_are_those_of_the_matrix_and_of_chains(built, parts):
    import gmlmdsl as gm

    found, hitting = built["hitting"], parts["hitting"]
    states = np.array(list(itertools.product([-1, 1], repeat=hitting.N)))
    away = ~hitting.in_first_mode(states)
    for cell in found.cells:
        assert cell.off < 4.5  # four cells
        if cell.exact < 1e4:  # a plain solution keeps its digits
            model = gm.load(GALLERY / "modes.gmlm", N=hitting.N, C=hitting.CLIQUE, k=cell.size or 1).model()
            sampler = "gibbs" if cell.size else "parallel"
            matrix = model.transition_matrix({"h": hitting.FIELD, "J": cell.coupling}, sampler)[np.ix_(away, away)]
            np.testing.assert_allclose(cell.exact, np.linalg.solve(np.eye(len(matrix)) - matrix, np.ones(len(matrix)))[0], rtol=1e-8)
    assert max(c.exact for c in found.cells) > 1e11  # small blocks do not arrive


@pytest.mark.slow
def test_independent_draws_leave_the_mode_of_a_strong_clique_too_late(built, parts):
    """The cells outside the clique play no part: the same time from the 16 states of the clique alone, whose cells move apart."""
    found, hitting = built["hitting"], parts["hitting"]
    states = np.array(list(itertools.product([-1, 1], repeat=hitting.CLIQUE)))
    for coupling in (2.0, 6.0):
        up = 1 / (1 + np.exp(-2 * (hitting.FIELD + coupling * (states.sum(axis=1, keepdims=True) - states))))
        matrix = np.prod(np.where(states[None] == 1, up[:, None], 1 - up[:, None]), axis=2)[:-1, :-1]
        alone = np.linalg.solve(np.eye(15) - matrix, np.ones(15))[0]
        # The linear system loses as many digits as the time has: 1 less the chance to stay is only known to the last of 16.
        np.testing.assert_allclose(found.apart(coupling).exact, alone, rtol=max(1e-6, 4 * np.finfo(float).eps * float(np.max(alone))))
        assert found.apart(coupling).size == 0
    assert found.apart(2.0).exact < found.budget < found.apart(6.0).exact / 1e3


# Theorems 1 to 3


@pytest.mark.slow
def test_theorems_hold_over_random_models(built, parts):
    cases, theorems = built["theorems"], parts["theorems"]
    assert theorems.least_gain(cases) > -1e-9
    assert {c.size for c in cases} == {None, 1, 2, 3, 4}
    for case in cases:
        assert case.worst <= case.constant * (1 + 1e-8)
        assert case.trace <= case.constant * (1 + 1e-8)
        assert case.worst >= 1 - 1e-9  # no mask beats maximum likelihood
    assert max(c.worst / c.constant for c in theorems.smaller(cases)) > 0.9  # and the bound is not idle


# Adaptive masks


@pytest.mark.slow
def test_the_right_conditional_settles_at_p_and_the_wrong_one_does_not(built):
    for run in built["adaptive"]:
        assert (np.diff(run.right) <= 1e-12).all()
        assert run.right[-1] < 1e-3 < 1e-2 < run.settled
        np.testing.assert_allclose(run.wrong[-1], run.settled, rtol=1e-3)


def test_the_chain_by_hand_is_right_where_the_mask_does_not_look(parts, monkeypatch):
    """So what is wrong with it is the conditional alone."""
    import gmlmdsl as gm

    adaptive = parts["adaptive"]
    monkeypatch.setattr(adaptive, "WEIGHT", 0.0)
    model = gm.load(GALLERY / "adaptive.gmlm", N=4).model()
    run = adaptive.run(model, 0.6, 30)
    np.testing.assert_allclose(run.wrong, run.plain, atol=1e-6)


# Corollary 1, Lee's ratio, independent draws


@pytest.mark.slow
def test_blocks_reach_the_mode_and_independent_draws_stay(built):
    (escape,) = built["parallel"].escapes
    assert (escape.waiting <= escape.missed ** np.arange(len(escape.waiting)) + 1e-12).all()
    assert escape.staying[min(int(escape.kept), len(escape.staying) - 1)] >= 0.95
    assert escape.waiting[-1] < 0.1 < 0.9 < escape.staying[-1]


@pytest.mark.parametrize(("delta", "steps"), [(0.5, 1), (0.1, 1)])
def test_an_example_within_the_assumptions_of_corollary_1_keeps_its_promises(parts, delta, steps):
    found = parts["parallel"].within(delta, steps)
    assert found.bounds.holds
    assert found.arrived >= 1 - found.bounds.c - 1e-12
    np.testing.assert_allclose(found.arrived, 1 / (1 + np.exp(-2 * found.bounds.hG)), rtol=1e-6)  # the other values have no weight
    assert 0 < found.left <= np.exp(found.bounds.clique.log_leaving) <= delta / 2
    field = float(found.bounds.hG)  # there are no other fields: J0 and hG as printed
    np.testing.assert_allclose(found.coupling - field, found.bounds.clique.size * np.log(2) / 2, rtol=1e-6)
    np.testing.assert_allclose(field, np.log(2 * (4 - delta) / delta) / 2, rtol=1e-6)


def test_the_lumped_chain_of_the_example_is_that_of_all_states(parts):
    """P(k of n cells become +1) is the binomial law, here against products over all configurations."""
    for n, odds in ((0, 1.0), (3, -0.7), (5, 40.0)):
        q = 1 / (1 + np.exp(-odds))
        states = np.array(list(itertools.product([0, 1], repeat=n))).reshape(2**n, n)
        law = np.where(states == 1, q, 1 - q).prod(axis=1)
        expected = [law[states.sum(axis=1) == k].sum() for k in range(n + 1)]
        np.testing.assert_allclose(parts["parallel"].binomial(n, odds), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.slow
def test_lees_ratio_is_at_least_k(built):
    for ratios in built["parallel"].lee.values():
        assert (np.array(ratios) >= np.arange(1, len(ratios) + 1) - 1e-9).all()


@pytest.mark.slow
def test_the_bias_of_independent_draws_is_that_of_its_closed_form(built):
    """The law is proportional to the product of 2 cosh of the fields on every cell."""
    found = built["parallel"]
    states = np.array(list(itertools.product([-1, 1], repeat=4)))
    fields = states.sum(axis=1, keepdims=True) - states
    for coupling, bias in zip(found.grid, found.bias, strict=True):
        law, p = np.cosh(coupling * fields).prod(axis=1), np.exp(coupling * (states * fields).sum(axis=1) / 2)
        np.testing.assert_allclose(bias, 0.5 * np.abs(law / law.sum() - p / p.sum()).sum(), atol=1e-7)
    p = np.exp(found.grid[-1] * (states * fields).sum(axis=1) / 2)
    p /= p.sum()
    np.testing.assert_allclose(found.gaps[4][-1], 4 * np.log(2) + (p * np.log(p)).sum(), atol=1e-6)
    assert all(values[0] < 1e-12 for values in found.gaps.values())
