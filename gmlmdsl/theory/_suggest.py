"""Suggested masks for a model as program text, with the best mask first.

The candidates come from the cells, graphs, clusters and forests of the model. In a strong cluster,
single cells hardly move on their own. The influence of cell j on cell i is the largest change of
p(x_i | rest) in total variation when x_j alone changes (Dobrushin). It is exact for given values of
the rest, and is maximised over many such values. Cells joined by influences above a threshold form
a cluster. Given probable values of the rest, the Poincare constant of single-cell moves inside a
cluster is computed exactly.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from .. import derive
from .._diagnostics import GmlmError, fail
from .._types import Given
from ..data import generator, verified_seed
from ..derive import bounded_jit, fixed_blocks, graph_arrays
from ..evaluate import masks_per_row
from ..graph import FactorGraph, Lowered, joint_count
from ..masks import AbstractMask
from ..model import Fit
from ..plan import plan_mask, verify_affordable
from ..syntax import format_source
from ._block_dynamics import BlockDynamics, reversible_gap
from ._compare_masks import MaskComparison, MaskReport, Means, comparison_of, rows_of
from ._configurations import Configurations, configurations
from .limits import (
    LARGEST_SUBSETS,
    LEAST_FOREST,
    LIKELY_CONFIGURATIONS,
    MOST_BLOCK_VALUES,
    MOST_CLUSTER_VALUES,
    MOST_PARTITIONS,
    MOST_STATES,
    MOST_SUGGESTED_WORK,
    MOST_WRITTEN,
    RANKING_STEP,
    REST_VALUES,
    THRESHOLDS,
)

if TYPE_CHECKING:
    from ..model import Model, Params

Array = np.ndarray
LISTED = " = blocks({"  # start of the body of a mask whose blocks are written one by one
AGREEING = "adaptive: pairs that agree now are redrawn together more often"


@dataclass(frozen=True)
class Clusters:
    """Partitions into clusters of at least two cells, with a description of each.

    The partition in which single cells are slowest comes first.
    """

    partitions: tuple[tuple[Array, ...], ...]
    words: tuple[str, ...]


def strong_clusters(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, edges: Array) -> Clusters:
    """Return clusters of cells of `var`s; 64-bit types must be enabled.

    Args:
        lowered: the model, with its given data.
        params: parameters.
        codes: probable configurations, shape (cells, rows), with latents.
        edges: pairs of cells that share a factor.
    """
    host = lowered.graph
    if not len(edges):
        return Clusters((), ())
    strength = influences(host, params, _rests(host, codes), edges)
    found: list[tuple[Array, ...]] = []
    for threshold in THRESHOLDS:
        blocks = _components(host, edges[strength >= threshold])
        if blocks and not any(_same(blocks, other) for other in found):
            found.append(blocks)
    judged = [(blocks, *_slowest(lowered, params, codes[:, :1], blocks)) for blocks in found]
    kept = sorted(judged, key=lambda j: -j[1])[:MOST_PARTITIONS]
    return Clusters(tuple(blocks for blocks, _, _ in kept), tuple(words for _, _, words in kept))


def _same(a: tuple[Array, ...], b: tuple[Array, ...]) -> bool:
    return [x.tolist() for x in a] == [x.tolist() for x in b]


def _rests(host: FactorGraph, codes: Array) -> Array:
    """Return values of the rest, half of them probable configurations and half uniform ones.

    If all other cells are settled, no cell has an influence.
    """
    rng = np.random.default_rng(0)
    uniform = (rng.random((host.n_cells, REST_VALUES // 2)) * host.sizes[:, None]).astype(np.int32)
    return np.concatenate([codes[:, np.arange(REST_VALUES // 2) % codes.shape[1]], uniform], axis=1)


def influences(host: FactorGraph, params: Mapping[str, jax.Array], rests: Array, edges: Array) -> Array:
    """Return for each pair the larger of its two influences, over the possible values of the rest.

    Args:
        host: the factor graph.
        params: parameters.
        rests: values of the rest, (cells, rows).
        edges: pairs of cells.

    Returns:
        Array of shape (pairs,), with numbers between 0 and 1.
    """
    blocks = fixed_blocks(host, edges.astype(np.int32))
    # shape (pairs, values, rows)
    scores = np.asarray(_scores(graph_arrays(host), dict(params), jnp.asarray(rests), blocks))
    out = np.zeros(len(edges))
    for k, (i, j) in enumerate(edges):
        a, b = int(host.sizes[i]), int(host.sizes[j])
        table = scores[k, : a * b].reshape(a, b, -1)
        with np.errstate(invalid="ignore"):
            p = np.exp(table - table.max(axis=(0, 1)))
            p = np.nan_to_num(p)
        for t in (p, p.swapaxes(0, 1)):
            mass = t.sum(axis=0)
            # distribution of one cell for each value of the other
            law = np.where(mass > 0, t / np.maximum(mass, 1e-300), np.nan)
            apart = 0.5 * np.abs(law[:, :, None] - law[:, None]).sum(axis=0)
            out[k] = max(out[k], float(np.nan_to_num(apart).max(initial=0.0)))
    return out


@bounded_jit
def _scores(graph: derive.Graph, params: dict[str, jax.Array], codes: jax.Array, blocks: derive.Blocks) -> jax.Array:
    return derive.local_scores(graph, params, codes, blocks)


def _components(host: FactorGraph, edges: Array) -> tuple[Array, ...]:
    """Return cells joined by edges, in clusters that can be enumerated.

    Larger clusters are left out.
    """
    links = scipy.sparse.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(host.n_cells, host.n_cells))
    _, label = connected_components(links, directed=False)
    parts = [np.flatnonzero(label == c) for c in np.unique(label[edges.ravel()])] if len(edges) else []
    return tuple(p for p in parts if joint_count(host.sizes[p]) <= MOST_CLUSTER_VALUES)


def _slowest(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, blocks: tuple[Array, ...]) -> tuple[float, str]:
    """Return the largest Poincare constant of single cells inside a cluster, and a description."""
    constants = [local_constant(lowered, params, codes, cells) for cells in blocks]
    worst = int(np.argmax(constants))
    names = ", ".join(lowered.graph.cell_name(int(c)) for c in blocks[worst][:6]) + ", .." * (len(blocks[worst]) > 6)
    words = f"single cells inside {{{names}}} have Poincare constant {constants[worst]:.3g}, given a likely rest"
    return constants[worst], words


def local_constant(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, cells: Array) -> float:
    """Return the Poincare constant of moves of single cells inside a cluster, exactly.

    Args:
        lowered: the model, with its given data.
        params: parameters.
        codes: one configuration, (cells, 1), at which the other cells are fixed.
        cells: the cells of the cluster.
    """
    host = lowered.graph
    block = fixed_blocks(host, cells[None].astype(np.int32))
    scores = np.asarray(_scores(graph_arrays(host), dict(params), jnp.asarray(codes), block))[0, :, 0]
    sizes = tuple(host.sizes[cells].tolist())
    scores = scores[: int(np.prod(sizes))]
    top = scores.max()
    if not np.isfinite(top):
        return 1.0
    log_p = (scores - top - np.log(np.exp(scores - top).sum())).reshape(sizes)
    space = Configurations(lowered, params, cells, codes, log_p)
    gap, _ = reversible_gap(BlockDynamics(space, [(k,) for k in range(len(cells))], [np.asarray(1 / len(cells))] * len(cells)))
    return np.inf if gap == 0 else 1 / gap


@dataclass(frozen=True)
class Candidate:
    """A mask as text.

    Attributes:
        name: the name of the mask.
        body: the text after the name and `for MODEL`; empty for a mask that the program has.
        why: one line for readers.
    """

    name: str
    body: str
    why: str

    def text(self, model: str, alone: bool) -> str:
        """Return the statement; empty for a mask that the program has."""
        return self.body and f"mask {self.name}{'' if alone else f' for {model}'}{self.body}"

    def in_turn(self, model: str, alone: bool) -> str:
        """Return a sampler that redraws listed blocks one after another; empty for other masks.

        Its name is that of the mask with `_in_turn`.
        """
        each = re.findall(r"{.*?}", self.body, re.DOTALL) if self.body.startswith(LISTED) and " for " not in self.body else []
        updates = " ".join(f"update {block}" for block in each)
        return updates and f"sampler {self.name}_in_turn{'' if alone else f' for {model}'} {{ {updates} }}"


def candidates(model: Model, clusters: Clusters) -> Iterator[Candidate]:
    """Yield candidates in no order.

    Some may be too costly for the model, or cover too few cells.
    """
    host = model.graph
    variables = ", ".join(v.name for v in host.observed)
    cells = np.flatnonzero(host.is_observed)
    yield Candidate("whole", f" = everything({variables})", "all cells: maximum likelihood")
    for size in range(1, min(LARGEST_SUBSETS, len(cells)) + 1):
        why = "every cell on its own: Besag's pseudolikelihood" if size == 1 else f"every {size} cells together"
        yield Candidate(f"subsets_{size}", f" = subsets({variables}, size = {size})", why)
    edges = host.interacting_pairs
    if len(edges):
        yield from _interacting(model, edges, cells)
    for k, blocks in enumerate(clusters.partitions):
        listed = _blocks(host, blocks, cells)
        if listed:
            yield Candidate(f"clusters{f'_{k + 1}' * (k > 0)}", listed, f"strong clusters in one block; {clusters.words[k]}")
    for name, part in _lines(model):
        yield Candidate(f"{name}_{part}".lower(), f" = blocks({name}.{part})", f"the {part} of `{name}`: strips, drawn by elimination")
    forests = _forests(host, cells)
    if len(forests[0]) >= LEAST_FOREST and len(forests) > 1:
        listed = _blocks(host, forests, np.zeros(0, int))
        if listed:
            yield Candidate("forests", listed, "trees of cells, which are drawn exactly in linear time")


def cell_text(host: FactorGraph, position: int) -> str:
    """Return a cell as a program writes it: `x[3]`."""
    v = next(v for v in host.variables if v.offset <= position < v.offset + v.size)
    place = np.unravel_index(position - v.offset, v.shape) if v.shape else ()
    return f"{v.name}[{', '.join(str(int(i)) for i in place)}]" if v.shape else v.name


def _graph_of(model: Model, edges: Array) -> str | None:
    """Return the name of the declared graph with these edges.

    The nodes of the graph must index the only observed variable; otherwise the result is None.
    """
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return None
    own = edges - host.observed[0].offset
    for name, graph in model.program.bound.graphs.items():
        same = not graph.bipartite and graph.n == host.observed[0].size and len(graph.edges) == len(own)
        if same and (np.unique(graph.edges, axis=0) == np.unique(own, axis=0)).all():
            return name
    return None


def _interacting(model: Model, edges: Array, cells: Array) -> Iterator[Candidate]:
    """Yield masks of pairs that share a factor.

    The pairs are equally probable, or a pair is more probable the more its values agree.
    """
    host, graph = model.graph, _graph_of(model, edges)
    lone = np.setdiff1d(cells, edges)
    if graph is not None and not len(lone):
        name = host.observed[0].name
        yield Candidate("edges", f" = blocks({{{name}[i], {name}[j]}} for (i, j) in {graph}.edges)", "the two ends of each edge")
        weighed = f"  choose if {name}[i] == {name}[j] then 3 else 1 : {{{name}[i], {name}[j]}} for (i, j) in {graph}.edges\n"
        yield Candidate("agreeing", f" sees {name} {{\n{weighed}}}", AGREEING)
        return
    listed = _blocks(host, list(edges), lone)
    if not listed:
        return
    yield Candidate("edges", listed, "cells that share a factor, in pairs")
    kinds = [(v.kind, tuple(v.labels)) for v in host.variables for _ in range(v.size)]
    alike = [kinds[i] == kinds[j] for i, j in edges]
    if not any(alike):
        return
    lines = []
    for (i, j), same in zip(edges, alike, strict=True):
        a, b = cell_text(host, i), cell_text(host, j)
        lines.append(f"  choose {f'if {a} == {b} then 3 else 1' if same else '1'} : {{{a}, {b}}}\n")
    lines += [f"  choose 1 : {{{cell_text(host, c)}}}\n" for c in lone]
    given = ", ".join(v.name for v in host.observed if np.isin(v.positions, edges).any())
    yield Candidate("agreeing", f" sees {given} {{\n{''.join(lines)}}}", AGREEING)


def _lines(model: Model) -> Iterator[tuple[str, str]]:
    """Yield rows and columns of grids whose nodes index the only variable."""
    host = model.graph
    if len(host.observed) != 1 or len(host.observed[0].shape) != 1:
        return
    for name, graph in model.program.bound.graphs.items():
        if graph.rows is not None and graph.n == host.observed[0].size:
            yield from ((name, part) for part in ("rows", "columns"))


def _blocks(host: FactorGraph, blocks: Sequence[Array], rest: Array) -> str:
    """Return ` = blocks(..)` of blocks, and of every cell of `rest` outside all blocks.

    It is empty if the blocks are too many to write.
    """
    held = np.concatenate([np.zeros(0, int), *blocks])
    every = [np.asarray(b) for b in blocks] + [np.array([c]) for c in np.setdiff1d(rest, held)]
    if not every or len(every) > MOST_WRITTEN:
        return ""
    return " = blocks(" + ", ".join("{" + ", ".join(cell_text(host, int(c)) for c in np.sort(b)) + "}" for b in every) + ")"


def _forests(host: FactorGraph, cells: Array) -> list[Array]:
    """Return sets of cells without a loop in the factor graph, which together contain every cell.

    A cell joins a set if it closes no loop.
    """
    starts, neighbours = host.neighbours
    # a factor of three cells makes a loop of its cells
    wide = max((g.scope.shape[1] for g in host.groups), default=0) > 2
    left, out = set(cells.tolist()), []
    while left:
        parent: dict[int, int] = {}

        def root(c: int, parent: dict[int, int] = parent) -> int:
            while parent[c] != c:
                parent[c] = parent[parent[c]]
                c = parent[c]
            return c

        degree = np.diff(starts)
        for c in sorted(cells.tolist(), key=lambda c: (c not in left, degree[c], c)):
            near = [root(int(n)) for n in neighbours[starts[c] : starts[c + 1]] if int(n) in parent]
            if len(near) == len(set(near)) and (not wide or not near):
                parent[c] = c
                for r in near:
                    parent[r] = c
        out.append(np.sort(np.array(list(parent))))
        left -= set(parent)
        if len(out) > MOST_WRITTEN:
            return [np.zeros(0, int)]
    return out


class MaskSuggestions(str):
    """Masks as `.gmlm` text, the best first: a str with the comparison that ranked them.

    Attributes:
        comparison: the table.
        names: the names of the masks in order.
        left_out: candidates that were not compared, each with the reason.
    """

    comparison: MaskComparison
    names: tuple[str, ...]
    left_out: tuple[str, ...]

    def __repr__(self) -> str:
        return str(self)


def suggest_masks(
    model: Model,
    params: Params | None = None,
    *,
    draws: int | None = None,
    sampler: str | None = None,
    seed: int = 0,
    given: Given | None = None,
    measure: bool = True,
) -> MaskSuggestions:
    """Suggest masks from the model's graph, ranked, as text to paste after the model.

    Candidates are

    - subsets of cells,
    - pairs that share a factor, both plain and adaptive (a pair is more probable the more its
      values agree),
    - strong clusters,
    - rows and columns of grids,
    - forests,
    - all cells.

    A cluster is found by exact local analysis: the influences of cells on one another, and the
    Poincare constant of single-cell moves in the cluster.

    Candidates are ranked by the variance of a fit with default options. Candidates within 10 % of
    one another are ranked by the time of a gradient.

    Args:
        model: a model, or a fit (then `params` are its estimates).
        params: parameters.
        draws: the number of draws for estimates; None computes exact numbers if possible, see
            `compare_masks`.
        sampler: the sampler for the draws.
        seed: the seed of the draws.
        given: one row of data of given variables.
        measure: whether gradients and steps are timed. Otherwise masks of similar variance are
            ranked by the size of their blocks.

    Returns:
        A str of `mask` statements, each with a comment, which pass the checker as they stand. Its
            `comparison` has the numbers. A mask of listed blocks comes with a sampler that redraws
            the blocks in turn. Per step this sampler forgets more than one that draws a block from
            the mask.

    Raises:
        GmlmError: as `compare_masks`.
    """
    if isinstance(model, Fit):
        params, model = model.params if params is None else params, model.model
    if params is None:
        raise fail("E507", "suggest_masks needs parameters, or a fit", help="`suggest_masks(model, params)`, `suggest_masks(fit)`")
    means = Means(draws, sampler, verified_seed(seed), given, measure)
    lowered, arrays, codes = _likely_rows(model, params, means)
    with jax.enable_x64(True):
        clusters = strong_clusters(lowered, arrays, codes, model.graph.interacting_pairs)
    kept, extended, left_out = _that_compile(model, list(candidates(model, clusters)))
    comparison = comparison_of(extended, params, [c.name for c in kept], f"suggest_masks({model.name}{means.words})", means)
    order = sorted(comparison.reports, key=_rank)
    by_name = {c.name: c for c in kept}
    body = "".join(_statement(k + 1, r, by_name[r.name], model) for k, r in enumerate(order))
    head = "\n#\n".join(_comment(text) for text in (comparison.words, *comparison.recommendation.splitlines()))
    tail = "".join(f"{_comment(f'left out: {why}')}\n" for why in left_out)
    found = MaskSuggestions(format_source(f"{head}\n\n{body}\n{tail}", "<suggested>"))
    found.comparison, found.names, found.left_out = comparison, tuple(r.name for r in order), tuple(left_out)
    return found


def _likely_rows(model: Model, params: Params, means: Means) -> tuple[Lowered, dict[str, jax.Array], Array]:
    """Return the model with its given data, the parameters, and configurations drawn from p.

    The configurations include latents.

    Raises:
        GmlmError: E507, E601 for latents that are too many to enumerate.
    """
    count = joint_count(model.graph.sizes)
    if means.draws is None and means.sampler is None and count <= MOST_STATES:
        space = configurations(model, params, "the suggestion of masks", latents=True, given=means.given)
        chosen = generator(means.seed).choice(space.count, LIKELY_CONFIGURATIONS, p=space.p.ravel() / space.p.sum())
        return space.lowered, dict(space.params), space.codes[:, chosen]
    if model.graph.latents:
        message = f"model `{model.name}` has latents: masks are suggested up to {MOST_STATES:,} configurations of all its cells"
        raise fail("E601" if count > MOST_STATES else "E507", message, help="leave `draws` and `sampler` out, or take a smaller model")
    rows = rows_of(model, params, means)
    return rows.lowered, rows.params, rows.codes


def _that_compile(model: Model, found: list[Candidate]) -> tuple[list[Candidate], Model, list[str]]:
    """Return affordable candidates, the model with their masks, and reasons for the others.

    The reasons state why candidates were left out. Each distribution of blocks occurs once. A mask
    of the program replaces the candidate with the same distribution, whatever its name.
    """
    taken, left_out = _names(model), []
    own = {law: name for name in reversed(model.masks) if (law := _law(model.mask(name)[1], model.graph.n_cells)) is not None}
    kept: dict[Hashable, Candidate] = {}
    for candidate in found:
        candidate = _renamed(candidate, model, taken)
        try:
            extended = model.program.extended(_written(candidate, model)).model(model.name)
            mask = extended.mask(candidate.name)[1]
            verify_modest(extended.graph, mask)
        except GmlmError as error:
            left_out.append(f"{candidate.name}: {error.diagnostics[0].message}")
            continue
        law = _law(mask, model.graph.n_cells) or candidate.name
        if law in kept:
            candidate = replace(kept[law], why=f"{kept[law].why}; {candidate.why}")
        elif law in own:
            candidate = replace(candidate, name=own[law], body="")
        kept[law] = candidate
    listed = list(kept.values())
    return listed, model.program.extended("".join(_written(c, model) for c in listed)).model(model.name), left_out


def _renamed(candidate: Candidate, model: Model, taken: set[str]) -> Candidate:
    """Return the candidate under an unused name.

    A candidate that the program declares literally represents the program's own mask.
    """
    if candidate.name in model.masks and any(_words(_written(candidate, model)) in _words(s.text) for s in model.program.checked.sources):
        return replace(candidate, body="")
    names = (candidate.name, f"suggested_{candidate.name}", *(f"suggested_{candidate.name}_{k}" for k in range(2, 1000)))
    return replace(candidate, name=next(n for n in names if n not in taken))


def _words(text: str) -> str:
    return " ".join(text.split())


def _law(mask: AbstractMask, n_cells: int) -> Hashable:
    """Return a key that is equal for masks with the same distribution of blocks, or None.

    The key does not depend on how a mask is written. It is None if the distributions cannot be
    compared.
    """
    if mask.varies or mask.mentions_parameter:
        return None
    if mask.support_size > MOST_BLOCK_VALUES:
        return mask.key(int)
    blocks, p = mask.enumerate_blocks()
    assert p is not None
    return frozenset((tuple(c for c in block if c < n_cells), round(q, 12)) for block, q in zip(blocks.tolist(), p.tolist(), strict=True))


def verify_modest(host: FactorGraph, mask: AbstractMask) -> None:
    """Raise E601 for a mask whose loss would enumerate many joint values.

    Raises:
        GmlmError: E601.
    """
    plan = plan_mask(host, mask, mask.is_adaptive)
    verify_affordable(plan, "a block", mask.span)
    if plan.method != "product" and plan.values > MOST_BLOCK_VALUES:
        raise fail("E601", f"a block has {plan.values:.3g} joint values, more than {MOST_BLOCK_VALUES:,}", mask.span)
    blocks = mask.support_size if masks_per_row(mask, None) is None else 1.0
    work = blocks * plan.values * (1 + sum(p.size for p in host.parameters))
    if work > MOST_SUGGESTED_WORK:
        message = f"{blocks:,.0f} blocks of {plan.values:.3g} joint values: the information of a row takes {work:.3g} entries"
        raise fail("E601", f"{message}, more than {MOST_SUGGESTED_WORK:,}", mask.span)


def _names(model: Model) -> set[str]:
    """Return every name of the program and of the model."""
    c, m = model.program.checked, model.program.checked.models[model.name]
    tables = (c.inputs, c.domains, c.index_sets, c.graphs, c.networks, c.models, c.masks, c.samplers, m.variables, m.parameters, m.lets)
    return {name for table in tables for name in table}


def _written(candidate: Candidate, model: Model) -> str:
    return f"{candidate.text(model.name, len(model.program.checked.models) == 1)}\n"


def _rank(r: MaskReport) -> tuple[float, float]:
    """Return a key that sorts by variance in steps of 10 %, and then by cost."""
    step = np.inf if not np.isfinite(r.variance) else float(np.round(np.log(max(r.variance, 1.0)) / RANKING_STEP))
    return step, r.mean_size if r.gradient is None else float(r.gradient)


def _statement(place: int, r: MaskReport, candidate: Candidate, model: Model) -> str:
    """Return a mask's statement with a comment on its efficiency."""
    own = "" if candidate.body else f"`{r.name}` of the program: "
    words = f"{place}. {own}{candidate.why}. Variance {r.variance:.4g} times maximum likelihood's"
    if r.averages and r.blocks > 1:
        words += f" with every mask, {float(r.variance_one):.4g} with one drawn for each row"
    words += f"; Poincare constant {'>= ' * (r.poincare.kind == 'lower bound')}{float(r.poincare):.4g}"
    words += "" if r.gradient is None else f"; {float(r.gradient):.3g} ms a gradient"
    words += "" if r.step is None else f", {float(r.step):.3g} us a step"
    words += f". Does not see {', '.join(r.unseen[:4])}{', ..' * (len(r.unseen) > 4)}" if r.unseen else ""
    turns = candidate.in_turn(model.name, len(model.program.checked.models) == 1)
    if turns and f"{candidate.name}_in_turn" not in _names(model):
        turns = f"{_comment('A chain that redraws each of its blocks once a step:')}\n{turns}\n\n"
        return f"{_comment(words)}\n{_written(candidate, model)}{turns}"
    return f"{_comment(words)}\n{_written(candidate, model)}\n"


def _comment(text: str) -> str:
    return textwrap.fill(text, 100, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
