"""Writes the generated parts of the reference: forms, errors, limits, commands, verbs of `gm.theory` and of networks, options of training.

python docs/build_reference.py
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]

from build_limits import limits_page  # noqa: E402 - found by the line above
from pygments.token import Error  # noqa: E402

from gmlmdsl.editor.pygments_lexer import GmlmLexer  # noqa: E402 - found by the line above
from gmlmdsl.explain import keyword_table, sections_of_rooms  # noqa: E402 - found by the line above
from gmlmdsl.program import forms  # noqa: E402

LANGUAGE = DOCS / "reference" / "language.md"
ERRORS = DOCS / "reference" / "errors.md"
LIMITS = DOCS / "reference" / "limits.md"
PYTHON = DOCS / "reference" / "python.md"
COMMANDS = DOCS / "reference" / "command-line.md"
THEORY = DOCS.parent / "gmlmdsl" / "theory"
BEGIN_THEORY = "<!-- theory: written by docs/build_reference.py -->\n"
END_THEORY = "<!-- end of theory -->"
PACKAGE = DOCS.parent / "gmlmdsl"
BEGIN_NETWORKS = "<!-- networks: written by docs/build_reference.py -->\n"
END_NETWORKS = "<!-- end of networks -->"
NETWORK_FUNCTIONS = {
    "train_probe": "train/_probe.py",
    "prefix_features": "train/_probe.py",
    "prefix_values": "guided/_draws.py",
    "attention_dependency": "decode/_stutter.py",
    "stutter_rate": "decode/_stutter.py",
    "drop_repeats": "decode/_stutter.py",
}
UPGRADE = DOCS / "how-to" / "upgrade.md"
BEGIN_OLD = "<!-- deprecations: written by docs/build_reference.py -->\n"
END_OLD = "<!-- end of deprecations -->"
TESTED = DOCS / "explanation" / "how-it-is-tested.md"
BEGIN_TARGETS = "<!-- targets: written by docs/build_reference.py -->\n"
END_TARGETS = "<!-- end of targets -->"
BEGIN = "<!-- forms: written by docs/build_reference.py -->\n"
END = "<!-- end of forms -->"
BEGIN_KEYWORDS = "<!-- keywords: written by docs/build_reference.py -->\n"
END_KEYWORDS = "<!-- end of keywords -->"
MANY = 6  # options of a form that has a table of its own for them
KINDS = {
    "boolean": "`true` or `false`",
    "schedule": "`counts([..])`, the name of a mask or of an input",
    "sampler": "the name of a sampler",
    "integer": "a whole number",
    "number": "a number",
    "cell value": "a value of the string",
}
GROUPS = {
    "1": "Text and syntax",
    "2": "Names, types and indices",
    "3": "Forms and statements",
    "4": "Inputs, once they are bound",
    "5": "Data and arguments of calls",
    "6": "Costs",
    "7": "Fits",
    "8": "Warnings",
    "9": "Warnings of calls from Python",
}  # by the first digit of a code


def language_page(text: str) -> str:
    """The page with its tables of keywords and of forms made anew."""
    text = _between(text, BEGIN_KEYWORDS, END_KEYWORDS, _keyword_rows())
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    rooms = "\n".join(_room(room, title) for room, title in sections_of_rooms().items())
    return before + BEGIN + "\n" + rooms + END + after


def _keyword_rows() -> list[str]:
    """A row for each keyword, with the words that stand beside it."""
    rows = ["| keyword | does | written |", "|---|---|---|"]
    beside: dict[str, list[str]] = {}
    for word, meaning in keyword_table().items():
        beside.setdefault(meaning.title, []).append(word)
    shown = {meaning.title: meaning for meaning in keyword_table().values()}
    for title, meaning in shown.items():
        words = ", ".join(f"`{word}`" for word in beside[title])
        written = "; ".join(f"`{form}`" for form in meaning.forms)
        rows.append(f"| {words} | {_cell(meaning.does)} | {_cell(written)} |")
    return rows


def _room(room: str, title: str) -> str:
    lines = [f"### {title}", ""]
    lines += ["| form | means | options |", "|---|---|---|"]
    found = [form for form in forms.FORMS if form.room == room]
    for form in found:
        shown = form.signature if form.options else form.name
        lines.append(f"| `{shown}` | {_cell(form.doc)} | {_cell(_options(form))} |")
    for form in found:
        if len(form.options) > MANY and form.of is None:
            lines += ["", f"Options of `{form.name}`:", "", "| option | takes | default | means |", "|---|---|---|---|"]
            lines += [f"| `{o.name}` | {_cell(_takes(o))} | {_default(o)} | {_cell(o.doc)} |" for o in form.options]
    return "\n".join([*lines, ""]) + "\n"


def _options(form: forms.Form) -> str:
    if form.of is not None:
        return f"those of `{form.of.name}`, with other defaults"
    return "in a table below" if len(form.options) > MANY else "; ".join(f"`{o.name}`: {o.doc}" for o in form.options)


def _takes(option: forms.Option) -> str:
    """`hide` or `uniform`; a whole number at least 1."""
    kind = KINDS.get(option.takes, "")
    if option.bounds is not None:
        kind += f", {option.bounds.words}"
    return ", ".join([kind] * bool(kind) + [f"`{w}`" for w in option.words])


def _default(option: forms.Option) -> str:
    return f"`{option.default}`" if option.default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def errors_page(codes: dict[str, dict[str, str]]) -> str:
    """The page of all codes."""
    lines = [
        "# Errors and warnings",
        "",
        "Written by `docs/build_reference.py` from `gmlmdsl/codes.toml`. `gmlm explain E203` prints one of these.",
        "[Limits and tuning](limits.md) lists the limits of time and memory that some of these report.",
        "",
    ]
    last = ""
    for code, entry in codes.items():
        group = GROUPS[code[1]]
        if group != last:
            lines += [f"## {group}", ""]
            last = group
        lines += [f"### {code} {entry['slug']}", "", f"{_sentence(entry['title'])} {entry['explanation'].strip()}", ""]
        for title, key in (("Wrong:", "wrong"), ("Right:", "right")):
            if shown := entry.get(key, "").strip("\n"):
                lines += [title, "", f"```{_coloured(shown, entry['right'])}", shown, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _coloured(text: str, right: str) -> str:
    """What opens a block of the page of errors: a directive of the site, so that the tests of the pages do not run the block.

    `right` is the correction, whose language is that of both blocks.
    """
    if right.split()[0] in keyword_table() or " ~ " in right.split("\n")[0]:
        known = all(kind is not Error for kind, _ in GmlmLexer().get_tokens(text))
        return "{code-block} gmlm" if known else "text"
    return "{code-block} python" if re.match(r"def |[\w.]+\(", right) else "text"


def upgrade_page(text: str, codes: dict[str, dict[str, str]]) -> str:
    """The page with the codes of deprecated forms, each with the version that deprecated it and the first that may refuse it."""
    rows = ["| code | reports | since | may be an error from |", "|---|---|---|---|"]
    for code, entry in codes.items():
        if "deprecated" in entry:
            place = f"../reference/errors.md#{code.lower()}-{entry['slug']}"
            rows.append(f"| [{code}]({place}) | {entry['title']} | {entry['deprecated']} | {entry['removed']} |")
    return _between(text, BEGIN_OLD, END_OLD, rows)


def tested_page(text: str) -> str:
    """The page with the targets of `tests/targets.toml`."""
    rows = ["| | property | target | state | last found | when | command |", "|---|---|---|---|---|---|---|"]
    targets = tomllib.loads((DOCS.parent / "tests" / "targets.toml").read_text(encoding="utf-8"))["target"]
    for number, t in enumerate(targets, 1):
        when = "[last night](../nightly.md)" if t["when"] == "night" else t["when"]
        commands = "; ".join(f"`{command}`" for command in t["command"].split("; "))
        rows.append(f"| {number} | {t['property']} | {t['target']} | {t['state']} | {t['found']} | {when} | {commands} |")
    return _between(text, BEGIN_TARGETS, END_TARGETS, rows)


def _sentence(title: str) -> str:
    return title[0].upper() + title[1:] + "."


def commands_page() -> str:
    """The page of all commands, as `gmlm COMMAND --help` has them."""
    import typer

    from gmlmdsl.cli._translation_commands import app  # those of `_commands.py` too

    lines = ["# The command line", ""]
    lines += ["Written by `docs/build_reference.py` from the commands. `gmlm COMMAND --help` prints one of these.", ""]
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        taken = [p for p in command.params if p.name != "help"]
        arguments = [p for p in taken if p.param_type_name == "argument"]
        words = [name, *(_words(p) for p in arguments)]
        lines += [f"## gmlm {name}", "", f"`gmlm {' '.join(words)}`", "", " ".join(command.help.split()), ""]
        if taken:
            lines += ["| takes | default | means |", "|---|---|---|"]
            lines += [_option_row(p) for p in taken]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _option_row(taken: Any) -> str:
    means = " ".join((taken.help or "").split()).rstrip(".")
    return f"| `{_cell(_spelled(taken))}` | {_given(taken)} | {_cell(means)} |"


def _words(argument: Any) -> str:
    """`FILE`, `FILE..` where there may be more, `[NAME]` where it may be left out."""
    words = argument.metavar + (".." if argument.nargs == -1 and not argument.metavar.endswith("..") else "")
    return words if argument.required else f"[{words}]"


def _spelled(taken: Any) -> str:
    """`--out, -o DIR`."""
    if taken.param_type_name == "argument":
        return taken.metavar
    names = ", ".join([*taken.opts, *taken.secondary_opts])
    return names if taken.is_flag else f"{names} {taken.metavar}"


def _given(taken: Any) -> str:
    """The default of an option, where it has one that says something."""
    if taken.param_type_name == "argument" or taken.default in (None, "") or taken.default is False:
        return ""
    return f"`{taken.opts[0] if taken.default is True else taken.default}`"


def python_page(text: str) -> str:
    """The page with its tables of `gm.theory` and of networks made anew."""
    calls = ["| call | gives |", "|---|---|"]
    options = ["", "| option | default | means |", "|---|---|---|"]
    verbs = [*calls, *_network_rows(), "", "Options of `model.sample`:", *options, *_sample_rows()]
    verbs += ["", "Options of `gm.Training`:", *options, *_training_rows()]
    text = _between(text, BEGIN_NETWORKS, END_NETWORKS, verbs)
    return _between(text, BEGIN_THEORY, END_THEORY, [*calls, *_theory_rows()])


def _between(text: str, begin: str, end: str, lines: list[str]) -> str:
    before, rest = text.split(begin)
    return before + begin + "\n".join(["", *lines, ""]) + "\n" + end + rest.split(end)[1]


def _network_rows() -> list[str]:
    """A row for each verb of a conditional model, and for each function that looks at what a network does."""
    rows = []
    for node in _class(PACKAGE / "model" / "_conditional_model.py", "ConditionalModel").body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            node.args.args = node.args.args[1:]  # self
            rows.append(f"| `model.{node.name}({_arguments(node.args)})` | {_cell(_first_sentence(node))} |")
    for name, file in NETWORK_FUNCTIONS.items():
        defined = ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body
        function = next(d for d in defined if isinstance(d, ast.FunctionDef) and d.name == name)
        rows.append(f"| `gm.{name}({_arguments(function.args)})` | {_cell(_first_sentence(function))} |")
    return rows


def _training_rows() -> list[str]:
    """A row for each option of `gm.Training`."""
    found = _class(PACKAGE / "fit" / "_training_options.py", "Training")
    defaults = {d.target.id: d.value for d in found.body if isinstance(d, ast.AnnAssign) and isinstance(d.target, ast.Name)}
    return _option_rows(ast.get_docstring(found) or "", "Attributes:", defaults)


def _sample_rows() -> list[str]:
    """A row for each argument of `sample` of a conditional model."""
    body = _class(PACKAGE / "model" / "_conditional_model.py", "ConditionalModel").body
    found = next(d for d in body if isinstance(d, ast.FunctionDef) and d.name == "sample")
    defaults: dict[str, ast.expr | None] = {a.arg: None for a in found.args.args if a.arg != "self"}
    defaults |= zip([a.arg for a in found.args.kwonlyargs], found.args.kw_defaults, strict=True)
    return _option_rows(ast.get_docstring(found) or "", "Args:", defaults)


def _option_rows(doc: str, section: str, defaults: dict[str, ast.expr | None]) -> list[str]:
    """Name, default and meaning of options that a section of a docstring explains."""
    means: dict[str, str] = {}
    for line in doc.split(section)[1].split("\n\n")[0].split("\n"):
        name, colon, words = line.strip().partition(": ")
        if colon and name in defaults:
            means[name] = words
        elif line.strip():
            means[[*means][-1]] += " " + line.strip()
    rows = []
    for name, value in defaults.items():
        shown = "" if value is None else f"`{ast.unparse(value)}`".replace("'", '"')
        meaning = means[name] if means[name].endswith("..") else means[name].rstrip(".")
        rows.append(f"| `{name}` | {shown} | {_cell(meaning)} |")
    return rows


def _class(path: Path, name: str) -> ast.ClassDef:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return next(d for d in body if isinstance(d, ast.ClassDef) and d.name == name)


def _theory_rows() -> list[str]:
    """A row for each public function, from its source: nothing heavy is imported."""
    rows = []
    for node in ast.parse((THEORY / "__init__.py").read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        defined = ast.parse((THEORY / f"{node.module}.py").read_text(encoding="utf-8")).body
        for name in (a.name for a in node.names):
            function = next((d for d in defined if isinstance(d, ast.FunctionDef) and d.name == name), None)
            if function is not None:
                rows.append(f"| `{name}({_arguments(function.args)})` | {_cell(_first_sentence(function))} |")
    return rows


def _arguments(found: ast.arguments) -> str:
    """The arguments with their defaults, without their types."""
    for a in (*found.args, *found.kwonlyargs):
        a.annotation = None
    return _cell(ast.unparse(found).replace("'", '"'))


def _first_sentence(function: ast.FunctionDef) -> str:
    paragraph = (ast.get_docstring(function) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(".")


def pages() -> dict[Path, str]:
    """Every generated page with the text that it should have."""
    codes = tomllib.loads((DOCS.parent / "gmlmdsl" / "codes.toml").read_text(encoding="utf-8"))
    return {
        LANGUAGE: language_page(LANGUAGE.read_text(encoding="utf-8")),
        ERRORS: errors_page(codes),
        LIMITS: limits_page(),
        PYTHON: python_page(PYTHON.read_text(encoding="utf-8")),
        COMMANDS: commands_page(),
        TESTED: tested_page(TESTED.read_text(encoding="utf-8")),
        UPGRADE: upgrade_page(UPGRADE.read_text(encoding="utf-8"), codes),
    }


def main() -> None:
    """Write what is not fresh."""
    for path, text in pages().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
