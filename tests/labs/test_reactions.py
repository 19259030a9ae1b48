"""The laboratory of reactions: its laws against joint distributions, its page against kept output, the weights where they are installed."""

import importlib.util
import re

import laboratory
import numpy as np
import pytest
import reactions

pytestmark = pytest.mark.usefixtures("standard_promotion")
NEEDED = ("torch", "transformers", "rxnmapper")


@pytest.fixture
def weights():
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f'not installed: {", ".join(missing)} (pip install "gmlmdsl[pretrained]", then pip install --no-deps rxnmapper)')


def conditionals_of(joint):
    return [joint / joint.sum(axis=i, keepdims=True) for i in range(joint.ndim)]


def test_rows_are_fifty_different_reactions():
    found = reactions.reactions(reactions.Size())
    assert [len(rows) for rows in found.values()] == [10] * 5
    texts = {"".join(row) for rows in found.values() for row in rows}
    assert len(texts) == 50 and all(text.count(">>") == 1 and "{" not in text for text in texts)
    assert "CC(=O)O.CCO>>CCOC(C)=O" in texts
    for row, (first, last) in ((reactions.FILLED, reactions.GONE), (reactions.REACTION, reactions.HOLE)):
        assert "".join(reactions.SIGN.findall(row)[first:last]) in ("CC(=O)", "CCCO")
    assert set(reactions.SIGN.findall(reactions.REACTION)) - set(reactions.SYMBOLS) == set()
    assert reactions.SIGN.findall("[Na+].ClCBr%12>>C") == ["[Na+]", ".", "Cl", "C", "Br", "%12", ">>", "C"]


def test_sweeps_by_the_conditionals_of_a_joint_distribution_settle_at_it():
    joint = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(2, 3, 4)
    tables = conditionals_of(joint)
    for backwards in (False, True):
        np.testing.assert_allclose(reactions.stationary(tables, backwards), joint, atol=1e-12)
    assert max(reactions.gap(joint, tables, i) for i in range(3)) < 1e-15


def test_conditionals_of_different_distributions_leave_a_bias():
    """Where sweeps settle, the cell that was drawn last has its own conditional, and others do not."""
    rng = np.random.default_rng(1)
    tables = [conditionals_of(rng.dirichlet(np.ones(12)).reshape(2, 3, 2))[i] for i in range(3)]
    forward, backward = reactions.stationary(tables), reactions.stationary(tables, backwards=True)
    matrix = np.stack([reactions.swept(one.reshape(2, 3, 2), tables).ravel() for one in np.eye(12)])
    np.testing.assert_allclose(forward.ravel() @ matrix, forward.ravel(), atol=1e-12)
    gaps = [reactions.gap(forward, tables, i) for i in range(3)]
    assert gaps[2] < 1e-12 < 0.01 < min(gaps[:2]) and np.abs(forward - backward).sum() > 0.01
    own = forward / forward.sum(axis=0)
    assert gaps[0] == pytest.approx((forward.sum(axis=0) * np.abs(own - tables[0]).sum(axis=0) / 2).sum())


def test_draws_from_another_law_have_a_small_p_value():
    law = np.random.default_rng(2).dirichlet(np.full(60, 0.3))
    drawn = np.random.default_rng(3).choice(60, size=2000, p=law)
    assert reactions.p_value(np.bincount(drawn, minlength=60), law) > 1e-3
    assert reactions.p_value(np.bincount(drawn, minlength=60), np.roll(law, 1)) < 1e-9


def test_the_page_has_the_numbers_of_the_kept_output():
    lab = reactions.lab()
    size = lab.sizes["default"]
    kept = laboratory.load(lab.kept / "results.json", size, lab.settings)
    results = {part: found["result"] for part, found in kept.items()}
    assert set(results) == set(lab.parts(size, lab.kept))
    page = lab.page.read_text(encoding="utf-8")
    assert laboratory.filled(page, "reactions", lab.tables(results, size) | {"reactions-time": laboratory.times(lab, kept)}) == page
    assert sum(part["rows"] for part in results["log p, 64 bits"].values()) == 50
    assert max(part["row"] for part in results["log p, 32 bits"].values()) < 1e-5
    assert max(part["token"] for part in results["log p, 64 bits"].values()) < 1e-9


def test_without_the_package_the_laboratory_names_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="transformers is not installed: pip install"):
        reactions.installed()


@pytest.mark.slow  # compiles the network
@pytest.mark.usefixtures("weights")
@pytest.mark.filterwarnings("ignore")  # of the reference library
def test_log_p_is_that_of_the_reference_library():
    size = reactions.lab().sizes["quick"]
    for doubles, most in ((False, 1e-4), (True, 1e-9)):
        found = reactions.scores(size, doubles)
        assert set(found) == set(reactions.KINDS) and max(part["token"] for part in found.values()) < most


@pytest.mark.slow  # as above
@pytest.mark.usefixtures("weights")
@pytest.mark.filterwarnings("ignore")
def test_the_quick_size_runs_and_goes_on(tmp_path, capsys):
    for lines in (4, 0):
        assert laboratory.main(reactions.lab(), ["--quick", "--out", str(tmp_path)]) == 0
        assert len(re.findall(r"^\d/4 ", capsys.readouterr().out, re.M)) == lines
