"""What must not depend on the order of a set: commands and calls that print what they found. `test_orders.py` runs them twice.

A process of its own runs a group of them in an empty folder, where hashes of text have their own seed: `python order_cases.py GROUP`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parent
MODEL = """\
input n : int
index site = range(n)
graph G = grid(2, n)
domain base = letters("abc")
model m {
  var    x[i in G.nodes] : base
  latent z : bit
  param  h[a in base]          ~ normal(0, 1)
  param  J[(i, j) in G.edges]  ~ normal(0, 1)
  factor h[x[i]]                   for i in G.nodes
  factor J[i, j] * (x[i] == x[j])  for (i, j) in G.edges
  factor 0.3 * z * (x[i] == "a")   for i in G.nodes
}
mask one   = subsets(x, size = 1)
mask pairs = subsets(x, size = 2)
sampler sweep { update x[i] for i in G.nodes  update z }
sampler mixed { mixture { 0.5 : update x[K] where K ~ pairs  0.5 : update x[i] for i in G.nodes }  update z }
"""
# Names that nothing declares, in every place that suggests others.
WRONG = """\
index site = range(4)
graph G = chian(4)
model m {
  var x[i in sites] : spn
  param field[i in site] ~ nomal(0, 1)
  param coupling ~ normal(0, 1)
  factor feild[i] * x[i] for i in site
  factor couplng * x[i] * x[j] for (i, j) in H.edges
}
mask one = subset(x, sise = 1)
mask two = blocks(G.row)
sampler s { update y[i] for i in site }
sampler t { update x where K ~ on }
"""


def gmlm(*words: str) -> None:
    """A command in this process; what it prints and its status, without the seconds that it took."""
    from typer.testing import CliRunner

    from gmlmdsl.cli._commands import app

    print("$ gmlm", *words)
    result = CliRunner().invoke(app, list(words))
    print(re.sub(r"\b[\d.e-]+ (s|ms)\b", "_ s", result.output), result.exit_code, sep="")


def hashed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def refused(call: Callable[[], object]) -> None:
    from gmlmdsl import GmlmError

    try:
        call()
    except GmlmError as error:
        print(error)
    else:
        raise AssertionError("nothing was refused")


def programs() -> None:
    Path("wrong.gmlm").write_text(WRONG)
    gmlm("check", "wrong.gmlm")
    gmlm("check", "--json", "wrong.gmlm")
    for path in sorted((HERE / "programs" / "good").glob("*.gmlm"))[::4]:
        gmlm("explain", str(path))
    for name in ("adaptive", "hmm", "mixed", "translate"):
        gmlm("info", str(ROOT / "examples" / f"{name}.gmlm"))
    Path("m.gmlm").write_text(MODEL)
    gmlm("explain", "m.gmlm", "--input", "n=3")
    gmlm("explain", "m.gmlm", "--input", "m=3")
    gmlm("info", "m.gmlm", "--json", "--input", "n=3")


def plans() -> None:
    import gmlmdsl as gm
    from gmlmdsl.graph.colours import colour
    from gmlmdsl.plan import plan_elimination

    graph = gm.parse(MODEL, n=5).model().graph
    plan = plan_elimination(graph)
    print(plan.cells.tolist(), plan.parents.tolist(), colour(graph, np.arange(graph.n_cells)[:, None]).tolist())


def fitted() -> np.ndarray:
    """`m.fit`, a fit to letters, and its rows."""
    Path("m.gmlm").write_text(MODEL)
    x = np.random.default_rng(0).choice(list("abc"), (40, 4))
    lines = [",".join(f"site{k}" for k in range(4)), *(",".join(row) for row in x)]
    Path("x.csv").write_text("\n".join(lines) + "\n")
    gmlm("fit", "m.gmlm", "x.csv", "-i", "n=2", "--mask", "one", "--out", "m.fit")
    return x


def fits() -> None:
    import gmlmdsl as gm

    x = fitted()
    gmlm("fit", "m.gmlm", "x.csv", "-i", "n=2", "--mask", "on")
    gmlm("fit", "m.gmlm", "x.csv", "-i", "n=2", "--where", "site0=elsewhere")
    fit = gm.load_fit("m.fit")
    timeless = dataclasses.replace(fit, meta=fit.meta | {"seconds": 0.0})
    timeless.save("timeless.fit")
    print(timeless.meta, {k: hashed(np.asarray(v).tobytes()) for k, v in fit.params.items()}, hashed(Path("timeless.fit").read_bytes()))
    refused(lambda: fit.model.loss(fit.params | {"zz": 1, "mm": 2, "aa": 3}, x, "one"))
    refused(lambda: fit.model.loss({}, x, "one"))


def masks() -> None:
    fitted()
    gmlm("masks", "m.fit", "--suggest", "--no-times")
    gmlm("sample", "m.fit", "--sampler", "mixed", "--draws", "20", "--warmup", "5")


def networks() -> None:
    from networks_cases import made
    from test_conditional_errors import N, Q, X

    def net(options: str) -> object:
        return made(f"transformer(layers = 1, width = 8, {options})", N, Q, "mask one = subsets(x, size = 1)")

    model = net("heads = 2")
    for other in ("heads = 4", "heads = 2, ffn = 24", "heads = 2, position_embeddings = true", "heads = 1, ffn = 8"):
        params = net(other).init_params()
        refused(lambda p=params: model.loss(p, X, "one", missing=-1))


def bundles() -> None:
    import jax
    from bundle_cases import fit_of, toy_vocabulary

    from gmlmdsl.translation import Bundle, write_bundle

    jax.config.update("jax_numpy_dtype_promotion", "standard")
    words = toy_vocabulary()
    made = Bundle.of(fit_of(), words, "en-de", "decode", {"bleu": 12.5, "note": "ß"})
    write_bundle("a.bundle", made)
    print(hashed(Path("a.bundle").read_bytes()), words.data.hex()[:400])


GROUPS = {"programs": [programs], "numbers": [plans, networks], "long": [fits, masks, bundles]}

if __name__ == "__main__":
    for case in GROUPS[sys.argv[1]]:
        print(f"== {case.__name__}")
        case()
