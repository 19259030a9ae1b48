"""Sampling for the methods of a model.

Options are verified, chains run, and draws are labelled for ArviZ.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, listed, tell, truth, unknown, with_whole_numbers
from .._progress import shows_progress
from .._types import Clamp, Coords, DrawsLike, JsonObject, ObserveLike, Rows
from ..data import clamped_cells, decode, identity_of_computation, verified_seed
from ..evaluate import Contractions, independent_kernel, verified_partition
from ..graph import STAYS_FINITE, FactorGraph, FactorGroup, Lowered, VariableArray, lower_added_let, lower_let
from ..masks import lower_mask
from ..plan import BUDGET, verify_held
from ..program import added_let, ir, of_added
from . import limits
from ._arviz import to_arviz
from ._discrete_diagnostics import Diagnosis, diagnose_pieces
from ._run_chains import KernelRun
from ._run_kernel import Draws
from ._starts import Annealed, Starts, at_held, starts

Array = np.ndarray

if TYPE_CHECKING:
    from jaxtyping import PyTree

FEWER = "fewer `draws=` or `chains=`"


@dataclass(frozen=True)
class SampleOptions:
    """Options of sampling; see `Model.sample`."""

    sampler: str
    draws: int
    warmup: int
    chains: int
    thin: int
    seed: int
    clamp: Clamp | None
    init: Rows | None
    observe: ObserveLike | None
    keep_draws: bool
    progress: bool | None
    mesh_axis: str | None = None
    cell_axis: str | None = None
    store: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class ChainRun:
    """Draws of chains with the kernel that made them.

    Attributes:
        draws: the draws.
        planned: the kernel, with the names of its updates.
        held: booleans of the clamped cells, shape (cells,).
        options: the verified options.
        starts: the starts in words.
    """

    draws: Draws
    planned: derive.Planned
    held: np.ndarray
    options: SampleOptions
    starts: str

    @property
    def is_diagnosed(self) -> bool:
        """Whether draws need diagnostics; independent draws differ only by chance."""
        return not isinstance(self.planned.kernel, derive.IndependentKernel)

    def diagnosed(self, graph: FactorGraph, pieces: Iterable[tuple[slice, Array]] | None = None) -> Diagnosis:
        """Return the diagnostics of kept draws.

        Args:
            graph: the factor graph.
            pieces: the codes of some cells after the other, if they are not in `draws`; see
                `diagnose_pieces`.
        """
        found, n, shape = (self.draws, graph.n_random, (int(self.options.chains), int(self.options.draws)))
        if pieces is None:
            assert found.codes is not None
            pieces, shape = [(slice(0, n), found.codes[..., :n])], found.codes.shape[:2]
        rates = _rates(found.changed.sum(axis=(0, 1)), found.drawn.sum(axis=(0, 1)))
        cells = [graph.cell_name(i) for i in range(n)]
        values = [labels for v in graph.variables for labels in [tuple(map(str, v.labels))] * v.size]
        names = _distinct(_names(self.planned))
        clamped = self.held[:n] | (graph.sizes[:n] == 1)  # A cell with one value never moves.
        told = diagnose_pieces(pieces, (*shape, n), cells, values, clamped=clamped, flip_rates=_moving(names, rates))
        return replace(told, warnings=(*told.warnings, *_seldom_exchanged(self.planned.pairs, found)))


@dataclass(frozen=True)
class PreparedRun:
    """Chains that are ready to run, with what labels their draws."""

    lowered: Lowered
    chains: KernelRun
    planned: derive.Planned
    held: np.ndarray
    options: SampleOptions
    starts: str

    def of(self, draws: Draws) -> ChainRun:
        """Return draws of these chains, all or some."""
        return ChainRun(draws, self.planned, self.held, self.options, self.starts)

    def labelled(self, provenance: JsonObject) -> DrawsLike:
        """Run the chains, and return their draws as the object of the installed ArviZ.

        Args:
            provenance: attributes to record with the draws.
        """
        return label(self.lowered.graph, self.of(self.chains.run()), provenance)


def run_chains(lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array], options: SampleOptions) -> ChainRun:
    """Run the chains of a sampler, see `prepare_chains`."""
    prepared = prepare_chains(lowered, sampler, params, options)
    return prepared.of(prepared.chains.run())


def prepare_chains(lowered: Lowered, sampler: ir.Sampler | None, params: dict[str, jax.Array], options: SampleOptions) -> PreparedRun:
    """Return the chains of a sampler, or of sweeps of single cells if it is None.

    Args:
        lowered: the model.
        sampler: the sampler, or None.
        params: parameters.
        options: the options of sampling.

    Raises:
        GmlmError: for options that do not fit, a start of probability zero, or too costly a block.
    """
    options = verified_options(options)
    graph = lowered.graph
    if sampler is None:
        kernel = derive.at_parameters(graph, derive.single_site_sweep(graph), params)
        planned, body = derive.Planned(kernel, ("`sweep of single cells`",)), ()
    else:
        planned, body = derive.build_kernel(lowered, sampler, params, keep=True), sampler.body
    planned = replace(planned, kernel=_over_cells(planned.kernel, options))
    observe, anneal = (observables(lowered, params, options.observe), options.init.steps if isinstance(options.init, Annealed) else 0)
    _verify_cost(planned.kernel, graph, options, anneal, observe)
    for mask in masks_in(body):
        lower_mask(lowered, mask).verify(graph.sizes, {k: np.asarray(v) for k, v in params.items()})
    held = clamped_cells(graph, options.clamp)
    device = derive.graph_arrays(graph)
    clamped = derive.on_device(np.append(held[0], False)) if held[0].any() else None
    target = derive.Target(device, params, clamped)
    fresh = isinstance(body, ir.FormCall) or ir.start_of(body) is not None
    if fresh and options.init is not None:
        message = f"`init=` has no meaning for sampler `{options.sampler}`, each draw of which begins anew"
        raise fail("E507", message, help="leave it out")
    begun = at_held(held, options.chains) if fresh else starts(graph, options.chains, options.seed, options.init, held, params)
    chains = _chains(planned.kernel, target, begun.codes, options, observe)
    return PreparedRun(lowered, replace(chains, anneal=anneal), planned, held[0], options, _words(begun, options.init))


def prepare_exact(lowered: Lowered, kept: Contractions, params: dict[str, jax.Array], options: SampleOptions) -> PreparedRun:
    """Return the chains of independent draws from p, given clamped cells.

    There is no warm-up, no thinning, and no start.

    Args:
        lowered: the model.
        kept: the contractions of the model.
        params: parameters.
        options: the options of sampling.

    Raises:
        GmlmError: E601 if that is not affordable; E507 for `init=`; E512 if no configuration agrees
            with the clamped cells.
    """
    options = verified_options(options)
    if options.init is not None:
        raise fail("E507", "exact draws are independent: they start nowhere", help="leave out `init=`")
    graph = lowered.graph
    # the graph with cells for partial sums
    whole = graph if kept.graph.n_cells == graph.n_cells else kept.graph
    held = kept.clamped(options.clamp, params)
    device = derive.graph_arrays(whole)
    kernel, line = independent_kernel(kept, device, params, held)
    kernel = _over_cells(kernel, options)
    observe, options = (observables(lowered, params, options.observe), replace(options, warmup=0, thin=1))
    _verify_cost(kernel, whole, options, 0, observe)
    codes = np.repeat(held[1][:, None], options.chains, axis=1)
    chains = _chains(kernel, derive.Target(device, params, None), codes, options, observe)
    return PreparedRun(lowered, chains, derive.Planned(kernel, (line,)), held[0][: graph.n_cells], options, "none: draws are independent")


def _chains(
    kernel: derive.AbstractKernel, target: derive.Target, codes: np.ndarray, options: SampleOptions, observe: Observables | None
) -> KernelRun:
    return KernelRun(
        kernel,
        target,
        codes,
        options.seed,
        options.draws,
        options.warmup,
        options.thin,
        observe=observe,
        keep=options.keep_draws,
        progress=shows_progress(options.progress),
        spread=derive.spread_of(options.mesh_axis),
    )


def _verify_cost(
    kernel: derive.AbstractKernel, graph: FactorGraph, options: SampleOptions, anneal: int, observe: Observables | None
) -> None:
    chains, draws = int(options.chains), int(options.draws)
    verify_chains(kernel, graph.n_cells, chains, anneal + int(options.warmup) + draws * int(options.thin))
    if options.store is None:
        verify_draws(kernel, graph.n_cells, int(graph.sizes.max()), chains, draws, options.keep_draws, observe)
        return
    each = (16.0 + limits.DIAGNOSED_DRAW) * options.keep_draws
    help = f"{FEWER}, or a larger `thin=`; without diagnostics: `keep_draws=False` with `observe=`"
    verify_held(each * chains * draws, f"the diagnostics of a cell, from {draws:,} draws of each of {chains:,} chains,", help)


def verify_chains(kernel: derive.AbstractKernel, cells: int, chains: int, steps: int) -> None:
    """Raise E601 if chains take too much memory or too many steps.

    The memory is that of their states and of a step, and the work is the number of cells redrawn.

    Args:
        kernel: the kernel.
        cells: the number of cells of a chain.
        chains: the number of chains.
        steps: the number of steps of each chain.

    Raises:
        GmlmError: E601.
    """
    each = 16.0 * cells + kernel.held(cells)
    verify_held(float(min(chains, 10**18)) * each, f"{chains:,} chains of {cells:,} cells", "fewer chains, or smaller blocks")
    if steps > limits.MOST_STEPS:
        raise fail(
            "E601",
            f"{steps:,} steps of every chain are more than the limit of {limits.MOST_STEPS:,}",
            help="fewer draws, or a smaller `thin`",
        )
    redrawn = float(chains) * steps * kernel.runs * cells
    if redrawn > BUDGET.redraws:
        message = f"{chains:,} chains redraw cells {redrawn:.3g} times, more than the limit of {BUDGET.redraws:.3g}"
        raise fail("E601", message, help="fewer draws, chains or steps, or a smaller `repeat`")


def verify_draws(
    kernel: derive.AbstractKernel, cells: int, most_values: int, chains: int, draws: int, keep: bool, observe: Observables | None = None
) -> None:
    """Raise E601 if draws take too much memory.

    The memory is that of kept draws, of observables, and of the numbers for diagnostics.

    Args:
        kernel: the kernel.
        cells: the number of cells of a chain.
        most_values: the maximum number of values of a cell.
        chains: the number of chains.
        draws: the number of draws of each chain.
        keep: whether draws are kept.
        observe: the function of codes that is recorded, or None.

    Raises:
        GmlmError: E601.
    """
    item = 4 if most_values > 127 else 1
    kept = limits.COPIES * item * cells if keep else 0
    counts = 2 * derive.float_type().itemsize + 16 * (kernel.updates + kernel.pairs)
    seen = 0
    if observe is not None:
        found = jax.eval_shape(observe, jax.ShapeDtypeStruct((cells, 1), jnp.int32))
        seen = sum(2 * math.prod(a.shape) * a.dtype.itemsize for a in found.values())
    help = f"{FEWER}; `keep_draws=False` with `observe=` keeps numbers of each draw only" if keep else FEWER
    verify_held(chains * draws * (kept + counts + seen), f"{draws:,} draws of each of {chains:,} chains of {cells:,} cells", help)


def masks_in(body: tuple[ir.Kernel, ...] | ir.FormCall) -> list[ir.Mask]:
    """Return the masks of a sampler that mention parameters."""
    drawn = (update.drawn_mask for update in ir.updates_in(body))
    return [mask for mask in drawn if mask is not None and mask.mentions_parameter]


def _words(begun: Starts, init: Rows | None) -> str:
    words = {
        "given": "given",
        "uniform": "uniform",
        "built": "built by moves of single cells, not uniform",
        "drawn": "exact draws from p where no other start was found",
        "searched": "configurations that a search in depth found, where no other start was found: possible ones, not draws from p",
        "own": "the sampler's own",
    }[begun.how]
    return f"{words}, then {init.steps} annealing steps" if isinstance(init, Annealed) else words


def _over_cells(kernel: derive.AbstractKernel, options: SampleOptions) -> derive.AbstractKernel:
    """Return the kernel, with the cells of its colours spread if that is requested."""
    if options.cell_axis is None:
        return kernel
    return derive.over_cells(kernel, derive.spread_over(options.cell_axis))


def verified_options(options: SampleOptions) -> SampleOptions:
    """Return the options with Python integers.

    Raises:
        GmlmError: E507.
    """
    verified_seed(options.seed)
    options = with_whole_numbers(options, {"draws": 1, "warmup": 0, "chains": 1, "thin": 1})
    return replace(options, keep_draws=truth("keep_draws", options.keep_draws))


class LetValues(eqx.Module):
    """Values of a `let`, chains first."""

    group: derive.Group
    params: Mapping[str, PyTree]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, codes: jax.Array) -> jax.Array:
        return derive.all_values(self.group, self.params, codes).T.reshape(-1, *self.shape)


@dataclass(frozen=True)
class UserFunction:
    """A user's function. It is equal to others of the same `computation`, which share compiled programs."""

    call: Callable[[Any], object] = field(compare=False)
    computation: Hashable = None


