"""Beam search over models without a network, beside a search of lists written here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

TAGS = """
input n : int = 5
model tags {
  latent z[t in range(n)] : range(2)
  var x[t in range(n)] : range(3)
  param J[a in range(2), b in range(2)] ~ normal(0, 1)
  param E[a in range(2), v in range(3)] ~ normal(0, 1)
  factor J[z[t], z[t + 1]] for t in range(n - 1)
  factor E[z[t], x[t]] for t in range(n)
  require x[0] != 0
}
sampler two   = autoregressive(beam = 2)
sampler wide  = autoregressive(beam = 300)
sampler ends  = autoregressive(beam = 3, end = 1, length_penalty = 0.7)
sampler far   = autoregressive(beam = 3, length_penalty = 0.7)
sampler plain = autoregressive(beam = 3, end = 1, length_penalty = 0)
"""
PARAMS = {"J": [[1.5, -0.4], [-0.9, 1.1]], "E": [[0.7, 0.3, -1.2], [-0.8, 0.5, 0.9]]}


@pytest.fixture(scope="module")
def tags() -> Any:
    return gm.parse(TAGS).model("tags")


@pytest.fixture(scope="module")
def law(tags: Any) -> dict[tuple[int, ...], float]:
    """p of every string of five cells."""
    strings = list(itertools.product(range(3), repeat=5))
    possible = [s for s in strings if s[0] != 0]
    p = np.exp(np.asarray(tags.log_prob(PARAMS, {"x": np.array(possible)}), float))
    return dict(zip(possible, p / p.sum(), strict=True))


def searched(
    law: dict[tuple[int, ...], float], beam: int, end: int | None = None, a: float = 1.0, prompt: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The string that the search of the module's reference finds, from sums over whole strings."""

    def p(prefix: tuple[int, ...]) -> float:
        return sum(v for s, v in law.items() if s[: len(prefix)] == prefix)

    rows, done = [(0.0, prompt)], []
    while rows and len(done) < beam:
        grown = [(log_p + np.log(p((*row, v)) / p(row)), (*row, v)) for log_p, row in rows for v in range(3) if p((*row, v)) > 0]
        grown = sorted(grown, key=lambda g: -g[0])[: 2 * beam]
        ended = [g for g in grown if g[1][-1] == end or len(g[1]) == 5]
        done += [(log_p / (len(row) - len(prompt)) ** a, row) for log_p, row in grown[:beam] if (log_p, row) in ended]
        rows = [g for g in grown if g not in ended][:beam]
        if any(len(g[1]) == 5 for g in grown):
            break
    return max(done)[1]


OPTIONS: dict[str, dict[str, Any]] = {
    "two": {"beam": 2},
    "wide": {"beam": 300},
    "ends": {"beam": 3, "end": 1, "a": 0.7},
    "plain": {"beam": 3, "end": 1, "a": 0.0},
    "far": {"beam": 3, "a": 0.7},
}
PROMPTS = ((2,), (2, 0, 2), ())


@pytest.mark.parametrize(("sampler", "prompt"), thinned(itertools.product(OPTIONS, PROMPTS), 8, 1))
def test_the_search_finds_what_a_search_of_lists_finds(tags: Any, law: dict[tuple[int, ...], float], sampler: str, prompt: tuple[int, ...]):
    drawn = tags.sample(PARAMS, sampler, prompt=[list(prompt)], draws=2, seed=1)
    found = drawn["posterior"]["x"].values[0, :, 0]
    length = int(drawn["guided_stats"]["length"].values[0, 0, 0])
    assert (found[0] == found[1]).all()
    assert tuple(found[0, :length].tolist()) == searched(law, prompt=prompt, **OPTIONS[sampler])
    whole, own = (sum(p for s, p in law.items() if s[: len(start)] == start) for start in (prompt, tuple(found[0, :length].tolist())))
    for group in ("guided_stats", "sample_stats"):
        np.testing.assert_allclose(drawn[group]["log_prob"].values, np.log(own / whole), rtol=1e-5)
    output = gm.theory.output_law(tags, PARAMS, sampler=sampler, prompt=list(prompt))
    assert output.expected_runs == 1
    assert output.expected_calls == drawn["guided_stats"]["oracle_calls"].values[0, 0, 0] <= 300 * (5 - len(prompt))
    assert output.probabilities.tolist() == [1.0] and (output.strings[0] == found[0]).all()


def test_all_prefixes_kept_find_the_most_probable_string(tags: Any, law: dict[tuple[int, ...], float]):
    found = tags.sample(PARAMS, "wide", draws=1)["posterior"]["x"].values[0, 0]
    assert tuple(found.tolist()) == max(law, key=lambda s: law[s])


def test_a_prompt_without_probability_has_no_string(tags: Any):
    with pytest.warns(gm.SamplingWarning, match=r"prompt\[1\] has a probability"):
        drawn = tags.sample(PARAMS, "two", prompt=[[2], [0, 1]])
    assert drawn["guided_stats"]["failed"].values.tolist() == [[[False, True]]]
    assert np.isneginf(drawn["guided_stats"]["log_prob"].values).tolist() == [[[False, True]]]


def test_an_oracle_of_ones_own_has_no_beams(tags: Any):
    class Fair:
        def start(self, prompts: Any) -> Any:
            return np.asarray(prompts)

        def next_log_probs(self, state: Any) -> Any:
            return np.full((len(state), 3), -np.log(3))

        def push(self, state: Any, symbols: Any) -> Any:
            return state

        def pop(self, state: Any, n: Any) -> Any:
            return state

    with pytest.raises(gm.GmlmError, match="beam search copies the states of prefixes"):
        tags.sample(PARAMS, "two", oracle=Fair())


def test_a_model_without_a_string_says_so_without_a_prompt():
    never = gm.parse("model m { var x[i in range(3)] : bit  require x[0] != x[0] }\nsampler b = autoregressive(beam = 2)").model()
    with pytest.warns(gm.SamplingWarning, match="No string has a probability"):
        never.sample({}, "b", draws=1)
