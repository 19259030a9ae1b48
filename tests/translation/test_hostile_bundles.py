"""Bundles that someone made to harm: each is loaded whole under an audit hook, and reads no other file, runs no code, opens no connection.

Hashes and manifests agree, as anyone can make them. A case is an attack on one part and a number that varies it; the night takes all of them.
"""

from __future__ import annotations

import io
import json
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_cases import PROGRAM, Members, bytes_of, fit_of, members_of, rehashed, toy_vocabulary, zipped
from saved_cases import content_of, now

import gmlmdsl as gm
from gmlmdsl.graph import hash_of_texts
from gmlmdsl.translation import Bundle, load_translator

# What Python reports of code that runs, of processes and of connections, whoever asks for it.
RUNS = ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.fork", "subprocess.Popen", "socket.connect",
        "urllib.Request", "ftplib.connect", "os.rename", "os.mkdir", "os.symlink", "marshal.load")  # fmt: skip
VARIANTS = 20
ROOTS = tuple(str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix, Path(gm.__file__).parent))


class Bait:
    """What a pickle of it would do where it is loaded: write a file."""

    def __init__(self, marker: str):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.marker, "w")


HEARD: list[tuple[str, str]] = []
LISTENS = [False]


def heard(event: str, args: tuple[Any, ...]) -> None:
    if LISTENS[0] and (event == "open" or event.startswith(RUNS)):
        HEARD.append((event, str(args[0])[:200] if args else ""))


@contextmanager
def listening() -> Iterator[list[tuple[str, str]]]:
    """What is opened and run meanwhile; a hook cannot be taken away, so that it is silent elsewhere."""
    if not HEARD and not LISTENS[0]:
        sys.addaudithook(heard)
    HEARD.clear()
    LISTENS[0] = True
    try:
        yield HEARD
    finally:
        LISTENS[0] = False


def foreign(events: list[tuple[str, str]], allowed: Path) -> list[tuple[str, str]]:
    """Events but the reading of the bundle, of Python's and the package's own files, and within a temporary folder of its own."""
    temporary = str(Path(tempfile.gettempdir()).resolve() / tempfile.gettempprefix())
    made = [name for event, name in events if event == "os.mkdir" and name.startswith(temporary)]

    def own(event: str, name: str) -> bool:
        # A folder is removed by the names of its parts alone.
        within = any(Path(name).resolve().is_relative_to(folder) or name == Path(folder).name for folder in made)
        return within or (
            event == "open" and (name in (str(allowed), __file__) or name.isdigit() or str(Path(name).resolve()).startswith(ROOTS))
        )

    return [e for e in events if not own(*e)]


def with_program(meta: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    return meta | {"program": files, "sha256": hash_of_texts(files)}


Attack = Callable[[Members, int, Path], Members]


def program(text: str) -> Attack:
    """Another program: in its own part, and in the fit that has to agree with it."""

    def attack(members: Members, k: int, folder: Path) -> Members:
        stated = text.replace("$FILE", str(folder / f"secret{k}.gmlm")).replace("$K", str(k)).replace("$DEEP", "(" * 50 * (k + 1))
        (folder / f"secret{k}.gmlm").write_text("graph G = chain(3)\n")
        meta, arrays = content_of(members["student.fit"])
        meta = with_program(meta, {next(iter(meta["program"])): stated})
        return rehashed({**members, "program.gmlm": stated.encode(), "student.fit": now(meta, arrays)})

    return attack


def more_programs(members: Members, k: int, folder: Path) -> Members:
    """Files beside the program under names that lead out of the archive."""
    meta, arrays = content_of(members["student.fit"])
    (folder / "secret.gmlm").write_text("graph G = chain(3)\n")
    names = ["../secret.gmlm", str(folder / "secret.gmlm"), "secret.gmlm\0.gmlm", "~/secret.gmlm", "file:///etc/passwd"]
    first = next(iter(meta["program"]))
    text = f'import "{names[k % 5]}"\n' + meta["program"][first] if k % 2 else meta["program"][first]
    beside = "graph G = chain(3)\n"
    meta = with_program(meta, {first: text, names[k % 5]: beside} if k % 3 else {names[(k + 1) % 5]: beside, first: text})
    return rehashed({**members, "program.gmlm": text.encode(), "student.fit": now(meta, arrays)})


def pickled(members: Members, k: int, folder: Path) -> Members:
    """Arrays of objects, whose reading runs what they say."""
    meta, arrays = content_of(members["student.fit"])
    name = sorted(arrays)[k % len(arrays)]
    arrays[name] = np.array([Bait(str(folder / "marker"))] * (k % 3 + 1), dtype=object)
    return rehashed({**members, "student.fit": now(meta, arrays)})


def bare_pickle(members: Members, k: int, folder: Path) -> Members:
    """A pickle in the place of a part."""
    part = ("student.fit", "vocabulary.model", "report.json", "program.gmlm")[k % 4]
    return rehashed({**members, part: pickle.dumps(Bait(str(folder / "marker")), protocol=k % 6)})


def header(members: Members, k: int, folder: Path) -> Members:
    """Headers of arrays that are expressions, or shapes beyond any memory."""
    meta, arrays = content_of(members["student.fit"])
    parts = {**members_of(now(meta, arrays))}
    name = next(n for n in sorted(parts) if n.endswith(".npy"))
    marker = folder / "marker"
    texts = [
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10 ** (k + 3)},)}}",
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': (open({str(marker)!r}, 'w') and 1,)}}",
        f"__import__('os').system('touch {marker}')",
        f"{{'descr': '|O', 'fortran_order': False, 'shape': ({k},)}}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}" + " " * k,
    ]
    text = texts[k % 5].encode() + b"\n"
    parts[name] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 64
    return rehashed({**members, "student.fit": zipped(rehashed(parts))})


