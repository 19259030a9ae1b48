"""The record of a fit: estimates by name, standard errors, status; it is saved without code."""

from __future__ import annotations

import copy
import dataclasses
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from .._diagnostics import counted, duration, fail, is_one_of, no_attribute
from .._types import JsonObject
from ..evaluate import LEVEL, Missing, entry_names, intervals, unflatten, verified_level, verified_quantile, verify_all
from ..files import write_whole
from ..graph import FactorGraph, with_given
from ._few_rows import TOO_FEW, Inferred, Later, scored_rows
from ._fit import Estimate, Starts
from ._inference import Covariances
from ._kinks import held_graph, without_interval
from ._options import Evidence, PersistentContrastiveDivergence
from ._saved_fits import FIT, INPUT, SavedFit, fit_bytes, outside, read_fit
from ._status import Finding, Status, sparse_directions
from .limits import MOST_INFERRED

if TYPE_CHECKING:
    import pandas as pd
    from jax.typing import DTypeLike

Array = np.ndarray
F = TypeVar("F", bound="FitRecord")
KINDS = ("sandwich", "laplace")
MINIMA = (
    "hidden variables: there may be lower minima than this one; `starts=20` takes the best of random starts, "
    "see docs/how-to/fit-hidden-variables.md"
)
NO_LAPLACE = "no valid error: the mask's loss is not a likelihood"


