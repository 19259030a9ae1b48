"""Load a saved fit together with its program."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from ._compile import BoundProgram
from ._diagnostics import GmlmError, fail
from .files import opened
from .program import checked_texts

if TYPE_CHECKING:
    from .fit import SavedFit
    from .model import Fit, Model
    from .train import NetworkFit


def load_fit(path: str | Path | IO[bytes], *, allow_python: bool = False) -> Fit | NetworkFit:
    """Load a fit and its program from a file; no code runs unless `allow_python` permits a class.

    Args:
        path: the path of the file, or the file opened for reading bytes.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.

    Raises:
        GmlmError: if the file is missing, damaged or not a fit; E739 if its network is a Python
            class that is not allowed.
    """
    from .fit import fit_from_file, read_fit
    from .model import Fit

    with opened(path, "a fit is one file, which `fit.save` writes") as file:
        saved = read_fit(file, path if isinstance(path, str | Path) else "the file")
        model = _model_of(saved, allow_python)
        saved.meta["inputs"] = dict(model.program.bound.inputs)
        if model.graph.network is not None:
            from .train import network_fit_from_file

            return network_fit_from_file(saved, model.graph, lambda: model)
        return fit_from_file(Fit, saved, model.graph, lambda: model)


def _model_of(saved: SavedFit, allow_python: bool) -> Model:
    """Return the model of a saved fit, built from the program text that the file contains."""
    from .fit import WHOLE

    meta = saved.meta
    try:
        checked = checked_texts(meta["program"])
        model = BoundProgram(checked, saved.inputs(checked.inputs), meta["coords"], allow_python).model(meta["model"])
    except GmlmError as error:
        if {"E520", "E739"} & set(error.codes):
            raise
        raise fail("E520", f"the saved program does not load any more: {error.diagnostics[0].message}") from None
    except MemoryError as error:
        raise fail("E520", f"the saved program with its inputs does not fit into the memory: {error}") from None
    if meta["mask"] not in (*checked.masks, WHOLE) or ("kind" in meta) != (model.graph.network is not None):
        raise fail("E520", f"the saved fit is none of model `{model.name}` under a mask of its program")
    return model
