"""The options of the training of a network, their verification, and the default optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import optax

from .._diagnostics import fail, with_whole_numbers
from .._types import JsonObject
from .limits import LAST_RATE, MOST_PEAK, MOST_TRAINING_STEPS, PUBLISHED_PEAK, PUBLISHED_STEPS, WARMUP_DIVISOR

if TYPE_CHECKING:
    from jaxtyping import PyTree


@dataclass(frozen=True)
class Training:
    """The options of the training of a network: `fit(.., method=gm.Training(..))`.

    Attributes:
        steps: the number of batches; every `accumulate`-th one ends with an update. A run with
            checkpoints resumes if more steps are requested, provided that its `optimizer` does not
            depend on their number.
        batch_size: the number of rows of a step; all rows if there are fewer.
        label_smoothing: the number s. Every target is 1 - s of the true value and s of the uniform
            distribution (Szegedy et al. 2016).
        ema: the decay at each update of an exponential moving average of the weights. The fit
            returns this average, corrected for its start so that it excludes the first weights
            (Kingma and Ba 2015, Section 3). None: the fit returns the last weights.
        average_last: the number of last save points (see `save_every`) whose mean weights the fit
            returns (Vaswani et al. 2017, Section 6.1). It needs no checkpoints.
        accumulate: the number of batches whose gradients are averaged for one update.
        precision: "float32" or "bfloat16". With "bfloat16", weights are cast for each pass, with
            logits, norms and updates in float32.
        buckets: widths, ascending. Rows of similar length share a batch, and each width is compiled
            once. None: 8, 16, 24, 32, 48, 64, ..
        validation: `{"x": .., "given": .., "masks": [..]}`, rows whose loss is measured every
            `evaluate_every` steps, always with the same blocks. `masks` names further masks, whose
            losses are logged only. The loss of the fitted mask ends a run and chooses weights.
        evaluate_every: the number of steps between measurements. None: a tenth of the steps.
        patience: the number of measurements without a lower loss after which training ends; the fit
            then returns the best weights. None: training never ends early.
        checkpoint: a folder. A run that is killed resumes from its latest checkpoint, with results
            that are identical bit for bit to those of an uninterrupted run. SIGTERM and Ctrl-C
            write a checkpoint after the current step. They then end the process with status 143, or
            the call with `KeyboardInterrupt`; a second Ctrl-C ends it at once.
        save_every: the number of steps between save points. None: a twentieth of the steps. The
            last step is a save point too.
        resume: whether the run resumes from checkpoints in the folder. False: the run starts from
            the beginning.
        log: a file with one line of JSON for every 20 steps, and one for every measurement. The
            lines of steps have the norm of each part of the network (the root of the sum of squares
            of its weights), the norm of the last gradient, and the learning rate of the default
            optimiser. A new run overwrites the file; a resumed run first removes the lines after
            the step from which it resumes.
        callback: a function that is called with each line of the log as a dict, whether or not
            there is a file. If it returns True, training ends, with the reason "callback".
        warmup: the number of steps of linear warm-up of the default optimiser. None: a fiftieth.
        learning_rate: the peak of the default optimiser, AdaFactor (Shazeer and Stern 2018) with a
            cosine schedule down to 1e-5. None: 0.03 for up to 5000 updates, then lower in
            proportion to 1 / sqrt(updates): 0.003, the published peak, for the published 500,000.
        loss: the loss of a hidden cell. "cross_entropy" is -log p of its value. "squared" is the
            sum over values of (output - 1 or 0)^2. The outputs then estimate probabilities and are
            not logits, and the fit neither samples nor has a `loss` of other rows.
        l2: the number lambda; lambda times the sum of the squares of all weights is added to the
            loss of each batch.
        regulariser: a function of (network, batch) that JAX can differentiate. The number that it
            returns is added to the loss of each batch. The network is the one in the fit's `params`
            (the user's own module is its `.module`). The batch has `x`, the codes of the rows
            (rows, cells), with -1 for a missing cell; `given`, the given arrays; `weights`, one number
            per row, 0 for rows that fill up the batch; and `key`, a separate JAX key. Losses
            that are shown or measured exclude this number and `l2`.
    """

    steps: int = 1000
    batch_size: int = 64
    label_smoothing: float = 0.0
    ema: float | None = None
    average_last: int | None = None
    accumulate: int = 1
    precision: str = "float32"
    buckets: tuple[int, ...] | None = None
    validation: Mapping[str, Any] | None = None
    evaluate_every: int | None = None
    patience: int | None = None
    checkpoint: str | Path | None = None
    save_every: int | None = None
    resume: bool = True
    log: str | Path | None = None
    warmup: int | None = None
    learning_rate: float | None = None
    loss: str = "cross_entropy"
    l2: float = 0.0
    regulariser: Callable[[Any, Any], Any] | None = None
    callback: Callable[[JsonObject], object] | None = None

    name = "training"


def measured_every(t: Training) -> int:
    """Return the number of steps between measurements on validation rows."""
    return t.evaluate_every or max(1, t.steps // 10)


def saved_every(t: Training) -> int:
    """Return the number of steps between save points."""
    return t.save_every or max(1, t.steps // 20)


def save_points(t: Training) -> int:
    """Return the number of save points of a run: every `saved_every`-th step, and the last step."""
    return -(-t.steps // saved_every(t))


WHOLE = {"steps": 1, "batch_size": 1, "accumulate": 1, "evaluate_every": 1, "save_every": 1, "patience": 1, "warmup": 0, "average_last": 1}


def _is_share(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < 1)


def _is_penalty(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


# By option, whether a value is valid, and how valid values are described.
SINGLE: dict[str, tuple[Callable[[object], bool], str]] = {
    "label_smoothing": (_is_share, "a number from 0 to below 1"),
    "ema": (_is_share, "a number from 0 to below 1"),
    "learning_rate": (lambda v: v is None or (isinstance(v, int | float) and v > 0), "above 0"),
    "precision": (lambda v: v in ("float32", "bfloat16"), '"float32" or "bfloat16"'),
    "loss": (lambda v: v in ("cross_entropy", "squared"), '"cross_entropy" or "squared"'),
    "l2": (_is_penalty, "a number of at least 0"),
    "callback": (lambda v: v is None or callable(v), "a function of one line of the log"),
    "regulariser": (lambda v: v is None or callable(v), "a function of (network, batch)"),
}


def verified_training(t: Training) -> Training:
    """Return the options with Python integers, after verifying their ranges.

    Raises:
        GmlmError: E704 for options that are not valid.
    """
    t = with_whole_numbers(t, WHOLE, "E704", "Training: ")
    for name in WHOLE:
        if (getattr(t, name) or 0) > MOST_TRAINING_STEPS:
            raise fail("E704", f"Training: {name} must be at most {MOST_TRAINING_STEPS:,}")
    for name, (is_valid, words) in SINGLE.items():
        value = getattr(t, name)
        if not is_valid(value):
            raise fail("E704", f"Training: {name} must be {words}, got {value!r:.60}")
    if t.accumulate > t.steps:
        raise fail("E704", f"Training: accumulate={t.accumulate} batches make one update, and there are steps={t.steps}")
    if t.validation is not None and (not isinstance(t.validation, Mapping) or not {"x"} <= set(t.validation) <= {"x", "given", "masks"}):
        raise fail("E704", "Training: validation must be a dict of `x`, `given` if the model has given variables, and perhaps `masks`")
    masks = () if t.validation is None else t.validation.get("masks", ())
    if not isinstance(masks, list | tuple) or not all(isinstance(m, str) for m in masks):
        raise fail("E704", f"Training: validation's `masks` must be a list of names of masks, got {masks!r:.60}")
    _verify_together(t)
    return t


def _verify_together(t: Training) -> None:
    """Raise E704 for options that have no effect together with the others.

    Raises:
        GmlmError: E704.
    """
    for name in ("patience", "evaluate_every"):
        if getattr(t, name) is not None and t.validation is None:
            message = f"Training: {name} counts measurements on validation rows, and there are none"
            raise fail("E704", message, help="pass `validation={'x': .., 'given': ..}`")
    if t.checkpoint is None and (not t.resume or (t.save_every is not None and t.average_last is None)):
        name = "save_every" if t.resume else "resume"
        raise fail("E704", f"Training: {name} is about checkpoints, and none are written", help="pass `checkpoint=` with a folder")
    if t.average_last is None:
        return
    if t.ema is not None or t.patience is not None:
        other = "ema" if t.ema is not None else "patience"
        message = f"Training: average_last and {other} each say which weights the fit returns"
        raise fail("E704", message, help=f"leave one of them out: `average_last={t.average_last}` or `{other}={getattr(t, other)}`")
    if t.average_last > save_points(t):
        message = f"Training: average_last={t.average_last}, and the run has {save_points(t)} save points, one in {saved_every(t)} steps"
        raise fail("E704", message, help="a smaller `save_every` makes more of them")


def verify_schedule(t: Training, optimizer: object) -> None:
    """Raise E704 for options of the default optimiser together with another optimiser.

    Raises:
        GmlmError: E704.
    """
    for name in ("learning_rate", "warmup"):
        if optimizer is not None and getattr(t, name) is not None:
            message = f"Training: {name} is an option of the default optimiser, and `optimizer=` is another one"
            raise fail("E704", message, help=f"leave {name} out, and give the optimiser its own schedule")


def training_of(method: object, batch_size: int | None, max_steps: int | None) -> Training:
    """Return the training that the arguments of `fit` describe.

    Raises:
        GmlmError: E704 for another method, or a number of steps or rows that is given twice.
    """
    if method is not None and not isinstance(method, Training):
        raise fail("E704", f"a network is trained by `method=gm.Training(..)`, got {method!r:.60}")
    if method is not None and (batch_size is not None or max_steps is not None):
        raise fail("E704", "`batch_size` and `max_steps` are options of `gm.Training(batch_size=.., steps=..)` where there is one")
    if method is not None:
        return method
    plain = Training()
    return Training(plain.steps if max_steps is None else max_steps, plain.batch_size if batch_size is None else batch_size)


def default_optimizer(t: Training) -> optax.GradientTransformation:
    """Return AdaFactor with linear warm-up and a cosine schedule.

    Its schedule counts updates: one for every `accumulate` steps.
    """
    return _adafactor(*_default_schedule(t))


def learning_rate_at(t: Training, step: int) -> float:
    """Return the learning rate of the default optimiser at a step, counted from 0."""
    peak, warm, updates = _default_schedule(t)
    rate = optax.warmup_cosine_decay_schedule(0.0, peak, warm, updates, LAST_RATE)(step // t.accumulate)
    return float(rate)  # pyright: ignore[reportArgumentType]


def _default_schedule(t: Training) -> tuple[float, int, int]:
    """Return the peak of the learning rate, the updates of warm-up, and all updates."""
    updates = t.steps // t.accumulate
    warm = max(1, updates // WARMUP_DIVISOR) if t.warmup is None else t.warmup // t.accumulate
    return default_peak(updates) if t.learning_rate is None else t.learning_rate, warm, max(updates, warm + 1)


def default_peak(updates: int) -> float:
    """Return the default peak of the learning rate of AdaFactor.

    It is the published peak for the published number of updates, and larger for shorter runs in
    proportion to 1 / sqrt(updates), up to 0.03. The learning rate of T5 falls in the same way with
    the number of updates (Raffel et al. 2020, Section 3.1.2).
    """
    return min(MOST_PEAK, PUBLISHED_PEAK * math.sqrt(PUBLISHED_STEPS / max(1, updates)))


@cache
def _adafactor(peak: float, warm: int, updates: int) -> optax.GradientTransformation:
    """Return the same object for the same numbers, so that fits share compiled programs."""
    return optax.adafactor(optax.warmup_cosine_decay_schedule(0.0, peak, warm, updates, LAST_RATE))


@cache
def accumulated(optimizer: optax.GradientTransformation, batches: int) -> optax.MultiSteps:
    """Return the optimiser with gradients averaged over `batches` batches for one update."""
    return optax.MultiSteps(optimizer, batches)


def verify_optimizer(optimizer: object, weights: PyTree) -> None:
    """Raise E507 unless `optimizer` is None or an optax transformation of gradients and weights.

    Transformations that need more, such as line searches, raise E507 too.

    Raises:
        GmlmError: E507.
    """
    if optimizer is None:
        return
    if not isinstance(optimizer, optax.GradientTransformation):
        raise fail("E507", f"optimizer must be an optax transformation, got {optimizer!r}", help="`optax.adam(0.01)`, say")
    try:
        jax.eval_shape(lambda w: optimizer.update(w, optimizer.init(w), w), weights)
    except TypeError as error:
        message = f"this optimizer needs more than gradients and weights: {error}"
        raise fail("E507", message, help="`optax.adam(0.001)`, say; batches leave nothing to search along a line") from None