@dataclass(frozen=True, repr=False)
class FitRecord:
    """The data of a fitted model, by name.

    The attributes are those of `Fit`, which adds the methods that check the fit.
    """

    params: dict[str, Array]
    inference: Inferred | Later = field(repr=False)
    loss_trace: Array
    objective: float
    meta: JsonObject
    graph: FactorGraph = field(repr=False)
    _model: Callable[[], Any] = field(repr=False)
    _evidence: Evidence | None = field(default=None, repr=False)
    missing: Missing | None = field(default=None, repr=False)

    @property
    def status(self) -> Status:
        """The status: whether the fit converged, and which entries have no estimate, with remedies.

        If there are many parameters, the status is computed at the first access.
        """
        return self.inference.status

    @property
    def determined(self) -> Mapping[str, Array]:
        """The covariances of the determined directions, by kind; see `determined_covariance`."""
        return self.inference.covariances

    @property
    def evidence(self) -> Evidence:
        """The data and the options of the fit.

        Raises:
            GmlmAttributeError: E505 for a fit that was loaded from a file or made with
                `rows_at_once=`, which keep no rows.
        """
        if self._evidence is None:
            help = "`posterior`, `predictive` and `score` take rows, `x=..`; for all else"
            help += f" take a fit that has them: `fit.model.fit(x, mask={self.mask!r}, init=fit.params)`"
            why = "it was loaded from a file, or made with `rows_at_once=`"
            message = f"this fit of `{self.meta['model']}` keeps no rows, which are needed here: {why}"
            raise no_attribute("E505", message, help)
        return self._evidence

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self._model()

    @property
    def mask(self) -> str:
        """The mask's name."""
        return self.meta["mask"]

    @property
    def simulated(self) -> JsonObject | None:
        """A description of simulated standard errors, as a dict.

        It is None unless the fit is by `simulated_errors`. The dict has `words`, the number of
        `draws`, and `effective`, their effective number.
        """
        return self.meta.get("simulated")

    @property
    def level(self) -> float:
        """The probability of the intervals of this fit and of its checks, if no other is given."""
        return float(self.meta.get("level", LEVEL))

    def with_level(self: F, level: float) -> F:
        """Return this fit with another probability of its intervals, `fit.with_level(0.95)`.

        Raises:
            GmlmError: E507 unless it is a number between 0 and 1.
        """
        return dataclasses.replace(self, meta=self.meta | {"level": verified_level(level)})

    @property
    def starts(self) -> Starts | None:
        """The ends of all fits of `Model.fit(starts=..)`; None for a fit from one start."""
        found = self.meta.get("starts")
        return None if found is None else Starts(**found | {"objectives": tuple(found["objectives"])})

    @property
    def effective_rows(self) -> float:
        """Kish's number of rows.

        This is (sum w)^2 / sum w^2 for importances and sum w for counts, over the rows with an
        observed cell to score.
        """
        return float(self.meta.get("effective_rows", self.meta["rows"]))

    @cached_property
    def full_covariance(self) -> Array | None:
        """The matrix `covariance`, or None if there is none."""
        found = self.determined.get("sandwich")
        return None if found is None else self.status.inflate(found)

    @cached_property
    def one_mask_covariance(self) -> Array | None:
        """The sandwich covariance for one drawn mask per row; None if it cannot be computed."""
        found = self.determined.get("one_mask")
        return None if found is None else self.status.inflate(found)

    @property
    def covariance(self) -> Array:
        """The sandwich covariance of all parameters, shape (parameters, parameters).

        The parameters are in declaration order, and their entries are row-major. If an entry has no
        finite estimate, or its error is not determined by the rows, its variance is infinite. The
        rest of its row and column is then nan.

        Raises:
            GmlmAttributeError: E543 for a method without standard errors, E601 if the covariance
                was not computed because there are too many parameters.
        """
        if "sandwich" not in self.determined and self.meta.get("method") == PersistentContrastiveDivergence.name:
            message = f"a fit by {self.meta['method']} has no standard errors: its optimum is approximate, and no curvature is computed"
            help = "`fit.bootstrap()` refits to resampled rows; or fit without `method=` where that is affordable"
            raise no_attribute("E543", message, help)
        if self.full_covariance is None:
            n = sum(p.size for p in self.graph.parameters)
            message = f"standard errors of {n:,} parameters were not computed: their covariance takes {8 * n * n / 2**30:.3g} GiB"
            raise no_attribute("E601", message, "fit fewer parameters, or hold some with `fixed=`")
        return self.full_covariance

    def determined_covariance(self, errors: str = "sandwich") -> Array:
        """Return the covariance of the determined directions, shape (parameters, parameters).

        It has zeros for entries whose estimate or error is not determined.

        Args:
            errors: "sandwich" or "laplace". "sandwich" is H^-1 S H^-1 of the estimator, with a
                prior as a fixed penalty. "laplace" is H^-1, the covariance of Laplace's
                approximation to the posterior: the errors of a model that is assumed to be right.
                For a fit under another mask than `everything`, "laplace" is not a valid error, and
                may be too small or too large.

        Raises:
            GmlmError: E543 for another kind, E601 if the covariance was not computed because there
                are too many parameters.
        """
        verify_kind(errors)
        if errors not in self.determined and "sandwich" in self.determined:
            raise fail("E543", f"this file holds no {errors} errors: an earlier version wrote it", help="fit again")
        found = self.determined.get(errors)
        return self.covariance if found is None else found

    def covariance_of(self, errors: str) -> Array:
        """Return the covariance of a kind, see `determined_covariance`.

        The diagonal is infinite at entries without a finite estimate or error.
        """
        return self.status.inflate(self.determined_covariance(errors), by_rows=errors == "sandwich")

    @property
    def standard_errors(self) -> dict[str, Array]:
        """The sandwich (Godambe) standard errors by parameter.

        A standard error is 0 if the parameter is fixed, and inf if there is no finite estimate or
        if the rows do not determine the error. It is nan if a laplace prior holds the entry at its
        centre: such an estimate is not normal and has no interval.
        """
        return self.standard_errors_of("sandwich")

    def standard_errors_of(self, errors: str) -> dict[str, Array]:
        """Return the standard errors of a kind by parameter, see `determined_covariance`."""
        none = without_interval(self.graph, self.meta["fixed"], self.params)
        return unflatten(self.graph, np.where(none, np.nan, np.sqrt(np.maximum(self._variances(errors), 0))))

    def _variances(self, errors: str) -> Array:
        """Return the diagonal of `covariance_of`."""
        found = self.determined
        if not isinstance(found, Covariances) or not is_one_of(errors, KINDS):
            return np.diag(self.covariance_of(errors))
        return np.where(self.status.open_entries(errors == "sandwich"), np.inf, found.variances(errors))

    def interval(self, probability: float | None = None, errors: str = "sandwich") -> dict[str, tuple[Array, Array]]:
        """Return intervals by parameter.

        The interval of a real parameter is estimate -+ z * standard error. The interval of a
        bounded parameter is normal on the log or logit scale. The intervals are intervals for the
        limit of the estimate. If a prior shrinks the estimate (`status.shrunk`), this limit is not
        the true value. Nan stands for no interval.

        Args:
            probability: the probability of the intervals. If None, `level`.
            errors: "sandwich" or "laplace", see `determined_covariance`.
        """
        probability = self.level if probability is None else probability
        return intervals(self.graph, self.params, self.standard_errors_of(errors), verified_quantile(probability))

    def undetermined_directions(self) -> pd.DataFrame:
        """Return the directions without a finite estimate, one column each.

        The columns have many zeros and a largest part of 1. The rows are the entries that have a
        part in some direction.
        """
        import pandas as pd

        directions = sparse_directions(self.status.open_directions.T)
        frame = pd.DataFrame(directions.T, index=pd.Index(entry_names(self.graph), name="parameter"))
        return frame.loc[(frame != 0).any(axis=1)]

    def summary(self, probability: float | None = None, errors: str = "sandwich") -> pd.DataFrame:
        """Return a table with one row per parameter entry.

        The columns are the estimate, the standard error, the interval, and a note if these are
        exceptional. Nan stands for no interval, if a laplace prior holds the entry at its centre.
        "shrunk" marks entries whose interval is not an interval for the true value, because priors
        shift the estimate by more than half a standard error.

        Args:
            probability: the probability of the intervals. If None, `level`.
            errors: "sandwich" or "laplace", see `determined_covariance`; `fit.bootstrap()` has its
                own summary.
        """
        import pandas as pd

        from .._printed_table import PrintedTable

        verify_kind(errors)
        probability = self.level if probability is None else probability
        names, flat = entry_names(self.graph), self.flat(self.params).astype(float)
        signs = self.status.separated
        table = {"estimate": np.where(signs > 0, np.inf, np.where(signs < 0, -np.inf, flat))}
        if self.full_covariance is not None:
            bounds = self.interval(probability, errors)
            table["std_error"] = self.flat(self.standard_errors_of(errors))
            tail = 100 * (1 - probability) / 2
            table[f"{tail:.3g}%"] = self.flat({k: v[0] for k, v in bounds.items()})
            table[f"{100 - tail:.3g}%"] = self.flat({k: v[1] for k, v in bounds.items()})
        notes = notes_on(self, errors)
        frame = PrintedTable(table, index=pd.Index(names, name="parameter"))
        if (notes != "").any():
            frame["note"] = notes
        return frame

    def flat(self, arrays: Mapping[str, Array]) -> Array:
        """Return one vector from arrays by parameter: declaration order, then row-major.

        Raises:
            GmlmError: E507 or E506 unless `arrays` is a dict with an array for each parameter.
        """
        verify_all(self.graph, arrays, "arrays")
        return np.concatenate([np.ravel(arrays[p.name]) for p in self.graph.parameters] or [np.zeros(0)])

    def sample(self, sampler: str | None = None, **options: Any) -> Any:
        """Draw from the fitted model; see `Model.sample`.

        Given data that all rows of the fit share are passed on.
        """
        data = None if self._evidence is None else self._evidence.lowered.data
        if data is not None and data.shape == () and "given" not in options:
            options["given"] = {v.name: data.arrays[v.name].reshape(v.shape) for v in self.graph.given}
        return self.model.sample(self.params, sampler, **options)

    def __repr__(self) -> str:
        meta = self.meta
        head = (
            f"Fit of `{meta['model']}` to {counted(meta['rows'], 'row')} under mask {meta['mask_use']}: {self.status.code} "
            f"after {counted(len(self.loss_trace), 'step')}, {duration(meta['seconds'])}"
        )
        kind = "the objective is convex: this is its global minimum" if meta["convex"] and self.status.converged else ""
        by_rows = "sandwich (Godambe) of what was optimised, a prior counting as a fixed penalty"
        errors = f"standard errors: {self.simulated['words'] if self.simulated else by_rows}"
        lines = [
            *([head, kind] if kind else [head]),
            *([self.missing.words] if self.missing is not None and self.missing.any else []),
            *([] if self.starts is None else [self.starts.words]),
            *([MINIMA] if self.starts is None and self.missing is not None and self.missing.latents and self.status.converged else []),
            *([errors] if "sandwich" in self.determined else self._no_errors()),
            *(f"{f.message}. {f.remedy}." for f in self.status.findings),
        ]
        return "\n".join(lines)

    def _no_errors(self) -> list[str]:
        """Return the line on why there are no standard errors, if there are too many parameters."""
        count = sum(p.size for p in self.graph.parameters)
        if count <= MOST_INFERRED:
            return []
        return [f"standard errors: none, for {count:,} parameters are more than the {MOST_INFERRED:,} whose curvature a fit computes"]

    def _repr_html_(self) -> str:
        from html import escape

        notes = "".join(f"<p><b>{escape(f.message)}.</b> {escape(f.remedy)}.</p>" for f in self.status.findings)
        frame = self.summary()
        rows = frame.head(200).to_html(float_format=lambda v: f"{v:.4g}", na_rep="none")
        more = f"<p>{len(frame) - 200} more rows</p>" if len(frame) > 200 else ""
        return f"<div><p>{escape(repr(self).splitlines()[0])}</p>{notes}{rows}{more}</div>"

    def save(self, path: str | Path) -> None:
        """Write the fit as one file, whole or not at all.

        The file contains arrays and text only, so that loading it runs no code.

        Raises:
            GmlmError: E560 if the file cannot be written; E520 for a fit that was changed so that
                it is not valid.
        """
        write_whole(path, fit_bytes(*_content(self)))

    def __reduce__(self) -> tuple[object, ...]:
        """Return the state that is pickled.

        It consists of the content that `save` writes, the model, and the data. A fit with an
        `optimizer` is pickled without its data, like a fit in a file: an optax transformation
        consists of functions, which cannot be pickled.
        """
        return _made_again, (type(self), self.model, fit_bytes(*_content(self)), _data_of(self))

    def __copy__(self: F) -> F:
        return dataclasses.replace(self)

    def __deepcopy__(self: F, memo: Any) -> F:
        params, trace, meta = copy.deepcopy((self.params, self.loss_trace, self.meta), memo)
        # The other attributes are never changed.
        return dataclasses.replace(self, params=params, loss_trace=trace, meta=meta)


