# Fit a restricted Boltzmann machine to handwritten digits: `python examples/rbm_digits.py [--full] [--out digits.png]`.
import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import optax

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SIDE, TEST = 8, 300
MASK = "\nmask eights for rbm = subsets(v, size = 8)\n"  # beside the one of the file


class Found(NamedTuple):
    """The mean log p of held-out rows, its gain on independent pixels with the standard error over rows and of log Z."""

    log_p: float
    gain: float
    gain_error: float


def images() -> np.ndarray | None:
    """(row, 64) scikit-learn's digits, a pixel on from the middle grey level upwards, in a fixed random order."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    on = (load_digits().data >= 8).astype(int)
    return on[np.random.default_rng(0).permutation(len(on))]


def main(steps: int = 1500, betas: int = 500, chains: int = 64, block_steps: int = 0, out: str | None = None) -> dict[str, Found]:
    """`block_steps` of a fit by blocks of pixels, each of which is minutes; none: it is left out."""
    x = images()
    if x is None:
        print('this example needs scikit-learn: pip install "gmlmdsl[demo]"')
        return {}
    warnings.simplefilter("ignore", gm.SamplingWarning)
    train, test = x[TEST:], x[:TEST]
    model = gm.parse((HERE / "rbm.gmlm").read_text(encoding="utf-8") + MASK, n_visible=SIDE * SIDE, n_hidden=32).model()
    try:
        model.fit(train, mask="some", progress=False)
    except gm.GmlmError as error:
        print(f"mask `some`: {error.diagnostics[0].message}")

    ink = np.clip(train.mean(axis=0), 0.01, 0.99)
    start = {"a": np.log(ink / (1 - ink))}  # each pixel's share of ink
    rate = optax.adam(0.02)
    ways = {"independent pixels": None}
    ways["persistent chains"] = {"method": gm.PersistentContrastiveDivergence("alternate", steps=steps, batch_size=100, optimizer=rate)}
    if block_steps:
        ways["blocks of 8 pixels"] = {"mask": "eights", "optimizer": rate, "batch_size": 50, "max_steps": block_steps}
    found, pictures, alone = {}, [test[:16]], None
    print(f"mean log p of {TEST} held-out images; {len(train)} to learn from")
    for name, options in ways.items():
        began, params = time.perf_counter(), model.init_params() | start | {"W": np.zeros((SIDE * SIDE, 32))}
        if options:
            params = model.fit(train, init=start, seed=1, progress=False, **options).params
        seconds = time.perf_counter() - began
        # log p~ is exact, its hidden units summed out; log Z is estimated, from uniform images to the model's.
        log_z = model.annealed_log_partition(params, "alternate", betas=betas, chains=chains, seed=7)
        log_p = np.asarray(model.log_potential(params, test), float) - log_z.log_partition
        alone = (log_p, log_z.standard_error) if alone is None else alone
        gain = log_p - alone[0]
        error = np.sqrt(gain.var(ddof=1) / TEST + alone[1] ** 2 + log_z.standard_error**2) if len(pictures) > 1 else 0.0
        found[name] = Found(float(log_p.mean()), float(gain.mean()), float(error))
        print(f"{name:18} {log_p.mean():7.2f}, standard error of log Z {log_z.standard_error:.2f}; gain ", end="")
        print(f"{gain.mean():5.2f} +- {error:.2f}; {seconds:.0f} s", flush=True)
        drawn = model.sample(params, "alternate", draws=1, warmup=500, chains=16, seed=2, progress=False)
        pictures.append(drawn["posterior"]["v"].values[:, 0])
    if out:
        write(out, pictures)
    return found


def write(path: str, rows: list[np.ndarray]) -> None:
    """A row of held-out images, then a row of draws for each fit."""
    from matplotlib import image

    padded = [[np.pad(one.reshape(SIDE, SIDE), 1, constant_values=0) for one in row] for row in rows]
    picture = np.concatenate([np.concatenate(row, axis=1) for row in padded])
    image.imsave(path, np.kron(picture, np.ones((4, 4))), cmap="gray_r", vmin=0, vmax=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fit a restricted Boltzmann machine to handwritten digits.")
    parser.add_argument("--full", action="store_true", help="more steps, and a fit by blocks of pixels: many minutes")
    parser.add_argument("--out", help="where to write a picture")
    options = parser.parse_args()
    main(**({"steps": 6000, "betas": 2000, "chains": 256, "block_steps": 100} if options.full else {}), out=options.out)
