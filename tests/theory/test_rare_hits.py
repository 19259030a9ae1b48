"""Expected steps to a rare set, beside a chain of five states whose answer needs no subtraction; matrices by either route."""

import numpy as np
import pytest
from markdown_blocks import ROOT

import gmlmdsl as gm
from gmlmdsl.theory import _block_dynamics

N, CLIQUE = 7, 4


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def by_counts(h, J):
    """Steps of single-site Gibbs from all -1 to all +1 on the clique, through the number of cells that are +1: sums of positive terms."""
    total, last = 0.0, 0.0
    for m in range(CLIQUE):
        up = (CLIQUE - m) / N * sigmoid(2 * (h + J * (2 * m - 3)))
        down = m / N * sigmoid(-2 * (h + J * (2 * m - 5)))
        last = (1 + down * last) / up
        total += last
    return total


@pytest.mark.parametrize("coupling", [1.0, 3.0, 5.0, 8.0, 12.0])
def test_rare_hits_keep_their_digits(coupling):
    model = gm.load(ROOT / "examples" / "labs" / "gallery" / "modes.gmlm", N=N, C=CLIQUE, k=1).model()
    params = {"h": 5.0, "J": coupling}
    found = gm.theory.hitting_time(model, params, lambda x: (x[:, :CLIQUE] == 1).all(axis=1), mask="block", start=-np.ones(N, int))
    params32 = {k: float(np.float32(v)) for k, v in params.items()}
    np.testing.assert_allclose(found, by_counts(**params32), rtol=1e-9)


def test_the_tail_of_a_hitting_time_sums_to_it():
    model = gm.load(ROOT / "examples" / "labs" / "gallery" / "modes.gmlm", N=6, C=3, k=2).model()
    arguments = (model, {"h": 0.3, "J": 0.5}, lambda x: (x[:, :3] == 1).all(axis=1))
    start = -np.ones(6, int)
    tail = gm.theory.hitting_tail(*arguments, start, mask="block", steps=3000)
    np.testing.assert_allclose(tail.sum(), gm.theory.hitting_time(*arguments, mask="block", start=start), rtol=1e-9)


PLAIN = """
model m {
  var a : bit
  var b : range(3)
  var c : range(4)
  param u[i in range(3)]
  param v
  factor u[b]
  factor v * a * c
  require not (a == 1 and b == 2)
}
mask two   = subsets(size = 2)
mask mixed = mixture { 0.3 : subsets(a, b, size = 1)  0.7 : subsets(size = 3) }
mask coins = bernoulli(rate = 0.4)
"""


@pytest.mark.parametrize("mask", ["two", "mixed", "coins"])
def test_a_plain_masks_matrix_is_the_sum_over_its_blocks(mask, monkeypatch):
    model = gm.parse(PLAIN).model()
    _, dynamics = _block_dynamics.dynamics_of(model, {"u": [0.1, 0.4, -0.3], "v": 0.5}, mask, "a test")
    fast = dynamics.dense()
    monkeypatch.setattr(_block_dynamics, "MOST_SUPERSET_SUMS", 0)
    np.testing.assert_allclose(fast, dynamics.dense(), atol=1e-14)
    np.testing.assert_allclose(fast.sum(axis=1), 1, atol=1e-14)
