"""What verifiers, values and oracles say where weights lie far apart, where strings end early, and whom they are asked about."""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.derive._prefix_oracle import PrefixOracle
from gmlmdsl.guided import Setting, View, _loop
from gmlmdsl.guided._loop import Pieces
from gmlmdsl.sample import SamplingWarning

RARE = """
index t = range(20)
model rare {{
  var x[i in t] : range(2)
  latent s[i in t] : range(21)
  x[i] ~ categorical([0.999, 0.001]) for i in t
  require s[0] == x[0]
  require s[i] == s[i - 1] + x[i] for i in t if i > 0
  require s[19] == {k}
}}
model ones {{
  var x[i in t] : range(2)
  latent s[i in t] : range(21)
  require s[0] == x[0]
  require s[i] == s[i - 1] + x[i] for i in t if i > 0
  require s[19] == {k}
}}
model words {{
  var x[i in t] : range(2)
  x[i] ~ categorical([0.999, 0.001]) for i in t
}}
value truth  for words = expected(ones)
sampler draw for rare  = autoregressive(decode = sample)
"""


@pytest.mark.slow
@pytest.mark.parametrize("k", thinned([1, 14, 16], 3, 2))
def test_what_a_prefix_needs_may_be_rare_beside_what_it_does_not(k: int):
    """Of 20 coins that fall on 1 seldom k did: each did with probability k / 20."""
    draws = gm.parse(RARE.format(k=k)).model("rare").sample({}, "draw", draws=2000, seed=4)
    assert not draws["guided_stats"]["failed"].any()
    x = draws["posterior"]["x"].values[0]
    assert (x.sum(axis=1) == k).all()
    assert abs(x[:, 0].mean() - k / 20) < 4.5 * np.sqrt(k / 20 * (1 - k / 20) / 2000)


@pytest.mark.slow
def test_values_of_rare_prefixes_are_those_of_double_precision():
    """log V of four zeros where sixteen ones are wanted, in single precision: only ones may follow."""
    model = gm.parse(RARE.format(k=16)).model("words")
    codes = jnp.asarray([[0] * 4 + [-1] * 16])
    setting = Setting(model.lowered, {})
    judge, oracle = setting.judge(model.program.checked.judges["truth"]), setting.made_oracle
    view = View(jnp.maximum(codes, 0), jnp.asarray([4]), jnp.asarray([False]), jnp.asarray([True]))
    found = float(judge.values(judge.start(codes), view, oracle, oracle.start(codes))[0])
    assert found == pytest.approx(16 * np.log(0.001), rel=1e-5)


PATHS = """
index t = range(90)
model words {
  var x[i in t] : range(2)
  x[i] ~ categorical([0.5, 0.5]) for i in t
}
model lucky {
  var x[i in t] : range(2)
  latent s[i in t] : range(5)
  require (s[i] == 4) == (s[i - 1] == 4) for i in t if i > 0
  factor 0 * x[i] * s[i] for i in t
  require s[89] == 4
}
verifier can for words = completable(lucky)
sampler rej  for words = rejection(can, tries = 1)
sampler tok  for words = tokenwise_rejection(can, tries = 1)
"""


@pytest.mark.parametrize("sampler", thinned(["rej", "tok"], 2, 1))
def test_paths_that_lead_nowhere_do_not_drown_the_one_that_does(sampler: str):
    stats = gm.parse(PATHS).model("words").sample({}, sampler, draws=4)["guided_stats"]
    assert stats["valid"].all()
    assert not stats["failed"].any()


