"""Whatever stands for the value of an option, the checker answers in its own errors."""

from __future__ import annotations

import pytest
from thinned import thinned

from gmlmdsl._diagnostics import GmlmError, Source
from gmlmdsl.program import _forms as forms
from gmlmdsl.program import check_source

VALUES = (
    *(
        "8w",
        "-8w",
        "8w8w",
        "0",
        "-1",
        "1.5",
        "1e400",
        "9" * 30,
        "1 / 0",
        "7 // 0",
        "2 ^ 64",
        "sqrt(-1)",
        "0.5 + 0.5",
        "nan",
        "none",
        "true",
    ),
    *('"a"', "x", "x[0]", "k", "G", "G.edges", "{}", "[]", "[8w]", "[1, 8w]", "{hide: 8w}", "{x[8w]}", "uniform(1)", "uniform(8w, 1)"),
    *("range(8w)", "if true then 1 else 2"),
)
GIVEN = {
    forms.INTEGER: "2",
    forms.NUMBERS: "[1]",
    forms.TEXT: '"a.b:C"',
    forms.TEXTS: '"a"',
    forms.VARIABLES: "x",
    forms.BLOCKS: "{x[0]}",
}  # what else an option that must be given has; 1 of other kinds
PARTS = 6  # of the values, of which the gate takes one
HEAD = "input k : int = 3\ngraph G = chain(3)\n"
MODEL = "model m { var x[i in range(4)] : bit param h factor h * x[0] }\n"
NETWORK = "network net = {}\nmodel m {{ given s[i in range(4)] : range(3) var x[i in range(4)] : range(5) conditional x ~ net({}) }}\n"
ROOMS = {
    "graph": "graph H = {}\nmodel m {{ var x[i in H.nodes] : bit }}",
    "network": NETWORK,
    "distribution": "model m {{ var x : bit param h ~ {} factor h * x }}",
    "mask": MODEL.replace("{", "{{").replace("}", "}}") + "mask q = {}",
    "sampler": NETWORK.format("transformer()", "").replace("{", "{{").replace("}", "}}") + "mask mm = subsets(x, size = 1)\nsampler q = {}",
    "kernel": MODEL.replace("{", "{{").replace("}", "}}") + "sampler q {{ {} {{ update x }} }}",
    "type": "input a : {0}\nmodel m {{ var x : {0} param h : {0} given y : {0} }}",
    "function": "model m {{ var x[i in range(4)] : bit factor {} + x[0] }}",
    "gauge": "model m {{ var x[i in range(4)] : bit param h gauge {} }}",
}


def program(form: forms.Form, option: forms.Option, value: str) -> str:
    """A program in which one option of a form has a value."""
    parts = [(o, value if o is option else GIVEN.get(o.takes, "1")) for o in form.options if o is option or o.required]
    call = f"{form.name}({', '.join(f'{o.name} = {v}' if o.named else v for o, v in parts)})"
    return HEAD + ROOMS[form.room].format(call, "s" if form.name == "encoder_decoder" else "")


@pytest.mark.parametrize("part", thinned(range(PARTS), PARTS))
@pytest.mark.parametrize("room", ROOMS)
def test_every_value_of_every_option_is_answered_in_errors_of_the_language(room: str, part: int) -> None:
    refused, placeless, values = 0, [], VALUES[part::PARTS]
    options = [(form, option) for form in forms.FORMS if form.room == room for option in form.options]
    for form, option in options:
        for value in values:
            try:
                check_source(Source("p.gmlm", program(form, option, value)))
            except GmlmError as error:
                refused += 1
                placeless += [d.message for d in error.diagnostics if d.span is None]
    assert placeless == []
    assert refused > len(options) * len(values) // 2


def test_a_width_of_a_network_without_heads_is_refused_once() -> None:
    for value, code in (("8w", "E114"), ("0", "E319")):
        with pytest.raises(GmlmError) as caught:
            check_source(Source("p.gmlm", HEAD + NETWORK.format(f"mlp(width = {value})", "s")))
        assert caught.value.codes == (code,)
