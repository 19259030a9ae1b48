"""Files of fits, taken apart and put together again, as anyone can who knows the format: with hashes that agree."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SAVED = Path(__file__).parent / "saved"  # fits that the version before wrote, see `test_saved_fits.py`
Parts = dict[str, bytes]


def parts_of(data: bytes) -> Parts:
    """The members of a ZIP archive by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {i.filename: archive.read(i) for i in archive.infolist()}


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def with_manifest(parts: Mapping[str, bytes], **entries: Any) -> Parts:
    """The parts behind a manifest that agrees with them, but for `members` and `sha256` where they are given."""
    hashes = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in parts.items()}
    members, own = entries.pop("members", None), entries.pop("sha256", None)
    manifest = entries | {"members": hashes if members is None else members}
    right = hashlib.sha256(json.dumps(manifest, indent=1).encode()).hexdigest()
    return {"manifest.json": json.dumps(manifest | {"sha256": own or right}, indent=1).encode(), **parts}


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=True)
    return buffer.getvalue()


def content_of(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a file of either format says of the fit, and its arrays by name."""
    parts = parts_of(data)
    manifest = json.loads(parts.pop("manifest.json", b"{}"))
    arrays = {name.removesuffix(".npy"): np.load(io.BytesIO(part)) for name, part in parts.items()}
    meta = manifest["meta"] if manifest else json.loads(arrays.pop("meta").tobytes())
    meta.pop("format", None)
    return meta, arrays


def now(meta: Any, arrays: Mapping[str, Any]) -> bytes:
    """A file of today's format."""
    parts = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    return zipped(with_manifest(parts, format=2, kind="gmlm fit", meta=meta))


def before(meta: Any, arrays: Mapping[str, Any]) -> bytes:
    """A file of the format before, as NumPy compresses it."""
    text = json.dumps(meta | {"format": 1} if isinstance(meta, dict) else meta)
    parts = {f"{name}.npy": npy(array) for name, array in arrays.items()}
    return zipped({**parts, "meta.npy": npy(np.frombuffer(text.encode(), np.uint8))}, zipfile.ZIP_DEFLATED)


WRITERS: dict[str, Callable[[Any, Mapping[str, Any]], bytes]] = {"now": now, "before": before}
