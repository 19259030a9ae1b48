"""What every model has: its program, variables, masks and samplers; and the verbs that all models share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import derive, plan
from .._diagnostics import Diagnostic, GmlmError, fail, is_one_of, known, only, whole_number
from ..data import at_once, verified_seed
from ..evaluate import LogProbBound, decoder_bounds
from ..graph import Lowered, lower_model
from ..guided import GuidedOptions, Setting, draw_guided, refuse_options
from ..masks import AbstractMask, lower_mask
from ..plan import with_others
from ..program import allowed, ir
from ..sample import SamplingWarning, random_rows

if TYPE_CHECKING:
    from ..graph import AbstractProgram

Params = Mapping[str, Any]


def _made_again(program: AbstractProgram, name: str, plan: str | None) -> Any:
    return program.model(name, plan=plan)


class Model(ABC):
    """A model of a bound program: a `JointModel`, or a `ConditionalModel` where `conditional x ~ net(..)` declares it.

    Configurations `x` are arrays where the model has one variable, else dicts by variable, of shape
    (rows.., *axes): values for spin, bit and range, texts or 0-based codes for letters and labels.
    Parameters are dicts by name.
    """

    def __init__(self, program: AbstractProgram, name: str, plan: str | None = None):
        self.program, self.name = program, name
        try:
            self.lowered: Lowered = lower_model(program.bound, name)
        except GmlmError as error:
            raise with_others(error, program.bound, name) from None
        if plan is not None:
            self.lowered = replace(self.lowered, graph=replace(self.lowered.graph, method=plan))
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        """How it travels to another process: by its program, of which it is made again; nothing compiled is kept.

        Raises:
            GmlmError: E739 for a model whose network is a class of Python: making it again would
                import and run that class.
        """
        network = self.graph.network
        if network is not None and network.name == "python":
            help = "send the program's text or a saved fit, and load it there with `allow_python=True`"
            raise fail("E739", f"model `{self.name}` is not pickled: to load it would run the class of its network", help=help)
        return _made_again, (self.program, self.name, self._plan)

    def __deepcopy__(self, memo: Any) -> Model:
        return self  # nothing changes it

    def __getattr__(self, name: str) -> Any:
        """What only other models have is refused here, by name."""
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`", name=name, obj=self)

    # What there is

    @property
    def graph(self) -> Any:
        """The factor graph: variables, parameters, groups of factors."""
        return self.lowered.graph

    @property
    def masks(self) -> tuple[str, ...]:
        """The names of the model's masks."""
        return tuple(n for n, m in self.program.checked.masks.items() if m.model == self.name)

    @property
    def samplers(self) -> tuple[str, ...]:
        """The names of the model's samplers."""
        return tuple(n for n, s in self.program.checked.samplers.items() if s.model == self.name)

    def positions(self, variable: str) -> np.ndarray:
        """The global positions of a variable's cells, in its shape."""
        return self.graph.variable(known(variable, [v.name for v in self.graph.variables], "variable")).positions

    def mask(self, name: str | None) -> tuple[str, AbstractMask]:
        """A lowered mask by name; without one, the model's only mask that may fit.

        Raises:
            GmlmError: E707 for a mask that draws clusters, which only an update takes.
        """
        checked = self.program.checked.masks
        with_loss = tuple(n for n in self.masks if not checked[n].body.is_percolation)
        name = only(name, with_loss if name is None and with_loss else self.masks, "mask", self.name)
        if checked[name].body.is_percolation:
            raise plan.no_loss(name, checked[name])
        if name not in self._masks:
            checked = self.program.checked.masks[name]
            try:
                self._masks[name] = lower_mask(self.lowered, checked)
            except GmlmError as error:
                raise with_others(error, self.program.bound, self.name) from None
        return name, self._masks[name]

    @cached_property
    def _masks(self) -> dict[str, AbstractMask]:
        return {}

    def sampler(self, name: str | None) -> tuple[str, ir.Sampler]:
        """A checked sampler by name; without one, the model's only sampler."""
        name = only(name, self.samplers, "sampler", self.name)
        return name, self.program.checked.samplers[name]

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the checker warns of in the program, and what only the sizes show: cells never hidden or moved, factors that reach -inf.

        Warnings that a comment `# gmlm: allow CODE` allows are left out. Each has `code`, `message`
        and `render()`.
        """
        checked = self.program.checked
        return (*self.program.warnings, *allowed(plan.lint_sizes(self.lowered, checked, self.name), checked.allowances))

    # What all models answer

    @abstractmethod
    def init_params(self, seed: int = 0) -> dict[str, Any]:
        """Where a fit starts."""

    @abstractmethod
    def loss(self, *arguments: Any, **options: Any) -> jax.Array:
        """The mean over rows of the mean over masks of -log p(x_K | x_rest)."""

    @abstractmethod
    def log_prob(self, params: Params, x: Any, *, missing: Any = None, given: Any = None, sampler: str | None = None) -> Any:
        """log p(x) of each row."""

    @abstractmethod
    def log_conditional(self, params: Params, x: Any, K: Sequence[int] | int, mask: str | None = None, *, given: Any = None) -> jax.Array:
        """The table log p(x_K | x_rest)."""

    @abstractmethod
    def next_symbol(self, params: Params, prefix: Any, *, given: Any = None) -> np.ndarray:
        """p(x_t = v | x_0, .., x_(t-1)) of the first cell that a prefix lacks."""

    @abstractmethod
    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Any = None) -> np.ndarray:
        """One run of a sampler's body as a matrix over all configurations."""

    @abstractmethod
    def fit(self, *arguments: Any, **options: Any) -> Any:
        """Estimate the parameters by the loss of a mask."""

    @abstractmethod
    def sample(self, *arguments: Any, **options: Any) -> Any:
        """Draw by a sampler."""

    def compile(
        self, rows: int | None = None, mask: str | None = None, *, sampler: str | None = None, draws: int = 1000, chains: int = 4
    ) -> None:
        """Compile ahead what `fit` of so many rows, and `sample` of so many draws and chains, will run.

        The programs are there for the first such calls of this process and, kept on disk, of later
        ones. For a fit, one of random rows takes a single step; for draws nothing is run. What
        depends on more than shapes is compiled when it is met: weights, missing cells, other
        options, and what only some data need, such as a search for parameters without a finite
        estimate.

        Args:
            rows: of the fit; none: no fit is compiled.
            mask: of the fit; left out where the model has one.
            sampler: of the draws, as in `sample`; none: no draws are compiled.
            draws: as in `sample`.
            chains: as in `sample`.

        Raises:
            GmlmError: E507 for neither `rows` nor `sampler`; what `fit` and `sample` refuse, given
                variables without their data among it.
        """
        if rows is None and sampler is None:
            raise fail("E507", "compile: neither `rows` nor `sampler` says what for", help="`rows=1000` for a fit, `sampler=` for draws")
        if rows is not None:
            self.fit(random_rows(self.graph, whole_number("compile: rows", rows, 1)), mask, max_steps=1, progress=False)
        if sampler is not None:
            with derive.compiled_only(), warnings.catch_warnings():
                warnings.simplefilter("ignore", SamplingWarning)
                chain = not is_one_of(sampler, self.samplers) or self.sampler(sampler)[1].call is None
                steps: dict[str, Any] = {"warmup": 1} if chain else {}
                self.sample(self.init_params(), sampler, draws=draws, chains=chains, progress=False, **steps)

    @at_once
    def log_prob_bound(
        self,
        params: Params,
        x: Any,
        sampler: str | None = None,
        *,
        draws: int = 64,
        seed: int = 0,
        missing: Any = None,
        given: Any = None,
    ) -> LogProbBound:
        """Lower bounds of log p of what a decoder draws, by the passes that it makes; in nats, one for each row.

        Of a random order: the sum over t of (n_t / k_t) times the mean over K, |K| = k_t, of the
        sum over K of log p(x_i | x_rest, K hidden), where pass t settles n_t of k_t open cells.
        Where the places are known it is log p itself.

        Args:
            params: parameters.
            x: rows.
            sampler: the decoder's name; left out where the model has one sampler.
            draws: passes that are drawn for a row, where they are not all listed: up to 8 times as
                many are.
            seed: what is drawn for row r depends on (seed, r) only.
            missing: what stands for padding at the end of a network's row.
            given: data of given variables, as in `fit`.

        Returns:
            `values`, `standard_error`, and `exact`: whether nothing was drawn.

        Raises:
            GmlmError: E507 for a decoder without such a bound, with the cure; E601 where a joint
                distribution's conditionals cost too much.

        Reference: Hoogeboom et al. 2022 (any-order models), Sahoo et al. 2024 (masked diffusion).
        """
        found = self.sampler(sampler)[1]
        return decoder_bounds.log_prob_bound(self.lowered, self._denoising(params), x, found, draws, seed, missing, given)

    @at_once
    def predict(self, params: Params, x: Any, hidden: Any, *, missing: Any = None, given: Any = None) -> np.ndarray:
        """log p(x_i = v | the cells that are not hidden) of each hidden cell; of a network its prediction, all hidden cells at once.

        Args:
            params: parameters.
            x: rows; what they hold in hidden cells does not matter.
            hidden: booleans, (rows.., cells) or (cells,), cells of the `var`s in their order.
            missing: what stands for a missing cell: it is hidden too.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., cells, values), of cells with fewer values -inf behind; of a cell that is
            seen 0 at its value, else -inf. In a
            joint distribution other hidden cells and latents are summed out; where what is seen is
            impossible all values are alike.

        Raises:
            GmlmError: E601 where that costs too much.
        """
        return decoder_bounds.predict(self.lowered, self._denoising(params), x, hidden, missing, given)

    # Inside

    @abstractmethod
    def _denoising(self, params: Params) -> Mapping[str, Any]:
        """The parameters as decoders read them, who take either kind of model."""

    def _provenance(self) -> dict[str, Any]:
        return self.program.provenance() | {"model": self.name}

    def _draw_strings(
        self,
        lowered: Lowered,
        sampler: ir.Sampler,
        call: ir.FormCall,
        params: Params,
        options: GuidedOptions,
        seed: int,
        oracle: Any,
        stated: Mapping[str, bool],
    ) -> Any:
        """The draws of a sampler that grows strings; `stated`: the options of chains that a caller gave, none of which it takes."""
        setting = Setting(lowered, params, verified_seed(seed), self.program.allow_python, oracle)
        refuse_options(sampler, stated)
        return draw_guided(setting, call, options, self._provenance())
