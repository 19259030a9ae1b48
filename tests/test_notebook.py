"""The cell magic: programs under their names, inputs of the notebook, and faults without a traceback."""

from __future__ import annotations

import linecache
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gmlmdsl as gm

CELL = """model votes {
  var x[i in range(n)] : bit
  param h[i in range(n)] ~ normal(0, 1)
  factor h[i] * w[i] * x[i] for i in range(n)
}
mask one = subsets(x, size = 1)
"""
INPUTS = "input n : int\ninput w[i in range(n)] : real\n"


class Shell:
    """What IPython gives an extension."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"size": 3, "weights": np.array([1.0, 2.0, 3.0])}
        self.magics: dict[tuple[str, str], Any] = {}
        self.execution_count = 7
        self.Completer = SimpleNamespace(custom_matchers=[])

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = function

    def set_custom_exc(self, kinds: tuple[type, ...], handler: Any) -> None:
        self.kinds, self.handler = kinds, handler


@pytest.fixture
def shell() -> Shell:
    shell = Shell()
    gm.load_ipython_extension(shell)
    return shell


def run(shell: Shell, line: str, cell: str = INPUTS + CELL) -> Any:
    return shell.magics["cell", "gmlm"](line, cell)


def test_a_cell_becomes_a_program(shell: Shell):
    """Inputs are expressions of the notebook, with spaces and comparisons inside."""
    shown = run(shell, "votes n=size w=weights[:2 + 1] * (size == 3)")
    program = shell.user_ns["votes"]
    assert isinstance(program, gm.BoundProgram)
    assert program.model().log_partition({"h": np.zeros(3)}) == pytest.approx(3 * np.log(2))
    assert repr(shown) == "votes: model votes; mask one"
    assert shown._repr_html_().startswith("<div>votes: model votes; mask one</div><div>")


def complete(shell: Shell, text: str) -> dict[str, Any]:
    """What the shell's matcher answers at the mark `|`."""
    before = text[: text.index("|")].split("\n")
    place = {"cursor_line": len(before) - 1, "cursor_position": len(before[-1])}
    (matcher,) = shell.Completer.custom_matchers
    assert matcher.matcher_api_version == 2
    return matcher(SimpleNamespace(full_text=text.replace("|", ""), **place))


@pytest.mark.parametrize(
    ("line", "fragment", "word", "kind"),
    [
        ("mask two = sub|", "sub", "subsets", "form"),
        ("sampler s { update x[K] where K ~ o| }", "o", "one", "mask"),
        ("sam|", "sam", "sampler", "keyword"),
    ],
)
def test_a_cell_is_completed(shell: Shell, line: str, fragment: str, word: str, kind: str):
    found = complete(shell, f"%%gmlm votes n=3\n{INPUTS + CELL}{line}\n")
    assert (found["suppress"], found["matched_fragment"]) == (True, fragment)
    assert word in {c.text for c in found["completions"] if kind in c.type}


@pytest.mark.parametrize("text", ["mask two = sub|", "%%gmlm vo|", "%%time\nsub|"])
def test_other_cells_are_left_to_the_notebook(shell: Shell, text: str):
    assert complete(shell, text) == {"completions": []}


def test_warnings_are_shown_and_the_program_is_kept(shell: Shell):
    shown = run(shell, "votes", "model m { var x : bit  param k  factor 0.1 * x }")
    assert "W803" in repr(shown)
    assert "votes" in shell.user_ns


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("votes n=3 w=weights", INPUTS + CELL.replace("h[i] * w", "g[i] * w"), "E203"),
        ("votes n=3", INPUTS + CELL, "E401"),
        ("votes n=3 w=wieghts", INPUTS + CELL, "NameError"),
        ("votes n=(3", INPUTS + CELL, "SyntaxError"),
        ("votes 3", INPUTS + CELL, "name=expression"),
        ("", CELL, "names the program"),
        ("two words", CELL, "name=expression"),
    ],
)
def test_faults_are_shown_and_nothing_is_assigned(shell: Shell, line: str, cell: str, message: str):
    with pytest.raises(gm.GmlmError) as caught:
        run(shell, line, cell)
    assert message in str(caught.value)
    assert "help:" in str(caught.value)
    assert "votes" not in shell.user_ns


def uncaught(shell: Shell, code: str, names: dict[str, Any]) -> list[str]:
    """The lines that the shell's handler shows of an error of `code`."""
    linecache.cache["cell"] = (len(code), None, code.splitlines(keepends=True), "cell")
    with pytest.raises(shell.kinds) as caught:
        exec(compile(code, "cell", "exec"), names)
    return shell.handler(shell, caught.type, caught.value, caught.tb)


def test_a_fault_of_a_cell_is_highlighted_and_ends_a_run_of_all_cells(shell: Shell):
    """The name of the cell is said, and its lines as the notebook counts them: `%%gmlm` is the first."""
    kernel = SimpleNamespace(run_cell_magic=lambda name, line, cell: run(shell, line, cell))
    code = f"get_ipython().run_cell_magic('gmlm', 'v', {'model m {' + chr(10) + '  var x : bit' + chr(10) + '  factor x < y' + chr(10) + '}'!r})"
    lines = uncaught(shell, code, {"get_ipython": lambda: kernel})
    assert lines[0].startswith("\033[1;31merror[E203 ")
    assert re.sub(r"\033\[[\d;]*m", "", lines[1]) == " --> cell v:4:14"
    assert "run_cell_magic" not in "".join(lines)
    assert any(re.search(r"\033\[1;31m *\^", line) for line in lines)


def test_an_uncaught_error_shows_the_line_of_the_cell_and_no_traceback(shell: Shell, capsys: pytest.CaptureFixture[str]):
    run(shell, "votes n=size w=weights")
    code = "def go(x):\n    return votes.model().fit(x, mask='one')\ngo(np.ones((3, 4)))"
    lines = uncaught(shell, code, {"np": np} | shell.user_ns)
    assert lines[0].startswith("Cell In[7], line 3: ")
    assert lines[1].startswith("\033[1;31merror[E501 ")
    said = capsys.readouterr().err
    assert said == "\n".join(lines) + "\n"
    assert "Traceback" not in said


def test_a_cell_shows_the_factor_graph(shell: Shell):
    assert run(shell, "votes n=size w=weights")._repr_html_().count("<svg") == 1
