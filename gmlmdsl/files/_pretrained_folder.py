"""The folder of a pretrained masked language model: its configuration and its vocabulary, read as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .._diagnostics import GmlmError, fail
from .._types import JsonObject
from ._whole_files import reading
from .limits import MOST_JSON_BYTES

WEIGHTS = "model.safetensors"
BESIDE = "the folder is sought beside the program, or in the current folder for a program without a file"
# the words of special tokens that tokenizers use, where no file of the folder names them
USUAL = {"mask": ("[MASK]", "<mask>"), "begin": ("[CLS]", "<cls>", "<s>"), "end": ("[SEP]", "<eos>", "</s>")}
KEYS = {"mask": ("mask_token",), "begin": ("cls_token", "bos_token"), "end": ("sep_token", "eos_token")}


@dataclass(frozen=True)
class PretrainedFolder:
    """What the text files of a folder of a pretrained masked language model say.

    Attributes:
        path: the folder.
        config: the content of `config.json`.
        tokens: the token of each id.
        mask: the id of the token that stands for a hidden cell.
        begin, end: the ids of the tokens around a row; None if the vocabulary has none.
    """

    path: Path
    config: JsonObject
    tokens: tuple[str, ...]
    mask: int
    begin: int | None
    end: int | None


def read_pretrained(folder: str | Path) -> PretrainedFolder:
    """Read the configuration, the vocabulary and the special tokens of a folder.

    The vocabulary is `vocab.txt` (a token a line), `vocab.json` (ids by token) or `tokenizer.json`.

    Raises:
        GmlmError: E120 for a file that is missing or cannot be read; E748 for one that is damaged.
    """
    path = Path(folder)
    config = _json(path / "config.json")
    tokens = read_vocabulary(path)
    named = {}
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if _is_there(path / name):
            named |= _json(path / name)
    ids = {kind: _special(kind, named, tokens) for kind in USUAL}
    if ids["mask"] is None:
        raise unusable(path, "its vocabulary has no token for hidden cells", f"one of {', '.join(USUAL['mask'])} is expected")
    return PretrainedFolder(path, config, tokens, ids["mask"], ids["begin"], ids["end"])


def read_vocabulary(folder: str | Path) -> tuple[str, ...]:
    """Read the token of each id from a folder, as `read_pretrained` does."""
    path = Path(folder)
    name = next((n for n in ("vocab.txt", "vocab.json", "tokenizer.json") if _is_there(path / n)), None)
    if name is None:
        with reading(path / "config.json", help=BESIDE):
            (path / "config.json").open("rb").close()  # A folder that does not exist is reported as such.
        raise unusable(path, "it has no vocabulary", "`vocab.txt`, `vocab.json` or `tokenizer.json` is expected")
    if name == "vocab.txt":
        return tuple(token.removesuffix("\r") for token in _text(path / name).removesuffix("\n").split("\n"))
    found = _json(path / name)
    ids = found if name == "vocab.json" else _ids_of(found)
    most = 4 * len(ids) + 1000  # Vocabularies have few unused ids.
    if not ids or not all(isinstance(k, int) and 0 <= k < most for k in ids.values()):
        raise unusable(path / name, "it does not map tokens to ids", "a vocabulary of a masked language model is expected")
    tokens = [f"<unused {k}>" for k in range(max(ids.values()) + 1)]
    for token, k in ids.items():
        tokens[k] = token
    return tuple(tokens)


def unusable(path: Path, why: str, help: str) -> GmlmError:
    """The error for a folder of pretrained weights, or a file of it, that cannot be used."""
    return fail("E748", f"`{path}` cannot be used: {why}", help=help)


def _is_there(path: Path) -> bool:
    """Return whether a file exists; a path that the system cannot look up does not."""
    try:
        return path.is_file()
    except OSError:
        return False


def _ids_of(tokenizer: JsonObject) -> dict[str, int]:
    """The id of each token of a `tokenizer.json`, whose model lists them, or maps them to ids."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list) and all(isinstance(entry, list) and entry and isinstance(entry[0], str) for entry in vocabulary):
        vocabulary = {entry[0]: k for k, entry in enumerate(vocabulary)}
    ids = dict(vocabulary) if isinstance(vocabulary, dict) else {}
    added = tokenizer.get("added_tokens")
    for entry in added if isinstance(added, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            ids[entry["content"]] = entry.get("id", -1)
    return ids


def _special(kind: str, named: JsonObject, tokens: Sequence[str]) -> int | None:
    words = []
    for key in KEYS[kind]:
        entry = named.get(key)
        words.append(entry.get("content") if isinstance(entry, dict) else entry)
    return next((tokens.index(word) for word in (*words, *USUAL[kind]) if isinstance(word, str) and word in tokens), None)


def _text(path: Path) -> str:
    with reading(path, help=BESIDE):
        if path.stat().st_size > MOST_JSON_BYTES:
            raise unusable(path, f"it has more than {MOST_JSON_BYTES:,} bytes", "a smaller file is expected")
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise unusable(path, "it is not text in UTF-8", "copy the folder again") from None


def _json(path: Path) -> JsonObject:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError):
        raise unusable(path, "it is not JSON", "copy the folder again") from None
    if not isinstance(found, dict):
        raise unusable(path, "it holds no names", "a JSON object is expected")
    return found
