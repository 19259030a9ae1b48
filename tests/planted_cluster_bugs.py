"""Bugs planted in clusters of `percolation`.

Part of the list of `planted_bugs.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from cluster_cases import POTTS
from planted_checks import goes_by_its_matrix
from planting import Bug, around

from gmlmdsl.derive._clusters import ClusterKernel


def _keeps_a_cell(original: Any, self: Any, here: Any, inside: Any, image: Any) -> Any:
    first = inside & (jnp.cumsum(inside, axis=0) == 1)
    return original(self, here, inside & ~first, image)


def _other_signs(original: Any, self: Any, target: Any) -> Any:
    return original(self, target._replace(params={k: -v if k == "J" else v for k, v in target.params.items()}))


CLUSTER_BUGS = (
    Bug(
        "first cell of a cluster not moved",
        "ClusterKernel.moved",
        around(ClusterKernel, "moved", _keeps_a_cell),
        partial(goes_by_its_matrix, POTTS, "clusters"),
    ),
    Bug(
        "bonds with the opposite sign",
        "ClusterKernel.bond_tables",
        around(ClusterKernel, "bond_tables", _other_signs),
        partial(goes_by_its_matrix, POTTS, "clusters"),
    ),
)
