"""Refinement against loops over passes and cells: tokens, scores, passes and traces of every schedule, remask, confidence and stop."""

from __future__ import annotations

import numpy as np
import pytest
from networks_cases import draws, made, pairs, stats
from oracle import _refinement as oracle
from oracle._refinement import Rules
from thinned import thinned

N, Q, SEED = 7, 4, 11
BLOCK = frozenset({0, 3, 5})
CASES = {
    "all": Rules(3),
    "all_stutter": Rules(4, remask="stutter"),
    "linear": Rules(4, "linear"),
    "linear_uneven": Rules(3, "linear", confidence="margin"),
    "linear_long": Rules(10, "linear", confidence="entropy"),
    "linear_stutter": Rules(4, "linear", remask="stutter"),
    "mask_predict": Rules(5, "linear", remask="least_confident"),
    "mask_predict_margin": Rules(4, "linear", remask="least_confident", confidence="margin"),
    "cosine": Rules(4, "cosine"),
    "cosine_entropy": Rules(3, "cosine", remask="least_confident", confidence="entropy"),
    "threshold": Rules(9, "threshold", threshold=0.8),
    "threshold_short": Rules(3, "threshold", threshold=0.7, confidence="margin"),
    "threshold_stutter": Rules(9, "threshold", remask="stutter", threshold=0.6),
    "easy_first": Rules(9, "easy_first"),
    "easy_first_short": Rules(3, "easy_first", confidence="entropy"),
    "easy_first_stutter": Rules(8, "easy_first", remask="stutter", confidence="margin"),
    "by_mask": Rules(3, "mask", block=BLOCK),
    "fixed_point": Rules(12, stop="fixed_point"),
    "fixed_point_stutter": Rules(12, remask="stutter", stop="fixed_point"),
}
# Rows: their lengths, and which of their cells are held at what.
LENGTHS = [7, 7, 5, 1, 3, 6, 7, 4]
HELD = [{}, {2: 1, 4: 0}, {0: 3}, {}, {1: 1, 2: 1}, {}, {i: i % 4 for i in range(7)}, {3: 2}]


def option(name: str, rules: Rules) -> str:
    schedule = "ends" if rules.block else rules.schedule
    found = [f"steps = {rules.steps}", f"schedule = {schedule}", f"remask = {rules.remask}", f"stop = {rules.stop}"]
    if rules.schedule not in ("all", "mask"):
        found.append(f"confidence = {rules.confidence}")
    if rules.schedule == "threshold":
        found.append(f"threshold = {rules.threshold}")
    if rules.stop == "fixed":
        found.remove("stop = fixed")
    return f"sampler {name} = refinement({', '.join(found)})"


@pytest.fixture(scope="module")
def model():
    lines = [option(name, rules) for name, rules in CASES.items()]
    more = "\n".join(["mask ends = blocks({x[0], x[3], x[5]})", "mask whole = everything(x)", *lines])
    return made(f'python("networks_cases:Pairs", seed = {SEED}, scale = 0.9)', N, Q, more)


@pytest.fixture(scope="module")
def params(model):
    return model.init_params()


def held_rows() -> np.ndarray:
    rows = np.full((len(HELD), N), -1)
    for row, cells in zip(rows, HELD, strict=True):
        for i, v in cells.items():
            row[i] = v
    return rows


def drafts(seed: int = 5) -> np.ndarray:
    rows = np.random.default_rng(seed).integers(0, Q, (len(LENGTHS), N))
    for row, length in zip(rows, LENGTHS, strict=True):
        row[length:] = -1
    return rows


def verify(idata, wanted: list[oracle.Decode]) -> None:
    tokens, trace = draws(idata)[0, 0], stats(idata, "trace")[0, 0]
    for r, (found, length) in enumerate(zip(wanted, LENGTHS, strict=True)):
        padding = [-1] * (N - length)
        assert tokens[r].tolist() == found.tokens + padding, r
        assert trace[r].tolist() == [step + padding for step in found.trace], r
    assert np.allclose(stats(idata, "score")[0, 0], [found.score for found in wanted], atol=1e-4)
    assert stats(idata, "passes")[0, 0].tolist() == [found.passes for found in wanted]
    assert stats(idata, "length")[0, 0].tolist() == LENGTHS


def decoded(name: str, from_drafts: bool = False) -> list[oracle.Decode]:
    logits, drafted = pairs(N, Q, SEED, 0.9), drafts()
    return [
        oracle.refine(logits, length, Q, CASES[name], held, drafted[r].tolist() if from_drafts else None)
        for r, (length, held) in enumerate(zip(LENGTHS, HELD, strict=True))
    ]


