"""Bugs planted in networks, their losses, their training and refinement, with the checks that must catch them.

Part of the list of `planted_bugs.py`. Networks are tables of known numbers, or of width 16; what checks compare with is NumPy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from network_cases import ints, network, one_pass
from networks_cases import draws, made, normalised, pairs, stats
from oracle import _decoders, _networks, _refinement, _tabular
from oracle._refinement import Rules
from planting import Bug, Found, around, error
from scipy.stats import norm, ttest_1samp

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.derive import _membership, _network, _transitions, _visits
from gmlmdsl.derive import _refinement as refinement
from gmlmdsl.masks import VisitMask
from gmlmdsl.networks import _layers, _transformer
from gmlmdsl.theory import _decoder_law, _information_profile
from gmlmdsl.train import _batches, _training

N, Q, SEED = 4, 3, 7
LEAST_P = 1e-4
COPIES = 4000
MORE = """
mask whole = everything(x)
mask two = subsets(x, size = 2)
mask stages = everything(x, stages = 2)
mask noisy = everything(x, noise = {keep: 0.15, uniform: 0.85})
mask seldom = mixture { 1 : subsets(x, size = 1, noise = {keep: 1})  2 : everything(x, noise = {uniform: 1}) }
sampler linear = refinement(steps = 4, schedule = linear)
sampler stutter = refinement(steps = 4, schedule = all, remask = stutter)
sampler any = random_order(steps = 2)
sampler places = refinement(order = left_to_right, steps = 2, decode = sample)
sampler sure = refinement(schedule = linear, steps = 2, decode = sample)
sampler cap = refinement(steps = 3, decode = sample, remask = remdm_cap, eta = 0.3)
sampler planned = refinement(steps = 3, decode = sample, planner = self, eta = 2)
mask of_any = visits(any)
mask of_places = visits(places)
mask of_sure = visits(sure)
"""
ALL, ONES, TWO = frozenset(range(N)), _tabular.subsets(range(N), 1), _tabular.subsets(range(N), 2)
HIDE, KEEP, UNIFORM = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)
LENGTHS = [4, 4, 3, 2, 4, 4, 4, 4]
SHORT = [0, 1, 2, -1]


@cache
def loose() -> Any:
    """A network that is nobody's law."""
    return made(f'python("networks_cases:Pairs", seed = {SEED})', N, Q, MORE)


@cache
def trained() -> Any:
    """A network with weights to train."""
    return made("mlp(layers = 1, width = 8)", N, Q, MORE)


def predict() -> _tabular.Predictor:
    return normalised(pairs(N, Q, SEED))


def shorter(seen: Any) -> np.ndarray:
    """Predictions for rows of three cells."""
    return predict()([*seen, Q + 1])[:3]


# Checks


def staged_loss_is_right(length: int) -> Found:
    """Two stages of a row with padding, without chance, beside the loop over them."""
    row = [*SHORT[:length], *[-1] * (N - length)]
    found = float(loose().loss(loose().init_params(), [row], "stages", key=0, missing=-1))
    return error(found, _tabular.staged_loss(shorter, row[:3], Q, range(3), [Q] * 3, 2), 1e-5)


def drawn_loss_is_right(mask: str) -> Found:
    """The mean of 4000 drawn losses beside enumeration of K and of the noise; of `two` for a row of three cells."""
    row = SHORT if mask == "two" else [0, 1, 2, 2]
    found = float(loose().loss(loose().init_params(), np.repeat([row], COPIES, axis=0), mask, key=3, missing=-1))
    mean, variance = _moments(mask)
    return Found(2 * float(norm.sf(abs(found - mean) / np.sqrt(variance / COPIES))), LEAST_P, True)


@cache
def _moments(mask: str) -> tuple[float, float]:
    row = [0, 1, 2, 2]
    if mask == "two":
        return _tabular.noisy_loss(shorter, row[:3], Q, _tabular.subsets(range(3), 2), HIDE)
    if mask == "noisy":
        return _tabular.noisy_loss(predict(), row, Q, [(ALL, 1.0)], (0.0, 0.85, 0.15))
    parts = [
        (1 / 3, *_tabular.noisy_loss(predict(), row, Q, ONES, KEEP)),
        (2 / 3, *_tabular.noisy_loss(predict(), row, Q, [(ALL, 1.0)], UNIFORM)),
    ]
    mean = sum(w * m for w, m, _ in parts)
    return mean, sum(w * (v + m**2) for w, m, v in parts) - mean**2


