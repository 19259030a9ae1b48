"""Every code of the table is raised by something: programs raise those of the text, calls the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import jax
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import codes

TESTS = Path(__file__).parents[1]
TEXT = """\
model m {
  var x[i in range(2)] : bit
  param J
  factor J * x[0] * x[1]
  require x[0] + x[1] > 0
}
mask one = subsets(x, size = 1)
mask tuned { choose {x[0]} weight exp(J)  choose {x[1]} weight 1 }
sampler s { update x }
"""
LARGE = "model m {\n  var x[i in range(40)] : bit\n  factor x[i] * x[j] for i in range(40) for j in range(40) if i < j\n}\n"
LARGE += "mask all = bernoulli(x, rate = 0.5)\nsampler s { update x[i] for i in range(40) }\n"
SPREAD = """
model m {
  var x[i in range(2)] : bit
  param tau : positive ~ half_normal(1)
  param a[i in range(2)] ~ normal(0, tau)
  x[i] ~ bernoulli(logit = a[i]) for i in range(2)
}
mask one = subsets(x, size = 1)
"""
PRIOR = "model m {\n  var x : bit\n  param p : positive ~ gamma(0.5, 1)\n  factor p * x\n}\nmask one = subsets(size = 1)\n"
# More spins than a matrix takes, so cold that they do not turn; and a mask that leaves most of them where they are.
CHAIN = "model m {\n  var x[i in range(12)] : spin\n  factor 9 * x[i] * x[i + 1] for i in range(12) if i < 11\n}\n"
CHAIN += "mask lonely = blocks({x[0]})\nmask single = subsets(x, size = 1)\n"
NETWORK = "network net = mlp(width = 2)\nmodel m { var x[i in range(2)] : bit  conditional x ~ net() }\n"
GUIDED = "input n : int = 3\nmodel words { var x[t in range(3)] : bit  x[t] ~ categorical([0.5, 0.5]) for t in range(3) }\n"
GUIDED += "model other { var x[t in range(n)] : bit  require x[0] == 0 }\nverifier can for words = completable(other)\n"
GUIDED += 'verifier lost for words = python("no_such_module:name")\nverifier odd for words = python("math:sqrt")\n'
GUIDED += "sampler rej for words = rejection(can)\nsampler none for words = rejection(lost)\nsampler bad for words = rejection(odd)\n"
P = {"J": np.array(0.2)}
ROWS = [[1, 0], [1, 1], [0, 1]]


def model(text: str = TEXT) -> gm.Model:
    return gm.parse(text).model()


class Odd:
    """An oracle whose rows do not sum to 1."""

    def start(self, prompts: np.ndarray) -> int:
        return len(prompts)

    def next_log_probs(self, state: int) -> np.ndarray:
        return np.zeros((state, 2))

    def push(self, state: int, symbols: np.ndarray) -> int:
        return state

    def pop(self, state: int, n: np.ndarray) -> int:
        return state


def guided(sampler: str, oracle: object = None, **inputs: int) -> object:
    """Draws of a guided sampler."""
    return gm.parse(GUIDED, allow_python=True, **inputs).model("words").sample({}, sampler, draws=2, oracle=oracle)


def impatient(call: Callable[[], object]) -> object:
    """A call under a limit of three steps."""
    with patch("gmlmdsl.theory._mixing.MOST_STEPS", 3):
        return call()


# A call for each code that no program raises.
CALLS: dict[str, Callable[[Path], object]] = {
    "E515": lambda path: guided("rej", n=4),
    "E744": lambda path: guided("none"),
    "E745": lambda path: guided("bad"),
    "E746": lambda path: guided("rej", oracle=Odd()),
    "E501": lambda path: model().log_prob(P, [[1, 0, 1]]),
    "E502": lambda path: model().log_prob(P, [[2, 0]]),
    "E503": lambda path: model("model m {\n  var x : bit\n  var y : bit\n}\n").log_prob({}, {"x": [0]}),
    "E504": lambda path: model().log_prob(P, [[float("nan"), 0]]),
    "E505": lambda path: model().fit(np.zeros((0, 2), int), mask="one"),
    "E506": lambda path: model().fit(ROWS, mask="two"),
    "E507": lambda path: model().sample(P, draws=-1),
    "E508": lambda path: model().fit([[0, 0]], mask="one"),
    "E509": lambda path: model().sample(P, draws=1, init=[0, 0]),
    "E510": lambda path: model().fit(ROWS, mask="one", given={"y": [0]}),
    "E512": lambda path: model().marginals(P, clamp={"x": [0, 0]}),
    "E513": lambda path: jax.jit(lambda x: model().map(P, x=x))(jax.numpy.asarray(ROWS)),
    "E514": lambda path: model("model m {\n  var x : bit\n  param h\n  factor exp(h * x)\n}\n").log_partition({"h": 1000.0}),
    "E520": lambda path: gm.load_fit(write(path / "a.fit", "no fit")),
    "E120": lambda path: gm.load_fit(path / "none.fit"),
    "E601": lambda path: model(LARGE).log_partition({}),
    "E602": lambda path: model(LARGE).loss({}, [[0] * 40], mask="all"),
    "E701": lambda path: model(PRIOR).fit([0, 1], mask="one"),
    "E706": lambda path: model(PRIOR.replace("positive ~ gamma(0.5, 1)", "real ~ spike_slab(1, 0.5)")).fit([0, 1], mask="one"),
    "E708": lambda path: model(SPREAD).fit([[0, 1]], mask="one"),
    "E713": lambda path: gm.theory.stationary_law(model(CHAIN), {}, mask="lonely"),
    "E714": lambda path: impatient(lambda: gm.theory.mixing_time(model(CHAIN), {}, mask="single", start=[1] * 12)),
    "E702": lambda path: model().fit(ROWS, mask="tuned"),
    "E742": lambda path: model(NETWORK).log_prob({}, ROWS),
    "E522": lambda path: gm.read_table(write(path / "a.csv", "a,b\n1,2\n1,2,3\n")),
    "E525": lambda path: gm.read_table(write(path / "a.csv", "a,a\n1,2\n")),
    "E526": lambda path: gm.read_table(write(path / "a.csv", "a,b\n1,2\n"), columns="c"),
    "E527": lambda path: gm.read_table(write(path / "a.csv", "a,b\n1,2\n"), where={"a": "2"}),
    "E530": lambda path: gm.read_alignment(write(path / "a.fasta", "ACD\n")),
    "E531": lambda path: gm.read_alignment(write(path / "a.fasta", ">a\nACD\n"), "b"),
    "E532": lambda path: gm.read_model(write(path / "a.bif", "network a {\n}\nnode b {\n}\n")),
    "E533": lambda path: gm.read_model(
        write(path / "a.bif", "variable a { type discrete [ 2 ] { n, y }; }\nprobability ( a ) { table 0.2, 0.7; }\n")
    ),
    "E534": lambda path: model().export(P, path / "a.bif"),
    "E535": lambda path: gm.read_model(write(path / "a.bif", "variable a { type discrete [ 99999999999 ] { n }; }\n")),
    "E540": lambda path: model().fit(ROWS, mask="one", weights=[1, 1, 1], weights_are="frequency"),
    "E541": lambda path: model().fit(ROWS, mask="one", weights=[0.5, 1, 1], weights_are="counts"),
    "E542": lambda path: model().fit(ROWS, mask="one", weights=[1, 1, 1], weights_are="counts", n_masks=1),
    "E735": lambda path: (
        gm.parse(NETWORK.replace("mlp(width = 2)", 'python("no_such_module:Net")'), allow_python=True).model().init_params()
    ),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.check
@pytest.mark.parametrize("code", CALLS)
def test_a_call_raises_its_code(code: str, tmp_path: Path) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        CALLS[code](tmp_path)
    assert code in caught.value.codes


def test_every_code_is_produced() -> None:
    """By a program whose golden text shows it, by a call above, or by a test elsewhere that fails unless it does (`produces`)."""
    texts = [path.read_text() for folder in ("bad", "good", "habits", "valid") for path in (TESTS / "programs" / folder).glob("*.txt")]
    of_programs = {code for text in texts for code in re.findall(r"(?m)^(?:error|warning)\[([EW]\d{3}) ", text)}
    marks = [mark for path in TESTS.rglob("test_*.py") for mark in re.findall(r"(?m)^@pytest\.mark\.produces\((.*)\)$", path.read_text())]
    own = {code for mark in marks for code in re.findall(r"[EW]\d{3}", mark)}
    assert set(codes()) - of_programs - set(CALLS) - own == set()
    assert (of_programs | set(CALLS) | own) - set(codes()) == set()
    assert set(CALLS) & own == set()  # once is enough


def test_every_code_that_the_house_raises_is_in_the_table() -> None:
    """And none stands there that nothing raises."""
    house = Path(gm.__file__).parent
    raised = {code for path in house.rglob("*.py") for code in re.findall(r"[\"']([EW]\d{3})[\"']", path.read_text())}
    assert raised == set(codes())
