# Clean noisy pictures by a grid model fitted to a few of them: `python examples/denoise.py [--full] [--out denoise.png]`.
import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
COUPLING, NOISE = 0.45, 1.2
TRUE = {"a": np.array(0.0), "b": np.array(1 / NOISE**2), "J": np.array(COUPLING)}  # log p(y | x) = y x / NOISE^2 + what lacks x
NARROW = 6  # so wide a picture is summed exactly


def load(height: int, width: int) -> gm.Model:
    return gm.load(HERE / "denoise.gmlm", height=height, width=width).model()


def draw(model: gm.Model, pictures: int, seed: int, sampler: str = "sweep") -> tuple[np.ndarray, np.ndarray]:
    """Pictures from the model without y, one from each chain, and what noise makes of them."""
    nothing = {"a": np.array(0.0), "b": np.array(0.0), "J": np.array(COUPLING)}
    cells = model.graph.variable("x").size
    drawn = model.sample(nothing, sampler, draws=1, warmup=2000, chains=pictures, seed=seed, given={"y": np.zeros(cells)}, progress=False)
    x = drawn["posterior"]["x"].values[:, 0]
    return x, x + NOISE * np.random.default_rng(seed).normal(size=x.shape)


def cleaned(model: gm.Model, params: dict[str, np.ndarray], y: np.ndarray, draws: int, sampler: str = "sweep") -> np.ndarray:
    """The mean of x given y, pixel by pixel: a chain's share of time in each colour."""
    found = []
    for one in y:
        chains = model.sample(params, sampler, draws=draws, warmup=50, chains=4, seed=3, given={"y": one}, progress=False)
        found.append(chains["posterior"]["x"].values.mean(axis=(0, 1)))
    return np.array(found)


def right(x: np.ndarray, score: np.ndarray) -> float:
    """The share of pixels whose colour is the sign of the score."""
    return float((np.where(score > 0, 1, -1) == x).mean())


def main(
    side: int = 24, fitted: int = 8, held_out: int = 4, draws: int = 200, masks: tuple[str, ...] = ("one",), out: str | None = None
) -> dict[str, float]:
    warnings.simplefilter("ignore", gm.SamplingWarning)  # short chains are meant
    square = load(side, side)
    x, y = draw(square, fitted + held_out, seed=1)
    fits = {}
    for mask in masks:
        started = time.perf_counter()
        fits[mask] = fit = square.fit(x[:fitted], mask=mask, given={"y": y[:fitted]}, progress=False)
        shown = ", ".join(
            f"{k} {float(v):.3f} (s.e. {float(fit.standard_errors[k]):.3f}, true {float(TRUE[k]):.3f})" for k, v in fit.params.items()
        )
        print(f"mask {mask:6} {shown}, {time.perf_counter() - started:.1f} s")

    new, seen = x[fitted:], y[fitted:]
    found = {"the sign of y": right(new, seen)}
    means = {"true parameters": cleaned(square, TRUE, seen, draws)}
    means |= {f"mask {mask}": cleaned(square, fit.params, seen, draws) for mask, fit in fits.items()}
    found |= {name: right(new, mean) for name, mean in means.items()}
    print(f"share of pixels right, {held_out} new pictures of {side} x {side}, cleaned by Gibbs sampling")
    for name, share in found.items():
        print(f"  {name:16} {share:.4f}")

    narrow = load(side // 2, NARROW)
    x_narrow, y_narrow = draw(narrow, held_out, seed=2, sampler="exact")
    exact = narrow.marginals(fit.params, given={"y": y_narrow})["x"] @ np.array([-1.0, 1.0])
    sampled = cleaned(narrow, fit.params, y_narrow, draws, "strips")
    found |= {"exact": right(x_narrow, exact), "strips": right(x_narrow, sampled)}
    apart = np.sqrt(((exact - sampled) ** 2).mean())
    print(
        f"{NARROW} wide: exact {found['exact']:.4f}, drawn by strips {found['strips']:.4f}, the sign of y {right(x_narrow, y_narrow):.4f}"
    )
    print(f"means of x drawn and exact differ by {apart:.3f} (rms)")
    if out:
        write(out, [new[0], seen[0], np.sign(seen[0]), means[f"mask {mask}"][0], np.sign(means[f"mask {mask}"][0])], side)
    return found


def write(path: str, pictures: list[np.ndarray], side: int) -> None:
    """The truth, what is seen, its sign, the mean of x given y and its sign, side by side."""
    from matplotlib import image

    strip = np.concatenate([np.pad(p.reshape(side, side), 1, constant_values=1.0) for p in pictures], axis=1)
    image.imsave(path, np.kron(np.clip(strip, -1, 1), np.ones((6, 6))), cmap="gray", vmin=-1, vmax=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Clean noisy pictures.")
    parser.add_argument("--full", action="store_true", help="more and larger pictures, longer chains, one more fit")
    parser.add_argument("--out", help="where to write a picture")
    options = parser.parse_args()
    sizes = {"side": 32, "fitted": 20, "held_out": 12, "draws": 1000, "masks": ("one", "edges")} if options.full else {}
    main(out=options.out, **sizes)
