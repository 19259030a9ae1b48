"""All faults of a bound model, its masks, samplers, verifiers and values, found in one run.

A faulty part does not prevent the others from being checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from .._diagnostics import Diagnostic, Faults, GmlmError, fail, in_text_order
from ..graph import (
    Bound,
    Lowered,
    autoregressive,
    guided,
    lower_corruption,
    lower_sound,
    passes_of,
    refinement,
    verify_brackets,
    verify_strings,
)
from ..masks import lower_mask
from ..program import AUTOREGRESSIVE, ir, is_guided, with_model
from ._clusters import plan_clusters
from ._updates import repeat_count, row_weights, sweep_blocks

Found = TypeVar("Found")


def with_others(error: GmlmError, bound: Bound, name: str) -> GmlmError:
    """Return an error together with all other faults of the model and the parts that belong to it.

    These parts are masks, samplers, verifiers and values. An error that is not about the bound
    text, such as a cost, is returned alone.

    Args:
        error: the error of a model, a mask or a sampler.
        bound: the bound program.
        name: the name of the model.
    """
    return (
        error
        if not all(c.startswith("E4") for c in error.codes)
        else GmlmError(in_text_order((*error.diagnostics, *sound_model(bound, name)[1])))
    )


def sound_model(bound: Bound, name: str) -> tuple[Lowered, list[Diagnostic]]:
    """Return the sound part of a model, and every fault.

    The faults are those of the model, its masks, samplers, verifiers and values.
    """
    lowered, found = lower_sound(bound, name)
    faults = Faults()
    program = with_model(bound.program, lowered.names.model)
    for mask in _of(program.masks.values(), name):
        _mask(lowered, mask, faults)
    for sampler in _of(program.samplers.values(), name):
        if isinstance(sampler.body, ir.FormCall):
            faults.of(_options, lowered, sampler.body)
        else:
            visitor = _Kernels(lowered, faults)
            for kernel in ir.kernels_in(sampler.body):
                kernel.accept(visitor)
    for judge in _of(program.judges.values(), name):
        faults.of(_judge, lowered, judge)
    return lowered, [*found, *faults.found]


def _of(parts: Iterable[Found], name: str) -> list[Found]:
    return [p for p in parts if p.model == name]  # pyright: ignore[reportAttributeAccessIssue]


def _mask(lowered: Lowered, mask: ir.Mask, faults: Faults) -> None:
    before = len(faults.found)
    if not mask.body.has_least_confident:
        faults.of(lower_mask, lowered, mask)
    if lowered.graph.network is not None and len(faults.found) == before:
        faults.of(lower_corruption, lowered.bound, mask.body)


def _judge(lowered: Lowered, judge: ir.Judge) -> None:
    """Raise unless a verifier or value has valid numbers and judges the strings that are drawn."""
    own = next(iter(lowered.graph.observed), None)
    if own is None:
        return  # Another check reports the faults of the string.
    options = cast(Mapping[str, Any], guided(judge.body, lowered.bound, own))
    if judge.body.form.name == "brackets":
        verify_brackets(judge, int(options["kinds"]), own)
    if judge.body.form.name in ("completable", "expected"):
        name = str(options["model"])
        other = lower_sound(lowered.bound, name)[0].graph.observed if name in lowered.bound.program.models else ()
        if other:
            verify_strings(judge, name, own, other[0])


def _options(lowered: Lowered, call: ir.FormCall) -> None:
    """Validate the numbers of a built-in sampler as its first use does."""
    string = next(iter(lowered.graph.observed), None)
    if call.form is AUTOREGRESSIVE:
        autoregressive(call, lowered.bound, string)
    elif is_guided(call.form.name):
        if string is not None:  # Another check reports the faults of the string.
            guided(call, lowered.bound, string)
    else:
        options, cells = refinement(call, lowered.bound), sum(v.size for v in lowered.graph.observed)
        if cells:  # Another check reports the faults of the variables.
            passes_of(call, options, cells)


@dataclass(frozen=True)
class _Kernels:
    """Collects the faults of kernels, each without those of the kernels that it runs."""

    lowered: Lowered
    faults: Faults

    def start(self, kernel: ir.Start) -> None:
        pass  # The sampler that it names is verified separately.

    def sweep(self, kernel: ir.Sweep) -> None:
        self.faults.of(sweep_blocks, self.lowered, kernel.blocks)

    def random(self, kernel: ir.RandomUpdate) -> None:
        if kernel.mask.body.is_percolation:
            self.faults.of(_clusters, self.lowered, kernel)
        else:
            _mask(self.lowered, kernel.mask, self.faults)

    def cycle(self, kernel: ir.Cycle) -> None:
        pass

    def repeat(self, kernel: ir.Repeat) -> None:
        self.faults.of(repeat_count, self.lowered, kernel)

    def mixture(self, kernel: ir.KernelMixture) -> None:
        self.faults.of(row_weights, self.lowered, kernel)

    def temper(self, kernel: ir.Temper) -> None:
        self.faults.of(plan_temper, self.lowered, kernel)


def _clusters(lowered: Lowered, kernel: ir.RandomUpdate) -> None:
    """Raise unless the factors have bonds and a symmetry.

    Costs are reported only when a cluster is drawn.
    """
    try:
        plan_clusters(lowered, kernel)
    except GmlmError as error:
        if all(c.startswith("E4") for c in error.codes):
            raise


@dataclass(frozen=True)
class TemperPlan:
    """The replicas of a `temper`.

    Attributes:
        betas: the betas, ascending and distinct, with 1 among them.
    """

    betas: tuple[float, ...]

    @property
    def cold(self) -> int:
        """The place of beta 1, whose replica gives the draws."""
        return self.betas.index(1.0)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The names of the pairs of neighbours: `0.5 to 1`."""
        return tuple(f"{low:g} to {high:g}" for low, high in zip(self.betas, self.betas[1:], strict=False))

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        n, ladder = len(self.betas), ", ".join(f"{b:g}" for b in self.betas)
        if n == 1:
            return "1 replica at beta 1: nothing to exchange"
        return f"{n} replicas at beta {ladder}: {n} times the work of the body, and log p of each replica once for the exchanges"


def plan_temper(lowered: Lowered, kernel: ir.Temper) -> TemperPlan:
    """Return the ladder of a `temper`.

    Raises:
        GmlmError: E421 unless the betas are finite, at least 0 and distinct, with 1 among them.
    """
    betas = [lowered.bound.number(b) for b in kernel.betas]
    for beta, e in zip(betas, kernel.betas, strict=True):
        if not np.isfinite(beta) or beta < 0:
            help = "betas rise to 1, as in `[0.25, 0.5, 1]`"
            raise fail("E421", f"a beta is finite and at least 0, found {beta:g}", e.span, f"{beta:g}", help=help)
        if betas.count(beta) > 1:
            raise fail("E421", f"beta {beta:g} is listed twice", e.span, f"{beta:g} again", help="each beta has one replica: list it once")
    if 1 not in betas:
        listed = ", ".join(f"{b:g}" for b in betas)
        message = f"the draws are those at beta 1, which `betas` must list: found {listed}"
        raise fail("E421", message, kernel.betas[0].span if betas else kernel.span, "no beta 1", help="add 1 to `betas`")
    return TemperPlan(tuple(sorted(betas)))
