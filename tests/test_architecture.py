"""The rooms of the package: who may import whom, what loads JAX, and how large a file and a function may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gmlmdsl"
FILES = sorted(p for p in PACKAGE.rglob("*.py"))

# The rooms in order: each imports earlier ones, and itself. Files of the package that are no folder belong to a room too.
ORDER = [
    "diagnostics",
    "files",
    "read",
    "syntax",
    "program",
    "graph",
    "plan",
    "networks",
    "derive",
    "run",
    "theory",
    "compile",
    "model",
    "translation",
    "explain",
    "report",
    "demo",
    "cli",
    "package",
]
ROOMS = {
    "_diagnostics": "diagnostics",
    "_optional": "diagnostics",
    "_archive": "files",
    "_files": "files",
    "_text_lines": "files",
    "_compile": "compile",
    "_conditional_model": "model",
    "_model": "model",
    "_queries": "model",
    "demo": "demo",
    "_demo_report": "demo",
    **dict.fromkeys(
        (
            *("cli", "_commands", "_check", "_console", "_arguments", "_biases", "_examples", "_fit_data", "_fixes", "_sizes"),
            *("_tables", "_show", "_show_info", "_masks", "_model_source", "__main__"),
            *("_translation_commands", "_translation_options", "_translation_show"),
        ),
        "cli",
    ),
    "__init__": "package",
}
# `_compile` makes models when they are asked for, and `_model` takes a program: the later one is imported inside functions.
LATE = {("compile", "model")}
# Private files that another room reads.
SHARED = {
    ("report", "run._arviz"),
    ("report", "run._data"),
    ("report", "run._discrete"),
    ("explain", "program._forms"),
    ("demo", "run._arviz"),
    ("demo", "run._discrete"),
    ("demo", "report._palette"),
    ("cli", "run._arviz"),
    ("cli", "run._data"),
    ("cli", "explain._info"),
}
NEVER_JAX = ("files", "diagnostics", "read", "syntax", "program", "graph", "plan")
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 50
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


def room_named(part: str) -> str:
    """The room of a folder or file directly in the package; `package` for a public name."""
    return ROOMS.get(part, part if part in ORDER else "package")


def room_of(path: Path) -> str:
    """The room of a file of the package."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert first in ROOMS or first in ORDER, f"{first} belongs to no room"
    return room_named(first)


def imports_of(path: Path) -> Iterator[tuple[str, bool, bool]]:
    """Absolute names imported, whether at the top of the file, and whether for type checkers only."""
    tree = ast.parse(path.read_text())
    package = ["gmlmdsl", *path.relative_to(PACKAGE).parts[:-1]]

    def visit(node: ast.AST, top: bool, typing: bool) -> Iterator[tuple[str, bool, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for a in child.names:
                    yield a.name, top, typing
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                whole = ".".join([*base, *((child.module or "").split(".") if child.module else [])])
                for a in child.names:
                    yield f"{whole}.{a.name}", top, typing
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                yield from visit(child, top and not inside, typing or guarded)

    yield from visit(tree, True, False)


def rooms_imported(path: Path) -> Iterator[tuple[str, bool]]:
    """The rooms of the package that a file imports when it runs, and whether at its top."""
    for name, top, typing in imports_of(path):
        parts = name.split(".")
        if parts[0] == "gmlmdsl" and not typing:
            yield room_named(parts[1]) if len(parts) > 1 else "package", top


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_import_only_earlier_rooms(path: Path):
    room = room_of(path)
    for other, top in rooms_imported(path):
        earlier = ORDER.index(other) <= ORDER.index(room)
        assert earlier or (not top and (room, other) in LATE), f"{room} imports {other}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in NEVER_JAX], ids=lambda p: str(p.relative_to(PACKAGE)))
def test_rooms_before_derive_never_name_jax(path: Path):
    """Not even inside a function; and what stands before `graph` does without NumPy at its top."""
    names = {(name.split(".")[0], top) for name, top, typing in imports_of(path) if not typing}
    roots = {root for root, _ in names}
    assert not roots & {"jax", "jaxlib", "equinox", "optax", "numpyro", "jaxtyping"}
    if room_of(path) in ("files", "diagnostics", "syntax", "program"):
        assert not {root for root, top in names if top} & {"numpy", "scipy", "pandas", "xarray", "arviz", "matplotlib"}


def test_rooms_use_one_anothers_public_files():
    """A file of a folder whose name begins with `_` is read within its own room, `_compile` and `_model`, and where `SHARED` lists it."""
    found = set()
    for path in FILES:
        for name, _, typing in imports_of(path):
            parts = name.split(".")
            if (
                parts[0] == "gmlmdsl"
                and len(parts) > 3
                and parts[2].startswith("_")
                and not typing
                and room_named(parts[1]) != room_of(path)
            ):
                found.add((room_of(path), ".".join(parts[1:3])))
    assert found <= SHARED


def loaded_by(statement: str) -> set[str]:
    """The top names of `sys.modules` after a statement in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    return set(found.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import gmlmdsl",
        "import gmlmdsl.syntax",
        "import gmlmdsl.program",
        "from gmlmdsl.program import check_source\nfrom gmlmdsl._diagnostics import Source\ncheck_source(Source('a', 'model m { var a : bit  factor a }'))",
    ],
)
def test_parsing_and_checking_load_neither_jax_nor_numpy(statement: str):
    assert not loaded_by(statement) & {"jax", "jaxlib", "numpy", "scipy", "equinox", "optax", "pandas", "arviz"}


def test_lowering_and_planning_load_no_jax():
    statement = (
        "from gmlmdsl.program import check_source\nfrom gmlmdsl._diagnostics import Source\nfrom gmlmdsl.graph import bind, lower_model\n"
        "from gmlmdsl.plan import plan_elimination\n"
        "plan_elimination(lower_model(bind(check_source(Source('a', 'model m { var a : bit  factor a }')), {}), 'm').graph)"
    )
    assert not loaded_by(statement) & {"jax", "jaxlib", "equinox", "optax", "numpyro"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_are_short(path: Path):
    """At most 400 lines a file, and 50 a function without its docstring; an exception carries its reason."""
    text, name = path.read_text(), str(path.relative_to(PACKAGE))
    assert len(text.splitlines()) <= MOST_FILE_LINES or name in LONG_FILES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0] if ast.get_docstring(node) is not None else None
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1 - (0 if doc is None else (doc.end_lineno or 0) - doc.lineno + 1)
            assert lines <= MOST_FUNCTION_LINES or f"{name}:{node.name}" in LONG_FUNCTIONS, f"{node.name}: {lines} lines"


def test_the_oracle_shares_nothing_with_the_compiler():
    """`tests/oracle` imports `program` and plain NumPy: a wrong sign cannot hide in both."""
    for path in sorted((PACKAGE.parent / "tests" / "oracle").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            found += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for name in found:
                assert name.split(".")[0] in {"gmlmdsl", "numpy", "__future__", *sys.stdlib_module_names}
                assert not name.startswith("gmlmdsl.") or name.split(".")[1] in ("program", "_diagnostics")


def test_the_package_declares_its_public_names():
    import gmlmdsl

    assert set(gmlmdsl.__all__) <= set(dir(gmlmdsl))
    for name in gmlmdsl.__all__:
        assert getattr(gmlmdsl, name) is not None
