"""The factor graph: arrays of cells and parameters, and groups of like factors with integer index arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._diagnostics import Some, Span
from ..program import Scale
from ._content import digest
from ._neighbours import distinct, neighbours
from ._network_form import NetworkForm
from ._nodes import Gather, Node, nodes_in

Array = np.ndarray


@dataclass(frozen=True)
class VariableArray:
    """One variable: cells `offset` to `offset + size`, row-major over `shape`.

    `labels` are the values as users write them, in the order of their codes; `dims` and `coords`
    name the axes. Coordinates are names only, which may be a million: they do not count in
    comparisons.
    """

    name: str
    role: str
    offset: int
    shape: tuple[int, ...]
    kind: str
    labels: tuple[Any, ...]
    dims: tuple[str, ...]
    coords: tuple[Sequence[Any], ...] = field(compare=False)
    # of a ragged variable: the indices of each cell
    members: Array | None = field(default=None, compare=False, kw_only=True)
    # of values that are whole numbers: which of them each code stands for
    scale: Scale | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def positions(self) -> Array:
        """The global positions of its cells, in `shape`."""
        return self.offset + np.arange(self.size).reshape(self.shape)

    @property
    def ordered(self) -> bool:
        """Whether its values are numbers."""
        return self.scale is not None

    @property
    def first(self) -> int:
        """The value of code 0; of letters and labels, whose values are their codes wherever numbers are wanted, 0."""
        return 0 if self.scale is None else self.scale.first

    @property
    def step(self) -> int:
        """By how much the values of neighbouring codes differ."""
        return 1 if self.scale is None else self.scale.step

    @property
    def padding(self) -> int:
        """What stands where a row has no cell: -1, or 0 if -1 is a value, or a number below all values if both are."""
        numbers = () if self.scale is None else self.scale.numbers
        return next(k for k in (-1, 0, self.first - 1) if k not in numbers)

    @property
    def dtype(self) -> type[np.int8] | type[np.int32]:
        """The narrow integer type of arrays of its values, padding and codes."""
        ends = (self.padding, self.first, self.first + self.step * (len(self.labels) - 1), len(self.labels) - 1)
        return np.int8 if min(ends) >= -128 and max(ends) <= 127 else np.int32

    def values_of(self, codes: Some) -> Some:
        """The values that codes stand for, as numbers; an array of NumPy or JAX like them."""
        return codes if self.scale is None else self.scale.values_of(codes)

    def codes_of(self, values: Some) -> Some:
        """The codes of values, whole where the values are some of the variable's."""
        return values if self.scale is None else self.scale.codes_of(values)


@dataclass(frozen=True)
class GivenArray(VariableArray):
    """A given variable: it has no cells, its values stand in tables; a real one has bounds in place of labels."""

    lower: float = -np.inf
    upper: float = np.inf

    @property
    def ordered(self) -> bool:
        """Whether its values are numbers."""
        return self.real or super().ordered

    @property
    def real(self) -> bool:
        """Whether its values are real numbers."""
        return self.kind in ("real", "positive", "bounded")


@dataclass(frozen=True)
class GivenTables:
    """How a group reads given variables: at row number * size of the variable + place.

    Attributes:
        slot: the slot that holds the row cell, whose code is the row's number.
        arrays: of each table of the group: the given variable whose data it holds, None where it
            holds an input.
        rows: the number of rows of data; 0 while there are none, and the tables hold one row of
            zeros.
    """

    slot: int
    arrays: tuple[GivenArray | None, ...]
    rows: int = 0


