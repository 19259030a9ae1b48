"""What the first calls of a fresh process compile: that, and imports, is nearly all the time that they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CHAIN = """
index time = range(12)
index tag  = range(2)
index sign = range(3)
model chain {
  latent z[t in time] : tag
  var    x[t in time] : sign
  param start[a in tag]
  param move[a in tag, b in tag]
  param emit[a in tag, c in sign]
  factor start[z[0]]
  factor move[z[t - 1], z[t]] for t in time if t > 0
  factor emit[z[t], x[t]]     for t in time
}
sampler gibbs {
  update z[t] for t in time
  update x[t] for t in time
}
"""
SCRIPT = """
import json, sys
import jax
import numpy as np
import gmlmdsl as gm

compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda event, _, **more: compiled.append(event) if "backend_compile" in event else None)
model = gm.parse(sys.stdin.read()).model()
params = {"start": np.ones(2), "move": np.ones((2, 2)), "emit": np.ones((2, 3))}
calls = {
    "log_partition": lambda: model.log_partition(params),
    "map": lambda: model.map(params),
    "marginals": lambda: model.marginals(params),
    "next_symbol": lambda: model.next_symbol(params, [0, 1, 2]),
    "exact": lambda: model.sample(params, "exact", draws=10, chains=4, progress=False),
    "gibbs": lambda: model.sample(params, "gibbs", draws=10, warmup=0, chains=4, progress=False),
    "after a warm-up": lambda: model.sample(params, "gibbs", draws=10, warmup=5, chains=4, progress=False),
}
counts, loaded = {}, {}
for name, call in calls.items():
    compiled.clear()
    loaded[name] = [m for m in ("arviz", "matplotlib", "numpyro", "scipy.optimize", "scipy.special", "scipy.stats") if m in sys.modules]
    call()
    counts[name] = len(compiled)
print(json.dumps([counts, loaded]))
"""


def test_first_calls_share_their_programs(tmp_path: Path):
    """They compiled 18, and one for a warm-up besides."""
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    run = subprocess.run(command, input=CHAIN, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    counts, loaded = json.loads(run.stdout)
    assert counts["log_partition"] <= 3  # what stands in the tables, their sums, one entry of an array
    assert counts["map"] <= 1
    assert counts["marginals"] <= 1
    assert counts["next_symbol"] == 0
    assert counts["exact"] <= 2  # keys, draws
    assert counts["after a warm-up"] == 0
    assert loaded["after a warm-up"] == []  # labelled draws are there, and nothing was asked of them
