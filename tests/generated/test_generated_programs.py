"""Well-typed programs from seeds, every form in every place, each verb beside the oracle; what is forbidden is refused.

The gate runs 40 programs of a fixed seed, the night 1,000 of a fresh one, which is printed. A failure is told by a minimal program.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter

import pytest
from thinned import thinned

import gmlmdsl as gm

from ._compare import CHEAP, compared, in_turn
from ._positions import POSITIONS
from ._programs import Program, alone, pairs, programs
from ._shrink import told
from ._table import counts

GATE, NIGHT, SEED, PARTS = 40, 1000, 39, 20
HOST = ("options", "bounds")  # what compiles nothing
MOST_TOLD = 3  # failures of one run that are shrunk: that takes its time


def in_float64(k: int) -> bool:
    """Every fourth program is in single precision."""
    return k % 4 != 3


def verify(seed: int, start: int, count: int, every: int) -> None:
    """Compare a run of programs; one verb that costs more for each `every`-th, beside those that cost little."""
    wrong = []
    for k, program in enumerate(programs(seed, count, start), start):
        more = (in_turn(program, in_float64(k)),) if k % every == 0 else ()
        for failure in compared(program, in_float64(k), (*CHEAP, *more)):
            text = told(program, failure, in_float64(k)) if len(wrong) < MOST_TOLD else f"{failure.what} ({failure.how})"
            wrong.append(f"program {k} of seed {seed}: {text}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("start", thinned(range(0, GATE, 10), 4))
def test_programs_of_the_gate(start: int) -> None:
    verify(SEED, start, 10, every=5)


@pytest.fixture(scope="module")
def fresh_seed() -> int:
    """The night's own: printed, and taken from `GMLM_SEED` where that is set, so that a night can be run again."""
    seed = int(os.environ.get("GMLM_SEED", time.time_ns() % 2**31))
    print(f"seed of the generated programs: {seed} (run again with GMLM_SEED={seed})")
    return seed


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_the_night(fresh_seed: int, part: int) -> None:
    verify(fresh_seed, part * NIGHT // PARTS, NIGHT // PARTS, every=3)


@pytest.mark.slow
def test_every_form_stands_in_every_place_that_takes_it() -> None:
    found = counts(SEED, NIGHT)
    assert [pair for pair in pairs("must") if not found[pair]] == []


def test_the_programs_of_the_gate_reach_every_place_and_follow_from_their_seed() -> None:
    first, again = (list(programs(SEED, GATE)) for _ in range(2))
    assert [p.text for p in first] == [p.text for p in again]
    assert {place for p in first for _, place in p.instances} == set(POSITIONS)


def taken(program: Program) -> bool:
    """Whether a program is loaded; a refusal is a `GmlmError`, any other exception is a fault."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gm.parse(program.text, **program.inputs).model("m")
    except gm.GmlmError:
        return False
    return True


FORBIDDEN = pairs("never")
EVERY = 16  # of the gate; each number of the remainder is as good


def wrongly_taken(of: list[tuple[str, str]]) -> list[str]:
    """The forms and places whose program is loaded all the same."""
    made = [(pair, alone(k, *pair, force=True)) for k, pair in enumerate(of)]
    return [f"{form} as {place}\n{p.text}" for (form, place), p in made if p is not None and taken(p)]


def test_what_is_forbidden_is_refused() -> None:
    assert wrongly_taken(FORBIDDEN[::EVERY]) == []


@pytest.mark.slow
def test_all_that_is_forbidden_is_refused() -> None:
    assert wrongly_taken(FORBIDDEN) == []


def perhaps(of: list[tuple[str, str]], names: tuple[str, ...]) -> tuple[Counter[str], list[str]]:
    """What the contract leaves open: refused, or loaded and right in the comparisons named."""
    kinds, wrong = Counter[str](), []
    for k, pair in enumerate(of):
        program = alone(k, *pair, force=True)
        if program is None or not taken(program):
            kinds["refused" if program else "no value"] += 1
            continue
        kinds["taken"] += 1
        failures = [f for f in compared(program, True, names) if not f.how.startswith("refused")]  # or at its first use
        wrong += [f"{f.what}: {f.detail}\n{program.text}" for f in failures]
    return kinds, wrong


def test_what_is_left_open_is_refused_or_right() -> None:
    kinds, wrong = perhaps(pairs("may")[:: 4 * EVERY], HOST)
    assert wrong == []
    assert kinds["taken"]


@pytest.mark.slow
def test_all_that_is_left_open_is_refused_or_right() -> None:
    assert perhaps(pairs("may"), CHEAP)[1] == []
