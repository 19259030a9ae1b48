"""The examples of guided generation: the page's numbers are those that the script prints, and errors grow as they should."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import jax
import numpy as np
import pytest
from chi_square import p_value
from markdown_blocks import ROOT

import gmlmdsl as gm

EXAMPLES = ROOT / "examples" / "guided"
PAGE = ROOT / "docs" / "how-to" / "generate-under-constraints.md"


def script(name: str) -> ModuleType:
    """A script of the folder, loaded as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_table_of_the_page_is_what_the_script_prints():
    printed = script("constrained")
    rows = [re.split(r"\s{2,}", line) for line in printed.table(*printed.laws()).splitlines()[1:]]
    for row in rows:
        assert f"| {' | '.join(row)} |" in PAGE.read_text(encoding="utf-8")


def test_lists_of_a_trigram_are_those_of_a_parser_and_their_law_is_by_enumeration():
    """Every list is enumerated by a parser of the script's own: `require` has them and no others, and their probabilities are the shares."""
    printed = script("constrained")
    p = np.array([weight for _, weight, _ in printed.filtered(printed.trigram(printed.TEXT))])
    with jax.enable_x64(True):
        names, exact, q, share = printed.lists()
    assert len(names) == len(set(names)) == 482
    assert (exact.sum(), q.sum(), share) == (pytest.approx(1, abs=1e-10), pytest.approx(1, abs=1e-12), pytest.approx(p.sum()))
    np.testing.assert_allclose(exact, p / share, atol=1e-10)
    page = PAGE.read_text(encoding="utf-8")
    head, _, *rows = printed.list_table(names, exact, q, share).splitlines()
    assert f"{head.split()[0]} lists" in page
    assert f"is {head.split()[-5]} in total variation away" in page
    assert f"{100 * share:.0f} % are lists" in page
    for row in rows:
        assert f"| {' | '.join(row.split())} |" in page


@pytest.mark.slow
def test_filtering_by_the_parser_is_filtering_by_the_backward_pass():
    """Draws of rejection of symbols by `completable`, beside the probabilities that the script computes: chi-square, a seed fixed before."""
    printed = script("constrained")
    names, _, q, _ = printed.lists()
    model = gm.load(EXAMPLES / "lists.gmlm", **printed.trigram(printed.TEXT)).model("text")
    x = model.sample({}, "filter", draws=1000, seed=3, progress=False)["posterior"]["x"].values[0]
    number = {name: k for k, name in enumerate(names)}
    counts = np.bincount([number["".join(printed.SYMBOLS[a] for a in row)] for row in x], minlength=len(names))
    assert p_value(counts, q) > 1e-4


@pytest.mark.slow
def test_errors_of_a_value_stay_in_symbols_and_leave_the_walk():
    with jax.enable_x64(True):  # the target's log p too
        found = {key: float(np.mean(v)) for key, v in script("amplification").compute(small=True).items()}
    assert found["walk", 6, 1.0, 3000] < 0.01 < found["walk", 6, 1.0, 30]
    assert found["symbols", 6, 1.0, 0] > 0.1
    assert found["first leaf", 6, 1.0, 0] > 0.1
    assert max(v for (_, _, sd, _), v in found.items() if sd == 0) < 1e-9


@pytest.mark.slow
def test_the_passes_over_all_prefixes_of_long_strings_find_what_the_package_does_for_short_ones():
    """Its values, its rejection of symbols by noisy ones, and its walk to a first leaf: 20000 steps leave nothing of five symbols."""
    printed, n, seed = script("amplification"), 5, 2
    prefixes = [list(map(int, np.binary_repr(k, h))) if h else [] for h in range(n + 1) for k in range(2**h)]
    with jax.enable_x64(True):
        bound = printed.program(n, 0.5)
        exact, rough = (gm.prefix_values(bound.model("words"), {}, name, prefixes, seed=seed) for name in ("truth", "rough"))
        np.testing.assert_allclose(np.concatenate(printed.truth(n)), exact, rtol=1e-10)
        levels = [rough[2**h - 1 : 2 ** (h + 1) - 1] for h in range(n + 1)]
        wanted = [printed.away(bound, sampler, seed) for sampler in ("symbols", "first")]
    np.testing.assert_allclose(printed.long_away(levels), wanted, rtol=1e-9)
    assert min(wanted) > 0.05
