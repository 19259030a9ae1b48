"""Find the user's own code that a program names.

Making a model imports this code, and running the model runs it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .._diagnostics import Span
from ._blocks import FormCall
from ._check_visits import is_decoder
from ._options import is_function, refinement_options
from ._program import Program


def python_code(program: Program, model: str) -> Iterator[tuple[str, Span]]:
    """Yield what a model of a checked program runs, and where it is named.

    That is the class of its network, and the confidences, planners and schedules of its decoders.
    """
    declared = program.models[model]
    network = None if declared.conditional is None else program.networks[declared.conditional.network]
    if network is not None and network.form.name == "python":
        yield f"its network is the class `{network.arguments['target']}`", network.span
    for sampler in program.samplers.values():
        if sampler.model == model and isinstance(sampler.body, FormCall) and is_decoder(sampler.body):
            options = refinement_options(sampler.body)
            planner = program.networks.get(str(options["planner"]))
            for target in filter(is_function, (options["confidence"], options["planner"], options["schedule"])):
                yield f"sampler `{sampler.name}` calls the function `{target}`", sampler.body.span
            if planner is not None and planner.form.name == "python":
                yield f"sampler `{sampler.name}` plans by the class `{planner.arguments['target']}`", sampler.body.span
