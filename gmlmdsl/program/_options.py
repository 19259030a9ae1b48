"""The options of a form call, all of them: what stands in the file, and defaults for the rest."""

from __future__ import annotations

from ._forms import BOOLEAN, INTEGER, NUMBER
from ._program import FormCall


def form_options(call: FormCall) -> dict[str, object]:
    """Every option by name: an expression or a word as the file has it, else the default: a number, a word or a truth value.

    A default that is another option's value, such as `width`, or a multiple of it, such as `4 * width`, is left out where that
    option is an expression: the later stage that evaluates it fills it in. None stands for "none".
    """
    found: dict[str, object] = {}
    for option in call.form.options:
        if option.name in call.arguments:
            found[option.name] = call.arguments[option.name]
        elif option.default:
            found[option.name] = _default(option.default, option.takes)
    return found | {name: value for name, value in call.arguments.items() if name not in found}


def _default(text: str, takes: str) -> object:
    if text == "none":
        return None
    if takes == BOOLEAN:
        return text == "true"
    if takes in (INTEGER, NUMBER):
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            return Multiple(text)
    return text


class Multiple(str):
    """A default that follows from another option: `width`, or `4 * width`."""

    def of(self, options: dict[str, float]) -> float:
        """Its value, once the other option's is known."""
        *times, name = self.split(" * ")
        return options[name] * (int(times[0]) if times else 1)
