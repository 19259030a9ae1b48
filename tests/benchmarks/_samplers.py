"""Ways to sweep a task's chains: the compiled kernel, and thrml. Both run the same chain: heat bath, colour after colour."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

import gmlmdsl as gm
from gmlmdsl import derive

from ._tasks import CHAINS, Task

Array = np.ndarray


class Sweeper(Protocol):
    """Chains that move `sweeps` sweeps at a time."""

    sweeps: int
    build_seconds: float
    compile_seconds: float

    def start(self, codes: Array) -> Any:
        """The state of chains that start at codes of shape (chains, sites)."""
        ...

    def advance(self, state: Any, call: int) -> Any:
        """The state `sweeps` sweeps later, ready; `call` makes its random numbers."""
        ...

    def codes(self, state: Any) -> Array:
        """Codes of shape (chains, sites)."""
        ...


def chain_energies(sweeper: Sweeper, task: Task, burn: int, kept: int, seed: int) -> Array:
    """The mean energy of each chain over `kept` states after `burn`, each `sweeps` sweeps apart, from uniform starts."""
    state = sweeper.start(task.starts(seed))
    found = []
    for call in range(burn + kept):
        state = sweeper.advance(state, seed * 1000 + call)
        if call >= burn:
            found.append(task.energy(sweeper.codes(state)))
    return np.mean(found, axis=0)


class CompiledSweeps:
    """The kernel that the compiler derives from a program, in one scan."""

    def __init__(self, task: Task, sweeps: int):
        self.sweeps = sweeps
        start = time.perf_counter()
        self.model = model = gm.parse(task.program, **task.inputs).model()
        self.kernel = _kernel(model, task)
        self.target = _target(model, task)
        built = time.perf_counter()
        codes, key = jnp.zeros((task.n, CHAINS), jnp.int32), jax.random.key(0)
        self._run = _sweeps.lower(self.kernel, self.target, self.kernel.init(codes), key, sweeps).compile()
        self.build_seconds, self.compile_seconds = built - start, time.perf_counter() - built

    def with_task(self, task: Task) -> CompiledSweeps:
        """The same compiled program at the parameters of a task of the same shape."""
        other = object.__new__(CompiledSweeps)
        other.__dict__.update(self.__dict__)
        other.kernel = _kernel(self.model, task)
        other.target = self.target._replace(params=_params(task))
        return other

    def start(self, codes: Array) -> derive.State:
        """See `Sweeper`."""
        return self.kernel.init(jnp.asarray(codes.T))

    def advance(self, state: derive.State, call: int) -> derive.State:
        """See `Sweeper`."""
        return jax.block_until_ready(self._run(self.kernel, self.target, state, jax.random.key(call)))

    def codes(self, state: derive.State) -> Array:
        """See `Sweeper`."""
        return np.asarray(state.codes).T


def _kernel(model: gm.Model, task: Task) -> derive.AbstractKernel:
    return derive.build_kernel(model.lowered, model.sampler("sweep")[1], task.params).kernel


def _params(task: Task) -> dict[str, jax.Array]:
    return {k: jnp.asarray(v, jnp.float32) for k, v in task.params.items()}


def _target(model: gm.Model, task: Task) -> derive.Target:
    return derive.Target(derive.graph_arrays(model.graph), _params(task), None)


@partial(jax.jit, static_argnames="count")
def _sweeps(kernel: derive.AbstractKernel, target: derive.Target, state: derive.State, key: jax.Array, count: int) -> derive.State:
    ready = kernel.prepared(target)

    def one(carried: Any, key: jax.Array) -> tuple[Any, None]:
        return ready.move(target, jax.random.split(key, CHAINS), carried)[0], None

    return ready.leave(target, jax.lax.scan(one, ready.enter(target, state), jax.random.split(key, count))[0])


class ThrmlSweeps:
    """The same chain by thrml's block Gibbs sampling, one block a colour."""

    def __init__(self, task: Task, sweeps: int):
        from thrml import Block, CategoricalNode, SamplingSchedule, SpinNode, sample_states

        self.sweeps, self.colours, self.spin = sweeps, task.colours, task.spin
        start = time.perf_counter()
        nodes = [SpinNode() if task.spin else CategoricalNode() for _ in range(task.n)]
        blocks = [Block([nodes[i] for i in colour]) for colour in task.colours]
        program = (_thrml_ising if task.spin else _thrml_potts)(task, nodes, blocks)
        # The first of two samples is taken before any sweep, the second after all of them.
        schedule = SamplingSchedule(n_warmup=0, n_samples=2, steps_per_sample=sweeps)
        built = time.perf_counter()

        def run(values: jax.Array, key: jax.Array) -> jax.Array:
            state = [values[colour] for colour in self.colours]
            return sample_states(key, program, schedule, state, [], [Block(nodes)])[0][-1]

        state, keys = self.start(np.zeros((CHAINS, task.n), np.int32)), jax.random.split(jax.random.key(0), CHAINS)
        self._run = jax.jit(jax.vmap(run)).lower(state, keys).compile()
        self.build_seconds, self.compile_seconds = built - start, time.perf_counter() - built

    def start(self, codes: Array) -> jax.Array:
        """See `Sweeper`."""
        return jnp.asarray(codes.astype(np.bool_ if self.spin else np.uint8))

    def advance(self, state: jax.Array, call: int) -> jax.Array:
        """See `Sweeper`."""
        return jax.block_until_ready(self._run(state, jax.random.split(jax.random.key(call), CHAINS)))

    def codes(self, state: jax.Array) -> Array:
        """See `Sweeper`."""
        return np.asarray(state, np.int32)


def _thrml_ising(task: Task, nodes: Sequence[Any], blocks: Sequence[Any]) -> Any:
    from thrml.models import IsingEBM, IsingSamplingProgram

    edges = [(nodes[i], nodes[j]) for i, j in task.edges]
    fields, weights = jnp.asarray(task.fields, jnp.float32), jnp.asarray(task.weights, jnp.float32)
    return IsingSamplingProgram(IsingEBM(nodes, edges, fields, weights, jnp.array(1.0)), blocks, clamped_blocks=[])


def _thrml_potts(task: Task, nodes: Sequence[Any], blocks: Sequence[Any]) -> Any:
    from thrml import Block, CategoricalNode
    from thrml.block_sampling import BlockGibbsSpec
    from thrml.factor import FactorSamplingProgram
    from thrml.models.discrete_ebm import CategoricalGibbsConditional, SquareCategoricalEBMFactor

    tables = task.weights[:, None, None] * np.eye(task.n_values)
    ends = [Block([nodes[i] for i in task.edges[:, k]]) for k in (0, 1)]
    factor = SquareCategoricalEBMFactor(ends, jnp.asarray(tables, jnp.float32))
    spec = BlockGibbsSpec(blocks, [], {CategoricalNode: jax.ShapeDtypeStruct((), jnp.uint8)})
    return FactorSamplingProgram(spec, [CategoricalGibbsConditional(task.n_values)] * len(blocks), [factor], [])
