"""Every diagnostic: the table of codes, and for each code the programs in `programs/bad` with what is said of them.

`GMLM_UPDATE_GOLDEN=1 pytest tests/program/test_diagnostics.py` writes the expected texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gmlmdsl._diagnostics import Diagnostic, GmlmError, Source, codes
from gmlmdsl.graph import bind
from gmlmdsl.graph._lowered import lower_model
from gmlmdsl.masks import lower_mask
from gmlmdsl.plan import lint_sizes, plan_temper
from gmlmdsl.program import Program, check_file, check_source, ir
from gmlmdsl.program._allow import WITH_SIZES

ROOT = Path(__file__).parents[2]
BAD = ROOT / "tests" / "programs" / "bad"
PROGRAMS = sorted(path.stem for path in BAD.glob("*.gmlm"))
UPDATE = os.environ.get("GMLM_UPDATE_GOLDEN") == "1"

# What cannot stand in the folder: files that are too large, missing or unreadable. Name -> what makes the file.
MADE: dict[str, Callable[[Path], object]] = {
    "E116_long_letters": lambda path: path.write_text(f'domain aa = letters("{"A" * 70_000}")\n'),
    "E116_long_letters_and_an_unknown_name": lambda path: path.write_text(
        f'domain aa = letters("{"A" * 70_000}")\nmodel m {{\n  var x : spim\n}}\n'
    ),
    "E117_nested_brackets": lambda path: path.write_text(f"model m {{\n  var x : spin\n  factor {'(' * 100_000}x{')' * 100_000}\n}}\n"),
    "E117_nested_powers": lambda path: path.write_text(f"model m {{\n  var x : spin\n  factor x{' ^ x' * 300}\n}}\n"),
    "E118_long_comment": lambda path: path.write_text("# " + "a" * (1 << 20)),
    "E118_many_statements": lambda path: path.write_text("input n : int\n" * 100_000),
    "E119_bytes": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff\xfe"),
    "E119_latin": lambda path: path.write_bytes('# größer\ndomain aa = letters("AB")\n'.encode("latin-1")),
    "E120_missing": lambda path: None,
    "E120_folder": lambda path: path.mkdir(),
}

# Codes with a mend that one edit makes, and codes where a second place matters.
FIXED = (
    *("E101", "E104", "E106", "E107", "E108", "E109", "E113", "E114", "E121", "E122"),
    *("E203", "E205", "E206", "E207", "E211", "E212", "E213", "E215"),
    *("E301", "E302", "E303", "E305", "E306", "E307", "E308", "E309", "E311", "E312", "E323", "E324"),
    *("W801", "W805", "W806"),
)
PLACED = (
    *("E102", "E106", "E201", "E202", "E204", "E205", "E207", "E210", "E212", "E215", "E218"),
    *("E303", "E304", "E305", "E306", "E307", "E309", "E310", "E312", "E313", "E314", "E318", "E321"),
    *("W801", "W804", "W805", "W807", "W808", "W809", "W810", "W811", "W812"),
)


def inputs_of(text: str) -> dict[str, object] | None:
    """What a first line `# inputs: {..}` binds; None where there is none."""
    first = text.split("\n", 1)[0]
    return json.loads(first.removeprefix("# inputs:")) if first.startswith("# inputs:") else None


def bind_and_lower(program: Program, inputs: dict[str, object]) -> None:
    """What needs the inputs: shapes, graphs, indices, the blocks and weights of masks, the ladders of samplers."""
    bound = bind(program, inputs)
    for name in program.models:
        lowered = lower_model(bound, name)
        for mask in program.masks.values():
            if mask.model == name:
                lower_mask(lowered, mask)
        for sampler in program.samplers.values():
            if sampler.model == name and isinstance(sampler.body, tuple):
                for kernel in ir.kernels_in(sampler.body):
                    if isinstance(kernel, ir.RandomUpdate):
                        lower_mask(lowered, kernel.mask)
                    if isinstance(kernel, ir.Temper):
                        plan_temper(lowered, kernel)


def diagnostics_of(path: Path, code: str) -> tuple[Diagnostic, ...]:
    """Everything that is said of a file: when it is checked and, for the codes that need inputs, when it is bound."""
    try:
        program = check_file(path)
        if code in WITH_SIZES:
            bound = bind(program, inputs_of(path.read_text()) or {})
            return (
                *program.warnings,
                *bound.notes,
                *(d for name in program.models for d in lint_sizes(lower_model(bound, name), program, name)),
            )
        if code[0] == "W":
            return program.warnings
        if code[1] == "4":
            bind_and_lower(program, inputs_of(path.read_text()) or {})
    except GmlmError as error:
        return error.diagnostics
    return ()


@cache
def of_program(name: str) -> tuple[Diagnostic, ...]:
    """What is said of a bad program under its own name, once for all tests."""
    return diagnostics_of(Path(f"{name}.gmlm"), name.split("_")[0])


@pytest.fixture(autouse=True)
def in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages show the paths that they were given."""
    monkeypatch.chdir(BAD)


