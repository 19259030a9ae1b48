"""Output laws of guided samplers against brute force over runs, and draws against output laws."""

from __future__ import annotations

import itertools
import re
import sys
import types
from typing import Any

import guided_brute as brute
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value
from guided_cases import CASES, HEAD, NEXT, SAMPLERS, TABLE, WANTED, wanted
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.guided import Setting, View
from gmlmdsl.theory import _string_laws

NAMES = [line.split()[1] for line in SAMPLERS.strip().splitlines()]
EXACT = [n for n in NAMES if n not in ("wide", "long", "noisy_best")]
P_LIMIT = 1e-4  # of one chi-square test among some dozens, each with a seed fixed before


@pytest.mark.parametrize(("case", "sampler"), thinned(itertools.product(CASES, EXACT), 24, 12))
def test_the_output_law_is_that_of_all_runs(case: str, sampler: str):
    c = CASES[case]
    found = gm.theory.output_law(c.model, c.params, sampler)
    assert brute.error(found, wanted(c, sampler)) < 1e-10


@pytest.mark.parametrize("sampler", ["rej", "tok", "back", "drop", "erase", "walk", "blk"])
def test_a_prompt_is_where_strings_begin(sampler: str):
    c = CASES["hmm"]
    found = gm.theory.output_law(c.model, c.params, sampler, prompt=["c", "a"])
    assert brute.error(found, wanted(c, sampler, (2, 0))) < 1e-10


NARROWED = """
value own   for words = python("narrowed_values:ones")
sampler rej  for words = rejection(can, top_k = 2)
sampler few  for words = rejection(can, tries = 2, top_p = 0.75)
sampler tok  for words = tokenwise_rejection(can, top_k = 2)
sampler tokv for words = tokenwise_rejection(truth, tries = 2, top_k = 2)
sampler mine for words = tokenwise_rejection(own, top_k = 2)
sampler back for words = backtracking(can, quota = 2, stride = 2, top_k = 2)
sampler drop for words = backtracking(can, quota = 2, stride = 1, regenerate = none, end = "c", top_k = 2)
sampler walk for words = value_guided(truth, steps = 40, end = "c", top_p = 0.75)
sampler leaf for words = value_guided(rough, steps = 40, result = first_leaf, leaf = can, top_k = 2)
sampler node for words = value_guided(truth, steps = 40, result = uniform_node, end = "c", top_k = 2)
sampler blk  for words = block_best_of(truth, n = 2, block = 2, end = "c", top_k = 2)
sampler draw for words = autoregressive(decode = sample, end = "c", top_k = 2)
sampler erase for words = backtracking(can, quota = 1, stride = 2, erase_prompt = true, top_k = 2)
sampler free for words = autoregressive(decode = sample)
"""


def narrowed() -> str:
    judges = re.sub(r"^(verifier|value) (\w+) ", r"\1 \2 for words ", WANTED, flags=re.M)
    return HEAD.format(n=4) + NEXT + TABLE + judges + NARROWED


NARROWED_NAMES = [line.split()[1] for line in NARROWED.splitlines() if line.startswith("sampler")][:-2]


@pytest.mark.parametrize("name", thinned(NARROWED_NAMES, 12))
def test_where_not_all_prefixes_can_be_listed_those_that_can_be_drawn_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("narrowed_values")
    module.ones = lambda prefixes, lengths: (prefixes == 1).sum(axis=1) + 1.0
    monkeypatch.setitem(sys.modules, "narrowed_values", module)
    model: Any = gm.parse(narrowed(), allow_python=True).model("words")
    for prompt in ([], ["a"]):
        wanted: Any = gm.theory.output_law(model, {}, name, prompt=prompt, seed=3)
        with monkeypatch.context() as patched:
            patched.setattr(_string_laws, "MOST_NODES", 31 if not prompt else 15)  # those of two symbols a level, of 121 and 40
            found: Any = gm.theory.output_law(model, {}, name, prompt=prompt, seed=3)
        order = [np.lexsort(law.strings.T) for law in (found, wanted)]
        assert found.strings[order[0]].tolist() == wanted.strings[order[1]].tolist()
        np.testing.assert_allclose(found.probabilities[order[0]], wanted.probabilities[order[1]], rtol=1e-12)
        for cost in ("fail", "expected_calls", "expected_verifications", "expected_runs"):
            assert getattr(found, cost) == pytest.approx(getattr(wanted, cost), rel=1e-12, abs=1e-12, nan_ok=True), cost


def test_too_many_prefixes_that_can_be_drawn_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = gm.parse(narrowed(), allow_python=True).model("words")
    monkeypatch.setattr(_string_laws, "MOST_NODES", 30)
    with pytest.raises(gm.GmlmError, match="E601.*: 31 prefixes of up to 4 of 4 symbols can be drawn, more than the 30 that are listed"):
        gm.theory.output_law(model, {}, "rej")
    monkeypatch.setattr(_string_laws, "MOST_NODES", 23)  # nothing is listed behind the end of a string: 1 + 2 + 4 + 6 + 10 prefixes
    assert gm.theory.output_law(model, {}, "draw").fail == 0
    for name in ("free", "erase"):  # nothing is excluded; prefixes of any length are reached from the prompt
        with pytest.raises(gm.GmlmError, match="E601.*: 121 prefixes of 4 symbols of 3 values, more than the 23"):
            gm.theory.output_law(model, {}, name)


