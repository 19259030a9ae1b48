"""Training of a translation model on pairs of sentences, from random or trained weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import fail
from .._types import JsonObject, Rows
from ..fit import Training, verified_training
from ..networks import with_weights_of
from ._bundle import load_translator
from ._programs import sides
from .limits import ADAM_PEAK, CLIP, LEAST_TAKEN

if TYPE_CHECKING:
    import optax

    from ..model import ConditionalModel
    from ..networks import AbstractNetwork
    from ..train import NetworkFit
    from ._vocabulary import Vocabulary

Array = np.ndarray
Pairs = Sequence[tuple[str, str]]
OPTIMIZERS = ("adafactor", "adam")


@dataclass(frozen=True)
class Recipe:
    """The training of a network: options of `gm.Training`, and the name of the optimiser.

    Attributes:
        optimizer: "adafactor", as in the paper, or "adam". Both have a linear warm-up and a cosine
            decay to 1e-5.
        learning_rate: the peak. None selects 0.001 for Adam, and the default of `gm.Training` for
            AdaFactor: 0.03 for up to 5000 updates and less for more.
        seed: the seed of the initial weights, the order of rows, masks, noise and dropout.
        start_from: a bundle from which the initial weights of all layers that agree are taken
            (`gmlm train --from`), for example that of a student's teacher. None selects random
            weights; in a pipeline, students start from the teacher.
        buckets: the widths of rows for which programs are compiled, ascending; None selects 8, 16,
            24, 32, 48, 64, .. Few widths need less compilation but more padding.
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

    def training(self, validation: Mapping[str, Rows] | None, checkpoint: Path | None, log: Path | None, resume: bool = True) -> Training:
        """Return the options of `Model.fit`.

        Args:
            validation: the rows of validation.
            checkpoint: a folder for checkpoints.
            log: the path of the log.
            resume: whether to resume from checkpoints in the folder.
        """
        options: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Training) if hasattr(self, f.name)}
        if self.optimizer != "adafactor":  # `gm.Training` makes the schedule of AdaFactor only.
            options |= {"warmup": None, "learning_rate": None}
        return Training(**options, validation=validation, checkpoint=checkpoint, resume=resume, log=log)

    def verify(self) -> None:
        """Raise an error for invalid options, before any text is read.

        Raises:
            GmlmError: E704; E507 for a start that is not a path.
        """
        if self.start_from is not None and not isinstance(self.start_from, str | Path):
            raise fail("E507", f"start_from must be the path of a bundle, got {self.start_from!r:.60}")
        # These options need validation rows, which are not yet available.
        own = replace(self, evaluate_every=None, patience=None)
        verified_training(replace(own.training(None, Path(), None), learning_rate=self.learning_rate, warmup=self.warmup))
        self.transformation()

    def transformation(self) -> optax.GradientTransformation | None:
        """Return the optimiser, or None if it is the default one of `Model.fit`.

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
def _adam(peak: float, warm: int, updates: int) -> optax.GradientTransformation:
    """Return Adam; equal numbers give the same object, so that compiled programs are reused."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, peak, warm, updates, 1e-5)
    return optax.chain(optax.clip_by_global_norm(CLIP), optax.adam(schedule, b2=0.98))


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as rows of subword tokens, -1 after the end mark.

    The shapes are (rows, source cells) and (rows, target cells).
    """

    source: Array
    target: Array

    @classmethod
    def of(cls, pairs: Pairs, vocabulary: Vocabulary, cells: tuple[int, int]) -> EncodedPairs:
        """Encode pairs that fit, see `clean`.

        Raises:
            GmlmError: E573 for a pair that is too long.
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
    mesh_axis: str | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> NetworkFit:
    """Train a translation model on pairs of sentences.

    Args:
        model: a translation model, see `sides`.
        mask: the mask's name; None selects the model's only one.
        vocabulary: a vocabulary of as many subword tokens as the model has values.
        pairs: pairs of source and target, all of which fit.
        validation: pairs whose loss is measured; an empty list skips the measurements.
        recipe: how the model is trained.
        checkpoint: a folder for checkpoints, from which a killed run resumes.
        log: the path of a log of JSON lines.
        resume: whether to resume from checkpoints in the folder.
        progress: whether to show a bar; None shows one if the standard error is a terminal.
        start: a network from which the initial weights of all layers that agree are taken. None
            selects that of the recipe, if it names one.
        mesh_axis: as in `Model.fit`.
        tell: a function that is called with a line about the initial weights.

    Raises:
        GmlmError: with one of these codes:
            - E580: the model is not a translation model.
            - E505: there are no pairs.
            - E586: the loss is no longer a finite number.
            - E589: the start does not fit.
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
        mesh_axis=mesh_axis,
    )
    if fit.reason == "diverged":
        help = "take a lower `--learning-rate` or a longer `--warmup`"
        raise fail("E586", f"training `{model.name}` diverged after {len(fit.loss_trace)} steps: nothing is written", help=help)
    return fit


@dataclass(frozen=True)
class Start:
    """A trained network whose weights are the initial weights of another network.

    Attributes:
        network: the module.
        name: the origin of the network, for messages.
    """

    network: AbstractNetwork
    name: str


def start_of_bundle(path: str | Path, vocabulary: Vocabulary, allow_python: bool = False) -> Start:
    """Return the network of a bundle.

    Raises:
        GmlmError: E589 if its vocabulary differs; E120 and E575 for a file that is not a bundle.
    """
    found = load_translator(path, allow_python=allow_python)
    if found.vocabulary.sha256 != vocabulary.sha256:
        message = f"{path} has another vocabulary: of its {found.vocabulary.size:,} pieces none need mean what it means here"
        raise fail("E589", message, help="train with the vocabulary of the bundle: `gmlm train` takes it where no `--vocabulary` is given")
    return Start(found.network, Path(path).name)


def started(model: ConditionalModel, start: Start, seed: int) -> tuple[JsonObject, JsonObject]:
    """Return the initial weights of a model, and a summary of the weights that were taken.

    The weights of layers that agree are taken from `start`. The others are random, from the seed.

    Raises:
        GmlmError: E589 if fewer than 1 % of the weights agree.
    """
    [(name, fresh)] = model.init_params(seed).items()
    network, parts = with_weights_of(fresh, start.network)
    taken, every = (sum(n[k] for n in parts.values()) for k in (0, 1))
    if taken < LEAST_TAKEN * every:
        few = f"{taken:,} of the {every:,} weights" if taken else f"none of the {every:,} weights"
        message = f"{few} of model `{model.name}` have the place and the shape of one of {start.name}"
        raise fail("E589", message, help="give both networks the same `width`, `heads` and `ffn`, or start from random weights")
    return {name: network}, {"from": start.name, "taken": taken, "of": every, "parts": {k: list(n) for k, n in parts.items()}}


def start_in_words(found: JsonObject) -> str:
    """Return the summary of the taken weights as one line."""
    parts = [f"{name} {'all' if n == m else f'{n:,} of {m:,}'}" for name, (n, m) in found["parts"].items() if n]
    fresh = [name for name, (n, _) in found["parts"].items() if not n]
    rest = f"; fresh: {', '.join(fresh)}" if fresh else ""
    return f"starts from {found['from']}: {found['taken']:,} of {found['of']:,} weights are taken ({', '.join(parts)}{rest})"