def compare(found: str, golden: Path) -> None:
    """Compare with the expected text, or write it."""
    if UPDATE:
        golden.write_text(found, encoding="utf-8")
    assert golden.is_file(), f"{golden.name} is missing: run with GMLM_UPDATE_GOLDEN=1"
    assert found == golden.read_text(encoding="utf-8")


def rendered(diagnostics: tuple[Diagnostic, ...]) -> str:
    """As the command line shows them."""
    return "\n\n".join(d.render() for d in diagnostics) + "\n"


@pytest.mark.check
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_bad_program_gives_the_expected_text(name: str) -> None:
    code = name.split("_")[0]
    found = of_program(name)
    assert code in [d.code for d in found]
    compare(rendered(found), BAD / f"{name}.txt")


@pytest.mark.check
@pytest.mark.parametrize("name", MADE)
def test_a_bad_file_gives_the_expected_text(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(f"{name}.gmlm")
    MADE[name](path)
    code = name.split("_")[0]
    found = diagnostics_of(path, code)
    assert code in [d.code for d in found]
    compare(rendered(found), BAD / f"{name}.txt")


def test_no_expected_text_is_left_over() -> None:
    assert {path.stem for path in BAD.glob("*.txt")} == {*PROGRAMS, *MADE}


def test_every_code_of_a_program_has_at_least_two_bad_programs() -> None:
    counts = Counter(name.split("_")[0] for name in (*PROGRAMS, *MADE))
    wanted = {code for code in codes() if code[:2] in ("E1", "E2", "E3", "E4", "W8")}
    assert {code: counts[code] for code in wanted if counts[code] < 2} == {}
    assert set(counts) <= wanted


def test_most_codes_have_a_program_with_a_second_error_nearby() -> None:
    several = {name.split("_")[0] for name in (*PROGRAMS, *MADE) if len(re.findall(r"^\w+\[", (BAD / f"{name}.txt").read_text(), re.M)) > 1}
    alone = {"E117", "E118", "E119", "E120"}  # nothing else can be said of these files
    wanted = {code for code in codes() if code[:2] in ("E1", "E2", "E3", "W8")}
    assert wanted - several - alone == set()


def test_every_code_in_the_source_is_in_the_table_and_the_other_way_round() -> None:
    used = {code for path in (ROOT / "gmlmdsl").rglob("*.py") for code in re.findall(r'"([EW]\d{3})"', path.read_text())}
    assert used - set(codes()) == set()
    assert {code for code in codes() if code[:2] in ("E1", "E2", "E3", "E4", "W8")} - used == set()


def test_every_code_is_explained() -> None:
    for code, entry in codes().items():
        assert set(entry) - {"deprecated", "removed"} == {"slug", "title", "explanation", "wrong", "right"}, code
        assert ("deprecated" in entry) == ("removed" in entry), code
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry["slug"]), code
        assert entry["explanation"].endswith(".") and not entry["title"].endswith("."), code
        assert entry["wrong"] != entry["right"], code


def said_of(text: str) -> list[str]:
    """The codes of what is said of a text."""
    try:
        return [d.code for d in check_source(Source("example.gmlm", text)).warnings]
    except GmlmError as error:
        return list(error.codes)


