"""How a network is trained: the options, checked, and the optimiser that they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import optax

from .._diagnostics import fail, with_whole_numbers

# Of Li et al. 2024, Appendix L: 500,000 steps, of which a fiftieth warm up, with a learning rate of
# 0.003 that falls to 1e-5
PUBLISHED_STEPS, WARM, PUBLISHED_PEAK, END = 500_000, 50, 0.003, 1e-5
# of fewer steps; AdaFactor's steps are relative to the size of the weights, so that this is 3 %
MOST_PEAK = 0.03


@dataclass(frozen=True)
class Training:
    """How a network is trained: `fit(.., method=gm.Training(..))`.

    Attributes:
        steps: batches; every `accumulate`-th one ends with an update. A run with checkpoints whose
            `optimizer` does not depend on them goes on when it is asked for more.
        batch_size: rows of a step; all rows where there are fewer.
        label_smoothing: s: every target is 1 - s of the true value and s of the uniform
            distribution (Szegedy et al. 2016).
        ema: decay, at each update, of the exponential moving average of the weights that the fit
            returns; the first weights have no part in it (Kingma and Ba 2015, Section 3, on that
            correction). None: the last weights.
        average_last: the fit returns the mean of the weights at the last so many save points, see
            `save_every` (Vaswani et al. 2017, Section 6.1), whether or not checkpoints are written.
        accumulate: batches whose gradients are averaged for one update.
        precision: "float32", or "bfloat16": then weights are cast for each pass, with logits, norms
            and updates in float32.
        buckets: widths, ascending; rows of like length share a batch, and each width is compiled
            once. None: 8, 16, 24, 32, 48, 64, ..
        validation: `{"x": .., "given": ..}`: rows whose loss is measured every `evaluate_every`
            steps, always under the same masks.
        evaluate_every: steps between measurements; None: a tenth of the steps.
        patience: measurements without a lower loss after which training ends; the best weights are
            returned. None: it never does.
        checkpoint: a folder; a run that is killed goes on from its latest checkpoint, bit for bit
            as if it had not been. SIGTERM and Ctrl-C write one after the step at hand, and end the
            process with status 143, or the call with `KeyboardInterrupt`; a second Ctrl-C ends it
            at once.
        save_every: steps between save points; None: a twentieth of the steps. The last step is one
            too.
        resume: whether checkpoints that lie in the folder are gone on from; False: the run begins
            anew.
        log: a file of one line of JSON for every 20 steps, with the norms of the network's parts
            (roots of the sums of squares of their weights), and for every measurement. It is begun
            anew, or cut back to the step that a run goes on from.
        warmup: steps of linear warm-up of the default optimiser; None: a fiftieth.
        learning_rate: the peak of the default optimiser, AdaFactor (Shazeer and Stern 2018) with a
            cosine down to 1e-5; None: 0.03 for up to 5000 updates, then less, as 1 / sqrt(updates):
            0.003, the published peak, for the published 500,000.
        loss: of a hidden cell: "cross_entropy", -log p of its value, or "squared", the sum over
            values of (output - 1 or 0)^2. The outputs then estimate probabilities: they are no
            logits, and the fit neither samples nor has a `loss` of other rows.
        l2: lambda: lambda times the sum of the squares of all weights is added to the loss, of each
            batch.
        regulariser: a function of (network, batch) that JAX can differentiate; what it returns, a
            number, is added to the loss of each batch. The network is as the fit's `params` hold it
            (the user's own module is its `.module`); of the batch, `x` has the rows' codes (rows,
            cells), -1 where they are missing, `given` the given arrays, `weights` one number a row,
            0 of those that fill the batch up, and `key` is a key of JAX of its own. Losses of rows
            that are shown or measured are without it, and without `l2`.
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

    name = "training"


def measured_every(t: Training) -> int:
    """Steps between measurements on validation rows."""
    return t.evaluate_every or max(1, t.steps // 10)


def saved_every(t: Training) -> int:
    """Steps between save points."""
    return t.save_every or max(1, t.steps // 20)


def save_points(t: Training) -> int:
    """How many save points a run has: every `saved_every`-th step, and the last."""
    return -(-t.steps // saved_every(t))


WHOLE = {"steps": 1, "batch_size": 1, "accumulate": 1, "evaluate_every": 1, "save_every": 1, "patience": 1, "warmup": 0, "average_last": 1}
MOST = 2**31 - 1  # steps are counted in 32 bits, by schedules of optax too


def verified_training(t: Training) -> Training:
    """Options with Python's whole numbers; those that cannot be meant are refused.

    Raises:
        GmlmError: E704.
    """
    t = with_whole_numbers(t, WHOLE, "E704", "Training: ")
    for name in WHOLE:
        if (getattr(t, name) or 0) > MOST:
            raise fail("E704", f"Training: {name} must be at most {MOST:,}")
    for name, low, high in (("label_smoothing", 0, 1), ("ema", 0, 1)):
        value = getattr(t, name)
        if value is not None and not (isinstance(value, int | float) and low <= value < high):
            raise fail("E704", f"Training: {name} must be a number from {low} to below {high}, got {value!r}")
    if t.accumulate > t.steps:
        raise fail("E704", f"Training: accumulate={t.accumulate} batches make one update, and there are steps={t.steps}")
    if t.learning_rate is not None and (not isinstance(t.learning_rate, int | float) or not t.learning_rate > 0):
        raise fail("E704", f"Training: learning_rate must be above 0, got {t.learning_rate!r}")
    if t.precision not in ("float32", "bfloat16"):
        raise fail("E704", f'Training: precision must be "float32" or "bfloat16", got {t.precision!r}')
    if t.validation is not None and (not isinstance(t.validation, Mapping) or not {"x"} <= set(t.validation) <= {"x", "given"}):
        raise fail("E704", "Training: validation must be a dict of `x` and, where the model has given variables, `given`")
    _verify_loss(t)
    _verify_together(t)
    return t


def _verify_loss(t: Training) -> None:
    if t.loss not in ("cross_entropy", "squared"):
        raise fail("E704", f'Training: loss must be "cross_entropy" or "squared", got {t.loss!r}')
    if isinstance(t.l2, bool) or not isinstance(t.l2, int | float) or not 0 <= t.l2 < float("inf"):
        raise fail("E704", f"Training: l2 must be a number of at least 0, got {t.l2!r}")
    if t.regulariser is not None and not callable(t.regulariser):
        raise fail("E704", f"Training: regulariser must be a function of (network, batch), got {t.regulariser!r:.60}")


def _verify_together(t: Training) -> None:
    """Refuse options that mean nothing beside the others, rather than ignore them."""
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


def verify_schedule(t: Training, optimizer: Any) -> None:
    """Refuse options of the default optimiser beside another one.

    Raises:
        GmlmError: E704.
    """
    for name in ("learning_rate", "warmup"):
        if optimizer is not None and getattr(t, name) is not None:
            message = f"Training: {name} is an option of the default optimiser, and `optimizer=` is another one"
            raise fail("E704", message, help=f"leave {name} out, and give the optimiser its own schedule")


def training_of(method: Any, batch_size: int | None, max_steps: int | None) -> Training:
    """The training that `fit` was asked for.

    Raises:
        GmlmError: E704 for another method, or a number of steps or rows that is said twice.
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
    """AdaFactor with linear warm-up and a cosine, by updates: one for every `accumulate` steps."""
    updates = t.steps // t.accumulate
    warm = max(1, updates // WARM) if t.warmup is None else t.warmup // t.accumulate
    return _adafactor(default_peak(updates) if t.learning_rate is None else t.learning_rate, warm, max(updates, warm + 1))


def default_peak(updates: int) -> float:
    """Of AdaFactor: the published one for the published length, and more for shorter runs, as 1 / sqrt(updates), 0.03 at the most.

    The rate that T5 trains with falls like that too, by the updates that were made (Raffel et al.
    2020, Section 3.1.2).
    """
    return min(MOST_PEAK, PUBLISHED_PEAK * math.sqrt(PUBLISHED_STEPS / max(1, updates)))


@cache
def _adafactor(peak: float, warm: int, updates: int) -> optax.GradientTransformation:
    """The same object for the same numbers: what is compiled for one fit serves the next."""
    return optax.adafactor(optax.warmup_cosine_decay_schedule(0.0, peak, warm, updates, END))


@cache
def accumulated(optimizer: optax.GradientTransformation, batches: int) -> optax.MultiSteps:
    """Gradients of so many batches averaged for one update."""
    return optax.MultiSteps(optimizer, batches)


def verify_optimizer(optimizer: Any, weights: Any) -> None:
    """Refuse what is no optax transformation, or one that needs more than gradients and weights, as line searches do.

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
