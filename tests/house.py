"""Counts how large and how involved the package is; `test_house.py` holds the counts against the kept ones, which may only fall.

`python tests/house.py` prints the counts beside the kept ones; with `--keep` it keeps those that are lower, or new.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gmlmdsl"
KEPT = Path(__file__).with_suffix(".json")
WIDTH = 100  # columns
INVOLVED = 10  # branches of a function, counted as radon counts them
PARAMETERS = 8  # of a function, `self` and `cls` aside
SUMS = {  # sums of classes: the file or room that defines each, and its alias or common base
    "lowered masks": ("masks", "AbstractMask"),
    "mask bodies": ("program/_mask_bodies.py", "MaskBody"),
    "kernels": ("program/_kernels.py", "Kernel"),
    "losses": ("derive", "AbstractLoss"),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHING = {ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Assert, ast.BoolOp, ast.comprehension, ast.Match}


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all tests of a process."""
    return ast.parse(path.read_text(encoding="utf-8"))


def counts() -> dict[str, int]:
    """Every count of the table, by name."""
    paths = sorted(PACKAGE.rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    trees = {path: tree_of(path) for path in paths}
    nodes = defaultdict[type, list[Any]](list)
    for tree in trees.values():
        for node in ast.walk(tree):
            nodes[type(node)].append(node)
    functions = nodes[ast.FunctionDef] + nodes[ast.AsyncFunctionDef]
    lines = [line for text in texts.values() for line in text.splitlines()]
    found = {
        "lines of code": sum(code_lines(texts[path], trees[path]) for path in texts),
        "files": len(texts),
        "classes": len(nodes[ast.ClassDef]),
        f"lines over {WIDTH} columns": sum(len(line) > WIDTH for line in lines),
        "Any": sum(node.id == "Any" for node in nodes[ast.Name]),
        "isinstance": sum(getattr(node.func, "id", "") == "isinstance" for node in nodes[ast.Call]),
        "conditional expressions": len(nodes[ast.IfExp]),
        f"functions of more than {INVOLVED} branches": sum(branches(node) > INVOLVED for node in functions),
        f"functions of more than {PARAMETERS} parameters": sum(parameters(node) > PARAMETERS for node in functions),
        "numeric constants outside limits.py": sum(
            is_numeric_constant(node) for path, tree in trees.items() if path.name != "limits.py" for node in tree.body
        ),
    }
    for name, (place, what) in SUMS.items():
        members = set().union(*(members_of(tree, what) for path, tree in trees.items() if path.is_relative_to(PACKAGE / place)))
        found[f"functions that dispatch on {name}"] = sum(dispatches(node, members) for node in functions)
    return found


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that are not blank, and no part of a comment or a docstring."""
    owners = [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]
    first = [n.body[0] for n in owners if n.body]
    docs = [s for s in first if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and isinstance(s.value.value, str)]
    inside = {k for s in docs for k in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and k not in inside for k, line in enumerate(text.splitlines(), 1))


def members_of(tree: ast.Module, what: str) -> set[str]:
    """The classes of `what = A | B | C`, or those that are derived from `what`."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == what:
            found |= {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") in {what, *found} for base in node.bases):
            found.add(node.name)
    return found


def is_numeric_constant(node: ast.AST) -> bool:
    """Whether a statement of a module gives a number, or a tuple of numbers, a name in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return isinstance(target, ast.Name) and target.id.lstrip("_").isupper() and is_numeric(node.value)


def is_numeric(node: ast.expr) -> bool:
    """Whether an expression is written with numbers alone, or is a tuple of such expressions."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    parts = {ast.UnaryOp: ("operand",), ast.BinOp: ("left", "right")}.get(type(node), ())
    found = node.elts if isinstance(node, ast.Tuple) else [getattr(node, part) for part in parts]
    return bool(found) and all(map(is_numeric, found))


@cache
def own(function: Function) -> tuple[ast.AST, ...]:
    """The nodes of a function without those of functions in it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return tuple(found)


def dispatches(function: Function, members: set[str]) -> bool:
    """Whether a function asks of which class of a closed sum something is."""
    return bool(classes_asked_for(function) & members)


@cache
def classes_asked_for(function: Function) -> frozenset[str]:
    """The names in the patterns of classes and in the second arguments of `isinstance` of a function."""
    found = set[str]()
    for node in own(function):
        if isinstance(node, ast.MatchClass):
            found.add(_last(node.cls))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            found |= {_last(part) for part in ast.walk(node.args[1])}
    return frozenset(found)


def branches(function: Function) -> int:
    """Cyclomatic complexity by radon's rules; functions inside count for themselves, not for what holds them."""
    count = 1
    for node in own(function):
        if type(node) not in BRANCHING:
            continue
        if isinstance(node, ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While):
            count += 1 + (isinstance(node, ast.For | ast.AsyncFor | ast.While) and bool(node.orelse))
        elif isinstance(node, ast.Try):
            count += len(node.handlers) + bool(node.orelse)
        elif isinstance(node, ast.Assert):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, ast.Match):
            count += sum(not _is_default(case) for case in node.cases)
    return count


def parameters(function: Function) -> int:
    """The named parameters of a function, `self` and `cls` aside."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def kept() -> dict[str, int]:
    """The counts that may not be exceeded."""
    return json.loads(KEPT.read_text(encoding="utf-8"))


def _is_default(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None


def _last(node: ast.AST) -> str:
    """The last word of a dotted name; of anything else, nothing."""
    return re.split(r"\.", ast.unparse(node))[-1] if isinstance(node, ast.Name | ast.Attribute) else ""


def main(words: list[str]) -> None:
    """Print the table, and keep what is lower where `--keep` asks for it."""
    found, before = counts(), kept() if KEPT.exists() else {}
    for name, count in found.items():
        print(f"{name:45} {count:7} {before.get(name, ''):>7}")
    if "--keep" in words:
        lower = {name: min(count, before.get(name, count)) for name, count in found.items()}
        KEPT.write_text(json.dumps(lower, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
