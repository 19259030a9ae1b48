# Theorems 1 to 3 over random models: larger masks lose nothing, and no mask loses more than its Poincare constant.
from dataclasses import dataclass

import numpy as np
import pictures
from pictures import Number, Table

import gmlmdsl as gm

MODELS = {"ising": 4, "potts": 3, "mixed": 4}  # cells of each
EACH = 25  # random parameters of each model
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
WORDS = {"ising": "4 spins", "potts": "3 cells, 3 values", "mixed": "spins, weather, 0..3"}


@dataclass(frozen=True)
class Case:
    """One mask of one random model; covariances are relative to those of maximum likelihood.

    Attributes:
        relative: the covariance with one mask per row, in coordinates in which that of maximum likelihood is the identity.
        constant: the Poincare constant of the mask's block dynamics.
        trace: of the covariance in parameters, divided by that of maximum likelihood.
    """

    model: str
    number: int
    size: int | None  # None: the adaptive mask
    relative: np.ndarray
    constant: float
    trace: float

    @property
    def worst(self) -> float:
        """The largest ratio of variances, over all directions."""
        return float(np.linalg.eigvalsh(self.relative)[-1])


def random_params(model: gm.Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Normal parameters of a random size: from almost independent to strongly coupled."""
    scale = rng.uniform(0.1, 1.2)
    return {name: rng.normal(0, scale, np.shape(value)) for name, value in model.init_params().items()}


def cases_of(model: gm.Model, name: str, number: int, params: dict[str, np.ndarray]) -> list[Case]:
    out = []
    whole = gm.theory.asymptotic_covariance(model, params, f"{name}{MODELS[name]}", n_masks=1)
    for size in [*range(1, MODELS[name] + 1), None]:
        mask = f"{name}{size}" if size else f"{name}_adaptive"
        found = gm.theory.pseudolikelihood_information(model, params, mask)
        trace = float(np.trace(found.covariance(1)) / np.trace(whole))
        out.append(Case(name, number, size, found.relative(1), float(gm.theory.poincare_constant(model, params, mask)), trace))
    return out


def compute(small: bool = False) -> list[Case]:
    """Every mask of every random model."""
    program, rng = gm.load(pictures.HERE / "random.gmlm"), np.random.default_rng(3)
    each = 2 if small else EACH
    drawn = [(name, k, random_params(program.model(name), rng)) for name in MODELS for k in range(each)]
    models = {name: program.model(name) for name in MODELS}
    return [case for name, k, params in drawn for case in cases_of(models[name], name, k, params)]


def pairs(found: list[Case]) -> list[tuple[Case, Case]]:
    """Masks of k and of k + 1 cells of one model."""
    at = {(c.model, c.number, c.size): c for c in found}
    return [(c, at[c.model, c.number, c.size + 1]) for c in found if c.size and (c.model, c.number, c.size + 1) in at]


def least_gain(found: list[Case]) -> float:
    """The least eigenvalue of the covariance of k less that of k + 1, over all models, in units of maximum likelihood's variance."""
    return min(float(np.linalg.eigvalsh(few.relative - more.relative)[0]) for few, more in pairs(found))


def smaller(found: list[Case]) -> list[Case]:
    """Masks that leave cells out: the others are maximum likelihood itself."""
    return [c for c in found if c.size != MODELS[c.model]]


def draw(found: list[Case]) -> dict[str, pictures.Figure]:
    """Theorem 1: eigenvalues, sorted, k + 1 against k. Theorems 2 and 3: the worst direction, and the trace, beside the constant."""
    return {"theorem1": _eigenvalues(found), "theorem23": _bounds(found)}


def _eigenvalues(found: list[Case]) -> pictures.Figure:
    figure, (axes,) = pictures.panels([4.2])
    for k, name in enumerate(MODELS):
        mine = [(np.linalg.eigvalsh(a.relative), np.linalg.eigvalsh(b.relative)) for a, b in pairs(found) if a.model == name]
        x, y = (np.concatenate(part) for part in zip(*mine, strict=True))
        axes.plot(x, y, pictures.MARKERS[k], color=pictures.SERIES[k], markersize=3, label=WORDS[name])
    axes.set(xscale="log", yscale="log", xlabel="eigenvalues of Γ, k cells", ylabel="eigenvalues of Γ, k + 1 cells")
    most = axes.get_xlim()[1]
    axes.plot([0.9, most], [0.9, most], color=pictures.INK, linewidth=0.9, label="equal")
    for axis in (axes.xaxis, axes.yaxis):
        pictures.plain_ticks(axis, [t for t in TICKS if t <= most])
    axes.set_title("Theorem 1: more cells, less variance")
    pictures.legend_below(axes, 2)
    return figure


def _bounds(found: list[Case]) -> pictures.Figure:
    figure, (worst, trace) = pictures.panels([2.9, 4.0])
    for k, name in enumerate(MODELS):
        for adaptive in (False, True):
            mine = [c for c in smaller(found) if c.model == name and (c.size is None) == adaptive]
            label = WORDS[name] + (", adaptive" if adaptive else "")
            style = {"color": pictures.SERIES[k], "markersize": 6 if adaptive else 3, "fillstyle": "none" if adaptive else "full"}
            at = [c.constant for c in mine]
            worst.plot(at, [c.worst / c.constant for c in mine], pictures.MARKERS[k], label=label, linestyle="none", **style)
            trace.plot(at, [c.trace / c.constant for c in mine], pictures.MARKERS[k], label=label, linestyle="none", **style)
    for axes in (worst, trace):
        axes.axhline(1, color=pictures.INK, linewidth=0.9, label="the bound")
        axes.set(xscale="log", ylim=(0.6 if axes is worst else 0, 1.04))
        pictures.plain_ticks(axes.xaxis, [t for t in TICKS if t <= axes.get_xlim()[1]])
    worst.set(title="Theorems 2 and 3: never above C", ylabel="worst direction / C")
    trace.set(xlabel="C, Poincaré constant of the mask", ylabel="trace / (C × trace of likelihood)")
    pictures.legend_below(trace, 2)
    return figure


def tables(found: list[Case]) -> list[Table]:
    models = len({(c.model, c.number) for c in found})
    kept = smaller(found)
    plain, adaptive = [c for c in kept if c.size], [c for c in kept if c.size is None]
    call = "pseudolikelihood_information(..).relative(1)"
    rows = [
        Number("random models", models, "counted", ""),
        Number("Theorem 1: least eigenvalue of Γ for k less Γ for k + 1; 0 up to rounding", least_gain(found), "exact", call),
        Number("Theorem 2: largest (worst direction / C), plain masks; at most 1", max(c.worst / c.constant for c in plain), "exact", call),
        Number("Theorem 3: the same, adaptive masks", max(c.worst / c.constant for c in adaptive), "exact", call),
        Number("largest trace of Γ / (C × trace of the inverse of I); at most 1", max(c.trace / c.constant for c in kept), "exact", call),
        Number("median of (worst direction / C), plain masks", float(np.median([c.worst / c.constant for c in plain])), "exact", call),
    ]
    return [pictures.numbers("theorems", rows)]
