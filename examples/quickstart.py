# Draw from an Ising model, fit it back from the draws, and sample the fit: `python examples/quickstart.py`.
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent


def main(side: int = 4, draws: int = 500) -> gm.Fit:
    ising = gm.load(HERE / "ising.gmlm", L=side).model("ising")
    rng = np.random.default_rng(0)
    truth = {name: rng.normal(0, 0.3, value.shape) for name, value in ising.init_params().items()}

    data = ising.sample(truth, "sweep", draws=draws, warmup=100, chains=4, seed=1, thin=5, progress=False)
    x = data["posterior"]["x"].values.reshape(-1, side * side)

    fit = ising.fit(x, mask="pairs", progress=False)
    print(fit)
    print(fit.summary().head())
    error = fit.params["J"] - truth["J"]
    print(f"couplings: largest error {np.abs(error).max():.2f}, in standard errors {np.abs(error / fit.standard_errors['J']).max():.1f}")

    again = fit.sample("sweep", draws=draws, warmup=100, chains=4, seed=2, progress=False)
    print(f"mean magnetisation: data {x.mean():+.3f}, fit {float(again['posterior']['x'].mean()):+.3f}")
    return fit


if __name__ == "__main__":
    main()
