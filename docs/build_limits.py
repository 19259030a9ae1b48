"""The page of limits: the constants of each package's `limits.py`, with their comments; `build_reference.py` writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby, takewhile
from operator import itemgetter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "gmlmdsl"
INTRODUCTION = """# Limits and tuning

`docs/build_reference.py` writes this page from the file `limits.py` of each package that has one. A package with few numbers keeps them in
its other modules. A call that would exceed a limit of time or memory raises an error before work begins, with the cost and the limit. Other
numbers tune an algorithm: they change its speed or its accuracy. A few are the defaults of options.
"""


def limits_page() -> str:
    """Return the text of the page: a heading for each package and section, and a row for each constant."""
    parts = [INTRODUCTION]
    for path in sorted(PACKAGE.glob("*/limits.py")):
        text = path.read_text(encoding="utf-8")
        parts.append(f"## {path.parent.name}\n\n{ast.get_docstring(ast.parse(text))}\n")
        for section, found in groupby(constants(text), itemgetter(0)):
            rows = [f"| `{name}` | {value} | {comment} |\n" for _, name, value, comment in found]
            parts.append(f"### {section}\n\n" * bool(section) + "| name | value | meaning |\n|---|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def constants(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the section, the name, the value and the comment of each constant, and of each field with a default.

    The docstring of a class is the section of its fields. A line of comment after an empty line
    begins another section. If it has several sentences, they and the lines below are the heading
    and a note. All other comments belong to the constant below or beside them.
    """
    lines, section = text.splitlines(), ""
    for node in ast.parse(text).body:
        inside = isinstance(node, ast.ClassDef)
        section = (ast.get_docstring(node) or "").rstrip(".") if inside else section
        for stated in node.body if inside else [node]:
            if not isinstance(stated, ast.Assign | ast.AnnAssign) or stated.value is None or isinstance(stated.value, ast.Call):
                continue
            above = [*takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: stated.lineno - 1]))][::-1]
            comments = [*above, lines[(stated.end_lineno or 0) - 1][stated.end_col_offset :]]
            words = [line.strip().removeprefix("#").strip() for line in comments]
            if above and not lines[stated.lineno - len(above) - 2]:
                title, _, note = words.pop(0).partition(". ")
                if note:
                    note, words = " ".join([note, *words[:-1]]), words[-1:]
                section = title.rstrip(".") + f"\n\n{note}" * bool(note)
            target = stated.targets[0] if isinstance(stated, ast.Assign) else stated.target
            yield section, ast.unparse(target).strip("()"), readable(stated.value, text), " ".join(words).strip().replace("|", "\\|")


def readable(value: ast.expr, text: str) -> str:
    """Return a value as readers write it: 16,384 = 2^14 for `1 << 14`."""
    written = re.sub(r"(?:\b1 << |\b2(?:\.0)? ?\*\* ?)(\d+)", r"2^\1", ast.get_source_segment(text, value) or "")
    if power := re.fullmatch(r"2\^(\d+)", written):
        return f"{2 ** int(power[1]):,} = {written}" if int(power[1]) < 40 else written
    whole = isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value == round(value.value)
    return f"{value.value:,.0f}" if whole and "e" not in written else written
