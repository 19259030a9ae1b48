"""The base class of all models: program, variables, masks, samplers and common methods."""

from __future__ import annotations

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np

from .. import derive, plan
from .._diagnostics import Diagnostic, GmlmError, fail, is_one_of, known, only, whole_number
from .._types import AnyArray, ArrayLike, Given, JsonObject, Missing, Rows
from .._types import ParamsLike as Params
from ..data import at_once, column_labels, mock_given, verified_seed
from ..evaluate import LogProbBound, decoder_bounds
from ..graph import Lowered, lower_model, sets_of_cells
from ..guided import GuidedOptions, Setting, draw_guided, refuse_options
from ..masks import AbstractMask, lower_mask
from ..plan import with_others
from ..program import allowed, ir, python_code
from ..sample import SamplingWarning, random_rows

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..graph import AbstractProgram, FactorGraph
    from ..guided import Oracle

F = TypeVar("F", bound=Callable[..., Any])


def _made_again(program: AbstractProgram, name: str, plan: str | None) -> Model:
    return program.model(name, plan=plan)


def labelled_by_columns(verb: F) -> F:
    """Return a method that runs on the model whose cells have the names of the columns of a frame `x`.

    The model is used as it is if the frame does not name its cells, see `column_labels`.
    """

    @functools.wraps(verb)
    def running(model: Model, *arguments: Any, **options: Any) -> Any:
        labels = column_labels(model.graph, arguments[0] if arguments else options.get("x"))
        coords = model._coords_of(labels) if labels else {}
        if not coords:
            return verb(model, *arguments, **options)
        if model._labelled is None or model._labelled[0] != coords:
            model._labelled = coords, model.program._labelled(coords).model(model.name, plan=model._plan)
        return verb(model._labelled[1], *arguments, **options)

    return running  # pyright: ignore[reportReturnType]


