"""Pieces of words: a SentencePiece model that both languages share, between text and the codes of a row.

Kudo 2018 (unigram language model). Text is left as it is, no letter is replaced by another; only
white space of any kind counts as one space. A row is the codes of its pieces, the end mark, and -1
behind it.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._diagnostics import counted, fail, is_one_of, whole_number
from .._optional import need
from ..data import whole_numbers
from ..files import reading
from ..plan import verify_held

Array = np.ndarray
END = 1  # code of the end mark
UNKNOWN = 0  # code of what the vocabulary cannot spell
MOST = 2**31 - 1  # codes that the library counts
LONGEST = 1 << 20  # bytes of a sentence that is trained on; the library leaves longer ones out
ONE_LINE = str.maketrans("\n\r", "  ")
WORD = "\u2581"  # what SentencePiece writes for the space before a word


class Vocabulary:
    """A SentencePiece model: code 0 stands for what it cannot spell, 1 for the end of a sentence; there is no code for padding.

    Args:
        data: the bytes of the model.
        name: how messages call it.

    Attributes:
        data: the bytes of the model.
        end: the code of the end mark, 1.
    """

    end = END

    def __init__(self, data: bytes, name: str = "the vocabulary"):
        if not isinstance(data, bytes | bytearray | memoryview):
            help = "`gm.Vocabulary.read(path)` reads a file"
            raise fail("E571", f"{name} must be the bytes of a SentencePiece model, got {type(data).__name__}", help=help)
        library = _sentencepiece()
        self.data = bytes(data)
        try:
            if not self.data:
                raise RuntimeError  # the library takes no bytes for a vocabulary of no piece
            self._model = library.SentencePieceProcessor(model_proto=self.data)
        except RuntimeError:
            raise fail("E571", f"{name} is not a SentencePiece model", help="`gmlm train` writes one: `MODEL.vocabulary`") from None
        if self._model.eos_id() != END:
            message = f"{name} has {_described(self._model.eos_id())}, and code {END} must be the end of a sentence"
            raise fail("E571", message, help="train it with --unk_id=0 --eos_id=1 --bos_id=-1 --pad_id=-1")

    @classmethod
    def train(cls, sentences: Iterable[str], size: int) -> Vocabulary:
        """A vocabulary of all sentences, those of both languages: the same sentences in the same order give the same bytes.

        Args:
            sentences: text; empty ones are left out.
            size: the number of codes.

        Raises:
            GmlmError: E570 for a size that the text does not allow, or no text; E561 where the
                library is not installed.
        """
        library = _sentencepiece()
        size = whole_number("size", size, 3, "E570")
        if size > MOST:
            raise fail("E570", f"a vocabulary has at most {MOST:,} codes")
        # before the library, which takes any error of the iterator for the end
        texts = list(_texts(sentences))
        model = io.BytesIO()
        try:
            library.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=model,
                vocab_size=size,
                model_type="unigram",
                unk_id=UNKNOWN,
                eos_id=END,
                bos_id=-1,
                pad_id=-1,
                character_coverage=1.0,
                normalization_rule_name="identity",
                max_sentence_length=LONGEST,
                num_threads=1,  # more threads sum in any order
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _untrained(str(error), size) from None
        return cls(model.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> Vocabulary:
        """A vocabulary from `Vocabulary.data`.

        Raises:
            GmlmError: E571 for bytes that are no vocabulary; E561 where the library is not
                installed.
        """
        return cls(data)

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """A vocabulary from a file of SentencePiece.

        Raises:
            GmlmError: E120 for a file that cannot be read, E571 for one that is no vocabulary; E561
                where the library is not installed.
        """
        with reading(path):
            return cls(Path(path).read_bytes(), str(path))

    @property
    def size(self) -> int:
        """The number of codes."""
        return self._model.get_piece_size()

    @cached_property
    def sha256(self) -> str:
        """The hash of the bytes, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The text of each code; a space before a word is U+2581."""
        return tuple(self._model.id_to_piece(i) for i in range(self.size))

    @cached_property
    def starts_word(self) -> Array:
        """For each code whether it begins a word, the end mark too; see `gm.drop_repeats`."""
        control = [self._model.is_control(i) for i in range(self.size)]
        return np.array([c or p.startswith(WORD) for p, c in zip(self.pieces, control, strict=True)])

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """The codes of each sentence, its end mark last; an empty sentence has the end mark alone.

        Raises:
            GmlmError: E507 for what is no list of texts, E119 for a text with half a surrogate
                pair.
        """
        texts = list(_spaced(sentences))
        # one by one: lists start threads, which cost more than they save
        return [[*self._model.encode(text), END] for text in texts]

    def rows(self, encoded: Sequence[Sequence[int]], cells: int) -> Array:
        """Rows of equal length: codes of each sentence, -1 behind them; int32, shape (sentences, cells).

        Raises:
            GmlmError: E573 for a sentence of more pieces than cells, E572 for what are no codes.
        """
        cells, sentences = whole_number("cells", cells, 0), _rows_of(encoded)
        verify_held(4.0 * len(sentences) * min(cells, 10**18), "the rows", "fewer `cells`")
        lengths = np.array([len(codes) for codes in sentences], int)
        if (lengths > cells).any():
            first = int(np.argmax(lengths > cells))
            more = int((lengths > cells).sum()) - 1
            also = f"; so {'is' if more == 1 else 'are'} {counted(more, 'further sentence')}" if more else ""
            message = f"sentence {first + 1} has {lengths[first]} pieces with its end mark, and a row has {counted(cells, 'cell')}{also}"
            raise fail("E573", message, help="split it, leave it out, or give the program's index a longer range")
        rows = np.full((len(sentences), cells), -1, np.int32)
        if sentences:
            flat = np.concatenate(sentences)
            strange = flat[(flat < 0) | (flat >= self.size)]
            if len(strange):
                message = f"a sentence holds code {strange[0]}, and the vocabulary has codes 0 to {self.size - 1}"
                raise fail("E572", message, help="take the vocabulary that encoded it")
            rows[np.arange(cells) < lengths[:, None]] = flat
        return rows

    def decode(self, codes: Any) -> list[str]:
        """The text of each row, up to its first end mark or -1; ends of lines, which pieces of bytes may spell, are spaces.

        Args:
            codes: an array of rows, or lists of codes.

        Raises:
            GmlmError: E572 for a code that the vocabulary does not have, and for what are no codes.
        """
        rows = [_before_end(row) for row in _rows_of(codes)]
        largest = max((int(row.max()) for row in rows if len(row)), default=0)
        if largest >= self.size:
            message = f"a row holds code {largest}, and the vocabulary has {self.size} codes"
            raise fail("E572", message, help="take the vocabulary that the translator was trained with")
        return [self._model.decode(row.tolist()).translate(ONE_LINE) if len(row) else "" for row in rows]

    def verify(self, size: int, what: str, sha256: str | None = None) -> None:
        """Refuse to be used where another vocabulary is meant.

        Args:
            size: the number of codes that is needed.
            what: what needs them, `the bundle`, say.
            sha256: of the vocabulary that is needed, where it is known.

        Raises:
            GmlmError: E572 for another one.
        """
        if self.size != whole_number("size", size, 0):
            message = f"the vocabulary has {self.size} codes, and {what} is for {size}"
        elif sha256 is not None and not is_one_of(sha256, (self.sha256,)):
            message = f"the vocabulary is not the one that {what} is for: both have {size} codes, which mean other pieces"
        else:
            return
        raise fail("E572", message, help="codes mean nothing without their vocabulary: take the one that training used")

    def __repr__(self) -> str:
        return f"Vocabulary of {self.size} codes"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)


def _sentencepiece() -> Any:
    return need("sentencepiece", "vocabularies need SentencePiece", '"gmlmdsl[train]"')


def is_many(value: object) -> bool:
    """Whether it is a list, an iterator or an array of things, and no single text or number."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0


