"""A mask that draws blocks of which some have a factor inside and some have none: draws, plans and losses of drawn masks."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from oracle import Oracle

import gmlmdsl as gm

MODEL = "model m { var x[i in range(5)] : range(3)  factor 0.5 * x[0] * (x[1] == 1)  factor 0.25 * x[2] }\n"
BLOCKS = {
    "no factor and one cell": "{x[2], x[3]}, {x[4]}",
    "a factor, none, one cell": "{x[0], x[1]}, {x[2], x[3], x[4]}, {x[0]}",
    "none anywhere": "{x[2], x[3], x[4]}, {x[0], x[2]}",
}


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_blocks_with_and_without_factors_are_drawn_whole(blocks: str) -> None:
    """Every step of a chain is one that its matrix allows, and states are entered as often as the matrix says."""
    program = gm.parse(f"{MODEL}mask k = blocks({blocks})\nsampler s {{ update K where K ~ k }}")
    oracle = Oracle(program.checked, "m", {})
    idata = program.model().sample({}, sampler="s", draws=1500, warmup=0, chains=4, seed=1, progress=False)
    codes = np.asarray(idata.posterior["x"])
    numbers = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(codes, -1, 0)), (3,) * 5))
    before, after = numbers[:, :-1].ravel(), numbers[:, 1:].ravel()
    matrix = oracle.transition_matrix({}, "s")
    visits, count = np.bincount(before, minlength=243), np.bincount(after, minlength=243)
    assert (matrix[before, after] > 0).all()
    wanted, variance = visits @ matrix, visits @ (matrix * (1 - matrix))
    often = variance >= 5
    assert np.abs((count - wanted)[often] / np.sqrt(variance[often])).max() < 5.5


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_losses_of_drawn_masks_score_whole_blocks(blocks: str) -> None:
    program = gm.parse(f"{MODEL}mask k = blocks({blocks})")
    oracle, model = Oracle(program.checked, "m", {}), program.model()
    row = np.array([[2, 1, 0, 2, 1]])
    many = model.loss({}, np.repeat(row, 4000, axis=0), mask="k", key=jax.random.key(0), n_masks=1)
    table = oracle.mask_table({}, "k")
    terms = [-float(oracle.log_conditional({}, row, k)[(0, *row[0][sorted(k)])]) for k in table]
    spread = np.std(terms) / np.sqrt(4000)
    assert abs(float(many) - np.mean(terms)) < 5 * spread + 1e-5
