"""The counts of `house.py`: none is above the kept one, and the counting is right on a small module."""

from __future__ import annotations

import ast

import pytest
from house import branches, counts, dispatches, is_numeric_constant, kept, members_of, parameters

SMALL = """
Kind = A | B
def plain(a, b): return a
def chosen(self, a, *, b=1):
    match a:
        case A(): return [c for c in b if c and a]
        case other.B(x) if x: return 1
        case _: return 0 if b else 2
def asked(a):
    for x in a:
        if isinstance(x, (int, B)): return lambda: x
    else: return None
    def inner(x): return isinstance(x, A) or x
"""


@pytest.fixture(scope="module")
def functions():
    return {node.name: node for node in ast.walk(ast.parse(SMALL)) if isinstance(node, ast.FunctionDef)}


def test_no_count_is_above_the_kept_one():
    """A lower count is kept by `python tests/house.py --keep`; a higher one needs something else to go."""
    found, limits = counts(), kept()
    assert found.keys() == limits.keys()
    assert {name: (count, limits[name]) for name, count in found.items() if count > limits[name]} == {}


def test_branches_are_counted_as_radon_does(functions):
    assert {name: branches(node) for name, node in functions.items()} == {"plain": 1, "chosen": 7, "asked": 4, "inner": 2}


def test_dispatch_and_parameters_are_seen(functions):
    members = members_of(ast.parse(SMALL), "Kind")
    assert [name for name, node in functions.items() if dispatches(node, members)] == ["chosen", "asked", "inner"]
    assert {name: parameters(node) for name, node in functions.items()} == {"plain": 2, "chosen": 2, "asked": 1, "inner": 1}


def test_numeric_constants_are_seen():
    """Numbers written with operators, and tuples of them; not texts, flags, calls or what functions and classes hold."""
    text = "MOST = 1 << 4\n_A: float = -2.0**3\nSIZES = (1, (2, 3))\nB = True\nC = f(1)\nD = ()\nE = 'x'\nname = 1\nclass F:\n    G = 1\nH, I = 1, 2"
    assert [is_numeric_constant(node) for node in ast.parse(text).body] == [True] * 3 + [False] * 7


def test_limits_that_are_written_twice_to_load_no_jax_are_equal():
    from gmlmdsl.cli import limits as of_commands
    from gmlmdsl.data import MOST_SEED
    from gmlmdsl.report import limits as of_reports
    from gmlmdsl.sample import limits as of_draws

    assert of_commands.MOST_SEED == MOST_SEED
    assert (of_reports.MAX_R_HAT, of_reports.MIN_ESS_PER_CHAIN) == (of_draws.MAX_R_HAT, of_draws.MIN_ESS_PER_CHAIN)
