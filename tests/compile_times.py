"""How long a model takes to compile, beside an earlier release: `python tests/compile_times.py CHECKOUT [--repeats 5] [--out FILE]`.

CHECKOUT is a working tree of the earlier release (`git worktree add FOLDER COMMIT`). Each model is fitted and sampled twice in a fresh
process without any cache on disk; what the first call takes more of the processor than the second is tracing and compiling. Both
checkouts take turns, in one environment. A ratio is that of medians; the target is 1.2 at most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = 1.2
MODELS = {
    "ising": """
graph G = grid(6, 6)
model m {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask one for m = subsets(x, size = 1)
sampler s for m { update x[i] for i in G.nodes }
""",
    "potts": """
graph G = complete(8)
model m {
  var x[i in G.nodes] : range(4)
  param h[i in G.nodes, a in range(4)] ~ normal(0, 1)
  param J[(i, j) in G.edges, a in range(4), b in range(4)] ~ normal(0, 1)
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask one for m = subsets(x, size = 1)
sampler s for m { update x[i] for i in G.nodes }
""",
    "pairs of a chain": """
graph G = chain(24)
model m {
  var x[i in G.nodes] : bit
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one for m = subsets(x, size = 2)
sampler s for m { update {x[i], x[j]} for (i, j) in G.edges }
""",
    "temperatures": """
graph G = grid(5, 5, wrap = true)
model m {
  var x[i in G.nodes] : range(3)
  param J ~ normal(0, 1)
  factor J * (x[i] == x[j]) for (i, j) in G.edges
}
mask one for m = subsets(x, size = 1)
sampler s for m { temper(betas = [0.5, 0.8, 1.0]) { update x[i] for i in G.nodes } }
""",
}
CHILD = """
import json, sys, time
import numpy as np
import gmlmdsl as gm

assert gm.__file__.startswith(sys.argv[1]), gm.__file__
model = gm.parse(sys.argv[2]).model("m")
domain = {"ising": [-1, 1], "potts": range(4), "pairs of a chain": [0, 1], "temperatures": range(3)}[sys.argv[3]]
x = np.random.default_rng(0).choice(list(domain), (200, model.graph.n_random))
shape = {v.name: (200, *v.shape) for v in model.graph.variables}
x = {name: x.reshape(s) for name, s in shape.items()}

def fit():
    return model.fit(x, mask="one", progress=False)

def sample():
    return model.sample(params, "s", draws=20, chains=2, progress=False)

out = {}
for verb, call in (("fit", fit), ("sample", sample)):
    took = []
    for _ in range(2):
        began = time.process_time()
        found = call()
        took.append(time.process_time() - began)
    params = found.params if verb == "fit" else None
    out[verb] = took[0] - took[1]
print(json.dumps(out))
"""


def measured(checkout: Path, model: str) -> dict[str, float]:
    """Seconds of the processor that the first fit and the first draws of a process take more than the second ones."""
    names = {"PYTHONPATH": str(checkout), "GMLM_CACHE": "off", "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", CHILD, str(checkout), MODELS[model], model]
    done = subprocess.run(command, env=os.environ | names, cwd="/", capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{checkout}, {model}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a working tree of the earlier release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a JSON file for the medians")
    o = parser.parse_args()
    earlier, found = o.checkout.resolve(), {}
    print(f"{'':<26}{'before':>9}{'now':>9}{'ratio':>8}")
    for model in MODELS:
        runs = [(measured(earlier, model), measured(ROOT, model)) for _ in range(o.repeats)]
        for verb in ("fit", "sample"):
            before, now = (statistics.median(run[k][verb] for run in runs) for k in (0, 1))
            found[f"{model}, {verb}"] = {"before": before, "now": now, "ratio": now / before}
            print(f"{model + ', ' + verb:<26}{before:>9.2f}{now:>9.2f}{now / before:>8.2f}", flush=True)
    if o.out:
        o.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(max(entry["ratio"] for entry in found.values()) > TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
