"""The factor graph: arrays of cells and parameters, and groups of factors of one form.

A group stores its cells as an integer index array.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from .._diagnostics import Span
from ._content import digest
from ._graph_variables import GivenArray, GivenTables, NetworkForm, ParameterArray, VariableArray
from ._scopes import SumLink, distinct, link_scopes, neighbours
from .nodes import Gather, Node, nodes_in

Array = np.ndarray


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
        n = len(self.scope)
        if not self.scope.size:
            return np.zeros(n_cells + 1, np.int64), np.zeros(0, np.int32)
        keys = distinct(self.scope.astype(np.int64) * n + np.arange(n)[:, None])
        keys = keys[keys < n_cells * n]
        starts = np.searchsorted(keys, np.arange(n_cells + 1, dtype=np.int64) * n)
        return starts, (keys % n).astype(np.int32)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters that the group mentions."""
        return tuple(dict.fromkeys(n.name for n in nodes_in(self.root) if isinstance(n, Gather) and n.name))


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
        links: the partial sums that need no table, each the first cell of one link at most.
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
    links: tuple[SumLink, ...] = ()

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

    @cached_property
    def n_cells(self) -> int:
        """The number of cells, with the row cell.

        It is the number of rows of a state, and the position that stands for no cell.
        """
        return self.n_random + bool(self.given)

    @cached_property
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
    def texts(self) -> dict[str, list[str]]:
        """The values of variables of letters and labels, as texts in the order of their codes."""
        return {v.name: [str(x) for x in v.labels] for v in self.variables if not v.ordered}

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

    @cached_property
    def is_normalised(self) -> bool:
        """Whether log p is a product of one distribution for each cell, so that log Z is 0.

        The cell of a distribution is the first slot of its group.
        """
        if self.requires or any(g.kind != "categorical" for g in self.factors):
            return False
        heads = [g.cells[:, 0] for g in self.factors]
        return bool(heads) and len(distinct(np.concatenate(heads))) == self.n_random

    @cached_property
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
        return neighbours((*(g.scope for g in self.groups), *link_scopes(self.links)), self.n_cells)

    @cached_property
    def most_values(self) -> int:
        """The largest number of values of a cell that is no partial sum of a link, or 1."""
        sums = [c for link in self.links for c in (link.cell, link.cells[-1])]
        return int(np.delete(self.sizes, sums).max(initial=1))

    @cached_property
    def linked(self) -> Array:
        """A mask of the cells that are summed out even where they are known, shape (n_cells,).

        They are the cells of links, and those that share a factor with a cell that follows.
        """
        found, follows = np.zeros(self.n_cells + 1, bool), np.zeros(self.n_cells + 1, bool)
        for link in self.links:
            found[[link.cell, *link.cells]] = follows[link.cell] = True
        if self.links:
            for group in self.groups:
                found[group.cells[follows[group.cells].any(axis=1)]] = True
        return found[:-1] & (self.sizes > 1)

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
        at = ((v, position - v.offset) for v in self.variables)
        return next((v.cell_name(k) for v, k in at if 0 <= k < v.size), f"cell {position}")
