"""Values that mean nothing to any function, and what a call makes of each of them in the place of each of its arguments."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gmlmdsl as gm

FEW = {
    "an object": object(),
    "a huge number": 10**400,
    "a lone surrogate": "\ud800",
    "a set": {1},
    "a list of lists": [[1, "a"], [2]],
    "an array of texts": np.full((3, 3), "x"),
    "an array of nan": np.array([np.nan, 1.0]),
}


def refuses_nonsense(call: Callable[..., Any], fine: Mapping[str, Any], passed: tuple[str, ...] = ()) -> None:
    """Call with each argument in turn exchanged for nonsense: it succeeds or ends in an error of the package, with a message.

    Args:
        call: a function or method.
        fine: arguments of a call that succeeds.
        passed: arguments that are left alone, because what may stand for them has no end or costs too much.
    """
    faults = []
    for name, parameter in inspect.signature(call).parameters.items():
        if name in passed or parameter.kind is parameter.VAR_KEYWORD:
            continue
        for what, value in FEW.items():
            arguments = {**fine, name: value}
            more = arguments.pop(name) if parameter.kind is parameter.VAR_POSITIONAL else ...
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call(**arguments) if more is ... else call(more, **arguments)
            except gm.GmlmError as error:
                assert error.diagnostics[0].message, (name, what)  # noqa: PT017
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                faults.append(f"`{name}` as {what}: {repr(error)[:200]}, {Path(place.filename).name}:{place.lineno}")
    assert not faults, "\n".join(faults)