@dataclass(frozen=True)
class Prior:
    """A distribution's name and its arguments, each broadcasting against the parameter."""

    name: str
    arguments: dict[str, Array]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Hyperprior:
    """The prior of some entries of a parameter whose arguments mention parameters.

    Attributes:
        parameter: its name.
        entries: which entries, as flat indices, shape (n,).
        name: of the distribution.
        arguments: by name, a group of n instances without cells, one for each entry.
    """

    parameter: str
    entries: Array
    name: str
    arguments: dict[str, FactorGroup]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class ParameterArray:
    """One parameter array. `kind` is real, positive, simplex, ordered or bounded; `gauge` lists the axes whose sums `zero_sum` fixes at 0.

    `still` numbers entries, in row-major order, that a fit leaves where it starts; they belong to
    real parameters without a gauge.
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    lower: float
    upper: float
    prior: Prior | None
    gauge: tuple[int, ...]
    dims: tuple[str, ...]
    coords: tuple[Sequence[Any], ...] = field(compare=False)
    span: Span = field(compare=False, repr=False)
    still: tuple[int, ...] = ()
    # `EdgeNames` of its axes over edges
    edges: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=np.int64))

    def within(self, share: float) -> float:
        """A value of an entry within its bounds: at a share from 0 to 1 of the way, by log odds where there is no bound."""
        if self.kind == "simplex":
            return 1 / self.shape[-1]
        if math.isfinite(self.lower) and math.isfinite(self.upper):
            return self.lower + share * (self.upper - self.lower)
        if math.isfinite(self.lower):
            return self.lower + share / (1 - share)
        return self.upper - (1 - share) / share if math.isfinite(self.upper) else math.log(share / (1 - share))

    @property
    def middle(self) -> float | Array:
        """Entries well inside their range: 0, positive 1, simplex uniform, ordered in steps of 1.

        Of bounded ones the middle, or one beside the only bound.
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