@pytest.mark.parametrize("name", thinned(CASES, 8))
def test_a_decode_is_that_of_the_loop(model, params, name: str):
    idata = model.sample(params, name, clamp={"x": held_rows()}, missing=-1, lengths=LENGTHS, observe=["trace"])
    verify(idata, decoded(name))


@pytest.mark.parametrize(
    "name", thinned(["all_stutter", "mask_predict", "threshold", "easy_first_stutter", "by_mask", "fixed_point"], 6, 1)
)
def test_a_decode_may_begin_with_a_draft(model, params, name: str):
    """The first pass sees the draft, with held cells in it; its padding says the lengths."""
    idata = model.sample(params, name, init=drafts(), clamp={"x": held_rows()}, missing=-1, observe=["trace"])
    verify(idata, decoded(name, from_drafts=True))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("all_stutter", Rules(4)),
        ("linear_stutter", Rules(4, "linear")),
        ("mask_predict", Rules(5, "linear")),
        ("mask_predict_margin", Rules(4, "linear", remask="least_confident")),
        ("cosine", Rules(4, "linear")),
        ("cosine_entropy", Rules(3, "cosine", remask="least_confident")),
        ("threshold_stutter", Rules(9, "threshold", threshold=0.6)),
        ("threshold_short", Rules(3, "threshold", threshold=0.7)),
        ("easy_first_stutter", Rules(8, "easy_first", confidence="margin")),
        ("fixed_point", Rules(12)),
        ("fixed_point_stutter", Rules(12, remask="stutter")),
    ],
)
def test_the_rows_tell_the_options_apart(name: str, other: Rules):
    """Otherwise the comparison above would pass with an option left out."""
    logits, mine = pairs(N, Q, SEED, 0.9), decoded(name)
    theirs = [oracle.refine(logits, length, Q, other, held) for length, held in zip(LENGTHS, HELD, strict=True)]
    assert any((a.trace, a.seen, a.passes) != (b.trace, b.seen, b.passes) for a, b in zip(mine, theirs, strict=True))


def test_cells_that_no_pass_predicts_do_not_count_in_the_score(model, params):
    """Of a draft under a mask, only the mask's cells have a log p."""
    draft = drafts()[:2]
    idata = model.sample(params, "by_mask", init=draft, missing=-1)
    found = [oracle.refine(pairs(N, Q, SEED, 0.9), N, Q, CASES["by_mask"], {}, row.tolist()) for row in draft]
    assert all(f.predicted == [set(BLOCK)] * 3 for f in found)
    assert np.allclose(stats(idata, "score")[0, 0], [f.score for f in found], atol=1e-4)
    assert (draws(idata)[0, 0][:, [1, 2, 4, 6]] == draft[:, [1, 2, 4, 6]]).all()


@pytest.mark.parametrize("start", thinned(["hide", "draft"], 2))
def test_a_row_that_has_ended_is_not_touched_again(model, params, start: str):
    """True freezing: with other rows still moving, what a row has after its last pass is what it keeps."""
    options = {"init": drafts(), "missing": -1} if start == "draft" else {"lengths": LENGTHS, "clamp": {"x": held_rows()}, "missing": -1}
    for name in ("threshold", "fixed_point"):
        idata = model.sample(params, name, observe=["trace"], **options)
        passes, trace = stats(idata, "passes")[0, 0], stats(idata, "trace")[0, 0]
        assert len(set(passes.tolist())) > 2
        for row, count in zip(trace, passes, strict=True):
            assert (row[count - 1 :] == row[count - 1]).all()


@pytest.mark.slow
def test_one_row_without_an_axis_of_rows(model, params):
    idata = model.sample(params, "mask_predict", draws=2)
    found = oracle.refine(pairs(N, Q, SEED, 0.9), N, Q, CASES["mask_predict"])
    assert draws(idata).shape == (1, 2, N)
    assert draws(idata).tolist() == [[found.tokens, found.tokens]]
    assert np.allclose(stats(idata, "score"), found.score, atol=1e-4)


def test_clamp_takes_cells_as_everywhere(model, params):
    idata = model.sample(params, "linear", clamp={"x": {1: 3, 5: 0}})
    found = oracle.refine(pairs(N, Q, SEED, 0.9), N, Q, CASES["linear"], {1: 3, 5: 0})
    assert draws(idata)[0, 0].tolist() == found.tokens
    assert np.allclose(stats(idata, "score"), found.score, atol=1e-4)