def _data_of(fit: FitRecord) -> tuple[Any, ...] | None:
    """Return the inputs of a fit without its model."""
    known = fit._evidence
    if known is None or known.options.optimizer is not None:
        return None
    return known.mask, known.codes, known.options, known.lowered.data, known.index


def _made_again(kind: type[F], model: Any, content: bytes, data: tuple[Any, ...] | None) -> F:
    """Return a fit from another process."""
    saved = read_fit(io.BytesIO(content), "the pickled fit")
    saved.meta["inputs"] = dict(model.program.bound.inputs)
    fit = fit_from_file(kind, saved, model.graph, lambda: model)
    if data is None:
        return fit
    mask, codes, options, given, index = data
    lowered = model.lowered if given is None else with_given(model.lowered, given)
    return dataclasses.replace(fit, _evidence=Evidence(lowered, mask, codes, options, index))


def verify_kind(errors: str) -> None:
    """Raise E543 for an unknown kind of standard errors.

    Raises:
        GmlmError: E543.
    """
    if not is_one_of(errors, KINDS):
        words = " or ".join(map(repr, KINDS))
        raise fail("E543", f"errors must be {words}, got {errors!r}", help="`fit.bootstrap()` has its own summary")


def _content(fit: FitRecord) -> tuple[JsonObject, dict[str, Array]]:
    """Return the content of a fit's file: text, and arrays by name."""
    status = fit.status
    arrays = {f"param:{k}": v for k, v in fit.params.items()} | {f"{INPUT}{k}": v for k, v in fit.meta["inputs"].items()}
    arrays |= {"loss_trace": fit.loss_trace, "separated": status.separated, "undetermined": status.undetermined}
    kept = {k: v for k, v in fit.determined.items() if k in KINDS and (k != "sandwich" or not status.is_finite)}
    optional = {f"determined:{k}": v for k, v in kept.items()}
    optional |= {"covariance": fit.full_covariance, "one_mask_covariance": fit.one_mask_covariance}
    optional["open_directions"] = status.open_directions if len(status.open_directions) else None
    optional["without_error"] = status.without_error if status.without_error.any() else None
    optional["shrunk"] = status.shrunk
    meta = {k: v for k, v in fit.meta.items() if k != "inputs"} | {"objective": fit.objective, "status": status.code}
    meta["findings"] = [[f.slug, f.message, f.remedy] for f in status.findings]
    if fit.missing is not None:
        counts = dataclasses.asdict(fit.missing)
        optional["missing"], _ = counts.pop("cells"), counts.pop("ignored")
        meta["missing"] = counts | {"latents": list(fit.missing.latents)}
    return meta, arrays | {k: v for k, v in optional.items() if v is not None}


