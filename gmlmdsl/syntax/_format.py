"""Tree and comments -> canonical text. Formatting twice changes nothing, and the text means what it meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._diagnostics import Source
from ._lex import Token, tokenize
from ._old_forms import modernised
from ._parse import parse
from ._pieces import CLAUSE, NO_BREAK, Piece
from ._statements import shape
from ._tables import load_tables
from ._tree import Comment, SyntaxTree

WIDTH = 100
INDENT = 2
CONTINUATION = 4
ALLOWS = "# gmlm:"  # a comment that speaks of the statement before it


@dataclass(slots=True)
class Line:
    """A statement, or its head, or a closing brace, or a comment of its own, before it is broken to fit.

    `start` and `end` are where it stood in the source; `comment` stands at its end; it is not `whole` where a comment inside cuts it.
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
        path: the name it is shown under in messages.

    Returns:
        The program with two spaces per level, one statement per line (a body that stood on one line stays there where it
        fits), at most one blank line, lines of at most 100 columns where they can be broken, and every comment in its place;
        one behind a statement that is too long for both stands above it.

    Raises:
        GmlmError: with every syntax error of the text.
    """
    tree = parse(text, path)
    today = modernised(tree)
    if today is not None:
        text, tree = today, parse(today, path)
    lines = _with_comments(_lines_of(tree), tree)
    return "".join(_printed(lines, text))


def _lines_of(tree: SyntaxTree) -> list[Line]:
    lines: list[Line] = []
    for statement in tree.statements:
        _add(statement, 0, lines)
    _place(lines, tree.span.source)
    return lines


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


def _tokens(source: Source) -> Iterator[Token]:
    return iter(tokenize(source, load_tables()).tokens)


def _place(lines: list[Line], source: Source) -> None:
    """Give every line the place of its tokens; what is written is what was read, less `;` and idle parentheses."""
    tokens = _tokens(source)
    for line in lines:
        found = [next(t for t in tokens if t.text == piece.text) for piece in line.pieces]
        line.start, line.end = found[0].start, found[-1].end


def _with_comments(lines: list[Line], tree: SyntaxTree) -> list[Line]:
    source = tree.span.source
    out: list[Line] = []
    comments = list(tree.comments)
    tokens = _tokens(source)
    for line in lines:
        parts = _split(line, tokens, comments)
        for start, end, part in parts:
            cut = replace(line, pieces=part, start=start, end=end, continues=start != line.start, whole=len(parts) == 1)
            while comments and comments[0].span.start < start:
                _attach(comments.pop(0), cut, out)
            out.append(cut)
    for comment in comments:
        _attach(comment, None, out)
    return out


def _split(line: Line, tokens: Iterator[Token], comments: Sequence[Comment]) -> list[tuple[int, int, list[Piece]]]:
    """The line cut where a comment stands inside it."""
    parts: list[tuple[int, int, list[Piece]]] = []
    waiting = [c.span.start for c in comments if line.start < c.span.start < line.end]
    for piece in line.pieces:
        token = next(t for t in tokens if t.text == piece.text)
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
    """Put a comment at the end of the line before it, or on a line of its own before what follows."""
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
    """Whether a comment goes above its line: not one that speaks of the statement before it, nor one of a closing brace."""
    if not line.pieces or not line.comment or not line.whole or line.pieces[0].text == "}" or line.comment.startswith(ALLOWS):
        return False
    return line.indent + _width(line.pieces) + 2 + len(line.comment) > WIDTH


def _joined(pieces: Sequence[Piece]) -> str:
    return "".join(" " * p.space * bool(k) + p.text for k, p in enumerate(pieces))


def _best_break(pieces: Sequence[Piece], room: int, behind: int) -> int | None:
    """The loosest place to break at which the first part fits, the last of equals; the first place at all where none fits.

    Loops that fit into one line behind the break stay together there; `behind`: its room.
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
    """Where a line may break, up to the first place that is too far behind."""
    for k, column in enumerate(_columns(pieces)):
        if k and pieces[k].looseness != NO_BREAK:
            yield k
            if column > room:
                return


def _columns(pieces: Sequence[Piece]) -> Iterator[int]:
    """Where each piece begins on a line, its space included."""
    column = 0
    for k, piece in enumerate(pieces):
        yield column
        column += len(piece.text) + piece.space * bool(k)


def _fits(pieces: Sequence[Piece], room: int) -> bool:
    """Whether a line of pieces is no wider than the room for it."""
    return all(column <= room for column in _columns(pieces)) and _width(pieces) <= room


def _key(piece: Piece) -> tuple[int, int]:
    return piece.depth, piece.looseness


def _is_loop(piece: Piece) -> bool:
    return piece.text == "for" and piece.depth == 0


def _head(pieces: Sequence[Piece], room: int, behind: int) -> int:
    """Where `: type` or `~ distribution` begins if a break before it gains nothing: what stands behind is broken all the same."""
    found = 0
    for k, column in enumerate(_columns(pieces)):
        if column > room:
            break
        if _key(pieces[k]) == (0, CLAUSE) and pieces[k].text in (":", "~") and not _fits(pieces[k : _next_loop(pieces, k)], behind):
            found = k
    return found


def _next_loop(pieces: Sequence[Piece], k: int) -> int:
    return next((j for j in range(k, len(pieces)) if _is_loop(pieces[j])), len(pieces))
