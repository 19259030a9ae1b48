"""NUTS of Stan and of PyMC on the pseudolikelihood of all pairs of spins, run by an interpreter that has both.

`python _nuts_peer.py TOOL ROWS.npy PROGRAM.stan DRAWS FOLDER` writes the draws of every run into FOLDER and prints the processor
seconds of the draws, without those of the warm-up.
It knows nothing of this project, whose interpreter need not have PyStan or PyMC. Chains run one after another on one core.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

CHAINS, WARMUP, SEEDS = 4, 300, (1, 2)
warnings.filterwarnings("ignore")


def stan_sampler(x, program):
    import stan

    n = x.shape[1]
    data = {"N": len(x), "n": n, "x": x.tolist(), "y": ((x + 1) // 2).astype(int).tolist()}

    def run(seed, draws):
        # the program is compiled once, and built again for each seed from what was kept
        posterior = stan.build(program, data=data, random_seed=seed)
        start = time.perf_counter()
        fit = posterior.sample(num_chains=CHAINS, num_warmup=WARMUP, num_samples=draws, save_warmup=True)
        took = time.perf_counter() - start
        # (chains, steps of the warm-up and draws, ..): a draw costs its gradients
        gradients = by_chain(fit["n_leapfrog__"])[:, 0]
        share = gradients[:, WARMUP:].sum() / gradients.sum()
        return took * share, {name: by_chain(fit[name])[..., WARMUP:] for name in ("h", "J")}

    return run


def by_chain(values):
    """An array (.., steps and chains) as (chains, entries, steps)."""
    steps = values.shape[-1] // CHAINS
    return np.moveaxis(values.reshape(-1, steps, CHAINS), 2, 0)


def pymc_sampler(x, _):
    import pymc as pm
    import pytensor.tensor as pt

    n = x.shape[1]
    i, j = np.triu_indices(n, 1)
    with pm.Model() as model:
        h, J = pm.Normal("h", 0, 1, shape=n), pm.Normal("J", 0, 1, shape=len(i))
        A = pt.set_subtensor(pt.zeros((n, n))[i, j], J)
        pm.Bernoulli("votes", logit_p=2 * (h + pt.dot(x, A + A.T)), observed=(x + 1) / 2)

    def run(seed, draws):
        how = {"chains": CHAINS, "cores": 1, "random_seed": seed, "progressbar": False, "compute_convergence_checks": False}
        with model:
            found = pm.sample(draws, tune=WARMUP, **how)
        took = float(found.sample_stats["process_time_diff"].sum())
        return took, {name: np.moveaxis(np.asarray(found.posterior[name]), 1, 2) for name in ("h", "J")}

    return run


def main(tool, rows, program, draws, folder):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = {"stan": stan_sampler, "pymc": pymc_sampler}[tool](np.load(rows), Path(program).read_text())
    seconds = []
    for seed in SEEDS:
        took, drawn = run(seed, int(draws))
        seconds.append(took)
        np.savez(Path(folder) / f"{tool}{seed}.npz", **drawn)  # (chains, entries, draws)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
