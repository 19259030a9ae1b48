"""The page on the two papers: what it names exists, each row shows something or says why not, and its counts are right."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markdown_blocks import ROOT
from typer.main import get_command

import gmlmdsl as gm
from gmlmdsl.cli._translation_commands import app
from gmlmdsl.explain import meanings_of

PAGE = ROOT / "docs" / "explanation" / "papers.md"
STATUS = ("works", "partly", "absent")
HEADS = ["statement", "place", "here", "shown by", "what is missing, or a remark"]
CODES = tomllib.loads((ROOT / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
LEAST_ROWS = 219  # of the audit of both documents


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def tables(text: str) -> dict[str, list[list[str]]]:
    """The rows of the table below each heading."""
    parts = re.split(r"^## (.*)$", text, flags=re.M)
    found = {}
    for title, part in zip(parts[1::2], parts[2::2], strict=True):
        heads, _, *rows = [cells(line.replace("| |", "|  |")) for line in part.splitlines() if line.startswith("|")]
        assert heads == HEADS, title
        found[title] = rows
    return found


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def attribute(name: str) -> bool:
    """Whether `gm.theory.f` or the like exists."""
    found = gm
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def resolves(name: str) -> bool:
    """Whether a function, command, test, file or word of the language exists."""
    words = name.split()
    if name.startswith("gm."):
        return attribute(name)
    if words[:2] == ["gmlm", "explain"]:
        return words[2] in CODES or bool(meanings_of(words[2]))
    if words[0] == "gmlm":
        command: Any = get_command(app)
        return words[1] in command.commands
    if words[:2] == ["python", "examples/labs"]:
        return f'"{words[2]}":' in (ROOT / "examples" / "labs" / "__main__.py").read_text(encoding="utf-8")
    if "::" in name:
        path, test = name.split("::")
        return (ROOT / path).is_file() and test in functions_of(ROOT / path)
    if "/" in name:
        return (ROOT / name.removeprefix("python ")).is_file()
    return bool(meanings_of(name))


def faults(text: str) -> list[str]:
    """What is wrong with the page; links are looked at where those of all pages are."""
    found, counts = [], Counter()
    for title, rows in tables(text).items():
        for row in rows:
            if len(row) != len(HEADS) or row[2] not in STATUS:
                found.append(f"{title}: {row}: five cells, the third one of {STATUS}")
                continue
            statement, place, here, shown, remark = row
            counts[title, here] += 1
            names = re.findall(r"`([^`]+)`", shown)
            found += [f"{statement}: there is no `{name}`" for name in names if not resolves(name)]
            if here != "absent" and not names and "](" not in shown:
                found.append(f"{statement}: nothing shows it")
            if here != "works" and not remark:
                found.append(f"{statement}: what is missing, or why it is absent, is not said")
            if not re.fullmatch(r"[PTS]\b.*", place):
                found.append(f"{statement}: {place!r} is no place in P, T or S")
    expected = [[t, *(str(counts[t, s]) for s in STATUS), str(len(rows))] for t, rows in tables(text).items()]
    total = [sum(counts[t, s] for t in tables(text)) for s in STATUS]
    expected.append(["all", *map(str, total), str(sum(total))])
    printed = [cells(line) for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")][2:]
    if printed != expected:
        found.append(f"the counts are {expected}")
    return found


def test_all_that_the_page_names_exists_and_its_counts_are_right() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert faults(text) == []
    assert sum(map(len, tables(text).values())) >= LEAST_ROWS


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("`gm.theory.fisher_information`", "`gm.theory.fisher`", "no `gm.theory.fisher`"),
        ("`gmlm evaluate`", "`gmlm assess`", "no `gmlm assess`"),
        ("`python examples/labs testcase_steps`", "`python examples/labs steps`", "no `python examples/labs steps`"),
        ("::test_lemma_3_as_printed", "::test_lemma_3_as_read", "no `tests/derive"),
        ("`examples/ising.gmlm`", "`examples/izing.gmlm`", "no `examples/izing"),
        ("`subsets`", "`subset_of`", "no `subset_of`"),
        ("`gmlm explain E514`", "`gmlm explain E999`", "no `gmlm explain E999`"),
        ("| works | `sees` |", "| works |  |", "nothing shows it"),
        ("future work of the paper", "", "is not said"),
        ("| P 2.4 | works |", "| P 2.4 | absent |", "the counts are"),
        ("| P 2.4 | works |", "| P 2.4 | perhaps |", "one of"),
        ("| P 2.4 | works |", "| 2.4 | works |", "is no place"),
    ],
)
def test_a_page_that_is_wrong_is_found(old: str, new: str, said: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert old in text
    assert any(said in fault for fault in faults(text.replace(old, new, 1)))
