"""Each verb of a model beside the oracle. A comparison returns None, or what is wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from unittest.mock import patch

import jax
import numpy as np
from oracle import Oracle, numerical_gradient
from oracle._expressions import Scope, evaluate

import gmlmdsl as gm
from gmlmdsl import graph
from gmlmdsl.evaluate import limits, log_prior
from gmlmdsl.program import ir, is_guided

from ._programs import Program

Params = dict[str, np.ndarray]


@dataclass(frozen=True)
class Failure:
    """A comparison that failed: of what, how (a mismatch, a refusal, the type of an exception), and both sides."""

    what: str
    how: str
    detail: str


class Tried:
    """A program in the package and in the oracle, in one precision."""

    def __init__(self, program: Program, x64: bool):
        self.program, self.x64 = program, x64
        self.exact = {"rtol": 1e-9, "atol": 1e-9} if x64 else {"rtol": 2e-4, "atol": 2e-4}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.bound = gm.parse(program.text, **program.inputs)
            self.model = self.bound.model("m")
        self.rng = np.random.default_rng(program.seed)

    @cached_property
    def oracle(self) -> Oracle:
        """The same by enumeration."""
        return Oracle(self.bound.checked, "m", self.program.inputs, self.program.given)

    @cached_property
    def params(self) -> Params:
        """The parameters."""
        return {k: v for k, v in self.program.params.items() if k in self.oracle.model.parameters}

    @cached_property
    def log_p(self) -> np.ndarray:
        """Unnormalised log p of every configuration."""
        return self.oracle.log_table(self.params).ravel()

    @cached_property
    def probabilities(self) -> np.ndarray:
        """p of every configuration; none where nothing is possible."""
        weights = np.exp(self.log_p - self.log_p.max())
        return weights / weights.sum()

    @property
    def possible(self) -> bool:
        """Whether some configuration has p > 0."""
        return bool(np.isfinite(self.log_p).any())

    def values(self, codes: np.ndarray) -> Any:
        """Rows of codes as a model takes them."""
        found = {k: v.astype(int) for k, v in self.oracle.decode(codes).items()}
        return found if len(found) > 1 else next(iter(found.values()))

    def given(self, rows: int | None = None) -> dict[str, Any]:
        """The given data, once for each row."""
        own = self.program.given
        if not own:
            return {}
        if rows is None:
            return {"given": own}
        return {"given": {k: np.broadcast_to(v, (rows, *np.shape(v))) for k, v in own.items()}}

    @cached_property
    def rows(self) -> np.ndarray:
        """Some possible rows, as codes."""
        return self.oracle.states[self.rng.choice(len(self.log_p), 6, p=self.probabilities)]

    @property
    def masks(self) -> list[str]:
        """The masks of the model."""
        return [n for n, m in self.bound.checked.masks.items() if m.model == "m"]

    @property
    def samplers(self) -> list[str]:
        """The samplers of the model that are chains on its configurations."""
        found = self.bound.checked.samplers.items()
        return [n for n, s in found if s.model == "m" and isinstance(s.body, tuple) and not any(isinstance(k, ir.Temper) for k in s.body)]

    @property
    def tempers(self) -> list[str]:
        """The samplers with replicas."""
        found = self.bound.checked.samplers.items()
        return [n for n, s in found if s.model == "m" and isinstance(s.body, tuple) and any(isinstance(k, ir.Temper) for k in s.body)]

    def mentions_parameter(self, mask: str) -> bool:
        """Whether a mask draws only."""
        return self.model.mask(mask)[1].mentions_parameter


def differs(found: Any, wanted: Any, tolerance: dict[str, float]) -> str | None:
    """Where two arrays differ; infinities and nan must stand in the same places."""
    a, b = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    if a.shape != b.shape:
        return f"shape {a.shape}, should be {b.shape}"
    good = np.isclose(a, b, equal_nan=True, **tolerance)
    if good.all():
        return None
    k = np.unravel_index(int(np.argmin(good)), good.shape)
    return f"at {tuple(map(int, k))}: {a[k]!r}, should be {b[k]!r} ({int((~good).sum())} of {good.size} differ)"


COMPARISONS: dict[str, Callable[[Tried], str | None]] = {}


def by_both_engines(compare: Callable[[Tried], str | None]) -> Callable[[Tried], str | None]:
    """A comparison of exact sums, once as they are, which is in NumPy for small models, and once compiled."""

    def both(t: Tried) -> str | None:
        bad = compare(t)
        if bad:
            return bad
        with patch.object(limits, "HOST_SECONDS", -1.0):
            bad = compare(t)
        return f"compiled, {bad}" if bad else None

    return both


def comparison(name: str):
    """Registers a comparison."""

    def register(f: Callable[[Tried], str | None]):
        COMPARISONS[name] = f
        return f

    return register


@comparison("log potential")
def _potential(t: Tried) -> str | None:
    states = t.oracle.states
    return differs(t.model.log_potential(t.params, t.values(states), **t.given(len(states))), t.log_p, t.exact)


@comparison("log partition")
@by_both_engines
def _partition(t: Tried) -> str | None:
    wanted = t.oracle.log_partition(t.params)
    return differs(t.model.log_partition(t.params, **t.given()), wanted, t.exact) if np.isfinite(wanted) else None


@comparison("log prob of incomplete rows")
@by_both_engines
def _incomplete(t: Tried) -> str | None:
    if not t.possible:
        return None
    rows = t.rows.copy()
    rows[np.arange(len(rows)), t.rng.integers(0, t.oracle.n_cells, len(rows))] = -1
    values = {k: np.where(rows[:, t.oracle.positions(k)] < 0, -9, v).astype(int) for k, v in t.oracle.decode(rows).items()}
    x = values if len(values) > 1 else next(iter(values.values()))
    wanted = t.oracle.log_potential(t.params, rows) - t.oracle.log_partition(t.params)
    return differs(t.model.log_prob(t.params, x, missing=-9, **t.given(len(rows))), wanted, t.exact)


@comparison("marginals")
@by_both_engines
def _marginals(t: Tried) -> str | None:
    if not t.possible:
        return None
    found = t.model.marginals(t.params, **t.given())
    p = t.probabilities.reshape(t.oracle.domain_sizes)
    for name, array in found.items():
        for place in np.ndindex(array.shape[:-1]):
            own = int(t.oracle.positions(name)[place] if place else t.oracle.positions(name))
            wanted = p.sum(axis=tuple(k for k in range(p.ndim) if k != own))
            if bad := differs(array[place], wanted, t.exact):
                return f"{name}{list(place)} {bad}"
    return None


@comparison("map")
@by_both_engines
def _map(t: Tried) -> str | None:
    if not t.possible:
        return None
    x, log_p = t.model.map(t.params, **t.given())
    best = float(np.log(t.probabilities.max()))
    names = [n for n, v in t.oracle.bound.variables.items() if v.role != "given"]
    values = x if isinstance(x, dict) else {names[0]: x}
    code = t.oracle.encode({k: np.asarray(v)[None] for k, v in values.items()})[0]
    at = float(np.log(t.probabilities[np.ravel_multi_index(tuple(code), t.oracle.domain_sizes)]))
    return differs([log_p, at], [best, best], t.exact)


@comparison("conditionals")
def _conditionals(t: Tried) -> str | None:
    if not t.possible:
        return None
    n = t.oracle.n_cells
    K = sorted(t.rng.choice(n, min(n, 2), replace=False).tolist())
    wanted = t.oracle.log_conditional(t.params, t.rows, K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return differs(t.model.log_conditional(t.params, t.values(t.rows), K=tuple(K), **t.given(len(t.rows))), wanted, t.exact)


@comparison("conditionals of masks")
def _mask_conditionals(t: Tried) -> str | None:
    if not t.possible:
        return None
    for mask in t.masks:
        blocks = [k for k in t.oracle.mask_table(t.params, mask) if k]
        if not blocks:
            continue
        K = sorted(blocks[int(t.rng.integers(len(blocks)))])
        wanted = t.oracle.log_conditional(t.params, t.rows, K, mask)
        found = t.model.log_conditional(t.params, t.values(t.rows), K=tuple(K), mask=mask, **t.given(len(t.rows)))
        if bad := differs(found, wanted, t.exact):
            return f"{mask}, K = {K}: {bad}"
    return None


def _fitting(t: Tried) -> list[str]:
    """Masks that may fit: no parameter, no latent."""
    latents = {n for n, v in t.oracle.bound.variables.items() if v.role == "latent"}
    drawn = {int(k) for n in latents for k in np.ravel(t.oracle.positions(n))}
    reached = {m: frozenset().union(*t.oracle.mask_table(t.params, m)) for m in t.masks}
    return [m for m in t.masks if not t.mentions_parameter(m) and not reached[m] & drawn]


@comparison("losses")
def _losses(t: Tried) -> str | None:
    if not t.possible:
        return None
    for mask in _fitting(t):
        weights = t.rng.uniform(0.5, 2, len(t.rows))
        wanted = t.oracle.loss(t.params, t.rows, mask, weights.tolist())
        found = t.model.loss(t.params, t.values(t.rows), mask=mask, weights=weights, **t.given(len(t.rows)))
        if bad := differs(found, wanted, t.exact):
            return f"{mask}: {bad}"
    return None


@comparison("gradients of losses")
def _gradients(t: Tried) -> str | None:
    fitting = _fitting(t)
    free = [k for k, v in t.params.items() if t.oracle.model.parameters[k].type.kind in ("real", "positive", "bounded")]
    if not t.possible or not fitting or not free or not t.x64:
        return None
    mask = t.program.seed % len(fitting)
    x, fixed = t.values(t.rows), {k: v for k, v in t.params.items() if k not in free}

    def ours(p):
        return t.model.loss({**fixed, **p}, x, mask=fitting[mask], **t.given(len(t.rows)))

    start = {k: jax.numpy.asarray(t.params[k]) for k in free}
    found = jax.grad(ours)(start)
    wanted = numerical_gradient(lambda p: t.oracle.loss({**fixed, **p}, t.rows, fitting[mask]), {k: t.params[k] for k in free}, step=1e-5)
    for k in free:
        if bad := differs(found[k], wanted[k], {"rtol": 1e-5, "atol": 1e-6}):
            return f"{fitting[mask]}, of {k}: {bad}"
    return None


@comparison("transition matrices")
def _transitions(t: Tried) -> str | None:
    if not t.possible:
        return None
    for sampler in t.samplers:
        found = t.model.transition_matrix(t.params, sampler=sampler, **t.given())
        if bad := differs(found, t.oracle.transition_matrix(t.params, sampler), {"rtol": 1e-9, "atol": 1e-9}):
            return f"{sampler}: {bad}"
    return None


def _codes(t: Tried, posterior: Any) -> np.ndarray:
    """Draws as rows of codes, chain by chain: (chains, draws, cells)."""
    names = [n for n, v in t.oracle.bound.variables.items() if v.role != "given"]
    arrays = {n: np.asarray(posterior[n]) for n in names}
    shape = next(iter(arrays.values())).shape[:2]
    flat = {n: a.reshape(-1, *a.shape[2:]) for n, a in arrays.items()}
    return t.oracle.encode(flat).reshape(*shape, -1)


def _one_of(names: list[str], t: Tried) -> list[str]:
    """One of the names, where there are any and something is possible: compiling a chain takes its time."""
    return names[t.program.seed % len(names) :][:1] if names and t.possible else []


@comparison("exact draws")
def _exact_draws(t: Tried) -> str | None:
    if not t.possible:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = t.model.sample(t.params, sampler="exact", draws=1000, chains=4, seed=t.program.seed, **t.given())
    codes = _codes(t, idata.posterior).reshape(-1, t.oracle.n_cells)
    numbers = np.ravel_multi_index(tuple(codes.T), t.oracle.domain_sizes)
    p, count = t.probabilities, np.bincount(numbers, minlength=len(t.probabilities))
    if (count[p == 0] > 0).any():
        return "a configuration of probability 0 was drawn"
    often = p * 4000 >= 5
    spread = np.abs(count - 4000 * p)[often] / np.sqrt(4000 * p * (1 - p) + 1e-9)[often]
    return f"a frequency is {spread.max():.1f} standard deviations off" if spread.max(initial=0) > 6 else None


@comparison("draws of samplers")
def _draws(t: Tried) -> str | None:
    """Every step of a chain is one that its matrix allows, and steps from a state come as often as the matrix says."""
    for sampler in _one_of(t.samplers, t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            idata = t.model.sample(t.params, sampler=sampler, draws=250, warmup=0, chains=4, seed=t.program.seed, **t.given())
        codes = _codes(t, idata.posterior)
        numbers = np.asarray(np.ravel_multi_index(tuple(np.moveaxis(codes, -1, 0)), t.oracle.domain_sizes))
        matrix = t.oracle.transition_matrix(t.params, sampler)
        before, after = numbers[:, :-1].ravel(), numbers[:, 1:].ravel()
        if (matrix[before, after] <= 0).any():
            k = int(np.argmin(matrix[before, after]))
            return f"{sampler}: a step from state {before[k]} to {after[k]}, which has probability 0"
        visits = np.bincount(before, minlength=len(matrix))
        wanted, count = visits @ matrix, np.bincount(after, minlength=len(matrix))
        variance = visits @ (matrix * (1 - matrix))
        often = variance >= 5
        spread = np.abs(count - wanted)[often] / np.sqrt(variance[often])
        if spread.max(initial=0) > 6:
            return f"{sampler}: a frequency is {spread.max():.1f} standard deviations off"
    return None


@comparison("draws of replicas")
def _replicas(t: Tried) -> str | None:
    for sampler in _one_of(t.tempers, t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            idata = t.model.sample(t.params, sampler=sampler, draws=100, warmup=20, chains=4, seed=t.program.seed, **t.given())
        codes = _codes(t, idata.posterior).reshape(-1, t.oracle.n_cells)
        if (t.probabilities[np.ravel_multi_index(tuple(codes.T), t.oracle.domain_sizes)] <= 0).any():
            return f"{sampler}: a configuration of probability 0 was drawn"
    return None


@comparison("prior")
def _prior(t: Tried) -> str | None:
    if "prior" not in t.program.flags:
        return None
    params = {k: jax.numpy.asarray(v, dtype=float) for k, v in t.params.items()}
    found = jax.jit(lambda p: log_prior(t.model.graph, p))(params)
    return differs(found, t.oracle.log_prior(t.params), t.exact)


@comparison("bounds")
def _bounds(t: Tried) -> str | None:
    for name, p in t.oracle.model.parameters.items():
        if p.type.kind == "bounded":
            own = next(a for a in t.model.graph.parameters if a.name == name)
            scope = Scope(t.oracle.bound)
            wanted = [
                -np.inf if p.type.lower is None else evaluate(p.type.lower, scope),
                np.inf if p.type.upper is None else evaluate(p.type.upper, scope),
            ]
            if bad := differs([own.lower, own.upper], wanted, t.exact):
                return f"{name}: {bad}"
    return None


def _numbers(call: ir.FormCall, resolved: dict[str, Any], t: Tried) -> str | None:
    """Options that are numbers beside the oracle's values of what is written."""
    for name, e in call.arguments.items():
        known = isinstance(e, ir.Expression) and name in resolved
        if known and (bad := differs(resolved[name], evaluate(cast(ir.Expression, e), Scope(t.oracle.bound)), t.exact)):
            return f"{name} of {call.form.name} {bad}"
    return None