ENDED = """
domain ab = labels("a", "b", "$")
input next[ab, ab] : simplex = MOVES
index t = range(3)
model words {
  var x[i in t] : ab
  x[0] ~ categorical([0.5, 0.3, 0.2])
  x[i] ~ categorical(next[x[i - 1]]) for i in t if i > 0
}
model wanted {
  var x[i in t] : ab
  latent s[i in t] : range(3)
  require s[0] == (x[0] == "$")
  require s[i] == (x[i] == "$") + (x[i - 1] == "$") for i in t if i > 0
  factor 0.7 * s[i] + 0.4 * (x[i] == "b") for i in t
  REQUIRE
}
verifier can for words = completable(wanted)
value truth  for words = expected(wanted)
sampler rej  for words = rejection(can, end = "$")
sampler tok  for words = tokenwise_rejection(can, end = "$")
sampler tokv for words = tokenwise_rejection(truth, end = "$")
sampler walk for words = value_guided(truth, steps = 1500, end = "$")
"""
MOVES = np.array([[0.1, 0.6, 0.3], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])


def ended(require: str) -> gm.Model:
    """Strings of up to three symbols."""
    return gm.parse(ENDED.replace("REQUIRE", require).replace("MOVES", str(MOVES.tolist()))).model("words")


def padded(require: str) -> tuple[dict[tuple[int, ...], float], dict[tuple[int, ...], float]]:
    """p of each string of the sampler under the oracle, and its tilt: exp of the factors of the string as it is returned."""
    p, tilt = {}, {}
    for x in np.ndindex(3, 3, 3):
        stop = x.index(2) if 2 in x else 2
        if any(a != 2 for a in x[stop + 1 :]):
            continue
        p[x] = float(np.prod([[0.5, 0.3, 0.2][x[0]], *(MOVES[x[i - 1], x[i]] for i in range(1, stop + 1))]))
        is_end = [float(a == 2) for a in x]
        s = [is_end[i] + (is_end[i - 1] if i else 0) for i in range(3)]
        good = {"": True, 'require x[2] == "a"': x[2] == 0, 'require x[2] == "$"': x[2] == 2}[require]
        tilt[x] = float(np.exp(sum(0.7 * a + 0.4 * (b == 1) for a, b in zip(s, x, strict=True)))) * good
    return p, tilt


@pytest.mark.slow
@pytest.mark.parametrize("require", thinned(["", 'require x[2] == "a"', 'require x[2] == "$"'], 3, 1))
def test_strings_that_end_early_are_judged_as_they_are_returned(require: str):
    """Rejection gives p where the padded string is wanted; values make symbols and the walk give p times its tilt."""
    model, (p, tilt) = ended(require), padded(require)
    accepted = sum(p[x] for x in p if tilt[x] > 0)
    normal = sum(p[x] * tilt[x] for x in p)
    for sampler in ("rej", "tokv", "walk"):
        law = gm.theory.output_law(model, {}, sampler)
        strings = [tuple(int("ab$".index(a)) if isinstance(a, str) else int(a) for a in s) for s in law.strings.tolist()]
        found = dict(zip(strings, law.probabilities / law.probabilities.sum(), strict=True))
        wanted = {x: p[x] * ((tilt[x] > 0) / accepted if sampler == "rej" else tilt[x] / normal) for x in p if tilt[x] > 0}
        assert found == pytest.approx(wanted, abs=1e-9), sampler
    assert gm.theory.output_law(model, {}, "tok").fail == pytest.approx(0, abs=1e-12)  # no way that looks open is closed
    draws = model.sample({}, "rej", draws=300, seed=6)
    assert draws["guided_stats"]["valid"].all()
    assert {tuple(x) for x in draws["posterior"]["x"].values[0].tolist()} <= {x for x in p if tilt[x] > 0}
    with jax.enable_x64(True):
        back = gm.theory.output_law(model, {}, "rej").expected_verifications
    assert back == pytest.approx(1 / accepted, abs=1e-9)


