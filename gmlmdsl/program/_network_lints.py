"""Warn of untrained inputs of networks, and of masks that show the cells to predict.

An input is untrained if a sampler makes it and no mask trains the network on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._diagnostics import Diagnostic, Span, name_in
from ._blocks import FormCall
from ._expressions import known_number
from ._mask_bodies import Mask
from ._options import input_options, network_options, refinement_options
from ._program import Model, Program, Sampler
from ._terms import Expression

FULL = 1 - 1e-6


def lint_network(model: Model, program: Program) -> Iterator[Diagnostic]:
    """Yield every warning about the masks and samplers of a model that has a `conditional`."""
    masks = [m for m in program.masks.values() if m.model == model.name and not m.body.has_least_confident]
    causal = _is_causal(model, program)
    for mask in masks:
        yield from _hiding(mask) if causal else _showing(mask)
    for sampler in (s for s in program.samplers.values() if s.model == model.name and masks and not causal):
        yield from _untrained(sampler, masks, model)


def _is_causal(model: Model, program: Program) -> bool:
    assert model.conditional is not None
    return network_options(program.networks[model.conditional.network]).get("causal") is True


def _hiding(mask: Mask) -> Iterator[Diagnostic]:
    """Yield a warning for a mask of a causal network whose noise hides all preceding cells."""
    if all((known_number(noise.get("hide")) or 0) >= FULL for noise in _noises(mask)):
        message = f"mask `{mask.name}` hides what a `causal` network predicts from: the cells before each one"
        help = "write `everything(.., noise = {keep: 1})`: a cell is never seen by its own prediction"
        yield Diagnostic("W814", message, name_in(mask.span, mask.name), "hides the cells before", help=help)


def _noises(mask: Mask) -> list[dict[str, Expression]]:
    """Return the `noise` of every part of a mask."""
    return [input_options(leaf)["noise"] for leaf in mask.body.leaves()]  # pyright: ignore[reportReturnType]


def _trains(masks: list[Mask], word: str) -> bool:
    """Return whether some mask may show this kind of input to the network.

    A probability that an input gives counts as possibly above 0.
    """
    return any(word in noise and known_number(noise[word]) != 0 for m in masks for noise in _noises(m))


def _untrained(sampler: Sampler, masks: list[Mask], model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for a sampler that hides or randomises cells if no mask does so."""
    options = refinement_options(sampler.body) if isinstance(sampler.body, FormCall) else {"start": "hide"}
    starts = options["start"]  # This is also the content of a cell that is predicted again.
    place = name_in(sampler.span, sampler.name)
    related = tuple((name_in(m.span, m.name), "trains the network") for m in masks[:4])
    if starts == "hide" and not _trains(masks, "hide"):
        message = f"sampler `{sampler.name}` hides cells, and no mask of model `{model.name}` trains the network on hidden cells"
        help = "add `hide` to the `noise` of a mask" + (", or write `start = uniform`" if isinstance(sampler.body, FormCall) else "")
        yield Diagnostic("W813", message, place, "never trained", related, help)
    if starts == "uniform" and not _trains(masks, "uniform"):
        message = f"sampler `{sampler.name}` starts from random values, and no mask of model `{model.name}` trains the network on them"
        yield Diagnostic("W813", message, place, "never trained", related, "add `uniform` to the `noise` of a mask, or start with `hide`")


def _showing(mask: Mask) -> Iterator[Diagnostic]:
    """Yield a warning for a mask whose noise keeps every cell.

    The network then sees the cells that it predicts.
    """
    kept = [noise["keep"] for noise in _noises(mask) if (known_number(noise.get("keep")) or 0) >= FULL]
    if kept:
        message = "the network sees every cell that it is asked for: it learns to copy"
        help = "`keep` is the share of cells that hold their true value: below 1, with `hide` or `uniform` for the others"
        span: Span = kept[0].span
        yield Diagnostic("W809", message, span, "keeps all of K", help=help)
