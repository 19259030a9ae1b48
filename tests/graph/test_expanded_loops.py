"""Binding expands the loops of masks and samplers, wherever they stand."""

from __future__ import annotations

import pytest

import gmlmdsl as gm
from gmlmdsl.program import check_file, ir

TEXT = """
input b[n] : real = [0, 0.5, 1]
model m { var x[i in range(3)] : bit  factor 0.1 * x[i] for i in range(3) }
mask sizes  = mixture { 1 : subsets(x, size = k) for k in range(1, 3) }
mask nested = mixture { 1 : subsets(x, size = 1)  2 : mixture { 1 : blocks({x[k]}) for k in range(3) } }
sampler by_mask { update x[K] where K ~ sizes }
sampler rows    { mixture { 1 : update x by subsets(x, size = k) for k in range(1, 3) } }
sampler turns   { repeat k in range(3) { update x[k] } }
sampler inner   { repeat 2 { repeat k in range(3) { update x[k] } } }
sampler hot     { temper(betas = b) { update x[i] for i in range(3) } }
sampler deep    { mixture { 1 : temper(betas = b) { update x[i] for i in range(3) }  1 : update x[0] } }
"""


def loops(part: object) -> list[str]:
    """The names of the parts below a part that still have a loop."""
    own = [type(part).__name__] if isinstance(part, ir.MaskMixture | ir.KernelMixture) and part.turns else []
    own += ["Repeat"] if isinstance(part, ir.Repeat) and part.loop is not None else []
    own += ["Temper"] if isinstance(part, ir.Temper) and part.source is not None else []
    own += loops(part.mask.body) if isinstance(part, ir.RandomUpdate) else []
    return [*own, *(name for inner in getattr(part, "parts", ()) for name in loops(inner))]


@pytest.mark.parametrize("name", ["sizes", "nested", "by_mask", "rows", "turns", "inner", "hot", "deep"])
def test_no_loop_is_left(name: str) -> None:
    programs = check_file("loops.gmlm", TEXT), gm.parse(TEXT).bound.program
    checked, bound = ((p.masks | p.samplers)[name] for p in programs)
    before, after = (loops(p.body) if isinstance(p, ir.Mask) else [n for k in p.kernels for n in loops(k)] for p in (checked, bound))
    assert before
    assert after == []
