# Fit a restricted Boltzmann machine to handwritten digits two ways: `python examples/rbm_digits.py [--full] [--out digits.png]`.
import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import optax

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SIDE, TEST = 8, 300
MASKS = "\nmask eights for rbm = subsets(v, size = 8)\n"  # beside the one of the file


def images() -> np.ndarray | None:
    """(row, 64) scikit-learn's digits, a pixel on from the middle grey level upwards, in a fixed random order."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    on = (load_digits().data >= 8).astype(int)
    return on[np.random.default_rng(0).permutation(len(on))]


def held_out(model: gm.Model, params: dict[str, np.ndarray], x: np.ndarray, betas: int, chains: int) -> str:
    """The mean log p of rows that no fit saw: log p~ is exact, log Z by annealed importance sampling."""
    log_z = model.annealed_log_partition(params, "alternate", betas=betas, chains=chains, seed=7)
    above = np.asarray(model.log_potential(params, x), float)
    error = np.hypot(above.std(ddof=1) / np.sqrt(len(x)), log_z.standard_error)
    return f"{above.mean() - log_z.log_partition:8.2f} +- {error:.2f} (of log Z alone {log_z.standard_error:.2f})"


def main(steps: int = 600, blocks: int = 60, betas: int = 300, chains: int = 64, rows: int = 400, out: str | None = None) -> dict[str, gm.Fit]:
    x = images()
    if x is None:
        print('this example needs scikit-learn: pip install "gmlmdsl[demo]"')
        return {}
    warnings.simplefilter("ignore", gm.SamplingWarning)
    train, test = x[TEST:][:rows], x[:TEST]
    model = gm.parse((HERE / "rbm.gmlm").read_text(encoding="utf-8") + MASKS, n_visible=SIDE * SIDE, n_hidden=32).model()
    try:
        model.fit(train, mask="some", progress=False)
    except gm.GmlmError as error:
        print(f"mask `some`: {error.diagnostics[0].message}")

    # A hidden unit's own start: fields that give each pixel its share of ink, and no couplings but noise.
    ink = np.clip(train.mean(axis=0), 0.01, 0.99)
    start = {"a": np.log(ink / (1 - ink))}
    contrast = gm.PersistentContrastiveDivergence(sampler="alternate", chains=100, steps=steps, batch_size=100)
    ways = {
        "independent pixels": None,
        "persistent chains": {"method": contrast},
        "blocks of 8 pixels": {"mask": "eights", "optimizer": optax.adam(0.02), "batch_size": 50, "max_steps": blocks},
    }
    fits, drawn = {}, [test[:16]]
    for name, options in ways.items():
        started, params = time.perf_counter(), model.init_params() | start | {"W": np.zeros((64, 32))}
        if options is not None:
            fits[name] = model.fit(train, init=start, seed=1, progress=False, **options)
            params = fits[name].params
        seconds = time.perf_counter() - started
        print(f"{name:18} {held_out(model, params, test, betas, chains)}, {seconds:.0f} s", flush=True)
        found = model.sample(params, "alternate", draws=1, warmup=500, chains=16, seed=2, progress=False)
        drawn.append(found["posterior"]["v"].values[:, 0])
    print(f"mean log p of {TEST} held-out images; {len(train)} to learn from")
    if out:
        write(out, drawn)
    return fits


def write(path: str, rows: list[np.ndarray]) -> None:
    """A row of held-out images, then a row of draws for each fit."""
    from matplotlib import image

    padded = [[np.pad(one.reshape(SIDE, SIDE), 1, constant_values=0.5) for one in row] for row in rows]
    picture = np.concatenate([np.concatenate(row, axis=1) for row in padded])
    image.imsave(path, np.kron(picture, np.ones((4, 4))), cmap="gray_r", vmin=0, vmax=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fit a restricted Boltzmann machine to handwritten digits.")
    parser.add_argument("--full", action="store_true", help="all rows, more steps")
    parser.add_argument("--out", help="where to write a picture")
    options = parser.parse_args()
    main(**({"steps": 6000, "blocks": 600, "betas": 3000, "chains": 256, "rows": 1497} if options.full else {}), out=options.out)