def estimate_to_fit(
    kind: type[F], estimate: Estimate, graph: FactorGraph, meta: JsonObject, model: Callable[[], Any], dtype: DTypeLike
) -> F:
    """Return a fit of class `kind` from an estimate, with named arrays in the working float type.

    Args:
        kind: the class of the fit.
        estimate: the estimate.
        graph: the factor graph.
        meta: the text and numbers to which those of the estimate are added.
        model: a function that returns the model.
        dtype: the working float type.
    """
    params = {k: v.astype(dtype) for k, v in estimate.params.items()}
    meta = meta | {
        "mask": estimate.use.name,
        "mask_use": estimate.use.words,
        "n_masks": estimate.use.n_masks,
        "weights_are": estimate.evidence.options.weights_are,
        "rows": estimate.rows,
        "effective_rows": scored_rows(estimate.evidence) if estimate.effective_rows is None else estimate.effective_rows,
        "fixed": list(estimate.fixed),
        "convex": estimate.convex,
        "seconds": estimate.seconds,
        "method": getattr(estimate.evidence.options.method, "name", None),
        "reached": estimate.use.reached,
        "mean_block_size": estimate.use.mean_size,
    }
    if estimate.evidence.options.ignores:
        meta["gaps"] = estimate.evidence.options.gaps
    trace, evidence = estimate.outcome.trace, estimate.evidence
    if estimate.effective_rows is not None:
        evidence = None
    return kind(params, estimate.inference, trace, estimate.objective, meta, graph, model, evidence, estimate.missing)


