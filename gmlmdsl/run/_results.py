"""The result of a fit: estimates by name, standard errors, status; saved without code."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._files import write_whole
from ..graph import FactorGraph
from . import _checks
from ._fit import Estimate, Evidence
from ._missing import Missing
from ._parameters import entry_names, unflatten
from ._status import Finding, Status

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
FORMAT = 1
MOST_FILE_BYTES = 1 << 32


@dataclass(frozen=True, repr=False)
class Fit:
    """A fitted model.

    Attributes:
        params: estimates by parameter name.
        status: whether it converged, and what has no estimate, with remedies.
        loss_trace: the objective per unit of row weight, step by step.
        objective: c * sum over rows of w loss - log prior at the estimate.
        mask: the mask's name. n_masks: masks drawn per row, None where all were used.
        meta: program text, inputs, seed, versions, seconds: what `save` keeps.
        missing: how many cells were missing, and what was done about them.
    """

    params: dict[str, Array]
    status: Status
    loss_trace: Array
    objective: float
    meta: dict[str, Any]
    graph: FactorGraph = field(repr=False)
    full_covariance: Array | None = field(repr=False)
    one_mask_covariance: Array | None = field(repr=False)
    _model: Callable[[], Any] = field(repr=False)
    _evidence: Evidence | None = field(default=None, repr=False)
    missing: Missing | None = field(default=None, repr=False)

    @property
    def evidence(self) -> Evidence:
        """The data and the options the fit was made from.

        Raises:
            GmlmError: E505 for a fit that was loaded from a file: data are not saved with it.
        """
        if self._evidence is None:
            raise fail("E505", "a fit that was loaded from a file has no data with it", help="pass the data: `x=..`")
        return self._evidence

    @property
    def model(self) -> Any:
        """The model that was fitted."""
        return self._model()

    @property
    def mask(self) -> str:
        """The mask's name."""
        return self.meta["mask"]

    @property
    def covariance(self) -> Array:
        """The sandwich covariance of all parameters, shape (parameters, parameters), in declaration order, then row-major.

        Infinite on the diagonal, and nan beside it, where an entry has no finite estimate.

        Raises:
            GmlmError: E601 where it was not computed because there are too many parameters.
        """
        if self.full_covariance is None:
            n = sum(p.size for p in self.graph.parameters)
            message = f"standard errors of {n:,} parameters were not computed: their covariance takes {8 * n * n / 2**30:.3g} GiB"
            raise fail("E601", message, help="fit fewer parameters, or hold some with `fixed=`")
        return self.full_covariance

    @property
    def standard_errors(self) -> dict[str, Array]:
        """Sandwich (Godambe) standard errors by parameter; inf where there is no finite estimate, 0 where fixed."""
        return unflatten(self.graph, np.sqrt(np.maximum(np.diag(self.covariance), 0)))

    def interval(self, probability: float = 0.94) -> dict[str, tuple[Array, Array]]:
        """Normal intervals, estimate -+ z * standard error, by parameter."""
        from scipy.special import ndtri

        if not 0 < probability < 1:
            raise fail("E507", f"probability lies between 0 and 1, got {probability}")
        z, errors = float(ndtri(0.5 + probability / 2)), self.standard_errors
        return {k: (v - z * errors[k], v + z * errors[k]) for k, v in self.params.items()}

    def summary(self, probability: float = 0.94) -> pd.DataFrame:
        """One row per parameter entry: estimate, standard error, interval, and a note where there is no finite estimate."""
        import pandas as pd

        names = entry_names(self.graph)
        flat = np.concatenate([np.ravel(self.params[p.name]) for p in self.graph.parameters] or [np.zeros(0)]).astype(float)
        signs, open_ = self.status.separated, self.status.undetermined
        shown = np.where(signs > 0, np.inf, np.where(signs < 0, -np.inf, flat))
        table = {"estimate": shown}
        if self.full_covariance is not None:
            bounds = self.interval(probability)
            table["std_error"] = self._flat(self.standard_errors)
            tail = 100 * (1 - probability) / 2
            table[f"{tail:.3g}%"] = self._flat({k: v[0] for k, v in bounds.items()})
            table[f"{100 - tail:.3g}%"] = self._flat({k: v[1] for k, v in bounds.items()})
        notes = np.where(signs != 0, "no finite estimate", np.where(open_, "not determined", ""))
        fixed = {p.name for p in self.graph.parameters if p.name in self.meta["fixed"]}
        whose = np.repeat([p.name for p in self.graph.parameters], [p.size for p in self.graph.parameters])
        notes = np.where(np.isin(whose, list(fixed)), "fixed", notes)
        frame = pd.DataFrame(table, index=pd.Index(names, name="parameter"))
        if (notes != "").any():
            frame["note"] = notes
        return frame

    def _flat(self, arrays: dict[str, Array]) -> Array:
        return np.concatenate([np.ravel(arrays[p.name]) for p in self.graph.parameters] or [np.zeros(0)])

    def sample(self, sampler: str | None = None, **options: Any) -> Any:
        """Draws from the fitted model; see `Model.sample`."""
        return self.model.sample(self.params, sampler, **options)

    # Checks: what they do stands with the functions

    predictive = _checks.predictive
    score = _checks.score
    cross_validate = _checks.cross_validate
    information_criterion = _checks.information_criterion
    to_arviz = _checks.to_arviz

    def __repr__(self) -> str:
        meta = self.meta
        head = (
            f"Fit of `{meta['model']}` to {meta['rows']} rows under mask {meta['mask_use']}: {self.status.code} "
            f"after {len(self.loss_trace)} steps, {meta['seconds']:.2g} s"
        )
        kind = "the objective is convex: this is its global minimum" if meta["convex"] and self.status.converged else ""
        errors = "standard errors: sandwich (Godambe) of what was optimised, a prior counting as a fixed penalty"
        lines = [
            head,
            *([kind] if kind else []),
            *([self.missing.words] if self.missing is not None and self.missing.rows else []),
            *([errors] if self.full_covariance is not None else []),
            *(f"{f.message}. {f.remedy}." for f in self.status.findings),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        notes = "".join(f"<p><b>{escape(f.message)}.</b> {escape(f.remedy)}.</p>" for f in self.status.findings)
        frame = self.summary()
        rows = frame.head(200).to_html(float_format=lambda v: f"{v:.4g}")
        more = f"<p>{len(frame) - 200} more rows</p>" if len(frame) > 200 else ""
        return f"<div><p>{escape(repr(self).splitlines()[0])}</p>{notes}{rows}{more}</div>"

    def save(self, path: str | Path) -> None:
        """Write the fit as one file, whole or not at all: arrays and text only, so that loading runs no code.

        Raises:
            GmlmError: E560 if the file cannot be written.
        """
        arrays = {f"param:{k}": v for k, v in self.params.items()}
        arrays |= {f"input:{k}": v for k, v in self.meta["inputs"].items()}
        arrays["loss_trace"], arrays["separated"], arrays["undetermined"] = self.loss_trace, self.status.separated, self.status.undetermined
        if self.full_covariance is not None:
            arrays["covariance"] = self.full_covariance
        if self.one_mask_covariance is not None:
            arrays["one_mask_covariance"] = self.one_mask_covariance
        meta = {k: v for k, v in self.meta.items() if k != "inputs"}
        meta |= {"format": FORMAT, "objective": self.objective, "status": self.status.code}
        if self.missing is not None:
            counts = dataclasses.asdict(self.missing)
            arrays["missing"] = counts.pop("cells")
            meta["missing"] = counts
        meta["findings"] = [[f.slug, f.message, f.remedy] for f in self.status.findings]
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        write_whole(path, buffer.getvalue())


def estimate_to_fit(estimate: Estimate, graph: FactorGraph, meta: dict[str, Any], model: Callable[[], Any], dtype: Any) -> Fit:
    """Names for what a fit found; numbers in the working float type."""
    params = {k: v.astype(dtype) for k, v in estimate.params.items()}
    meta = meta | {
        "mask": estimate.use.name,
        "mask_use": estimate.use.words,
        "n_masks": estimate.use.n_masks,
        "rows": estimate.rows,
        "fixed": list(estimate.fixed),
        "convex": estimate.convex,
        "seconds": estimate.seconds,
        "reached": estimate.use.reached,
        "mean_block_size": estimate.use.mean_size,
    }
    trace = estimate.outcome.trace
    covariances = estimate.covariance, estimate.one_mask_covariance
    return Fit(params, estimate.status, trace, estimate.objective, meta, graph, *covariances, model, estimate.evidence, estimate.missing)


def read_fit(path: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """The text and the arrays of a saved fit; declared sizes are checked before anything is read.

    Raises:
        GmlmError: E520 or E521 if it is not a fit, or damaged.
    """
    import zipfile

    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(i.file_size for i in archive.infolist())
        if size > MOST_FILE_BYTES:
            raise fail("E520", f"{path} declares {size / 2**30:.3g} GiB, more than the limit of {MOST_FILE_BYTES / 2**30:.3g} GiB")
        with np.load(path, allow_pickle=False) as found:
            arrays = {k: found[k] for k in found.files}
        meta = json.loads(arrays.pop("meta").tobytes().decode())
    except FileNotFoundError:
        raise fail("E521", f"there is no file {path}") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise fail("E520", f"{path} is not a saved fit, or is damaged: {type(error).__name__}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise fail("E520", f"{path} is not a fit of this version: format {meta.get('format') if isinstance(meta, dict) else '?'}")
    return meta, arrays


def fit_from_file(meta: dict[str, Any], arrays: dict[str, Array], graph: FactorGraph, model: Callable[[], Any]) -> Fit:
    """A fit from what `read_fit` found."""
    findings = tuple(Finding(*f) for f in meta.pop("findings"))
    status = Status(meta.pop("status"), findings, arrays["separated"], arrays["undetermined"])
    params = {k.removeprefix("param:"): v for k, v in arrays.items() if k.startswith("param:")}
    inputs = {k.removeprefix("input:"): v for k, v in arrays.items() if k.startswith("input:")}
    objective = float(meta.pop("objective"))
    counts = meta.pop("missing", None)
    missing = None if counts is None else Missing(arrays["missing"], **counts)
    kept = meta | {"inputs": inputs}
    covariances = arrays.get("covariance"), arrays.get("one_mask_covariance")
    return Fit(params, status, arrays["loss_trace"], objective, kept, graph, *covariances, model, None, missing)