class FunctionValues(eqx.Module):
    """Values of a user's function of one configuration, chains first."""

    function: UserFunction = eqx.field(static=True)
    variables: tuple[VariableArray, ...] = eqx.field(static=True)

    def __call__(self, codes: jax.Array) -> jax.Array:
        parts = {v.name: codes[v.offset : v.offset + v.size].T.reshape(-1, *v.shape) for v in self.variables}
        values = {v.name: v.values_of(parts[v.name]) for v in self.variables}
        given = values if len(values) > 1 else next(iter(values.values()))
        return jax.vmap(lambda x: jnp.asarray(self.function.call(x)))(given)  # pyright: ignore[reportGeneralTypeIssues]


class Observables(eqx.Module):
    """Function from codes (cells, chains) to arrays by name, chains first."""

    parts: dict[str, LetValues | FunctionValues]

    def __call__(self, codes: jax.Array) -> dict[str, jax.Array]:
        return {name: f(codes) for name, f in self.parts.items()}


def observables(
    lowered: Lowered, params: Mapping[str, PyTree], observe: ObserveLike | None, variables: tuple[VariableArray, ...] | None = None
) -> Observables | None:
    """Return the function that records observables of draws, or None if there are none.

    Args:
        lowered: the model.
        params: parameters.
        observe: functions by name, names of `let`s, or expressions of the language.
        variables: the variables that functions take; None for all.
    """
    named = _named(observe)
    if not named:
        return None
    return Observables(
        {name: _observable(lowered, params, name, what, variables or lowered.graph.variables) for name, what in named.items()}
    )