HALVES = _decoders.blocks(N, N, _decoders.linear(2))


def drawn_bound_is_right(mask: str) -> Found:
    """40 means of 100 drawn losses under the mask of a decoder beside its bound, or -log p by its one path."""
    row, params = [0, 1, 2, 2], loose().init_params()
    found = [float(loose().loss(params, np.repeat([row], 100, axis=0), mask, key=k)) for k in range(40)]
    score = {"of_places": _decoders.leftmost, "of_sure": _decoders.margin}
    if mask == "of_any":
        wanted = _decoders.bound(predict(), row, Q, HALVES)
    else:
        wanted = -np.log(_decoders.law(predict(), (Q,) * N, _decoders.by_score(HALVES, score[mask]))[tuple(row)])
    return Found(float(ttest_1samp(found, wanted).pvalue), LEAST_P, True)


def law_of_remasking_is_right(name: str) -> Found:
    """The distribution of remasked decodes by the package beside every path."""
    passes = _decoders.remasked(N, [0, 1 / 3, 2 / 3, 1], lambda a, s: min(0.3, (1 - s) / a))
    return error(gm.theory.output_law(loose(), loose().init_params(), name).probabilities, _decoders.law(predict(), (Q,) * N, passes), 1e-6)


def law_of_planning_is_right(eta: float) -> Found:
    """The distribution of decodes with a planner by the package beside every path."""
    left = [N * (3 - t) // 3 for t in range(1, 4)]
    wanted = _decoders.planned_law(predict(), None, (Q,) * N, left, eta)
    return error(gm.theory.output_law(loose(), loose().init_params(), "planned").probabilities, wanted, 1e-6)


CORRECTED = """
index t = range(3)
model m {
  var x[i in t] : bit
  factor 0.8 * x[i] * x[i + 1] for i in t if i < 2
  factor 0.5 * x[0]
}
sampler right = random_order()
sampler more { start from right  update x[i] for i in t }
"""


def updates_keep_p(name: str) -> Found:
    """The total variation between p and one cell a pass of the exact denoiser with updates behind it."""
    return error(gm.theory.output_law(gm.parse(CORRECTED).model(), {}, sampler=name).total_variation, 0.0)


UNLIKE = """
index t = range(4)
model m {
  var x[i in t] : bit
  factor (0.9 + 0.4 * i) * x[i] * x[i + 1] for i in t if i < 3
  factor 0.3 * x[0] - 0.5 * x[2]
}
"""


def _unlike() -> tuple[Any, np.ndarray]:
    """A joint model, and f(1..4) by entropies of subsets of its cells."""
    model, x = gm.parse(UNLIKE).model(), np.indices((2,) * 4)
    energy = sum((0.9 + 0.4 * i) * x[i] * x[i + 1] for i in range(3)) + 0.3 * x[0] - 0.5 * x[2]
    return model, _decoders.profile(np.exp(energy) / np.exp(energy).sum())


def profile_is_right() -> Found:
    """The information profile beside entropies of subsets."""
    model, f = _unlike()
    return error(gm.theory.information_profile(model, {}).values, f)


def suggestion_is_best(passes: int) -> Found:
    """The loss of the suggested counts beside the smallest loss of all counts."""
    model, f = _unlike()
    every = [c for c in product(range(1, 5), repeat=passes) if sum(c) == 4]
    found = gm.theory.suggest_schedule(model, {}, passes).counts
    return error(_decoders.path_divergence(f, found), min(_decoders.path_divergence(f, c) for c in every))


def bound_is_right(sampler: str) -> Found:
    """The bound on -log p of a row, over all listed sets of hidden cells, beside that of the loop."""
    row = [0, 1, 2, 2]
    found = loose().log_prob_bound(loose().init_params(), np.array([row]), sampler=sampler)
    return error(-found.values[0], _decoders.bound(predict(), row, Q, HALVES), 1e-5)


DECODES = {"linear": Rules(4, "linear"), "stutter": Rules(4, remask="stutter")}


def decode_is_right(name: str) -> Found:
    """The share of rows of eight whose tokens after some pass, or whose score, are not those of the loop."""
    drafts = np.random.default_rng(2).integers(0, Q, (len(LENGTHS), N))
    for row, length in zip(drafts, LENGTHS, strict=True):
        row[length:] = -1
    wanted = [_refinement.refine(pairs(N, Q, SEED), n, Q, DECODES[name], {}, row.tolist()) for n, row in zip(LENGTHS, drafts, strict=True)]
    idata = loose().sample(loose().init_params(), name, init=drafts, missing=-1, observe=["trace"])
    assert draws(idata).shape[-2:] == drafts.shape
    wrong = 0
    for found, score, w, n in zip(stats(idata, "trace")[0, 0], stats(idata, "score")[0, 0], wanted, LENGTHS, strict=True):
        wrong += found[:, :n].tolist() != w.trace or abs(score - w.score) > 1e-4
    return Found(wrong / len(LENGTHS), 0.0, False)


def logits_are_right(length: int) -> Found:
    """A transformer in float64, its row padded, beside loops."""
    seen = [3, 5, 0, 5, 5, 1, 2, 4]
    with jax.enable_x64(True):
        net = network("transformer")
        found = np.asarray(one_pass(net, (), (), ints(seen), ints(length))[1])[:length]
    return error(found, _networks.transformer(net, np.array(seen[:length]))[0])


def _rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, Q, (count, N))


