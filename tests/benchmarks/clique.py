"""T4: a strongly coupled clique among weak couplings. Blocks that the library finds beside random blocks of four cells, by exact relaxation
times and measured steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import gmlmdsl as gm
from gmlmdsl import derive

from ._measure import Check, Figure, Report, figure, in_turn
from ._tasks import SPIN_GLASS

Array = np.ndarray
N, CLIQUE, FIELD, COUPLING, WEAK = 10, 4, 5.0, 8.0, 0.1
CHAINS, STEPS, REPEATS = 256, 200, 5
GOAL = 30  # times quicker than random blocks
PROGRAM = f"""{SPIN_GLASS}mask fours = subsets(x, size = 4)
sampler random {{ update x[K] where K ~ fours }}
"""
WORDS = {"random": "random blocks of four", "drawn": "suggested blocks, one drawn a step", "swept": "suggested blocks, in turn"}


def run(quick: bool) -> Report:
    """Nanoseconds of a step of one chain, and of a relaxation time."""
    params = parameters()
    found = str(gm.theory.suggest_masks(gm.parse(PROGRAM, n=N).model(), params, measure=False))
    mask = re.search(r"^mask clusters = .*?\)\n", found, re.DOTALL | re.MULTILINE)
    turns = re.search(r"^sampler clusters_in_turn \{.*?^\}\n", found, re.DOTALL | re.MULTILINE)
    assert mask is not None, found
    assert turns is not None, found
    text = f"{PROGRAM}{mask[0]}sampler drawn {{ update x[K] where K ~ clusters }}\n"
    model = gm.parse(text + turns[0].replace("clusters_in_turn", "swept"), n=N).model()
    calls = {name: stepping(model, name, params) for name in WORDS}
    seconds = in_turn(calls, 2 if quick else REPEATS)
    times = {name: float(gm.theory.relaxation_time(model, params, sampler=name)) for name in WORDS}
    figures, costs = [], {}
    for name, words in WORDS.items():
        steps = [1e9 * s / (CHAINS * STEPS) for s in seconds[name]]
        costs[name] = float(np.median(steps)) * times[name]
        figures.append(figure("t4", words, "a step of one chain", steps, "ns", f"{CHAINS} chains"))
        figures.append(figure("t4", words, "relaxation time", [times[name]], "steps", "exact"))
        figures.append(figure("t4", words, "relaxation time", [costs[name]], "ns"))
    figures += [ratio(name, costs) for name in ("drawn", "swept")]
    return Report(
        tuple(figures), (Check("t4", "relaxation time of random blocks, dense", times["random"], by_hand(params), 1e-4 * times["random"]),)
    )


def ratio(name: str, costs: dict[str, float]) -> Figure:
    """The share of the time that random blocks take."""
    return figure("t4", f"{WORDS[name]} / {WORDS['random']}", "relaxation time", [costs[name] / costs["random"]], "ratio", "", 1 / GOAL)


def parameters() -> dict[str, Array]:
    """Those of the paper's clique, among weak couplings."""
    weights = np.triu(WEAK * np.random.default_rng(0).normal(size=(N, N)), 1)
    weights[:CLIQUE, :CLIQUE] = np.triu(np.full((CLIQUE, CLIQUE), COUPLING), 1)
    return {"h": np.where(np.arange(N) < CLIQUE, FIELD, 0.0), "J": weights[np.triu_indices(N, 1)]}


def stepping(model: gm.Model, name: str, params: dict[str, Array]) -> Callable[[], object]:
    """Some steps of many chains, compiled."""
    kernel = derive.build_kernel(model.lowered, model.sampler(name)[1], params).kernel
    target = derive.Target(derive.graph_arrays(model.graph), {k: jnp.asarray(v, jnp.float32) for k, v in params.items()}, None)
    state = kernel.init(jnp.ones((N, CHAINS), jnp.int32))
    keys = jax.random.split(jax.random.key(0), CHAINS)
    call = partial(_steps, kernel, target, state, keys)
    call()
    return call


@jax.jit
def _stepped(kernel: derive.AbstractKernel, target: derive.Target, state: derive.State, keys: jax.Array) -> derive.State:
    ready = kernel.prepared(target)
    found = jax.lax.fori_loop(0, STEPS, lambda t, s: ready.move(target, derive.fold(keys, t), s)[0], ready.enter(target, state))
    return ready.leave(target, found)


def _steps(kernel: derive.AbstractKernel, target: derive.Target, state: derive.State, keys: jax.Array) -> object:
    return jax.block_until_ready(_stepped(kernel, target, state, keys))


def by_hand(params: dict[str, Array]) -> float:
    """1 / (1 - second eigenvalue) of random blocks of four, from its own 1024 x 1024 matrix."""
    from itertools import combinations

    x = 2.0 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1) - 1
    weights = np.zeros((N, N))
    weights[np.triu_indices(N, 1)] = params["J"]
    log_p = np.einsum("si,ij,sj->s", x, weights, x) + x @ params["h"]
    root = np.exp(0.5 * (log_p - log_p.max()))
    blocks, matrix = list(combinations(range(N), 4)), np.zeros((2**N, 2**N))
    for block in blocks:
        rest = np.arange(2**N) & ~sum(1 << i for i in block)
        reached = rest[:, None] | np.array([sum(1 << i for b, i in enumerate(block) if v >> b & 1) for v in range(16)])
        law = np.exp(log_p[reached] - log_p[reached].max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        own = law[np.arange(2**N)[:, None] == reached]  # each configuration among those of its block
        matrix[np.arange(2**N)[:, None], reached] += np.sqrt(law * own[:, None]) / len(blocks)
    root /= np.linalg.norm(root)
    return float(1 / (1 - np.linalg.eigvalsh(matrix - np.outer(root, root))[-1]))
