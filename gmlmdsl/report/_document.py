"""The HTML component of reports: a page is built from top to bottom and written as one file."""

from __future__ import annotations

import base64
import html
import math
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import as_path, write_whole
from . import _palette
from ._picture_arguments import made_by, verified_names, verified_text, wrong
from .limits import DIGITS, LONG_TEXT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NO_NETWORK = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Report:
    """A self-contained HTML page without network access or scripts.

    The page has light and dark colours, and suits screens, phones and paper. Every method returns
    the report, so that calls can be chained. All text is escaped; a part `in backticks` is set as
    code.

    Args:
        title: the title of the page.
        subtitle: one or two sentences under the title.
        footer: the last line, such as program, version and date.
        language: the language of the text (BCP 47).
    """

    def __init__(self, title: str, subtitle: str = "", *, footer: str = "", language: str = "en"):
        for name, value in (("title", title), ("subtitle", subtitle), ("footer", footer), ("language", language)):
            verified_text(name, value)
        self._title, self._subtitle, self._footer, self._language = title, subtitle, footer, language
        self._parts: list[str] = []
        self._contents: list[tuple[str, str]] = []
        self._ids: set[str] = {"main"}
        self._figures = 0

    def section(self, title: str) -> Report:
        """Start a section, which the table of contents lists."""
        name = self._new_id(title)
        self._contents.append((name, title))
        self._parts.append(f'<h2 id="{name}">{_inline(title)}</h2>')
        return self

    def subsection(self, title: str) -> Report:
        """Start a part of a section, which the table of contents does not list."""
        self._parts.append(f'<h3 id="{self._new_id(title)}">{_inline(title)}</h3>')
        return self

    def text(self, *paragraphs: str) -> Report:
        """Add paragraphs."""
        self._parts += [f"<p>{_inline(p)}</p>" for p in paragraphs]
        return self

    def items(self, *lines: str) -> Report:
        """Add a list."""
        self._parts.append("<ul>" + "".join(f"<li>{_inline(line)}</li>" for line in lines) + "</ul>")
        return self

    def facts(self, facts: Mapping[str, object]) -> Report:
        """Add key figures as a dict of values by name."""
        if not isinstance(facts, Mapping):
            raise wrong(f"facts must be a dict of values by name, got {type(facts).__name__}")
        pairs = "".join(f"<div><dt>{_inline(k)}</dt><dd>{_inline(_one(v))}</dd></div>" for k, v in facts.items())
        self._parts.append(f'<dl class="facts">{pairs}</dl>')
        return self

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[object]],
        caption: str = "",
        *,
        groups: Sequence[tuple[str, int]] = (),
        formats: Sequence[str | None] = (),
    ) -> Report:
        """Add a table whose first column names the rows; wide tables scroll inside their own box.

        Args:
            headers: the headers of the columns.
            rows: the rows of values. Floats of one column have the same number of decimals, so that
                the median has four significant digits.
            caption: the caption of the table.
            groups: headings above the headers, each with the number of columns it spans, such as
                `[("", 1), ("single", 3), ("pairs", 3)]`.
            formats: for each column a format such as `.3f` for its numbers, or None.

        Raises:
            GmlmError: E507 if a row, the groups or the formats do not have one entry per header.
        """
        headers, rows, caption = verified_names("headers", headers), _verified_rows(rows), verified_text("caption", caption)
        groups, formats = _verified_groups(groups), _verified_formats(formats)
        if any(len(row) != len(headers) for row in rows) or (groups and sum(n for _, n in groups) != len(headers)):
            raise wrong(f"every row and the groups must have {len(headers)} columns, as the headers do")
        if formats and len(formats) != len(headers):
            raise wrong(f"`formats` must have {len(headers)} entries, got {len(formats)}")
        starts = np.cumsum([0, *(n for _, n in groups)])[:-1]
        kinds, columns = [], []
        for j, form in enumerate(formats or [None] * len(headers)):
            column = [row[j] for row in rows]
            is_number = bool(rows) and all(map(_is_numeric, column))
            kinds.append(_class("number" * is_number, "first" * (j > 0 and j in starts)))
            columns.append(_column(column, form))
        above = f'<tr class="groups">{_groups(groups, starts)}</tr>' if groups else ""
        head = "".join(f'<th scope="col"{k}>{_inline(h)}</th>' for h, k in zip(headers, kinds, strict=True))
        body = "".join(f"<tr>{_row([c[i] for c in columns], kinds)}</tr>" for i in range(len(rows)))
        label = html.escape(caption or "table", quote=True)
        title = f"<caption><span>{_inline(caption)}</span></caption>" if caption else ""
        table = f"<table>{title}<thead>{above}<tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        self._parts.append(f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{table}</div>')
        return self

    def figure(self, figure: Figure | bytes, *, alt: str, caption: str = "") -> Report:
        """Add a picture: a matplotlib figure, or the bytes of a PNG.

        A figure is drawn as SVG whose colours follow light and dark mode.

        Args:
            figure: the picture. A figure that is too large as SVG becomes a PNG.
            alt: a description of the picture for readers who cannot see it.
            caption: the text under the picture.

        Raises:
            GmlmError: E507 unless `figure` is a picture, and if `alt` is empty.
        """
        if not verified_text("alt", alt).strip():
            raise wrong("a picture needs `alt`: one sentence that says what it shows")
        if not isinstance(figure, bytes):
            made_by("figure", figure, "savefig", "gm.report.plot_loss(..)")
        self._figures += 1
        shown = html.escape(alt, quote=True)
        drawn = None if isinstance(figure, bytes) else _palette.svg(figure, shown, f"figure{self._figures}-")
        if drawn is None:
            data = base64.b64encode(figure if isinstance(figure, bytes) else _palette.png(figure)).decode("ascii")
            drawn = f'<img alt="{shown}" src="data:image/png;base64,{data}">'
        below = f"<figcaption>{_inline(caption)}</figcaption>" if verified_text("caption", caption) else ""
        self._parts.append(f"<figure>{drawn}{below}</figure>")
        return self

    def warning(self, title: str, text: str, remedy: str = "") -> Report:
        """Add a warning: the finding, its meaning, and a remedy."""
        cure = f"<p><strong>What to do:</strong> {_inline(remedy)}</p>" if verified_text("remedy", remedy) else ""
        head = f'<p class="title"><span class="label">Warning:</span> {_inline(title)}</p>'
        self._parts.append(f'<aside class="warning" role="note">{head}<p>{_inline(text)}</p>{cure}</aside>')
        return self

    def code(self, text: str, label: str = "program text") -> Report:
        """Add preformatted text, such as a program; long lines scroll."""
        name, text = html.escape(verified_text("label", label), quote=True), verified_text("text", text)
        box = f'<div class="scroll code" role="region" tabindex="0" aria-label="{name}">'
        self._parts.append(f"{box}<pre><code>{html.escape(text)}</code></pre></div>")
        return self

    def html(self) -> str:
        """Return the page as text."""
        title = html.escape(self._title)
        contents = "".join(f'<li><a href="#{name}">{_inline(text)}</a></li>' for name, text in self._contents)
        nav = f'<nav aria-label="Contents"><p>Contents</p><ol>{contents}</ol></nav>' if contents else ""
        subtitle = f'<p class="subtitle">{_inline(self._subtitle)}</p>' if self._subtitle else ""
        footer = f"<footer>{_inline(self._footer)}</footer>" if self._footer else ""
        style = _palette.css_variables() + files("gmlmdsl.report").joinpath("report.css").read_text(encoding="utf-8")
        body = "\n".join(self._parts)
        return f"""<!DOCTYPE html>
<html lang="{html.escape(self._language, quote=True)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_NO_NETWORK}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div class="page{"" if nav else " alone"}">
<header><h1>{_inline(self._title)}</h1>{subtitle}</header>
{nav}
<main id="main">
{body}
{footer}
</main>
</div>
</body>
</html>
"""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; the file appears only when it is complete.

        Raises:
            GmlmError: E560 if the folder does not exist or cannot be written to.
        """
        path = as_path(path, "E560")
        write_whole(path, self.html().encode("utf-8", "xmlcharrefreplace"))
        return path

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return f'<iframe title="{html.escape(self._title, quote=True)}" style="width:100%;height:40rem;border:0" srcdoc="{page}"></iframe>'

    def _new_id(self, title: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "-", verified_text("title", title).lower()).strip("-") or "section"
        name, k = base, 2
        while name in self._ids:
            name, k = f"{base}-{k}", k + 1
        self._ids.add(name)
        return name


def _inline(text: str) -> str:
    """Return escaped text, with `parts in backticks` as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(verified_text("what a page says", text)))


