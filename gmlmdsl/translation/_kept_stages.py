"""Stages of a long run, each with files and a record of its inputs.

A finished stage is not repeated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._diagnostics import GmlmError, fail
from .._types import JsonObject
from ..files import reading, write_whole

FORMAT = 2  # The format of the records.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Done:
    """A finished stage.

    Attributes:
        files: the hashes of its files by name.
        notes: its results as JSON data.
        seconds: the time that it took when it ran.
        kept: whether an earlier call finished it.
        key: the hash of its inputs.
    """

    files: dict[str, str]
    notes: JsonObject
    seconds: float
    kept: bool
    key: str


class Stages:
    """The stages of one run in one folder.

    Args:
        folder: the folder of all files; the first stage creates it.
        tell: a function that shows a line to the user.
    """

    def __init__(self, folder: str | Path, tell: Tell = lambda line: None):
        self.folder, self.tell, self.done = Path(folder), tell, {}

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def run(self, name: str, inputs: Mapping[str, object], outputs: Sequence[str], make: Callable[[str], Mapping[str, Any] | None]) -> Done:
        """Run a stage, or reuse the files of an earlier call with identical inputs.

        The files are reused if they exist and are unchanged.

        Args:
            name: the name of the stage.
            inputs: everything that its files depend on: options, and hashes of files.
            outputs: the files that it writes, relative to the folder.
            make: a function that writes the files and returns notes. It is called with the hash of
                the inputs.

        Raises:
            GmlmError: from `make`; E560 if nothing can be written.
        """
        key = hash_of([FORMAT, name, inputs])
        record = self.folder / "stages" / f"{name}.json"
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise fail("E560", f"cannot write {self.folder}: {error.strerror or error}", help="choose another folder") from None
        known = self._known(record, key, outputs)
        if known is not None:
            self.note({"stage": name, "event": "kept"})
            self.tell(f"{name}: done before, {known.seconds:.1f} s")
            self.done[name] = known
            return known
        self.note({"stage": name, "event": "started"})
        self.tell(f"{name} ..")
        started = time.perf_counter()
        try:
            for output in outputs:
                (self.folder / output).parent.mkdir(parents=True, exist_ok=True)
            notes = dict(make(key) or {})
        except BaseException as error:
            reason = error.diagnostics[0].message if isinstance(error, GmlmError) else f"{type(error).__name__}: {error}"
            with contextlib.suppress(GmlmError):  # A full disk must not hide why the stage failed.
                self.note({"stage": name, "event": "failed", "reason": reason})
            raise
        seconds = time.perf_counter() - started
        files = {output: file_hash(self.folder / output) for output in outputs}
        content = {"key": key, "inputs": inputs, "files": files, "notes": notes, "seconds": seconds}
        write_whole(record, json.dumps(content, indent=1, default=str).encode())
        self.note({**notes, "stage": name, "event": "finished", "seconds": seconds})
        self.tell(f"{name}: {seconds:.1f} s")
        self.done[name] = Done(files, json.loads(json.dumps(notes, default=str)), seconds, False, key)
        return self.done[name]

    def inputs(self, name: str) -> JsonObject:
        """Return the inputs of the last run of a stage; nothing without a readable record."""
        try:
            return dict(json.loads((self.folder / "stages" / f"{name}.json").read_text(encoding="utf-8"))["inputs"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _known(self, record: Path, key: str, outputs: Sequence[str]) -> Done | None:
        try:
            found = json.loads(record.read_text(encoding="utf-8"))
            if found["key"] != key or set(found["files"]) != set(outputs):
                return None
            if any(file_hash(self.folder / name) != digest for name, digest in found["files"].items()):
                return None
            return Done(dict(found["files"]), dict(found["notes"]), float(found["seconds"]), True, key)
        except (GmlmError, OSError, ValueError, KeyError, TypeError):
            return None

    def note(self, line: Mapping[str, object]) -> None:
        """Append a line to the log.

        Raises:
            GmlmError: E560 if it cannot be written.
        """
        append(self.folder / "log.jsonl", {"time": round(time.time(), 3), **line})


def append(path: Path, line: Mapping[str, object]) -> None:
    """Append a line of JSON to a file.

    Raises:
        GmlmError: E560 if it cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        raise fail("E560", f"cannot write `{path}`: {error.strerror or error}") from None


def hash_of(value: object) -> str:
    """Return the SHA-256 hash of JSON data."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 hash of a file's bytes.

    Raises:
        GmlmError: E120 if the file cannot be read.
    """
    digest = hashlib.sha256()
    with reading(path), Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