def _named(observe: ObserveLike | None) -> dict[str, Any]:
    """Return by name the observables to record: functions, names of `let`s, or expressions.

    Raises:
        GmlmError: E507.
    """
    given = {} if observe is None else [observe] if isinstance(observe, str) else observe
    if not isinstance(given, Mapping | list | tuple) or not all(isinstance(name, str) for name in given):
        message = f"observe must be a dict of functions or expressions, or the names of `let`s, got {type(observe).__name__}"
        raise fail("E507", message, help='for example `observe={"m": "sum(x[i] for i in site)", "v": lambda x: x.var()}`')
    return dict(given) if isinstance(given, Mapping) else {n: n for n in given}


def _observable(
    lowered: Lowered, params: Mapping[str, PyTree], name: str, what: Any, variables: tuple[VariableArray, ...]
) -> LetValues | FunctionValues:
    if name in [v.name for v in lowered.graph.variables]:
        raise fail("E507", f"observe: `{name}` is a variable's name", help="choose another")
    if isinstance(what, str):
        lets = lowered.names.model.lets
        if what not in lets and what.isidentifier() and what not in _names_of_values(lowered):
            raise unknown(f"observe: the model has no `let` called `{what}`", what, lets)
        group, shape = lower_let(lowered, what) if what in lets else _lowered(lowered, what)
        return LetValues(derive.group_arrays(group, lowered.graph.n_cells), params, shape)
    if not callable(what):
        raise fail("E507", f"observe: `{name}` must be a function of one configuration, the name of a `let`, or an expression")
    values = FunctionValues(UserFunction(what), variables)
    try:
        # Values that the function looks up may have changed, so that it is traced in every call.
        computation = identity_of_computation(values, jax.ShapeDtypeStruct((lowered.graph.n_cells, 1), jnp.int32))
    except Exception as error:  # a user's function may raise any exception
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        help = "it takes one configuration as arrays, labels and letters as codes from 0; it uses `jax.numpy`, and `jnp.where` for `if`"
        raise fail("E553", f"`{name}` fails: {type(error).__name__}: {first}", help=help) from None
    return FunctionValues(UserFunction(what, computation), variables)