def spaced(text: str) -> str:
    """White space of any kind as one space: tabs and no-break spaces are no letters that a vocabulary should spell."""
    return " ".join(text.split())


def _spaced(sentences: Iterable[str]) -> Iterator[str]:
    """Each sentence with plain spaces.

    Raises:
        GmlmError: E507 for what is no list of texts, E119 for half a surrogate pair.
    """
    if not is_many(sentences):
        raise fail("E507", f"sentences must be a list of texts, got {sentences!r:.60}")
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, str):
            raise fail("E507", f"sentences must be a list of texts, and number {number} is {sentence!r:.60}")
        text = spaced(sentence)
        if not text.isascii():
            _verify_text(text, number)
        yield text


def _texts(sentences: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(_spaced(sentences), 1):
        if len(text.encode()) > LONGEST:
            raise fail("E573", f"sentence {number} has {len(text):,} letters: no vocabulary is trained on it", help="clean the text first")
        if text:
            yield text


def _verify_text(text: str, number: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fail("E119", f"sentence {number} is not text: its letter {error.start + 1} is half a surrogate pair") from None


def _rows_of(codes: Any) -> list[Array]:
    """Rows of codes, each an array.

    Raises:
        GmlmError: E572 for anything else.
    """
    if not is_many(codes):
        raise fail("E572", f"codes must be rows of whole numbers, got {codes!r:.60}")
    if isinstance(codes, np.ndarray) and codes.ndim == 2 and codes.dtype.kind in "iu":
        return list(codes)
    rows = []
    for number, row in enumerate(codes):
        found = np.zeros(0, np.int32) if isinstance(row, list | tuple) and not row else whole_numbers(row, f"row {number}")
        if found is None or found.ndim != 1:
            raise fail("E572", f"row {number} must be a list of codes, whole numbers, got {row!r:.60}")
        rows.append(found)
    return rows


def _before_end(row: Array) -> Array:
    stop = np.flatnonzero((row == END) | (row < 0))
    return row[: stop[0]] if len(stop) else row


def _untrained(message: str, size: int) -> Exception:
    """The library's refusal in words that say what to do."""
    if most := re.search(r"set it to a value <= (\d+)", message):
        return fail("E570", f"the text allows a vocabulary of at most {most[1]} codes, not {size}", help=f"take {most[1]} or fewer")
    if least := re.search(r"(\d+) vs (\d+)", message):
        note = f"the text has {int(least[2]) - 2} letters, so that a vocabulary of it has at least {least[2]} codes, not {size}"
        return fail("E570", note, help=f"take {least[2]} or more")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return fail("E570", "there is no text to make a vocabulary of")
    return fail("E570", f"no vocabulary of {size} codes can be made of the text: {message}")


def _described(end: int) -> str:
    return "no end mark" if end < 0 else f"the end mark at code {end}"
