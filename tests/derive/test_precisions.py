"""Every kernel under both precisions: what a step carries to the next keeps its types, under strict promotion. Nothing is compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from form_cases import FORM_CASES
from thinned import thinned

from gmlmdsl import derive
from gmlmdsl.program import ir

CHAINS = 2


def kernels() -> list[Any]:
    """Every sampler that runs a chain or decodes, by case."""
    found = []
    for case in FORM_CASES.values():
        for name in case.model.samplers:
            guided = isinstance(case.model.sampler(name)[1].body, ir.FormCall) and case.model.graph.network is None
            if not guided and name not in GUIDED:
                found.append(pytest.param(case, name, id=f"{case}-{name}"))
    return found


GUIDED = ("rej", "tok", "back")


def target_of(case: Any) -> derive.Target:
    """What a kernel is run on, of one row of given data where there are any; params as a call hands them over."""
    model, chains = case.model, CHAINS
    if model.graph.network is None:
        lowered = model.lowered
        return derive.Target(derive.graph_arrays(lowered.graph), {k: jnp.asarray(v, float) for k, v in case.params.items()}, None)
    network = case.params["net"]
    given = tuple(jnp.zeros((1, g.size), jnp.int32) for g in model.graph.given)
    lengths = tuple(jnp.full(1, g.size, jnp.int32) for g in model.graph.given)
    encoded = derive.encode_rows(network, given, lengths, 1)
    cells = jnp.full((1, chains), model.graph.n_random, jnp.int32)
    return derive.Target(derive.network_graph(network, "net", encoded, cells, model.graph.n_random), case.params, None)


def types(tree: Any) -> list[tuple[Any, ...]]:
    return [(a.shape, a.dtype) for a in jax.tree.leaves(tree)]


@pytest.mark.parametrize(("case", "name"), thinned(kernels(), 12, 5))
def test_a_step_under_x64_gives_what_it_takes(case: Any, name: str):
    with jax.enable_x64(True):
        case = type(case)(case.name, case.text, case.x, case.given)  # what is kept is of one precision
        target = target_of(case)
        kernel = derive.build_kernel(case.model.lowered, case.model.sampler(name)[1]).kernel
        codes = jnp.zeros((target.graph.n_cells, CHAINS), jnp.int32)
        keys = jax.random.split(jax.random.key(0), CHAINS)

        def step(target: Any, keys: Any, codes: Any) -> tuple[Any, ...]:
            state = kernel.init(codes)
            ready = kernel.prepared(target)
            before = ready.enter(target, state)
            after, info = ready.move(target, keys, before)
            return state, ready.leave(target, after), before, after, info, kernel.nothing(CHAINS)

        state, left, before, after, info, none = jax.eval_shape(step, target, keys, codes)
    assert types(left) == types(state)
    assert types(after) == types(before)
    assert types(info) == types(none)
    floats = {a.dtype for a in jax.tree.leaves((left, after)) if jnp.issubdtype(a.dtype, jnp.floating)}
    assert floats <= {np.dtype(np.float64)}