def _text_options(t: Tried, name: str) -> Iterator[tuple[ir.FormCall, dict[str, Any]]]:
    """The calls of one model beside m, with their options as the package has them."""
    checked, bound = t.bound.checked, t.bound.bound
    model = t.bound.model(name)
    if model.graph.network is not None:
        conditional = checked.models[name].conditional
        assert conditional is not None
        yield checked.networks[conditional.network], dict(model.graph.network.options)
    string = model.graph.variables[0]
    for s in checked.samplers.values():
        if s.model == name and isinstance(s.body, ir.FormCall):
            made = graph.guided if is_guided(s.body.form.name) else None
            if s.body.form.name == "autoregressive":
                yield s.body, graph.autoregressive(s.body, bound, string)
            else:
                yield s.body, made(s.body, bound, string) if made else graph.refinement(s.body, bound)
    for j in checked.judges.values():
        if j.model == name:
            yield j.body, graph.guided(j.body, bound, string)
    for m in checked.masks.values():
        if m.model == name and isinstance(m.body, ir.FormMask):
            noise = graph.lower_corruption(bound, m.body)
            ((_, _, own),) = noise.parts
            written = m.body.call.arguments.get("noise")
            if isinstance(written, dict):
                yield replace(m.body.call, arguments=dict(written)), {k: getattr(own, k) for k in ("hide", "uniform", "keep")}
            yield m.body.call, {"stages": noise.stages}


