"""One mistake gives one error: small changes of valid programs, each checked."""

from __future__ import annotations

from collections import Counter

import pytest
from mutants import MOST_SECONDS, Outcome, mutants, outcome

from gmlmdsl._diagnostics import GmlmError, Source
from gmlmdsl.program import check_source

N_MUTATIONS = 500
N_LOADED = 1_000


def faults(text: str, name: str) -> GmlmError | None:
    """What the checker says of a text; None where it is valid."""
    try:
        check_source(Source(f"{name}.gmlm", text))
    except GmlmError as error:
        return error
    return None


@pytest.fixture(scope="module")
def checked() -> list[tuple[str, GmlmError | None]]:
    """The kind of change and the outcome of every mutant; anything but a `GmlmError` fails here."""
    return [(kind, faults(text, name)) for name, kind, text in mutants(N_MUTATIONS, seed=2024)]


@pytest.mark.slow
def test_one_mistake_gives_one_error(checked: list[tuple[str, GmlmError | None]]) -> None:
    counts = [len(error.diagnostics) for _, error in checked if error is not None]
    assert len(counts) > N_MUTATIONS // 2
    assert sum(c == 1 for c in counts) / len(counts) >= 0.9


def test_no_kind_of_mistake_is_much_worse_than_the_others(checked: list[tuple[str, GmlmError | None]]) -> None:
    invalid = Counter(kind for kind, error in checked if error is not None)
    single = Counter(kind for kind, error in checked if error is not None and len(error.diagnostics) == 1)
    assert {kind: single[kind] / n for kind, n in invalid.items() if single[kind] / n < 0.75} == {}


def test_every_error_of_a_mutant_has_a_place(checked: list[tuple[str, GmlmError | None]]) -> None:
    for _, error in checked:
        for d in error.diagnostics if error is not None else ():
            assert d.span is not None and d.message and not d.message.endswith(".")


def test_every_mutant_is_checked_and_loaded_without_an_error_of_another_kind() -> None:
    found = [outcome(*mutant) for mutant in mutants(N_LOADED // 2, seed=15)]
    assert faulty(found) == []
    assert sum(not o.codes for o in found) > N_LOADED // 20  # so many reach the binder with nothing refused


@pytest.mark.slow  # long; mutants of right programs are above
def test_every_mutant_of_a_wrong_program_is_answered_too() -> None:
    assert faulty([outcome(*mutant) for mutant in mutants(N_LOADED, seed=23, wrong=True)]) == []


@pytest.mark.slow
def test_many_mutants_of_wrong_programs_are_answered() -> None:
    assert faulty([outcome(*mutant) for mutant in mutants(15 * N_LOADED, seed=24, wrong=True)]) == []


@pytest.mark.slow
def test_many_mutants_are_checked_and_loaded_without_an_error_of_another_kind() -> None:
    assert faulty([outcome(*mutant) for mutant in mutants(50 * N_LOADED, seed=16)]) == []


def faulty(found: list[Outcome]) -> list[Outcome]:
    """Those that end in another error than one of the language's, or take too long."""
    return [o for o in found if o.failed or o.seconds > MOST_SECONDS]
