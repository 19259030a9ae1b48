"""The fits of a path, under many penalties and row weights.

There is one objective, or one for each block of the mask.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail
from .._progress import shows_progress, tracked, waiting
from .._types import ArrayLike, Arrays
from ..derive import ExactLoss, bounded_jit, on_device
from ..evaluate import (
    JointObjective,
    block_cells,
    block_objectives,
    block_weights_of_rows,
    copies_of_blocks,
    init_params,
    unflatten,
    verify_names,
)
from ..fit import (
    EXCLUDED,
    Copied,
    Evidence,
    Groups,
    LongFit,
    Penalised,
    Shear,
    diagonal_metric,
    largest_penalty,
    minimise_penalised,
    reopened,
    shear_at,
    standard_weights,
)
from ..graph import FactorGraph
from ..plan import PairTables, entry_parameters, plan_pair_tables, verify_held
from .limits import ARRAYS_PER_COPY

if TYPE_CHECKING:
    from ..evaluate import Objective

Array = np.ndarray


@dataclass(frozen=True)
class PathOptions:
    """The options of a path and of its criterion; see `Model.fit_path`."""

    penalty: ArrayLike | None
    criterion: str
    gamma: float | None
    rule: str | None
    on: Sequence[str] | None
    folds: int
    subsamples: int
    threshold: float
    wrong: float
    seed: int
    progress: bool | None
    checkpoint: str | os.PathLike[str] | None = None

    def waiting(self, text: str) -> AbstractContextManager[None]:
        """Return a progress bar for work that has no count."""
        return waiting(f"path, {text}", shows_progress(self.progress))


class Runs:
    """The fits of one path, which share one compiled program for all penalties and row weights.

    Without a rule there is one copy of the parameters. With a rule each block of the mask has its
    own copy, by which its conditional is fitted.

    Attributes:
        scales: the weights of the couplings in the penalty of each copy, shape (copies, couplings).
            None: those of the groups.
        touch: which couplings each copy depends on, shape (copies, couplings).
        blocks: the name of each copy; empty without a rule.
        saved: the saved states of the path, whose parts are its fits.
    """

    def __init__(self, evidence: Evidence, edges: Edges, weights: Array, rule: str | None, saved: LongFit | None = None):
        self.saved = saved or LongFit()
        self.evidence, self.edges, self.weights, self.rule = evidence, edges, weights, rule
        self.start = init_params(evidence.lowered.graph)
        objective = self.objective(weights)
        self.touch, self.blocks, self.shared = np.ones((1, len(edges.names)), bool), (), None
        if rule is not None:
            cells = block_cells(verified_blocks(objective))
            self.touch = _touching(cells, edges.pairs, evidence.lowered.graph.n_cells)
            self.blocks = tuple(", ".join(evidence.lowered.graph.cell_name(c) for c in block) for block in cells)
            groups = [edges.groups.of[p.name].ravel() for p in evidence.lowered.graph.parameters]
            self.shared = copies_of_blocks(objective, np.concatenate(groups))
            arrays, size = self.shared.owner.shape
            help_ = 'leave `rule=` out: the joint fit has one copy of them, "ebic" is as precise'
            verify_held(8.0 * ARRAYS_PER_COPY * size * arrays, f"{arrays:,} copies of {size:,} parameters", help_)
        self.whole = self.values(objective)
        self.scales: Array | None = None

    @property
    def copies(self) -> int:
        """The number of copies of the parameters."""
        return len(self.touch)

    def objective(self, weights: Array) -> Objective:
        """Return the objective with these row weights."""
        options = replace(self.evidence.options, weights=weights)
        return reopened(replace(self.evidence, options=options), self.start)

    def values(self, objective: Objective) -> Copied:
        """Return the objectives of the copies."""
        if self.rule is None:
            return JointObjective(objective)
        start: Any = self.start
        assert self.shared is not None
        return block_objectives(objective, block_weights_of_rows(objective, start), self.shared)

    def size(self, values: Copied) -> Array:
        """Return the total row weight of each copy."""
        return np.atleast_1d(np.asarray(values.objective.scale if isinstance(values, JointObjective) else values.weight, float))

    def path(
        self, values: Copied, penalties: Array, what: str | None, options: PathOptions, begin: Penalised | None = None
    ) -> list[Penalised]:
        """Return the minimisers under each row of penalties, each started at the previous one.

        Args:
            values: the objectives of the copies.
            penalties: shape (penalties, copies).
            what: the title of the progress bar. If None, no bar is shown, and the fits are not
                saved one by one.
            options: the options of the path.
            begin: the minimisers at which the first fit starts, or None.
        """
        found: list[Penalised] = []
        free, curvature = (self._begin(values), np.ones(self.copies)) if begin is None else (begin.free, begin.curvature)
        for k in tracked(range(len(penalties)), what or "path", what is not None and shows_progress(options.progress)):
            how = {"weights": self.scales, "shear": self.shear, "saved": self.saved if what is not None else LongFit()}
            found.append(self._minimised(values, free, penalties[k], curvature, self.metric, **how))
            free, curvature = found[-1].free, found[-1].curvature
        return found

    @cached_property
    def uncoupled(self) -> Penalised:
        """The minimisers without couplings."""
        start, full, one = self._begin(self.whole), np.full(self.copies, EXCLUDED), np.ones(self.copies)
        return self._minimised(self.whole, start, full, one, diagonal_metric(self.whole, start))

    @cached_property
    def _coordinates(self) -> tuple[Shear, Array]:
        return shear_at(self.whole, self.uncoupled.free, self.edges.groups)

    @property
    def shear(self) -> Shear:
        """The coordinates of all fits: fields follow couplings, as at the uncoupled minimisers."""
        return self._coordinates[0]

    @property
    def metric(self) -> Array:
        """The metric of all fits: the curvatures at the minimisers without couplings."""
        return self._coordinates[1]

    def largest(self) -> Array:
        """Return for each copy the smallest penalty without couplings."""
        return largest_penalty(self.whole, self.uncoupled.free, self.edges.groups, self.scales)

    def standardise(self) -> None:
        """Let the penalty of each copy not depend on the units of its couplings."""
        self.scales = standard_weights(self.whole, self.uncoupled.free, self.edges.groups)

    def refit(self, values: Copied, start: Penalised, kept: Array, within: tuple[Shear, Array] | None = None, **limits: Any) -> Penalised:
        """Return the minimisers with the kept couplings of each copy free and the others 0.

        Args:
            values: the objectives of the copies.
            start: the minimisers at which the fit starts.
            kept: shape (copies, couplings), which couplings are free.
            within: the coordinates and their metric. If None, those of this object.
            limits: further options of `minimise_penalised`.
        """
        weights, (shear, metric) = np.where(kept, 0.0, 1.0), self._coordinates if within is None else within
        full = np.full(len(kept), EXCLUDED)
        return self._minimised(values, start.free, full, start.curvature, metric, weights=weights, shear=shear, **limits)

    def joined(self, kept: Array) -> Penalised:
        """Return the joint fit of all blocks with these couplings, shape (couplings,)."""
        values = JointObjective(self.whole.objective)
        free = {name: v[None] for name, v in values.objective.frame.unconstrain(values.objective.held).items()}
        return self.refit(values, Penalised(free, 0, np.ones(1, bool), np.ones(1)), kept[None], shear_at(values, free, self.edges.groups))

    def params(self, found: Penalised) -> Arrays:
        """Return the parameters of the first copy."""
        objective = self.whole.objective
        return objective.frame.constrain({name: v[0] for name, v in found.free.items()}, objective.held)

    def selected(self, found: Penalised) -> Array:
        """Return which couplings of each copy are not 0."""
        out, at = np.zeros((self.copies + 1, len(self.edges.names)), bool), 0
        owner = np.asarray(self.whole.owner)
        for p in self.evidence.lowered.graph.parameters:
            of = self.edges.groups.of[p.name].ravel()
            if p.name in found.free and (of >= 0).any():
                array, entry = np.nonzero((np.asarray(found.free[p.name]).reshape(len(owner), -1) != 0) & (of >= 0))
                out[owner[array, at + entry], of[entry]] = True
            at += p.size
        return out[:-1]

    def combined(self, selected: Array) -> Array:
        """Return which couplings are present by the rule.

        Under "and" all copies that depend on a coupling must select it; otherwise one is enough.
        `selected` ends in the axes (copies, couplings).
        """
        seen = selected & self.touch
        some = np.asarray(seen.any(axis=-2))
        return some if self.rule != "and" else some & (seen == self.touch).all(axis=-2)

    def losses(self, values: Copied, found: Penalised) -> Array:
        """Return for each copy the loss summed over rows; without a rule it is multiplied by c."""
        return np.asarray(_losses(values, found.free))

    def _minimised(self, values: Copied, free: Arrays, *at: Array, saved: LongFit | None = None, **how: Any) -> Penalised:
        """Return the minimisers of one fit, which is a part of the saved states."""
        penalties, curvature, metric = at

        def work(*_: object) -> tuple[Any, ...]:
            return minimise_penalised(values, free, self.edges.groups, penalties, curvature, metric, **how).fields

        like = Penalised(jax.tree.map(jnp.asarray, free), 0, np.ones(0), np.ones(0)).fields
        return Penalised(*(saved or self.saved).part(work, like))

    def _begin(self, values: Copied) -> Arrays:
        one = values.objective.frame.unconstrain(values.objective.held)
        return {name: on_device(np.repeat(np.asarray(v)[None], len(values.owner), axis=0)) for name, v in one.items()}


def _touching(blocks: Sequence[Sequence[int]], pairs: Sequence[Sequence[tuple[int, int]]], cells: int) -> Array:
    """Return whether each coupling has a cell in each block, shape (blocks, couplings)."""
    held = np.zeros((len(blocks), cells), bool)
    for k, block in enumerate(blocks):
        held[k, list(block)] = True
    return np.array([held[:, np.array(own).ravel()].any(axis=1) for own in pairs]).T


def verified_blocks(objective: Objective) -> ExactLoss:
    """Return the loss, if it has one entry for each block.

    Raises:
        GmlmError: E507 if it does not.
    """
    if objective.gaps is not None:
        why = "missing cells that are summed out join the blocks of a mask, and a rule is about the fit of each block"
        raise fail("E507", why, help='`gaps="ignore"` leaves a missing cell out of the blocks that need it')
    if objective.exact_loss_or_none is None:
        why = "a rule takes the fit of each block of the mask, and the blocks of this one are drawn, or too large to be listed"
        raise fail("E507", why, help="name a mask of small blocks, such as `subsets(x, size = 1)`, or leave `rule=` out")
    return objective.exact_loss_or_none


@bounded_jit
def _losses(values: Copied, free: Arrays) -> jax.Array:
    objective = values.objective
    return values.losses(jax.vmap(lambda f: objective.frame.constrain(f, objective.held))(free))


@dataclass(frozen=True)
class Edges:
    """The groups of a path.

    Attributes:
        groups: the groups of entries of parameters.
        pairs: for each group, the pairs of positions i < j that it couples.
        names: the names of the groups.
        degrees: the number of free directions of each group.
        cells: the number of cells that have a coupling.
    """

    groups: Groups
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    names: tuple[str, ...]
    degrees: Array
    cells: int


def edges_of(graph: FactorGraph, on: Sequence[str] | None) -> Edges:
    """Return the groups of a path.

    They contain the entries of real parameters in factors of two or more cells. Entries that stand
    in the tables of the same pairs form a group.

    Raises:
        GmlmError: E507 unless `on` is a list of names, E506 for unknown names, E555 if nothing is
            left to penalise.
    """
    names = [p.name for p in graph.parameters]
    if on is not None and (not isinstance(on, list | tuple) or not all(isinstance(name, str) for name in on)):
        raise fail(
            "E507", f"on must be a list of names of parameters, got {on!r}", help=f'`on=["{on}"]`' if isinstance(on, str) else '`on=["J"]`'
        )
    if on is not None:
        verify_names(dict.fromkeys(on), names, "on")
    plan = plan_pair_tables(graph)
    wanted = np.concatenate([np.full(p.size, p.kind == "real" and (on is None or p.name in on)) for p in graph.parameters])
    places, owners = _pairs_of_entries(graph, plan)
    members: dict[bytes, list[int]] = {}
    for k, start, end in zip(*_runs(places), strict=True):
        if wanted[k]:
            members.setdefault(owners[start:end].tobytes(), []).append(int(k))
    if not members:
        why = "no real parameter stands in a factor of two cells: there is nothing to penalise"
        raise fail("E555", why, help="give couplings a parameter of their own, such as `param J[(i, j) in G.edges]`")
    of, pairs = np.full(len(wanted), -1), []
    for number, (key, entries) in enumerate(members.items()):
        of[entries] = number
        pairs.append(tuple((int(i), int(j)) for i, j in plan.pairs[np.frombuffer(key, owners.dtype)]))
    counts = np.bincount(of[of >= 0], minlength=len(pairs))
    free = [np.prod(graph.sizes[list(own[0])] - 1) if len(own) == 1 else n for own, n in zip(pairs, counts, strict=True)]
    cell = graph.cell_name
    labels = tuple(f"{cell(own[0][0])} - {cell(own[0][1])}" if len(own) == 1 else f"{len(own)} pairs" for own in pairs)
    return Edges(Groups(unflatten(graph, of), np.sqrt(counts)), tuple(pairs), labels, np.minimum(counts, free), len(np.unique(plan.pairs)))


def _pairs_of_entries(graph: FactorGraph, plan: PairTables) -> tuple[Array, Array]:
    """Return entries of the flat parameter vector and the pairs in whose tables they stand.

    Both are sorted in ascending order.
    """
    import scipy.sparse

    entry, parameter = (np.concatenate(a) for a in zip(*(entry_parameters(graph, t) for t in plan.tables), strict=True))
    size, entries = sum(p.size for p in graph.parameters), plan.tables[-1].start + plan.tables[-1].entries
    mentions = scipy.sparse.coo_array((np.ones(len(entry)), (entry, parameter)), shape=(entries, size)).tocsr()
    row, column = (abs(plan.sums) @ mentions).nonzero()
    keys = np.unique(column.astype(np.int64) * len(plan.pairs) + row // plan.width**2)
    return keys // len(plan.pairs), keys % len(plan.pairs)


def _runs(values: Array) -> tuple[Array, Array, Array]:
    """Return the distinct values of an ascending array, with the start and end of each."""
    distinct, starts = np.unique(values, return_index=True)
    return distinct, starts, np.append(starts[1:], [len(values)] * bool(len(values))).astype(np.int64)
