"""A transformer of this language whose weights are written down, not trained, takes any product step.

Li et al. 2024, Propositions 2 and 9 (deterministic chains) and the second halves of Propositions 3 and 10 (chains whose steps are products)
say that such networks exist. Here one is built for any table of log p: one block of attention reads the whole sequence, and the feed-forward
layer has one hidden unit for each position and sequence.
"""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import p_value

import gmlmdsl as gm
from gmlmdsl.networks.limits import EPSILON

pytestmark = pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
N, Q = 3, 3
HEADS, WIDTH = 2 * N - 1, 25  # one head for each distance between two cells
STATES = np.array(list(itertools.product(range(Q), repeat=N)))
TOKEN, PLACE, SEEN, REST = 0, Q, Q + N, Q + N + HEADS * Q  # the first features of: own value, position, what heads read, the rest
SURE = 60.0  # log odds of a value; those of the others, exp(-60), are below the rounding of 1
HARD = 1000.0  # a bias of attention beside which the weight of any other cell is 0 in float64
TEXT = """
input steps : int
network net = transformer(layers = 1, heads = 5, width = 25, ffn = 81, position_embeddings = true)
model m { var x[i in range(3)] : range(3)  conditional x ~ net() }
sampler settle = refinement(schedule = all, steps = steps, start = uniform)
sampler walk   = refinement(schedule = all, steps = steps, start = uniform, decode = sample)
"""


def constructed(net: Any, tables: np.ndarray) -> Any:
    """A network whose logits at visible cells x are `tables[number of x]`, of shape (cells, values)."""
    size, offsets = WIDTH // HEADS, range(1 - N, N)
    # The embedding of a value and that of a position have one feature each.
    embedding, positions = np.eye(Q, WIDTH), np.eye(N, WIDTH, PLACE)
    # The head of an offset reads the cell at this distance, or its own cell where there is none.
    bias = np.zeros((32, HEADS))
    for head, offset in enumerate(offsets):
        bias[0, head] = HARD
        bias[abs(offset) + 16 * (offset > 0), head] = 2 * HARD
    value, output = np.zeros((WIDTH, HEADS, size)), np.zeros((HEADS, size, WIDTH))
    for head, v in itertools.product(range(HEADS), range(Q)):
        value[TOKEN + v, head, v] = np.sqrt(2 / WIDTH + EPSILON)  # The norm of two features of 1 has divided by this.
        output[head, v, SEEN + head * Q + v] = 1
    # A hidden unit is 1 at its position and sequence, and 0 elsewhere. It writes the difference to the wanted stream, whose
    # norm is 1: logits in the features of the value, and the rest in the last one.
    most = np.linalg.norm(tables, axis=2).max()
    inner, outer = np.zeros((WIDTH, N * len(STATES))), np.zeros((N * len(STATES), WIDTH))
    for k, (i, (s, x)) in enumerate(itertools.product(range(N), enumerate(STATES))):
        stream = np.zeros(WIDTH)
        stream[[TOKEN + x[i], PLACE + i]] = 1
        for head, offset in enumerate(offsets):
            stream[SEEN + head * Q + x[i + offset if 0 <= i + offset < N else i]] = 1
        inner[PLACE : PLACE + N, k] = -N
        inner[PLACE + i, k] += 1
        for j in range(N):
            inner[SEEN + (j - i + N - 1) * Q + x[j], k] = 1
        inner[:, k] *= np.sqrt((2 + HEADS) / WIDTH + EPSILON)
        wanted = np.zeros(WIDTH)
        wanted[TOKEN : TOKEN + Q] = tables[s, i] / most
        wanted[REST] = np.sqrt(max(0.0, 1 - (wanted**2).sum()))
        outer[k] = wanted - stream
    scale = np.full(WIDTH, most * np.sqrt(WIDTH) * np.sqrt(1 / WIDTH + EPSILON))  # Logits are divided by the first root.
    square = (WIDTH, WIDTH)
    block = net.encoder.layers[0]
    old = lambda n: (  # noqa: E731
        n.embedding, n.positions, n.encoder.bias.table, n.encoder.norm.scale, n.encoder.layers[0].attention.query,
        n.encoder.layers[0].attention.value, n.encoder.layers[0].attention.output, n.encoder.layers[0].ffn.inner, n.encoder.layers[0].ffn.outer,
    )  # fmt: skip
    new = (embedding, positions, bias, scale, 0 * block.attention.query, value.reshape(square), output.reshape(square), inner, outer)
    return eqx.tree_at(old, net, tuple(jnp.asarray(a) for a in new))


def built(tables: np.ndarray, steps: int) -> tuple[Any, dict[str, Any]]:
    model = gm.parse(TEXT, steps=steps).model()
    params = model.init_params(0)
    return model, {**params, "net": constructed(params["net"], tables)}


def number(x: np.ndarray) -> np.ndarray:
    return x @ Q ** np.arange(N)[::-1]


def sure(images: np.ndarray) -> np.ndarray:
    """The table of a deterministic chain."""
    return SURE * np.eye(Q)[images]


@pytest.mark.parametrize("steps", [1, 3])
def test_any_deterministic_chain_is_one_network(steps: int) -> None:
    """A random map of the 27 sequences: T passes are T transitions, and one pass of another network is all T at once."""
    with jax.enable_x64(True):
        images = STATES[np.random.default_rng(steps).integers(0, len(STATES), len(STATES))]
        wanted = STATES
        for _ in range(steps):
            wanted = images[number(wanted)]
        for table, passes in ((sure(images), steps), (sure(wanted), 1)):
            model, params = built(table, passes)
            found = model.sample(params, "settle", draws=1, chains=1, init={"x": STATES}, progress=False)
            np.testing.assert_array_equal(np.asarray(found.posterior["x"]).reshape(wanted.shape), wanted)


@pytest.fixture(scope="module")
def product() -> tuple[np.ndarray, np.ndarray]:
    """Random log p of each position given the sequence, and the matrix of the chain whose steps are their products."""
    log_p = np.random.default_rng(7).normal(size=(len(STATES), N, Q)) * 1.5
    log_p -= np.log(np.exp(log_p).sum(axis=2, keepdims=True))
    matrix = np.exp(sum(log_p[:, i, STATES[:, i]] for i in range(N)))
    return log_p, matrix


@pytest.mark.parametrize("steps", [1, 3])
def test_any_chain_of_product_steps_is_a_network(product: tuple[np.ndarray, np.ndarray], steps: int) -> None:
    log_p, matrix = product
    with jax.enable_x64(True):
        model, params = built(log_p, steps)
        law = gm.theory.output_law(model, params, "walk").probabilities
        wanted = np.full(len(STATES), 1 / len(STATES)) @ np.linalg.matrix_power(matrix, steps)
        np.testing.assert_allclose(np.asarray(law).ravel(), wanted, atol=1e-9)


def test_draws_are_those_of_the_product_chain(product: tuple[np.ndarray, np.ndarray]) -> None:
    log_p, matrix = product
    with jax.enable_x64(True):
        model, params = built(log_p, 2)
        start = 11
        found = model.sample(params, "walk", draws=5000, chains=4, init={"x": STATES[start]}, seed=3, progress=False)
    counts = np.bincount(number(np.asarray(found.posterior["x"]).reshape(-1, N)), minlength=len(STATES))
    assert p_value(counts, (matrix @ matrix)[start]) > 1e-4
