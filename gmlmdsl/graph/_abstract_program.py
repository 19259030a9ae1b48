"""Base class of a checked program with its inputs, and the provenance that results record of it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from .._diagnostics import GmlmError, fail, in_paragraphs, is_one_of, listed, unknown
from .._types import Label
from ..program import Program, allowed
from ._bound import Bound
from ._graph_arrays import GraphArrays

if TYPE_CHECKING:
    import numpy as np

    from .._diagnostics import Diagnostic


class Provenance(TypedDict):
    """The record that results keep of a program."""

    program: dict[str, str]
    sha256: str
    inputs: dict[str, np.ndarray]
    coords: dict[str, list[int | str]]
    versions: dict[str, str]


class AbstractProgram(ABC):
    """A checked program with its inputs, from which models are made.

    Two programs are equal if their texts, inputs and coordinates are equal and if they agree on
    `allow_python`.

    Attributes:
        checked: the program as it is written, after checking.
        bound: the same program with its numbers.
        allow_python: whether a network may be a Python class, which is imported and run.
    """

    checked: Program
    bound: Bound
    allow_python: bool

    @abstractmethod
    def model(self, name: str | None = None, *, plan: str | None = None) -> Any:
        """Return a model by name, or the program's only model if no name is given."""

    @abstractmethod
    def extended(self, text: str) -> AbstractProgram:
        """Return this program with further statements appended, bound to the same inputs.

        No file is written.
        """

    @abstractmethod
    def _labelled(self, coords: Mapping[str, tuple[Label, ...]]) -> AbstractProgram:
        """Return this program with labels for some index sets, which must have as many members."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AbstractProgram):
            return NotImplemented
        return self.bound == other.bound and self.allow_python == other.allow_python

    def __hash__(self) -> int:
        return hash(self.bound)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the checker and those that the inputs raise, without the allowed ones."""
        return (*self.checked.warnings, *allowed(self.bound.notes, self.checked.allowances))

    def graph(self, name: str) -> GraphArrays:
        """Return the arrays of a graph, such as `.edges` and `.rows`.

        Raises:
            GmlmError: if the program has no graph of this name.
        """
        if not is_one_of(name, list(self.bound.graphs)):
            raise unknown(f"the program has no graph `{name}`", name, self.bound.graphs)
        return self.bound.graphs[name]

    def provenance(self) -> Provenance:
        """Return the record that results keep of the program.

        It holds its files, their hash, its inputs, its coordinates and the versions of packages.
        """
        files = {s.path: s.text for s in self.checked.sources}
        coords = {k: [x if isinstance(x, int) else str(x) for x in v] for k, v in self.bound.coords.items()}
        return {
            "program": files,
            "sha256": hash_of_texts(files),
            "inputs": dict(self.bound.inputs),
            "coords": coords,
            "versions": versions(),
        }

    def __repr__(self) -> str:
        c = self.checked
        return f"Program {c.sources[0].path}: models {listed([*c.models])}, masks {listed([*c.masks])}, samplers {listed([*c.samplers])}"

    def _repr_html_(self) -> str:
        """Return each model with its factor graph, for notebooks."""
        parts = []
        for name in self.checked.models:
            try:
                parts.append(self.model(name)._repr_html_())
            except GmlmError as error:
                parts.append(error._repr_html_())
        return f"<div>{in_paragraphs(self)}{''.join(parts)}</div>"


def hash_of_texts(files: Mapping[str, str]) -> str:
    """Return the hash of a program, from the texts of its files by path, in their order."""
    return hashlib.sha256("\0".join(f"{path}\0{text}" for path, text in files.items()).encode("utf-8", "surrogatepass")).hexdigest()


def verify_is_model(model: object) -> None:
    """Raise unless `model` is a model.

    Raises:
        GmlmError: E507.
    """
    if not hasattr(model, "lowered") or isinstance(model, type):
        raise fail("E507", f"model must be a model, got {type(model).__name__}", help="`gm.load(..).model()` gives one")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python packages on which a result depends."""
    from importlib.metadata import PackageNotFoundError, version

    out = {}
    for name in ("gmlmdsl", "jax", "numpy", "optax", "equinox"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "unknown"
    return out
