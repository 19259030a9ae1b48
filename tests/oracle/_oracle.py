"""The oracle's face: log p, conditionals, masks, losses and kernels of a bound model, by enumeration."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from gmlmdsl.program import ir

from ._bind import Bound, Graph
from ._conditionals import MISSING, Block, agreeing, log_conditional, log_sum, surprises
from ._expressions import Scope, evaluate, turns
from ._kernels import run_all
from ._masks import Table, mask_table
from ._priors import log_prior
from ._replicas import replica_matrix

Params = Mapping[str, np.ndarray]


class Oracle:
    """A model of a checked program with its inputs bound.

    Args:
        program: the checked program.
        model: the model's name; None where the program has one, or none.
        inputs: arrays and numbers by input name; the others take their defaults.
        given: one row of the `given` variables, as values or codes.
    """

    def __init__(self, program: ir.Program, model: str | None, inputs: Mapping[str, object], given: Mapping[str, object] | None = None):
        if model is None and len(program.models) == 1:
            model = next(iter(program.models))
        self.program, self.beta = program, 1.0
        self.bound = Bound(program, None if model is None else program.models[model], inputs, given or {})

    # Cells and configurations

    @property
    def model(self) -> ir.Model:
        """The checked model."""
        assert self.bound.model is not None
        return self.bound.model

    @property
    def n_cells(self) -> int:
        """How many cells `var` and `latent` have together."""
        return self.bound.n_cells

    def graph(self, name: str) -> Graph:
        """A graph of the program, with its `edges`, `arcs`, `rows` and `columns`."""
        return self.bound.graph(name)

    def positions(self, name: str) -> np.ndarray:
        """The positions of a variable's cells, in its shape."""
        v = self.bound.variables[name]
        return v.start + np.arange(int(np.prod(v.shape))).reshape(v.shape)

    @cached_property
    def domain_sizes(self) -> tuple[int, ...]:
        """How many values each position has."""
        cells = [v for v in self.bound.variables.values() if v.role != "given"]
        return tuple(len(v.values) for v in cells for _ in range(int(np.prod(v.shape))))

    @cached_property
    def states(self) -> np.ndarray:
        """Every configuration as a row of codes, the first position slowest."""
        return np.array(list(itertools.product(*(range(q) for q in self.domain_sizes))), dtype=int)

    def parameter_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter: edges and arcs are one axis."""
        return tuple(len(a.members) for a in self.bound.parameters[name])

    def random_params(self, seed: int) -> dict[str, np.ndarray]:
        """Parameters of every type, away from zero and from symmetry, drawn from a seed."""
        rng = np.random.default_rng(seed)
        out = {}
        for name, p in self.model.parameters.items():
            shape = self.parameter_shape(name)
            if p.type.kind == "simplex":
                out[name] = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
            elif p.type.kind == "bounded":
                low, high = (None if e is None else float(evaluate(e, Scope(self.bound))) for e in (p.type.lower, p.type.upper))
                middle = rng.uniform(0.2, 0.8, shape)
                if low is not None and high is not None:
                    out[name] = low + (high - low) * middle
                else:
                    out[name] = low + middle if low is not None else (high or 0.0) - middle
            else:
                out[name] = rng.gamma(2.0, 0.5, shape) if p.type.kind == "positive" else rng.normal(0, 0.7, shape)
        return out

    def encode(self, x: Mapping[str, object]) -> np.ndarray:
        """Rows of codes from values (labels or codes for letters and labels); variables left out are missing."""
        parts = {name: self.bound.codes(self.model.variables[name].domain, value) for name, value in x.items()}
        rows = {name: codes.reshape(-1, self.positions(name).size) for name, codes in parts.items()}
        out = np.full((max(len(r) for r in rows.values()), self.n_cells), MISSING)
        for name, codes in rows.items():
            out[:, self.positions(name).ravel()] = codes
        return out

    def decode(self, codes: np.ndarray) -> dict[str, np.ndarray]:
        """Values by variable (codes for letters and labels) from rows of codes."""
        variables = {name: v for name, v in self.bound.variables.items() if v.role != "given"}
        return {name: v.values[np.asarray(codes)[..., self.positions(name)]] for name, v in variables.items()}

    # log p

    def _terms(self) -> Iterable[tuple[Callable[[Scope], np.ndarray], ir.Clauses]]:
        """The terms of log p as functions of a place."""
        for f in self.model.factors:
            yield lambda scope, f=f: evaluate(f.value, scope), f.clauses
        for r in self.model.requires:
            yield lambda scope, r=r: np.where(evaluate(r.condition, scope) != 0, 0.0, -np.inf), r.clauses
        for d in self.model.distributed:
            if d.is_density:
                yield lambda scope, d=d: evaluate(d.probabilities, scope), d.clauses
                continue
            yield lambda scope, d=d: self._log_probability(d.target, d.probabilities, scope), d.clauses

    def _log_probability(self, target: ir.Expression, probabilities: ir.Expression, scope: Scope) -> np.ndarray:
        """The log of the entry of the open axis that the target's code picks."""
        domain = self.bound.variables[target.name].values  # type: ignore[union-attr]
        codes = np.searchsorted(domain, evaluate(target, scope))
        table = np.broadcast_to(evaluate(probabilities, scope), (len(codes), len(domain)))
        with np.errstate(divide="ignore"):
            return np.log(table[np.arange(len(codes)), codes])

    def _log_potential(self, params: Params, rows: np.ndarray, reads: list[frozenset[int]] | None = None) -> np.ndarray:
        if self.model.conditional is not None:
            raise NotImplementedError("a `conditional` model has no joint law")
        total = np.zeros(len(rows))
        for term, clauses in self._terms():
            for names in turns(clauses, Scope(self.bound)):
                seen: set[int] | None = None if reads is None else set()
                total = total + term(Scope(self.bound, params, names, rows, seen))
                if reads is not None:
                    reads.append(frozenset(seen or ()))
        return total

    def touched(self, params: Params) -> list[frozenset[int]]:
        """For each term of log p, the cells whose value it reads at some configuration.

        A factor that is a sum with a `for` has a term for each of the sum's.
        """
        reads: list[frozenset[int]] = []
        self._log_potential(params, self.states, reads)
        for f in self.model.factors:
            for names in turns(f.clauses, Scope(self.bound)):
                scope = Scope(self.bound, params, names, self.states)
                whole, parts = self._reads(f.value, scope), self._summands(f.value, scope)
                if len(parts) > 1:
                    reads[reads.index(whole)] = parts[0]
                    reads += parts[1:]
        return reads

    def _reads(self, e: ir.Expression, scope: Scope) -> frozenset[int]:
        seen: set[int] = set()
        evaluate(e, replace(scope, reads=seen))
        return frozenset(seen)

    def _summands(self, e: ir.Expression, scope: Scope) -> list[frozenset[int]]:
        """The cells that each term of a sum with a `for` reads; one entry for an expression without such a sum."""
        whole = [self._reads(e, scope)]
        match e:
            case ir.Sum(operator="+"):
                found = [part for names in turns(e.clauses, scope) for part in self._summands(e.body, scope.at(names))]
                return found if any(found) else whole
            case ir.LetValue(indices=()):
                return self._summands(self.model.lets[e.name].value, scope)
            case ir.Operation(operator="neg", operands=(inside,)):
                return self._summands(inside, scope)
            case ir.Operation(operator="+" | "-", operands=sides):
                parts = [self._summands(side, scope) for side in sides]
                return [part for some in parts for part in some] if any(len(some) > 1 for some in parts) else whole
            case ir.Operation(operator="*" | "/" as operator, operands=(left, right)):
                several, other = self._summands(left, scope), self._reads(right, scope)
                if operator == "*" and len(several) == 1:
                    several, other = self._summands(right, scope), self._reads(left, scope)
                return [part | other for part in several] if len(several) > 1 else whole
        return whole

    def at_beta(self, beta: float) -> Oracle:
        """The same model with p to the power beta in its conditionals and kernels; masks as they are."""
        hot = copy.copy(self)
        hot.beta = beta
        return hot

    def log_table(self, params: Params) -> np.ndarray:
        """Unnormalised log p (of `at_beta`, times beta) of every configuration, with one axis per position."""
        log_p = self._log_potential(params, self.states)
        return np.multiply(self.beta, log_p, where=np.isfinite(log_p), out=log_p.copy()).reshape(self.domain_sizes)

    def log_potential(self, params: Params, codes: np.ndarray) -> np.ndarray:
        """Unnormalised log p of rows of codes; missing cells are summed out."""
        rows = np.asarray(codes)
        flat = rows.reshape(-1, self.n_cells)
        if (rows != MISSING).all():
            return self._log_potential(params, flat).reshape(rows.shape[:-1])
        table = self.log_table(params)
        return np.array([log_sum(agreeing(table, row)).item() for row in flat]).reshape(rows.shape[:-1])

    def log_partition(self, params: Params) -> float:
        """The log of Z, the sum of exp(log potential)."""
        return log_sum(self.log_table(params)).item()

    def log_prob(self, params: Params, codes: np.ndarray) -> np.ndarray:
        """The normalised log p of rows of codes; missing cells are summed out."""
        return self.log_potential(params, codes) - self.log_partition(params)

    def probabilities(self, params: Params) -> np.ndarray:
        """The probability of every configuration."""
        return np.exp(self.log_prob(params, self.states))

    def probabilities_at(self, params: Params) -> np.ndarray:
        """The probability of every configuration under p to the power of `at_beta`, uniform on the support at 0."""
        table = self.log_table(params).ravel()
        return np.exp(table - log_sum(table))

    # Masks and conditionals

    def _mask(self, mask: str | ir.Mask) -> ir.Mask:
        return self.program.masks[mask] if isinstance(mask, str) else mask

    def mask_table(self, params: Params, mask: str | ir.Mask) -> Table:
        """p(K | x) of every block, at every configuration."""
        return mask_table(self._mask(mask), Scope(self.bound, params, rows=self.states))

    def mask_distribution(self, mask: str | ir.Mask, codes: np.ndarray, params: Params | None = None) -> dict[Block, float]:
        """p(K | x) at one configuration, blocks of probability zero left out."""
        table = mask_table(self._mask(mask), Scope(self.bound, params or {}, rows=np.asarray(codes).reshape(1, -1)))
        return {k: float(p[0]) for k, p in table.items()}

    def log_conditional(self, params: Params, codes: np.ndarray, K: Iterable[int], mask: str | ir.Mask | None = None) -> np.ndarray:
        """The table of log p(x_K | x_rest[, K]): the leading axes of the codes, then one axis per member of K, ascending.

        -inf at impossible values, nan where the rest is impossible; missing cells outside K are summed out.
        """
        k, weight, rows = frozenset(K), self.log_table(params), np.asarray(codes)
        if mask is not None:
            weight = weight + self._log_probability_of_block(params, mask, k)
        tables = [log_conditional(weight, row, k) for row in rows.reshape(-1, self.n_cells)]
        return np.array(tables).reshape(rows.shape[:-1] + tables[0].shape)

    def _log_probability_of_block(self, params: Params, mask: str | ir.Mask, k: Block) -> np.ndarray:
        """The log of p(K | x), with one axis per position."""
        table = self.mask_table(params, mask)
        if k not in table:
            raise ValueError(f"{sorted(k)} is not a block of the mask")
        with np.errstate(divide="ignore"):
            return np.log(table[k]).reshape(self.domain_sizes)

    # Losses

    def row_losses(self, params: Params, codes: np.ndarray, mask: str | ir.Mask) -> np.ndarray:
        """For each row, the sum over K of p(K | x) times -log p(x_K | x_rest[, K])."""
        rows = np.asarray(codes).reshape(-1, self.n_cells)
        return self._row_losses(params, rows, *self._laws(params, rows, mask))

    def _laws(self, params: Params, rows: np.ndarray, mask: str | ir.Mask) -> tuple[Table, Table]:
        """p(K | x) of the rows, and of every configuration where the mask looks at it."""
        here = mask_table(self._mask(mask), Scope(self.bound, params, rows=rows))
        return here, self.mask_table(params, mask) if self._mask(mask).adaptive else {}

    def _row_losses(self, params: Params, rows: np.ndarray, here: Table, everywhere: Table) -> np.ndarray:
        log_p, losses = self.log_table(params), np.zeros(len(rows))
        for k, p in here.items():
            weight = log_p
            if k in everywhere:
                with np.errstate(divide="ignore"):
                    weight = log_p + np.log(everywhere[k]).reshape(log_p.shape)
            may = p > 0
            losses[may] += p[may] * surprises(weight, rows[may], k)
        return losses

    def loss(self, params: Params, codes: np.ndarray, mask: str | ir.Mask, row_weights: Sequence[float] | None = None) -> float:
        """The mean of the rows' losses; with weights, sum of w l / sum of w."""
        losses = self.row_losses(params, codes, mask)
        w = np.ones(len(losses)) if row_weights is None else np.asarray(row_weights, dtype=float)
        return float(np.sum(w[w != 0] * losses[w != 0]) / np.sum(w))

    def fit_constant(self, params: Params, codes: np.ndarray, mask: str | ir.Mask) -> float:
        """The factor c = (cells that are in some K) / E|K|, the mean over the rows given."""
        return _fit_constant(*self._laws(params, np.asarray(codes).reshape(-1, self.n_cells), mask))

    def fit_objective(self, params: Params, codes: np.ndarray, mask: str | ir.Mask, weights: Sequence[float] | None = None) -> float:
        """The sum that `fit` minimises: c times the sum over rows of w times the row's loss, minus log prior."""
        rows = np.asarray(codes).reshape(-1, self.n_cells)
        laws = self._laws(params, rows, mask)
        losses = self._row_losses(params, rows, *laws)
        w = np.ones(len(losses)) if weights is None else np.asarray(weights, dtype=float)
        data = np.sum(w[w != 0] * losses[w != 0])
        return float(_fit_constant(*laws) * data - self.log_prior(params))

    def log_prior(self, params: Params) -> float:
        """The sum of the log prior densities of all parameters."""
        arrays = {name: np.asarray(params[name], dtype=float) for name in self.model.parameters}
        return float(sum(log_prior(p, arrays[name], Scope(self.bound, arrays)) for name, p in self.model.parameters.items()))

    # Kernels

    def replica_matrix(self, params: Params, temper: ir.Temper, turn: int) -> tuple[np.ndarray, np.ndarray]:
        """The law of the replicas of a `temper` and the matrix of step number `turn`, betas ascending, the first slowest."""
        return replica_matrix(self, params, temper, turn)

    def transition_matrix(self, params: Params, sampler: str | ir.Sampler | ir.Kernel, by_colours: bool = True) -> np.ndarray:
        """P[x, y] of one run of a sampler or kernel. `by_colours=False` sweeps in the order of the text."""
        found = self.program.samplers[sampler] if isinstance(sampler, str) else sampler
        body = found.body if isinstance(found, ir.Sampler) else (found,)
        if not isinstance(body, tuple):
            raise NotImplementedError(f"{body.form.name} is no chain on the configurations")
        return run_all(self, params, body, np.eye(len(self.states)), by_colours)


