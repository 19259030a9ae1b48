"""Names that a call gives: found among those that there are, or the only one."""

from __future__ import annotations

from collections.abc import Sequence

from ._diagnostics import fail, listed, unknown


def known(name: str, names: Sequence[str], what: str) -> str:
    """The name, if it is one of the names.

    Raises:
        GmlmError: E506 with the nearest.
    """
    if name in names:
        return name
    kind, _, owner = what.partition(" of ")
    raise unknown(f"{owner or 'the model'} has no {kind} `{name}`", name, names)


def only(name: str | None, names: Sequence[str], what: str, model: str) -> str:
    """The name that was given, or the only one there is.

    Raises:
        GmlmError: E506 for an unknown name, and where none was given and there are several or none.
    """
    if name is not None:
        return known(name, names, f"{what} of model `{model}`")
    if len(names) != 1:
        raise fail("E506", f"model `{model}` has {len(names)} {what}s: say which", help=f"`{what}=` one of {listed(names)}")
    return names[0]