def _fit(x: np.ndarray, mask: str = "whole", rate: float = 0.5, **options: Any) -> Any:
    t = gm.Training(**{"steps": 1, "batch_size": 4} | options)
    return trained().fit(x, mask, init=_first(), missing=-1, optimizer=descent(rate), method=t)


@cache
def descent(rate: float) -> optax.GradientTransformation:
    """One object for one rate: what is compiled for one fit serves the next."""
    return optax.sgd(rate)


@cache
def _first() -> Any:
    return trained().init_params(seed=3)


def step_is_right(count: int, length: int) -> Found:
    """Gradient descent through one epoch of short rows in batches of 4, beside the gradients of its batches one by one."""
    x = _rows(count)
    x[::2, length:] = -1
    at, order = jax.tree.map(np.asarray, _first()), np.random.default_rng([0, 0]).permutation(count)
    batches = [order[i : i + 4] for i in range(0, count, 4)]
    batches = [batches[i] for i in _shuffled(count, len(batches))]
    for chosen in batches:  # every row of an epoch weighs the same, every hidden cell too
        gradient = eqx.filter_jit(eqx.filter_grad(_sum_of_losses))(at, jnp.asarray(x[chosen]))
        at = jax.tree.map(lambda a, g: a - 0.5 * len(batches) / int((x >= 0).sum()) * np.asarray(g), at, gradient)
    found = _fit(x, steps=len(batches))
    return error(_flat(found.params), _flat(at), 1e-5)


def _shuffled(count: int, batches: int) -> np.ndarray:
    """The order of an epoch's batches: what the generator gives behind the order of the rows."""
    rng = np.random.default_rng([0, 0])
    rng.permutation(count)
    return rng.permutation(batches)


def _sum_of_losses(params: Any, x: Any) -> Any:
    """-log p of every cell there is, all hidden, padding out of sight."""
    net = params["net"]
    length = (x >= 0).sum(axis=1)
    logits = jax.vmap(lambda n: net.logits(net.encode((), ()), None, jnp.full(N, Q, jnp.int32), n))(length)
    own = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), jnp.maximum(x, 0)[..., None], axis=-1)[..., 0]
    return -jnp.where(x >= 0, own, 0.0).sum()


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(tree)])