def _fit_constant(here: Table, everywhere: Table) -> float:
    reached = frozenset().union(*(everywhere or here))
    return len(reached) / float(np.mean(sum(len(k) * p for k, p in here.items())))


# Coefficients of central differences of sixth order: the error is h^6 / 140 of the seventh derivative.
SIXTH_ORDER = ((1, 45 / 60), (2, -9 / 60), (3, 1 / 60))


def numerical_gradient(
    f: Callable[[dict[str, np.ndarray]], float], params: Params, step: float = 1e-5, exact: bool = False
) -> dict[str, np.ndarray]:
    """Central differences of a scalar function of the parameters, entry by entry.

    Of second order in `step`: good to about 1e-7. `exact`: of sixth order with steps of 0.002, good to about 1e-11 of smooth functions.
    """
    step, stencil = (2e-3, SIXTH_ORDER) if exact else (step, ((1, 1 / 2),))
    out = {}
    for name, value in params.items():
        here = np.array(value, dtype=float)
        gradient = np.zeros_like(here)
        for place in np.ndindex(here.shape):
            for times, weight in stencil:
                for sign in (1, -1):
                    moved = here.copy()
                    moved[place] += sign * times * step
                    gradient[place] += sign * weight * f({**params, name: moved}) / step
        out[name] = gradient
    return out
