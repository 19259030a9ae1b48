"""`gaps="ignore"`: cells that a row lacks are left out, with the factors that touch them; beside loops over blocks, values and factors."""

from __future__ import annotations

import itertools
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest
from benchmarks import _plmc_peer
from benchmarks._potts_child import PENALTIES, PROGRAM
from benchmarks._potts_data import write_fasta
from refusals import refused
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.fit._fit import reopen

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

# Pairs, a factor of three cells, one that sees a cell twice, a cell with other values, an exponential family.
TEXT = """
domain base = letters("ACG")
graph G = chain(3)
model m {
  var x[i in G.nodes] : base
  var s               : spin
  param h[i in G.nodes, a in base]                  ~ normal(0, 1)
  param J[(i, j) in G.edges, a in base, b in base] ~ normal(0, 0.5)
  param t ~ normal(0, 1)
  param u ~ normal(0, 1)
  factor h[i, x[i]]             for i in G.nodes
  factor J[i, j, x[i], x[j]]    for (i, j) in G.edges
  factor t * s * (x[0] == x[2]) * (x[1] == "G")
  factor u * s
}
mask one   = subsets(size = 1)
mask pairs = subsets(size = 2)
mask three = subsets(size = 3)
"""
SIZES = (3, 3, 3, 2)
SHAPES = {"h": (3, 3), "J": (2, 3, 3), "t": (), "u": ()}
WIDTHS = np.concatenate([np.full(9, 1.0), np.full(18, 0.5), [1.0, 1.0]])
MASKS = {"one": 1, "pairs": 2, "three": 3}


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(TEXT).model()


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    """Rows with gaps, one of which holds nothing, and one nothing but `s`."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(q, size=60) for q in SIZES], axis=1)
    rows[1:40][rng.random((39, 4)) < 0.3] = -1
    rows[-1], rows[-2, :3] = -1, -1
    return rows


WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 60)


def values(codes: np.ndarray) -> dict[str, Any]:
    """What `fit` takes; -9 where a cell is missing."""
    return {"x": np.where(codes[:, :3] < 0, -9, codes[:, :3]), "s": np.where(codes[:, 3] < 0, -9, 2 * codes[:, 3] - 1)}


def named(vector: np.ndarray) -> dict[str, np.ndarray]:
    """The parameters of a flat vector, which may have further axes."""
    parts = np.split(vector, np.cumsum([int(np.prod(s)) for s in SHAPES.values()])[:-1])
    return {k: p.reshape(s + vector.shape[1:]) for (k, s), p in zip(SHAPES.items(), parts, strict=True)}


def flat(fit: gm.Fit) -> np.ndarray:
    return np.concatenate([np.ravel(fit.params[k]) for k in SHAPES]).astype(float)


def factors(p: dict[str, np.ndarray]) -> list[tuple[tuple[int, ...], Any]]:
    """The cells of each factor, and its value at their codes."""
    of_sites = [((i,), partial(lambda i, a: p["h"][i, a], i)) for i in range(3)]
    of_pairs = [((i, i + 1), partial(lambda i, a, b: p["J"][i, a, b], i)) for i in range(2)]
    whole = ((0, 1, 2, 3), lambda a, b, c, s: p["t"] * (2 * s - 1) * (a == c) * (b == 2))
    return [*of_sites, *of_pairs, whole, ((3,), lambda s: p["u"] * (2 * s - 1))]


class Loops:
    """The loss of each row, sum over K of p(K) -log p_O(x_(K and O) | x_(O - K)), and its derivatives, times c.

    By loops over rows, blocks, values of K and O, and factors whose cells the row holds; each factor is linear in the parameters.
    """

    def __init__(self, codes: np.ndarray, size: int):
        self.rows, self.terms = len(codes), []
        unit = factors(named(np.eye(len(WIDTHS))))
        blocks = list(itertools.combinations(range(4), size))
        self.share = 4 / size / len(blocks)
        for r, row in enumerate(codes):
            held = [(list(cells), f) for cells, f in unit if all(row[c] >= 0 for c in cells)]
            for inside in ([c for c in block if row[c] >= 0] for block in blocks):
                seen = []
                for value in itertools.product(*(range(SIZES[c]) for c in inside)):
                    at = row.copy()
                    at[inside] = value
                    seen.append(sum((f(*at[cells]) for cells, f in held), np.zeros(len(WIDTHS))))
                    if (at == row).all():
                        observed = len(seen) - 1
                self.terms.append((r, np.array(seen), observed))

    def losses(self, vector: np.ndarray) -> np.ndarray:
        found = np.zeros(self.rows)
        for r, seen, observed in self.terms:
            scores = seen @ vector
            found[r] += self.share * (np.logaddexp.reduce(scores) - scores[observed])
        return found

    def slopes(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each row; and the Hessian of the weighted sum."""
        u, hessian = np.zeros((self.rows, len(vector))), np.zeros((len(vector),) * 2)
        for r, seen, observed in self.terms:
            scores = seen @ vector
            p = np.exp(scores - np.logaddexp.reduce(scores))
            u[r] += self.share * (p @ seen - seen[observed])
            hessian += WEIGHTS[r] * self.share * (seen.T @ np.diag(p) @ seen - np.outer(p @ seen, p @ seen))
        return u, hessian

    def objective(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """With -log prior; and its slope."""
        prior = (0.5 * (vector / WIDTHS) ** 2 + np.log(WIDTHS) + 0.5 * np.log(2 * np.pi)).sum()
        return float(WEIGHTS @ self.losses(vector) + prior), WEIGHTS @ self.slopes(vector)[0] + vector / WIDTHS**2


@pytest.mark.parametrize("mask", thinned(MASKS, 3, 1))
@pytest.mark.slow
def test_estimates_and_errors_are_those_of_loops(model: gm.Model, codes: np.ndarray, mask: str):
    fit = model.fit(values(codes), mask=mask, missing=-9, weights=WEIGHTS, gaps="ignore")
    loops = Loops(codes, MASKS[mask])
    value, slope = loops.objective(flat(fit))
    assert fit.objective == pytest.approx(value, rel=1e-12)
    assert np.abs(slope).max() < 1e-7 * WEIGHTS.sum()
    assert fit.status.converged
    assert fit.meta["convex"]
    u, hessian = loops.slopes(flat(fit))
    apart = WEIGHTS[:, None] * u - (WEIGHTS @ u) / len(codes)
    inverse = np.linalg.inv(hessian + np.diag(1 / WIDTHS**2))
    np.testing.assert_allclose(fit.covariance, inverse @ (apart.T @ apart) @ inverse, rtol=1e-8, atol=1e-10)
    assert "left out" in fit.missing.words
    assert (fit.missing.unseen, fit.missing.summed) == (1, 0)


@pytest.mark.slow
def test_masks_drawn_for_each_row(model: gm.Model, codes: np.ndarray):
    """The mean over a row's masks of the term of what it holds of each."""
    fit = model.fit(values(codes), mask="pairs", missing=-9, n_masks=3, gaps="ignore", max_steps=2)
    evidence = fit.evidence
    objective, _ = reopen(evidence, {k: np.asarray(v) for k, v in fit.params.items()})
    masks = np.asarray(objective.masks)[:, :, : len(codes)]
    of_pairs = dict(zip(itertools.combinations(range(4), 2), range(6), strict=True))
    loops = Loops(codes, 2)
    each = np.zeros((len(codes), 6))
    for k, (r, seen, observed) in enumerate(loops.terms):
        scores = seen @ flat(fit)
        each[r, k % 6] = np.logaddexp.reduce(scores) - scores[observed]
    expected = [2 * np.mean([each[r, of_pairs[tuple(m)]] for m in masks[:, :, r].tolist()]) for r in range(len(codes))]
    value = sum(expected) + (0.5 * (flat(fit) / WIDTHS) ** 2 + np.log(WIDTHS) + 0.5 * np.log(2 * np.pi)).sum()
    assert fit.objective == pytest.approx(value, rel=1e-12)
    batches = model.fit(
        values(codes), mask="pairs", missing=-9, n_masks=3, gaps="ignore", max_steps=3, optimizer=optax.sgd(1e-3), batch_size=20
    )
    assert np.isfinite(batches.loss_trace).all()


@pytest.mark.slow
def test_rows_are_scored_as_the_fit_scored_them(model: gm.Model, codes: np.ndarray, tmp_path: Path):
    fit = model.fit(values(codes), mask="one", missing=-9, gaps="ignore")
    fit.save(tmp_path / "one.fit")
    again = gm.load_fit(tmp_path / "one.fit")
    assert again.missing is not None
    assert again.missing.words == fit.missing.words
    for one in (fit, again):
        np.testing.assert_allclose(one.score(values(codes[:9]), missing=-9).losses, Loops(codes[:9], 1).losses(flat(fit)), rtol=1e-10)
    summed = model.fit(values(codes), mask="one", missing=-9)
    with pytest.raises(gm.GmlmError, match="E5"):
        gm.compare({"ignored": fit, "summed": summed})
    found = fit.bootstrap(replications=2, progress=False)
    assert found.estimates.shape == (2, len(WIDTHS))


@pytest.mark.slow  # the sums beside loops, above, leave out what lacks
def test_without_gaps_nothing_is_left_out(model: gm.Model, codes: np.ndarray):
    whole = values(codes[40:58])
    one, other = (model.fit(whole, mask="one", **options) for options in ({}, {"gaps": "ignore"}))
    np.testing.assert_array_equal(one.params["J"], other.params["J"])
    assert not other.missing.any


HIDDEN = """
model m { var x[i in range(2)] : spin  latent k : bit
  param h[i in range(2)]  factor h[i] * x[i] * k for i in range(2) }
mask one = subsets(x, size = 1)
"""
ROWS = {"x": np.array([[0, -9, 2]]), "s": np.array([1])}


@pytest.mark.parametrize(
    ("text", "x", "options", "code", "part"),
    [
        (TEXT, ROWS, {"mask": "one", "gaps": "drop"}, "E507", '"sum" or "ignore"'),
        (TEXT, ROWS, {"mask": "one", "gaps": "ignore", "impute": True}, "E704", "`impute=`"),
        (TEXT, ROWS, {"mask": "one", "gaps": "ignore", "method": "mcem"}, "E704", "`method=`"),
        (
            TEXT + 'mask near given x { choose {s} weight 1 + (x[1] == "A") }',
            ROWS,
            {"mask": "near", "gaps": "ignore"},
            "E511",
            "looks at x",
        ),
        (HIDDEN, [[1, -9]], {"gaps": "ignore"}, "E511", "latent `k`"),
        (TEXT.replace("factor u", "require x[1] != x[2]\n  factor u"), ROWS, {"mask": "one", "gaps": "ignore"}, "E511", "row 0 lacks x[1]"),
    ],
)
def test_what_cannot_be_left_out_is_refused(text: str, x: Any, options: dict[str, Any], code: str, part: str):
    refused(code, lambda: gm.parse(text).model().fit(x, missing=-9, **options), part)


@pytest.mark.slow  # test_fit_status.py finds separated couplings
def test_a_separated_coupling_is_found_among_gaps():
    """Wherever all three cells are held their product is 1: J grows for ever. What is held beside a gap is no evidence against it."""
    text = "model m { var x[i in range(3)] : spin param h[i in range(3)] param J factor h[i] * x[i] for i in range(3) factor J * x[0] * x[1] * x[2] }"
    model = gm.parse(text + "\nmask one = subsets(size = 1)\n").model()
    held = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    beside = np.array([[a, b, -9] for a in (1, -1) for b in (1, -1)])
    x = np.concatenate([held, beside, np.roll(beside, 1, axis=1), np.roll(beside, 2, axis=1), [[-9, -9, 1], [-9, 1, -9]]])
    fit = model.fit(x, missing=-9, gaps="ignore")
    assert fit.status.code == "no-minimiser"
    assert fit.status.separated.tolist() == [0, 0, 0, 1]
    mixed = model.fit(np.concatenate([x, [[1, -1, 1]]]), missing=-9, gaps="ignore")
    assert mixed.status.converged


@pytest.mark.skipif(_plmc_peer.binary() is None, reason=f"plmc is not on PATH, nor in {_plmc_peer.VARIABLE}")
def test_fields_and_couplings_are_those_of_plmc(tmp_path: Path):
    """`plmc -g`, in the precision that it was built with."""
    rng = np.random.default_rng(5)
    x = rng.integers(1, 21, (200, 5))
    x[:, 1] = np.where(rng.random(200) < 0.6, x[:, 0], x[:, 1])
    x[rng.random(x.shape) < 0.2] = 0
    write_fasta(tmp_path / "x.fa", x)
    words = _plmc_peer.command(str(_plmc_peer.binary()), tmp_path / "x.fa", tmp_path / "x.params", PENALTIES, False, None)
    subprocess.run([*words[:-1], "-g", words[-1]], check=True, capture_output=True)
    theirs, _ = _plmc_peer.read_parameters(tmp_path / "x.params")
    s_h, s_J = (float(np.sqrt(1 / (2 * p))) for p in PENALTIES)
    text = PROGRAM.replace('"-ACD', '"ACD')
    ours = gm.parse(text, sites=5, s_h=s_h, s_J=s_J).model().fit(x - 1, mask="one", missing=-1, gaps="ignore")
    np.testing.assert_allclose(ours.params["h"], theirs.h, atol=2e-3)
    np.testing.assert_allclose(ours.params["J"], theirs.J, atol=2e-4)
