"""NUTS of Stan and of PyMC on the pseudolikelihood of all pairs of spins, run by an interpreter that has both.

`python _nuts_peer.py TOOL ROWS.npy PROGRAM.stan DRAWS FOLDER` writes the draws of every run into FOLDER and prints its seconds.
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
        fit = posterior.sample(num_chains=CHAINS, num_warmup=WARMUP, num_samples=draws)
        took = time.perf_counter() - start
        return took, {name: np.moveaxis(fit[name].reshape(-1, draws, CHAINS), 2, 0) for name in ("h", "J")}

    return run


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
        with model:
            start = time.perf_counter()
            found = pm.sample(
                draws, tune=WARMUP, chains=CHAINS, cores=1, random_seed=seed, progressbar=False, compute_convergence_checks=False
            )
            took = time.perf_counter() - start
        return took, {name: np.moveaxis(np.asarray(found.posterior[name]), 1, 2) for name in ("h", "J")}

    return run


def main(tool, rows, program, draws, folder):
    """Two runs of each seed, a short one and a long one: the difference of their seconds is that of the draws, without the warm-up."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = {"stan": stan_sampler, "pymc": pymc_sampler}[tool](np.load(rows), Path(program).read_text())
    run(1, 1)  # compiles
    seconds = []
    for seed in SEEDS:
        short, _ = run(seed, 1)
        long, drawn = run(seed, int(draws) + 1)
        seconds.append(long - short)
        np.savez(Path(folder) / f"{tool}{seed}.npz", **drawn)  # (chains, entries, draws)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
