"""Exchanges of values that keep tables: which groups are found."""

from __future__ import annotations

import numpy as np

from gmlmdsl.plan._clusters import colours_of, groups_of


def sets(groups: list[np.ndarray]) -> list[set[tuple[int, ...]]]:
    return [{tuple(int(v) for v in p) for p in g} for g in groups]


def test_two_values_are_exchanged():
    assert sets(groups_of(np.array([[0, 1], [1, 0]]))) == [{(0, 1), (1, 0)}]


def test_potts_values_go_round():
    assert sets(groups_of(np.eye(4, dtype=int))) == [{(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)}]


def test_a_clock_is_mirrored():
    distance = (np.arange(6)[:, None] - np.arange(6)) % 6
    found = sets(groups_of(np.minimum(distance, 6 - distance)))
    mirrors = [{tuple(range(6)), tuple((r - a) % 6 for a in range(6))} for r in range(6)]
    turn = {tuple(range(6)), tuple((a + 3) % 6 for a in range(6))}
    assert sorted(map(sorted, found)) == sorted(map(sorted, [*mirrors, turn]))


def test_a_clock_with_a_sense_of_turning_has_its_turns():
    turns = (np.arange(5)[:, None] - np.arange(5)) % 5
    assert sets(groups_of(turns)) == [{tuple((a + s) % 5 for a in range(5)) for s in range(5)}]


def test_values_that_are_alike_in_part():
    """0, 1, 2 may be exchanged, 3 may not."""
    table = np.where(np.eye(4, dtype=bool), 1, 0)
    table[3, 3] = 7
    assert sets(groups_of(table)) == [{(0, 1, 2, 3), (1, 2, 0, 3), (2, 0, 1, 3)}]


def test_no_symmetry():
    assert groups_of(np.arange(9).reshape(3, 3)) == []


def test_every_group_is_one_and_keeps_the_colours():
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = rng.integers(0, 2, (5, 5))
        table = np.minimum(table, table.T)
        for group in groups_of(table):
            elements = {tuple(p) for p in group}
            assert tuple(range(5)) == tuple(group[0])
            assert {tuple(a[b]) for a in group for b in group} == elements
            assert all((table[np.ix_(p, p)] == table).all() for p in group)


def test_colours_are_equal_where_all_tables_are():
    tables = np.array([[[1.0, 2.0], [2.0, 1.0 + 1e-14]], [[3.0, 4.0], [5.0, 3.0]]])
    found = colours_of(tables)
    assert found[0, 0] == found[1, 1]
    assert len({int(c) for c in found.ravel()}) == 3
