"""Subword tokens: a SentencePiece model for both languages, which maps text to the codes of a row.

The model is a unigram language model (Kudo 2018). Text is not normalised: no letter is replaced,
and only white space of any kind becomes one space. A row contains the codes of its subword tokens
and the end mark, followed by -1.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail, is_one_of, truth, whole_number
from .._optional import need
from ..data import whole_numbers
from ..files import reading
from ..plan import verify_held
from .limits import LONGEST_SENTENCE, MOST_CODES

if TYPE_CHECKING:
    from types import ModuleType

Array = np.ndarray
END = 1  # The code of the end mark.
UNKNOWN = 0  # The code of text that the vocabulary cannot spell.
ONE_LINE = str.maketrans("\n\r", "  ")
WORD = "\u2581"  # SentencePiece writes this character for the space before a word.


class Vocabulary:
    """A SentencePiece model.

    Code 0 stands for text that it cannot spell, and code 1 for the end of a sentence. There is no
    code for padding.

    Args:
        data: the bytes of the model.
        name: the name of the vocabulary in messages.

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
                # The library would accept empty bytes as a vocabulary without subword tokens.
                raise RuntimeError
            self._model = library.SentencePieceProcessor(model_proto=self.data)
        except RuntimeError:
            raise fail("E571", f"{name} is not a SentencePiece model", help="`gmlm train` writes one: `MODEL.vocabulary`") from None
        if self._model.eos_id() != END:
            message = f"{name} has {_described(self._model.eos_id())}, and code {END} must be the end of a sentence"
            raise fail("E571", message, help="train it with --unk_id=0 --eos_id=1 --bos_id=-1 --pad_id=-1")

    @classmethod
    def train(cls, sentences: Iterable[str], size: int, byte_fallback: bool = False) -> Vocabulary:
        """Train a vocabulary on sentences of both languages.

        Identical sentences in the same order give identical bytes.

        Args:
            sentences: the text; empty sentences are left out.
            size: the number of codes.
            byte_fallback: whether 256 of the codes are bytes, which spell the letters that the text
                does not have.

        Raises:
            GmlmError: E570 for a size that the text does not allow, or without text; E561 if the
                library is not installed.
        """
        library = _sentencepiece()
        size = whole_number("size", size, 3, "E570")
        if size > MOST_CODES:
            raise fail("E570", f"a vocabulary has at most {MOST_CODES:,} codes")
        # The list is built first, because the library treats any error of the iterator as its end.
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
                max_sentence_length=LONGEST_SENTENCE,
                byte_fallback=truth("byte_fallback", byte_fallback),
                num_threads=1,  # With more threads the order of sums would vary.
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _untrained(str(error), size, 256 * bool(byte_fallback)) from None
        return cls(model.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes) -> Vocabulary:
        """Return the vocabulary of `Vocabulary.data`.

        Raises:
            GmlmError: E571 for bytes that are not a vocabulary; E561 if the library is not
                installed.
        """
        return cls(data)

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary from a SentencePiece file.

        Raises:
            GmlmError: E120 for a file that cannot be read, E571 for a file that is not a
                vocabulary; E561 if the library is not installed.
        """
        with reading(path):
            return cls(Path(path).read_bytes(), str(path))

    @property
    def size(self) -> int:
        """The number of codes."""
        return self._model.get_piece_size()

    @cached_property
    def sha256(self) -> str:
        """The hash of the bytes in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The text of each code; U+2581 stands for the space before a word."""
        return tuple(self._model.id_to_piece(i) for i in range(self.size))

    @cached_property
    def starts_word(self) -> Array:
        """Whether each code begins a word; the end mark counts as a beginning.

        See `gm.drop_repeats`.
        """
        control = [self._model.is_control(i) for i in range(self.size)]
        return np.array([c or p.startswith(WORD) for p, c in zip(self.pieces, control, strict=True)])

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the codes of each sentence followed by the end mark.

        An empty sentence has only the end mark.

        Raises:
            GmlmError: E507 for an argument that is not a list of texts, E119 for a text with half a
                surrogate pair.
        """
        texts = list(_spaced(sentences))
        # Sentences are encoded one by one, because lists start threads that cost more than they
        # save.
        return [[*self._model.encode(text), END] for text in texts]

    def rows(self, encoded: Sequence[Sequence[int]], cells: int) -> Array:
        """Return the codes of each sentence as rows of equal length, padded with -1.

        The array has type int32 and shape (sentences, cells).

        Raises:
            GmlmError: E573 for a sentence of more subword tokens than cells, E572 for entries that
                are not codes.
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
        """Return the text of each row up to its first end mark or -1.

        Line ends, which byte tokens may spell, become spaces.

        Args:
            codes: an array of rows, or lists of codes.

        Raises:
            GmlmError: E572 for a code outside the vocabulary, and for entries that are not codes.
        """
        rows = [_before_end(row) for row in _rows_of(codes)]
        largest = max((int(row.max()) for row in rows if len(row)), default=0)
        if largest >= self.size:
            message = f"a row holds code {largest}, and the vocabulary has {self.size} codes"
            raise fail("E572", message, help="take the vocabulary that the translator was trained with")
        return [self._model.decode(row.tolist()).translate(ONE_LINE) if len(row) else "" for row in rows]

    def verify(self, size: int, what: str, sha256: str | None = None) -> None:
        """Raise an error if this is not the required vocabulary.

        Args:
            size: the required number of codes.
            what: the object that requires the vocabulary, for example `the bundle`.
            sha256: the hash of the required vocabulary, if it is known.

        Raises:
            GmlmError: E572 if the size or the hash differs.
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