ASKED = """
index t = range(4)
model words {
  var x[i in t] : range(3)
  x[0] ~ categorical([0.5, 0.3, 0.2])
  x[i] ~ categorical([0.5, 0.5, 0]) for i in t if i > 0
}
model wanted {
  var x[i in t] : range(3)
  require x[0] == 1
}
verifier can  for words = completable(wanted)
value truth   for words = expected(wanted)
verifier mine for words = python("judged_functions:mine")
value own     for words = python("judged_functions:mine")
sampler rej  for words = rejection(mine, end = 2, tries = 200)
sampler open for words = rejection(mine)
sampler tok  for words = tokenwise_rejection(mine)
sampler back for words = backtracking(mine, quota = 2, stride = 2)
sampler none for words = backtracking(mine, quota = 0, stride = 2)
sampler best for words = best_of(mine, n = 2)
sampler blk  for words = block_best_of(mine, n = 2, block = 2)
sampler walk for words = value_guided(own, steps = 30)
sampler leaf for words = value_guided(truth, steps = 60, leaf = mine, end = 2)
sampler exact for words = rejection(can)
"""
Judge = Callable[[np.ndarray, np.ndarray], Any]


class Watched:
    """A verifier that keeps what it was asked about, and how often."""

    def __init__(self, function: Judge):
        self.function, self.asked = function, Counter()

    @property
    def seen(self) -> set[tuple[int, ...]]:
        """What it was asked about."""
        return set(self.asked)

    def __call__(self, prefixes: np.ndarray, lengths: np.ndarray) -> Any:
        self.asked.update(tuple(p[:n].tolist()) for p, n in zip(prefixes, lengths, strict=True))
        return self.function(prefixes, lengths)


@pytest.fixture
def mine() -> Iterator[Callable[[Judge], tuple[gm.Model, Watched]]]:
    """The program with a function of the test's in it."""
    module = types.ModuleType("judged_functions")
    sys.modules["judged_functions"] = module

    def made(function: Judge) -> tuple[gm.Model, Watched]:
        module.mine = Watched(function)  # type: ignore[attr-defined]
        return gm.parse(ASKED, allow_python=True).model("words"), module.mine

    yield made
    del sys.modules["judged_functions"]


def one_first(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """1 of prefixes that begin with 1."""
    return (prefixes[:, 0] == 1).astype(float)


def is_whole(prefix: tuple[int, ...]) -> bool:
    """With `end = 2`."""
    return len(prefix) == 4 or prefix[-1:] == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["rej", "leaf"], 2))
def test_who_judges_whole_strings_is_asked_about_no_others(mine: Any, sampler: str):
    model, watched = mine(one_first)
    stats = model.sample({}, sampler, prompt=[[1], [2], []], draws=20, seed=1)["guided_stats"]
    assert watched.seen
    assert all(map(is_whole, watched.seen))
    if sampler == "rej":
        assert stats["verifier_calls"].values[0][:, :2].tolist() == [[1, 1]] * 20  # the prompt of one symbol is no call of its own
    watched.asked.clear()
    gm.theory.output_law(model, {}, sampler, prompt=[1])
    assert watched.seen
    assert all(map(is_whole, watched.seen))


@pytest.mark.slow
def test_rejection_that_sees_that_a_prompt_cannot_be_completed_counts_one_call(mine: Any):
    model, _ = mine(one_first)
    stats = model.sample({}, "exact", prompt=[[0], [1]], draws=3)["guided_stats"]
    assert stats["verifier_calls"].values.tolist() == [[[1, 1]] * 3]
    assert stats["failed"].values.tolist() == [[[1, 0]] * 3]
    assert [gm.theory.output_law(model, {}, "exact", prompt=p).expected_verifications for p in ([0], [1])] == [1, 1]


