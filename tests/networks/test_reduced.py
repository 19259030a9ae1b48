"""Networks in fewer bits: what an int8 product is, which matrices have it, which precision is chosen."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import disturbed, one_pass

import gmlmdsl as gm
from gmlmdsl.networks import _reduced, fastest, reduced
from gmlmdsl.networks._reduced import ReducedMatrix, ReducedTable, scaled

SIZES = "layers = 2, heads = 2, width = 32, ffn = 48"
TEXT = f"""
index s = range(6)
network net = encoder_decoder({SIZES}, positional_attention = true)
network causal_net = encoder_decoder({SIZES}, causal = true)
network small = mlp(layers = 1, width = 8)
model m {{ given src[i in s] : range(40)  var x[i in s] : range(40)  conditional x ~ net(src) }}
model c {{ given src[i in s] : range(40)  var x[i in s] : range(40)  conditional x ~ causal_net(src) }}
model p {{ given src[i in s] : range(40)  var x[i in s] : range(40)  conditional x ~ small(src) }}
"""


@pytest.fixture(autouse=True)
def no_matrix_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reduced, "LEAST_REDUCED", 0)


@cache
def network(model: str) -> Any:
    return disturbed(next(iter(gm.parse(TEXT).model(model).init_params(1).values())), 2)


def by_hand(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The product of rounded numbers, in whole numbers."""
    own, columns = np.abs(x).max(axis=1) / 127, np.abs(matrix).max(axis=0) / 127
    rounded = np.round(x / own[:, None]).astype(int) @ np.round(matrix / columns).astype(int)
    return rounded * own[:, None] * columns


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("inputs", [0, 1])
def test_an_int8_product_rounds_rows_and_columns(rows: int, inputs: int) -> None:
    rng = np.random.default_rng(rows)
    x, matrix = rng.normal(size=(rows, 64)) * [[3.0]], rng.normal(size=(64, 48)) * rng.uniform(0.1, 10, 48)
    stored = ReducedMatrix(jnp.asarray(matrix.T if inputs else matrix, jnp.float32), "int8", inputs)
    assert stored.entries.dtype == jnp.int8 and int(jnp.abs(stored.entries).max()) == 127
    found = np.asarray(jnp.asarray(x, jnp.float32) @ stored)
    assert found.shape == (rows, 48)
    # a number that lies between two whole ones may be rounded to either
    np.testing.assert_allclose(found, by_hand(x.astype(np.float32), matrix.astype(np.float32)), atol=0.02 * np.abs(found).max())
    error = np.abs(found - x @ matrix).max() / np.abs(x @ matrix).max()
    assert 1e-4 < error < 0.02


def test_rows_that_are_mapped_over_are_rows_of_one_product() -> None:
    x, matrix = jax.random.normal(jax.random.key(0), (3, 2, 1, 16)), jax.random.normal(jax.random.key(1), (16, 8))
    stored = ReducedMatrix(matrix, "int8")
    found = jax.vmap(jax.vmap(lambda x: x @ stored))(x)
    np.testing.assert_allclose(found.reshape(6, 8), x.reshape(6, 16) @ stored, rtol=1e-6)
    text = str(jax.make_jaxpr(jax.vmap(jax.vmap(lambda x: x @ stored)))(x))
    assert "i8[6,16]" in text  # neither six products nor rows that fill up
    assert "i8[2,16]" in str(jax.make_jaxpr(lambda x: x @ stored)(x[0, 0]))  # one row is two


def test_a_row_of_zeros_is_zero() -> None:
    entries, scale = scaled(jnp.zeros((2, 4)), 1)
    assert not entries.any() and (scale > 0).all()
    assert not (jnp.zeros((2, 4)) @ ReducedMatrix(jnp.ones((4, 3)), "int8")).any()


@pytest.mark.parametrize("model", ["m", "c"])
@pytest.mark.parametrize(("precision", "limit"), [("int8", 0.1), ("bfloat16", 0.05)])
def test_logits_in_fewer_bits_are_near_those_in_float32(model: str, precision: str, limit: float) -> None:
    plain = network(model)
    source, length, seen = jnp.arange(6, dtype=jnp.int32), jnp.asarray(6, jnp.int32), jnp.arange(10, 16, dtype=jnp.int32)
    exact, found = (np.asarray(one_pass(net, (source,), (length,), seen, length)[1]) for net in (plain, reduced(plain, precision)))
    assert found.dtype == exact.dtype
    error = float(np.sqrt(np.square(found - exact).mean()) / exact.std())
    assert 1e-4 < error < limit


def test_matrices_are_reduced_and_lookups_are_not() -> None:
    plain, fewer = network("m"), reduced(network("m"), "int8")
    kinds = [type(leaf) for leaf in jax.tree.leaves(fewer, is_leaf=lambda part: isinstance(part, ReducedMatrix | ReducedTable))]
    # four of encoder's attention and two of its feed-forward; in a decoder's block twice four, two, and two of positional attention
    assert kinds.count(ReducedMatrix) == 2 * (4 + 2) + 2 * (4 + 4 + 2 + 2) and kinds.count(ReducedTable) == 1
    assert isinstance(fewer.decoder.layers[0].positional.attention.query, jax.Array)
    assert np.array_equal(fewer.embeddings[0][jnp.arange(3)], plain.embeddings[0][:3])
    assert reduced(plain, "float32") is plain


def test_small_matrices_stay_in_float32_beside_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reduced, "LEAST_REDUCED", 32 * 48)  # the width times the inner width: of a feed-forward layer, and of no attention
    layer = reduced(network("m"), "int8").decoder.layers[0]
    assert isinstance(layer.ffn.inner, ReducedMatrix) and isinstance(layer.self_attention.query, jax.Array)
    assert isinstance(reduced(network("m"), "bfloat16").decoder.layers[0].self_attention.query, ReducedMatrix)


def test_what_cannot_be_reduced_is_refused() -> None:
    with pytest.raises(gm.GmlmError, match=r"E507.*float32, bfloat16, int8 or auto, got 'int4'"):
        reduced(network("m"), "int4")
    with pytest.raises(gm.GmlmError, match=r"E507.*this network is `MLP`"):
        reduced(network("p"), "int8")
    assert fastest(network("p")) == "float32"


@pytest.mark.parametrize(("times", "chosen"), [((1, 0.95, 2), "float32"), ((1, 0.5, 0.4), "int8"), ((1, 0.4, 0.5), "bfloat16")])
def test_the_fastest_precision_is_chosen_if_it_is_a_tenth_faster(
    times: tuple[float, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []

    def seconds(call: Any, part: Any, x: Any) -> float:
        rows.append(x.shape[0])
        kind = getattr(part, "inner", getattr(part, "matrix", part))
        stored = getattr(kind, "entries", kind).dtype
        return times[("float32", "bfloat16", "int8").index(str(stored).replace("64", "32"))]

    monkeypatch.setattr(_reduced, "_seconds", seconds)
    assert fastest(network("m")) == chosen and set(rows) == {32}
    rows.clear()
    fastest(network("c"))
    assert set(rows) == {1}