@dataclass(frozen=True)
class FactorGroup:
    """Like terms: one tree, evaluated for each of `n` instances.

    Attributes:
        root: what one instance computes.
        n: the number of instances.
        cells: integers of shape (n, slots): the position of the cell in each slot; `n_cells` of the
            graph where a slot is unused.
        columns: numbers that vary over instances, of shape (n or 1, *sums).
        tables: flat inputs that are indexed by cells, and data of given variables that are indexed
            by the row.
        kind: factor, categorical, require or weight.
        given: how it reads given variables; None where it mentions none.
    """

    root: Node
    n: int
    cells: Array
    columns: tuple[Array, ...]
    tables: tuple[Array, ...]
    kind: str
    span: Span = field(compare=False, repr=False)
    given: GivenTables | None = None

    @property
    def scope(self) -> Array:
        """The cells of variables that each instance mentions: `cells` without the row cell."""
        return self.cells if self.given is None else np.delete(self.cells, self.given.slot, axis=1)

    def take(self, rows: Array) -> FactorGroup:
        """The group of some of the instances."""
        columns = tuple(c[rows] if c.shape[0] > 1 else c for c in self.columns)
        return replace(self, n=len(rows), cells=self.cells[rows], columns=columns)

    def incidence(self, n_cells: int) -> tuple[Array, Array]:
        """For each cell of a variable the instances that mention it: (starts of shape (n_cells + 1,), instances), each once, ascending."""
        n, slots = self.scope.shape
        if slots == 0 or n == 0:
            return np.zeros(n_cells + 1, np.int64), np.zeros(0, np.int32)
        keys = distinct(self.scope.astype(np.int64) * n + np.arange(n)[:, None])
        keys = keys[keys < n_cells * n]
        starts = np.searchsorted(keys, np.arange(n_cells + 1, dtype=np.int64) * n)
        return starts, (keys % n).astype(np.int32)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters it mentions."""
        return tuple(dict.fromkeys(n.name for n in nodes_in(self.root) if isinstance(n, Gather) and n.name))


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """A lowered model. Graphs that say the same are equal, so that programs compiled for one serve the other.

    Attributes:
        variables: in declaration order; `var` and `latent` cells are numbered through.
        parameters: in declaration order.
        factors: groups whose values add to log p.
        requires: groups whose condition must hold.
        given: variables whose data come with each row. Where there are some, one cell behind all
            others, the row cell, says which row of the data a configuration goes with. It has one
            value, so it is never summed over or drawn, and no user sees it.
        model: the same graph before data of given variables were bound to it; None where none are.
        method: how large blocks are summed where the user says so: enumeration or elimination.
        hyperpriors: priors of entries whose arguments are parameters.
        network: of a conditional model, which has no factors, no joint distribution and no
            parameters but the network's; else None.
    """

    variables: tuple[VariableArray, ...]
    parameters: tuple[ParameterArray, ...]
    factors: tuple[FactorGroup, ...]
    requires: tuple[FactorGroup, ...]
    given: tuple[GivenArray, ...] = ()
    model: FactorGraph | None = None
    method: str | None = None
    network: NetworkForm | None = None
    hyperpriors: tuple[Hyperprior, ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """Of all that it says, computed once; names of members and places in the text do not count."""
        return digest(tuple(getattr(self, f.name) for f in fields(self)))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FactorGraph) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def without_data(self) -> FactorGraph:
        """The graph for which compiled functions are kept: one for all data."""
        return self if self.model is None else self.model

    def with_parameters(self, parameters: tuple[ParameterArray, ...]) -> FactorGraph:
        """The same with others in their place, other priors say; the graph without its data has them too, from which a fit takes priors."""
        model = None if self.model is None else self.model.with_parameters(parameters)
        return replace(self, parameters=parameters, model=model)

    @property
    def n_cells(self) -> int:
        """The number of cells, the row cell included: what a state has rows, and the position that stands for no cell."""
        return self.n_random + bool(self.given)

    @property
    def n_random(self) -> int:
        """The number of cells of variables: those that a model gives probabilities."""
        return sum(v.size for v in self.variables)

    @property
    def row_cell(self) -> int | None:
        """The position of the row cell; None in a model without given variables."""
        return self.n_random if self.given else None

    @cached_property
    def sizes(self) -> Array:
        """The number of values of each cell, shape (n_cells,); of the row cell 1."""
        parts = [np.full(v.size, len(v.labels), np.int32) for v in self.variables]
        return np.concatenate([*parts, np.ones(self.n_cells - self.n_random, np.int32)])

    @property
    def observed(self) -> tuple[VariableArray, ...]:
        """The variables that data hold: every `var`."""
        return tuple(v for v in self.variables if v.role == "var")

    @property
    def latents(self) -> tuple[VariableArray, ...]:
        """The variables that data may lack as a whole: every `latent`."""
        return tuple(v for v in self.variables if v.role == "latent")

    @cached_property
    def is_latent(self) -> Array:
        """Which cells are latent, shape (n_cells,)."""
        return self._of_role("latent")

    @cached_property
    def is_observed(self) -> Array:
        """Which cells data hold, shape (n_cells,): those of every `var`, not the row cell."""
        return self._of_role("var")

    def _of_role(self, role: str) -> Array:
        cells = np.repeat([v.role == role for v in self.variables], [v.size for v in self.variables])
        return np.append(cells, np.zeros(self.n_cells - self.n_random)).astype(bool)

    @property
    def is_normalised(self) -> bool:
        """Whether log p is a product of distributions, one for each cell: then log Z is 0. The cell is its group's first slot."""
        if self.requires or any(g.kind != "categorical" for g in self.factors):
            return False
        heads = [g.cells[:, 0] for g in self.factors]
        return bool(heads) and len(distinct(np.concatenate(heads))) == self.n_random

    @property
    def groups(self) -> tuple[FactorGroup, ...]:
        """Factors, then requirements."""
        return self.factors + self.requires

    @cached_property
    def incidences(self) -> tuple[tuple[Array, Array], ...]:
        """For each group: the instances that touch each cell."""
        return tuple(g.incidence(self.n_cells) for g in self.groups)

    @cached_property
    def neighbours(self) -> tuple[Array, Array]:
        """Cells that share a factor: (starts, cells), each neighbour once, ascending, a cell not its own."""
        return neighbours((g.scope for g in self.groups), self.n_cells)

    @cached_property
    def interacting_pairs(self) -> Array:
        """Pairs of cells of `var`s that share a factor, i < j, shape (pairs, 2)."""
        starts, cells = self.neighbours
        first = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        seen = self.is_observed[first] & self.is_observed[cells] & (first < cells)
        return np.stack([first[seen], cells[seen]], axis=1)

    def variable(self, name: str) -> VariableArray:
        """The variable of that name, given ones among them."""
        return next(v for v in (*self.variables, *self.given) if v.name == name)

    def cell_name(self, position: int) -> str:
        """How a user writes a cell: `x[3]`, with the labels of its index sets."""
        for v in self.variables:
            if v.offset <= position < v.offset + v.size:
                place = np.unravel_index(position - v.offset, v.shape) if v.shape else ()
                inside = ", ".join(str(c[i]) for c, i in zip(v.coords, place, strict=True))  # pyright: ignore[reportArgumentType, reportCallIssue]
                return f"{v.name}[{inside}]" if inside else v.name
        return f"cell {position}"
