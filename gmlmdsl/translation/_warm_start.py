"""The initial weights of a translator's training: random ones, or those of a trained network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._diagnostics import fail
from .._types import JsonObject
from ..networks import with_weights_of
from ._translator_file import load_translator
from .limits import LEAST_TAKEN

if TYPE_CHECKING:
    from ..model import ConditionalModel
    from ..networks import AbstractNetwork
    from ._vocabulary import Vocabulary


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
