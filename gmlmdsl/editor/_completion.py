"""What may stand at a place of a text: keywords, forms, options, types, parts of graphs, names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..explain import keyword_table, parts_of_graphs
from ..program import NOISES, forms
from ..syntax import FILE_WORDS, MODEL_WORDS, tree, words_after
from ._document import Document
from ._names import Declaration
from ._outline import STRING

# The keywords that begin a statement, by the braces around it; "" is the file.
BEGIN = {
    "": (*FILE_WORDS, "param"),
    "model": (*MODEL_WORDS, "mixture", "mask"),
    "mask": ("choose", "each"),
    "sampler": ("start", "update", "cycle", "repeat", "mixture", "temper"),
}
BEGUN = frozenset[str]().union(*BEGIN.values())
NESTED = {"cycle": "sampler", "repeat": "sampler", "temper": "sampler", "mixture": "sampler"}
CELLS = ("var", "latent", "given")
ABOUT_MODELS = ("mask", "sampler", "verifier", "value")
# The kinds of names that no expression takes; no argument of a mask takes the last two either.
NO_TERMS = ("model", "network", "domain", *ABOUT_MODELS, "param", "let")
FINITE = ("range", "letters", "labels", "vocabulary", "spin", "bit")
# A string, or what opens a string or a comment that the line does not end.
QUOTED = re.compile(rf'{STRING}|([#"])[^\n]*')
MOST_LOOKED_AT = 2000  # characters before the place, for the call around it
OPENS = re.compile(r"\b(model|mask|sampler|mixture|cycle|repeat|temper|choose|each|update)\b")
ROOMS = ("graph", "network", "sampler", "verifier", "value")
# An unfinished path: its folder and the begun name.
IMPORTED = re.compile(r'\s*import\s+"((?:[^"]*/)?)([^"/]*)\Z')
BEGINS = r"(?:^|[{;])\s*"  # before a statement
# The beginning of a statement about a model, up to the end of the text: the name of its model, if it has one.
UNFINISHED = re.compile(r"^(?:mask|sampler|verifier|value)\s+\w+(?:\s+for\s+(\w+))?(?:.|\n(?!\w))*\Z", re.M)
NAMED = {*FILE_WORDS, *MODEL_WORDS} - {"gauge", "factor", "require", "conditional", "use"}
STATEMENT = re.compile(rf"^(?=(?:{'|'.join(BEGIN[''])})\b)", re.M)  # at the margin, a statement of the file begins


@dataclass(frozen=True)
class Completion:
    """A word that may stand here.

    Attributes:
        word: the word.
        kind: its kind.
        detail: a line about it.
        replaces: how many characters before the place it replaces; None if those of a word.
    """

    word: str
    kind: str
    detail: str = ""
    replaces: int | None = None


def completions(document: Document, offset: int) -> list[Completion]:
    """Return what may stand at a place, whatever begins with the word that is being written."""
    before = QUOTED.sub(lambda m: m.group(1) or '""', document.text[:offset])
    line = before.rpartition("\n")[2]
    if line.count('"') % 2:
        importer, written = os.path.realpath(document.path), document.text[:offset].rpartition("\n")[2]
        found = (c for path in IMPORTED.finditer(written) for c in _files(importer, *path.groups()))
        return sorted(found, key=lambda c: c.word)
    if "#" in line:
        return []
    begun = re.split(r"\W", line)[-1]
    return [c for c in _allowed(document, offset, before, line) if c.word.startswith(begun)]


def _files(importer: str, folder: str, written: str) -> Iterator[Completion]:
    """Yield the programs and folders of a folder, counted from a program, that begin as written."""
    for path in Path(os.path.dirname(importer), folder).glob("[!.]*"):
        is_other = path.suffix == ".gmlm" and os.path.realpath(path) != importer
        if path.name.startswith(written) and (is_other or path.is_dir()):
            yield Completion(path.name + "/" * path.is_dir(), "file", replaces=len(written))


def _allowed(document: Document, offset: int, before: str, line: str) -> Iterator[Completion]:
    names = document.names.visible_at(offset, document.parsed)
    if (depth := _depth(before)) and not any(s.span.start <= offset <= s.span.end for s in document.parsed.statements):
        # A model without its end could not be parsed.
        closed = Document(document.path, f"{document.text[:offset]}\n{'}' * depth}")
        names = {**closed.names.visible_at(offset, closed.parsed), **names}
    if unfinished := UNFINISHED.search(before):
        names = {**document.names.of_model(unfinished.group(1) or ""), **names}
    if part := re.search(r"\b(\w+)\.\w*$", line):
        yield from _of_part(document, names.get(part.group(1)))
    elif _begins(line) and not _is_continued(before):
        for word in BEGIN.get(_braces(before), ()):
            yield Completion(word, "keyword", keyword_table()[word].does)
    else:
        yield from _inside(before, line, names)


def _inside(before: str, line: str, names: Mapping[str, Declaration]) -> Iterator[Completion]:
    """Yield what may stand inside a statement, as the grammar tells."""
    for place, rooms, kinds in PLACES:
        if re.search(place, line):
            yield from (d for d in _declared(names) if d.kind in kinds)
            yield from (c for room in rooms for c in _forms(room))
            return
    if re.search(r"\bnoise\s*=\s*\{([^}]*,)?\s*\w*$", line):
        yield from (Completion(word, "word") for word in NOISES)
        return
    called = call_around(before)
    yield from _options(called, line)
    words, rules = words_after(STATEMENT.split(re.sub(r"\w*$", "", before))[-1]) or ((), ("atom",))
    about = any(f.name == called and f.room in ABOUT_MODELS for f in forms.FORMS)
    if "atom" in rules:  # an expression
        yield from (d for d in _declared(names) if d.kind not in NO_TERMS[: None if about else -2])
        yield from _forms("function")
    elif "attribute" in rules:  # a cell
        yield from (d for d in _declared(names) if d.kind in (*CELLS, "use"))
    elif "mask_expression" in rules:
        yield from (d for d in _declared(names) if d.kind == "mask")
        yield from _forms("mask")
    for word in sorted(w for w in words if "mask_expression" in rules or w not in BEGUN):
        yield Completion(word, "keyword", keyword_table()[word].does)


# Places in a line where some forms and names alone may stand: the pattern of the line up to there, the
# groups of the forms or their names, and the kinds of the names.
PLACES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    (rf"{BEGINS}({'|'.join(sorted(NAMED))})\s+\w*$", (), ()),
    (rf"{BEGINS}(update|conditional)\s+\w*$", (), ("var", "latent", "use")),
    (r"\bsees\s+(\w+\s*,\s*)*\w*$", (), CELLS),
    (r"\bstart\s+from\s+\w*$", (), ("sampler",)),
    (r"\bconditional\b[^~;]*~\s*\w*$", (), ("network",)),
    (r"^(?!.*\bwhere\b).*~\s*\w*$", ("distribution",), ()),
    (rf"{BEGINS}(var|latent)\b[^;{{}}]*:\s*\w*$", FINITE, ("domain",)),
    (rf"{BEGINS}param\b[^;{{}}]*:\s*\w*$", ("real", "positive", "simplex", "ordered"), ()),
    (rf"{BEGINS}(given|input)\b[^;{{}}]*:\s*\w*$", ("type",), ("domain",)),
    *((rf"{BEGINS}{r}\b[^={{]*=\s*\w*$", (r,), ()) for r in ROOMS),
    (rf"{BEGINS}domain\b[^={{]*=\s*\w*$", FINITE, ()),
    (rf"{BEGINS}index\b[^={{]*=\s*\w*$", ("range",), ("index", "graph", "domain")),
    (rf"{BEGINS}((mask|sampler|verifier|value)\s+\w+\s+for|use)\s+\w*$", (), ("model",)),
    (rf"{BEGINS}gauge\s+\w*$", ("gauge",), ()),
    (r"\bin\s+\w*$", ("range",), ("index", "graph", "domain")),
)


def _declared(names: Mapping[str, Declaration]) -> Iterator[Completion]:
    return (Completion(d.name, d.kind, d.text) for d in names.values())


def _forms(room: str) -> Iterator[Completion]:
    return (Completion(f.name, "form", f"{f.shown}: {f.doc}") for f in forms.FORMS if room in (f.room, f.name))


def _of_part(document: Document, declared: Declaration | None) -> Iterator[Completion]:
    """Yield what may stand after `name.`: the parts of a graph, or the names of a copied model."""
    if declared is not None and declared.kind == "graph":
        yield from (Completion(part, "part", does) for part, does in parts_of_graphs().items())
    elif declared is not None and isinstance(declared.statement, tree.Use):
        copied = document.names.models.get(declared.statement.model.name, {})
        yield from (Completion(d.name, d.kind, d.text) for d in copied.values())


def _options(called: str, line: str) -> Iterator[Completion]:
    """Yield the options of the form whose parentheses are open, or the words of the option."""
    written = re.search(r"\b(\w+)\s*=\s*\w*$", line)
    for name, does, words in options_of(called):
        if written is not None and written.group(1) == name:
            yield from (Completion(word, "word", does) for word in words)
        elif written is None:
            yield Completion(name, "option", does)


def options_of(called: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the name, the meaning and the words of each named option of the forms of a name."""
    for o in (o for f in forms.FORMS if f.name == called for o in f.options if o.named):
        yield o.name, o.doc + f"; by default {o.default}" * bool(o.default), o.words