def fit_from_file(kind: type[F], saved: SavedFit, graph: FactorGraph, model: Callable[[], Any]) -> F:
    """Return a fit of class `kind` from the result of `read_fit`.

    Args:
        kind: the class of the fit.
        saved: the result of `read_fit`.
        graph: the factor graph.
        model: a function that returns the model.

    Raises:
        GmlmError: E520 if it is not a fit of this model.
    """
    meta, size = dict(saved.meta), sum(p.size for p in graph.parameters)
    square = [*(f"determined:{k}" for k in KINDS), "covariance", "one_mask_covariance"]
    of_size = dict.fromkeys(("without_error", "shrunk"), ((size,), "b"))
    shapes = {"open_directions": ((None, size), "f"), **of_size, **dict.fromkeys(square, ((size, size), "f"))}
    if "missing" in meta:
        shapes["missing"] = (graph.n_random,), "iu"
    saved.verify_names((*(f"param:{p.name}" for p in graph.parameters), "loss_trace", "separated", "undetermined"), shapes)
    found = {name: saved.array(name, *wanted) for name, wanted in shapes.items() if name in saved.headers}
    params = {p.name: saved.array(f"param:{p.name}", p.shape, "f") for p in graph.parameters}
    if problem := outside(graph, params, meta):
        raise FIT.bad(saved.path, problem)
    graph = held_graph(graph, meta.get("selected"))
    separated, undetermined = saved.array("separated", (size,), "i"), saved.array("undetermined", (size,), "b")
    findings = tuple(Finding(*f) for f in meta.pop("findings"))
    open_ = found.get("open_directions", np.zeros((0, size)))
    status = Status(meta.pop("status"), findings, separated, undetermined, open_, found.get("without_error"), found.get("shrunk"))
    objective, counts = float(meta.pop("objective")), meta.pop("missing", None)
    missing = None
    if counts is not None:
        cells = found.get("missing", np.zeros(graph.n_random, np.int64))
        missing = Missing(cells, **counts | {"latents": tuple(counts["latents"])}, ignored=counts["rows"] > 0 and "gaps" in meta)
    determined = {"sandwich": found.get("covariance"), "one_mask": found.get("one_mask_covariance")}
    determined |= {k: found[f"determined:{k}"] for k in KINDS if f"determined:{k}" in found}
    known = {k: v for k, v in determined.items() if v is not None}
    trace = saved.array("loss_trace", (None,), "f")
    return kind(params, Inferred(status, known), trace, objective, meta, graph, model, None, missing)


