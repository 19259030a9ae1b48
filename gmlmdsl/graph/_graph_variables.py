"""The arrays of a factor graph: variables, given data, parameters with priors; its network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._diagnostics import Some, Span
from .._types import Label
from ..program import Scale

Value = int | float | bool | str


@dataclass(frozen=True)
class NetworkForm:
    """A network as a file declares it, with the sizes of its inputs and outputs.

    Attributes:
        name: the name of the form: transformer, encoder_decoder, mlp, pretrained or python.
        options: every option by name, evaluated, with defaults filled in. For `python` they include
            the user's own options.
        n_cells: the number of cells that the network predicts.
        n_values: the number of values of each cell.
        given: for each given variable its name, its number of entries and its number of values,
            which is 0 for a real one.
        span: the place of the declaration in the text.
        label: the name in the file. The network's arrays are stored under it among the parameters.
        probes: the verifiers and values that are learned from the network. Their weights are stored
            among the parameters under their own names.
        planners: the networks by which samplers of the model plan, with the sizes of the model's
            cells. Their weights are stored among the parameters too.
        values: the values of a cell, which are tokens of a `pretrained` network; of others empty.
    """

    name: str
    options: Mapping[str, Value] = field(hash=False)
    n_cells: int
    n_values: int
    given: tuple[tuple[str, int, int], ...]
    span: Span = field(compare=False, repr=False)
    label: str = "net"
    probes: tuple[str, ...] = ()
    planners: tuple[NetworkForm, ...] = ()
    values: tuple[int | str, ...] = ()


Array = np.ndarray


@dataclass(frozen=True)
class VariableArray:
    """A variable: the cells `offset` to `offset + size`, row-major over `shape`.

    Coordinates are only names, of which there may be a million, so comparisons ignore them.

    Attributes:
        labels: its values as users write them, in the order of their codes.
        dims: the names of its axes.
        coords: the coordinates along each axis.
        members: the indices of each cell of a ragged variable, else None.
    """

    name: str
    role: str
    offset: int
    shape: tuple[int, ...]
    kind: str
    labels: tuple[Any, ...]
    dims: tuple[str, ...]
    coords: tuple[Sequence[Label], ...] = field(compare=False)
    members: Array | None = field(default=None, compare=False, kw_only=True)
    # of values that are whole numbers: which of them each code stands for
    scale: Scale | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def positions(self) -> Array:
        """The global positions of the cells, in `shape`."""
        return self.offset + np.arange(self.size).reshape(self.shape)

    def cell_name(self, number: int) -> str:
        """Return a cell, by its number among those of the variable, as a user writes it."""
        place = np.unravel_index(number, self.shape) if self.shape else ()
        inside = ", ".join(str(c[int(i)]) for c, i in zip(self.coords, place, strict=True))
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers."""
        return self.scale is not None

    @property
    def first(self) -> int:
        """The value of code 0.

        It is 0 for letters and labels, whose codes stand for them as numbers.
        """
        return 0 if self.scale is None else self.scale.first

    @property
    def step(self) -> int:
        """The difference between the values of neighbouring codes."""
        return 1 if self.scale is None else self.scale.step

    @property
    def numbers(self) -> tuple[int, ...]:
        """The number of each value: its code for letters and labels.

        `labels` are the names of the values instead, if an index set with names is the type.
        """
        return tuple(range(len(self.labels))) if self.scale is None else self.scale.numbers

    @property
    def padding(self) -> int:
        """The number that stands for an absent cell.

        It is -1, or 0 if -1 is a value of the variable, or a number below all values if both are.
        """
        numbers = () if self.scale is None else self.scale.numbers
        return next(k for k in (-1, 0, self.first - 1) if k not in numbers)

    @property
    def dtype(self) -> type[np.int8] | type[np.int32]:
        """The narrow integer type of arrays of values, padding and codes."""
        ends = (self.padding, self.first, self.first + self.step * (len(self.labels) - 1), len(self.labels) - 1)
        return np.int8 if min(ends) >= -128 and max(ends) <= 127 else np.int32

    def values_of(self, codes: Some) -> Some:
        """Return the values of codes as numbers, in an array of the same library (NumPy or JAX)."""
        return codes if self.scale is None else self.scale.values_of(codes)

    def codes_of(self, values: Some) -> Some:
        """Return the codes of values; they are whole if the values belong to the variable."""
        return values if self.scale is None else self.scale.codes_of(values)


@dataclass(frozen=True)
class GivenArray(VariableArray):
    """A given variable: it has no cells, and its values are stored in tables.

    Attributes:
        lower: the lower bound of a real variable, which has no labels.
        upper: its upper bound.
    """

    lower: float = -np.inf
    upper: float = np.inf

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers."""
        return self.real or super().ordered

    @property
    def real(self) -> bool:
        """Whether the values are real numbers."""
        return self.kind in ("real", "positive", "bounded")


@dataclass(frozen=True)
class GivenTables:
    """How a group reads given variables: at the index row * size of the variable + place.

    Attributes:
        slot: the slot that holds the row cell, whose code is the number of the row.
        arrays: for each table of the group, the given variable whose data it holds, or None if it
            holds an input.
        rows: the number of rows of data. It is 0 before data are bound; the tables then hold one
            row of zeros.
    """

    slot: int
    arrays: tuple[GivenArray | None, ...]
    rows: int = 0


@dataclass(frozen=True)
class Prior:
    """The name of a prior distribution and its arguments, which broadcast against the parameter."""

    name: str
    arguments: dict[str, Array]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class ParameterArray:
    """One parameter array.

    Attributes:
        kind: real, positive, simplex, ordered or bounded.
        gauge: the axes along which `zero_sum` fixes sums at 0.
        still: the row-major numbers of entries that a fit leaves at their start. Only real
            parameters without a gauge have such entries.
        edges: the `EdgeNames` of its axes over edges.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    lower: float
    upper: float
    prior: Prior | None
    gauge: tuple[int, ...]
    dims: tuple[str, ...]
    coords: tuple[Sequence[Label], ...] = field(compare=False)
    span: Span = field(compare=False, repr=False)
    still: tuple[int, ...] = ()
    edges: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def size(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)

    def within(self, share: float) -> float:
        """Return a value of an entry inside its bounds, at a share from 0 to 1 of the way.

        With one bound or none the share is turned into odds or log odds.
        """
        if self.kind == "simplex":
            return 1 / self.shape[-1]
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return self.lower + share * (self.upper - self.lower)
        if math.isfinite(self.lower):
            return self.lower + share / (1 - share)
        return self.upper - (1 - share) / share if math.isfinite(self.upper) else math.log(share / (1 - share))

    @property
    def middle(self) -> float | Array:
        """The value of entries well inside their range.

        It is 0 without bounds, 1 for positive, uniform for simplex, and in steps of 1 for ordered
        parameters. Between two bounds it is their middle; with only one bound it lies 1 away from
        the bound.
        """
        if self.kind == "ordered":
            return np.arange(self.shape[-1]) - (self.shape[-1] - 1) / 2
        if self.kind == "simplex":
            return 1 / self.shape[-1]
        if self.kind == "positive":
            return 1.0
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return 0.5 * (self.lower + self.upper)
        return self.lower + 1 if math.isfinite(self.lower) else self.upper - 1 if math.isfinite(self.upper) else 0.0