@pytest.mark.parametrize("sampler", thinned(["tok", "back", "none", "best", "blk", "walk"], 6))
@pytest.mark.slow
def test_a_law_asks_about_what_a_sampler_can_meet(mine: Any, sampler: str):
    """What many draws were seen to ask about, but for strings of which they say whether they are valid, and those that have probability 0.

    With a quota of 0 it is nothing.
    """
    model, watched = mine(one_first)
    model.sample({}, sampler, draws=3000, seed=2)
    drawn = set(watched.seen)
    watched.asked.clear()
    gm.theory.output_law(model, {}, sampler)
    assert watched.seen <= drawn
    assert all(len(s) == 4 or 2 in s[1:] for s in drawn - watched.seen)  # 2 never follows another symbol
    assert bool(watched.seen) == (sampler != "none")


@pytest.mark.slow  # test_guided_edges.py has the same of an oracle
def test_a_walk_asks_about_a_prefix_once(mine: Any):
    """What it has left before it remembers; of what it returns it is asked once more whether it is valid."""
    model, watched = mine(lambda prefixes, lengths: 1.0 + (prefixes == 1).sum(axis=1))
    stats = model.sample({}, "walk", draws=1, seed=2)["guided_stats"]
    assert max(watched.asked.values()) == 1
    assert watched.asked.total() < int(stats["verifier_calls"].values.item())  # V of a prefix is known from where it was met


def test_prompts_that_go_on_behind_their_end_have_no_law(mine: Any):
    model, _ = mine(one_first)
    for call in (
        lambda: model.sample({}, "rej", prompt=[[2, 1]], draws=1),
        lambda: gm.theory.output_law(model, {}, "rej", prompt=[2, 1]),
    ):
        with pytest.raises(GmlmError) as caught:
            call()
        assert caught.value.codes == ("E507",)


def after_one(answer: float) -> Judge:
    """1, but of prefixes of two symbols that end with 1."""
    return lambda prefixes, lengths: np.where((lengths == 2) & (prefixes[:, 1] == 1), answer, 1.0)


@pytest.mark.parametrize(("answer", "word"), [(np.nan, "nan"), (-3.0, "-3"), (np.inf, "inf")])
@pytest.mark.parametrize("sampler", thinned(["tok", "back", "walk"], 3, 2))
def test_what_is_no_value_is_told_with_its_prefix_and_its_place(mine: Any, sampler: str, answer: float, word: str):
    model, _ = mine(after_one(answer))
    for call in (lambda: model.sample({}, sampler, prompt=[[0]], draws=30), lambda: gm.theory.output_law(model, {}, sampler, prompt=[0])):
        with pytest.raises(GmlmError) as caught:
            call()
        text, name = str(caught.value), "value `own`" if sampler == "walk" else "verifier `mine`"
        assert f"{name} gives {word} of the prefix [0, 1] (codes)" in text
        assert 'python("judged_functions:mine")' in text


@pytest.mark.slow
def test_rejection_that_takes_nothing_is_given_up_in_a_usable_number_of_turns(mine: Any, monkeypatch: pytest.MonkeyPatch):
    """Seconds where every turn asks Python; rows go on while some string is taken."""
    assert _loop.MOST_FRUITLESS_TURNS <= 1 << 11
    monkeypatch.setattr(_loop, "MOST_FRUITLESS_TURNS", 40)
    model, watched = mine(lambda prefixes, lengths: lengths * 0.0)
    with pytest.warns(SamplingWarning, match=r"2 draws were given up after 40 turns .* `tries =`"):
        stats = model.sample({}, "open", draws=2)["guided_stats"]
    assert stats["failed"].all()
    assert stats["oracle_calls"].values.tolist() == [[40, 40]]
    assert all(len(s) == 4 for s in watched.seen)
    model, _ = mine(lambda prefixes, lengths: prefixes.sum(axis=1) == 0)
    assert not model.sample({}, "open", draws=30, seed=1)["guided_stats"]["failed"].any()


def test_an_oracle_in_pieces_answers_whatever_a_compiled_one_is_asked():
    of_judges = {"ended", "n_cells"}  # which hold their own machine
    asked = {name for name in dir(PrefixOracle) if not name.startswith("_")} - of_judges
    assert asked <= set(dir(Pieces))
