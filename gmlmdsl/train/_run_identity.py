"""What a training run depends on, part by part: checkpoints of another run are refused, and the parts that differ are named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ..fit import Training, measured_every, saved_every
from ._batches import Batches

# Options with no part in the weights, or that stand here in another form: `steps` by way of the
# optimiser, which may depend on them.
SCHEDULE = ("steps", "warmup", "learning_rate", "evaluate_every", "save_every", "average_last")
ELSEWHERE = (*SCHEDULE, "validation", "checkpoint", "resume", "log", "loss", "l2", "regulariser")


def run_identity(
    stated: Mapping[str, Any],
    optimizer: Any,
    scheduled: bool,
    t: Training,
    batches: Batches,
    check: Batches | None,
    state: Any,
    seed: int,
    penalty: str | None = None,
) -> dict[str, str]:
    """By part of a run what it depends on, as text; of arrays the hash.

    `steps` is among them only where something depends on it: another run can be made longer.

    Args:
        stated: what the caller knows: program, inputs, mask.
        optimizer: the optax transformation.
        scheduled: whether it depends on `steps`, as the default one does.
        t: options.
        batches: the rows.
        check: the rows of validation.
        state: the first state: weights and the optimiser's.
        seed: of everything random.
        penalty: what the regulariser computes, see `traced`; None where there is none.
    """
    parts: dict[str, Any] = {**stated, **{k: v for k, v in vars(t).items() if k not in ELSEWHERE}, "seed": int(seed)}
    parts["batch_size"] = batches.size
    parts["optimizer"] = _rule(optimizer, state)
    parts["x, given or weights"] = _hash_of([batches.rows.codes, *batches.rows.given, batches.weights])
    parts["validation"] = None if check is None else _hash_of([check.rows.codes, *check.rows.given])
    parts["evaluate_every"] = None if check is None else measured_every(t)
    # Stated where they are not as they always were, so that runs of the version before go on.
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


def differing(mine: Mapping[str, Any], theirs: Any) -> list[str]:
    """The parts in which two runs differ, their names sorted; none can be told where another version wrote the other one."""
    if not isinstance(theirs, Mapping):
        return []
    return sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))


def _rule(optimizer: Any, state: Any) -> str:
    """The hash of what an optimiser computes, its numbers among it; the addresses of its functions differ from run to run."""
    return traced(lambda w, s: optimizer.update(w, s, w), state.network, state.optimizer)


def traced(function: Callable[..., Any], *arguments: Any) -> str:
    """The hash of what a function of arrays computes, its numbers among it; addresses of functions differ from run to run."""
    found = jax.make_jaxpr(function)(*arguments)
    return _hash_of_text(re.sub(r"0x[0-9a-f]+", "", str(found))) + _hash_of(found.consts)


def _hash_of(arrays: list[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{np.shape(array)} {np.asarray(array).dtype};".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _hash_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)
