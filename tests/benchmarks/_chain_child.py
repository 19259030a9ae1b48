"""One of the chains in a process of its own: `python -m benchmarks._chain_child KIND fit|warm SIZE=NUMBER ..`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

import gmlmdsl as gm

from ._chain_models import MAKE, Chains
from ._measure import in_turn

REPEATS = 15
STEPS = 20  # the most of a first fit: compilation is what it waits for


def _fit(chains: Chains) -> dict[str, Any]:
    """Processor seconds of a first fit, from text; the imports are left out."""
    gm.Model  # noqa: B018 - loads JAX
    spent = time.process_time()
    model = gm.parse(chains.program, **chains.inputs).model()
    fit = model.fit(chains.x, mask="whole", given=chains.given, progress=False, max_steps=STEPS)
    return {"fit": time.process_time() - spent, "steps": len(fit.loss_trace)}


def _warm(chains: Chains) -> dict[str, Any]:
    """Seconds of values and gradients in float64, as a fit asks for them, in turn; and what they are."""
    import jax
    import jax.numpy as jnp

    _fit(chains)  # fills the cache
    model = gm.parse(chains.program, **chains.inputs).model()
    with jax.enable_x64(True):
        at = {k: jnp.asarray(v) for k, v in chains.params.items()}
        ours = jax.jit(jax.value_and_grad(lambda p: model.loss(chains.constrained(p), chains.x, "whole", given=chains.given)))
        theirs = jax.jit(jax.value_and_grad(lambda p: chains.by_hand(chains.constrained(p))))
        calls = {"gmlmdsl Model.loss": lambda: jax.block_until_ready(ours(at)), "by hand": lambda: jax.block_until_ready(theirs(at))}
        (value, slope), (expected, steep) = (call() for call in calls.values())
        times = in_turn(calls, REPEATS)
    apart = max(float(np.abs(slope[k] - steep[k]).max()) for k in at)
    return {"times": times, "found": {"value": (float(value), float(expected)), "largest gap of slopes": (apart, 0.0)}}


if __name__ == "__main__":
    sizes = {name: int(number) for name, number in (word.split("=") for word in sys.argv[3:])}
    print(json.dumps((_fit if sys.argv[2] == "fit" else _warm)(MAKE[sys.argv[1]](**sizes))))