@pytest.mark.parametrize("code", [c for c in codes() if c[:2] in ("E2", "E3", "W8") and c not in ("E315", *WITH_SIZES)])
def test_the_examples_of_a_code_are_wrong_and_right(code: str) -> None:
    assert set(said_of(codes()[code]["wrong"])) == {code}
    assert said_of(codes()[code]["right"]) == []


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for mended programs, each under its own name."""
    return tmp_path_factory.mktemp("mended")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fix_mends_its_fault_and_makes_no_other(name: str, beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = name.split("_")[0]
    text, found = (BAD / f"{name}.gmlm").read_text(), of_program(name)
    monkeypatch.chdir(beside)
    before = Counter((d.code, d.message) for d in found)
    for d in found:
        if d.fix is None:
            continue
        Path(f"{name}.gmlm").write_text(d.fix.applied(text))
        after = Counter((x.code, x.message) for x in diagnostics_of(Path(f"{name}.gmlm"), code))
        assert after <= before, d.render()
        assert after[d.code, d.message] < before[d.code, d.message], d.render()


@pytest.mark.parametrize("code", FIXED)
def test_a_code_whose_mend_is_mechanical_has_a_fix(code: str) -> None:
    names = [name for name in PROGRAMS if name.startswith(code)]
    assert any(d.code == code and d.fix is not None for name in names for d in of_program(name))


@pytest.mark.parametrize("code", PLACED)
def test_a_code_with_a_second_place_shows_it(code: str) -> None:
    names = [name for name in PROGRAMS if name.startswith(code)]
    found = [d for name in names for d in of_program(name) if d.code == code]
    assert any(d.related for d in found)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if not n.startswith("E1")])
def test_messages_are_terse(name: str) -> None:
    for d in of_program(name):
        assert d.message[0] in '`"(' or d.message[0].islower() or d.message[0].isdigit()
        assert not d.message.endswith(".") and len(d.message) < 140
        assert not d.label.endswith(".") and len(d.label) < 60


def test_imports_leave_the_folder_in_no_way(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.gmlm").write_text('domain aa = letters("AB")\n')
    (folder / "link.gmlm").symlink_to(tmp_path / "secret.gmlm")
    (folder / "round.gmlm").symlink_to(folder / "round.gmlm")
    for path in (
        "../secret.gmlm",
        str(tmp_path / "secret.gmlm"),
        "link.gmlm",
        "round.gmlm",
        "a/../../secret.gmlm",
        "~",
        "",
        ".",
        "a" * 5000,
    ):
        main = folder / "main.gmlm"
        main.write_text(f'import "{path}"\n')
        with pytest.raises(GmlmError) as caught:
            check_file(main)
        assert caught.value.codes == ("E315",), path


def test_an_import_with_a_nul_is_an_error(tmp_path: Path) -> None:
    main = tmp_path / "main.gmlm"
    main.write_text('import "a\0b.gmlm"\n')
    with pytest.raises(GmlmError):
        check_file(main)


def test_a_loop_of_two_imports_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.gmlm").write_text('import "b.gmlm"\n')
    (tmp_path / "b.gmlm").write_text('import "a.gmlm"\n')
    with pytest.raises(GmlmError) as caught:
        check_file(tmp_path / "a.gmlm")
    assert caught.value.codes == ("E315",)


def test_an_error_in_an_imported_file_is_shown_there(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "b.gmlm").write_text("index site = rang(3)\n")
    (tmp_path / "a.gmlm").write_text('import "parts/b.gmlm"\nmodel m { var x[i in site] : spin }\n')
    with pytest.raises(GmlmError) as caught:
        check_file(tmp_path / "a.gmlm")
    (found,) = caught.value.diagnostics
    assert found.code == "E301" and found.span is not None and found.span.source.path.endswith("parts/b.gmlm")


def test_a_text_imports_nothing() -> None:
    assert said_of('import "ising.gmlm"\n') == ["E315"]


def test_a_number_of_400_digits_is_one_error() -> None:
    assert said_of(f"input n : int = {'7' * 400}\n") == ["E115"]


def test_a_program_of_many_lets_of_lets_is_refused_in_no_time() -> None:
    lets = "".join(f"  let a{k + 1} = a{k} * a{k}\n" for k in range(60))
    assert said_of(f"model m {{\n  var x : spin\n  let a0 = x\n{lets}  require a60 > 0\n}}\n") == ["E412"]


def test_a_suggested_label_is_written_as_a_program_writes_it() -> None:
    text = r'domain d = labels("say \"one\"", "a\\b") model m { var x : d require x != "say \"on\"" }'
    with pytest.raises(GmlmError) as caught:
        check_source(Source("test.gmlm", text))
    (found,) = caught.value.diagnostics
    assert found.fix is not None and found.fix.text == r'"say \"one\""'


def test_a_large_alphabet_and_a_large_block_are_checked_in_no_time() -> None:
    letters = "".join(chr(0x4E00 + k) for k in range(20_000))
    cells = ", ".join(f"x[{k}]" for k in range(20_000))
    text = f'domain d = letters("{letters}") model m {{ var x[i in range(20000)] : d }} mask b = blocks({{{cells}}})'
    assert said_of(text) == []