class Noted(Protocol):
    """The attributes of the record of a fit from which notes are made."""

    @property
    def graph(self) -> FactorGraph: ...
    @property
    def params(self) -> dict[str, Array]: ...
    @property
    def status(self) -> Status: ...
    @property
    def meta(self) -> JsonObject: ...
    @property
    def determined(self) -> Mapping[str, Array]: ...
    @property
    def simulated(self) -> JsonObject | None: ...


def notes_on(fit: Noted, errors: str) -> Array:
    """Return a note for each entry of the flat vector; it is empty if there is nothing to note."""
    status, fixed = fit.status, fit.meta["fixed"]
    notes = np.full(len(status.separated), "", object)
    if errors == "sandwich" and "sandwich" in fit.determined:
        notes = _on_errors(fit)
    # A row's loss is -log p of all reachable cells given the rest if every block contains all cells
    # that the mask can reach. Otherwise the terms of a row are dependent, their Hessian is not the
    # covariance of their gradient, and its inverse is not a covariance.
    if errors == "laplace" and fit.meta.get("mean_block_size") != fit.meta.get("reached"):
        notes = np.full(len(notes), NO_LAPLACE, object)
    if status.shrunk is not None:
        notes = np.where(status.shrunk, np.where(notes == "", "shrunk", notes + "; shrunk"), notes)
    held = "held: not selected" if fit.meta.get("selected") else "at its prior's centre"
    notes = np.where(without_interval(fit.graph, fixed, fit.params), held, notes)
    notes = np.where(status.separated != 0, "no finite estimate", np.where(status.undetermined, "not determined", notes))
    whose = np.repeat([p.name for p in fit.graph.parameters], [p.size for p in fit.graph.parameters])
    return np.where(np.isin(whose, list(fixed)), "fixed", notes)


def _on_errors(fit: Noted) -> Array:
    """Return a note on the sandwich error of each entry."""
    status = fit.status
    if fit.simulated is not None:
        return np.full(len(status.separated), "assumes the model", object)
    few = any(f.slug == TOO_FEW for f in status.findings)
    return np.where(status.without_error, "no error by these rows", "error too small: few rows" if few else "").astype(object)
