"""The identity of a training run: everything that it depends on, part by part.

Restoring a checkpoint of another run raises an error that names the differing parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax

from ..data import as_identity, hash_of_arrays, hash_of_computation, hash_of_text
from ..fit import Training, measured_every, saved_every
from ._batches import Batches

if TYPE_CHECKING:
    from jaxtyping import PyTree

# Options that do not affect the weights, or that enter in another form: `steps` enters by way of
# the optimiser, which may depend on it.
SCHEDULE = ("steps", "warmup", "learning_rate", "evaluate_every", "save_every", "average_last")
ELSEWHERE = (*SCHEDULE, "validation", "checkpoint", "resume", "log", "loss", "l2", "regulariser", "callback")


def run_identity(
    stated: Mapping[str, object],
    optimizer: Any,
    scheduled: bool,
    t: Training,
    batches: Batches,
    check: Batches | None,
    state: PyTree,
    seed: int,
    penalty: str | None = None,
) -> dict[str, str]:
    """Return everything that a run depends on, by part, as text; arrays enter by their hash.

    `steps` is a part only if something depends on it; any other run can be extended.

    Args:
        stated: parts that the caller states: program, inputs, mask.
        optimizer: the optax transformation.
        scheduled: whether the optimiser depends on `steps`, as the default one does.
        t: the options.
        batches: the rows.
        check: the rows of validation.
        state: the first state: the weights and the state of the optimiser.
        seed: the seed of all random numbers.
        penalty: the hash of the regulariser's computation, see `hash_of_computation`; None without a
            regulariser.
    """
    parts: dict[str, object] = {**stated, **{k: v for k, v in vars(t).items() if k not in ELSEWHERE}, "seed": int(seed)}
    parts["batch_size"] = batches.size
    parts["optimizer"] = _rule(optimizer, state)
    parts["x, given or weights"] = hash_of_arrays([batches.rows.codes, *batches.rows.given, batches.weights])
    parts["validation"] = None if check is None else hash_of_arrays([check.rows.codes, *check.rows.given])
    parts["evaluate_every"] = None if check is None else measured_every(t)
    # These parts are stated only if they differ from the fixed values of earlier versions, so that
    # runs of earlier versions can be resumed.
    parts |= {name: value for name, value, plain in (("loss", t.loss, "cross_entropy"), ("l2", t.l2, 0)) if value != plain}
    if penalty is not None:
        parts["regulariser"] = penalty
    if scheduled or t.average_last is not None:
        parts["steps"] = t.steps
    if t.average_last is not None:
        parts |= {"average_last": t.average_last, "save_every": saved_every(t)}
    shapes = [f"{jax.tree_util.keystr(p)} {x.shape} {x.dtype}" for p, x in jax.tree_util.tree_flatten_with_path(state.network)[0]]
    parts["first weights"] = hash_of_arrays(jax.tree.leaves(state.network)) + hash_of_text(" ".join(shapes))
    return as_identity(parts)


def _rule(optimizer: Any, state: PyTree) -> str:
    """Return the hash of an optimiser's computation, see `hash_of_computation`."""
    return hash_of_computation(lambda w, s: optimizer.update(w, s, w), state.network, state.optimizer)