def call_around(before: str) -> str:
    """Return the name before the innermost open parenthesis, "" if none is open."""
    depth = 0
    for k in range(len(before) - 1, max(-1, len(before) - MOST_LOOKED_AT), -1):
        depth += {")": 1, "(": -1}.get(before[k], 0)
        if depth < 0 or before[k] in "{}":
            name = re.search(r"(\w+)\s*$", before[:k])
            return name.group(1) if name and depth < 0 else ""
    return ""


def _begins(line: str) -> bool:
    """Return whether a statement begins at the end of a line; the braces behind some words enclose a set of cells."""
    found = re.search(r"(?:^|;|\b(\w+)\)?\s*\{)\s*\w*$", line)
    return found is not None and found.group(1) not in ("update", "choose", "each")


def _is_continued(before: str) -> bool:
    """Return whether the line goes on with the one before: a parenthesis or list is open."""
    return any(before.count(first) > before.count(last) for first, last in ("()", "[]"))


def _depth(before: str) -> int:
    """Return how many braces are open."""
    return max(0, before.count("{") - before.count("}"))


def _braces(before: str) -> str:
    """Return the declaration whose braces are open: model, mask or sampler, "" for none."""
    stack = list[str]()
    for m in re.finditer(r"[{}]", before):
        if m.group() == "}":
            del stack[-1:]
        else:
            words = OPENS.findall(before[: m.start()].rpartition("\n")[2])
            stack.append([*words, *stack[-1:], ""][0])
    kind = ["", *stack][-1]
    return NESTED.get(kind, kind) if "sampler" in stack or kind != "mixture" else "mask"
