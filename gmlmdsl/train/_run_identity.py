"""The identity of a training run: everything that it depends on, part by part.

Restoring a checkpoint of another run raises an error that names the differing parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._types import ArrayLike
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
        penalty: the hash of the regulariser's computation, see `traced`; None without a
            regulariser.
    """
    parts: dict[str, object] = {**stated, **{k: v for k, v in vars(t).items() if k not in ELSEWHERE}, "seed": int(seed)}
    parts["batch_size"] = batches.size
    parts["optimizer"] = _rule(optimizer, state)
    parts["x, given or weights"] = _hash_of([batches.rows.codes, *batches.rows.given, batches.weights])
    parts["validation"] = None if check is None else _hash_of([check.rows.codes, *check.rows.given])
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
    parts["first weights"] = _hash_of(jax.tree.leaves(state.network)) + _hash_of_text(" ".join(shapes))
    return {k: json.dumps(v, default=_plain, sort_keys=True) for k, v in parts.items()}


def differing(mine: Mapping[str, object], theirs: object) -> list[str]:
    """Return the sorted names of the parts in which two runs differ.

    The list is empty if another version wrote the other run, since its parts are not known.
    """
    if not isinstance(theirs, Mapping):
        return []
    return sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))


def _rule(optimizer: Any, state: PyTree) -> str:
    """Return the hash of an optimiser's computation, see `traced`."""
    return traced(lambda w, s: optimizer.update(w, s, w), state.network, state.optimizer)


def traced(function: Callable[..., PyTree], *arguments: PyTree) -> str:
    """Return the hash of the computation of a function of arrays, including its constants.

    Addresses of functions differ between processes and are left out.
    """
    found = jax.make_jaxpr(function)(*arguments)
    return _hash_of_text(re.sub(r"0x[0-9a-f]+", "", str(found))) + _hash_of(found.consts)


def _hash_of(arrays: list[ArrayLike]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{np.shape(array)} {np.asarray(array).dtype};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _hash_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