def _verified_rows(rows: object) -> list[list[Any]]:
    return [verified_names("a row", row) for row in verified_names("rows", rows)]


def _verified_groups(groups: object) -> list[tuple[str, int]]:
    """Return headings, each with a number of columns.

    Raises:
        GmlmError: E507 for other values.
    """
    found = verified_names("groups", groups)
    if not all(isinstance(g, tuple | list) and len(g) == 2 and isinstance(g[0], str) and isinstance(g[1], int) for g in found):
        raise wrong("groups must be headings with the number of columns that each spans", '`[("", 1), ("single", 3)]`, say')
    return [(str(title), int(count)) for title, count in found]


def _verified_formats(formats: object) -> list[str | None]:
    """Return a format of numbers for each column.

    Raises:
        GmlmError: E507 for other values.
    """
    found = verified_names("formats", formats)
    for form in found:
        try:
            format(1.0, "" if form is None else form)
        except (TypeError, ValueError):
            raise wrong(f"formats must be formats of numbers, got {form!r}", '`".3f"`, or None') from None
    return found


def _class(*names: str) -> str:
    given = " ".join(n for n in names if n)
    return f' class="{given}"' if given else ""


def _group(title: str, columns: int, is_first: bool) -> str:
    kind = _class("first" if is_first else "")
    return f'<th scope="colgroup" colspan="{columns}"{kind}>{_inline(title)}</th>' if title else f'<td colspan="{columns}"{kind}></td>'


