"""Bugs planted in guided generation. Part of the list of `planted_bugs.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import guided_brute as brute
import guided_networks
import jax
import jax.numpy as jnp
import numpy as np
from chi_square import p_value
from guided_cases import CASES, wanted
from planting import Bug, Found, around, error
from scipy.stats import norm

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.guided import _judges, _methods, _run, _walk
from gmlmdsl.theory import _string_laws

DRAWS = 4000


def strings_follow(case: str, sampler: str) -> Found:
    """The least p-value of strings and failures, and of the averages of calls and judgements, beside brute force over all runs."""
    c = CASES[case]
    return _following(c.model.sample(c.params, sampler, draws=DRAWS, seed=5), wanted(c, sampler))


def network_follows(sampler: str) -> Found:
    """The same of a causal network, whose runs are followed over loops of NumPy."""
    with jax.enable_x64(True):
        model = gm.parse(guided_networks.PROGRAM).model("words")
        draws = model.sample(guided_networks.params(), sampler, draws=DRAWS, seed=5)
        return _following(draws, guided_networks.WANTED[sampler](()))


def a_long_walk_follows(case: str) -> Found:
    """Strings and failures of 300 steps beside the walk's matrix to that power."""
    c = CASES[case]
    table, law = c.table(), brute.Brute()
    law.law = {s: p for s, p in brute.walk_law(table, table.expected("wanted"), 300).items() if table.whole(s) and p > 0}
    law.fail = 1 - sum(law.law.values())
    return _following(c.model.sample(c.params, "long", draws=DRAWS // 5, seed=5), law, averages=False)


def _following(draws: Any, law: brute.Brute, averages: bool = True) -> Found:
    stats = draws["guided_stats"]
    failed = stats["failed"].values.ravel().astype(bool)
    number = {s: k for k, s in enumerate(law.law)}
    counts = np.zeros(len(number) + 1)
    for s, f in zip(draws["posterior"]["x"].values.reshape(len(failed), -1).tolist(), failed, strict=True):
        if not f and tuple(s) not in number:
            return Found(0.0, 1e-4, True)
        counts[-1 if f else number[tuple(s)]] += 1
    found = [p_value(counts, np.array([*law.law.values(), law.fail]))]
    for name, mean in (("oracle_calls", law.calls), ("verifier_calls", law.checks)) if averages else ():
        values = stats[name].values.ravel().astype(float)
        away = abs(values.mean() - mean) / max(values.std() / np.sqrt(len(values)), 1e-6 * mean)
        found.append(2 * float(norm.sf(away)))
    return Found(min(found), 1e-4, True)


def law_is_right(case: str, sampler: str) -> Found:
    """The output law and its averages beside brute force over all runs."""
    c = CASES[case]
    return error(brute.error(gm.theory.output_law(c.model, c.params, sampler), wanted(c, sampler)), 0.0, 1e-10)


def leaves_are_the_tilt(case: str) -> Found:
    """Values of whole strings beside exp(log potential), with noise on all shorter prefixes."""
    c = CASES[case]
    law = gm.theory.output_law(c.model, c.params, "noisy_best")
    table = c.table()
    return error(brute.error(law, brute.block_best(table, table.expected("wanted"), 2, None)), 0.0, 1e-10)


def _one_more(original: Any, self: Any, rules: Any, run: Any, v: Any) -> Any:
    back, run = original(self, rules, run, v)
    return jnp.where(back > 0, jnp.minimum(back + 1, run.lengths - run.base), back), run


def _quota_stays(original: Any, self: Any, rules: Any, run: Any, v: Any) -> Any:
    quota, (back, after) = run.memory.quota, original(self, rules, run, v)
    first = (after.memory.quota < quota) & (quota == self.quota)  # the first time it is not lowered
    kept = jnp.where(first & (run.backs.sum(axis=1) == 0), quota, after.memory.quota)
    return back, after.having(memory=after.memory._replace(quota=kept))


def _all_verified(original: Any, self: Any, rules: Any, run: Any, law: Any, seen: Any) -> Any:
    symbols, after = original(self, rules, run, law, seen)
    asked = ~after.done & (run.memory.quota > 0)
    return symbols, after.having(asked=asked)


def _not_counted(original: Any, self: Any, calls: Any, checks: Any) -> Any:
    owed = getattr(self.memory, "owed", None)
    return original(self, calls if owed is None else calls & (owed == 0), checks)


def _root_has_a_parent(original: Any, self: Any, rules: Any, run: Any, law: Any, seen: Any) -> Any:
    up = run.memory.up.at[run.rows, run.base].set(0.0)
    symbols, after = original(self, rules, run.having(base=run.base - 1, memory=run.memory._replace(up=up)), law, seen)
    return symbols, after.having(base=run.base, asked=after.asked & (run.lengths > run.base))  # it stays where it would go up


def _never_lazy(original: Any, self: Any, rules: Any, run: Any, law: Any, seen: Any) -> Any:
    class Awake:
        def __getattr__(self, name: str) -> Any:
            return getattr(run, name)

        def words(self, *asked: Any) -> Any:
            coin, *others = run.words(*asked)
            return coin.having(lambda word: word | jnp.uint32(1 << 31)), *others

    return original(self, rules, Awake(), law, seen)


def _noise_everywhere(original: Any, self: Any, v: Any, words: Any, whole: Any) -> Any:
    return original(self, v, words, jnp.zeros_like(whole))


def _one_further(original: Any, tree: Any, method: Any, node: int, floor: int) -> Any:
    return original(tree, method, tree.up(node, 1) if tree.depth[node] > floor else node, floor)


GUIDED_BUGS = (
    Bug(
        "B + 1 symbols removed",
        "guided.Backtracking.settle",
        around(_methods.Backtracking, "settle", _one_more),
        partial(strings_follow, "hmm", "drop"),
    ),
    Bug(
        "a quota that is not lowered",
        "guided.Backtracking.settle",
        around(_methods.Backtracking, "settle", _quota_stays),
        partial(strings_follow, "hmm", "back"),
    ),
    Bug(
        "regenerated symbols verified",
        "guided.Backtracking.propose",
        around(_methods.Backtracking, "propose", _all_verified),
        partial(strings_follow, "hmm", "back"),
    ),
    Bug(
        "calls of regenerated symbols not counted",
        "guided.Run.counted",
        around(_run.Run, "counted", _not_counted),
        partial(strings_follow, "hmm", "back"),
    ),
    Bug(
        "the root of the walk has a parent",
        "guided.Walk.propose",
        around(_walk.Walk, "propose", _root_has_a_parent),
        partial(strings_follow, "table", "walk"),
    ),
    Bug(
        "a walk that is never lazy",
        "guided.Walk.propose",
        around(_walk.Walk, "propose", _never_lazy),
        partial(strings_follow, "table", "walk"),
    ),
    Bug(
        "a walk that keeps the state of another branch",
        "guided.Walk",
        around(_walk, "brought_up", lambda original, game, at, run, back, symbols: original(game, at, run, 0 * back, symbols)),
        partial(a_long_walk_follows, "hmm"),
    ),
    Bug(
        "noise added to the values of whole strings",
        "guided.Noisy",
        around(_judges.Noisy, "_with_noise", _noise_everywhere),
        partial(leaves_are_the_tilt, "table"),
    ),
    Bug(
        "an oracle that is not rolled back",
        "PrefixOracle.pop",
        around(derive.PrefixOracle, "pop", lambda original, self, state, n: state),
        partial(strings_follow, "hmm", "tok"),
    ),
    Bug(
        "a network's cache that is not rolled back",
        "CausalOracle.pop",
        around(derive.CausalOracle, "pop", lambda original, self, state, n: state),
        partial(network_follows, "bare"),
    ),
    Bug(
        "B + 1 symbols removed in the distribution",
        "theory._taken_back",
        around(_string_laws, "_taken_back", _one_further),
        partial(law_is_right, "hmm", "drop"),
    ),
)
