"""From pairs of sentences to a trained translation model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from ..fit import Training, verified_training
from ._programs import sides
from ._warm_start import Start, start_in_words, start_of_bundle, started

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ..train import NetworkFit
    from ._vocabulary import Vocabulary

Array = np.ndarray
Pairs = Sequence[tuple[str, str]]
OPTIMIZERS = ("adafactor", "adam")
# Adam's: the most norm of a gradient, and the peak of the learning rate
CLIP, ADAM_PEAK = 1.0, 0.001


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: options of `gm.Training`, and the optimiser by name.

    Attributes:
        optimizer: "adafactor", as the paper has it, or "adam"; both with linear warm-up and a
            cosine down to 1e-5.
        learning_rate: the peak; None: of AdaFactor that of `gm.Training`, 0.03 for up to 5000
            updates and less for more; of Adam 0.001.
        seed: of the first weights, the order of rows, masks, noise and dropout.
        start_from: a bundle whose weights are the first ones where they agree (`gmlm train
            --from`): that of a teacher, for its student. None: random weights; in a pipeline the
            students start from the teacher.
        buckets: widths of rows that are compiled for, ascending; None: 8, 16, 24, 32, 48, 64, ..
            Few widths compile sooner, and pad more.
    """

    steps: int = 1000
    batch_size: int = 64
    optimizer: str = "adafactor"
    learning_rate: float | None = None
    warmup: int | None = None
    label_smoothing: float = 0.0
    ema: float | None = None
    accumulate: int = 1
    precision: str = "float32"
    evaluate_every: int | None = None
    patience: int | None = None
    save_every: int | None = None
    seed: int = 0
    average_last: int | None = None
    start_from: str | Path | None = None
    buckets: tuple[int, ...] | None = None

    def training(self, validation: Mapping[str, Any] | None, checkpoint: Path | None, log: Path | None, resume: bool = True) -> Training:
        """The options of `Model.fit`."""
        own = self.optimizer == "adafactor"  # whose schedule the training makes
        return Training(
            steps=self.steps,
            batch_size=self.batch_size,
            label_smoothing=self.label_smoothing,
            ema=self.ema,
            average_last=self.average_last,
            accumulate=self.accumulate,
            precision=self.precision,
            buckets=self.buckets,
            validation=validation,
            evaluate_every=self.evaluate_every,
            patience=self.patience,
            checkpoint=checkpoint,
            save_every=self.save_every,
            resume=resume,
            log=log,
            warmup=self.warmup if own else None,
            learning_rate=self.learning_rate if own else None,
        )

    def verify(self) -> None:
        """Refuse what cannot be meant, before any text is read.

        Raises:
            GmlmError: E704; E507 for a start that is no path.
        """
        if self.start_from is not None and not isinstance(self.start_from, str | Path):
            raise fail("E507", f"start_from must be the path of a bundle, got {self.start_from!r:.60}")
        # they need validation rows, which are not here yet
        own = replace(self, evaluate_every=None, patience=None)
        verified_training(replace(own.training(None, Path(), None), learning_rate=self.learning_rate, warmup=self.warmup))
        self.transformation()

    def transformation(self) -> Any:
        """The optimiser where it is not the default one of `Model.fit`.

        Raises:
            GmlmError: E704 for an unknown name.
        """
        if self.optimizer not in OPTIMIZERS:
            raise fail("E704", f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.optimizer == "adafactor":
            return None
        updates = max(1, self.steps // self.accumulate)
        warm = max(1, updates // 50) if self.warmup is None else self.warmup // self.accumulate
        peak = ADAM_PEAK if self.learning_rate is None else self.learning_rate
        return _adam(peak, warm, max(updates, warm + 1))


@cache
def _adam(peak: float, warm: int, updates: int) -> Any:
    """The same object for the same numbers: what is compiled for one training serves the next."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, peak, warm, updates, 1e-5)
    return optax.chain(optax.clip_by_global_norm(CLIP), optax.adam(schedule, b2=0.98))


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as rows of pieces, -1 behind the end mark: (rows, source cells) and (rows, target cells)."""

    source: Array
    target: Array

    @classmethod
    def of(cls, pairs: Pairs, vocabulary: Vocabulary, cells: tuple[int, int]) -> EncodedPairs:
        """Pairs that fit, see `clean`.

        Raises:
            GmlmError: E573 for one that is too long.
        """
        encoded = (vocabulary.encode([p[side] for p in pairs]) for side in (0, 1))
        return cls(*(vocabulary.rows(rows, n) for rows, n in zip(encoded, cells, strict=True)))


def train_pairs(
    model: ConditionalModel,
    mask: str | None,
    vocabulary: Vocabulary,
    pairs: Pairs,
    validation: Pairs,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    log: Path | None = None,
    resume: bool = True,
    progress: bool | None = None,
    start: Start | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> NetworkFit:
    """Train a translation model on pairs of sentences.

    Args:
        model: see `sides`.
        mask: the mask's name; None: the model's only one.
        vocabulary: of as many pieces as the model has values.
        pairs: source and target, all of which fit.
        validation: pairs whose loss is measured; none: none is.
        recipe: how.
        checkpoint: a folder for checkpoints, from which a run that was killed goes on.
        log: a file of lines of JSON.
        resume: whether checkpoints in the folder are gone on from.
        progress: whether to show a bar; None: where a person watches.
        start: a network whose weights are the first ones where they agree; None: that of the
            recipe, if it names one.
        tell: is told which weights were taken.

    Raises:
        GmlmError: E580 for another kind of model, E505 without pairs, E586 where the loss is no
            number any more, E589 for a start that does not fit.
    """
    found = sides(model)
    vocabulary.verify(found.size, f"model `{model.name}`")
    if not pairs:
        raise fail("E505", "there is no pair of sentences left to train on", help="see the counts of cleaning: what was left out, and why")
    rows = EncodedPairs.of(pairs, vocabulary, found.cells)
    check = None
    if validation:
        other = EncodedPairs.of(validation, vocabulary, found.cells)
        check = {"x": {found.target: other.target}, "given": {found.source: other.source}}
    init = None
    if start is None and recipe.start_from is not None:
        start = start_of_bundle(recipe.start_from, vocabulary, model.program.allow_python)
    if start is not None:
        init, taken = started(model, start, recipe.seed)
        tell(f"{model.name} {start_in_words(taken)}")
    fit: Any = model.fit(
        {found.target: rows.target},
        mask,
        recipe.seed,
        given={found.source: rows.source},
        missing=-1,
        init=init,
        optimizer=recipe.transformation(),
        progress=progress,
        method=recipe.training(check, checkpoint, log, resume),
    )
    if fit.reason == "diverged":
        help = "take a lower `--learning-rate` or a longer `--warmup`"
        raise fail("E586", f"training `{model.name}` diverged after {len(fit.loss_trace)} steps: nothing is written", help=help)
    return fit
