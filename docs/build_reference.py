"""Writes the generated parts of the reference: forms from the table of forms, errors from the table of codes.

python docs/build_reference.py
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from gmlmdsl.program import forms  # noqa: E402 - found through the line above, also where nothing is installed

LANGUAGE = DOCS / "reference" / "language.md"
ERRORS = DOCS / "reference" / "errors.md"
BEGIN = "<!-- forms: written by docs/build_reference.py -->\n"
END = "<!-- end of forms -->"
ROOMS = {
    "graph": "Graphs",
    "distribution": "Distributions",
    "mask": "Masks",
    "sampler": "Samplers",
    "kernel": "Kernels",
    "network": "Networks",
    "type": "Types",
    "gauge": "Gauges",
    "function": "Functions",
}
ABSENT = {"sampler", "network"}  # rooms that this version declares and does not compile
ABSENT_FORMS = {"least_confident"}
GROUPS = {
    "1": "Text and syntax",
    "2": "Names, types and indices",
    "3": "Forms and statements",
    "4": "Inputs, once they are bound",
    "5": "Data and arguments of calls",
    "6": "Costs",
    "7": "Fits",
    "8": "Warnings",
}  # by the first digit of a code


def language_page(text: str) -> str:
    """The page with its table of forms made anew."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return before + BEGIN + "\n" + "\n".join(_room(room, title) for room, title in ROOMS.items()) + END + after


def _room(room: str, title: str) -> str:
    lines = [f"### {title}", ""]
    if room in ABSENT:
        lines += ["Checked, and not compiled by this version.", ""]
    lines += ["| form | means | options |", "|---|---|---|"]
    for form in forms.FORMS:
        if form.room == room:
            note = " Checked, and not compiled by this version." if form.name in ABSENT_FORMS else ""
            options = "; ".join(f"`{o.name}`: {o.doc}" for o in form.options)
            shown = form.signature if form.options else form.name
            lines.append(f"| `{shown}` | {_cell(form.doc)}{note} | {_cell(options)} |")
    return "\n".join([*lines, ""]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def errors_page(codes: dict[str, dict[str, str]]) -> str:
    """The page of all codes."""
    lines = [
        "# Errors and warnings",
        "",
        "Written by `docs/build_reference.py` from `gmlmdsl/codes.toml`. `gmlm explain E203` prints one of these.",
        "",
    ]
    shown = ""
    for code, entry in codes.items():
        group = GROUPS[code[1]]
        if group != shown:
            lines += [f"## {group}", ""]
            shown = group
        lines += [f"### {code} {entry['slug']}", "", f"{_sentence(entry['title'])} {entry['explanation'].strip()}", ""]
        for title, key in (("Wrong:", "wrong"), ("Right:", "right")):
            if entry.get(key, "").strip():
                lines += [title, "", "```text", entry[key].strip("\n"), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _sentence(title: str) -> str:
    return title[0].upper() + title[1:] + "."


def pages() -> dict[Path, str]:
    """Every generated page with the text that it should have."""
    codes = tomllib.loads((DOCS.parent / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
    return {LANGUAGE: language_page(LANGUAGE.read_text(encoding="utf-8")), ERRORS: errors_page(codes)}


def main() -> None:
    """Write what is not fresh."""
    for path, text in pages().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
