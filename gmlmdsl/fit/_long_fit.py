"""Fits that save their state in a folder, and go on from it after they were killed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import numpy as np

from .._diagnostics import fail
from ..data import as_bytes, as_identity, from_bytes, hash_of_arrays, hash_of_computation, hash_of_text
from ..derive import float_type
from ..files import SavedStates, alone, as_path, asked_to_end
from ..graph import Lowered
from ._options import FitOptions

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


class LongFit:
    """The saved states of a fit; without a folder nothing is saved.

    Args:
        states: the states of the folder.
        ends: returns whether a signal asked the process to end.
    """

    def __init__(self, states: SavedStates | None = None, ends: Callable[[], bool] = lambda: False):
        self.states, self.ends = states, ends

    def begun(self, like: Callable[[int], PyTree]) -> tuple[int, PyTree] | None:
        """Return the number of the latest step and its state, or None at the beginning.

        Args:
            like: a function from the number of a step to a state with the same structure, shapes
                and types.
        """
        found = None if self.states is None else self.states.latest()
        return None if found is None else (found[0], from_bytes(found[1], like(found[0])))

    def reached(self, step: int, state: Callable[[], PyTree]) -> None:
        """Save the state after a step if it is due, and end the fit if a signal asked for it."""
        ends = self.ends()
        if self.states is not None and (ends or self.states.is_due):
            self.states.save(step, as_bytes(state()), {})
        if ends:
            raise _Ended


class _Ended(Exception):
    """The state is saved, and the process is to end."""


@contextlib.contextmanager
def long_fit(folder: object, identity: Callable[[], dict[str, str]]) -> Iterator[LongFit]:
    """Provide the saved states of a fit, and remove them when the fit is done.

    SIGTERM and Ctrl-C save the state and then end the process.

    Args:
        folder: the folder, or None.
        identity: returns everything that the fit depends on.

    Raises:
        GmlmError: E560 for a folder that cannot be written, E588 if another run works there, E752
            if it has the state of another fit, E753 if all states are damaged.
    """
    if folder is None:
        yield LongFit()
        return
    place = Path(as_path(folder, "E560"))
    with alone(place), asked_to_end(True) as ends, contextlib.suppress(_Ended):
        states = SavedStates(place, identity())
        yield LongFit(states, ends)
        states.clear()
    with contextlib.suppress(OSError):
        place.rmdir()  # It may have files of the user.


def verify_long(options: FitOptions) -> None:
    """Raise E704 for a folder of states in a fit that cannot be interrupted.

    Raises:
        GmlmError: E704.
    """
    if options.checkpoint is None or options.optimizer is not None:
        return
    if options.method is None and not options.impute:
        message = "`checkpoint=` needs a fit of many calls, and L-BFGS over all rows is one"
        help = 'pass `optimizer=`, `method="pcd"` or `method="mcem"`; or leave it out'
        raise fail("E704", message, help=help)


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
