"""The information profile of a denoiser, the loss by parallel passes, and the best schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail, whole_number
from .._types import Given, ParamsLike
from ..data import bound_once, decode, random_key, verified_seed
from ..derive import bounded_jit, fold, on_device
from ..evaluate import decoder_bounds, known_params, verified_params
from ..graph import open_after, verify_is_model
from ..plan import verify_held
from ._decoder_law import Denoiser, widened
from .limits import MOST_NUMBERS, MOST_REVEALED, PROFILE_DRAWS, REVEALED_AT_ONCE

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..evaluate import DenoisedRows
    from ..graph import Lowered
    from ..model import Model

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class InformationProfile:
    """f(1), .., f(n): the mean entropy of a hidden cell if k cells are hidden, in nats.

    Attributes:
        values: f(k) at index k - 1.
        standard_error: the standard error of each value; 0 if `exact`.
        exact: whether every partly revealed row was enumerated.
    """

    values: Array
    standard_error: Array
    exact: bool

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> Array:
        del copy
        return np.asarray(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, k: Any) -> Any:
        return self.values[k]

    def path_divergence(self, counts: Sequence[int]) -> float:
        """Return the loss of the passes of a random order, in nats; pass t settles counts[t] cells.

        The loss is E B - H, the mean bound B on -log p by these passes minus the entropy H. It
        equals the sum over t of n_t f(k_t) - (f(k_t - n_t + 1) + .. + f(k_t)). Here n_t is
        counts[t], and k_t is the number of hidden cells before pass t. For the exact denoiser it is
        an upper bound on KL(p || decoder).

        Raises:
            GmlmError: E507 for counts that are not at least 1 or do not sum to the number of cells.
        """
        numbers = np.asarray(counts)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 1).any() or numbers.sum() != len(self):
            raise fail("E507", f"counts are whole numbers of at least 1 that sum to the {len(self)} cells, got {counts!r:.60}")
        left, total = len(self), 0.0
        for count in numbers.tolist():
            total += _loss(self.values, left, count)
            left -= count
        return total


def _loss(f: Array, hidden: int, count: int) -> float:
    """Return the loss of a pass that settles `count` of the hidden cells at once."""
    return float(count * f[hidden - 1] - f[hidden - count : hidden].sum())


def information_profile(
    model: Model, params: ParamsLike, *, draws: int | None = None, seed: int = 0, given: Given | None = None
) -> InformationProfile:
    """Return f(k), k = 1..n, the mean entropy in nats of a hidden cell if k cells are hidden.

    f(k) is the mean of H(x_i | x outside K) over sets K of k cells, and over cells i in K. The
    cells are revealed one by one in a random order, each drawn from its conditional. The entropies
    are those of the conditionals of the hidden cells. With the exact conditionals of a joint
    distribution they give the mean above. A network's profile is that of its own draws.

    The result is exact if the partly revealed rows, (values + 1)^cells, are few enough to
    enumerate. Otherwise it is estimated from draws, with standard errors.

    Args:
        model: a model of a network or with a joint distribution, whose latents are summed out.
        params: its parameters.
        draws: the number of drawn rows. None enumerates all rows if they are at most 131,072, and
            draws 1024 rows otherwise.
        seed: the seed of the draws.
        given: one row of data of given variables.

    Returns:
        An `InformationProfile` with `values`, `standard_error`, `exact`, and
            `path_divergence(counts)`.

    Raises:
        GmlmError: E601 if the exact conditionals cost too much.

    Reference: Austin et al. 2021 for the chain rule; Ben-Hamu et al. and Lavenant and Zanella 2025
    for schedules by it.
    """
    verify_is_model(model)
    graph, what = model.graph, "the information profile"
    lowered = bound_once(model.lowered, given, what) if graph.network is None else model.lowered
    with jax.enable_x64(True):
        known = known_params(lowered.graph, params) if graph.network is None else widened(verified_params(graph.network, params))
        at = np.flatnonzero(graph.is_observed)
        sizes = graph.sizes[at].astype(np.int64)
        count = float(np.prod(sizes + 1.0))
        small = count <= MOST_REVEALED and count * len(at) * graph.sizes.max() <= MOST_NUMBERS
        if draws is None and small and not graph.given:
            return _listed(Denoiser(lowered, known, what), sizes)
        rows = decoder_bounds.DenoisedRows(lowered, _any_rows(lowered), None, given, what)
        many = whole_number("draws", PROFILE_DRAWS if draws is None else draws, 2)
        verify_held(16.0 * min(many, 10**18) * len(at), f"{many:,} rows", "fewer `draws=`")
        return _estimated(rows, known, many, verified_seed(seed))


def _any_rows(lowered: Lowered) -> dict[str, np.ndarray]:
    """Return arbitrary rows, whose cells are hidden before use."""
    values = decode(lowered.graph, np.zeros((lowered.graph.n_cells, REVEALED_AT_ONCE), np.int64), (REVEALED_AT_ONCE,))
    return {v.name: values[v.name] for v in lowered.graph.observed}


def _listed(denoiser: Denoiser, sizes: Array) -> InformationProfile:
    """Return the profile from the probabilities of all partly revealed rows.

    The probabilities are computed from the fully hidden row onwards.
    """
    n, radix = len(sizes), sizes + 1
    place = np.append(np.cumprod(radix[::-1])[::-1][1:], 1)
    codes = np.stack(np.unravel_index(np.arange(int(radix.prod())), tuple(radix)), axis=1)
    is_hidden = codes == sizes
    tables = denoiser.ask(np.where(is_hidden, denoiser.q, codes), _probabilities)[0]
    logs = np.log(np.where(tables > 0, tables, 1.0))
    entropies, hidden = -(tables * logs).sum(axis=2), is_hidden.sum(axis=1)
    mass, found = np.zeros(len(codes)), np.zeros(n)
    mass[-1] = 1.0  # in the last row every cell is hidden
    for k in range(n, 0, -1):
        rows = np.flatnonzero((hidden == k) & (mass > 0))
        found[k - 1] = mass[rows] @ (entropies[rows] * is_hidden[rows]).sum(axis=1) / k
        for cell in range(n):
            mine = rows[is_hidden[rows, cell]]
            for value in range(sizes[cell]):
                np.add.at(mass, mine - (sizes[cell] - value) * place[cell], mass[mine] * tables[mine, cell, value] / k)
    return InformationProfile(found, np.zeros(n), True)


def _probabilities(logits: jax.Array) -> tuple[jax.Array]:
    return (jax.nn.softmax(logits, axis=-1),)


def _estimated(rows: DenoisedRows, params: Mapping[str, PyTree], draws: int, seed: int) -> InformationProfile:
    (make, codes, _), *_ = rows.each()
    cells, found, size = on_device(rows.cells, np.int32), [], codes.shape[1]
    for start in range(0, draws, size):
        numbers = on_device(np.arange(start, start + size), np.uint32)
        keys = fold(jnp.broadcast_to(random_key(seed), numbers.shape), numbers)
        found.append(np.asarray(_revealed(make, params, codes, cells, keys)).T[: draws - start])
    each = np.concatenate(found)[:, ::-1]
    return InformationProfile(each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(draws), False)


@bounded_jit
def _revealed(make: Callable[..., PyTree], params: Mapping[str, PyTree], codes: jax.Array, cells: jax.Array, keys: jax.Array) -> jax.Array:
    """Return the mean entropy of the hidden cells before each pass, shape (passes, rows).

    The rows are revealed one cell after another.
    """
    rows = keys.shape[0]
    graph = make(params, codes)
    present = jnp.zeros((codes.shape[0], 1), bool).at[cells].set(True) & jnp.ones((1, rows), bool)
    order = derive.random_ranks(derive.fold_apart(keys, 0), present)

    def once(shown: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = present & (order >= t)
        logits = jax.nn.log_softmax(graph.logits(params, jnp.where(hidden | ~present, graph.most_values, shown)), axis=-1)
        entropies = -jnp.where(logits > -jnp.inf, jnp.exp(logits) * logits, 0.0).sum(axis=-1).T
        own = derive.token_words(derive.fold_apart(keys, t + 1), *logits.shape[1:])
        drawn = derive.pick_token(logits, own.transposed).T
        mean = jnp.where(hidden, entropies, 0.0).sum(axis=0) / hidden.sum(axis=0).astype(entropies.dtype)
        return jnp.where(present & (order == t), drawn.astype(shown.dtype), shown), mean

    return jax.lax.scan(once, jnp.zeros_like(codes), jnp.arange(cells.shape[0], dtype=order.dtype))[1]


@dataclass(frozen=True, eq=False)
class ScheduleSuggestion:
    """The counts with the smallest loss for a number of passes, and the losses of other schedules.

    Attributes:
        counts: the number of cells that each pass settles.
        path_divergence: the loss of these counts in nats, the smallest of all counts.
        linear, cosine: the losses of the schedules of these names in the same number of passes.
        text: the schedule as program text, to paste into a sampler.
        profile: f(1..n), from which the suggestion follows.
    """

    counts: tuple[int, ...]
    path_divergence: float
    linear: float
    cosine: float
    text: str
    profile: InformationProfile = field(repr=False)

    def __str__(self) -> str:
        return self.text


def suggest_schedule(
    model: Model, params: ParamsLike, passes: int, *, profile: InformationProfile | None = None, seed: int = 0, given: Given | None = None
) -> ScheduleSuggestion:
    """Return the counts of a random order with the smallest loss in a number of passes.

    They are found by dynamic programming over passes and hidden cells, in O(T n^2).

    Args:
        model: the model; see `information_profile`.
        params: its parameters.
        passes: the number of passes T, at most the number of cells.
        profile: the model's information profile, if it is already known.
        seed: the seed of the draws, if the profile is estimated.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 for more passes than cells, or a profile of another number of cells.
    """
    verify_is_model(model)
    found = information_profile(model, params, seed=seed, given=given) if profile is None else profile
    n, steps = sum(v.size for v in model.graph.observed), whole_number("passes", passes, 1)
    if len(found) != n:
        message = f"`profile` must have the {n:,} cells of model `{model.name}`, got {len(found):,}"
        help = "leave out `profile`, or pass the `information_profile` of this model"
        raise fail("E507", f"suggest_schedule: {message}", help=help)
    if steps > n:
        raise fail("E507", f"{steps} passes over {n} cells: a pass settles one cell at least", help=f"`passes` is at most {n}")
    counts = _best_counts(found.values, steps)
    others = {name: found.path_divergence(_counts(n, steps, name)) for name in ("linear", "cosine")}
    text = f"schedule = counts([{', '.join(map(str, counts))}])"
    return ScheduleSuggestion(counts, found.path_divergence(counts), others["linear"], others["cosine"], text, found)


def _best_counts(f: Array, steps: int) -> tuple[int, ...]:
    n = len(f)
    sums = np.concatenate([[0.0], np.cumsum(f)])
    best, pick = np.full((steps + 1, n + 1), np.inf), np.zeros((steps + 1, n + 1), int)
    best[0, 0] = 0.0
    for left in range(1, steps + 1):
        for hidden in range(left, n + 1):
            count = np.arange(1, hidden + 1)
            costs = count * f[hidden - 1] - (sums[hidden] - sums[hidden - count]) + best[left - 1, hidden - count]
            pick[left, hidden] = count[np.argmin(costs)]
            best[left, hidden] = costs.min()
    counts, hidden = [], n
    for left in range(steps, 0, -1):
        counts.append(int(pick[left, hidden]))
        hidden -= counts[-1]
    return tuple(counts)


def _counts(n: int, steps: int, schedule: str) -> list[int]:
    """Return the number of cells that each pass of a schedule settles.

    Passes that settle no cell are left out.
    """
    found = -np.diff(open_after(n, steps, schedule))
    return found[found > 0].tolist()
