"""The rooms of the package: who may import whom, what loads JAX, and how large a room, a file and a function may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from house import tree_of

PACKAGE = Path(__file__).resolve().parent.parent / "gmlmdsl"
FILES = sorted(p for p in PACKAGE.rglob("*.py"))

# The rooms, lowest first. A room imports lower lines only, type checkers' imports and those inside functions among them; rooms of one line
# do not import each other. Files that lie in the package itself are rooms of their own; `__init__` is the package's face.
LINES = (
    ("_types",),
    ("_diagnostics",),
    ("_optional", "_printed_table", "_progress", "files", "textbook"),
    ("read", "syntax"),
    ("program",),
    ("graph",),
    ("masks",),
    ("networks", "plan"),
    ("derive", "exchange", "explain"),
    ("data", "editor"),
    ("evaluate",),
    ("sample",),
    ("fit",),
    ("decode", "guided", "train"),
    ("assess",),
    ("posterior",),
    ("model",),
    ("_compile", "report", "theory"),
    ("_load_fit",),
    ("demo", "translation"),
    ("_notebook", "cli"),
    ("__init__",),
    ("__main__",),
)
LEVEL = {room: k for k, line in enumerate(LINES) for room in line}
NEVER_JAX = (
    "files",
    "textbook",
    "_diagnostics",
    "_types",
    "read",
    "syntax",
    "program",
    "graph",
    "masks",
    "plan",
    "exchange",
    "explain",
    "editor",
)
WITHOUT_NUMPY = ("files", "textbook", "_diagnostics", "_types", "syntax", "program")  # at the top of a file
LARGEST_ROOM = 0.115  # of all lines
MOST_FILE_LINES = 700
MOST_FUNCTION_LINES = 60
LONG_FILES = {
    "model/_fit.py": "one class, four fifths of it the documents of its verbs, each of which is one call",
    "model/_joint_model.py": "one class, two thirds of it the documents of its verbs: a chain of parents would hide where one stands",
}
LONG_FUNCTIONS: dict[str, str] = {}


def room_of(path: Path) -> str:
    """The room of a file of the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


ROOMS = sorted({room_of(p) for p in FILES})


def files_of(room: str) -> list[Path]:
    """The files of a room of the package; there is one at least."""
    found = [p for p in FILES if room_of(p) == room]
    assert found
    return found


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    return ".".join(["gmlmdsl", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {module_of(p): p for p in FILES}


@cache
def imports_of(path: Path) -> tuple[tuple[str, bool, bool], ...]:
    """Absolute names imported, whether at the top of the file, and whether for type checkers only."""
    tree = tree_of(path)
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

    return tuple(visit(tree, True, False))


def files_imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever the import stands and whoever reads it."""
    for name, _, _ in imports_of(path):
        if name.split(".")[0] == "gmlmdsl":
            yield name if name in MODULES else name.rpartition(".")[0]


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Names that can be reached from one another: those that are left when all that is imported by nobody, or imports nobody, is gone."""
    left = {a: set(b) - {a} for a, b in arrows.items()}
    while True:
        ends = {a for a in left if not left[a]} | (set(left) - {b for targets in left.values() for b in targets})
        if not ends:
            return [sorted(left)] if left else []
        left = {a: b - ends for a, b in left.items() if a not in ends}


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_lower_rooms(room: str):
    for path in files_of(room):
        for name in files_imported(path):
            other = "__init__" if name == "gmlmdsl" else room_of(MODULES[name])
            assert other == room or LEVEL[other] < LEVEL[room], f"{path.relative_to(PACKAGE)} imports {other}"


def test_no_file_imports_itself_through_others():
    """What only type checkers import counts, and what a function imports."""
    assert circles({module_of(p): set(files_imported(p)) for p in FILES}) == []


def test_circles_are_seen():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_room_is_above_a_tenth_of_the_house_or_so():
    sizes: dict[str, int] = {}
    for path in FILES:
        sizes[room_of(path)] = sizes.get(room_of(path), 0) + len(path.read_text().splitlines())
    for room, lines in sizes.items():
        assert lines <= LARGEST_ROOM * sum(sizes.values()), f"{room}: {lines} of {sum(sizes.values())} lines"


def test_a_room_says_what_goes_in_and_out():
    """In its `__init__.py`, which alone hands names on; the rooms of the front end and `derive` have lists of names beside it."""
    for folder in sorted({p.parent for p in FILES} - {PACKAGE}):
        text = ast.get_docstring(tree_of(folder / "__init__.py")) or ""
        assert "In: " in text, folder.name
        assert "Out: " in text, folder.name
        assert "Never: " in text, folder.name


@pytest.mark.parametrize("room", NEVER_JAX)
def test_rooms_before_derive_never_name_jax(room: str):
    """Not even inside a function; and what stands before `graph` does without NumPy at its top."""
    for path in files_of(room):
        names = {(name.split(".")[0], top) for name, top, typing in imports_of(path) if not typing}
        roots = {root for root, _ in names}
        assert not roots & {"jax", "jaxlib", "equinox", "optax", "numpyro", "jaxtyping"}, path.name
        if room in WITHOUT_NUMPY:
            assert not {root for root, top in names if top} & {"numpy", "scipy", "pandas", "xarray", "arviz", "matplotlib"}, path.name


def test_rooms_use_one_anothers_public_names():
    """A file of a folder whose name begins with `_` is read within its own room only."""
    for path in FILES:
        for name in files_imported(path):
            parts = name.split(".")
            assert room_of(path) == parts[1] or len(parts) < 3 or not parts[2].startswith("_"), (
                f"{path.relative_to(PACKAGE)} imports {name}"
            )


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


@pytest.mark.parametrize("room", ROOMS)
def test_files_and_functions_are_short(room: str):
    """At most 700 lines a file, and 60 a function without its docstring; an exception carries its reason."""
    for path in files_of(room):
        name = str(path.relative_to(PACKAGE))
        assert len(path.read_text().splitlines()) <= MOST_FILE_LINES or name in LONG_FILES, name
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                doc = node.body[0] if ast.get_docstring(node) is not None else None
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1 - (0 if doc is None else (doc.end_lineno or 0) - doc.lineno + 1)
                assert lines <= MOST_FUNCTION_LINES or f"{name}:{node.name}" in LONG_FUNCTIONS, f"{name}:{node.name}: {lines} lines"


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_of_a_file_is_assigned_twice(room: str):
    """Two limits of one name were once the second of them, silently."""
    for path in files_of(room):
        values = [n for n in tree_of(path).body if isinstance(n, ast.Assign | ast.AnnAssign)]
        names = [t.id for n in values for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if isinstance(t, ast.Name)]
        assert len(names) == len(set(names)), path.relative_to(PACKAGE)


def test_files_of_tests_are_short():
    files = {p: len(p.read_text().splitlines()) for p in sorted((PACKAGE.parent / "tests").rglob("*.py"))}
    assert {str(p.relative_to(PACKAGE.parent)): lines for p, lines in files.items() if lines > MOST_FILE_LINES} == {}


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
