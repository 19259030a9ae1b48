"""Networks, refinement and its presets, and the inputs that masks make, in the checked program."""

from __future__ import annotations

import pytest

from gmlmdsl._diagnostics import Fix, GmlmError, Source
from gmlmdsl.graph import Bound, bind, lower_corruption, refinement
from gmlmdsl.graph._lowered import lower_model
from gmlmdsl.program import Program, check_source, forms, input_options, ir, network_options, refinement_options
from gmlmdsl.program._check_networks import option_faults

NETWORK = """\
network net = encoder_decoder(layers = 3, width = 64)
model m {
  given s[i in range(4)] : range(5)
  var x[i in range(6)] : range(5)
  conditional x ~ net(s)
}
mask seen = bernoulli(x, rate = 0.5, noise = {hide: 0.5, uniform: 0.5})
"""
LONE = NETWORK.replace("layers = 3", "length = oracle")


def checked(text: str) -> Program:
    return check_source(Source("a.gmlm", text))


def faults(text: str) -> list[tuple[str, str]]:
    """Code and the text underlined of everything that is said."""
    try:
        found = checked(text).warnings
    except GmlmError as error:
        found = error.diagnostics
    return [(d.code, d.span.text if d.span else "") for d in found]


def options_of(call: str, network: str = NETWORK) -> dict[str, object]:
    """The options of a sampler, numbers as numbers."""
    body = checked(f"{network}sampler s = {call}\n").samplers["s"].body
    assert isinstance(body, ir.FormCall)
    return {k: v.value if isinstance(v, ir.Literal) else v for k, v in refinement_options(body).items()}


BASE = {
    **{"steps": 4, "lengths": 1, "starts": 1, "start": "hide", "schedule": "all", "threshold": 0.9, "confidence": "probability"},
    **{"decode": "argmax", "temperature": 1.0, "top_k": "none", "top_p": "none", "remask": "none", "eta": 0.1, "stop": "fixed"},
    **{"order": "confidence", "block": "none", "from": 0.0, "until": 1.0, "loop": "none", "planner": "none"},
}


@pytest.mark.parametrize(
    ("call", "differs"),
    [
        ("refinement()", {}),
        ("refinement(remask = least_confident)", {"schedule": "linear", "remask": "least_confident"}),
        ("refinement(remask = random)", {"schedule": "linear", "remask": "random"}),
        ("refinement(remask = remdm)", {"schedule": "linear", "remask": "random"}),
        ("refinement(remask = remdm_cap)", {"schedule": "linear", "remask": "remdm_cap", "order": "random"}),
        ("refinement(order = left_to_right)", {"schedule": "linear", "order": "left_to_right"}),
        ("refinement(remask = stutter)", {"remask": "stutter"}),
        ("refinement(decode = sample, top_k = 3)", {"decode": "sample", "top_k": 3, "confidence": "margin"}),
        ("padir()", {"lengths": 5, "start": "uniform", "remask": "stutter"}),
        ("padir(remask = none, steps = 2)", {"lengths": 5, "start": "uniform", "steps": 2}),
        ("mask_predict()", {"steps": 10, "lengths": 5, "schedule": "linear", "remask": "least_confident"}),
        ("easy_first()", {"steps": 10, "lengths": 5, "schedule": "linear"}),
        ("sundae()", {"steps": 10, "lengths": 5, "start": "uniform", "decode": "sample", "temperature": 0.5, "confidence": "margin"}),
        ("remdm()", {"steps": 10, "lengths": 5, "schedule": "linear", "decode": "sample", "remask": "random", "confidence": "margin"}),
    ],
)
def test_a_preset_is_refinement_with_other_defaults(call: str, differs: dict[str, object]) -> None:
    assert options_of(call) == BASE | differs


def test_a_preset_keeps_its_name_and_shares_the_options() -> None:
    base = forms.form("sampler", "refinement")
    presets = [f for f in forms.FORMS if f.room == "sampler" and f.of is not None]
    assert [f.name for f in presets] == ["padir", "mask_predict", "easy_first", "sundae", "remdm", "random_order", "block_diffusion"]
    assert base is not None
    assert all(f.of is base and [o.name for o in f.options] == [o.name for o in base.options] for f in presets)


def test_where_no_length_is_predicted_there_is_one_candidate() -> None:
    assert options_of("mask_predict()", LONE)["lengths"] == 1
    assert options_of("mask_predict(lengths = 1)", LONE)["lengths"] == 1
    assert faults(LONE + "sampler s = mask_predict(lengths = 2)\n") == [("E325", "lengths = 2")]


def test_a_schedule_may_be_a_mask() -> None:
    found = options_of("refinement(schedule = seen)")["schedule"]
    assert isinstance(found, ir.Mask)
    assert found.name == "seen"
    two = (
        NETWORK.replace("mask seen", "mask seen for m")
        + "model o {\n  given s[i in range(4)] : bit\n  var x : bit\n  conditional x ~ net(s)\n}\n"
    )
    assert faults(two + "sampler s for o = refinement(schedule = seen)\n") == [("E313", "seen")]


def test_options_of_networks_follow_one_another() -> None:
    found = network_options(checked(NETWORK).networks["net"])
    assert found["decoder_layers"] == found["layers"] == ir.Literal(None, 3)  # type: ignore[arg-type]
    assert found["ffn"] == ir.Operation(None, "*", (ir.Literal(None, 4), ir.Literal(None, 64)))  # type: ignore[arg-type]
    assert (found["length"], found["positional_attention"]) == ("classifier", True)