def steps_draw_apart(mask: str) -> Found:
    """The share of three steps with one batch and no change of the weights whose loss is that of the step before."""
    losses = _fit(_rows(4), mask, rate=0.0, steps=4).loss_trace
    return Found(float((np.diff(losses) == 0).mean()), 0.0, False)


def average_is_right(**options: Any) -> Found:
    """The average of the weights behind 5 steps beside those of runs that end there."""
    weights = [_flat(_fit(_rows(4), steps=k).params) for k in range(1, 6)]
    if "ema" in options:
        d = options["ema"]
        wanted = sum((1 - d) * d ** (5 - k) * w for k, w in enumerate(weights, 1)) / (1 - d**5)
    else:
        wanted = np.mean([weights[i] for i in (1, 3, 4)], axis=0)  # save points 2, 4 and 5
    return error(_flat(_fit(_rows(4), steps=5, **options).params), wanted, 1e-5)


# Bugs


def _centred(original: Any, self: Any, x: Any) -> Any:
    return original(self, x - x.mean(axis=-1, keepdims=True))


def _in_a_circle(original: Any, tokens: Any, present: Any) -> Any:
    return (tokens == jnp.roll(tokens, 1, axis=0)) & present


def _everything_present(original: Any, law: Any, codes: Any, keys: Any, present: Any) -> Any:
    return original(law, codes, keys, jnp.ones_like(present)) & present


def _full_lengths(original: Any, codes: Any) -> Any:
    return jnp.full_like(original(codes), codes.shape[0])


def _filled_rows_count(original: Any, self: Any, b: int, chosen: Any) -> Any:
    found = original(self, b, chosen)
    return found._replace(weights=np.ones_like(found.weights))


def _without_correction(original: Any, self: Any, step: int) -> Any:
    if self.t.ema is None:
        return original(self, step)
    return np.asarray(1 - self.t.ema, np.float32)


