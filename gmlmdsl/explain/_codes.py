"""The meaning of a diagnostic code, with a wrong and a right program."""

from __future__ import annotations

import textwrap

from .._diagnostics import codes, did_you_mean, fail
from ._document import WIDTH
from ._lines import wrapped


def explain_code(name: str, width: int = WIDTH) -> str:
    """Return the explanation of a code (`E203`) or of a slug (`unknown-name`).

    The lines have `width` columns.

    Raises:
        GmlmError: E507 for an unknown code or slug, with the nearest one.
    """
    table = codes()
    by_slug = {entry["slug"]: code for code, entry in table.items()}
    code = name.upper() if name.upper() in table else by_slug.get(name.lower(), "")
    if not code:
        near = did_you_mean(name.upper(), table) or did_you_mean(name.lower(), by_slug)
        help = (
            f"did you mean `{near}`, {table[by_slug.get(near, near)]['title']}?"
            if near
            else "codes look like E203; messages show them in brackets"
        )
        raise fail("E507", f"there is no code `{name}`", help=help)
    entry = table[code]
    kind = "warning" if code.startswith("W") else "error"
    parts = [f"{kind}[{code} {entry['slug']}]: {entry['title']}", "\n".join(wrapped(entry["explanation"], width, ""))]
    for title, key in (("Wrong:", "wrong"), ("Right:", "right")):
        if entry.get(key):
            parts.append(title + "\n" + textwrap.indent(entry[key].strip("\n"), "    "))
    return "\n\n".join(parts) + "\n"
