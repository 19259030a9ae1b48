"""Reads Markdown pages: their code blocks, which the tests run, and their links, which must lead somewhere."""

import ast
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
LABS = ROOT / "examples" / "labs"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *LABS.rglob("*.md")])  # of the documentation
RUNS = ("gmlm", "python", "sh")
PLAIN = ("text", "")  # shown, not run
OUTPUTS_OF = (3, 11)  # the version of Python whose outputs are kept
LEAST_ALIKE = 0.8  # of the words of an output
NAME = re.compile(r"#\s*([\w.-]+\.gmlm)\b")


@dataclass(frozen=True)
class Block:
    """A fenced block, with the number of its first line, counted from 1, and of the line after it, counted from 0."""

    language: str
    text: str
    line: int
    end: int

    @property
    def digest(self) -> str:
        """What tells whether a kept output is that of this block."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def prints(self) -> bool:
        """Whether it is run for what it prints."""
        return self.language in ("python", "sh")


@dataclass(frozen=True)
class Output:
    """What a block printed, with the digest of the block."""

    block: str
    text: str


def alike(output: str, kept: str) -> bool:
    """Whether the words of an output are nearly those of the kept one: numbers and times differ by machine."""
    new, old = (re.findall(r"[a-z]{4,}", text.lower()) for text in (output, kept))
    return SequenceMatcher(None, new, old, autojunk=False).ratio() >= LEAST_ALIKE


def unlike_kept(page: Path, outputs: list[Output]) -> list[Output]:
    """The outputs of a page that are unlike the kept ones, in the version of Python in which those were made."""
    if sys.version_info[:2] != OUTPUTS_OF:
        return []
    table = json.loads((ROOT / "docs" / "outputs.json").read_text(encoding="utf-8"))
    kept = {o["block"]: o["text"] for o in table.get(str(page.relative_to(ROOT)), [])}
    return [o for o in outputs if not alike(o.text, kept.get(o.block, ""))]


def blocks_of(page: Path) -> list[Block]:
    return blocks_in(page.read_text(encoding="utf-8"))


def blocks_in(text: str) -> list[Block]:
    found = []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "fence":
            language = token.info.split()[0] if token.info else ""
            found.append(Block(language, token.content, token.map[0] + 1, token.map[1]))
    return found


def run_page(
    page: Path, folder: Path, command: Callable[[list[str]], tuple[int, str]] | None = None, outputs: list[Output] | None = None
) -> int:
    """Run the blocks of a page in order, in `folder`, Python in one namespace; returns how many ran.

    A `gmlm` block is checked, and written as the file that its first comment names. Of a `sh` block the lines that call
    `gmlm` run, by `command`: in this process, or in one of their own; `make` must have the target that is named. What the blocks
    print is added to `outputs`.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    here, count = Path.cwd(), 0
    os.chdir(folder)
    try:
        for block in blocks_of(page):
            assert block.language in RUNS + PLAIN, f"{page}:{block.line}: a block in {block.language!r} does not run"
            where = f"{page}:{block.line}"
            said = io.StringIO()
            if block.language == "gmlm":
                check_program(block.text, folder)
            elif block.language == "python":
                with nullcontext() if outputs is None else redirect_stdout(said):
                    run_python(block, where, names)
            elif block.language == "sh":
                said.write(run_shell(block.text, command or in_this_process))
            if outputs is not None and block.prints:
                outputs.append(Output(block.digest, said.getvalue().rstrip()))
            count += block.language in RUNS
    finally:
        os.chdir(here)
    return count


def run_python(block: Block, where: str, names: dict[str, object]) -> None:
    """Run a block as a notebook does: it shows the value of a last line that is an expression and no call."""
    tree = ast.parse("\n" * block.line + block.text, where)
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call)
    if shown:
        tree.body[-1] = ast.parse(f"print({ast.unparse(last)})", where).body[0]
        ast.increment_lineno(tree.body[-1], last.lineno - 1)
    exec(compile(tree, where, "exec"), names)


def check_program(text: str, folder: Path) -> None:
    from gmlmdsl.program import check_file

    name = NAME.match(text)
    path = folder / (name[1] if name else "block.gmlm")
    path.write_text(text, encoding="utf-8")
    warned = {w.code for w in check_file(path).warnings}
    assert warned <= {"W801"}, f"{path.name}: {warned}"  # `independently`, which the pages explain; others are allowed there


def in_this_process(words: list[str]) -> tuple[int, str]:
    """The status of `gmlm` and what it printed: nothing is loaded anew, and compiled programs are shared."""
    from typer.testing import CliRunner

    from gmlmdsl.cli._translation_commands import app

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = CliRunner().invoke(app, words)
    return result.exit_code, result.output


def in_its_own_process(words: list[str]) -> tuple[int, str]:
    """The same as users run it."""
    code = "import sys; from gmlmdsl.cli import main; sys.exit(main())"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run_shell(text: str, command: Callable[[list[str]], tuple[int, str]]) -> str:
    """Run the lines that call `gmlm`; what they printed."""
    printed = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["gmlm"]:
            status, said = command(words[1:])
            assert status == 0, f"{line}\n{said}"
            printed.append(said)
        elif words[:1] == ["make"]:
            targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
            assert set(words[1:]) <= targets, line
        else:
            assert not words or words[0] in ("pip", "git", "cd", ".ci/run", "python"), f"nothing checks the line: {line}"
    return "".join(printed)


def links_of(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8")), flags=re.M | re.S)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return set(map(anchor_of, titles))


def anchor_of(title: str) -> str:
    """How a link names a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in links_of(page):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            broken.append(link)
    return broken
