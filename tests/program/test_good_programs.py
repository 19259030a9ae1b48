"""Valid programs: those of the contract and some for every rule of it. Each is checked, formatted, bound and lowered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmlmdsl._diagnostics import Source
from gmlmdsl.graph import bind
from gmlmdsl.graph._lowered import lower_let, lower_model
from gmlmdsl.masks import lower_mask
from gmlmdsl.program import Program, check_file, check_source, ir
from gmlmdsl.syntax import format_source, parse

GOOD = Path(__file__).parents[1] / "programs" / "good"
PROGRAMS = sorted(path.stem for path in GOOD.glob("*.gmlm"))
CONTRACT = (
    "ising",
    "potts",
    "rbm",
    "adaptive",
    "mixed",
    "tables",
    "hmm",
    "text",
    "translate",
    "asia",
    "panel",
    "shared",
    "graphs",
    "counts",
)
WARNED = {
    "adaptive_masks": ["W810"],
    "directed_chain": ["W808"],
    "every_prior": ["W808"],
    "keywords_as_names": ["W807", "W807"],
    "mixed": ["W808"],
    "scalars_of_every_domain": ["W808"],
    "ising": ["W801"],
    "adaptive": ["W801"],
    "translate": ["W813"],
    "samplers_of_every_form": [*["W807"] * 6, "W801", "W807", "W807"],
    "unused_parameter": ["W803"],
    "unbounded_prior": ["W802"],
}
# Inputs of the contract's programs; the others say theirs on the first line.
INPUTS: dict[str, dict[str, object]] = {
    "potts": {"n_sites": 3, "pairs": [[0, 1], [2, 1]]},
    "graphs": {"n": 6, "pairs": [[2, 0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 2], [4, 5]], "w": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]},
    "panel": {"persons": 3, "visits": [2, 1, 3]},
    "tables": {"U": [0.0, 0.5, 1.0], "T": [[[0.1] * 4] * 3] * 2, "P": [[1.0, 2.0], [0.5, 1.5]]},
}


def inputs_of(name: str) -> dict[str, object]:
    """Small inputs for a program."""
    first = (GOOD / f"{name}.gmlm").read_text().split("\n", 1)[0]
    return json.loads(first.removeprefix("# inputs:")) if first.startswith("# inputs:") else INPUTS.get(name, {})


def is_compiled(model: ir.Model) -> bool:
    """Whether this version compiles a model: it has neither given variables nor a network."""
    return model.conditional is None and all(v.role != "given" for v in model.variables.values())


OLD = ("adaptive", "keywords_as_names", "masks_of_every_form", "tables")  # written with forms of an earlier version


def checked(name: str) -> Program:
    """The checked program of that name."""
    return check_file(GOOD / f"{name}.gmlm")


def test_there_are_sixty_programs_beside_those_of_the_contract() -> None:
    assert len(set(PROGRAMS) - set(CONTRACT)) >= 60
    assert set(CONTRACT) <= set(PROGRAMS)


@pytest.mark.check
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_good_program_has_no_fault(name: str) -> None:
    found = [w.code for w in checked(name).warnings]
    assert [code for code in found if code != "W831"] == WARNED.get(name, [])
    assert ("W831" in found) == (name in OLD)


@pytest.mark.check
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_good_program_binds_and_lowers(name: str) -> None:
    program = checked(name)
    bound = bind(program, inputs_of(name))
    for model in program.models.values():
        if is_compiled(model):
            lowered = lower_model(bound, model.name)
            for let in model.lets:
                lower_let(lowered, let)
            for mask in bound.program.masks.values():
                if mask.model == model.name:
                    lower_mask(lowered, mask)


@pytest.mark.check
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_good_program_is_the_same_after_formatting(name: str) -> None:
    text = (GOOD / f"{name}.gmlm").read_text()
    formatted = format_source(text)
    assert parse(formatted) == parse(text)
    assert format_source(formatted) == formatted


def comments(text: str) -> list[str]:
    """The comments of a program."""
    return [c.text for c in parse(text).comments]


@pytest.mark.parametrize("name", PROGRAMS)
def test_formatting_keeps_comments(name: str) -> None:
    text = (GOOD / f"{name}.gmlm").read_text()
    assert comments(format_source(text)) == comments(text)


def model(text: str) -> ir.Model:
    """The only model of a text."""
    (found,) = check_source(Source("test.gmlm", text)).models.values()
    return found


def test_labels_become_codes() -> None:
    (factor,) = model('model m { var w : labels("sun", "rain") factor w == "rain" }').factors
    assert factor.value == ir.Operation(factor.span, "==", (ir.VariableValue(factor.span, "w"), ir.LabelCode(factor.span, 1, "rain")))


def test_a_mask_is_adaptive_if_a_part_is() -> None:
    masks = checked("adaptive_masks").masks
    assert [m.name for m in masks.values() if m.adaptive] == ["agreeing", "hot", "by_y", "mix"]
    assert [m.name for m in masks.values() if m.mentions_parameter] == ["tuned"]


def test_a_header_with_given_makes_a_mask_adaptive() -> None:
    assert checked("unadaptive_given").masks["fixed"].adaptive


def test_names_of_models_are_private() -> None:
    text = "model a { var x : spin } model b { var x : bit } mask m for b = everything(x)"
    program = check_source(Source("test.gmlm", text))
    assert program.models["a"].variables["x"].domain.kind == "spin"
    assert program.models["b"].variables["x"].domain.kind == "bit"


def test_an_imported_file_is_read_once() -> None:
    program = checked("imports")
    assert [Path(s.path).name for s in program.sources] == ["imports.gmlm", "colours.gmlm", "flat.gmlm"]


def test_options_of_a_users_network_are_kept() -> None:
    arguments = checked("networks").networks["own"].arguments
    assert arguments["target"] == "package.module:Class"
    assert (arguments["gated"], arguments["kind"]) == (True, "wide")
