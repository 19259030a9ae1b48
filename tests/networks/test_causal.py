"""Causal networks cell by cell: the loops of the oracle, and what a cache keeps."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from network_cases import N_CELLS, ints, network, one_pass
from oracle import _networks as oracle
from thinned import thinned

ROW = np.array([3, 0, 2, 4, 4, 1, 2, 4])
SOURCE = (("s", 6, 5),)
FORMS = [("transformer", ()), ("encoder_decoder", SOURCE)]
pytestmark = pytest.mark.usefixtures("float64")


def made(name: str, given: tuple = ()):
    return network(name, {"causal": True}, given, seed=1)


def encoded_of(net, given: tuple):
    return net.encode(tuple(ints([1, 0, 4, 4, 2, 3]) for _ in given), tuple(ints(5) for _ in given))


def test_a_causal_transformer_computes_what_t5_describes() -> None:
    """Each prefix is computed on its own, so that no cell sees one behind it."""
    net = made("transformer")
    _, logits = one_pass(net, (), (), ints(ROW), ints(N_CELLS))
    np.testing.assert_allclose(logits, oracle.causal_transformer(net, ROW)[0][:-1], rtol=1e-10, atol=1e-10)


@eqx.filter_jit
def entered(net, encoded, pieces):
    """Final states of all cells, entered in pieces."""
    n = sum(len(p) for p in pieces)
    prepared, cache, t, found = net.prepare(encoded, ints(n), n), net.begin(n), 0, []
    for piece in pieces:
        states, cache = net.enter(encoded, prepared, cache, piece, ints(t))
        found.append(states)
        t += len(piece)
    return jnp.concatenate(found), net.read(jnp.concatenate(found))


@pytest.mark.parametrize("sizes", thinned([pytest.param(s) for s in ((1,) * (N_CELLS + 1), (N_CELLS + 1,), (4, 1, 1, 3))], 3, 2))
def test_cells_may_enter_one_by_one_or_many_at_once(sizes: tuple[int, ...]) -> None:
    net = made("transformer")
    previous = np.concatenate([[0], ROW])  # the first is of no meaning
    pieces = [ints(p) for p in np.split(previous, np.cumsum(sizes)[:-1])]
    states, logits = entered(net, None, pieces)
    wanted = oracle.causal_transformer(net, ROW)
    np.testing.assert_allclose(logits, wanted[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(states, wanted[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "given"), thinned(FORMS, 2, 1))
def test_what_stands_in_a_cache_behind_a_cell_is_never_read(name: str, given: tuple) -> None:
    """To go back is to enter at a lower cell: other symbols were there before, in every layer."""
    net, n = made(name, given), N_CELLS

    @eqx.filter_jit
    def again(net, first, second, back):
        encoded = encoded_of(net, given)
        prepared = net.prepare(encoded, ints(n), n)
        _, cache = net.enter(encoded, prepared, net.begin(n), first, ints(0))
        return net.read(net.enter(encoded, prepared, cache, second, back)[0])

    first, second = ints([0, 4, 4, 4, 4, 4, 4, 4]), ints(ROW[2:5])
    mixed = np.concatenate([np.asarray(first[1:4]), ROW[2:5]])  # cells 0..2 stay, 3.. are new; cell 2 enters again as it was
    found = again(net, first, jnp.concatenate([first[3:4], second]), ints(3))
    _, whole = one_pass(net, tuple(ints([1, 0, 4, 4, 2, 3]) for _ in given), tuple(ints(5) for _ in given), ints(mixed), ints(len(mixed)))
    np.testing.assert_allclose(found[:3], whole[3:], rtol=1e-10, atol=1e-10)
