"""The factor graph: arrays of cells and parameters, and groups of factors of one form.

A group stores its cells as an integer index array.
"""

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
    coords: tuple[Sequence[Any], ...] = field(compare=False)
    members: Array | None = field(default=None, compare=False, kw_only=True)
    # of values that are whole numbers: which of them each code stands for
    scale: Scale | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def positions(self) -> Array:
        """The global positions of the cells, in `shape`."""
        return self.offset + np.arange(self.size).reshape(self.shape)

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
class Hyperprior:
    """The prior of some entries of a parameter whose arguments depend on parameters.

    Attributes:
        parameter: the name of the parameter.
        entries: the entries as flat indices, shape (n,).
        name: the name of the distribution.
        arguments: for each argument, a group of n instances without cells, one per entry.
    """

    parameter: str
    entries: Array
    name: str
    arguments: dict[str, FactorGroup]
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
    coords: tuple[Sequence[Any], ...] = field(compare=False)
    span: Span = field(compare=False, repr=False)
    still: tuple[int, ...] = ()
    edges: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=np.int64))

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


@dataclass(frozen=True)
class FactorGroup:
    """Factors of one form: one tree that is evaluated for each of `n` instances.

    Attributes:
        root: the tree of one instance.
        n: the number of instances.
        cells: integers of shape (n, slots): the position of the cell in each slot. An unused slot
            has the graph's `n_cells`.
        columns: numbers that vary over instances, of shape (n or 1, *sums).
        tables: flat inputs that are indexed by cells, and data of given variables that are indexed
            by the row.
        kind: the kind of the statement, such as factor, categorical, require or weight.
        given: how the group reads given variables; None if it mentions none.
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
        """The variables' cells that each instance mentions: `cells` without the row cell."""
        return self.cells if self.given is None else np.delete(self.cells, self.given.slot, axis=1)

    def take(self, rows: Array) -> FactorGroup:
        """Return the group of some of the instances."""
        columns = tuple(c[rows] if c.shape[0] > 1 else c for c in self.columns)
        return replace(self, n=len(rows), cells=self.cells[rows], columns=columns)

    def incidence(self, n_cells: int) -> tuple[Array, Array]:
        """Return the instances that mention each cell of a variable.

        The result is (starts of shape (n_cells + 1,), instances). The instances of a cell are
        ascending and distinct.
        """
        n, slots = self.scope.shape
        if slots == 0 or n == 0:
            return np.zeros(n_cells + 1, np.int64), np.zeros(0, np.int32)
        keys = distinct(self.scope.astype(np.int64) * n + np.arange(n)[:, None])
        keys = keys[keys < n_cells * n]
        starts = np.searchsorted(keys, np.arange(n_cells + 1, dtype=np.int64) * n)
        return starts, (keys % n).astype(np.int32)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that the group mentions."""
        return tuple(dict.fromkeys(n.name for n in nodes_in(self.root) if isinstance(n, Gather) and n.name))


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """A lowered model.

    Graphs of equal content are equal, so functions compiled for one of them serve the other.

    Attributes:
        variables: the variables in declaration order. The cells of `var` and `latent` variables are
            numbered consecutively.
        parameters: the parameters in declaration order.
        factors: the groups whose values add to log p.
        requires: the groups whose condition must hold.
        given: the variables whose data come with each row. If there are any, the row cell follows
            all other cells. It holds the number of the row of data that belongs to a configuration.
            It has one value, so it is never summed over or drawn, and no user sees it.
        model: the same graph before data of given variables were bound to it; None if none are
            bound.
        method: how large blocks are summed if the user chooses: enumeration or elimination.
        hyperpriors: the priors of entries whose arguments are parameters.
        network: the network of a conditional model, else None. A conditional model has no factors,
            no joint distribution, and no parameters except those of the network.
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
        """The digest of the content, computed once.

        Names of members and places in the text do not count.
        """
        return digest(tuple(getattr(self, f.name) for f in fields(self)))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FactorGraph) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def without_data(self) -> FactorGraph:
        """The graph for which compiled functions are cached: the same one for all data."""
        return self if self.model is None else self.model

    def with_parameters(self, parameters: tuple[ParameterArray, ...]) -> FactorGraph:
        """Return the graph with other parameters, for example with other priors.

        The graph without its data gets them too, because a fit takes priors from there.
        """
        model = None if self.model is None else self.model.with_parameters(parameters)
        return replace(self, parameters=parameters, model=model)

    @property
    def n_cells(self) -> int:
        """The number of cells, with the row cell.

        It is the number of rows of a state, and the position that stands for no cell.
        """
        return self.n_random + bool(self.given)

    @property
    def n_random(self) -> int:
        """The number of cells of variables, to which a model gives probabilities."""
        return sum(v.size for v in self.variables)

    @property
    def row_cell(self) -> int | None:
        """The position of the row cell; None in a model without given variables."""
        return self.n_random if self.given else None

    @cached_property
    def sizes(self) -> Array:
        """The number of values of each cell, shape (n_cells,); it is 1 for the row cell."""
        parts = [np.full(v.size, len(v.labels), np.int32) for v in self.variables]
        return np.concatenate([*parts, np.ones(self.n_cells - self.n_random, np.int32)])

    @property
    def observed(self) -> tuple[VariableArray, ...]:
        """The variables that data contain: every `var`."""
        return tuple(v for v in self.variables if v.role == "var")

    @property
    def latents(self) -> tuple[VariableArray, ...]:
        """The variables that data may lack as a whole: every `latent`."""
        return tuple(v for v in self.variables if v.role == "latent")

    @cached_property
    def is_latent(self) -> Array:
        """A mask of the latent cells, shape (n_cells,)."""
        return self._of_role("latent")

    @cached_property
    def is_observed(self) -> Array:
        """A mask of the cells that data contain, shape (n_cells,): those of every `var`."""
        return self._of_role("var")

    def _of_role(self, role: str) -> Array:
        cells = np.repeat([v.role == role for v in self.variables], [v.size for v in self.variables])
        return np.append(cells, np.zeros(self.n_cells - self.n_random)).astype(bool)

    @property
    def is_normalised(self) -> bool:
        """Whether log p is a product of one distribution for each cell, so that log Z is 0.

        The cell of a distribution is the first slot of its group.
        """
        if self.requires or any(g.kind != "categorical" for g in self.factors):
            return False
        heads = [g.cells[:, 0] for g in self.factors]
        return bool(heads) and len(distinct(np.concatenate(heads))) == self.n_random

    @property
    def groups(self) -> tuple[FactorGroup, ...]:
        """The factors, followed by the requirements."""
        return self.factors + self.requires

    @cached_property
    def incidences(self) -> tuple[tuple[Array, Array], ...]:
        """The instances that touch each cell, for each group."""
        return tuple(g.incidence(self.n_cells) for g in self.groups)

    @cached_property
    def neighbours(self) -> tuple[Array, Array]:
        """Cells that share a factor: (starts, cells).

        The neighbours of a cell are ascending and distinct, and do not include the cell.
        """
        return neighbours((g.scope for g in self.groups), self.n_cells)

    @cached_property
    def interacting_pairs(self) -> Array:
        """Pairs of `var` cells that share a factor, i < j, shape (pairs, 2)."""
        starts, cells = self.neighbours
        first = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        seen = self.is_observed[first] & self.is_observed[cells] & (first < cells)
        return np.stack([first[seen], cells[seen]], axis=1)

    def variable(self, name: str) -> VariableArray:
        """Return the variable of a name, given variables included."""
        return next(v for v in (*self.variables, *self.given) if v.name == name)

    def cell_name(self, position: int) -> str:
        """Return a cell as a user writes it: `x[3]`, with the labels of its index sets."""
        for v in self.variables:
            if v.offset <= position < v.offset + v.size:
                place = np.unravel_index(position - v.offset, v.shape) if v.shape else ()
                inside = ", ".join(str(c[i]) for c, i in zip(v.coords, place, strict=True))  # pyright: ignore[reportArgumentType, reportCallIssue]
                return f"{v.name}[{inside}]" if inside else v.name
        return f"cell {position}"
