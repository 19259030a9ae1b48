# Figures 1 and 2 of the paper: squared error of the parameters against the number of rows, masks of 1 to 4 cells, one mask drawn per row.
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pictures
import scipy.optimize

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.evaluate import parameters

COUPLINGS = (0.05, 0.3)
SIZES = (1, 2, 3, 4)
ROWS = tuple(np.geomspace(50, 5000, 9).round().astype(int).tolist())
REPETITIONS = 200
PAPER = 10  # repetitions of the paper
STEPS = 15  # of Newton's method; where more are needed, there is no minimiser
STILL = 1e-9  # a last step below has reached the minimiser
FLAT = 1e-6  # a least eigenvalue of the Hessian below: a linear programme decides whether there is a minimiser
AT_ONCE = 500
Loss = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Curve:
    """One mask at one coupling.

    Attributes:
        squares: squared errors of all parameters, shape (numbers of rows, repetitions); nan where the data have no minimiser.
        trace: of the asymptotic covariance of sqrt(n) times the error, exact.
    """

    coupling: float
    size: int
    rows: tuple[int, ...]
    squares: np.ndarray
    trace: float

    @property
    def lost(self) -> np.ndarray:
        """How many data sets have no minimiser, for each number of rows."""
        return np.isnan(self.squares).sum(axis=1)

    def mean(self, repetitions: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, standard deviation and number of the data sets with a minimiser, of the first repetitions; nan where fewer than 2."""
        squares = self.squares[:, :repetitions]
        kept = (~np.isnan(squares)).sum(axis=1)
        enough = kept > 1
        mean, sd = np.full(len(squares), np.nan), np.full(len(squares), np.nan)
        mean[enough], sd[enough] = np.nanmean(squares[enough], axis=1), np.nanstd(squares[enough], axis=1, ddof=1)
        return mean, sd, kept


@dataclass(frozen=True)
class Found:
    """Every mask at every coupling, and how long drawing, compiling and fitting took."""

    curves: list[Curve]
    seconds: float


def truth(model: gm.Model, coupling: float) -> dict[str, np.ndarray]:
    return {"h": np.zeros(4), "J": np.full(model.init_params()["J"].shape, coupling)}


def loss_table(model: gm.Model, mask: str) -> Loss:
    """-log p(x_K | x_rest) of every K of a mask at every configuration, by the library's loss: vector -> (blocks, configurations)."""
    graph = model.graph
    loss = derive.exact_loss(graph, derive.graph_arrays(graph), model.mask(mask)[1])
    assert not loss.split
    states = jnp.asarray(derive.all_states(graph))
    return lambda vector: loss.by_mask(parameters.unflatten(graph, vector), states)[0]


def blocks_of(model: gm.Model, mask: str) -> list[tuple[int, ...]]:
    """The cells of every K, in the order of `loss_table`."""
    loss = derive.exact_loss(model.graph, derive.graph_arrays(model.graph), model.mask(mask)[1])
    return [tuple(c for c in row if c < model.graph.n_cells) for b in loss.blocks for row in np.asarray(b.cells)[:, :, 0].tolist()]


def newton(table: Loss, shares: jax.Array, start: jax.Array, steps: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Minimise sum(shares * table) by Newton's method with backtracking: the point, the length of its last step, whether H is positive.

    A data set without a minimiser shows itself: its steps do not become short, or its Hessian becomes singular.
    """

    def objective(v: jax.Array) -> jax.Array:
        return (shares * table(v)).sum()

    def step(carry: tuple) -> tuple:
        v, _, count = carry
        slope, curved = jax.grad(objective)(v), jax.hessian(objective)(v)
        direction = -jnp.linalg.solve(curved + 1e-13 * jnp.eye(v.size), slope)
        here, gain = objective(v), 1e-4 * (slope @ direction)
        rate = jax.lax.while_loop(
            lambda t: (t > 1e-8) & ~(objective(v + t * direction) <= here + t * gain + 1e-15), lambda t: t / 2, jnp.ones(())
        )
        return v + rate * direction, jnp.linalg.norm(direction), count + 1

    def unfinished(carry: tuple) -> jax.Array:
        return (carry[1] > STILL) & (carry[2] < steps)

    found, length, _ = jax.lax.while_loop(unfinished, step, (start, jnp.asarray(jnp.inf), 0))
    return found, length, jnp.linalg.eigvalsh(jax.hessian(objective)(found))[0] > FLAT


def fit_all(table: Loss, shares: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every data set at once, in float64: estimates, and which are sure to be the minimiser."""

    @jax.jit
    def fitted(shares: jax.Array, starts: jax.Array, steps: int) -> tuple:
        return jax.lax.map(lambda a: newton(table, a[0], a[1], steps), (shares, starts), batch_size=AT_ONCE)

    found, length, positive = (np.array(a) for a in fitted(jnp.asarray(shares), jnp.zeros((len(shares), size)), STEPS))
    sure = (length <= STILL) & positive
    return found, sure


def recession(features: np.ndarray, states: np.ndarray, blocks: list[tuple[int, ...]], seen: np.ndarray) -> bool:
    """Whether a data set has no single minimiser: the loss falls, or stays, for ever in some direction d.

    The features are linear in the parameters, so this is so where (phi(x) - phi(a)) . d >= 0 for every seen (K, x) and every a
    that agrees with x outside K, for some d other than 0.
    """
    rows = []
    for k, x in zip(*np.nonzero(seen), strict=True):
        rest = np.setdiff1d(np.arange(len(states)), blocks[k])
        alike = (states[rest] == states[rest, x][:, None]).all(axis=0)
        rows.append(features[x] - features[alike])
    rows = np.unique(np.concatenate(rows), axis=0)
    if np.linalg.matrix_rank(rows) < rows.shape[1]:
        return True
    solved = scipy.optimize.linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs")
    return bool(-solved.fun > 1e-7)


def data_sets(model: gm.Model, p: np.ndarray, n_blocks: int, rows: tuple[int, ...], repetitions: int, seed: int) -> np.ndarray:
    """Counts of (K, x): rows from p, and one K of the mask drawn for each row; shape (numbers of rows, repetitions, blocks, states)."""
    rng = np.random.default_rng(seed)
    joint = np.tile(p / n_blocks, n_blocks)
    return np.stack([rng.multinomial(n, joint / joint.sum(), size=repetitions) for n in rows]).reshape(len(rows), repetitions, n_blocks, -1)


def curves(model: gm.Model, mask: str, rows: tuple[int, ...], repetitions: int) -> list[Curve]:
    """One mask at every coupling: draw, fit, and compare with the covariance that theory gives."""
    table, blocks, size = loss_table(model, mask), blocks_of(model, mask), int(mask[1:])
    states, true = np.asarray(derive.all_states(model.graph)), [truth(model, c) for c in COUPLINGS]
    values = 2 * states.T - 1
    laws = [np.exp(np.asarray(model.log_prob(t, values))) for t in true]
    counts = np.stack([data_sets(model, p, len(blocks), rows, repetitions, 10 * size + k) for k, p in enumerate(laws)])
    flat = counts.reshape(-1, *counts.shape[3:])
    vectors = np.stack([np.asarray(parameters.flatten(model.graph, t)) for t in true])
    found, sure = fit_all(table, flat / flat.sum(axis=(1, 2), keepdims=True), vectors.shape[1])
    features = np.asarray(
        jax.jacobian(lambda v: model.log_potential(parameters.unflatten(model.graph, v), values))(jnp.asarray(vectors[0]))
    )
    for place in np.flatnonzero(~sure):
        if not recession(features, states, blocks, flat[place] > 0):
            raise RuntimeError(f"{mask}: data set {place} has a minimiser, and Newton's method did not find it")
    found[~sure] = np.nan
    found = found.reshape(len(COUPLINGS), len(rows), repetitions, -1)
    out = []
    for k, coupling in enumerate(COUPLINGS):
        trace = float(np.trace(gm.theory.asymptotic_covariance(model, true[k], mask, n_masks=1)))
        out.append(Curve(coupling, size, rows, ((found[k] - vectors[k]) ** 2).sum(axis=-1), trace))
    return out


def compute(small: bool = False) -> Found:
    """Every mask at every coupling. In small: few data sets, of few rows (some without a minimiser) and of many (near the limit)."""
    rows, repetitions = ((40, 20_000), 60) if small else (ROWS, REPETITIONS)
    model = gm.load(pictures.HERE / "clique.gmlm").model()
    began = time.perf_counter()
    with jax.enable_x64(True):
        found = [c for size in SIZES for c in curves(model, f"k{size}", rows, repetitions)]
    return Found(found, time.perf_counter() - began)


def draw(found: Found) -> dict[str, pictures.Figure]:
    """One picture for each coupling: the paper's ten repetitions above, all of them below."""
    return {f"figure{k + 1}": _picture([c for c in found.curves if c.coupling == coupling]) for k, coupling in enumerate(COUPLINGS)}


def _picture(found: list[Curve]) -> pictures.Figure:
    figure, (few, many) = pictures.panels([3.3, 4.1])
    repetitions = found[0].squares.shape[1]
    for k, curve in enumerate(found):
        rows, look = np.array(curve.rows), {"color": pictures.SERIES[k], "marker": pictures.MARKERS[k]}
        few.plot(rows, curve.trace / rows, color=look["color"])
        many.plot(rows, np.full(len(rows), curve.trace), color=look["color"])
        look |= {"markersize": 4, "elinewidth": 1, "linestyle": "none", "label": f"k = {curve.size}"}
        at = rows * 1.04 ** (k - 1.5)  # side by side
        mean, sd, _ = curve.mean(PAPER)
        few.errorbar(at, mean, np.stack([np.minimum(sd / 2, 0.9 * mean), sd / 2]), **look)  # of a logarithmic axis
        mean, sd, kept = curve.mean()
        many.errorbar(at, rows * mean, rows * sd / np.sqrt(np.maximum(kept, 1)), **look)
    few.set_title(f"J = {found[0].coupling:g}: {min(PAPER, repetitions)} repetitions, ± ½ sd")
    many.set_title(f"J = {found[0].coupling:g}: {repetitions} repetitions, ± 1 standard error")
    few.set(yscale="log", ylabel="squared error")
    many.set(yscale="log", ylabel="n × squared error", xlabel="n, rows")
    pictures.plain_ticks(many.yaxis, [10, 15, 20, 30, 40, 60, 80])
    for axes in (few, many):
        axes.set(xscale="log")
        pictures.plain_ticks(axes.xaxis, [50, 100, 200, 500, 1000, 2000, 5000])
    pictures.legend_below(many, 4, title="marks: Monte Carlo; lines: trace of Γ / n, and trace of Γ, exact")
    return figure


def tables(found: Found) -> list[pictures.Table]:
    """n times the squared error beside the exact trace, and how many data sets had no minimiser."""
    rows = found.curves[0].rows
    middle = rows[len(rows) // 2] if len(rows) > 2 else rows[0]
    errors, lost = [], []
    for c in found.curves:
        mean, sd, kept = c.mean()
        scaled = [pictures.pm(n * m, n * s / np.sqrt(k)) for n, m, s, k in zip(rows, mean, sd, kept, strict=True)]
        errors.append([f"{c.coupling:g}", f"{c.size}", f"{c.trace:.4g}", scaled[rows.index(middle)], scaled[-1]])
        lost.append([f"{c.coupling:g}", f"{c.size}", *map(str, c.lost)])
    heads = ["J", "k", "trace of Γ, exact", f"n × squared error at n = {middle:,}, Monte Carlo", f"at n = {rows[-1]:,}, Monte Carlo"]
    fits = sum(c.squares.size for c in found.curves)
    measured = [
        pictures.Number("data sets fitted", fits, "counted", ""),
        pictures.Number("seconds for all of them, drawing and compiling included", found.seconds, "measured where the page was built", ""),
    ]
    return [
        pictures.Table("figure12-errors", heads, errors),
        pictures.Table("figure12-lost", ["counted: J", "k", *(f"n = {n:,}" for n in rows)], lost),
        pictures.numbers("figure12-numbers", measured),
    ]
