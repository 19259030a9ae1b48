"""Bugs planted in sweeps of packed chains.

Part of the list of `planted_bugs.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from packed_cases import SIGNS, TWO
from planted_checks import moves_by_its_row, stays_in_p
from planting import Bug, around

from gmlmdsl.derive import _packed_sweep, _samplers
from gmlmdsl.derive._packed_sweep import ALL, PackedSweepKernel


def _shifted(original: Any, self: Any, turn: Any, words: Any) -> Any:
    return original(self, turn, [jnp.roll(w, 1, axis=0) for w in words])


def _last_turn_skipped(original: Any, self: Any, target: Any, keys: Any, stage: Any, held: Any) -> Any:
    return original(self, target, keys, jax.tree.map(lambda a: a[:-1], stage), held)


def _one_digit_for_all_lanes(original: Any, *a: Any) -> Any:
    return tuple(jnp.where(w & 1 == 1, jnp.uint32(ALL), jnp.uint32(0)) for w in original(*a))


PACKED_BUGS = (
    Bug(
        "packed words that share random bits",
        "hashed",
        around(_packed_sweep, "hashed", lambda f, *a: (f(*a)[0],) * 2),
        partial(stays_in_p, TWO, "sweep"),
    ),
    Bug(
        "packed chains that share random bits",
        "hashed",
        around(_packed_sweep, "hashed", _one_digit_for_all_lanes),
        partial(moves_by_its_row, TWO, "sweep"),
    ),
    Bug(
        "packed neighbours shifted by one cell",
        "PackedSweepKernel.combined",
        around(PackedSweepKernel, "combined", _shifted),
        partial(stays_in_p, TWO, "sweep"),
    ),
    Bug(
        "colour of packed chains skipped",
        "PackedSweepKernel.swept",
        around(PackedSweepKernel, "swept", _last_turn_skipped),
        partial(moves_by_its_row, TWO, "sweep"),
    ),
    Bug(
        "probabilities of packed chains computed from other parameters",
        "_packing",
        around(_samplers, "_packing", lambda f, graph, kernel, entries: f(graph, kernel, 0.8 * entries)),
        partial(stays_in_p, SIGNS, "sweep"),
    ),
)
