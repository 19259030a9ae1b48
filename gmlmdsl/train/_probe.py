"""Probes: logistic regression on features of prefixes from a causal network, with held-out rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree

from .._diagnostics import fail, known, whole_number
from .._types import ArrayLike, Given, ParamsLike, Prompt
from ..data import encode_prompts, generator, verified_seed, verify_untraced_leaves
from ..derive import bounded_jit, on_device
from ..evaluate import network_queries, read_layers, verified_params
from ..graph import guided, verify_is_model
from ..networks import AbstractCausalNetwork, Probe
from .limits import BINS, FARTHEST, HELD_OUT, LEAST_SCALE, MOST_STEPS, SHORTEST, TOLERANCE

if TYPE_CHECKING:
    import jax

    from .._diagnostics import Span

Array = np.ndarray


@dataclass(frozen=True)
class Calibration:
    """The calibration curve of a probe.

    It compares the predicted probability of similar prefixes with their share of good ones. All
    numbers refer to held-out prefixes.

    Attributes:
        predicted: the mean probability of each non-empty bin of [0, 1], ascending.
        observed: the share of good prefixes in each bin.
        count: the number of prefixes in each bin.
    """

    predicted: Array
    observed: Array
    count: Array


@dataclass(frozen=True)
class ProbeFit(Mapping[str, PyTree]):
    """A mapping of parameters that include those of a trained probe.

    It is accepted wherever parameters are.

    Attributes:
        params: the parameters as a dict.
        accuracy: the share of held-out prefixes that the probe classifies correctly.
        calibration: the calibration curve of the held-out prefixes.
        loss: the mean of -log p(label) over the held-out prefixes.
        held_out: the number of held-out prefixes.
        name: the name of the verifier or value.
    """

    params: dict[str, PyTree]
    accuracy: float
    calibration: Calibration
    loss: float
    held_out: int
    name: str = field(default="")

    def __getitem__(self, name: str) -> PyTree:
        return self.params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    def __repr__(self) -> str:
        right = f"{self.accuracy:.1%} of {self.held_out:,} held-out prefixes right, {self.loss:.3g} nats each"
        return f"Parameters {', '.join(self.params)} with probe `{self.name}`: {right}"


def train_probe(
    model: Any, params: ParamsLike, name: str, prefixes: Prompt, labels: ArrayLike, *, seed: int = 0, given: Given | None = None
) -> ProbeFit:
    """Train the probe of a verifier or value: p(label = 1 | prefix) = sigmoid(w . h + b).

    h is a layer of the network at the last cell of the prefix. w and b minimise the sum of
    -log p(label), plus |w|^2 / 2, over features of mean 0 and variance 1. The network stays
    unchanged. A fifth of the prefixes of each label, drawn from the seed, is held out; accuracy,
    loss and calibration are computed on these. A prefix that occurs in both parts makes these three
    numbers look better than they are.

    Args:
        model: a model with a causal network, for which the file declares `probe(network)`.
        params: the model's parameters; other probes among them stay.
        name: the name of the verifier or value.
        prefixes: a list of prefixes of any length, in the form of `prompt=` of `sample`.
        labels: one label for each prefix: 1 for a good prefix, 0 for any other.
        seed: the seed of the random choice of the held-out prefixes.
        given: data of given variables, one row for each prefix or one for all.

    Returns:
        The parameters including those of the probe, with `.accuracy`, `.calibration` and `.loss` on
        the held-out prefixes. The result is a mapping, which is accepted wherever parameters are.
        The accuracy of a verifier is measured at its `threshold`, that of a value at 0.5.

    Raises:
        GmlmError: E506 for a name that is not a probe of the model; E501, E502, E505, E507 for
            prefixes or labels that do not fit.

    Reference: Alain and Bengio 2017 (linear classifiers on frozen layers).
    """
    verify_is_model(model)
    form = model.graph.network
    if form is None or not form.probes:
        raise fail("E506", f"model `{model.name}` has no probe", help="declare one beside its causal network: `verifier seen = probe(net)`")
    name = known(name, form.probes, f"probe of model `{model.name}`")
    judge = model.program.checked.judges[name]
    prompts, seed = encode_prompts(model.graph, prefixes, "prefixes"), verified_seed(seed)
    truth = verified_labels(labels, len(prompts.lengths))
    held = split(truth, seed)
    verify_untraced_leaves(params)
    options = guided(judge.body, model.lowered.bound, model.graph.observed[0])
    found = _features(model, params, prompts.codes, given, options["layer"], judge.body.span)
    probe = fit_probe(found, truth, held)
    threshold = float(options["threshold"]) if judge.kind == "verifier" else 0.5  # type: ignore[arg-type]
    accuracy, calibration, loss = judged(probe, found[held], truth[held], threshold)
    return ProbeFit({**params, name: probe}, accuracy, calibration, loss, int(held.sum()), name)


def prefix_features(model: Any, params: ParamsLike, prefixes: Prompt, *, layer: int | None = None, given: Given | None = None) -> Array:
    """Return the features of prefixes that a probe reads: a layer of a causal network.

    The layer is read at the last cell of each prefix, after the network's last norm.

    Args:
        model: a model with a causal network.
        params: its parameters.
        prefixes: a list of prefixes of any length, in the form of `prompt=` of `sample`.
        layer: the number of the layer, counted from 1; None selects the last layer.
        given: data of given variables, one row for each prefix or one for all.

    Returns:
        An array of shape (prefixes, width).

    Raises:
        GmlmError: E409 for a layer that the network lacks, E506 for a Python class, E742 for a
            network that is not causal; E501, E502, E505, E507 for prefixes that do not fit.
    """
    verify_is_model(model)
    if model.graph.network is None:
        raise fail("E506", f"model `{model.name}` has no network", help="`conditional x ~ net()` gives it one")
    network_queries.verify_causal(model.graph)
    if model.graph.network.name == "python":
        raise fail("E506", "a class of Python has no layers that are known here", help="`transformer(causal = true)` has")
    layer = None if layer is None else whole_number("layer", layer, 1)
    return _features(model, params, encode_prompts(model.graph, prefixes, "prefixes").codes, given, layer or "last", None)


def _features(model: Any, params: ParamsLike, codes: np.ndarray, given: Given | None, layer: Any, place: Span | None) -> Array:
    verify_untraced_leaves(params)
    form = model.graph.network
    own = verified_params(form, params)
    network = own[form.label]
    assert isinstance(network, AbstractCausalNetwork)
    first = read_layers(network, layer, place)
    return network_queries.features(model.lowered, own if first is None else {form.label: first}, codes, given)


def verified_labels(labels: ArrayLike, rows: int) -> Array:
    """Return labels as Booleans.

    Raises:
        GmlmError: E501, E507 unless the labels are 0 or 1, one for each prefix.
    """
    try:
        found = np.asarray(labels)
    except ValueError:  # The labels are a ragged list.
        raise fail("E501", f"labels must have one entry for each of {rows:,} prefixes, got {labels!r:.60}") from None
    if found.shape != (rows,):
        raise fail("E501", f"labels must have one entry for each of {rows:,} prefixes, got shape {found.shape}")
    if found.dtype.kind not in "biuf" or not np.isin(found, (0, 1)).all():
        raise fail("E507", f"labels are 1 for a good prefix and 0 for another, got {labels!r:.60}")
    return found.astype(bool)


def split(labels: Array, seed: int) -> Array:
    """Return which prefixes are held out: a share of each label, drawn from the seed.

    Raises:
        GmlmError: E507 if a label has fewer than two prefixes.
    """
    held, rng = np.zeros(len(labels), bool), generator(seed)
    for label in (False, True):
        places = rng.permutation(np.flatnonzero(labels == label))
        if len(places) < 2:
            message = f"{len(places)} of {len(labels)} labels are {int(label)}: one to learn from and one to hold out are needed"
            raise fail("E507", message, help="give prefixes of both kinds")
        held[places[: max(1, round(HELD_OUT * len(places)))]] = True
    return held


def fit_probe(features: Array, labels: Array, held: Array) -> Probe:
    """Return the probe that minimises the sum of -log p(label), plus |w|^2 / 2.

    The sum is over the training prefixes. w are the probe's weights on features of mean 0 and
    variance 1. Held-out prefixes are left out.
    """
    x, y = features[~held].astype(float), labels[~held].astype(float)
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), LEAST_SCALE)
    found = _logistic((x - mean) / scale, y)
    weight = found[:-1] / scale
    return Probe(*(on_device(a, features.dtype) for a in (weight, found[-1] - weight @ mean)))


def _logistic(x: Array, y: Array) -> Array:
    """Return the minimiser by Newton's method in float64, the bias as its last entry.

    The objective is strictly convex. A step that would increase it is halved.
    """
    x = np.column_stack([x, np.ones(len(x))])
    ridge = np.append(np.ones(x.shape[1] - 1), 0.0)
    w = np.zeros(x.shape[1])

    def value(w: Array) -> float:
        logits = x @ w
        return float((np.logaddexp(0, logits) - y * logits).sum() + 0.5 * (ridge * w * w).sum())

    for _ in range(MOST_STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -FARTHEST, FARTHEST)))
        gradient = x.T @ (p - y) + ridge * w
        if np.abs(gradient).max() <= TOLERANCE * len(y):
            break
        move = np.linalg.solve((x.T * (p * (1 - p))) @ x + np.diag(ridge), gradient)
        step = 1.0
        while value(w - step * move) > value(w) and step > SHORTEST:
            step /= 2
        w = w - step * move
    return w


def judged(probe: Probe, features: Array, labels: Array, threshold: float) -> tuple[float, Calibration, float]:
    """Return accuracy, calibration and mean loss of a probe on prefixes outside its training set.

    Args:
        probe: the probe.
        features: the features of the prefixes, shape (prefixes, width).
        labels: the labels as Booleans.
        threshold: the probability from which on a prefix counts as good.
    """
    p = np.asarray(_probabilities(probe, on_device(features)), float)
    accuracy = float(((p >= threshold) == labels).mean())
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    some = count > 0
    predicted, observed = (np.bincount(bins, weights=v, minlength=BINS)[some] / count[some] for v in (p, labels.astype(float)))
    own = np.clip(np.where(labels, p, 1 - p), np.finfo(features.dtype).tiny, None)
    return accuracy, Calibration(predicted, observed, count[some]), float(-np.log(own).mean())


@bounded_jit
def _probabilities(probe: Probe, features: jax.Array) -> jax.Array:
    return probe(features)
