"""The methods of approximate marginals and modes with their options, and what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .._diagnostics import fail, is_real_number, listed, unknown, whole_number
from .._types import AnyArray, Configuration
from ..data import decode, verified_seed
from ..graph import FactorGraph, VariableArray
from ._marginals import Marginals

Array = np.ndarray
Some = TypeVar("Some")


@dataclass(frozen=True)
class BeliefPropagation:
    """Belief propagation (the sum-product algorithm), for `method=` of `JointModel.marginals`.

    The marginals and log Z are exact if the factor graph given the clamped cells has no cycle.
    Messages are then sent, without damping, until nothing changes. Otherwise the answers are
    approximations without a bound on their error.

    Args:
        iterations: the largest number of iterations. In each one all messages are sent.
        tolerance: the largest change of a marginal and of a scaled message at convergence.
        damping: the share of the previous log message that a new one keeps, from 0 to below 1.

    Reference: Pearl 1988; Yedidia, Freeman and Weiss 2005.
    """

    iterations: int = 1000
    tolerance: float = 1e-8
    damping: float = 0.0

    name = "belief-propagation"

    def __post_init__(self) -> None:
        _verify(self, whole={"iterations": 1}, share=("damping",))


@dataclass(frozen=True)
class MeanField:
    """Naive mean field by coordinate ascent, for `method=` of `JointModel.marginals`.

    Its log Z is a lower bound. Its marginals ignore all dependence between cells, and are usually
    too certain.

    Args:
        iterations: the largest number of rounds over all cells, of each start.
        tolerance: the largest change of a probability at convergence.
        starts: the number of starts; the best bound wins. The first start is nearly uniform.

    Reference: Wainwright and Jordan 2008, section 5.3.
    """

    iterations: int = 1000
    tolerance: float = 1e-6
    starts: int = 4

    name = "mean-field"

    def __post_init__(self) -> None:
        _verify(self, whole={"iterations": 1, "starts": 1})


@dataclass(frozen=True)
class Chains:
    """Shares of the draws of Markov chains, for `method=` of `JointModel.marginals`.

    Each share has a standard error sqrt(p (1 - p) / ESS), where ESS is the effective number of
    draws of the indicator of its value.

    Args:
        sampler: a sampler of the program that updates cells. If None, sweeps of single cells,
            colour after colour.
        draws, warmup, chains, thin, seed: as in `JointModel.sample`.

    Reference: Vehtari, Gelman, Simpson, Carpenter and Buerkner 2021.
    """

    sampler: str | None = None
    draws: int = 1000
    warmup: int = 500
    chains: int = 4
    thin: int = 1
    seed: int = 0

    name = "chains"

    def __post_init__(self) -> None:
        _verify(self, whole={"draws": 1, "warmup": 0, "chains": 1, "thin": 1})
        object.__setattr__(self, "seed", verified_seed(self.seed))


@dataclass(frozen=True)
class MaxProduct:
    """Max-product message passing, for `method=` of `JointModel.map`.

    The messages of each start are decoded in two ways. In the first, all cells take the values of
    their largest beliefs at once. In the second, the colours of cells follow one another, and each
    is decoded given the previous ones. A greedy descent of single cells follows, and the best end
    wins. A model without a cycle has one start.

    Args:
        iterations: the largest number of iterations.
        tolerance: the largest change of a scaled message at convergence.
        damping: the share of the previous log message that a new one keeps, from 0 to below 1.
            Without a cycle nothing is damped, and messages are sent until nothing changes.
        starts: the number of starts. The first messages of the first start say nothing, and those
            of the others are random.

    Reference: Pearl 1988; Weiss and Freeman 2001.
    """

    iterations: int = 500
    tolerance: float = 1e-12
    damping: float = 0.5
    starts: int = 4

    name = "max-product"

    def __post_init__(self) -> None:
        _verify(self, whole={"iterations": 1, "starts": 1}, share=("damping",))


@dataclass(frozen=True)
class SimulatedAnnealing:
    """Simulated annealing by sweeps of single cells, for `method=` of `JointModel.map`.

    Each chain starts at a uniform configuration, and ends by a greedy descent. The best end wins.

    Args:
        sweeps: the number of sweeps of each chain, at geometric inverse temperatures.
        chains: the number of chains.

    Reference: Kirkpatrick, Gelatt and Vecchi 1983.
    """

    sweeps: int = 300
    chains: int = 8

    name = "anneal"

    def __post_init__(self) -> None:
        _verify(self, whole={"sweeps": 1, "chains": 1})


MarginalMethod = BeliefPropagation | MeanField | Chains
ModeMethod = MaxProduct | SimulatedAnnealing


def _verify(method: Any, whole: Mapping[str, int], share: Sequence[str] = ()) -> None:
    for name, least in whole.items():
        object.__setattr__(method, name, whole_number(name, getattr(method, name), least))
    if hasattr(method, "tolerance") and not (is_real_number(method.tolerance) and 0 < method.tolerance < np.inf):
        raise fail("E507", f"tolerance must be a finite number above 0, got {method.tolerance!r:.60}", help="`tolerance=1e-8`, say")
    for name in share:
        value = getattr(method, name)
        if not (is_real_number(value) and 0 <= value < 1):
            raise fail("E507", f"{name} must be a number from 0 to below 1, got {value!r:.60}", help="`damping=0.5`, say")


def marginal_method(given: object) -> MarginalMethod:
    """Return a method of `marginals`: an object, or the defaults of its name.

    Raises:
        GmlmError: E507 for anything else.
    """
    return _method(given, (BeliefPropagation, MeanField, Chains), "marginals")


def mode_method(given: object) -> ModeMethod:
    """Return a method of `map`: an object, or the defaults of its name.

    Raises:
        GmlmError: E507 for anything else.
    """
    return _method(given, (MaxProduct, SimulatedAnnealing), "map")


def approximation_method(given: object) -> MarginalMethod | ModeMethod:
    """Return a method of `marginals` or of `map`: an object, or the defaults of its name.

    Raises:
        GmlmError: E507 for anything else.
    """
    return _method(given, (BeliefPropagation, MeanField, Chains, MaxProduct, SimulatedAnnealing), "approximation_gap")


def _method(given: object, kinds: Sequence[type[Some]], verb: str) -> Some:
    by_name = {getattr(kind, "name"): kind for kind in kinds}  # noqa: B009 - a class attribute of each kind
    if isinstance(given, str):
        if given not in by_name:
            raise unknown(f"{verb}: there is no method `{given}`", given, [*by_name], "E507")
        return by_name[given]()
    if not isinstance(given, tuple(kinds)):
        objects = listed([f"gm.{kind.__name__}(..)" for kind in kinds])
        help = f"{listed([*by_name])}, or {objects}; without a method the answer is exact"
        message = f"{verb}: method must be a name or an object of its options"
        raise fail("E507", f"{message}, got {type(given).__name__}", help=help)
    return given


class ApproximateMarginals(Marginals):
    """Approximate marginals: a dict by variable of arrays of shape (*axes, values).

    Attributes:
        kind: "belief propagation" or "naive mean field".
        log_partition: the Bethe value of log Z, or the lower bound of the mean field.
        bound: "lower" if `log_partition` is a lower bound of log Z, else None.
        is_exact: whether the factor graph given the clamped cells has no cycle and belief
            propagation has converged. Marginals and log Z are then exact.
        converged: whether `residual` is at most the tolerance.
        iterations: the number of iterations, or of rounds of the best start.
        residual: the largest change of a marginal, or of a scaled message, in the last iteration.
    """

    def __init__(self, tables: Mapping[str, Array], record: Record, variables: Iterable[VariableArray]):
        super().__init__(tables, variables)
        self.record = record
        self.kind = record.kind
        self.log_partition = record.log_partition
        self.bound = record.bound
        self.is_exact = record.is_exact
        self.converged = record.converged
        self.iterations = record.iterations
        self.residual = record.residual

    def only(self, names: Iterable[str]) -> ApproximateMarginals:
        """Return the marginals of some variables."""
        tables = {name: self[name] for name in names}
        kept = [v for v in self.variables if v.name in tables]
        return ApproximateMarginals(tables, self.record, kept)

    @property
    def summary(self) -> str:
        """The kind, log Z and the state of convergence, in one line."""
        word = "is at least" if self.bound else "is" if self.is_exact else "is about"
        state = f"converged in {self.iterations}" if self.converged else f"NOT converged in {self.iterations}"
        exact = "exact: the factor graph has no cycle; " if self.is_exact else ""
        return f"{self.kind}: log Z {word} {self.log_partition:.6g}; {exact}{state} iterations, residual {self.residual:.2g}"

    def __repr__(self) -> str:
        shapes = ", ".join(f"`{name}` {table.shape}" for name, table in self.items())
        return f"{self.summary}\nmarginals of {shapes}"


@dataclass(frozen=True)
class Record:
    """How approximate marginals were computed; see `ApproximateMarginals`."""

    kind: str
    log_partition: float
    bound: str | None
    is_exact: bool
    converged: bool
    iterations: int
    residual: float


class Mode(tuple[Any, Any]):
    """A configuration and its log_prob, as a pair, with the kind of the search.

    Attributes:
        configuration: the first element of the pair.
        log_prob: the second element; nan if log Z is not affordable.
        log_potential: the unnormalised log p of the configuration.
        labels: the configuration with its letters and labels as texts.
        kind: "exact", "max-product" or "annealing".
        is_proven: whether no configuration that agrees with the clamped cells is more probable.
            This holds for exact modes, and for max-product on a factor graph without a cycle.
    """

    kind: str
    is_proven: bool
    log_potential: AnyArray | float
    labels: Configuration

    def __new__(
        cls,
        configuration: Configuration,
        log_prob: AnyArray | float,
        log_potential: AnyArray | float,
        labels: Configuration,
        kind: str = "exact",
        is_proven: bool = True,
    ) -> Mode:
        """Return a pair with these attributes."""
        self = super().__new__(cls, (configuration, log_prob))
        self.kind, self.is_proven, self.log_potential, self.labels = kind, is_proven, log_potential, labels
        return self

    def __getnewargs__(self) -> tuple[object, ...]:
        return (*self, self.log_potential, self.labels, self.kind, self.is_proven)

    @property
    def configuration(self) -> Configuration:
        """The configuration."""
        return self[0]

    @property
    def log_prob(self) -> AnyArray | float:
        """Log p of the configuration."""
        return self[1]

    def __repr__(self) -> str:
        proof = "no" if self.is_proven else "perhaps a"
        numbers = f"log_potential {self.log_potential}, log_prob {self.log_prob}"
        return f"{self.kind} mode, {numbers}; {proof} more probable one exists\n{self.configuration!r}"


def configuration(graph: FactorGraph, codes: Array, lead: tuple[int, ...], texts: bool = False) -> Configuration:
    """Return values as a user passes them: an array for a model of one variable, else a dict.

    Values of letters and labels are codes, or their `texts`.
    """
    values = decode(graph, codes, lead)
    if texts:
        values |= {n: np.asarray(np.array(t)[values[n]]) for n, t in graph.texts.items()}
    return values if len(values) > 1 else next(iter(values.values()))
