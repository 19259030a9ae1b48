"""What stands for data where programs are compiled ahead: only its shape matters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import counted
from ..data import decode, generator
from ..evaluate import init_params
from ..graph import FactorGraph
from ..plan import verify_held
from ..sample import starts

FEW = 64  # rows that are looked for where most random ones are impossible


def random_rows(graph: FactorGraph, rows: int) -> dict[str, Any]:
    """Uniform configurations by variable, latents left out; where some are impossible, copies of a few possible ones take their place."""
    verify_held(4 * rows * graph.n_cells, f"{rows:,} random rows of {counted(graph.n_cells, 'cell')}", "fewer `rows=`")
    params = {k: jnp.asarray(v) for k, v in init_params(graph).items()}
    codes = generator(0).integers(0, graph.sizes[:, None], (graph.n_cells, rows), dtype=np.int32)
    bad = ~(np.asarray(derive.compiled.log_potential(derive.graph_arrays(graph), params, jnp.asarray(codes))) > -np.inf)
    if bad.any():
        nothing_held = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, np.int32)
        possible = starts(graph, FEW, 0, None, nothing_held, params).codes
        codes[:, bad] = possible[:, np.arange(bad.sum()) % FEW]
    latents = {v.name for v in graph.latents}
    return {name: values for name, values in decode(graph, codes, (rows,)).items() if name not in latents}