def test_positions_of_what_is_given_are_counted_where_the_target_has_an_unknown_size() -> None:
    text = """input n : int
network net = encoder_decoder(layers = 1, positions = 12, position_embeddings = true)
model m {
  given s[i in range(8)] : bit
  given u[i in range(6)] : bit
  var x[i in range(n)] : bit
  conditional x ~ net(s, u)
}
"""
    assert [code for code, _ in faults(text)] == ["E319"]
    for fits in (
        text.replace("range(6)", "range(4)"),
        text.replace(", position_embeddings = true", ""),
        text.replace("range(8)", "range(n)"),
    ):
        assert faults(fits) == []


def test_the_inputs_that_masks_make() -> None:
    text = (
        NETWORK
        + "mask a = blocks({x[0]}, noise = {keep: 0.5, hide: 0.5}, stages = 3, stage_inputs = sample)\nmask b { choose {x[0]} weight 1 }\n"
    )
    found = {name: input_options(m.body) for name, m in checked(text).masks.items()}  # type: ignore[arg-type]
    one, half = ir.Literal(None, 1), ir.Literal(None, 0.5)  # type: ignore[arg-type]
    assert found["seen"] == {"noise": {"hide": half, "uniform": half}, "stages": one, "stage_inputs": "argmax"}
    assert found["a"] == {"noise": {"keep": half, "hide": half}, "stages": ir.Literal(None, 3), "stage_inputs": "sample"}  # type: ignore[arg-type]
    assert found["b"] == {"noise": {"hide": one}, "stages": one, "stage_inputs": "argmax"}


def test_numbers_of_options_are_judged_alike_when_they_are_bound() -> None:
    net, refine = forms.form("network", "transformer"), forms.form("sampler", "padir")
    assert net is not None
    assert refine is not None
    assert [n for n, _ in option_faults(net, {"width": 10, "heads": 4, "dropout": 1.0, "layers": 0})] == ["layers", "dropout", "width"]
    assert list(option_faults(net, {"width": 12, "heads": 4, "dropout": 0.0, "layers": None})) == []
    assert [n for n, _ in option_faults(refine, {"steps": 0, "top_k": "none", "top_p": 1.5, "start": "hide"})] == ["steps", "top_p"]


@pytest.mark.parametrize("noise", ["{uniform: 1}", "{uniform: a, keep: 1 - a}", "{uniform: 0.5, keep: 0.5, hide: 0}"])
def test_a_hidden_start_that_no_mask_trains_is_warned_of(noise: str) -> None:
    text = "input a : positive = 0.5\n" * ("a," in noise) + NETWORK.replace("{hide: 0.5, uniform: 0.5}", noise)
    assert faults(text + "sampler s = mask_predict()\n") == [("W813", "s")]
    assert faults(text + "sampler s { update x[i] for i in range(6) }\n") == [("W813", "s")]
    assert faults(text + "sampler s = padir()\n") == []
    assert faults(text.replace("uniform: ", "hide: ") + "sampler s = mask_predict()\n" if "hide" not in noise else NETWORK) == []


def test_nothing_is_said_of_a_program_without_masks() -> None:
    text = NETWORK[: NETWORK.index("mask seen")]
    assert faults(text + "sampler s = padir()\nsampler t = mask_predict()\n") == []


def test_an_option_that_means_nothing_is_removed_by_its_fix() -> None:
    text = NETWORK + "sampler s = refinement(eta = 0.1, steps = 2)\n"
    with pytest.raises(GmlmError) as caught:
        checked(text)
    (d,) = caught.value.diagnostics
    assert isinstance(d.fix, Fix)
    assert "refinement(steps = 2)" in d.fix.applied(text)


def lower_all(program: Program, bound: Bound) -> None:
    """The model, and every option of its masks and samplers."""
    lower_model(bound, "m")
    for sampler in program.samplers.values():
        assert isinstance(sampler.body, ir.FormCall)
        refinement(sampler.body, bound)
    for mask in program.masks.values():
        lower_corruption(bound, mask.body)


@pytest.mark.parametrize(
    ("text", "inputs", "said"),
    [
        (NETWORK.replace("width = 64", "width = k"), {"k": 60}, "`width` is a multiple of `heads`"),
        (NETWORK.replace("width = 64", "dropout = a"), {"a": 1.5}, "`dropout` is at least 0 and below 1, found 1.5"),
        (NETWORK + "sampler s = refinement(steps = k)\n", {"k": 0}, "`steps` is at least 1, found 0"),
        (NETWORK + "sampler s = refinement(decode = sample, temperature = a)\n", {"a": 0.0}, "`temperature` is above 0"),
        (NETWORK + "mask m2 = everything(x, stages = k)\n", {"k": 0}, "`stages` is at least 1, found 0"),
    ],
)
def test_numbers_of_inputs_are_judged_when_they_are_bound(text: str, inputs: dict[str, float], said: str) -> None:
    program = checked("input k : int = 8\ninput a : real = 0.5\n" + text)
    with pytest.raises(GmlmError) as caught:
        lower_all(program, bind(program, inputs))
    assert caught.value.codes == ("E409",)
    assert said in str(caught.value)
