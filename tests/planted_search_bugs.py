"""Bugs planted in causal networks and decoding cell by cell. Part of the list of `planted_bugs.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from autoregressive_cases import PROGRAM, SOURCES, N, mass, next_values, searched, weights
from planting import Bug, Found, around, error

import gmlmdsl as gm
from gmlmdsl.derive import BeamSearch
from gmlmdsl.derive._autoregressive import NetworkPrefixes
from gmlmdsl.networks import _causal, _transformer


def law_sums_to(total: float) -> Found:
    """The sum of p over all rows."""
    with jax.enable_x64(True):
        return error(mass(), total)


def search_is_right(sampler: str, beam: int, penalty: float, clamp: Any = None, end: int | None = 1) -> Found:
    """Scores of the rows that are found, beside beam search in plain Python; with held cells beside log p of the free ones."""
    with jax.enable_x64(True):
        model = gm.parse(PROGRAM).model()
        found = model.decode(weights(), sampler, given={"src": SOURCES}, missing=-1, clamp=clamp)
        if clamp is None:
            expected = [[p for p, _ in searched(next_values()[r], end, beam, penalty)] for r in range(len(SOURCES))]
            return error(found.score, expected)
        held, expected = clamp["x"], []
        for r, row in enumerate(found.tokens[:, 0].tolist()):
            free = [i for i in range(N) if i not in held and row[i] >= 0]
            expected.append(sum(next_values()[r][tuple(row[:i])][row[i]] for i in free) / len(free) ** penalty)
        return error(found.score[:, 0], expected)


def _behind_seen(original: Any, self: Any, encoded: Any, length: Any, n: int) -> Any:
    prepared = original(self, encoded, length, n)
    return _causal.Prepared(jnp.maximum(prepared.bias, -10.0), ())


def _own_cell_seen(original: Any, self: Any, encoded: Any, prepared: Any, seen: Any, length: Any, key: Any) -> Any:
    return original(self, encoded, prepared, jnp.concatenate([seen[1:], seen[:1]]), length, key)


def _by_rows(original: Any, self: Any, task: Any, at: Any, tokens: Any, log_p: Any, ended: Any) -> Any:
    return original(self, task._replace(free=jnp.ones_like(task.free)), at, tokens, log_p, ended)


def _all_free(original: Any, self: Any, task: Any, at: Any, logits: Any) -> Any:
    found = original(self, task, at, logits)
    paid = original(self, task._replace(free=jnp.ones_like(task.free)), at, logits)
    return found._replace(log_p=paid.log_p)


SEARCH_BUGS: tuple[Bug, ...] = (
    Bug(
        "later cells seen",
        "CausalEncoderDecoder.prepare",
        around(_causal.CausalEncoderDecoder, "prepare", _behind_seen),
        partial(law_sums_to, 1.0),
    ),
    Bug(
        "a cell sees itself",
        "CausalEncoderDecoder.states",
        around(_causal.CausalEncoderDecoder, "states", _own_cell_seen),
        partial(law_sums_to, 1.0),
    ),
    Bug(
        "keys and values stored one place too early",
        "DecoderBlock.advance",
        around(_transformer.DecoderBlock, "advance", lambda f, self, x, t, *rest: f(self, x, jnp.maximum(t - 1, 0), *rest)),
        partial(search_is_right, "greedy", 1, 1.0),
    ),
    Bug(
        "beams keep the cache of another beam",
        "NetworkPrefixes.reordered",
        around(NetworkPrefixes, "reordered", lambda f, self, cache, beams: cache),
        partial(search_is_right, "wide", 3, 1.0, end=None),
    ),
    Bug(
        "clamped cells counted in the length of a row",
        "BeamSearch._set_aside",
        around(BeamSearch, "_set_aside", _by_rows),
        partial(search_is_right, "greedy", 1, 1.0, {"x": {0: 2, 1: 0}}),
    ),
    Bug(
        "log p of clamped cells added to the score",
        "BeamSearch.continuations",
        around(BeamSearch, "continuations", _all_free),
        partial(search_is_right, "greedy", 1, 1.0, {"x": {0: 2, 1: 0}}),
    ),
)