def _names_of_values(lowered: Lowered) -> set[str]:
    """Return the names that may be an expression by themselves."""
    model = lowered.names.model
    return {*model.variables, *model.parameters, *lowered.bound.program.inputs}


def _lowered(lowered: Lowered, text: str) -> tuple[FactorGroup, tuple[int, ...]]:
    """Return an expression of the language as a `let` of the model.

    Equal expressions share their compiled programs.
    """
    kept = lowered.kept.setdefault("observed expressions", {})
    if text not in kept:
        kept[text] = added_let(lowered.bound.program, lowered.names.model.name, text)
    try:
        return lower_added_let(lowered, kept[text])
    except GmlmError as error:
        raise of_added(error, kept[text], text) from None


def label(graph: FactorGraph, run: ChainRun, provenance: JsonObject) -> DrawsLike:
    """Return draws with named dims and coords, statistics, warnings and provenance.

    The codes of the draws become their values, in place if possible.

    Args:
        graph: the factor graph.
        run: the draws, and the kernel that made them.
        provenance: attributes to record with the draws.
    """
    verify_scores(graph, run.draws)
    attrs = attributes(graph, run, provenance)
    if run.draws.codes is not None and run.is_diagnosed:
        attrs |= {"warnings": told(run.diagnosed(graph))}
    posterior, stats = named_arrays(graph, run, copy=False)
    return to_arviz(posterior, *axes(graph, run), stats, None, attrs, texts=graph.texts)


