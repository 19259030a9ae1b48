"""A sound file of every kind that is read, and what may be done with it: for tests of damaged files, and for fuzzing."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
from damage import Files

import gmlmdsl as gm
from gmlmdsl.cli._program_arguments import read_weights
from gmlmdsl.data import encode
from gmlmdsl.read import read_arrays

TEXT = """index item = range(3)
graph G = complete(item)
model m {
  var x[i in item] : labels("no", "yes")
  param h[i in item] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * (x[i] == "yes") for i in item
  factor J[i, j] * (x[i] == "yes") * (x[j] == "yes") for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler sweep { update x[i] for i in item }
"""
FAMILY = 'index site = range(4) model f { var x[i in site] : letters("-ACD") factor 0.1 for i in site } mask one = subsets(size = 1)'


def models_of_files() -> dict[str, Any]:
    """The models that the files are data of."""
    return {"m": gm.parse(TEXT, coords={"item": ["a", "b", "c"]}).model(), "f": gm.parse(FAMILY).model()}


def sound_files(models: dict[str, Any], folder: Path) -> Files:
    """A sound file of each kind, by name; `folder` is written to."""
    rng = np.random.default_rng(0)
    x = rng.random((24, 3)) < 0.5
    table = "a,b,c\n" + "".join(",".join(np.where(row, "yes", "no")) + "\n" for row in x)
    family = "".join(f">s{k}/1-4\n{''.join(rng.choice(list('-ACD'), 4))}\n" for k in range(12)).replace("\n-", "\nA", 1)
    np.save(folder / "d.npy", x.astype(np.int64))
    np.savez(folder / "d.npz", x=x.astype(np.int64))
    np.savez_compressed(folder / "packed.npz", x=x.astype(np.int8))
    np.savez(folder / "params.npz", h=np.zeros(3), J=np.zeros(3))
    with jax.numpy_dtype_promotion("standard"):
        models["m"].fit(x.astype(int), mask="single").save(folder / "m.fit")
    texts = {
        "d.csv": table,
        "d.tsv": table.replace(",", "\t"),
        "d.txt": table.replace(",", " "),
        "d.a2m": family,
        "d.fasta": family.lower().upper(),
        "d.a3m": "#4\t1\n" + family.replace("\nA", "\nAaa"),
        "d.sto": "# STOCKHOLM 1.0\n#=GF ID F\n" + family.replace("\n", " ").replace(">", "\n").strip() + "\n//\n",
    }
    if find_spec("pyarrow"):
        pd.DataFrame(np.where(x, "yes", "no"), columns=list("abc")).to_parquet(folder / "d.parquet")
    texts |= {"m.gmlm": TEXT, "w.csv": "w\n" + "1.5\n" * 24}
    out = {p.name: p.read_bytes() for p in sorted(folder.iterdir())} | {name: text.encode() for name, text in texts.items()}
    return out | {"d.csv.gz": gzip.compress(table.encode(), mtime=0), "d.fasta.gz": gzip.compress(family.encode(), mtime=0)}


def readers(models: dict[str, Any], name: str) -> list[Callable[[Path], Any]]:
    """What may be done with a file of this name from Python."""
    m, f = models["m"], models["f"]

    def table(path: Path) -> Any:
        return encode(m.graph, gm.read_table(path, missing="?"), missing="?")

    def alignment(path: Path) -> Any:
        found = gm.read_alignment(path, alphabet="-ACD")
        gm.sequence_weights(found)
        return encode(f.graph, found)

    def arrays(path: Path) -> Any:
        return encode(m.graph, next(iter(read_arrays(path).values()), None))

    kinds = {"csv": table, "tsv": table, "txt": table, "parquet": table, "npy": arrays, "npz": arrays}
    kinds |= dict.fromkeys(("a2m", "a3m", "fasta", "sto"), alignment)
    if name.endswith(".fit"):
        return [gm.load_fit, lambda path: gm.load_fit(io.BytesIO(path.read_bytes()))]
    if name.endswith(".gmlm"):
        return [gm.load]
    if name == "w.csv":
        return [lambda path: read_weights(str(path), None)]
    if name == "params.npz":
        return [lambda path: m.log_prob(read_arrays(path), [[0, 1, 1]])]
    return [kinds[name.removesuffix(".gz").rpartition(".")[2]]]
