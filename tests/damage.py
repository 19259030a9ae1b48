"""Files as they arrive when something went wrong, or somebody means harm: truncated, flipped, spliced, lying about their sizes, bombs.

Each is made from sound files and a seed; the same numbers give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import random
import struct
import warnings
import zipfile
from collections.abc import Callable

import numpy as np

Files = dict[str, bytes]  # sound files by name; the ending says what they are
Damage = Callable[[random.Random, str, bytes, Files], bytes]


def truncated(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flipped(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 2, 8, 64])):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def flipped_early(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Among the first bytes, where headers stand."""
    return flipped(rng, name, data[:160], files) + data[160:]


def flipped_late(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Among the last bytes, where an archive has its directory."""
    return data[:-200] + flipped(rng, name, data[-200:], files)


def zeroed(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    start = rng.randrange(len(data) + 1)
    length = rng.choice([1, 16, 300])
    return data[:start] + b"\0" * min(length, len(data) - start) + data[start + length :]


def inserted(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Bytes that mean something to some reader, anywhere."""
    parts = [
        b"\0",
        b"\xff\xfe",
        b'"',
        b"\n",
        b"\r",
        b",",
        b"PK\3\4",
        b"PK\1\2",
        b"\x93NUMPY",
        b"9" * 5000,
        b"1e999",
        b"-" * 40,
        b"((((",
        b"\xc2\xb2",
    ]
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(parts) + data[at:]


def spliced(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """The beginning of one file, the end of another."""
    other = files[rng.choice(sorted(files))]
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def another(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Another kind's content under this name."""
    return files[rng.choice(sorted(files))]


def noise(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 2, 10, 100, 1000, 20000]))


def recoded(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(rng.choice(["utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037"]), "replace")


def repeated(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    return data * rng.choice([2, 3])


def huge_numbers(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Digits that stand in text or in a header become many."""
    places = [k for k, byte in enumerate(data) if chr(byte).isdigit()]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + rng.choice([b"9" * 12, b"9" * 19, b"9" * 400, b"9" * 4400, b"1e308", b"-1", b"0x1", b"1_0"]) + data[at + 1 :]


def lying_array(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """An array whose header declares what is not there; as an .npz file where the name says so."""
    shapes = [
        "(1000000000000,)",
        "(5, 1000000000000)",
        "(-1,)",
        "(-3, -4)",
        "(0, 9223372036854775807)",
        "(True, 4)",
        "(4",
        "4",
        "(2.0,)",
        "(10L,)",
    ]
    dtypes = [
        "'<f8'",
        "'|O'",
        "'<U999999999'",
        "'<i4'",
        "'|V8'",
        "'<M8[ns]'",
        "[('a', '<i4'), ('b', '|O')]",
        "'|b1'",
        "'<c16'",
        "None",
        "'z'",
        "'<f99'",
    ]
    order = rng.choice(["False", "True", "None", "__import__('os')", "1"])
    head = f"{{'descr': {rng.choice(dtypes)}, 'fortran_order': {order}, 'shape': {rng.choice(shapes)}, }}"
    head = rng.choice(
        [head, head, head[: rng.randrange(len(head))], head + "('", head.replace("}", "'''"), "(" * 3000, head * 40, "{" * 90]
    )
    length = rng.choice([len(head) + 1, len(head) + 1, 0, 65535])
    array = b"\x93NUMPY" + rng.choice([b"\1\0", b"\2\0", b"\3\0", b"\7\7"]) + struct.pack("<H", length) + head.encode() + b"\n" + data[:400]
    return _archive({"x.npy": array}, rng) if name.endswith("npz") else array


def objects(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Python objects, which would have to be unpickled."""
    buffer = io.BytesIO()
    array = np.array([[print, {"a": 1}], [None, "x"]], object)
    (np.savez if name.endswith("npz") else np.save)(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _archive(parts: dict[str, bytes], rng: random.Random, kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def hostile_archive(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """An archive of the right kind whose parts stand twice, have paths for names, are packed otherwise, or encrypted, or other things."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {i.filename: archive.read(i) for i in archive.infolist()}
    except zipfile.BadZipFile:
        parts = {"x.npy": data}
    strange = ["../../x.npy", "/etc/x.npy", "x.npy/", "C:\\x.npy", "x", ".", "x.npy\0.txt", "é.npy", "y.npy", "manifest.json", "meta.npy"]
    kinds = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", rng.choice(kinds)) as archive:
        warnings.simplefilter("ignore")
        for part, content in parts.items():
            archive.writestr(part if rng.random() < 0.7 else rng.choice(strange), content)
            if rng.random() < 0.3:
                archive.writestr(part, content[: rng.randrange(len(content) + 1)])
    out = bytearray(buffer.getvalue())
    if rng.random() < 0.6:  # fields of headers: flags, packing, checksums, sizes, offsets
        for mark, fields in ((b"PK\1\2", [8, 10, 16, 20, 24, 28, 38, 42]), (b"PK\3\4", [6, 8, 14, 18, 22, 26])):
            at = bytes(out).find(mark)
            if at >= 0 and rng.random() < 0.8:
                place = at + rng.choice(fields)
                out[place : place + 2] = rng.choice([b"\1\0", b"\xff\xff", b"\0\0", b"\x0e\0", b"\x63\0"])
    return bytes(out)


def bomb(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Few bytes that unpack to many: one array of zeros, overlapping members, or a text of one letter."""
    many = rng.choice([1 << 20, 1 << 25])
    if name.endswith(".gz"):
        return gzip.compress(rng.choice([b"1,", b"1\n", b">a\nA"]) * (many // 4), 1)
    array = b"\x93NUMPY\1\0" + struct.pack("<H", 118)
    array += f"{{'descr': '|i1', 'fortran_order': False, 'shape': ({many // 8}, 8), }}".ljust(117).encode() + b"\n" + b"\0" * many
    packed = bytearray(_archive({"x.npy": array}, rng, zipfile.ZIP_DEFLATED))
    at = packed.rfind(b"PK\1\2")
    if rng.random() < 0.5:  # a directory that lists it many times
        entry, end = bytes(packed[at:]), packed.rfind(b"PK\5\6")
        entry, tail = bytes(packed[at:end]), bytearray(packed[end:])
        count = rng.choice([50, 2000, 60000])
        tail[8:10] = tail[10:12] = struct.pack("<H", count)
        tail[12:16] = struct.pack("<I", count * len(entry))
        return bytes(packed[:at]) + entry * count + bytes(tail)
    if rng.random() < 0.5:  # sizes that lie
        packed[at + 24 : at + 28] = struct.pack("<I", rng.choice([10, 1 << 31, (1 << 32) - 2]))
    return bytes(packed)


def nested(rng: random.Random, name: str, data: bytes, files: Files) -> bytes:
    """Brackets, quotes and long lines."""
    return rng.choice(
        [b"[" * 20000, b'{"a":' * 5000, b"(" * 20000, b'"' + b"a" * 200000, b"a," * 100000, b"\n" * 100000, b">" * 10000, b"x\n" * 50000]
    )


TEXT = (truncated, flipped, zeroed, inserted, spliced, another, noise, recoded, repeated, huge_numbers, nested)
ARRAYS = (truncated, flipped, flipped_early, zeroed, spliced, another, noise, huge_numbers, lying_array, lying_array, objects)
ARCHIVES = (
    truncated,
    flipped,
    flipped_early,
    flipped_late,
    zeroed,
    spliced,
    another,
    noise,
    lying_array,
    objects,
    hostile_archive,
    hostile_archive,
    bomb,
)
PACKED = (truncated, flipped, flipped_early, flipped_late, another, noise, bomb)


def damages_of(name: str) -> tuple[Damage, ...]:
    """What may be done to a file of this name."""
    ending = name.rpartition(".")[2]
    kinds = {"npy": ARRAYS, "npz": (*ARRAYS, *ARCHIVES), "fit": ARCHIVES, "bundle": ARCHIVES, "gz": PACKED}
    return kinds.get(ending, TEXT)


def damaged(seed: int, name: str, files: Files) -> tuple[str, bytes]:
    """What was done to a file, and its bytes; sometimes two things."""
    rng = random.Random(f"{seed} {name}")
    data, words = files[name], []
    for _ in range(rng.choice([1, 1, 1, 2])):
        how = rng.choice(damages_of(name))
        data = how(rng, name, data, files)
        words.append(how.__name__)
    if name.endswith(".gz") and rng.random() < 0.5:  # the text within
        within = rng.choice([d for d in TEXT if d is not another])
        data, words = gzip.compress(within(rng, name, gzip.decompress(files[name]), files), 1), [within.__name__, "gzip"]
    return " + ".join(words), data
