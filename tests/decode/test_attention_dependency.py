"""Attention of adjacent outputs against loops over pairs and heads; intervals against theory and by their coverage."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm

import gmlmdsl as gm
from gmlmdsl.decode._stutter import attention_dependency

ROWS, HEADS, N, M = 5, 3, 6, 4


def distributions(rng: np.random.Generator, shape: tuple[int, ...], lengths: list[int]) -> np.ndarray:
    """Random weights over the first entries of the last axis of each row."""
    out = np.zeros(shape)
    for r, n in enumerate(lengths):
        part = rng.dirichlet(np.ones(n), shape[1:-1])
        out[r, ..., :n] = np.round(part * 12)  # equal weights occur, and zeros
        out[r] /= out[r].sum(axis=-1, keepdims=True)
    return out


def example(seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    lengths = [6, 3, 1, 5, 2]
    tokens = rng.integers(0, 2, (ROWS, N))
    tokens[0] = [4, 4, 4, 2, 3, 4]
    within = distributions(rng, (ROWS, HEADS, N, N), lengths)
    across = distributions(rng, (ROWS, HEADS, N, M), [4, 2, 3, 1, 4])
    return tokens, lengths, within, across


def top(row: list[float], k: int) -> set[int]:
    """The k largest entries, of equal ones the first; never one that is 0."""
    left, found = dict(enumerate(row)), set()
    for _ in range(k):
        best = max(left.values(), default=0)
        if best <= 0:
            break
        j = min(j for j, w in left.items() if w == best)
        found.add(j)
        del left[j]
    return found


def by_loops(tokens, lengths, within, across, distant: bool = False) -> dict:
    """{(quantity, heads, pairs): list of values}."""
    later, earlier, equal = ("later", "earlier", "repeat") if distant else ("next", "previous", "stutter")
    found: dict = {}

    def add(quantity: str, pairs: str, values: list[float], share: bool = False) -> None:
        ways = (
            {"share": sum(values) / len(values)} if share else {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
        )
        for how, value in ways.items():
            found.setdefault((quantity, how, pairs), []).append(value)

    for r, n in enumerate(lengths):
        for i, j in [pair for pair in combinations(range(n), 2) if (pair[1] > pair[0] + 1) == distant]:
            kind = equal if tokens[r][i] == tokens[r][j] else "other"
            a = [[[within[r][h][s][t] for t in range(n)] for s in range(n)] for h in range(HEADS)]
            add(f"self-attention to {later}", kind, [a[h][i][j] for h in range(HEADS)])
            add(f"self-attention to {earlier}", kind, [a[h][j][i] for h in range(HEADS)])
            p = [[across[r][h][i][t] for t in range(M)] for h in range(HEADS)]
            q = [[across[r][h][j][t] for t in range(M)] for h in range(HEADS)]
            add(
                "cross-attention total variation", kind, [sum(max(x - y, 0) for x, y in zip(p[h], q[h], strict=True)) for h in range(HEADS)]
            )
            dots = [sum(x * y for x, y in zip(p[h], q[h], strict=True)) / (math.hypot(*p[h]) * math.hypot(*q[h])) for h in range(HEADS)]
            add("cross-attention cosine distance", kind, [1 - d for d in dots])
            for k in (1, 2):
                add(f"{later} in top {k}", kind, [float(j in top(a[h][i], k)) for h in range(HEADS)], share=True)
                add(f"{earlier} in top {k}", kind, [float(i in top(a[h][j], k)) for h in range(HEADS)], share=True)
                add(f"cross-attention top {k} overlap", kind, [float(bool(top(p[h], k) & top(q[h], k))) for h in range(HEADS)], share=True)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_quantity_is_that_of_loops(seed: int):
    tokens, lengths, within, across = example(seed)
    table = attention_dependency(tokens, lengths, within, across, replications=10)
    wanted = by_loops(tokens, lengths, within, across)
    apart = attention_dependency(tokens, lengths, within, across, replications=2, distant=True)
    for name, values in by_loops(tokens, lengths, within, across, distant=True).items():
        assert apart.loc[name, "mean"] == pytest.approx(np.mean(values), abs=1e-12) and apart.loc[name, "count"] == len(values), name
    assert apart.loc[("later in top 1", "share", "difference"), "count"] == 10 + 1 + 0 + 6 + 0
    assert {n for n in table.index if n[2] != "difference"} == set(wanted)
    for name, values in wanted.items():
        row = table.loc[name]
        assert row["mean"] == pytest.approx(np.mean(values), abs=1e-12) and row["count"] == len(values), name
        assert row["sd"] == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    for quantity, how in {n[:2] for n in wanted}:
        difference = np.mean(wanted[quantity, how, "stutter"]) - np.mean(wanted[quantity, how, "other"])
        assert table.loc[(quantity, how, "difference"), "mean"] == pytest.approx(difference, abs=1e-12)
        assert table.loc[(quantity, how, "difference"), "count"] == 5 + 2 + 0 + 4 + 1


def test_the_first_and_the_last_output_are_no_pair():
    rng, full = np.random.default_rng(1), [N] * ROWS
    tokens = np.tile([0, 1, 2, 0, 1, 0], (ROWS, 1))  # only the ends are equal
    within, across = distributions(rng, (ROWS, HEADS, N, N), full), distributions(rng, (ROWS, HEADS, N, M), [M] * ROWS)
    table = attention_dependency(tokens, full, within, across, replications=50)
    assert (table.xs("stutter", level="pairs")["count"] == 0).all()
    assert table.xs("stutter", level="pairs")[["mean", "sd", "low", "high"]].isna().all(axis=None)
    assert table.xs("other", level="pairs")[["mean", "sd", "low", "high"]].notna().all(axis=None)
    assert table.xs("difference", level="pairs")["mean"].isna().all()


def test_what_stands_in_padding_changes_nothing():
    tokens, lengths, within, across = example()
    table = attention_dependency(tokens, lengths, within, across, replications=20)
    for r, n in enumerate(lengths):
        tokens[r, n:], within[r, :, n:], within[r, ..., n:], across[r, :, n:] = 4, 7.0, 0, -3.0
    again = attention_dependency(tokens, lengths, within, across, replications=20)
    assert table.equals(again)


def test_without_an_encoder_there_is_self_attention_only():
    tokens, lengths, within, across = example()
    alone = attention_dependency(tokens, lengths, within, replications=20)
    whole = attention_dependency(tokens, lengths, within, across, replications=20)
    assert len(alone) == 3 * (2 * 3 + 4) and len(whole) == len(alone) + 3 * (2 * 3 + 2)
    assert alone.equals(whole.loc[alone.index])


def clustered(rng: np.random.Generator, rows: int, spread: float) -> tuple:
    """Sentences of 2 to 6 tokens in which half of the pairs stutter; the weight to the next has a mean of its own in each sentence.

    The mean weight is 0.4 for pairs that stutter and 0.3 for others, in every sentence of any length alike.
    """
    lengths = rng.integers(2, 7, rows)
    again = rng.random((rows, N)) < 0.5
    tokens = np.cumsum(~again, axis=1)
    mean = np.where(again[:, 1:], 0.4, 0.3) + spread * rng.uniform(-1, 1, (rows, 1)) + 0.05 * rng.uniform(-1, 1, (rows, N - 1))
    within = np.zeros((rows, 1, N, N))
    for r, n in enumerate(lengths):
        within[r, 0, n - 1, n - 1] = 1
        for i in range(n - 1):
            within[r, 0, i, i + 1], within[r, 0, i, i] = mean[r, i], 1 - mean[r, i]
    return tokens, lengths, within


def test_intervals_are_those_of_whole_sentences():
    """Beside the standard error of a ratio of sums over sentences; pairs drawn on their own would give less than half of it."""
    tokens, lengths, within = clustered(np.random.default_rng(5), 300, 0.2)
    table = attention_dependency(tokens, lengths, within, replications=4000, probability=0.9)
    row = table.loc[("self-attention to next", "mean", "other")]
    sums, counts = np.zeros(300), np.zeros(300)
    for r, n in enumerate(lengths):
        for i in range(n - 1):
            if tokens[r, i] != tokens[r, i + 1]:
                sums[r] += within[r, 0, i, i + 1]
                counts[r] += 1
    error = math.sqrt(((sums - row["mean"] * counts) ** 2).sum()) / counts.sum()
    half = norm.ppf(0.95) * error
    assert row["high"] - row["mean"] == pytest.approx(half, rel=0.1) and row["mean"] - row["low"] == pytest.approx(half, rel=0.1)
    assert 2 * norm.ppf(0.95) * row["sd"] / math.sqrt(row["count"]) < 0.75 * (row["high"] - row["low"])
    between = table.loc[("self-attention to next", "mean", "difference")]
    assert between["low"] < 0.1 < between["high"]
    same = table.loc[("self-attention to next", "mean", "stutter")]
    apart = math.hypot(row["high"] - row["low"], same["high"] - same["low"])  # if the two kinds were of different sentences
    assert between["high"] - between["low"] < 0.75 * apart  # what a sentence adds to both cancels


def test_the_seed_fixes_the_intervals():
    tokens, lengths, within = clustered(np.random.default_rng(6), 40, 0.1)
    one, two, other = (attention_dependency(tokens, lengths, within, replications=300, seed=s) for s in (1, 1, 2))
    assert one.equals(two) and not one.equals(other)
    assert one.drop(columns=["low", "high"]).equals(other.drop(columns=["low", "high"]))


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.8, 0.94])
def test_intervals_cover_as_often_as_they_say(probability: float):
    """300 data sets of 80 sentences; percentile intervals of so many sentences miss by up to two points, beside chance."""
    truth, hits, sets = {"stutter": 0.4, "other": 0.3, "difference": 0.1}, dict.fromkeys(("stutter", "other", "difference"), 0), 300
    for s in range(sets):
        data = clustered(np.random.default_rng((7, s)), 80, 0.2)
        table = attention_dependency(*data, replications=400, probability=probability, seed=s).loc[("self-attention to next", "mean")]
        for pairs, value in truth.items():
            hits[pairs] += table.loc[pairs, "low"] <= value <= table.loc[pairs, "high"]
    chance = 3.5 * math.sqrt(probability * (1 - probability) / sets)
    for pairs, count in hits.items():
        assert abs(count / sets - probability) < chance + 0.02, (pairs, count)


def test_what_does_not_fit_is_refused():
    tokens, lengths, within, across = example()
    cases = [
        ("E501", (tokens[0], lengths, within, across), {}),
        ("E501", (tokens, lengths[:-1], within, across), {}),
        ("E501", (tokens, [7, *lengths[1:]], within, across), {}),
        ("E501", (tokens, lengths, within[:, 0], across), {}),
        ("E501", (tokens, lengths, within[..., :-1], across), {}),
        ("E501", (tokens, lengths, within, across[:-1]), {}),
        ("E504", (tokens, lengths, within * 0.9, across), {}),
        ("E504", (tokens, lengths, within, np.log(across + 1e-3)), {}),
        ("E504", (tokens, lengths, within, across * np.nan), {}),
        ("E507", (tokens, lengths, within, across), {"replications": 0}),
        ("E507", (tokens, lengths, within, across), {"probability": 1.0}),
    ]
    for code, given, options in cases:
        with pytest.raises(gm.GmlmError) as caught:
            attention_dependency(*given, **options)
        assert caught.value.codes == (code,)
