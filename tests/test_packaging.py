"""What is built is what runs: the wheel, also by way of the sdist, holds its data, and works away from the checkout."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions

import pytest
from house import tree_of
from markdown_blocks import ROOT
from packaging.requirements import Requirement
from versions import SETTINGS

from gmlmdsl.cli._starter import examples

pytest.importorskip("hatchling")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = [c.rsplit(" ", 1)[1] for c in PROJECT["project"]["classifiers"] if "Python :: 3." in c]
COPIED = ("docs", "examples", "gmlmdsl", "grammar", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Makefile")
PEERS = ("ctranslate2", "unbabel-comet")  # of no extra: what is compared with, and what is large
DATA = (
    "codes.toml",
    "grammar/gmlm.lark",
    "grammar/gmlm.tables.json",
    "py.typed",
    "report/report.css",
    "syntax/hints.toml",
)


def build(tree, target, folder):
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl" if target == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the checkout: the build hook writes the parser's tables."""
    folder = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    (folder / "grammar" / "gmlm.tables.json").unlink()
    return folder


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory):
    return build(tree, "wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel, unpacked where no checkout is near."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_alone(installed, code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False)


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_holds_every_module_and_its_data(wheel):
    modules = {f"gmlmdsl/{p.relative_to(ROOT / 'gmlmdsl').as_posix()}" for p in (ROOT / "gmlmdsl").rglob("*.py")}
    assert modules | {f"gmlmdsl/{name}" for name in (*DATA, "syntax/hints.toml")} <= names_in(wheel)


def test_a_wheel_holds_nothing_else(wheel):
    others = {n for n in names_in(wheel) if not n.startswith(("gmlmdsl/", "gmlmdsl-"))}
    assert others == set()
    assert not any(n.endswith("build_tables.py") for n in names_in(wheel))


def test_a_wheel_holds_the_examples_that_a_checkout_lists(wheel, installed, tmp_path):
    held = {n.removeprefix("gmlmdsl/examples/").removesuffix(".gmlm") for n in names_in(wheel) if n.startswith("gmlmdsl/examples/")}
    assert held == set(examples())
    code = "import sys; from gmlmdsl.cli import main; main()"
    copied = run_alone(installed, code, "examples", "adaptive", "--out", str(tmp_path))
    assert copied.returncode == 0, copied.stdout + copied.stderr
    for name in ("adaptive.gmlm", "ising.gmlm"):
        assert (tmp_path / name).read_bytes() == (ROOT / "examples" / name).read_bytes()


@pytest.mark.slow
def test_an_sdist_gives_the_same_wheel(tree, wheel, tmp_path):
    archive = build(tree, "sdist", tmp_path)
    shutil.unpack_archive(archive, tmp_path, filter="data")
    again = build(next(p for p in tmp_path.iterdir() if p.is_dir()), "wheel", tmp_path)
    assert names_in(again) == names_in(wheel)


def test_the_tables_of_a_wheel_are_those_of_its_grammar(installed):
    code = """
import json
from gmlmdsl.syntax import _tables as t
folder = t._grammar_folder()
tables = json.loads((folder / t.TABLES).read_text())
assert tables["grammar"] == t._hash((folder / t.GRAMMAR).read_text(encoding="utf-8"))
print(folder)
"""
    done = run_alone(installed, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(installed / "gmlmdsl" / "grammar")


def test_an_installed_gmlm_checks_a_program_and_finds_the_demo(installed, tmp_path):
    code = "import sys; from gmlmdsl.cli import main; main()"
    checked = run_alone(installed, code, "check", str(ROOT / "examples" / "adaptive.gmlm"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    found = run_alone(installed, "from gmlmdsl.demo import program_path; print(program_path())")
    assert found.stdout.strip() == str(installed / "gmlmdsl" / "examples" / "digits.gmlm"), found.stderr


def test_the_console_script_is_the_command_line(wheel):
    with zipfile.ZipFile(wheel) as archive:
        entry = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert "gmlm = gmlmdsl.cli:main" in archive.read(entry).decode()


# Files that only a program with these modules loads: the language server behind `need("pygls", ..)`, and Pygments its lexers.
LOADED_BY = {"editor/_server.py": {"pygls", "lsprotocol"}, "editor/pygments_lexer.py": {"pygments"}}
LOADED_BY |= {"sample/_stored_draws.py": {"h5netcdf", "h5py", "zarr"}, "cli/_serve.py": {"starlette", "uvicorn"}}


def test_every_import_is_declared():
    declared = {re.split(r"[<>=\[ ]", d)[0].lower() for d in PROJECT["project"]["dependencies"]}
    imported = set()
    for node in run_nodes():
        if isinstance(node, ast.Import):
            imported |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(node.module.split(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"gmlmdsl"}
    for file, modules in LOADED_BY.items():
        text = (ROOT / "gmlmdsl" / file).read_text(encoding="utf-8")
        assert all(re.search(rf"^\s*(from|import) {m}\b", text, re.M) for m in modules)
        others = [p for p in (ROOT / "gmlmdsl").rglob("*.py") if not p.as_posix().endswith(file)]
        assert not [p for p in others if re.search(rf"^\s*(from|import) ({'|'.join(modules)})\b", p.read_text(encoding="utf-8"), re.M)]
        foreign -= modules
    owners = packages_distributions()
    assert {m for m in foreign if not {d.lower() for d in owners.get(m, [m])} & declared} == set()


def test_every_optional_module_is_installed_by_what_its_error_says():
    extras = PROJECT["project"]["optional-dependencies"]
    owners = packages_distributions()
    seen = set()
    for node in nodes():
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "need" and isinstance(node.args[0], ast.Constant)):
            continue
        top, install = node.args[0].value.split(".")[0], node.args[2].value.strip('"')
        seen.add(top)
        if not install.startswith("gmlmdsl["):
            assert install in PEERS, install
            continue
        extra = {re.split(r"[<>=\[ ]", d)[0].lower() for d in extras[install[len("gmlmdsl[") : -1]]}
        assert {d.lower() for d in owners.get(top, [top])} & extra, (top, install)  # one that is not installed has its own name
    assert {"orbax", "sacrebleu", "sentencepiece", "sklearn"} <= seen


def nodes():
    """Every node of the syntax of the package."""
    for path in (ROOT / "gmlmdsl").rglob("*.py"):
        yield from ast.walk(tree_of(path))


def run_nodes():
    """Every node but those that only type checkers read."""
    for path in (ROOT / "gmlmdsl").rglob("*.py"):
        todo = [tree_of(path)]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
                continue
            yield node
            todo += ast.iter_child_nodes(node)


def test_the_version_stands_in_one_place():
    version = PROJECT["project"]["version"]
    places = [p for p in ROOT.glob("gmlmdsl/**/*.py") if f'"{version}"' in p.read_text(encoding="utf-8")]
    assert places == []
    assert json.loads((ROOT / "grammar" / "vscode" / "package.json").read_text(encoding="utf-8"))["version"] == version
    assert f"\n## {version} - 20" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_is_the_same_in_both_places():
    text, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/CITATION.cff", "README.md"))
    found = [*re.findall(r'title: "(.*)"', text), *re.findall(r"family-names: (\w+)", text)]
    assert len(found) == 10 and [part for part in found if part not in readme] == []


def test_a_requirement_has_one_version_in_the_lock_for_each_python():
    """`make lock` writes `tests/requirements.lock`."""
    lines = (ROOT / "tests" / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if not line.startswith(" ")]
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(r for name in ("test", "demo", "netcdf", "docs", "site") for r in extras[name])]
    assert len(pins) > len(wanted) and all("--hash=sha256:" in line for line in lines if line.startswith(" "))
    for requirement in map(Requirement, wanted):
        for python in PYTHONS:
            where = {"python_full_version": f"{python}.9", "python_version": python}
            found = [p for p in pins if p.name == requirement.name.lower() and (p.marker is None or p.marker.evaluate(where))]
            assert len(found) == 1 and str(found[0].specifier).removeprefix("==") in requirement.specifier, (requirement, python)


def test_every_python_both_ends_of_the_versions_and_every_installation_are_tried():
    assert [s.python for s in SETTINGS.values()] == PYTHONS
    assert {s.resolution for s in SETTINGS.values()} == {"lowest-direct", "highest"}
    assert {s.installed for s in SETTINGS.values()} == {"sdist", "wheel", "editable"}


def test_a_checkout_has_only_its_files_at_the_top():
    allowed = {"gmlmdsl", "grammar", "examples", "tests", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Makefile"}
    made = {"build", "dist", "demo-report", "htmlcov", "gmlmdsl.egg-info"}  # what .gitignore leaves out
    assert {p.name for p in ROOT.iterdir() if not p.name.startswith(".")} - made <= allowed
