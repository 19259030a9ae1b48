"""Invented inputs and data of the declared types, to try a program before its data exist."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .._diagnostics import GmlmError
from .._types import InputLike
from ..graph import Bound, FactorGraph, bind, bind_sound, lower_model
from ..program import Program, check_file, ir
from ._keys import generator

Array = np.ndarray
MOCK_NUMBER = 5  # an invented whole number, so that an axis has a few members
MOCK_LENGTHS = (4, 2, 1)  # the lengths that are tried for axes that an array alone determines
MOCK_ENTRIES = (1, 0)  # the entries that are tried for arrays of whole numbers


def mock_inputs(path: str | Path, *, seed: int = 0, **inputs: InputLike) -> dict[str, InputLike]:
    """Invent values for the inputs of a program that have no default and are not given.

    A whole number is 5. Real numbers are standard normal, positive ones are their exponentials,
    numbers between bounds are uniform, and entries of a simplex are uniform on it. An array of pairs
    of whole numbers is a path 0-1, 1-2, ..; other arrays of whole numbers hold one number. An axis
    whose length the array alone determines has at most 4 members.

    Args:
        path: the `.gmlm` file.
        seed: the seed of the draws.
        inputs: the known inputs.

    Returns:
        All inputs that have no default, with the given ones, for `gm.load`.

    Raises:
        GmlmError: for faults of the file, and for the faults of the program with the last invented
            values if no invented values fit it.
    """
    return invented(check_file(path), inputs, seed)


def invented(program: Program, inputs: Mapping[str, InputLike], seed: int = 0) -> dict[str, InputLike]:
    """Return the inputs of a checked program, those without a value invented; see `mock_inputs`."""
    error: GmlmError | None = None
    for length, fill in itertools.product(MOCK_LENGTHS, MOCK_ENTRIES):
        found = dict(inputs)
        rng = generator(seed)
        for d in program.inputs.values():
            if d.default is None and d.name not in found:
                found[d.name] = _invented(d, bind_sound(program, found)[0], length, fill, rng)
        try:
            bound = bind(program, found)
            for name in program.models:
                lower_model(bound, name)
        except GmlmError as fault:
            error = fault
            continue
        return found
    assert error is not None
    raise error


def _invented(d: ir.Input, bound: Bound, length: int, fill: int, rng: np.random.Generator) -> InputLike:
    shape = tuple(
        length if a.name else bound.set_size(a.over) if a.over is not None else bound.integer(a.size)  # pyright: ignore[reportArgumentType]
        for a in d.axes
    )
    match d.type.kind:
        case "int" if len(shape) == 2 and shape[1] == 2:
            return np.stack([np.arange(shape[0]), np.arange(1, shape[0] + 1)], axis=1)
        case "int":
            return np.full(shape, fill) if shape else MOCK_NUMBER
        case "domain":
            assert d.type.domain is not None
            labels = np.asarray(bound.domain_labels(d.type.domain))
            found = labels[rng.integers(len(labels), size=shape)]
        case "simplex":
            found = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
        case "bounded":
            low, high = (None if e is None else bound.number(e) for e in (d.type.lower, d.type.upper))
            found = _between(low, high, shape, rng)
        case kind:
            found = _between(0.0 if kind == "positive" else None, None, shape, rng)
    return found if shape else found.item()


def _between(low: float | None, high: float | None, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return numbers between two bounds: uniform, or a normal or log-normal tail where one is open."""
    if low is not None and high is not None:
        return rng.uniform(low, high, shape)
    drawn = np.asarray(rng.normal(size=shape))
    if low is None and high is None:
        return drawn
    return low + np.exp(drawn) if low is not None else high - np.exp(drawn)


def mock_given(graph: FactorGraph, rows: int, seed: int) -> dict[str, Array]:
    """Draw data of the given variables, by variable, of shape (rows, *axes).

    Discrete values and bounded numbers are uniform. Other numbers are standard normal, and positive
    ones log-normal.
    """
    rng, found = generator(seed, 1), {}
    for v in graph.given:
        shape = (rows, *v.shape)
        if v.real:
            low, high = (None if np.isinf(b) else float(b) for b in (v.lower, v.upper))
            found[v.name] = _between(low, high, shape, rng)
        else:
            found[v.name] = np.asarray(v.values_of(rng.integers(len(v.labels), size=shape)))
    return found