def _groups(groups: Sequence[tuple[str, int]], starts: np.ndarray) -> str:
    return "".join(_group(title, n, at > 0) for (title, n), at in zip(groups, starts, strict=True))


def _row(cells: Sequence[str], kinds: Sequence[str]) -> str:
    head = f'<th scope="row"{kinds[0]}>{_inline(cells[0])}</th>' if cells else ""
    rest = (
        f"<td{kind or _class('wrap' if len(c) > LONG_TEXT else '')}>{_inline(c)}</td>" for c, kind in zip(cells[1:], kinds[1:], strict=True)
    )
    return head + "".join(rest)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))


def _is_numeric(value: object) -> bool:
    """Return whether a value may appear in a column of numbers."""
    return _is_number(value) or value is None or (isinstance(value, str) and value == "none")


def _column(values: Sequence[object], form: str | None) -> list[str]:
    """Return the cells of a column; its floats have the same number of decimals."""
    floats = [abs(float(v)) for v in values if isinstance(v, (float, np.floating)) and math.isfinite(v) and v != 0]
    if form is None and floats:
        middle = float(np.median(floats))
        decimals = min(max(DIGITS - 1 - math.floor(math.log10(middle)), 0), DIGITS)
        form = f".{decimals}f" if 1e-3 <= middle < 1e7 else f".{DIGITS - 1}e"
    return [_one(v, form) for v in values]


def _one(value: object, form: str | None = None) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            return "nan" if math.isnan(value) else ("\N{INFINITY}" if value > 0 else "-\N{INFINITY}")
        return format(float(value), form or f".{DIGITS}g")
    return str(value)
