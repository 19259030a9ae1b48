"""Modes by PGMax: `python _pgmax_peer.py FILE`, in an environment with PGMax and JAX; prints JSON.

The file is what `modes.py` writes. PGMax 0.6.1 asks `jax.lib.xla_bridge` for the backend, a name that JAX has removed; it is put back.
"""

import json
import sys
import time
import types

import jax
import jax.extend.backend
import numpy as np

if not hasattr(jax.lib, "xla_bridge"):
    jax.lib.xla_bridge = types.SimpleNamespace(get_backend=jax.extend.backend.get_backend)

from pgmax import fgraph, fgroup, infer, vgroup

SURE = 1e6  # added to the evidence of a known value


def decoded(graph, evidence, iterations):
    """The decoded values by variable, of max-product with PGMax's own damping."""
    bp = infer.build_inferer(graph.bp_state, backend="bp")
    arrays = bp.init(evidence_updates={v: jax.device_put(e) for v, e in evidence.items()})
    arrays = bp.run(arrays, num_iters=iterations, damping=0.5, temperature=0.0)
    return infer.decode_map_states(bp.get_beliefs(arrays))


def lattice(task):
    field = task["field"]
    n, m, _ = field.shape
    x = vgroup.NDVarArray(num_states=2, shape=(n, m))
    graph = fgraph.FactorGraph(variable_groups=x)
    pairs = [[x[i, j], x[k, o]] for i in range(n) for j in range(m) for k, o in (((i + 1) % n, j), (i, (j + 1) % m))]
    table = float(task["coupling"]) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=table))
    return {"x": np.asarray(decoded(graph, {x: field}, 3000)[x]).tolist()}


def deconvolution(task):
    us, uw, seen = task["us"], task["uw"], task["seen"]
    patch = uw.shape[1]
    s, w = vgroup.NDVarArray(num_states=2, shape=us.shape), vgroup.NDVarArray(num_states=2, shape=uw.shape)
    both = vgroup.NDVarArray(num_states=2, shape=(*us.shape, patch, patch))
    x = vgroup.NDVarArray(num_states=2, shape=seen.shape)
    graph = fgraph.FactorGraph(variable_groups=[s, w, both, x])
    ands, causes = [], {}
    for i, f, r, c, a, b in np.ndindex(*both.shape):
        ands.append([s[i, f, r, c], w[f, a, b], both[i, f, r, c, a, b]])
        causes.setdefault((i, r + a, c + b), []).append(both[i, f, r, c, a, b])
    graph.add_factors(fgroup.ANDFactorGroup(variables_for_factors=ands))
    ors = [[*found, x[place]] for place, found in causes.items()]
    graph.add_factors(fgroup.ORFactorGroup(variables_for_factors=ors))
    known = np.zeros((*seen.shape, 2))
    known[..., 1] = np.where(seen, SURE, -SURE)
    off = np.zeros((*us.shape, 2)), np.zeros((*uw.shape, 2))
    off[0][..., 1], off[1][..., 1] = us, uw
    found = decoded(graph, {s: off[0], w: off[1], x: known}, 1000)
    return {"s": np.asarray(found[s]).tolist(), "w": np.asarray(found[w]).tolist()}


def machine(task):
    w = task["w"]
    h, x = (vgroup.NDVarArray(num_states=2, shape=(n,)) for n in w.shape)
    graph = fgraph.FactorGraph(variable_groups=[h, x])
    tables = np.zeros((w.size, 2, 2))
    tables[:, 1, 1] = w.ravel()
    pairs = [[h[j], x[i]] for j, i in np.ndindex(*w.shape)]
    graph.add_factors(fgroup.PairwiseFactorGroup(variables_for_factors=pairs, log_potential_matrix=tables))
    found = decoded(graph, {h: task["u"], x: task["b"]}, 500)
    return {"h": np.asarray(found[h]).tolist(), "x": np.asarray(found[x]).tolist()}


if __name__ == "__main__":
    with np.load(sys.argv[1]) as task:
        began = time.process_time()
        answer = (lattice if "field" in task else machine if "b" in task else deconvolution)(task)
    print(json.dumps({"took": time.process_time() - began, "modes": answer}))
