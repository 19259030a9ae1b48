"""The causal oracle beside a full pass over each prefix, in float64: after any pushes and pops, a different number for each row."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import programs, traced_or_compiled
from network_cases import N_CELLS, N_VALUES, ints, network
from oracle import _networks as loops
from thinned import thinned

from gmlmdsl.derive import CausalOracle, CausalState, causal_oracle, encode_rows
from gmlmdsl.networks._layers import NEVER

ROWS = 5
GIVEN = (("s", 6, 5),)
SOURCES = np.random.default_rng(7).integers(0, 5, (ROWS, 6))
pytestmark = pytest.mark.usefixtures("float64")


def made(name: str) -> CausalOracle:
    """Of a transformer, or of an encoder-decoder with given data of each row."""
    net = network(name, {"causal": True}, GIVEN if name == "encoder_decoder" else (), seed=2)
    given = (ints(SOURCES),) if name == "encoder_decoder" else ()
    encoded = encode_rows(net, given, tuple(ints([6] * ROWS) for _ in given), ROWS)
    return CausalOracle(net, encoded, N_CELLS)


@eqx.filter_jit
def full(oracle: CausalOracle, rows: Any, lengths: Any) -> tuple[Any, Any]:
    """log p of the next symbol by one pass over whole rows, without any cache."""

    def one(encoded: Any, row: Any, length: Any) -> Any:
        padded = jnp.append(row, 0)  # the next symbol of a full row too
        prepared = oracle.network.prepare(encoded, ints(N_CELLS + 1), N_CELLS + 1)
        return oracle.network.logits(encoded, prepared, padded, ints(N_CELLS + 1))[length]

    return jax.nn.log_softmax(jax.vmap(one)(oracle.encoded, rows, lengths), axis=-1)


def prefixes(lists: list[list[int]], width: int = N_CELLS) -> np.ndarray:
    return np.array([[*row, *[-1] * (width - len(row))] for row in lists], np.int32)


def check(oracle: CausalOracle, state: CausalState, rows: list[list[int]]) -> None:
    assert state.lengths.tolist() == [len(r) for r in rows]
    lengths = ints([len(r) for r in rows])
    found = eqx.filter_jit(lambda o, s: o.next_log_probs(s))(oracle, state)
    np.testing.assert_allclose(found, full(oracle, ints(prefixes(rows)), lengths), rtol=1e-10, atol=1e-10)


def walked(oracle: CausalOracle, steps: int, push: Any, pop: Any) -> None:
    """Random pushes and pops, compared with full passes after each."""
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, N_VALUES, n).tolist() for n in (0, 3, 8, 1, 6)]
    state = eqx.filter_jit(lambda o, p: o.start(p))(oracle, ints(prefixes(rows)))
    check(oracle, state, rows)
    for step in range(steps):
        if step % 3 == 2:
            back = rng.integers(0, 5, ROWS)
            state = pop(oracle, state, ints(back))
            rows = [row[: max(len(row) - n, 0)] for row, n in zip(rows, back, strict=True)]
        else:
            symbols = rng.integers(-1, N_VALUES, ROWS)  # -1: nothing
            state = push(oracle, state, ints(symbols))
            rows = [row if s < 0 or len(row) == N_CELLS else [*row, int(s)] for row, s in zip(rows, symbols, strict=True)]
        check(oracle, state, rows)


push = eqx.filter_jit(lambda o, s, x: o.push(s, x))
pop = eqx.filter_jit(lambda o, s, n: o.pop(s, n))


@pytest.mark.parametrize("name", thinned(["transformer", "encoder_decoder"], 2))
def test_log_probs_are_those_of_a_full_pass_after_any_pushes_and_pops(name: str) -> None:
    walked(made(name), 30, push, pop)


class Unrolled(CausalOracle):
    """The planted bug: symbols that were taken back stay in sight, up to the furthest place that a row ever reached."""

    furthest: Any

    def __init__(self, oracle: CausalOracle, furthest: Any):
        super().__init__(oracle.network, oracle.encoded, oracle.n_cells)
        self.furthest = furthest

    def push(self, state: CausalState, symbols: Any) -> CausalState:
        places = jnp.arange(self.places, dtype=jnp.int32)
        bias = self.network.encoder.bias(places)

        def one(cache: Any, states: Any, symbol: Any, t: Any, furthest: Any) -> Any:
            sight = jnp.where(places[None, None] <= jnp.maximum(t, furthest), bias, NEVER)
            found, cache = self.network.enter(None, sight, cache, symbol[None], t)
            return jax.lax.dynamic_update_slice_in_dim(states, found, t, 0), cache

        states, cache = jax.vmap(one)(state.cache, state.states, symbols, state.lengths + 1, self.furthest)
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        return CausalState(state.lengths + more.astype(jnp.int32), states, cache)


@pytest.mark.slow  # a planted bug; what it breaks is compared above
def test_a_cache_that_is_not_rolled_back_is_caught() -> None:
    oracle = made("transformer")
    furthest = np.zeros(ROWS, np.int32)

    def told(bug: bool) -> Any:
        def push(oracle: CausalOracle, state: CausalState, symbols: Any) -> CausalState:
            np.maximum(furthest, np.asarray(state.lengths) if bug else 0, out=furthest)
            unrolled = Unrolled(oracle, ints(furthest))
            return eqx.filter_jit(lambda o, s, x: o.push(s, x))(unrolled, state, symbols)

        return push

    walked(oracle, 9, told(bug=False), pop)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        walked(oracle, 9, told(bug=True), pop)


def test_features_are_the_last_layers_state_at_the_last_symbol() -> None:
    oracle, rows = made("transformer"), [[], [3], [1, 2, 0], [4] * 8, [0, 1]]
    found = eqx.filter_jit(lambda o, p: o.features(o.start(p)))(oracle, ints(prefixes(rows)))
    wanted = [loops.causal_transformer(oracle.network, np.array(row, int))[1][-1] for row in rows]
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_features_behind_each_symbol_are_those_of_longer_prefixes() -> None:
    oracle, rows = made("transformer"), [[], [3], [1, 2, 0], [4] * 6, [0, 1]]
    found = eqx.filter_jit(lambda o, p: o.features_after(o.start(p)))(oracle, ints(prefixes(rows)))
    for symbol in range(N_VALUES):
        longer = [[*row, symbol] for row in rows]
        wanted = [loops.causal_transformer(oracle.network, np.array(row, int))[1][-1] for row in longer]
        np.testing.assert_allclose(found[:, symbol], wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.slow  # another program; prompts as wide as rows are in the gate
def test_prompts_may_be_narrower_than_rows() -> None:
    oracle, rows = made("transformer"), [[], [3], [1, 2, 0], [4, 4], [0, 1]]
    states = [eqx.filter_jit(lambda o, p: o.start(p))(oracle, ints(prefixes(rows, width))) for width in (3, N_CELLS)]
    symbols = ints([1, 0, 4, 2, 2])
    a, b = (oracle.next_log_probs(push(oracle, s, symbols)) for s in states)
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    none = oracle.start(jnp.zeros((ROWS, 0), jnp.int32))
    np.testing.assert_allclose(oracle.next_log_probs(none)[0], oracle.next_log_probs(states[0])[0], rtol=1e-12, atol=1e-12)


def test_it_runs_inside_one_compiled_loop() -> None:
    """Its functions are pure, and states have one shape: greedy rows by a loop of the device are those of loops over full passes."""
    oracle = made("transformer")

    @eqx.filter_jit
    def greedy(oracle: CausalOracle) -> Any:
        def step(state: CausalState, _: None) -> tuple[CausalState, Any]:
            symbols = oracle.next_log_probs(state).argmax(axis=-1).astype(jnp.int32)
            return oracle.push(state, symbols), symbols

        return jax.lax.scan(step, oracle.start(ints(prefixes([[0], [1], [2], [3], [4]], 1))), None, length=N_CELLS - 1)[1].T

    found = np.asarray(greedy(oracle))
    for r in range(ROWS):
        row = [r]
        while len(row) < N_CELLS:
            row.append(int(loops.causal_transformer(oracle.network, np.array(row))[0][-1].argmax()))
        assert found[r].tolist() == row[1:]


@pytest.mark.slow
def test_what_is_kept_for_all_rows_is_two_programs_at_most_and_the_same() -> None:
    """A length that no other test has; operation by operation there were more than twenty."""
    oracle = made("transformer")
    with traced_or_compiled() as events:
        found = causal_oracle(oracle.network, N_CELLS + 5)
    assert programs(events) <= 2
    wanted = CausalOracle(oracle.network, None, N_CELLS + 5)
    assert eqx.tree_equal(found.prepared, wanted.prepared, rtol=1e-12)
    assert len(jax.tree.leaves(found.prepared)) >= 1
