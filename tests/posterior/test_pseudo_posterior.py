"""A pseudolikelihood taken for a likelihood is wrong in both directions: the figures that messages and pages quote, by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from markdown_blocks import ROOT
from oracle import Moved, Oracle, estimation

import gmlmdsl as gm

RING = """
graph G = chain(8, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h
  param J
  factor h * x[i]        for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
"""


@pytest.mark.usefixtures("float64")
def test_a_pseudo_posterior_is_too_narrow_for_couplings_and_too_wide_for_fields():
    """sqrt(H^-1 / H^-1 S H^-1) of the ring, c = 8 as in a fit; by the compiled theory and by the oracle's own differentiation."""
    program, params = gm.parse(RING), {"h": np.array(0.1), "J": np.array(0.4)}
    own = estimation([Moved(Oracle(program.checked, "ring", {}), params)], "single", None)
    found = gm.theory.pseudolikelihood_information(program.model(), params, "single")
    np.testing.assert_allclose(found.hessian, own.hessian, rtol=1e-6, atol=1e-9)
    naive = np.linalg.inv(8 * own.hessian)
    width = np.sqrt(np.diag(naive) / np.diag(own.covariance()))
    np.testing.assert_allclose(width, [1.6186, 0.7562], atol=5e-5)
    np.testing.assert_allclose(np.diag(found.covariance(None)), np.diag(own.covariance()), rtol=1e-6)
    figures = f"{width[1]:.2f} times", f"{width[0]:.2f} times"
    for page in ("explanation/standard-errors.md", "how-to/check-a-model.md", "reference/errors.md"):
        text = " ".join((ROOT / "docs" / page).read_text().split())
        assert all(figure in text for figure in figures), page