@pytest.mark.slow
def test_many_steps_of_the_walk_are_powers_of_its_matrix():
    c = CASES["tilted"]
    table = c.table()
    law = brute.walk_law(table, table.expected("wanted"), 300)
    found = gm.theory.output_law(c.model, c.params, "long")
    for s, p in zip(found.strings.tolist(), found.probabilities, strict=True):
        assert abs(law[tuple(s)] - p) < 1e-10


@pytest.mark.slow
def test_noise_is_a_fixed_function_of_prefix_and_seed_and_spares_whole_strings():
    c = CASES["table"]
    one, again, other = (gm.theory.output_law(c.model, c.params, "wide", seed=s).probabilities for s in (3, 3, 4))
    assert np.array_equal(one, again)
    assert one.shape != other.shape or not np.array_equal(one, other)


DRAWN = ("tok", "rej3", "tok2", "tokv", "tokv2", "back", "drop", "walk", "node", "blk", "wide", "best", "ended", "draw")


@pytest.mark.parametrize("sampler", thinned(DRAWN, 16, 11))  # planted bugs' checks draw by others
def test_draws_follow_the_output_law(sampler: str):
    """Chi-square of strings and failures; calls and judgements within 4.5 standard errors."""
    c, n = CASES["hmm"], 4000
    prompt = ["a", "c"] if sampler == "node" else []  # a walk of five steps seldom gets further
    law = gm.theory.output_law(c.model, c.params, sampler, prompt=prompt, seed=11)
    draws = c.model.sample(c.params, sampler, prompt=[prompt], draws=n, seed=11)
    stats = draws["guided_stats"]
    strings = draws["posterior"]["x"].values.reshape(n, -1).tolist()
    number = {tuple(s): k for k, s in enumerate(law.strings.tolist())}
    failed = stats["failed"].values.ravel().astype(bool)
    counts = np.zeros(len(number) + 1)
    for s, f in zip(strings, failed, strict=True):
        counts[len(number) if f else number[tuple(s)]] += 1
    assert p_value(counts, np.append(law.probabilities, law.fail)) > P_LIMIT
    for name, mean in (("oracle_calls", law.expected_calls), ("verifier_calls", law.expected_verifications)):
        found = stats[name].values.ravel().astype(float)
        assert abs(found.mean() - mean) <= 4.5 * max(found.std(), 1e-9) / np.sqrt(n) + 1e-6 * mean, name


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["can", "rough"], 2, 1))  # `rough` is `truth` with noise
@pytest.mark.parametrize("case", thinned(CASES, 3))
def test_values_of_continuations_are_those_of_the_longer_prefixes(case: str, name: str):
    """What a verifier or value says of all symbols at once, beside what it says of each prefix, after it was taken back and grew again."""
    c = CASES[case]
    with jax.enable_x64(True):
        setting = Setting(c.model.lowered, c.params, 7)
        judge, oracle = setting.judge(c.program.checked.judges[name]), setting.made_oracle
        codes = jnp.asarray([[0, 1, -1, -1], [2, -1, -1, -1], [1, 0, 2, -1]], jnp.int32)
        lengths, ends = (codes >= 0).sum(axis=1), jnp.asarray([False, False, True])
        state, at = judge.start(codes), oracle.start(codes)
        view = View(codes, lengths, jnp.zeros(3, bool), jnp.ones(3, bool))
        found = judge.children(state, view, jnp.broadcast_to(ends[:, None], (3, 3)), oracle, at)
        for a in range(3):
            symbols = jnp.full(3, a, jnp.int32)
            other = jnp.full(3, (a + 1) % 3, jnp.int32)
            wrong = judge.push(state, other), oracle.push(at, other)
            back = [part.pop(part_at, jnp.ones(3, jnp.int32)) for part, part_at in zip((judge, oracle), wrong, strict=True)]
            seen = View(codes, lengths + 1, ends, jnp.ones(3, bool))
            own = judge.values(judge.push(back[0], symbols), seen, oracle, oracle.push(back[1], symbols))
            np.testing.assert_allclose(found[:, a], own, rtol=1e-12)


def test_a_draw_depends_on_seed_chain_draw_and_row_alone():
    c = CASES["table"]
    prompts = [["a"], [], ["b", "a", "c"]]
    many = c.model.sample(c.params, "back", prompt=prompts, draws=5, chains=2, seed=8)["posterior"]["x"].values
    few = c.model.sample(c.params, "back", prompt=prompts[:2], draws=3, seed=8)["posterior"]["x"].values
    assert many.shape == (2, 5, 3, 4)
    assert np.array_equal(many[:1, :3, :2], few)
