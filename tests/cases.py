"""Programs of the tests with their inputs, models and parameters; their texts stand in `case_programs.py`.

Each is crossed with every check by `parametrize`: a new program is one entry of `CASES` and inherits every test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from case_programs import (
    ARCS,
    BIPARTITE,
    BRANCHES,
    COMPUTED,
    DIRECTED,
    GRID,
    HALF_DIRECTED,
    LEMMA3,
    LOG_ZERO,
    SUMS,
    TIED,
    TRIPLES,
    TWO_MODELS,
    WEATHER,
)
from oracle import Oracle

import gmlmdsl as gm


@dataclass(frozen=True, eq=False)
class Case:
    """A program with its inputs, and one of its models.

    Attributes:
        biased: samplers that do not keep p, and say so.
        normalised: whether log Z is 0.
    """

    name: str
    text: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    model_name: str | None = None
    biased: tuple[str, ...] = ()
    normalised: bool = False
    seed: int = 1

    @cached_property
    def program(self) -> Any:
        """The bound program."""
        return gm.parse(self.text, **self.inputs)

    @cached_property
    def model(self) -> Any:
        """The compiled model."""
        return self.program.model(self.model_name)

    @cached_property
    def oracle(self) -> Oracle:
        """The same by brute force, from the checked program."""
        return Oracle(self.program.checked, self.model_name, self.inputs)

    @cached_property
    def params(self) -> dict[str, np.ndarray]:
        """Parameters away from zero and from symmetry."""
        return self.oracle.random_params(self.seed)

    @cached_property
    def states(self) -> Any:
        """Every configuration as `Model` takes it."""
        return self.values(self.oracle.states)

    def values(self, codes: np.ndarray) -> Any:
        """Rows of codes as `Model` takes them: an array where the model has one variable, else a dict."""
        values = {k: v.astype(int) for k, v in self.oracle.decode(codes).items()}
        return values if len(values) > 1 else next(iter(values.values()))

    @cached_property
    def rows(self) -> np.ndarray:
        """A dozen possible configurations, as codes; some twice."""
        p = self.oracle.probabilities(self.params)
        return self.oracle.states[np.random.default_rng(self.seed).choice(len(p), 12, p=p)]

    def __str__(self) -> str:
        return self.name


def case(name: str, text: str, **options: Any) -> Case:
    """A case whose inputs are the keywords that are no field."""
    own = {k: options.pop(k) for k in ("model_name", "biased", "normalised", "seed") if k in options}
    return Case(name, text, options, **own)


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng(seed).normal(0, 0.8, shape)


PAIR_TABLE = np.array([[0.5, 0.25], [0.25, 0.0]])
LOOK_TABLE = np.array([[0.5, 0.25], [0.75, 1.0]])
HOLED = np.array([[[0.2, 0.0], [1.0, 0.5], [0.3, 0.4]], [[0.0, 0.0], [0.7, 2.0], [1.5, 0.0]]])
LINKS = np.array([[1.0, 0.5, 0.0], [0.3, 1.0, 2.0], [0.0, 0.4, 1.0]])

CASES = [
    case("weather", WEATHER),
    case("log_zero", LOG_ZERO, T=HOLED, M=LINKS, biased=()),
    case("computed", COMPUTED, U=numbers(1, 4), V=numbers(2, 2, 3)),
    case("sums", SUMS, A=numbers(3, 4, 2)),
    case("first", TWO_MODELS, model_name="first", biased=("whole",)),
    case("second", TWO_MODELS, model_name="second"),
    case("arcs", ARCS, pairs=np.array([[2, 1], [0, 1], [3, 1], [3, 0]])),
    case("bipartite", BIPARTITE, biased=("biased",)),
    case("directed", DIRECTED, P0=np.array([0.3, 0.7]), normalised=True),
    case("half_directed", HALF_DIRECTED, P=np.array([[0.2, 0.3, 0.5], [0.0, 0.6, 0.4], [1.0, 0.0, 0.0]])),
    case("tied", TIED),
    case("branches", BRANCHES, table=numbers(5, 3)),
    case("lattice", GRID, biased=("naive", "halves"), seed=2),
    case("lemma3", LEMMA3, T=PAIR_TABLE, A=LOOK_TABLE),
    case("triples", TRIPLES, theta=numbers(6, 3, 2, 4)),
]
BY_NAME = {c.name: c for c in CASES}


def masks_of(*names: str) -> list[tuple[Case, str]]:
    """Every mask of every case (or of those named), for `parametrize`."""
    return [
        (c, m)
        for c in CASES
        if not names or c.name in names
        for m in c.program.checked.masks
        if c.program.checked.masks[m].model == c.model.name
    ]


def samplers_of(*names: str) -> list[tuple[Case, str]]:
    """Every sampler of every case (or of those named), for `parametrize`."""
    return [
        (c, s)
        for c in CASES
        if not names or c.name in names
        for s in c.program.checked.samplers
        if c.program.checked.samplers[s].model == c.model.name
    ]
