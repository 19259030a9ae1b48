"""Checkpoints of long runs: Orbax writes them, and a manifest of hashes identifies complete ones.

A checkpoint without its manifest was interrupted while it was written, and does not count. A
checkpoint whose files do not match its manifest is damaged, and restoring it raises an error. A
folder belongs to one run: each manifest contains everything that the run depends on.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import GmlmError, GmlmWarning, fail, tell
from .._optional import need
from .._types import JsonObject
from ..data import as_identity, hash_of_arrays, hash_of_computation, hash_of_text
from ..derive import Spread, fetched, of_first, on_device
from ..files import differing, reading, write_whole
from ..fit import Training, measured_every, saved_every
from ._batches import Batches
from .limits import KEPT_CHECKPOINTS, MOST_MANIFEST

if TYPE_CHECKING:
    from jaxtyping import PyTree

WRITTEN = re.compile(r"(\d+)(\.orbax-checkpoint-tmp.*)?")  # Folders that Orbax creates.
MANIFEST = re.compile(r"([0-9]{1,18})\.manifest\.json")
# A manifest before it is renamed to its final name.
UNNAMED = re.compile(r"\.\d+\.manifest\.json\..*")
# Options that do not affect the weights, or that enter in another form: `steps` enters by way of
# the optimiser, which may depend on it.
SCHEDULE = ("steps", "warmup", "learning_rate", "evaluate_every", "save_every", "average_last")
ELSEWHERE = (*SCHEDULE, "validation", "checkpoint", "resume", "log", "loss", "l2", "regulariser", "callback")


class Checkpoints:
    """The checkpoints of one run in one folder.

    Args:
        folder: the folder of the checkpoints, which is created.
        identity: everything that the run depends on, by part. Restoring a checkpoint of another run
            raises an error.
        spread: the axis of a mesh over which the run is spread, or None. Of several processes only
            the first one uses the folder, and the others start from what it restores.
    """

    def __init__(self, folder: str | Path, identity: Mapping[str, str], spread: Spread | None = None):
        self.folder, self.identity, self.spread = Path(folder).absolute(), dict(identity), spread
        self.writes = spread is None or spread.writes
        self.ocp = need("orbax.checkpoint", "checkpoints need orbax-checkpoint", '"gmlmdsl[train]"')
        if not self.writes:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise fail("E560", f"cannot write `{self.folder}`: {error.strerror or error}") from None

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, ascending."""
        return sorted(int(found[1]) for p in self.folder.iterdir() if (found := MANIFEST.fullmatch(p.name)))

    def save(self, step: int, state: PyTree, notes: JsonObject) -> None:
        """Write a checkpoint, then its manifest; then remove older checkpoints.

        Raises:
            GmlmError: E560 if the checkpoint cannot be written; the earlier ones stay.
        """
        if self.spread is not None:
            state = jax.tree.map(fetched, state)
        if not self.writes:
            return
        place = self._place(step)
        try:
            if place.exists():
                shutil.rmtree(place)
            with self._checkpointer() as writer:
                writer.save(place, state)
                writer.wait_until_finished()
            manifest = {"step": step, "run": self.identity, "files": _hashes(place), "notes": notes}
            write_whole(self._manifest(step), json.dumps(manifest | {"sha256": _hash_of(manifest)}).encode())
        except (OSError, ValueError) as error:  # TensorStore raises ValueError with the system's words at its end.
            if isinstance(error, ValueError) and "[os_error_code" not in str(error):
                raise
            why = getattr(error, "strerror", None) or str(error).split(" [os_error_code")[0].rsplit(": ")[-1]
            raise fail("E560", f"cannot write the checkpoint `{place}`: {why}", help="make the same call to go on") from None
        self._tidy()

    def _tidy(self) -> None:
        """Remove all but the latest checkpoints, and the partial files of killed runs.

        Manifests are removed first.
        """
        for step in self.steps()[:-KEPT_CHECKPOINTS]:
            self._manifest(step).unlink(missing_ok=True)
        whole = self.steps()
        for path in self.folder.iterdir():
            found = WRITTEN.fullmatch(path.name)
            if found and path.is_dir() and (found[2] or int(found[1]) not in whole):
                shutil.rmtree(path, ignore_errors=True)
            elif UNNAMED.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def restore(self, like: PyTree) -> tuple[int, PyTree, JsonObject] | None:
        """Return step, state and notes of the latest complete checkpoint, or None if there is none.

        A damaged checkpoint is passed over with a warning if there is another.

        Raises:
            GmlmError: E752 if the folder contains another run, E753 if all are damaged.
        """
        if self.spread is None or not self.spread.several:
            return self._restored(like)
        from jax.experimental.multihost_utils import broadcast_one_to_all

        empty = [np.zeros(a.shape, a.dtype) for a in like]
        step, leaves, notes = (self._restored(empty) if self.writes else None) or (0, empty, {})
        step, notes = json.loads(of_first(json.dumps([step, notes]).encode()))
        return (step, [on_device(fetched(a)) for a in broadcast_one_to_all(leaves)], notes) if step else None

    def _restored(self, like: PyTree) -> tuple[int, PyTree, JsonObject] | None:
        damaged = None
        for step in reversed(self.steps()):
            try:
                found = self._of_step(step, like)
            except GmlmError as error:
                if "E753" not in error.codes:
                    raise
                damaged = damaged or error
                continue
            if damaged is not None:
                tell(f"{damaged.diagnostics[0].message}; the run goes on from step {step}, before it", GmlmWarning)
            return found
        if damaged is not None:
            raise damaged
        return None

    def _of_step(self, step: int, like: PyTree) -> tuple[int, PyTree, JsonObject]:
        try:
            with reading(self._manifest(step), piped=False), self._manifest(step).open("rb") as file:
                manifest = json.loads(file.read(MOST_MANIFEST).decode("utf-8"))
            whole = manifest.pop("sha256") == _hash_of(manifest)
        except (GmlmError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged(step, "its manifest cannot be read") from None
        if not whole:
            raise self._damaged(step, "its manifest does not match its own hash")
        if manifest.get("step") != step or not all(isinstance(manifest.get(k), dict) for k in ("files", "notes")):
            raise self._damaged(step, "its manifest is that of something else")
        if manifest.get("run") != self.identity:
            raise self._another(differing(self.identity, manifest.get("run")))
        files, here = manifest["files"], _hashes(self._place(step)) if self._place(step).is_dir() else {}
        if here != files:
            wrong = sorted(k for k in {*files, *here} if files.get(k) != here.get(k))
            raise self._damaged(step, f"`{wrong[0]}` does not match its hash")
        with self._checkpointer() as reader:
            state = reader.restore(self._place(step), like)
        return step, state, manifest["notes"]

    def _checkpointer(self) -> Any:
        """Return Orbax's checkpointer, which must not wait for processes that do not write."""
        if self.spread is None or not self.spread.several:
            return self.ocp.StandardCheckpointer()
        alone = self.ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}, barrier_sync_key_prefix="gmlmdsl")
        return self.ocp.StandardCheckpointer(multiprocessing_options=alone)

    def clear(self) -> None:
        """Remove all checkpoints of the folder."""
        if not self.writes:
            return
        for step in self.steps():
            self._manifest(step).unlink()
            shutil.rmtree(self._place(step), ignore_errors=True)

    def _another(self, parts: list[str]) -> GmlmError:
        shown = ["optimizer (with its learning rate and schedule)" if p == "optimizer" else p for p in parts]
        named = f"these differ: {', '.join(shown)}" if parts else "another version of gmlmdsl wrote it"
        help = "take another folder for this run, or pass `resume=False` to begin it anew here"
        if "steps" in parts:
            help += "; to make a run longer, give it an `optimizer` whose schedule does not depend on `steps`, and no `average_last`"
        return fail("E752", f"`{self.folder}` holds checkpoints of another run; {named}", help=help)

    def _damaged(self, step: int, why: str) -> GmlmError:
        help = "remove the folder, or pass `resume=False`, to begin the run anew"
        return fail("E753", f"the checkpoint of step {step} in `{self.folder}` is damaged: {why}", help=help)

    def _place(self, step: int) -> Path:
        return self.folder / str(step)

    def _manifest(self, step: int) -> Path:
        return self.folder / f"{step}.manifest.json"


def _hash_of(manifest: JsonObject) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 hash of every file below a folder, by its path relative to the folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


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
    parts["optimizer"] = hash_of_computation(lambda w, s: optimizer.update(w, s, w), state.network, state.optimizer)
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
