"""The meaning of a word of the language, or of a diagnostic code, with examples."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .._diagnostics import codes, did_you_mean, fail, listed
from ..program import forms
from ._document import WIDTH, wrapped


@dataclass(frozen=True)
class Meaning:
    """One meaning of a word.

    Attributes:
        title: the word and its kind.
        does: the effect of the word, in sentences.
        forms: the ways to write it.
        options: the meaning of each argument, by its name.
        example: a program that passes the checker.
        see: the section of the reference with the details.
    """

    title: str
    does: str
    forms: tuple[str, ...]
    options: dict[str, str]
    example: str
    see: str


@functools.cache
def keyword_table() -> dict[str, Meaning]:
    """Return the meaning of every keyword of the grammar.

    The keys are the keyword and the words that occur only with it.
    """
    found: dict[str, Meaning] = {}
    for word, entry in _data()["keyword"].items():
        also = entry.get("also", ())
        beside = f", with {listed(also)}" if also else ""
        title, example = f"{word}: a keyword{beside}", entry["example"].strip("\n")
        written = tuple(entry["form"])
        meaning = Meaning(title, entry["does"], written, {}, example, entry["see"])
        found |= dict.fromkeys((word, *also), meaning)
    return found


def meanings_of(word: str) -> list[Meaning]:
    """Return all meanings of a word: the keyword, then each form of that name.

    The list is empty for an unknown word.
    """
    keyword = keyword_table().get(word)
    of_forms = [_of_form(form) for form in forms.FORMS if form.name == word]
    return of_forms if keyword is None else [keyword, *of_forms]


def words_of_the_language() -> list[str]:
    """Return every word that has an explanation."""
    return list(dict.fromkeys([*keyword_table(), *(form.name for form in forms.FORMS)]))


def parts_of_graphs() -> dict[str, str]:
    """Return what may follow the name of a graph and a dot, with its meaning."""
    return _data()["part"]


def sections_of_rooms() -> dict[str, str]:
    """Return the sections of the reference that list the forms, by the kind of the forms."""
    return _data()["section"]


def is_word_or_code(text: str) -> bool:
    """Return whether `gmlm explain` takes a text as a word or a code rather than as a file.

    A word of the language is taken as a word even if a file has that name. Such a file is named
    with its suffix.
    """
    if meanings_of(text):
        return True
    return re.fullmatch(r"[A-Za-z]\w*(-\w+)*", text) is not None and not Path(text).exists()


def explain_word(word: str, width: int) -> str:
    """Return the meaning of a word of the language or of a diagnostic code.

    The lines have `width` columns.

    Raises:
        GmlmError: E507 for an unknown word or code, with the nearest.
    """
    meanings = meanings_of(word)
    if meanings:
        return "\n".join("\n".join(_lines(meaning, width)) + "\n" for meaning in meanings)
    if re.fullmatch(r"[A-Za-z]\d+|[a-z]+(-[a-z]+)+", word):
        return explain_code(word, width)
    slugs = [entry["slug"] for entry in codes().values()]
    if word in slugs:
        return explain_code(word, width)
    import difflib

    near = difflib.get_close_matches(word.lower(), [*words_of_the_language(), *slugs], 3)
    help = f"did you mean {listed(near)}?" if near else "a program's file has its suffix, m.gmlm"
    raise fail("E507", f"`{word}` is neither a word of the language nor a code", help=help)


def _lines(meaning: Meaning, width: int) -> Iterator[str]:
    yield meaning.title
    yield from wrapped(meaning.does, width, "  ")
    yield "\n  Form:"
    for form in meaning.forms:
        yield from wrapped(form, width, "    ")
    for name, words in meaning.options.items():
        yield from wrapped(f"`{name}`: {words}", width, "    - ")
    yield "\n  Example:"
    yield textwrap.indent(meaning.example, "    ")
    yield ""
    yield from wrapped(f"Reference: The language, section {meaning.see}", width, "  ")


def _of_form(form: forms.Form) -> Meaning:
    presets = form.of.options if form.of is not None else ()
    own = [o for o in form.options if o not in presets]
    defaults = {o.name: f" (default `{o.default}`)" for o in own if o.default}
    options = {o.name: o.doc + defaults.get(o.name, "") for o in own}
    return Meaning(
        f"{form.name}: a {form.room}",
        form.doc,
        (form.signature if form.options else form.name,),
        options,
        _example(form),
        f"Forms, {sections_of_rooms()[form.room]}",
    )


def _example(form: forms.Form) -> str:
    """Return the form's example: a program, or a line that is inserted in its frame."""
    written = _data()["form"][form.room][form.name].strip("\n")
    if "\n" in written:
        return written
    room = "guided" if form in forms.GUIDED else form.room
    return _data()["frame"][room].strip("\n").replace("EXAMPLE", written)


@functools.cache
def _data() -> dict[str, dict]:
    import tomllib

    return tomllib.loads(Path(__file__).with_name("keywords.toml").read_text(encoding="utf-8"))


def explain_code(name: str, width: int = WIDTH) -> str:
    """Return the explanation of a code (`E203`) or of a slug (`unknown-name`).

    The lines have `width` columns.

    Raises:
        GmlmError: E507 for an unknown code or slug, with the nearest one.
    """
    table = codes()
    by_slug = {entry["slug"]: code for code, entry in table.items()}
    code = name.upper() if name.upper() in table else by_slug.get(name.lower(), "")
    if not code:
        near = did_you_mean(name.upper(), table) or did_you_mean(name.lower(), by_slug)
        help = (
            f"did you mean `{near}`, {table[by_slug.get(near, near)]['title']}?"
            if near
            else "codes look like E203; messages show them in brackets"
        )
        raise fail("E507", f"there is no code `{name}`", help=help)
    entry = table[code]
    kind = "warning" if code.startswith("W") else "error"
    parts = [f"{kind}[{code} {entry['slug']}]: {entry['title']}", "\n".join(wrapped(entry["explanation"], width, ""))]
    for title, key in (("Wrong:", "wrong"), ("Right:", "right")):
        if entry.get(key):
            parts.append(title + "\n" + textwrap.indent(entry[key].strip("\n"), "    "))
    return "\n\n".join(parts) + "\n"