def settings(members: Members, k: int, folder: Path) -> Members:
    """What a fit says of itself, changed."""
    meta, arrays = content_of(members["student.fit"])
    name = sorted(meta)[k % len(meta)]
    meta[name] = [str(folder / "secret"), 10**k, {"a": [None] * k}, "x" * 10 ** (k % 6), [[]] * k, -k, None, True][(k * 7) % 8]
    return rehashed({**members, "student.fit": now(meta, arrays)})


def vocabulary(members: Members, k: int, folder: Path) -> Members:
    """Bytes of a model of SentencePiece, changed at random places, cut, or doubled."""
    rng, data = np.random.default_rng(k), bytearray(members["vocabulary.model"])
    for at in rng.integers(0, len(data), k % 7 + 1):
        data[at] = int(rng.integers(256))
    changed = bytes(data)
    changed = (changed, changed[: int(rng.integers(len(changed)))], changed * 2, str(folder / "secret").encode())[k % 4]
    return rehashed({**members, "vocabulary.model": changed})


def report(members: Members, k: int, folder: Path) -> Members:
    values: list[Any] = [
        {"__class__": "os.system", "args": ["true"]},
        "a" * 10 ** (k % 6),
        {str(j): j for j in range(10 ** (k % 4))},
        [[[k]]],
        k,
    ]
    return rehashed({**members, "report.json": json.dumps(values[k % 5]).encode()})


def directions(members: Members, k: int, folder: Path) -> Members:
    """Entries of the manifest that would be paths or code elsewhere."""
    stated = [str(folder / "secret"), "$(touch marker)", "`touch marker`", "{0.__class__}", "%n%s", "../" * k, "a;b", "<script>"][k % 8]
    return rehashed(members, **{("direction", "sampler")[k // 8 % 2]: stated})


ATTACKS: dict[str, Attack] = {
    "another import": program('import "$FILE"\n' + PROGRAM),
    "a network of Python": program(PROGRAM.replace("encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16)", 'python("this:Zen")')),
    "deep brackets": program(PROGRAM + "graph G = chain($DEEP1)"),
    "huge ranges": program(PROGRAM.replace("range(6)", "range(6 * 10^$K)")),
    "wide networks": program(PROGRAM.replace("width = 16", "width = 16 * 4^$K").replace("layers = 1", "layers = 1 + $K")),
    "more programs": more_programs,
    "objects": pickled,
    "a bare pickle": bare_pickle,
    "headers": header,
    "settings": settings,
    "vocabulary": vocabulary,
    "report": report,
    "directions": directions,
}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    bundle = Bundle.of(fit_of(), toy_vocabulary(), "en-de", "decode", {"bleu": 12.5})
    return members_of(bytes_of(bundle, tmp_path_factory.mktemp("bundle")))


def harm(path: Path, data: bytes) -> list[tuple[str, str]]:
    """What was opened or run while a bundle was loaded whole; only errors of the language are taken."""
    path.write_bytes(data)
    with listening() as events, suppress(gm.GmlmError):
        load_translator(path)
    return foreign(events, path)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("part", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_a_hostile_bundle_reads_no_other_file_and_runs_no_code(attack: str, part: str, members: Members, tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    before = {p.name for p in tmp_path.iterdir()}
    harm(path, zipped(members))  # What is imported the first time is imported now.
    for k in range(3 if part == "some" else VARIANTS):
        assert harm(path, zipped(ATTACKS[attack](members, k, tmp_path))) == [], k
    assert "this" not in sys.modules
    left = {p.name for p in tmp_path.iterdir() if not p.name.startswith("secret")}
    assert left - before == {"a.bundle"}


def test_the_hook_hears_what_would_be_harm(tmp_path: Path) -> None:
    with listening() as events:
        pickle.load(io.BytesIO(pickle.dumps(Bait(str(tmp_path / "marker"))))).close()
    assert {"pickle.find_class", "open"} <= {event for event, _ in foreign(events, tmp_path / "a.bundle")}
    assert (tmp_path / "marker").exists()
