"""The exact bias of samplers in `gmlm explain`, for small models.

The samplers draw interacting cells independently.
"""

from __future__ import annotations

from pathlib import Path

from .._diagnostics import GmlmError
from ..graph import Bound
from ..program import Program, ir


def show_biases(program: Program, bound: Bound, model: str | None, sampler: str | None, params: Path | None) -> None:
    """Print the total variation distance from p of each sampler that draws cells `independently`.

    Args:
        program: the checked program.
        bound: the program with its inputs.
        model: the only model whose samplers are printed; None prints those of all models.
        sampler: the only sampler to print; None prints all.
        params: a file of parameters by name. Without a file only models without parameters are
            evaluated.
    """
    for s in program.samplers.values():
        named = (not model or s.model == model) and (not sampler or s.name == sampler)
        # A network has no p to compare with.
        if not named or not _independent(s) or program.models[s.model].conditional is not None:
            continue
        print(f"\nbias of sampler {s.name}\n  {_sentence(program, bound, s, params)}")


def _independent(sampler: ir.Sampler) -> bool:
    todo = [*sampler.body] if isinstance(sampler.body, tuple) else []
    while todo:
        kernel = todo.pop()
        if getattr(kernel, "independently", False):
            return True
        todo += [row for _, row in getattr(kernel, "rows", ())] + list(getattr(kernel, "body", ()))
    return False


def _sentence(program: Program, bound: Bound, sampler: ir.Sampler, params: Path | None) -> str:
    if params is None and program.models[sampler.model].parameters:
        return "exact for given parameters: --params FILE.npz"
    from .._compile import BoundProgram
    from ..read import read_arrays

    try:
        model = BoundProgram.of(program, bound).model(sampler.model)
        distance = model.sampler_bias({} if params is None else read_arrays(params), sampler.name)
    except GmlmError as error:
        # With given variables each row has its own chain (E510); E601 is the limit on the cost.
        if error.diagnostics[0].code not in ("E510", "E601"):
            raise
        return f"not computed: {error.diagnostics[0].message}"
    if distance != distance:
        return "the chain has no single stationary distribution: its long run depends on the start"
    return f"total variation distance between its stationary distribution and p: {distance:.3g} (exact, float64)"
