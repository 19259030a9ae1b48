"""What we export is read by the readers of other packages, where they are installed, with the probabilities of the model."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exchange_cases import ASIA

import gmlmdsl as gm

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore"),  # of the peers
]
RING = """model ring {
  var x[i in range(5)] : range(3)
  param J
  factor J * x[i] * x[(i + 1) % 5] for i in range(5)
  factor 0.3 * x[0]
}"""


def asia(folder: Path) -> gm.JointModel:
    (folder / "asia.bif").write_text(ASIA)
    found = gm.read_model(folder / "asia.bif")
    return gm.parse(found.text, **found.inputs).model()


def law_by_pgmpy(network: Any, variable: str) -> dict[str, float]:
    """The distribution of a variable by pgmpy's own elimination, by state."""
    from pgmpy.inference import VariableElimination

    found = VariableElimination(network).query([variable], show_progress=False).normalize(inplace=False)
    return {str(s): float(found.get_value(**{variable: s})) for s in found.state_names[variable]}


@pytest.mark.parametrize(("ending", "reader"), [("bif", "BIFReader"), ("xmlbif", "XMLBIFReader")])
def test_pgmpy_reads_bayesian_networks(ending: str, reader: str, tmp_path: Path):
    readers = pytest.importorskip("pgmpy.readwrite")
    model = asia(tmp_path)
    model.export({}, tmp_path / f"out.{ending}")
    network = getattr(readers, reader)(str(tmp_path / f"out.{ending}")).get_model()
    ours = model.marginals({})
    for name in ours:
        found = law_by_pgmpy(network, name)
        wanted = dict(zip(ours.labels[name], ours[name].tolist(), strict=True))
        assert found == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kind", ["MARKOV", "BAYES"])
def test_pgmpy_reads_uai_files(kind: str, tmp_path: Path):
    """The tables of a Bayesian network are read as factors: as distributions, pgmpy 1.1.2 reads them in another order.

    The format has the child last in the scope, and the last variable changes fastest. pgmpy lets it change slowest.
    """
    readers = pytest.importorskip("pgmpy.readwrite")
    model, params = (gm.parse(RING).model(), {"J": 0.4}) if kind == "MARKOV" else (asia(tmp_path), {})
    model.export(params, tmp_path / "m.uai")
    text = (tmp_path / "m.uai").read_text()
    assert text.startswith(kind)
    (tmp_path / "factors.uai").write_text(text.replace("BAYES", "MARKOV"))
    network = readers.UAIReader(str(tmp_path / "factors.uai")).get_model()
    ours = model.marginals(params)
    laws = [row for v in model.graph.variables for row in ours[v.name].reshape(-1, len(v.labels))]
    for number, law in enumerate(laws):
        found = law_by_pgmpy(network, f"var_{number}")
        np.testing.assert_allclose(list(found.values()), law, atol=1e-9)


@pytest.mark.parametrize("ending", ["json", "coo"])
def test_dimod_reads_quadratic_models(ending: str, tmp_path: Path):
    dimod = pytest.importorskip("dimod")
    text = "model m {\n  var x[i in range(5)] : spin\n  param h[i in range(5)], J\n  factor h[i] * x[i] for i in range(5)\n"
    model = gm.parse(text + "  factor J * x[i] * x[(i + 1) % 5] for i in range(5)\n}\n").model()
    params = {"h": np.linspace(-0.5, 0.7, 5), "J": 0.4}
    model.export(params, tmp_path / f"m.{ending}")
    if ending == "json":
        theirs = dimod.BinaryQuadraticModel.from_serializable(json.loads((tmp_path / "m.json").read_text()))
    else:
        coo = pytest.importorskip("dimod.serialization.coo")
        with (tmp_path / "m.coo").open() as file:
            theirs = coo.load(file, vartype="SPIN")
    states = np.array([*itertools.product((-1, 1), repeat=5)])
    labels = sorted(theirs.variables, key=str)
    weights = np.exp([-theirs.energy(dict(zip(labels, s.tolist(), strict=True))) for s in states])
    up = (weights[:, None] * (states == 1)).sum(axis=0) / weights.sum()
    np.testing.assert_allclose(model.marginals(params)["x"][:, 1], up, atol=1e-9)
