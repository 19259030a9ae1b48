"""Fits of networks: training from the arguments of `fit`, and its result."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
import optax

from .._diagnostics import counted, duration, fail, in_paragraphs, no_attribute, only
from .._progress import shows_progress
from .._types import ArrayLike, Given, JsonObject, Missing, ParamsLike, Rows
from ..data import NetworkRows, bound_to_rows, network_rows, random_key, verified_weights
from ..derive import NetworkLoss, spread_of
from ..evaluate import Estimate, bits_per_cell, mask_loss, verified_count, verified_params, verified_probes, verify_known
from ..files import write_whole
from ..fit import (
    INPUT,
    SavedFit,
    Training,
    fit_bytes,
    read_fit,
    verified_training,
    verify_numbers,
    verify_optimizer,
    verify_schedule,
    warn_of_size,
)
from ..graph import FactorGraph, Lowered
from ..networks import Probe, network_shapes, parameter_counts
from ..plan import verify_held
from ..program import ir
from ._batches import Batches
from ._training import Progress, Trained, train
from .limits import ROWS_AT_ONCE

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..networks import AbstractNetwork

Array = np.ndarray
PARTS = ("weight", "bias")  # The arrays of a probe.
TRACES: dict[str, tuple[int | None, ...]] = {"loss_trace": (None,), "length_trace": (None,), "validation_trace": (None, 3)}


@dataclass(frozen=True)
class NetworkOptions:
    """The arguments of `Model.fit` that apply to a network."""

    mask: ir.Mask
    seed: int = 0
    n_masks: int | str | None = None
    weights: ArrayLike | None = None
    missing: Missing | None = None
    init: ParamsLike | None = None
    optimizer: optax.GradientTransformation | None = None
    progress: bool | None = None
    method: Training = field(default_factory=Training)
    mesh_axis: str | None = None
    weight_axis: str | None = None


def fit_network(
    lowered: Lowered, x: Rows, given: Given | None, options: NetworkOptions, identity: Mapping[str, object]
) -> tuple[Trained, int]:
    """Train the network of a conditional model, and return it with the number of rows.

    Args:
        lowered: the lowered model.
        x: the rows.
        given: data of given variables.
        options: the arguments of `fit`.
        identity: everything else that the run depends on: the hashes of the program and of its
            inputs.

    Raises:
        GmlmError: for data, options or a mask that do not fit the model.
    """
    t = verified_training(options.method)
    options = replace(options, method=t)
    verify_schedule(t, options.optimizer)
    spread, shares = spread_of(options.mesh_axis), spread_of(options.weight_axis)
    if shares is not None and spread is None:
        message = "`weight_axis=` is for a training whose batches are spread, and these are not"
        raise fail("E507", message, help="add `mesh_axis=`; both may name the same axis")
    n_masks = verified_count(options.n_masks)
    verify_held(4.0 * lowered.graph.n_random * min(n_masks, 10**18) * t.batch_size, "the masks of a batch", "a smaller `n_masks=`")
    rows = network_rows(lowered, x, options.missing, given)
    if len(rows.shape) != 1 or not rows.n_rows:
        raise fail("E505", f"x must have one axis of rows before the variable's axes, and rows in it; got rows of shape {rows.shape}")
    verify_known(options.mask, lowered, rows)
    whole = any(law.groups() for law in mask_loss(lowered, options.mask)[0].mask.laws)
    check_rows = None
    if t.validation is not None:
        check_rows = network_rows(lowered, t.validation["x"], options.missing, t.validation.get("given"))
        if not check_rows.n_rows:
            raise fail("E505", "Training: validation has no rows")
        verify_known(options.mask, lowered, check_rows)
        if whole and lowered.graph.given:
            raise fail("E704", f"mask `{options.mask.name}` looks at given data: its loss on other rows is not measured here")
    if whole:
        lowered = bound_to_rows(lowered, rows, given) if lowered.graph.given else lowered
    loss, _ = mask_loss(lowered, options.mask, n_masks, t.label_smoothing, t.loss)
    weights = np.ones(rows.n_rows) if options.weights is None else verified_weights(rows.matched(options.weights, "weights"), rows.n_rows)
    network = start_network(lowered.graph, options)
    warn_of_size(sum(a.nbytes for a in jax.tree.leaves(eqx.filter(network, eqx.is_array))))
    verify_optimizer(options.optimizer, eqx.filter(network, eqx.is_inexact_array))
    batches = _batches(lowered, rows, weights, t, whole)
    check = None if check_rows is None else _batches(lowered, check_rows, np.ones(check_rows.n_rows), t, whole)
    per_batch = _per_batch(loss, batches, options.mask, "these rows")
    if check is not None:
        _per_batch(loss, check, options.mask, "the rows of validation")
    stated = {"program": identity["sha256"], "inputs": identity["inputs"], "mask": options.mask.name, "n_masks": options.n_masks}
    others = _losses_of_validation(lowered, check, n_masks, t)
    show = shows_progress(options.progress)
    found = train(network, loss, batches, per_batch, check, t, options.optimizer, options.seed, show, stated, others, spread, shares)
    return found, rows.n_rows


def _losses_of_validation(lowered: Lowered, check: Batches | None, n_masks: int, t: Training) -> dict[str, NetworkLoss]:
    """Return the losses of the further masks under which validation rows are measured, by the mask's name.

    Raises:
        GmlmError: E506 for a mask that the model does not have, E704 for one that looks at the data.
    """
    wanted = () if t.validation is None else t.validation.get("masks", ())
    out: dict[str, NetworkLoss] = {}
    for name in wanted:
        masks = {n: m for n, m in lowered.bound.program.masks.items() if m.model == lowered.names.model.name}
        mask = masks[only(name, list(masks), "mask", lowered.names.model.name)]
        out[name] = mask_loss(lowered, mask, n_masks, 0.0, t.loss)[0]
        if any(law.groups() for law in out[name].mask.laws):
            raise fail("E704", f"Training: validation is not measured under mask `{name}`, whose weights depend on the rows")
        assert check is not None
        verify_known(mask, lowered, check.rows)
        _per_batch(out[name], check, mask, "the rows of validation")
    return out


def fit(lowered: Lowered, x: Rows, given: Given | None, options: NetworkOptions, meta: JsonObject, model: Callable[[], Any]) -> NetworkFit:
    """Train the network and return the fit; see `ConditionalModel.fit`.

    Args:
        lowered: the lowered model.
        x: the rows.
        given: data of given variables.
        options: the arguments of `fit`.
        meta: what `save` writes about the fit: the program, its inputs, the mask.
        model: a function that returns the model.
    """
    found, rows = fit_network(lowered, x, given, options, meta)
    loss = {} if options.method.loss == "cross_entropy" else {"loss": options.method.loss}
    return trained_to_fit(found, lowered.graph, meta | {"rows": rows} | loss, model)


def _batches(lowered: Lowered, rows: NetworkRows, weights: Array, t: Training, whole: bool) -> Batches:
    return Batches.of(rows, weights, t.batch_size, t.buckets, lowered.graph.n_random, whole)


def _per_batch(loss: NetworkLoss, batches: Batches, mask: ir.Mask, what: str) -> tuple[float, float]:
    """Return the weighted number of hidden cells and the weight of rows, per batch of an epoch.

    Both are means over the batches of an epoch. A row's number of hidden cells is its expectation
    under the mask.

    Raises:
        GmlmError: E410 for a mask that hides no cell of these rows.
    """
    codes, cells = batches.rows.codes, 0.0
    for start in range(0, batches.rows.n_rows, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        some, weights = jax.numpy.asarray(codes[:, part]), batches.weights[part]
        present = (some >= 0) & (np.arange(len(codes)) < batches.n_cells)[:, None]
        cells += float(weights @ np.asarray(loss.mask.mean_members(jax.numpy.maximum(some, 0), present), np.float64))
    if cells == 0:
        raise fail("E410", f"mask `{mask.name}` hides no cell of {what}", mask.span, "an empty support")
    return cells / batches.per_epoch, float(batches.weights.sum()) / batches.per_epoch


def start_network(graph: FactorGraph, options: NetworkOptions) -> AbstractNetwork:
    """Return the initial weights of training: those of `init`, otherwise random ones."""
    from ..networks import build_network

    assert graph.network is not None
    if options.init is None:
        return build_network(graph.network, random_key(options.seed))
    return verified_params(graph.network, options.init)[graph.network.label]


NO_CURVATURE = "its loss is not convex and its weights are not determined, so their curvature gives no error"
NO_ROWS = "it keeps no data to fit again to"
LACKING = {
    **dict.fromkeys(
        ("standard_errors", "standard_errors_of", "covariance", "covariance_of", "determined_covariance", "interval", "contrast"),
        NO_CURVATURE,
    ),
    **dict.fromkeys(("undetermined_directions", "simulated_errors"), NO_CURVATURE),
    **dict.fromkeys(("evidence", "bootstrap", "profile", "predictive", "cross_validate", "score"), NO_ROWS),
    **dict.fromkeys(("posterior", "to_arviz"), NO_CURVATURE),
    "couplings": "it has no factors",
    "status": "training ends after its steps, not at an optimum; `reason` says why it ended",
    "objective": "its loss is drawn anew in each step; `loss_trace` has them",
    "missing": "missing cells are padding, or hidden and not scored",
}  # Attributes of `Fit` that a trained network lacks, and the reason.


@dataclass(frozen=True, repr=False)
class NetworkFit:
    """A trained network.

    Attributes:
        params: `{network's name: Equinox module}`, together with the probes that `with_params`
            added.
        loss_trace: the loss of each step's batch per hidden cell, in nats; after training with the
            loss "squared", the squared error.
        length_trace: the loss of the predicted length per row of each step's batch; 0 if no length
            is predicted.
        validation_trace: (step, loss per hidden cell, length loss) of each measurement.
        reason: why training ended: steps, patience, callback or diverged.
        meta: the metadata that `save` writes: program text, inputs, seed, versions, seconds, cells,
            rows of a batch, widths of buckets, and the step of the returned weights (`kept`).
    """

    params: dict[str, PyTree]
    loss_trace: Array
    length_trace: Array
    validation_trace: Array
    reason: str
    meta: JsonObject
    graph: FactorGraph = field(repr=False)
    _model: Callable[[], Any] = field(repr=False)

    @property
    def model(self) -> Any:
        """The model that was fitted."""
        return self._model()

    @property
    def network(self) -> AbstractNetwork:
        """The Equinox module that was trained."""
        return self.params[self.graph.network.label]  # pyright: ignore[reportOptionalMemberAccess]

    def bits_per_cell(
        self,
        x: Rows,
        sampler: str | None = None,
        *,
        draws: int = 64,
        seed: int = 0,
        missing: Missing | None = None,
        given: Given | None = None,
    ) -> Estimate:
        """Estimate -log2 p of rows under a decoder per cell, from an upper bound.

        Papers report this number as bits per character or per dimension.

        Args:
            x: rows that were not used in the fit.
            sampler: the decoder's name; it may be omitted if the model has one sampler.
            draws: as in `Model.log_prob_bound`.
            seed: as in `Model.log_prob_bound`.
            missing: the value that stands for padding.
            given: data of given variables.

        Returns:
            A float whose expectation is at least the true number. Its `standard_error` treats the
            rows as a sample.
        """
        bound = self.model.log_prob_bound(self.params, x, sampler, draws=draws, seed=seed, missing=missing, given=given)
        codes = network_rows(self.model.lowered, x, missing, given).codes[: self.model.graph.n_random]
        return bits_per_cell(bound, (codes >= 0).sum(axis=0))

    def with_params(self, params: ParamsLike) -> NetworkFit:
        """Return the same fit with other parameters, for example those of `gm.train_probe`.

        `save` then writes these parameters.

        Raises:
            GmlmError: E504, E509 for parameters that do not fit the model.
        """
        form = self.graph.network
        assert form is not None
        return replace(self, params=verified_params(form, params) | verified_probes(form, params))

    @property
    def mask(self) -> str:
        """The name of the mask."""
        return self.meta["mask"]

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains why a network's fit lacks an attribute of other fits.

        Raises:
            GmlmAttributeError: E543 for an attribute of other fits; AttributeError for any other
                name.
        """
        if name in LACKING:
            message = f"a trained network has no `{name}`: {LACKING[name]}"
            help = (
                "`loss(x, mask)` of rows that it has not seen says how good it is; `reason`, `loss_trace`, `validation_trace` how it went"
            )
            raise no_attribute("E543", message, help)
        raise AttributeError(f"a fit of a network has no attribute {name!r}")

    def sample(self, sampler: str | None = None, **options: Any) -> Any:
        """Draw from the trained network; see `Model.sample`.

        Raises:
            GmlmError: E704 for a network that was trained by squared error.
        """
        self._verify_logits()
        return self.model.sample(self.params, sampler, **options)

    def loss(self, x: Rows, mask: str | None = None, **options: Any) -> Any:
        """Return the loss of other rows; see `Model.loss`.

        Raises:
            GmlmError: E704 for a network that was trained by squared error.
        """
        self._verify_logits()
        return self.model.loss(self.params, x, self.meta["mask"] if mask is None else mask, **options)

    def _verify_logits(self) -> None:
        if self.meta.get("loss") == "squared":
            message = "this network was trained by squared error: its outputs are estimates of probabilities, and no logits"
            raise fail("E704", message, help="`validation=` measures squared error; `loss_trace` has that of each step")

    def summary(self) -> Any:
        """Return the number of parameters of each part as a pandas Series."""
        import pandas as pd

        counts = parameter_counts(self.network)
        return pd.Series(counts | {"total": sum(counts.values())}, name="parameters")

    def _repr_html_(self) -> str:
        return f"<div>{in_paragraphs(self)}{self.summary().to_frame().to_html()}</div>"

    def __repr__(self) -> str:
        m = self.meta
        counts = parameter_counts(self.network)
        last = float(np.mean(self.loss_trace[-50:])) if len(self.loss_trace) else float("nan")
        unit = "squared error" if m.get("loss") == "squared" else "nats"
        lines = [
            f"Fit of `{m['model']}` to {m['rows']:,} rows under mask {m['mask']}: {sum(counts.values()):,} parameters, "
            f"{len(self.loss_trace):,} steps, {duration(m['seconds'])}",
            f"loss {last:.4g} {unit} per hidden cell, the mean of the last {min(50, len(self.loss_trace))} steps{self._batches()}",
        ]
        if len(self.validation_trace):
            best = self.validation_trace[np.argmin(self.validation_trace[:, 1])]
            lines.append(
                f"validation loss {self.validation_trace[-1, 1]:.4g} at the end, {best[1]:.4g} at its lowest, after {best[0]:,.0f} steps"
            )
        if self.reason == "diverged":
            kept = m.get("kept", 0)
            these = "the first weights" if not kept else f"the weights after {counted(kept, 'step')}"
            which = "the best on validation rows" if len(self.validation_trace) and kept else "the last that are finite numbers"
            lines.append(
                f"The loss is not a finite number any more. These are {these}, {which}. Take a lower learning rate, or a longer warm-up."
            )
        return "\n".join(lines)

    def _batches(self) -> str:
        """Return `; batches of 64 rows, widths 8, 16`, or nothing if the file lacks the sizes."""
        if "batch_size" not in self.meta:
            return ""
        widths = ", ".join(map(str, self.meta["widths"]))
        return f"; batches of {counted(self.meta['batch_size'], 'row')}, widths {widths}"

    def save(self, path: str | Path) -> None:
        """Write the fit as one file.

        An error leaves no partial file.

        Raises:
            GmlmError: E560 if the file cannot be written.
        """
        write_whole(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes.

        It consists of arrays and text only, so that loading runs no code.
        """
        network = self.network
        leaves = jax.tree_util.tree_flatten_with_path(eqx.filter(network, eqx.is_array))[0]
        arrays = {f"param:{jax.tree_util.keystr(p)}": np.asarray(x) for p, x in leaves}
        for name, probe in self.params.items():
            if isinstance(probe, Probe):
                arrays |= {_place(name, part): np.asarray(getattr(probe, part)) for part in PARTS}
        arrays |= {f"{INPUT}{k}": v for k, v in self.meta["inputs"].items()}
        arrays |= {"loss_trace": self.loss_trace, "length_trace": self.length_trace, "validation_trace": self.validation_trace}
        meta = {k: v for k, v in self.meta.items() if k != "inputs"} | {"kind": "network", "reason": self.reason}
        return fit_bytes(meta, arrays)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the fit as `save` writes it, together with its model."""
        return _made_again, (self.model, self.to_bytes())

    def __copy__(self) -> NetworkFit:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> NetworkFit:
        traces = {name: getattr(self, name).copy() for name in TRACES}
        # The other attributes are immutable.
        return replace(self, params=dict(self.params), meta=copy.deepcopy(self.meta, memo), **traces)


def _made_again(model: Any, content: bytes) -> NetworkFit:
    """Return a fit from its pickled form in another process."""
    saved = read_fit(io.BytesIO(content), "the pickled fit")
    saved.meta["inputs"] = dict(model.program.bound.inputs)
    fit = network_fit_from_file(saved, model.graph, lambda: model)
    del fit.meta["kind"]  # Only files have this entry.
    return fit


def trained_to_fit(found: Trained, graph: FactorGraph, meta: JsonObject, model: Callable[[], Any]) -> NetworkFit:
    """Return the fit of a finished training run.

    Args:
        found: the trained network and the progress of the run.
        graph: the model's graph.
        meta: what `save` writes about the fit.
        model: a function that returns the model.
    """
    assert graph.network is not None
    p: Progress = found.progress
    meta = meta | {"seconds": p.seconds, "cells": p.cells, "widths": list(found.widths), "batch_size": found.batch_size, "kept": p.kept}
    validation = np.array(p.validation, float).reshape(-1, 3)
    return NetworkFit(
        {graph.network.label: found.network}, np.array(p.losses), np.array(p.lengths), validation, p.reason, meta, graph, model
    )


def network_fit_from_file(saved: SavedFit, graph: FactorGraph, model: Callable[[], Any]) -> NetworkFit:
    """Return a fit from the saved form that `read_fit` returned.

    Raises:
        GmlmError: E520 if it is not a fit of this model.
    """
    form = graph.network
    assert form is not None
    paths, tree = jax.tree_util.tree_flatten_with_path(network_shapes(form))
    names = [f"param:{jax.tree_util.keystr(path)}" for path, _ in paths]
    # Leaves without a shape are functions and numbers of the class; files do not contain them.
    own = {name for name, (_, like) in zip(names, paths, strict=True) if not hasattr(like, "shape")}
    probes = [name for name in form.probes if _place(name, "weight") in saved.headers]
    saved.verify_names([*(name for name in names if name not in own), *TRACES, *(_place(n, part) for n in probes for part in PARTS)])
    leaves = [like if name in own else _weights(saved, name, like) for name, (_, like) in zip(names, paths, strict=True)]
    losses, lengths, validation = (saved.array(k, shape, "f") for k, shape in TRACES.items())
    meta = dict(saved.meta)
    reason = meta.pop("reason")
    params = {form.label: jax.tree.unflatten(tree, leaves)}
    for name in probes:
        like = jax.eval_shape(lambda: Probe(params[form.label].start, params[form.label].start[0]))
        params[name] = Probe(*(_weights(saved, _place(name, part), getattr(like, part)) for part in PARTS))
    return NetworkFit(params, losses, lengths, validation, reason, meta, graph, model)


def _place(probe: str, part: str) -> str:
    """Return the name of a part of a probe in a file."""
    return f"probe:{probe}.{part}"


def _weights(saved: SavedFit, name: str, like: PyTree) -> PyTree:
    array = saved.array(name, tuple(like.shape), np.dtype(like.dtype).kind)
    if saved.meta["reason"] != "diverged":
        verify_numbers(saved.path, name, array)
    return jax.numpy.asarray(array)
