"""Format a tree and its comments as canonical text.

Formatting is idempotent and does not change the meaning of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ._lex import Token, tokenize
from ._old_forms import modernised
from ._parse import parse
from ._pieces import CLAUSE, NO_BREAK, Piece, shape
from ._tables import load_tables
from ._tree import Comment, SyntaxTree
from .limits import CONTINUATION, INDENT, WIDTH

Cut = tuple[int, int, list[Piece]]  # a part of a line: its start, its end and its pieces
ALLOWS = "# gmlm:"  # the start of a comment about the preceding statement


@dataclass(slots=True)
class Line:
    """A line before it is broken to fit: a statement, its head, a closing brace, or a comment.

    Attributes:
        indent: the indentation in columns.
        pieces: the texts between which the line may break.
        comment: the comment at the end of the line.
        start: the start of the line in the source.
        end: the end of the line in the source.
        continues: whether it continues a line that a comment cuts.
        whole: whether no comment cuts it.
    """

    indent: int
    pieces: list[Piece] = field(default_factory=list)
    comment: str = ""
    start: int = 0
    end: int = 0
    continues: bool = False
    whole: bool = True


def format_source(text: str, path: str = "<text>") -> str:
    """Write a program in its one canonical form.

    Args:
        text: the program.
        path: the name of the program in messages.

    Returns:
        The program in canonical form. It has two spaces per level, one statement per line and at
            most one blank line in a row. A body on one line stays there if it fits. Lines have at
            most 100 columns if they can be broken. Every comment keeps its place, except that a
            comment after a statement moves above it if both do not fit on one line.

    Raises:
        GmlmError: if the text has syntax errors. The error contains all of them.
    """
    return format_tree(parse(text, path))


def format_tree(tree: SyntaxTree) -> str:
    """Write a parsed program as `format_source` writes its text."""
    today = modernised(tree)
    if today is not None:
        tree = parse(today, tree.span.source.path)
    lines: list[Line] = []
    for statement in tree.statements:
        _add(statement, 0, lines)
    tokens = iter(tokenize(tree.span.source, load_tables()).tokens)
    lines = _commented(lines, tokens, [*tree.comments])
    return "".join(_printed(lines, tree.span.source.text))


def _add(node: Any, indent: int, lines: list[Line]) -> None:
    head, body, tail = shape(node)
    if body is None:
        lines.append(Line(indent, head))
        return
    if "\n" not in node.span.text:
        pieces = _in_one_line(node)
        if indent + _width(pieces) <= WIDTH:
            lines.append(Line(indent, pieces))
            return
    lines.append(Line(indent, [*head, Piece("{")]))
    for child in body:
        _add(child, indent + INDENT, lines)
    lines.append(Line(indent, [Piece("}", 0), *tail]))


def _in_one_line(node: Any) -> list[Piece]:
    head, body, tail = shape(node)
    if body is None:
        return head
    pieces = [*head, Piece("{")]
    for k, child in enumerate(body):
        first, *rest = _in_one_line(child)
        pieces += [first._replace(space=2 if k else 1), *rest]
    return [*pieces, Piece("}"), *tail]


def _width(pieces: Sequence[Piece]) -> int:
    return sum(len(p.text) + p.space for p in pieces) - (pieces[0].space if pieces else 0)


def _commented(lines: list[Line], tokens: Iterator[Token], comments: list[Comment]) -> list[Line]:
    """Place the lines, and add the comments to them.

    The pieces are the tokens of the source, without `;` and unnecessary parentheses.
    """
    out: list[Line] = []
    for line in lines:
        found = [next(t for t in tokens if t.text == piece.text) for piece in line.pieces]
        line.start, line.end = found[0].start, found[-1].end
        parts = _split(line, found, comments)
        for start, end, part in parts:
            cut = replace(line, pieces=part, start=start, end=end, continues=start != line.start, whole=len(parts) == 1)
            while comments and comments[0].span.start < start:
                _attach(comments.pop(0), cut, out)
            out.append(cut)
    for comment in comments:
        _attach(comment, None, out)
    return out


def _split(line: Line, tokens: list[Token], comments: list[Comment]) -> list[Cut]:
    """Cut the line at each comment inside it."""
    parts: list[Cut] = []
    waiting = [c.span.start for c in comments if line.start < c.span.start < line.end]
    for piece, token in zip(line.pieces, tokens, strict=True):
        cut = bool(waiting) and waiting[0] < token.start
        while waiting and waiting[0] < token.start:
            waiting.pop(0)
        if cut or not parts:
            parts.append((token.start, token.end, [piece]))
        else:
            start, _, pieces = parts[-1]
            parts[-1] = (start, token.end, [*pieces, piece])
    return parts


def _attach(comment: Comment, following: Line | None, out: list[Line]) -> None:
    """Put a comment at the end of the preceding line, or on its own line before the next one."""
    if not comment.alone and out and not out[-1].comment:
        out[-1].comment = comment.text
        out[-1].end = comment.span.end
        return
    indent = 0
    if following is not None:
        closes = following.pieces[0].text == "}"
        indent = following.indent + (CONTINUATION if following.continues else INDENT if closes else 0)
    out.append(Line(indent, [], comment.text, comment.span.start, comment.span.end))


def _printed(lines: Sequence[Line], text: str) -> Iterator[str]:
    before: Line | None = None
    for line in lines:
        if before is not None and _blank_between(before, line, text):
            yield "\n"
        yield from _wrapped(line)
        before = line


def _blank_between(before: Line, line: Line, text: str) -> bool:
    opens = bool(before.pieces) and before.pieces[-1].text == "{" and not before.continues
    closes = bool(line.pieces) and line.pieces[0].text == "}"
    return not line.continues and not opens and not closes and text.count("\n", before.end, line.start) > 1


def _wrapped(line: Line) -> Iterator[str]:
    pieces, indent = line.pieces, line.indent + (CONTINUATION if line.continues else 0)
    if _is_too_wide_with_comment(line):
        yield " " * indent + line.comment + "\n"
        line = replace(line, comment="")
    if not pieces:
        yield " " * indent + line.comment + "\n"
        return
    while not _fits(pieces, WIDTH - indent):
        cut = _best_break(pieces, WIDTH - indent, WIDTH - line.indent - CONTINUATION)
        if cut is None:
            break
        yield " " * indent + _joined(pieces[:cut]) + "\n"
        pieces, indent = pieces[cut:], line.indent + CONTINUATION
    yield " " * indent + _joined(pieces) + (f"  {line.comment}" if line.comment else "") + "\n"


def _is_too_wide_with_comment(line: Line) -> bool:
    """Return whether a comment moves above its line.

    A comment about the preceding statement, and a comment after a closing brace, do not move.
    """
    if not line.pieces or not line.comment or not line.whole or line.pieces[0].text == "}" or line.comment.startswith(ALLOWS):
        return False
    return line.indent + _width(line.pieces) + 2 + len(line.comment) > WIDTH


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(" " * p.space * bool(k) + p.text for k, p in enumerate(pieces))


def _best_break(pieces: Sequence[Piece], room: int, behind: int) -> int | None:
    """Return the place at which to break a line so that the first part fits.

    The place is the loosest one, and the last of equally loose ones. If no first part fits, it is
    the first place of all. Loops that fit on one line after the break stay together. `behind` is
    the number of columns available there.
    """
    head = _head(pieces, room, behind)
    places = [k for k in _places(pieces, room) if k > head]
    fitting = [k for k in places if _fits(pieces[:k], room)]
    if not fitting:
        return head or next(iter(places), None)
    best = min(map(_key, (pieces[k] for k in fitting)))
    equals = [k for k in fitting if _key(pieces[k]) == best]
    loops = (k for k in equals if _is_loop(pieces[k]) and _fits(pieces[k:], behind))
    return next(loops, equals[-1])


def _places(pieces: Sequence[Piece], room: int) -> Iterator[int]:
    """Yield the places at which a line may break.

    The last one is the first place beyond the available columns.
    """
    for k, column in enumerate(_columns(pieces)):
        if k and pieces[k].looseness != NO_BREAK:
            yield k
            if column > room:
                return


def _columns(pieces: Sequence[Piece]) -> Iterator[int]:
    """Yield the column at which each piece begins, including its space."""
    column = 0
    for k, piece in enumerate(pieces):
        yield column
        column += len(piece.text) + piece.space * bool(k)


def _fits(pieces: Sequence[Piece], room: int) -> bool:
    """Return whether the pieces fit into the available columns."""
    return all(column <= room for column in _columns(pieces)) and _width(pieces) <= room


def _key(piece: Piece) -> tuple[int, int]:
    return piece.depth, piece.looseness


def _is_loop(piece: Piece) -> bool:
    return piece.text == "for" and piece.depth == 0


def _head(pieces: Sequence[Piece], room: int, behind: int) -> int:
    """Return the place of `: type` or `~ distribution` if a break before it has no advantage.

    It has no advantage if the text after it must be broken in any case. Otherwise the result is 0.
    """
    found = 0
    for k, column in enumerate(_columns(pieces)):
        if column > room:
            break
        if _key(pieces[k]) == (0, CLAUSE) and pieces[k].text in (":", "~") and not _fits(pieces[k : _next_loop(pieces, k)], behind):
            found = k
    return found


def _next_loop(pieces: Sequence[Piece], k: int) -> int:
    return next((j for j in range(k, len(pieces)) if _is_loop(pieces[j])), len(pieces))