def told(diagnosis: Diagnosis) -> str:
    """Issue the warnings of a diagnosis, and return them as the text that draws keep."""
    for text in diagnosis.warnings:
        tell(text, SamplingWarning)
    return "\n".join(diagnosis.warnings)


def verify_scores(graph: FactorGraph, found: Draws) -> None:
    """Raise an error if the log p of a draw is not a number or needs more digits, or if a cell had no distribution.

    Raises:
        GmlmError: E514, E747 for a network, and those of `verified_partition`.
    """
    if graph.network is not None:
        kept = found.last.T if found.codes is None else found.codes.reshape(-1, found.codes.shape[-1])
        for cell in np.flatnonzero((kept == derive.UNDEFINED).any(axis=0)).tolist():
            raise derive.undefined_outputs(f"network `{graph.network.label}`", f"at {graph.cell_name(cell)}")
    if found.score is not None and not (np.asarray(found.score) < np.inf).all():
        raise fail("E514", "the log p of a draw is not a number or +inf: a factor has no value there", help=STAYS_FINITE)
    if found.score is not None:
        verified_partition(graph, np.asarray(found.score).max(keepdims=True), " that was drawn")


def named_arrays(graph: FactorGraph, run: ChainRun, copy: bool = True) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the values of draws and of observables, and the statistics, (chain, draw, *axes).

    Args:
        graph: the factor graph.
        run: the draws.
        copy: whether the codes of the draws must stay as they are.
    """
    found = run.draws
    posterior = dict(found.observed)
    if found.codes is not None:
        posterior |= decode(graph, np.moveaxis(found.codes, -1, 0), found.codes.shape[:2], copy)
    stats = {} if found.score is None or found.codes is None else {"lp": found.score}
    stats["flip_rate"] = _rates(found.changed, found.drawn)
    if run.planned.pairs:
        stats["swap_rate"] = _rates(found.accepted, found.proposed)
    return posterior, stats


def axes(graph: FactorGraph, run: ChainRun) -> tuple[dict[str, list[str]], Coords]:
    """Return the dims of each array of `named_arrays`, and the labels of each dim."""
    kept = graph.variables if run.options.keep_draws else ()
    dims = {v.name: list(v.dims) for v in kept} | {"flip_rate": ["update"]}
    coords = {d: [_plain(x) for x in c] for v in kept for d, c in zip(v.dims, v.coords, strict=True)}
    coords["update"] = _distinct(_names(run.planned))
    if run.planned.pairs:
        dims["swap_rate"], coords["pair"] = ["pair"], _distinct(run.planned.pairs)
    return dims, coords


def attributes(graph: FactorGraph, run: ChainRun, provenance: JsonObject) -> JsonObject:
    """Return the attributes of draws, without the warnings of their diagnosis."""
    options, versions = (run.options, ", ".join(f"{k} {v}" for k, v in provenance["versions"].items()))
    attrs = {"sampler": options.sampler, "seed": options.seed, "warmup": options.warmup, "thin": options.thin}
    attrs |= {"model": provenance["model"], "program_sha256": provenance["sha256"], "versions": versions, "starts": run.starts}
    return attrs | {"labels": str(graph.texts)}


def _names(planned: derive.Planned) -> list[str]:
    """Return a short name of each update."""
    return [u.split("`")[1] if u.count("`") >= 2 else f"update {k}" for k, u in enumerate(planned.lines)]


def _rates(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return shares, NaN where the denominator is 0."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _distinct(names: Sequence[str]) -> list[str]:
    return [n if names.count(n) == 1 else f"{n} ({k})" for k, n in enumerate(names)]


def _moving(names: Sequence[str], rates: np.ndarray) -> dict[str, float]:
    """Return the flip rates of the updates that had a cell to draw.

    An update whose cells are all clamped has no rate.
    """
    return {n: r for n, r in zip(names, rates.tolist(), strict=True) if not np.isnan(r)}


def _seldom_exchanged(pairs: Sequence[str], found: Draws) -> list[str]:
    """Return a warning about neighbours in a ladder that hardly ever exchange, if there are any.

    The colder one of such a pair gains nothing from the hotter one.
    """
    rates = _rates(found.accepted.sum(axis=(0, 1)), found.proposed.sum(axis=(0, 1)))
    rare = [f"{pair} ({rate:.2g})" for pair, rate in zip(pairs, rates.tolist(), strict=True) if rate < limits.MIN_SWAP_RATE]
    if not rare:
        return []
    return [
        f"The swap rate is smaller than {limits.MIN_SWAP_RATE} for some pairs of betas: {listed(rare, 5)}. "
        "The chains there do not exchange: list betas between them."
    ]


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


class SamplingWarning(UserWarning):
    """Finding about the draws that a user should act on."""