NETWORK_BUGS = (
    Bug(
        "attention to padding", "unseen", around(_transformer, "unseen", lambda f, shown, d: 0 * f(shown, d)), partial(logits_are_right, 6)
    ),
    Bug(
        "before and after exchanged in relative positions",
        "relative_buckets",
        around(_layers, "relative_buckets", lambda f, distance, *a: f(-distance, *a)),
        partial(logits_are_right, 8),
    ),
    Bug("norm subtracts the mean", "RMSNorm", around(_layers.RMSNorm, "__call__", _centred), partial(logits_are_right, 8)),
    Bug(
        "stages treat padding as hidden cells",
        "row_lengths",
        around(_network, "row_lengths", _full_lengths),
        partial(staged_loss_is_right, 3),
    ),
    Bug(
        "least likely values fed back",
        "NetworkLoss._fed_back",
        around(_network.NetworkLoss, "_fed_back", lambda f, self, logits, keys: f(self, -logits, keys)),
        partial(staged_loss_is_right, 3),
    ),
    Bug(
        "subsets that include padding", "members", around(_membership, "members", _everything_present), partial(drawn_loss_is_right, "two")
    ),
    Bug(
        "last value of the noise never drawn",
        "whole_below",
        around(_membership, "whole_below", lambda f, n, words: f(n - 1, words)),
        partial(drawn_loss_is_right, "noisy"),
    ),
    Bug(
        "weights of a mixture's parts ignored",
        "picked",
        around(_membership, "picked", lambda f, weights, keys: f(jnp.ones_like(weights), keys)),
        partial(drawn_loss_is_right, "seldom"),
    ),
    Bug(
        "schedule one pass late",
        "RefinementKernel.left_open",
        around(refinement.RefinementKernel, "left_open", lambda f, self, sure, open, free, t, keys: f(self, sure, open, free, t - 1, keys)),
        partial(decode_is_right, "linear"),
    ),
    Bug(
        "most confident cells opened",
        "ranks",
        around(refinement, "ranks", lambda f, values: f(jnp.where(jnp.isfinite(values), -values, values))),
        partial(decode_is_right, "linear"),
    ),
    Bug(
        "first cell compared with the last by `stutter`",
        "stuttering",
        around(refinement, "stuttering", _in_a_circle),
        partial(decode_is_right, "stutter"),
    ),
    Bug(
        "settled cells predicted again",
        "RefinementKernel._predicted",
        around(refinement.RefinementKernel, "_predicted", lambda f, self, at, free, t: free),
        partial(decode_is_right, "linear"),
    ),
    Bug(
        "rows that pad a batch counted",
        "Batches.batch",
        around(_batches.Batches, "batch", _filled_rows_count),
        partial(step_is_right, 6, 4),
    ),
    Bug(
        "padding counted among hidden cells",
        "NoisyMask.mean_members",
        around(derive._membership.NoisyMask, "mean_members", lambda f, self, codes, present: f(self, codes, jnp.ones_like(present))),
        partial(step_is_right, 6, 2),
    ),
    Bug(
        "key of the first step used in every step",
        "_Run.update",
        around(_training._Run, "update", lambda f, self, state, batch, step: f(self, state, batch, 0)),
        partial(steps_draw_apart, "noisy"),
    ),
    Bug(
        "moving average biased towards the initial weights",
        "_Run.share",
        around(_training._Run, "share", _without_correction),
        partial(average_is_right, ema=0.7),
    ),
    Bug(
        "average that includes the initial weights",
        "_Run.points",
        around(_training._Run, "points", lambda f, self, done: f(self, done) + (self.t.average_last is not None)),
        partial(average_is_right, average_last=3, save_every=2),
    ),
    Bug(
        "weight of a pass ignored",
        "VisitLaw._known",
        around(_visits.VisitLaw, "_known", lambda f, self, *a: (*f(self, *a)[:2], jnp.ones(a[0].shape[1]))),
        partial(drawn_bound_is_right, "of_any"),
    ),
    Bug(
        "one open cell too few in a pass",
        "VisitLaw._known",
        around(_visits, "random_ranks", lambda f, keys, pool: f(keys, pool) + 1),
        partial(drawn_bound_is_right, "of_any"),
    ),
    Bug(
        "every hidden cell of a path scored",
        "VisitLaw._known",
        around(_visits.VisitLaw, "_known", lambda f, self, *a: (lambda h, s, w: (h, h, w))(*f(self, *a))),
        partial(drawn_bound_is_right, "of_places"),
    ),
    Bug(
        "path of a confident decoder one pass late",
        "VisitLaw.one_pass",
        around(_visits.VisitLaw, "one_pass", lambda f, self, graph, p, codes, here, open_, t: f(self, graph, p, codes, here, open_, t - 1)),
        partial(drawn_bound_is_right, "of_sure"),
    ),
    Bug(
        "settled cells hidden again twice as often",
        "RefinementKernel.rates",
        around(refinement.RefinementKernel, "rates", lambda f, self, *a: (lambda s, g: (s, 2 * g))(*f(self, *a))),
        partial(law_of_remasking_is_right, "cap"),
    ),
    Bug(
        "settled cells trusted as if eta were 1",
        "_Decoder._trusted",
        around(_decoder_law._Decoder, "_trusted", lambda f, self, *a: f(self, *a) / 2),
        partial(law_of_planning_is_right, 2),
    ),
    Bug(
        "updates after a decode leave another power of p invariant",
        "Transitions",
        around(_transitions.Transitions, "__init__", lambda f, self, *a: f(self, *a[:2], 2.0)),
        partial(updates_keep_p, "more"),
    ),
    Bug(
        "information profile shifted by one hidden cell",
        "theory._listed",
        around(_information_profile, "_listed", lambda f, *a: (lambda p: replace(p, values=np.roll(p.values, 1)))(f(*a))),
        partial(profile_is_right),
    ),
    Bug(
        "suggested counts in the reverse order",
        "theory._best_counts",
        around(_information_profile, "_best_counts", lambda f, *a: f(*a)[::-1]),
        partial(suggestion_is_best, 3),
    ),
    Bug(
        "one weight for all passes of a listed bound",
        "VisitMask.scored_blocks",
        around(VisitMask, "scored_blocks", lambda f, self: (lambda k, s, w: (k, s, np.full(len(w), w.mean())))(*f(self))),
        partial(bound_is_right, "any"),
    ),
)
