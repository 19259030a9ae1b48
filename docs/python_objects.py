"""Writes the reference of public Python names from their source: signatures with types, and docstrings as Markdown.

Nothing of the package is imported but its table of public names, so that JAX is not loaded.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "gmlmdsl"
SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Warns", "Reference", "Example")
LISTS = ("Args", "Attributes", "Raises", "Warns")
SPLIT = re.compile(rf"^({'|'.join(SECTIONS)}):[ \t]*", re.M)
ENTRY = re.compile(r"^(\S[^:\n]*): ", re.M)
Defined = ast.ClassDef | ast.FunctionDef


def objects(where: dict[str, str]) -> str:
    """Return Markdown with a heading for each public name and for each public method of a class.

    Args:
        where: the module of each name, relative to the package: `gmlmdsl._WHERE`.
    """
    parts = []
    names = where | {f"theory.{name}": ".theory" for name in imported(PACKAGE / "theory" / "__init__.py") if not name.startswith("_")}
    for name, module in sorted(names.items(), key=lambda pair: pair[0].lower()):
        found = definition(PACKAGE / module.removeprefix("."), name.rpartition(".")[2])
        if found is not None:
            parts += described(f"gm.{name}", found, "##")
            parts += [p for method in methods(found) for p in described(f"{name}.{method.name}", method, "###")]
    return "\n\n".join([*parts, ""])


def imported(file: Path) -> list[str]:
    """Return the names that a file imports from the package."""
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    return [a.name for node in nodes if isinstance(node, ast.ImportFrom) and node.level for a in node.names]


def definition(module: Path, name: str) -> Defined | None:
    """Return the class or function that a module defines or imports under a name."""
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, Defined) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.level and any((a.asname or a.name) == name for a in node.names):
            folder = file.parents[node.level - 1]
            return definition(folder / (node.module or "").replace(".", "/"), name)
    return None


def methods(found: Defined) -> Iterator[ast.FunctionDef]:
    """Yield the public methods and properties of a class that have a docstring."""
    for node in found.body if isinstance(found, ast.ClassDef) else ():
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and ast.get_docstring(node):
            yield node


def described(name: str, found: Defined, level: str) -> list[str]:
    """Return the heading, the signature and the docstring of an object."""
    text = ast.get_docstring(found) or ""
    parts = [f"{level} {name}"]
    if isinstance(found, ast.FunctionDef) and not any(ast.unparse(d).endswith("property") for d in found.decorator_list):
        parts.append(signature(name.rpartition(".")[2], found))
    first, *rest = SPLIT.split(text)
    parts.append(escaped(first))
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        body = inspect.cleandoc(body)
        parts.append(f"**{title}**")
        parts.append(entries(body) if title in LISTS else escaped(body))
    return [p for p in parts if p.strip()]


def signature(name: str, found: ast.FunctionDef) -> str:
    """Return a definition with its types as a block of code, one argument a line if it is long."""
    taken = found.args
    if taken.args and taken.args[0].arg in ("self", "cls"):
        taken = ast.arguments(**{field: getattr(taken, field) for field in taken._fields} | {"args": taken.args[1:]})
    text = f"def {name}({ast.unparse(taken)})" + (f" -> {ast.unparse(found.returns)}" if found.returns else "")
    if len(text) > 90:
        text = re.sub(r"(?<=[^\[(]), (?=\*?\*?\w+\b[:=,)]|\*,)", ",\n    ", text).replace("(", "(\n    ", 1)
    return f"```python\n{text}\n```"


def entries(body: str) -> str:
    """Return the entries `name: meaning` of a section as a list."""
    starts = [m.start() for m in ENTRY.finditer(body)] or [0]
    found = [body[a:b] for a, b in zip(starts, [*starts[1:], len(body)], strict=True)]
    lines = []
    for entry in found:
        name, colon, meaning = entry.partition(": ")
        words = " ".join((meaning if colon else entry).split())
        lines.append(f"- `{name}`: {escaped(words)}" if colon else f"- {escaped(words)}")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Return text whose signs have no meaning in Markdown, except for code in backticks and indented code."""
    parts = re.split(r"(``?[^`]+``?|^    .*$)", text, flags=re.M)
    return "".join(p if k % 2 else re.sub(r"([*<\[\]|])", r"\\\1", p) for k, p in enumerate(parts))
