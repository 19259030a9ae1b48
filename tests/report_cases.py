"""A page of the report component with every kind of picture."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from gmlmdsl.report import (
    Report,
    plot_categories,
    plot_centrality,
    plot_contacts,
    plot_couplings,
    plot_effects,
    plot_ess_r_hat,
    plot_forest,
    plot_images,
    plot_loss,
    plot_network,
    plot_precision,
    plot_profile,
    plot_traces,
    precision_by_rank,
)


def lattice() -> np.ndarray:
    steps = ((0, 1), (1, 0), (1, 1), (1, -1))
    cells = [(r, c) for r in range(8) for c in range(8)]
    return np.array([[[c, r], [c + x, r + y]] for r, c in cells for y, x in steps if 0 <= r + y < 8 and 0 <= c + x < 8], dtype=float)


def network() -> pd.DataFrame:
    """Couplings of four cells: one told from 0, one not, one without an estimate."""
    columns = {"first": ["a", "b", "a"], "second": ["b", "c", "d"], "value": [1.5, -0.3, np.inf]}
    return pd.DataFrame(columns | {"3%": [1.0, -0.8, -np.inf], "97%": [2.0, 0.2, np.inf]})


def pictures() -> dict[str, Figure]:
    random = np.random.default_rng(0)
    edges = lattice()
    values = random.normal(size=len(edges))
    values[3] = np.inf
    images = (random.random((30, 8, 8)) < 0.4).astype(float)
    images[:, 0] = np.nan
    ess = np.array([10.0, 3900, 4000, np.nan])
    return {
        "images": plot_images(images, images[:7]),
        "couplings": plot_couplings(edges, values, marked=np.arange(len(edges)) == 7),
        "traces": plot_traces({"log p": random.normal(size=(4, 2000)), "m": random.integers(0, 2, (4, 50))}),
        "loss": plot_loss(np.exp(-np.arange(40.0))),
        "forest": plot_forest(
            ["J", "h"], {"single": np.array([1, 2.0]), "pairs": np.array([1.1, np.nan])}, {"single": [0.1, np.nan], "pairs": [0.1, 0.1]}
        ),
        "profile": plot_profile(
            np.linspace(-1, 3, 9), (np.linspace(-1, 3, 9) - 1) ** 2 * 2, estimate=1.0, interval=(-0.33, np.inf), label="`J[0, 1]`"
        ),
        "network": plot_network(network(), fields={"a": 1.0, "b": -2.0}),
        "contacts": plot_contacts(network(), top=2, distances=10.0 * np.abs(np.arange(4.0)[:, None] - np.arange(4))),
        "precision": plot_precision({"two": precision_by_rank(network(), np.ones((4, 4)))}),
        "centrality": plot_centrality(
            pd.DataFrame({n: [1.0, 2.0] for n in ("strength", "expected_influence", "closeness", "betweenness")}, index=["a", "b"])
        ),
        "effects": plot_effects(np.array([[0, -1.5], [-np.inf, 0], [2, 0]]), ["n", "y"], ["a", "b", "c"], wildtype=np.array([0, 1, 1])),
        "ess": plot_ess_r_hat(ess, np.array([1.2, 1, 1, np.nan]), chains=4),
        "categories": plot_categories(
            ["A", "C"], np.array([0.4, 0.6]), standard_errors=np.array([0.01, 0.02]), exact=np.array([0.41, 0.59])
        ),
    }


def whole_page() -> str:
    """A report with all that a report can hold."""
    report = Report("Digits", "A pairwise model", footer="gmlmdsl, seed 0")
    report.section("Estimates").text("The mask `pairs` sees every coupling.").facts({"rows": 1797, "efficiency": 0.9612345, "exact": True})
    rows = [[f"J[{i}, {i + 1}]", 0.1 * i, 0.01, 0.1 * i, float("nan")] for i in range(12)]
    report.table(["coupling", "estimate", "se", "estimate", "se"], rows, "Two masks", groups=[("", 1), ("single", 2), ("pairs", 2)])
    report.warning("separated", "`J[0, 1]` has no finite estimate", "use a prior").items("one", "two")
    for name, figure in pictures().items():
        report.figure(figure, alt=f"picture of {name}", caption=f"Caption of {name}.")
    report.section("Program").subsection("Text").code("model m {\n  " + "x " * 200 + "\n}")
    return report.html()
