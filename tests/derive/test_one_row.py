"""One row by itself, which is reduced as a vector and not mapped over: the same numbers, without gathers and scatters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from autoregressive_cases import PROGRAM
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.derive import encode_rows, network_graph
from gmlmdsl.derive._autoregressive import BeamRows, BeamSearch, NetworkPrefixes, SearchRules
from gmlmdsl.derive._network import has_no_distribution, likeliest, over_chains, reducible


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1, 1, 7), (1, 4, 7), (2, 7), (3, 4, 7)])
def test_the_likeliest_value_is_that_of_argmax_in_any_shape(shape: tuple[int, ...]) -> None:
    logits = np.random.default_rng(0).integers(0, 3, shape).astype(np.float32)  # with ties
    top, place = likeliest(jnp.asarray(logits))
    assert np.array_equal(top, logits.max(axis=-1)) and np.array_equal(place, logits.argmax(axis=-1))
    assert likeliest(jnp.full(shape, jnp.nan))[1].max() < 7  # a code, whatever the values are


def test_values_are_the_last_axis_of_one_row_and_the_first_of_many() -> None:
    one, axis = reducible(jnp.zeros((1, 4, 7)))
    assert one.shape == (1, 4, 7) and axis == 2
    many, axis = reducible(jnp.zeros((2, 4, 7)))
    assert many.shape == (7, 2, 4) and axis == 0
    for rows in (1, 2):
        bad = np.zeros((rows, 1, 7), np.float32)
        assert not has_no_distribution(jnp.asarray(bad)).any()
        bad[-1, 0, 3] = np.nan
        assert has_no_distribution(jnp.asarray(bad)).sum() == 1


@pytest.mark.parametrize("chains", [1, 2])
def test_a_function_of_every_chain_has_the_axes_of_rows_and_chains(chains: int) -> None:
    shared, own = jnp.arange(3.0)[None], jnp.arange(2.0 * chains).reshape(1, chains, 2)
    found = over_chains(lambda a, b: {"sum": a.sum() + b, "none": None}, shared, own)
    assert np.array_equal(found["sum"], 3 + own) and found["none"] is None


@pytest.mark.parametrize("rows", thinned([1, 2], 2))
@pytest.mark.slow
def test_the_cache_of_one_row_is_updated_in_place(rows: int) -> None:
    network = gm.parse(PROGRAM).model().init_params(10)["net"]
    whole = jnp.full(rows, 4, jnp.int32)
    encoded = encode_rows(network, (jnp.zeros((rows, 4), jnp.int32),), (whole,), rows)
    graph = network_graph(network, "net", encoded, whole[:, None], 4)
    search = BeamSearch(SearchRules(None, 1, 1.0, "argmax", 1.0, None, None), NetworkPrefixes(network, graph, 1))
    at = search.begin(
        BeamRows(jnp.zeros((rows, 4), jnp.int32), jnp.ones((rows, 4), bool), 0 * whole, whole, jax.random.split(jax.random.key(0), rows))
    )
    step = str(jax.make_jaxpr(lambda at: search.prefixes.logits(at))(at))
    assert ("scatter" in step) == (rows > 1) and ("dynamic_update_slice" in step) == (rows == 1)