def _sentencepiece() -> ModuleType:
    return need("sentencepiece", "vocabularies need SentencePiece", '"gmlmdsl[train]"')


def is_many(value: object) -> bool:
    """Return whether `value` is a list, iterator or array, and not a single text or number."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and getattr(value, "ndim", 1) > 0


def spaced(text: str) -> str:
    """Return a text with white space of any kind as one space.

    Tabs and no-break spaces are thus not letters that a vocabulary has to spell.
    """
    return " ".join(text.split())


def _spaced(sentences: Iterable[str]) -> Iterator[str]:
    """Yield each sentence with plain spaces.

    Raises:
        GmlmError: E507 for an argument that is not a list of texts, E119 for half a surrogate pair.
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
        if len(text.encode()) > LONGEST_SENTENCE:
            raise fail("E573", f"sentence {number} has {len(text):,} letters: no vocabulary is trained on it", help="clean the text first")
        if text:
            yield text


def _verify_text(text: str, number: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fail("E119", f"sentence {number} is not text: its letter {error.start + 1} is half a surrogate pair") from None


def _rows_of(codes: Any) -> list[Array]:
    """Return rows of codes as a list of arrays.

    Raises:
        GmlmError: E572 for any other argument.
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


def _untrained(message: str, size: int, spare: int) -> Exception:
    """Return an error that explains the library's message and how to proceed."""
    if most := re.search(r"set it to a value <= (\d+)", message):
        return fail("E570", f"the text allows a vocabulary of at most {most[1]} codes, not {size}", help=f"take {most[1]} or fewer")
    if least := re.search(r"(\d+) vs (\d+)", message):
        letters = f"{int(least[2]) - 2 - spare} letters" + (" beside 256 bytes" if spare else "")
        note = f"the text has {letters}, so that a vocabulary of it has at least {least[2]} codes, not {size}"
        return fail("E570", note, help=f"take {least[2]} or more")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return fail("E570", "there is no text to make a vocabulary of")
    return fail("E570", f"no vocabulary of {size} codes can be made of the text: {message}")


def _described(end: int) -> str:
    return "no end mark" if end < 0 else f"the end mark at code {end}"
