"""Fits and other runs that save their state in a folder, and resume from it if they were killed."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import jax
import numpy as np

from .._types import JsonObject
from ..data import as_bytes, as_identity, from_bytes, hash_of_arrays, hash_of_computation, hash_of_text
from ..derive import Spread, fetched, float_type, of_all, of_first, on_device
from ..files import SavedStates, alone, as_path, asked_to_end
from ..graph import Lowered
from ._options import Evidence, FitOptions, row_weights

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray
Leaves = list[Array]
T = TypeVar("T")


class LongFit:
    """The saved states of a run; without a folder nothing is saved.

    A run either has one state that is saved now and then (`begun`, `reached`), or consists of
    parts, one after another (`part`).

    Args:
        states: the states of the folder. It is None if nothing is saved, and in processes that do
            not write.
        ends: returns whether a signal asked the process to end.
        several: whether several processes run together, of which only the first one writes.
    """

    def __init__(self, states: SavedStates | None = None, ends: Callable[[], bool] = lambda: False, several: bool = False):
        self.states, self.ends, self.several, self.saves = states, ends, several, several or states is not None
        self.finished: list[Leaves] | None = None
        self.unfinished: Leaves | None = None
        self.place = self.step = 0

    def begun(self, like: Callable[[int], PyTree]) -> tuple[int, PyTree] | None:
        """Return the number of the latest step and its state, or None at the beginning.

        Args:
            like: a function from the number of a step to a state with the same structure, shapes
                and types.
        """
        found = self._latest()
        return None if found is None else (found[0], from_bytes(found[1], like(found[0])))

    def reached(self, step: int, state: Callable[[], PyTree], notes: Callable[[], JsonObject] = dict) -> None:
        """Save the state after a step if it is due, and end the run if a signal asked for it."""
        ends = self.ends()
        if self.states is not None and (ends or self.states.is_due):
            self.states.save(step, as_bytes(state()), notes())
        if ends:
            raise _Ended

    def part(self, work: Callable[[Leaves | None, Callable[[Callable[[], PyTree]], None]], T], like: T) -> T:
        """Return the result of the next part of the run, which is not computed if it is saved.

        Args:
            work: a function that computes the result. Its first argument is the state of the part
                when an earlier run ended, as a list of arrays, or None. Its second argument is a
                function that saves such a state if it is due; it takes a function without arguments
                that returns the state.
            like: a tree with the structure of the result. Saved arrays are put on the device if the
                tree has JAX arrays in their places.
        """
        if not self.saves:
            return work(None, lambda _: None)
        finished = self.resumed()
        if self.place == len(finished):
            result = work(self.unfinished, self.reached_within)
            self.unfinished = None
            finished.append(_leaves(result))
            self.reached_within(None)
        else:
            result = restored(finished[self.place], like)
        self.place += 1
        return result

    def resumed(self) -> list[Leaves]:
        """Return the finished parts, after reading those that an earlier run saved."""
        if self.finished is None:
            found, parts = self._latest(), []
            if found is not None:
                self.step, data, notes = found
                parts = list(from_bytes(data, [[np.empty(*a) for a in part] for part in notes["parts"]]))
                self.unfinished = parts.pop() if notes["unfinished"] else None
            self.finished = parts
        return self.finished

    def reached_within(self, state: Callable[[], PyTree] | None) -> None:
        """Save the finished parts, and the state of an unfinished one, if that is due."""
        parts = functools.cache(lambda: [*(self.finished or []), *([] if state is None else [_leaves(state())])])
        self.step += 1
        self.reached(
            self.step,
            parts,
            lambda: {"parts": [[[a.shape, a.dtype.str] for a in part] for part in parts()], "unfinished": state is not None},
        )

    def agreed(self, number: int) -> int:
        """Return the number of the first process, in all processes that run together."""
        return of_all(number)[0] if self.several else number

    def _latest(self) -> tuple[int, bytes, JsonObject] | None:
        found = None if self.states is None else self.states.latest()
        if not self.several:
            return found
        sent = b"" if found is None else json.dumps([found[0], found[2]]).encode() + b"\n" + found[1]
        head, _, data = of_first(sent).partition(b"\n")
        if not head:
            return None
        step, notes = json.loads(head)
        return step, data, notes


def restored(leaves: Leaves, like: T) -> T:
    """Return saved arrays as a tree, on the device where `like` has JAX arrays."""

    def placed(a: Array, b: object) -> object:
        if not isinstance(b, jax.Array):
            return a
        return jax.random.wrap_key_data(on_device(a), impl=jax.random.key_impl(b)) if _is_key(b) else on_device(a)

    found, structure = jax.tree.flatten(like)
    return jax.tree.unflatten(structure, list(map(placed, leaves, found)))


def _leaves(tree: PyTree) -> Leaves:
    return [np.asarray(fetched(jax.random.key_data(a) if _is_key(a) else a)) for a in jax.tree.leaves(tree)]


def _is_key(a: object) -> bool:
    return isinstance(a, jax.Array) and jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key)


class _Ended(Exception):
    """The state is saved, and the process is to end."""


@contextlib.contextmanager
def long_fit(folder: object, identity: Callable[[], dict[str, str]], spread: Spread | None = None) -> Iterator[LongFit]:
    """Provide the saved states of a run, and remove them when the run is done.

    SIGTERM and Ctrl-C save the state and then end the process.

    Args:
        folder: the folder, or None.
        identity: returns everything that the run depends on.
        spread: the axis of a mesh over which the run is spread, or None. Of several processes, only
            the first one uses the folder.

    Raises:
        GmlmError: E560 for a folder that cannot be written. E588 if another run works there. E752
            if the folder has the state of another run. E753 if all states are damaged.
    """
    if folder is None:
        yield LongFit()
        return
    place, several = Path(as_path(folder, "E560")), spread is not None and spread.several
    writes = spread is None or spread.writes
    locked = alone(place) if writes else contextlib.nullcontext()
    with locked, asked_to_end(True, of_all if several else None) as ends, contextlib.suppress(_Ended):
        states = SavedStates(place, identity()) if writes else None
        yield LongFit(states, ends, several)
        if states is not None:
            states.clear()
    if writes:
        with contextlib.suppress(OSError):
            place.rmdir()  # It may have files of the user.


def fit_identity(lowered: Lowered, codes: Array, weights: Array, start: PyTree, options: FitOptions) -> dict[str, str]:
    """Return everything that a fit depends on, by part.

    Args:
        lowered: the model.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        start: the starting values of all parameters.
        options: the options of the fit.
    """
    texts = "\0".join(f"{s.path}\0{s.text}" for s in lowered.bound.program.sources)
    given = () if lowered.data is None else lowered.data.arrays.values()
    optimizer = options.optimizer or getattr(options.method, "optimizer", None)
    method = {k: v for k, v in vars(options.method).items() if k != "optimizer"} if options.method else {}
    names = "mask", "seed", "n_masks", "batch_size", "max_steps", "impute", "weights_are", "gaps"
    parts: dict[str, object] = {k: getattr(options, k) for k in names}
    parts |= {"program": hash_of_text(texts), "inputs": dict(lowered.bound.inputs)}
    parts |= {"model": lowered.names.model.name, "x": hash_of_arrays([codes])}
    parts |= {"weights": hash_of_arrays([weights]), "given": hash_of_arrays(given)}
    parts |= {"init": hash_of_arrays(jax.tree.leaves(start)), "fixed": sorted(options.fixed or {})}
    parts |= {"method": [type(options.method).__name__, method], "precision": str(float_type())}
    if optimizer is not None:
        free = {k: jax.numpy.asarray(v) for k, v in start.items()}
        rule = hash_of_computation(lambda w, s: optimizer.update(w, s, w), free, optimizer.init(free))
        parts["optimizer (with its learning rate and schedule)"] = rule
    return as_identity(parts)


def evidence_identity(evidence: Evidence, start: PyTree, options: Mapping[str, object], arrays: Iterable[object] = ()) -> dict[str, str]:
    """Return everything that a computation beside a fit depends on, by part.

    Args:
        evidence: the data of the fit, and its options.
        start: the parameters at which the computation starts.
        options: its own options.
        arrays: further arrays on which it depends; other objects do not count.
    """
    known = fit_identity(evidence.lowered, evidence.codes, row_weights(evidence), start, evidence.options)
    own = {k: v for k, v in options.items() if k not in ("progress", "checkpoint")}
    numbers = hash_of_arrays(a for a in arrays if isinstance(a, jax.Array | np.ndarray))
    return known | as_identity({**own, "numbers": numbers})