class Model(ABC):
    """The base class of the models of a bound program.

    A model is a `JointModel`, or a `ConditionalModel` if the program declares it by `conditional x
    ~ net(..)`. Configurations `x` are arrays if the model has one variable, else dicts by variable,
    of shape (rows.., *axes). Their entries are values for spin, bit and range, and texts or 0-based
    codes for letters and labels. Parameters are dicts by name.
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
        self._labelled: tuple[dict[str, tuple[str, ...]], Model] | None = None  # by the columns of the last frame

    def __reduce__(self) -> tuple[object, ...]:
        """Return the state that is pickled: the program, from which the model is built again.

        Nothing that is compiled is pickled.

        Raises:
            GmlmError: E739 for a model whose network is a Python class, because building the model
                again would import and run that class.
        """
        for what, _ in python_code(self.program.checked, self.name):
            help = "send the program's text or a saved fit, and load it there with `allow_python=True`"
            raise fail("E739", f"model `{self.name}` is not pickled: to load it would run code, as {what}", help=help)
        return _made_again, (self.program, self.name, self._plan)

    def __deepcopy__(self, memo: object) -> Model:
        return self  # a model never changes

    def _coords_of(self, labels: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the labels of the cells of the only observed variable by the sets that they label."""
        variable, bound = self.graph.observed[0].name, self.program.bound
        return dict.fromkeys(sets_of_cells(bound, bound.program.models[self.name], variable), labels)

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError, with the name, for attributes that only other models have."""
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`", name=name, obj=self)

    def _repr_html_(self) -> str:
        """Return the factor graph with a block of each mask, as inline SVG, for notebooks."""
        from ..explain import model_html

        found: dict[str, AbstractMask] = {}
        for name in self.masks:
            # A mask without a loss, or one whose weights need data, is left out.
            with suppress(GmlmError):
                found[name] = self.mask(name)[1]
        return model_html(repr(self), self.lowered, found)

    # Parts of a model

    @property
    def graph(self) -> FactorGraph:
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
        """Return the global positions of a variable's cells, in the variable's shape."""
        return self.graph.variable(known(variable, [v.name for v in self.graph.variables], "variable")).positions

    def mask(self, name: str | None) -> tuple[str, AbstractMask]:
        """Return the name of a mask and the lowered mask.

        If `name` is None, the mask is the model's only mask that has a loss.

        Raises:
            GmlmError: E707 for a mask that draws clusters, which is valid only in an update.
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
        """Return the name of a sampler and the checked sampler.

        If `name` is None, the sampler is the model's only sampler.
        """
        name = only(name, self.samplers, "sampler", self.name)
        return name, self.program.checked.samplers[name]

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings of the checker, and warnings that depend on the sizes of the model.

        The latter concern cells that are never hidden or moved, and factors that reach -inf.
        Warnings that a comment `# gmlm: allow CODE` allows are left out. Each warning has `code`,
        `message` and `render()`.
        """
        checked = self.program.checked
        return (*self.program.warnings, *allowed(plan.lint_sizes(self.lowered, checked, self.name), checked.allowances))

    # Methods of all models

    @abstractmethod
    def init_params(self, seed: int = 0) -> dict[str, PyTree]:
        """Return the parameters at which a fit starts."""

    @abstractmethod
    def loss(self, *arguments: Any, **options: Any) -> jax.Array:
        """Return the mean over rows of the mean over masks of -log p(x_K | x_rest)."""

    @abstractmethod
    def log_prob(
        self, params: Params, x: Rows, *, missing: Missing | None = None, given: Given | None = None, sampler: str | None = None
    ) -> AnyArray:
        """Return log p(x) of each row.

        Args:
            params: the parameters.
            x: the rows.
            missing: the value that marks a missing cell or padding.
            given: the data of given variables, as in `fit`.
            sampler: the name of a decoder whose draws have the returned log p.
        """

    @abstractmethod
    def log_conditional(
        self, params: Params, x: Rows, K: Sequence[int] | int, mask: str | None = None, *, given: Given | None = None
    ) -> jax.Array:
        """Return the table log p(x_K | x_rest).

        Args:
            params: the parameters.
            x: the configurations; their values in K have no effect.
            K: the positions of cells, see `positions`.
            mask: the mask that drew K.
            given: the data of given variables, as in `fit`.
        """

    @abstractmethod
    def next_symbol(self, params: Params, prefix: ArrayLike, *, given: Given | None = None) -> np.ndarray:
        """Return p(x_t = v | x_0, .., x_(t-1)) for the first cell t that a prefix lacks."""

    @abstractmethod
    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Given | None = None) -> np.ndarray:
        """Return one run of a sampler's body as a matrix over all configurations."""

    @abstractmethod
    def fit(self, *arguments: Any, **options: Any) -> Any:
        """Estimate the parameters by the loss of a mask."""

    @abstractmethod
    def sample(self, *arguments: Any, **options: Any) -> Any:
        """Draw by a sampler."""

    def mock(self, rows: int = 100, *, seed: int = 0) -> dict[str, Any]:
        """Draw data of the declared types, to try a fit before the data exist.

        The value of each cell is uniform, and no factor has an effect on it. If the program
        excludes some of these rows, copies of a few possible rows replace them. Given variables are uniform,
        real ones standard normal, and positive ones log-normal.

        Args:
            rows: the number of rows.
            seed: the seed of the draws.

        Returns:
            A dict with the argument `x` of `fit`, and `given` if the model has given variables.
            Both are arrays of shape (rows, *axes), or dicts of such arrays if there are several
            variables. Letters and labels are 0-based codes.

        Raises:
            GmlmError: E507 for arguments that do not fit.
        """
        rows, seed = whole_number("rows", rows, 1), verified_seed(seed)
        found: Any = random_rows(self.graph, rows, seed)
        given = mock_given(self.graph, rows, seed)
        return {"x": next(iter(found.values())) if len(found) == 1 else found} | ({"given": given} if given else {})

    def compile(
        self, rows: int | None = None, mask: str | None = None, *, sampler: str | None = None, draws: int = 1000, chains: int = 4
    ) -> None:
        """Compile the programs that a later `fit` or `sample` of these sizes will run.

        The first such calls of this process use the compiled programs, and so do later processes
        because the programs are cached on disk. For a fit, a fit to random rows takes a single
        step; for draws nothing is run. Programs that depend on more than shapes are compiled when
        they are first needed. They depend on weights, missing cells or other options, or only some
        data need them, such as the search for parameters without a finite estimate.

        Args:
            rows: the number of rows of the fit. If None, no fit is compiled.
            mask: the mask of the fit; it may be left out if the model has only one.
            sampler: the sampler of the draws, as in `sample`. If None, no draws are compiled.
            draws: as in `sample`.
            chains: as in `sample`.

        Raises:
            GmlmError: E507 if neither `rows` nor `sampler` is given; also the errors of `fit` and
                `sample`, which include given variables without their data.
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
        x: Rows,
        sampler: str | None = None,
        *,
        draws: int = 64,
        seed: int = 0,
        missing: Missing | None = None,
        given: Given | None = None,
    ) -> LogProbBound:
        """Return lower bounds of log p of a decoder's draws, in nats, one for each row.

        The bounds are computed from the passes that the decoder makes. For a random order the bound
        is a sum over t. Its term is (n_t / k_t) times the mean, over all K of k_t cells, of the sum
        over i in K of log p(x_i | x_rest, K hidden). Pass t settles n_t of k_t open cells. If the
        places of the passes are known, the bound is log p itself.

        Args:
            params: the parameters.
            x: the rows.
            sampler: the decoder's name; it may be left out if the model has only one sampler.
            draws: the number of passes that are drawn for a row. All passes are enumerated instead
                if there are at most 8 times as many.
            seed: the seed. The draws for row r depend on (seed, r) only.
            missing: the value that marks padding at the end of a network's row.
            given: the data of given variables, as in `fit`.

        Returns:
            A `LogProbBound` with `values`, `standard_error` and `exact`, which is true if nothing
            was drawn.

        Raises:
            GmlmError: E507, with a suggested fix, for a decoder without such a bound; E601 if a
                joint distribution's conditionals cost too much.

        Reference: Hoogeboom et al. 2022 (any-order models), Sahoo et al. 2024 (masked diffusion).
        """
        found = self.sampler(sampler)[1]
        return decoder_bounds.log_prob_bound(self.lowered, self._denoising(params), x, found, draws, seed, missing, given)

    @at_once
    def predict(
        self, params: Params, x: Rows, hidden: ArrayLike, *, missing: Missing | None = None, given: Given | None = None
    ) -> np.ndarray:
        """Return log p(x_i = v | the cells that are not hidden) for each hidden cell.

        For a network, the result is its prediction of all hidden cells in one pass.

        Args:
            params: the parameters.
            x: the rows; their values in hidden cells have no effect.
            hidden: booleans of shape (rows.., cells) or (cells,), for the cells of the `var`s in
                their order.
            missing: the value that marks a missing cell; missing cells are hidden too.
            given: the data of given variables, as in `fit`.

        Returns:
            An array of shape (rows.., cells, values). A cell with fewer values has -inf at the end.
            A visible cell has 0 at its value and -inf elsewhere. In a joint distribution, other
            hidden cells and latents are summed out; if the visible cells are impossible, all values
            have the same probability.

        Raises:
            GmlmError: E601 if that costs too much.
        """
        return decoder_bounds.predict(self.lowered, self._denoising(params), x, hidden, missing, given)

    # Private helpers

    @abstractmethod
    def _denoising(self, params: Params) -> Mapping[str, PyTree]:
        """Return the parameters in the form that decoders read, for both kinds of model."""

    def _provenance(self) -> JsonObject:
        return self.program.provenance() | {"model": self.name}

    def _draw_strings(
        self,
        lowered: Lowered,
        sampler: ir.Sampler,
        call: ir.FormCall,
        params: Params,
        options: GuidedOptions,
        seed: int,
        oracle: Oracle | None,
        stated: Mapping[str, bool],
    ) -> Any:
        """Return the draws of a sampler that grows strings.

        `stated` contains the options of chains that a caller gave. Such a sampler accepts none of
        them.
        """
        setting = Setting(lowered, params, verified_seed(seed), self.program.allow_python, oracle)
        refuse_options(sampler, stated)
        return draw_guided(setting, call, options, self._provenance())
