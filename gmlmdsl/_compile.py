"""The path from text to a model: parse, check, bind, lower; later packages plan, derive and run it.

text --parse--> SyntaxTree --check--> Program --bind--> Bound --lower--> FactorGraph
FactorGraph --plan--> BlockPlan, Elimination --derive--> energies, sums, losses, kernels
--evaluate, sample, fit, assess--> exact answers, draws, Fit, second opinions
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ._diagnostics import GmlmWarning, Source, fail, is_one_of, listed, rendered, tell, unknown
from ._types import Coords, InputLike, Label
from .graph import AbstractProgram, Bound, bind
from .program import Program, check_file, check_source, checked_texts, python_code

OLD_FORM = "W831"  # Only `gmlm check` reports this code.

if TYPE_CHECKING:
    from .model import Model


@final
class BoundProgram(AbstractProgram):
    """A checked program with its inputs; equality compares texts, inputs and coordinates."""

    def __init__(self, checked: Program, inputs: Mapping[str, InputLike], coords: Coords | None, allow_python: bool = False):
        if not isinstance(checked, Program):
            raise fail("E507", f"a bound program is made by `gm.load` or `gm.parse`, got {type(checked).__name__}")
        self.allow_python = allow_python
        self.bound: Bound = replace(bind(checked, inputs, coords), allow_python=allow_python)
        self.checked = self.bound.program
        self._models: dict[tuple[str, str | None], Model] = {}

    @classmethod
    def of(cls, checked: Program, bound: Bound, allow_python: bool = False) -> BoundProgram:
        """Return a program from inputs that are already bound."""
        program = cls.__new__(cls)
        program.checked, program.bound, program._models, program.allow_python = checked, bound, {}, allow_python
        return program

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the program as its texts, inputs and coordinates, from which it is rebuilt."""
        return _made_again, ({s.path: s.text for s in self.checked.sources}, self.bound.inputs, self.bound.coords, self.allow_python)

    def __deepcopy__(self, memo: object) -> BoundProgram:
        return self  # A bound program is immutable.

    def model(self, name: str | None = None, *, plan: str | None = None) -> Model:
        """Return a model by name; without a name, return the program's only model.

        Args:
            name: the model's name.
            plan: how blocks whose cells share factors are summed and drawn: by "enumeration" of
                their joint values, or by "elimination" of their cells. None selects the method with
                the lower estimated cost, see `gmlm explain --plans`.

        Raises:
            GmlmError: for an unknown or missing name, and for faults that only the inputs reveal.
        """
        if plan is not None and not is_one_of(plan, ("enumeration", "elimination")):
            raise fail("E507", f'plan must be "enumeration", "elimination" or None, got {plan!r}')
        names = list(self.checked.models)
        if name is None and len(names) != 1:
            if not names:
                raise fail("E506", "the program declares no model", help="`model m { var x[i in range(3)] : spin  .. }` is one")
            raise fail("E506", f"the program has {len(names)} models: say which", help=f"one of {listed(names)}")
        name = names[0] if name is None else name
        if not is_one_of(name, names):
            raise unknown(f"the program has no model `{name}`", name, names)
        self._verify_allowed(name)
        if (name, plan) not in self._models:
            self._models[name, plan] = self._made(name, plan)
        return self._models[name, plan]

    def _made(self, name: str, plan: str | None) -> Model:
        if self.checked.models[name].conditional is None:
            from .model import JointModel

            return JointModel(self, name, plan)
        from .model import ConditionalModel

        if plan is not None:
            raise fail("E507", f"plan has no meaning for model `{name}`: a network's conditional is a product over cells")
        return ConditionalModel(self, name)

    def _verify_allowed(self, name: str) -> None:
        """Raise E739 if the model names Python code and `allow_python` is false."""
        for what, place in () if self.allow_python else python_code(self.checked, name):
            help = (
                "load it with `allow_python=True` (`gm.load`, `gm.parse`, `gm.load_fit`), or `--allow-python` on the command line, "
                "if you trust this file and the code"
            )
            raise fail("E739", f"model `{name}` runs code: {what}", place, "not allowed", help=help)

    def extended(self, text: str) -> BoundProgram:
        """Return this program with `text` appended and the same inputs; no file is written.

        Raises:
            GmlmError: for faults of the text.
        """
        files = {s.path: s.text for s in self.checked.sources}
        main = next(iter(files))
        checked = checked_texts(files | {main: f"{files[main].rstrip()}\n{text}"})
        return BoundProgram(checked, dict(self.bound.inputs), self.bound.coords, self.allow_python)

    def _labelled(self, coords: Mapping[str, tuple[Label, ...]]) -> BoundProgram:
        """Return this program with labels for some index sets, which must have as many members."""
        return BoundProgram.of(self.checked, replace(self.bound, coords={**self.bound.coords, **coords}), self.allow_python)


def _made_again(texts: dict[str, str], *bound: Any) -> BoundProgram:
    return BoundProgram(checked_texts(texts), *bound)


def load(path: str | Path, *, coords: Coords | None = None, allow_python: bool = False, **inputs: InputLike) -> BoundProgram:
    """Parse, check and bind a `.gmlm` file and the files that it imports.

    Args:
        path: the file.
        coords: labels of the members of an index set, keyed by the name of the set.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class; loading never does.
        inputs: the program's inputs.

    Raises:
        GmlmError: with every fault of the file, or every missing and unknown input.

    Warns:
        GmlmWarning: once, with every warning of the file. The comment `# gmlm: allow CODE` after a
            statement silences one warning.
    """
    return _announced(BoundProgram(check_file(path), inputs, coords, allow_python))


def parse(text: str, *, coords: Coords | None = None, allow_python: bool = False, **inputs: InputLike) -> BoundProgram:
    """Parse, check and bind a text, which must not import other files; see `load`."""
    return _announced(BoundProgram(check_source(Source("<text>", text)), inputs, coords, allow_python))


def _announced(program: BoundProgram) -> BoundProgram:
    """Return the program, and issue its warnings as one Python warning, except allowed ones."""
    told = [w for w in program.warnings if w.code != OLD_FORM]
    if told:
        tell("\n" + "\n\n".join(rendered(told)), GmlmWarning)
    return program