@comparison("options")
def _options(t: Tried) -> str | None:
    for name in t.bound.checked.models:
        if name.startswith("text"):
            for call, resolved in _text_options(t, name):
                if bad := _numbers(call, resolved, t):
                    return f"{name}: {bad}"
    return None


CHEAP = ("options", "bounds", "prior", "log potential")
IN_TURN = tuple(n for n in COMPARISONS if n not in CHEAP)
NEEDS = {"conditionals of masks": "mask ", "losses": "mask ", "gradients of losses": "mask ", "draws of replicas": "temper("}
NEEDS |= {"transition matrices": "sampler s", "draws of samplers": "sampler s"}


def in_turn(program: Program, x64: bool) -> str:
    """One comparison that costs more, by the program's seed, of those that have something to compare."""
    text = program.text
    names = [n for n in IN_TURN if NEEDS.get(n, "model") in text and (x64 or n != "gradients of losses")]
    return names[program.seed % len(names)]


def compared(program: Program, x64: bool, names: tuple[str, ...] | None = None) -> Iterator[Failure]:
    """The failures of a program: of all comparisons, or of those named."""
    with jax.enable_x64(x64):
        try:
            tried = Tried(program, x64)
        except gm.GmlmError as error:
            yield Failure("load", f"refused {error.diagnostics[0].code}", str(error))
            return
        except Exception as error:
            yield Failure("load", type(error).__name__, repr(error))
            return
        for name in names or tuple(COMPARISONS):
            yield from _one(tried, name)


def _one(tried: Tried, name: str) -> Iterator[Failure]:
    try:
        wrong = COMPARISONS[name](tried)
    except gm.GmlmError as error:
        yield Failure(name, f"refused {error.diagnostics[0].code}", str(error))
    except Exception as error:
        yield Failure(name, type(error).__name__, repr(error))
    else:
        if wrong is not None:
            yield Failure(name, "differs", wrong)
