"""Chains that start exactly in p and take one step of a kernel, as users get it compiled: what they reach must have the law p.

No convergence is waited for, so that nothing is confused with an error of the kernel: Geweke 2004 and Cook, Gelman and Rubin 2006
test samplers in that spirit. Shared by `test_one_step.py` and `test_planted_bugs.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Case, case
from chi_square import p_value

from gmlmdsl import derive
from gmlmdsl.derive._kernels import Replicas, TemperKernel
from gmlmdsl.program import ir
from gmlmdsl.sample import _run_kernel as _sample

LEAST_P = 1e-4

RING = case(
    "ring",
    """
graph G = chain(4, wrap = true)
model ring {
  var x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)]
  param J[(i, j) in G.edges, a in range(3), b in range(3)]
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask two = subsets(x, size = 2)
mask look given x {
  choose {x[i], x[j]} for (i, j) in G.edges weight 0.2 + 2 * (x[i] == x[j])
  choose {x[i]} for i in G.nodes weight x[i]
}
sampler sweep  { update x[i] for i in G.nodes }
sampler turns  { update x[0]  update x[1]  update x[2]  update x[3] }
sampler pairs  { update x[K] where K ~ two }
sampler looks  { update x[K] where K ~ look }
sampler either { mixture { 2 : update x[i] for i in G.nodes  1 : update x[K] where K ~ two } }
sampler twice  { repeat 2 { update x[K] where K ~ two } }
sampler whole  { update x }
sampler hot    { temper(betas = [0.4, 1]) { update x[i] for i in G.nodes } }
""",
    seed=3,
)
MIXED = case(
    "mixed",
    """
domain sky = labels("sun", "rain", "snow", "fog")
model mixed {
  var s : spin
  var k : range(3)
  var b : bit
  var w : sky
  param h[a in sky]
  param c
  factor h[w] * s
  factor c * s * (k - 1) * (w != "sun")
  factor 0.8 * b * (k == 2) - 0.3 * k
  require not (w == "fog" and s == 1)
  require b == 1 or k < 2
}
mask two = subsets(size = 2)
mask see given w { choose {s, w} weight if w == "snow" then 3 else 0.5  choose {k, b} weight 1  choose {w, k} weight w == "rain" }
sampler cells { update s  update k  update b  update w }
sampler pairs { update K where K ~ two }
sampler sees  { update K where K ~ see }
sampler hot   { temper(betas = [0, 0.3, 1]) { update K where K ~ see } }
""",
    seed=4,
)
KERNELS = [(RING, s) for s in ("sweep", "turns", "pairs", "looks", "either", "twice", "whole", "hot")]
KERNELS += [(MIXED, s) for s in ("cells", "pairs", "sees", "hot")]


def advance(case: Case, sampler: str, state: np.ndarray, seed: int, steps: int = 1) -> tuple[Any, np.ndarray]:
    """Some steps of a sampler from codes of shape (cells, chains), or (cells, replicas, chains): the state and, of a ladder, its replicas."""
    lowered = case.model.lowered
    kernel = derive.build_kernel(lowered, case.model.sampler(sampler)[1], case.params).kernel
    target = derive.Target(derive.graph_arrays(lowered.graph), case.model._params(case.params, case.model.lowered), None)
    chains = state.shape[-1]
    keys = jax.vmap(lambda c: jax.random.fold_in(jax.random.key(seed), c))(jnp.arange(chains))
    codes = jnp.asarray(state, jnp.int32)
    if isinstance(kernel, TemperKernel):
        start = derive.State(codes[:, kernel.cold], Replicas(codes, jnp.zeros(chains, jnp.int32)))
    else:
        start = kernel.init(codes)
    one, count = jnp.asarray(1), jnp.asarray(steps)
    end, _ = _sample.record(kernel, target, keys, start, jnp.asarray(0), one, count, steps, None, False)
    return end, np.asarray(end.memory.codes if isinstance(kernel, TemperKernel) else end.codes)


def numbered(case: Case, codes: np.ndarray) -> np.ndarray:
    """The number of each configuration; codes of shape (cells, ..)."""
    return np.asarray(np.ravel_multi_index(tuple(codes), case.oracle.domain_sizes))


def keeps_p(case: Case, sampler: str, chains: int, seed: int = 1, steps: int = 1) -> float:
    """The p-value of what chains reach that start exactly in p, beside p; of a ladder, in the product of the p^beta, beside it."""
    body = case.model.sampler(sampler)[1].body
    rng = np.random.default_rng([seed, 7])
    betas = sorted(case.model.lowered.bound.number(b) for b in body[0].betas) if isinstance(body[0], ir.Temper) else [1.0]
    laws = [case.oracle.at_beta(b).probabilities_at(case.params) for b in betas]
    joint = laws[0]
    for law in laws[1:]:
        joint = np.multiply.outer(joint, law).ravel()
    starts = [rng.choice(len(law), chains, p=law) for law in laws]
    codes = np.stack([case.oracle.states[s].T for s in starts], axis=1)
    _, end = advance(case, sampler, codes if len(betas) > 1 else codes[:, 0], seed, steps)
    reached = numbered(case, end)
    if len(betas) > 1:
        reached = np.ravel_multi_index(tuple(reached), [len(law) for law in laws])
    return p_value(np.bincount(reached, minlength=len(joint)), joint)


def follows_its_row(case: Case, sampler: str, chains: int, seed: int = 1) -> float:
    """The p-value of what chains reach in one step from one configuration, beside the row of the oracle's matrix."""
    p = case.oracle.probabilities(case.params)
    start = int(np.argsort(p)[-3])
    row = case.oracle.transition_matrix(case.params, sampler)[start]
    _, end = advance(case, sampler, np.repeat(case.oracle.states[start][:, None], chains, axis=1), seed)
    return p_value(np.bincount(numbered(case, end), minlength=len(p)), row)
