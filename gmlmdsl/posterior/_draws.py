"""Draws of the parameters of a fit from their posterior.

The draws come from NUTS on the model of `to_numpyro`, with the log likelihood of each row.

Chains run in calls of a fixed number of steps, so that one compiled program serves all runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail, tell, whole_number
from .._types import Draws, Given, JsonObject, Missing, Rows
from ..assess import How, evidence_of, params64, rows_under, verify_minimum, verify_own
from ..data import decode, random_key, verified_seed
from ..derive import bounded_jit, on_device, quickly_compiled
from ..evaluate import over_rows, tangent
from ..fit import WORTH_MERGING, Evidence, LongFit, at_kinks, curvature, evidence_identity, long_fit, objective_colouring, restored
from ..plan import BUDGET
from ..sample import SamplingWarning, to_arviz
from ._calibration import CURVATURE, DATA_SETS, OPEN_FACED, SIMULATED, Calibration, Source
from ._likelihood import Likelihood, is_likelihood, is_whole, likelihood_of_rows
from ._numpyro_model import NumpyroModel, calibrated, to_numpyro, verify_choice
from ._sites import at_coordinates, axes_of_parameters, coordinates, jacobian
from .limits import ADAPTED_STEPS, LEAST_DEVIATION, MOST_DRAWS, MOST_OPERATIONS, SCALED_STEPS, STARTS, STRIDE, WIDEST

if TYPE_CHECKING:
    from jaxtyping import PyTree
    from numpyro.infer import NUTS

    from ..fit import FitRecord

Array = np.ndarray


@dataclass(frozen=True)
class Chains:
    """The options of the chains.

    There are `draws` draws of each of `chains` chains, after `warmup` steps, from `seed`.
    """

    draws: int
    chains: int
    warmup: int
    seed: int


def posterior(
    fit: FitRecord,
    how: Chains,
    calibrate: str | None,
    x: Rows | None,
    missing: Missing | None,
    given: Given | None,
    rows_only: bool = False,
    checkpoint: object = None,
) -> Draws:
    """Return draws of the parameters of a fit; see `Fit.posterior` and `Fit.to_arviz`.

    Args:
        fit: the fit.
        how: the options of the chains.
        calibrate: the kind of calibration, or None.
        x: the rows of the fit, or None.
        missing: the value that marks a missing cell.
        given: the data of given variables of the rows.
        rows_only: whether evidence without a likelihood of rows raises an error.
        checkpoint: the folder for the state of the chains, or None.
    """
    how = _verified(how)
    verify_choice(calibrate, (CURVATURE, OPEN_FACED, SIMULATED))
    evidence = evidence_of(fit, x, None, missing, given=given)
    if rows_only:
        _verify_likelihood(evidence)
    no_mode = fit.status.code == "not-converged" and (calibrate is None or is_likelihood(evidence))
    verify_minimum(fit, "a posterior", not no_mode)
    if _is_improper(fit):
        message = "neither data nor prior determine some direction of the parameters: the posterior cannot be normalised"
        raise fail("E552", message, help="give them a prior, or fix a `gauge`")
    fit.covariance  # noqa: B018 - raises if the curvature would be too large
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        task = task_of(fit, evidence, calibrate)
    return _draws_of(task, evidence, fit.meta, fit.params, how, calibrate, checkpoint)


def hierarchical_posterior(evidence: Evidence, how: Chains, meta: JsonObject, checkpoint: object = None) -> Draws:
    """Return draws of a model whose priors have fitted parameters as arguments; see `Model.posterior`.

    Such a density has no mode to start at, so NUTS adapts its scale. It is not calibrated.

    Args:
        evidence: the rows under a mask.
        how: the options of the chains.
        meta: the text and numbers of the model, as a fit records them.
        checkpoint: the folder for the state of the chains, or None.
    """
    how = _verified(how)
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        model = to_numpyro(evidence, None, How(1, 0, None, 0), meta, None)
        task = Task(
            model.likelihood, model.likelihood, np.zeros(sum(s.size for s in model.likelihood.sites)), None, None, model.calibration
        )
    return _draws_of(task, evidence, meta | {"mask_use": evidence.options.mask}, {}, how, None, checkpoint)


@dataclass(frozen=True, eq=False)
class Task:
    """The distribution that is drawn from.

    Chains of `target` start at draws of a normal distribution with mean `start` and covariance
    `scale`. If no normal distribution is near, they start at random, as NumPyro's do, and adapt
    their scale.

    Attributes:
        likelihood: the likelihood of the rows, at the parameters themselves.
        target: the likelihood that is drawn from, calibrated if there is a calibration of it.
        start: the mean of the starts, in coordinates, shape (size,).
        scale: the covariance of the starts, in coordinates, shape (size, size), or None.
        open_faced: the map that is applied to draws afterwards. None: draws do not change.
        words: a description of the calibration of the draws.
    """

    likelihood: Likelihood
    target: Likelihood
    start: Array
    scale: Array | None
    open_faced: Calibration | None
    words: str

    @property
    def rows(self) -> str:
        """The name of the group of the rows' terms in ArviZ.

        The terms are a `log_likelihood`, by which ArviZ weights draws, only if they are part of the
        density of the draws.
        """
        weighs = self.target is self.likelihood and self.open_faced is None
        return "log_likelihood" if weighs else "log_pseudolikelihood"

    def moved(self, vectors: Array) -> Array:
        """Return the draws of the target in coordinates, shape (.., size)."""
        if self.open_faced is None:
            return vectors
        found: Calibration = jax.tree.map(np.asarray, self.open_faced)  # NumPy compiles nothing
        return np.asarray(found.at(vectors))


def task_of(fit: FitRecord, evidence: Evidence, calibrate: str | None) -> Task:
    """Return the target of `posterior`, under 64-bit types.

    Raises:
        GmlmError: E552 if the curvature is not positive, E554 from the calibration; and the errors
            of `likelihood_of_rows`.
    """
    params = params64(fit, evidence)
    rows = rows_under(evidence, params)
    verify_own(fit, rows, params)
    likelihood = likelihood_of_rows(evidence, params)
    found, words = calibrated(Source(evidence, fit.meta, lambda: fit.model, fit.params, _simulation(fit, calibrate)), calibrate)
    start, scale = _normal(fit, likelihood, params)
    if scale is None and found is not None:
        message = "an estimate is at the edge of its parameter's range, where no calibration holds"
        raise fail("E554", message, help="give it a prior away from the edge; or `calibrate=None`")
    if found is not None and calibrate == OPEN_FACED:
        return Task(likelihood, likelihood, start, scale, found.inverse(on_device(start)), words)
    target = likelihood if found is None else dataclasses.replace(likelihood, calibration=found)
    return Task(likelihood, target, start, scale, None, words)


def _is_improper(fit: FitRecord) -> bool:
    """Return whether some entry is determined neither by the data nor by a prior, which is proper."""
    starts = np.cumsum([0, *(p.size for p in fit.graph.parameters)])
    parts = zip(fit.graph.parameters, starts, strict=False)
    return any(p.prior is None and fit.status.undetermined[at : at + p.size].any() for p, at in parts)


def _verified(how: Chains) -> Chains:
    verified_seed(how.seed)
    return Chains(
        whole_number("draws", how.draws, 1), whole_number("chains", how.chains, 1), whole_number("warmup", how.warmup, 0), how.seed
    )


def _verify_likelihood(evidence: Evidence) -> None:
    """Raise E550 unless the loss of the rows is -log p(x).

    Raises:
        GmlmError: E550.
    """
    if is_likelihood(evidence):
        return
    help = "`fit.posterior()` draws from a calibrated posterior; `gm.compare` compares information criteria, or held-out losses"
    if evidence.options.ignores and (evidence.codes < 0).any():
        raise fail("E550", 'rows whose gaps were left out have no likelihood: `gaps="ignore"` leaves factors out of p', help=help)
    if is_whole(evidence.lowered.graph, evidence.mask):
        raise fail("E550", "rows with weights have no likelihood: weights count as importances", help=f"repeat rows; or {help}")
    message = f"a fit under mask `{evidence.options.mask}` has a pseudolikelihood: its terms are not log p(x) of the rows"
    raise fail("E550", message, help=f"fit under `everything` where that is affordable; or {help}")


def _simulation(fit: FitRecord, calibrate: str | None) -> How | None:
    """Return the options of simulated data sets, or None if the rows determine S.

    If the errors of the fit are simulated, the options are those of the fit. Otherwise "simulated"
    means 1000 data sets.
    """
    simulated = fit.simulated
    if simulated is None:
        return DATA_SETS.get(calibrate)
    how: Mapping[str, Any] = simulated.get("how", {"seed": 0, "sampler": None, "warmup": 500, "thin": None})
    return How(simulated["draws"], **how)


def _verify_cost(likelihood: Likelihood, how: Chains, steps: int) -> None:
    """Raise E601 if draws of `steps` gradients each take an hour or more, or too much memory.

    Raises:
        GmlmError: E601 with the figure.
    """
    objective, total = likelihood.objective, min(how.chains * (how.draws + how.warmup), MOST_DRAWS)
    operations = steps * total * likelihood.cost
    memory = 8.0 * min(how.chains * how.draws, MOST_DRAWS) * (likelihood.rows + objective.codes.shape[1])
    if operations > MOST_OPERATIONS or memory > BUDGET.bytes:
        message = (
            f"log p of {likelihood.rows:,} rows at {total:,} draws takes {operations:.2g} operations and {memory / 2**30:.2g} GiB, "
            f"above the limit of {MOST_OPERATIONS:.2g} and {BUDGET.bytes / 2**30:.2g} GiB"
        )
        raise fail("E601", message, help="fewer `draws=` or `chains=`; `information_criterion` needs one pass over the rows")


def _normal(fit: FitRecord, likelihood: Likelihood, params: dict[str, jax.Array]) -> tuple[Array, Array | None]:
    """Return the normal approximation of the posterior: the estimate's coordinates and their covariance.

    The covariance is None if the estimate is at the edge of a parameter's range, or if the
    curvature there is not positive and the priors are proper.

    Raises:
        GmlmError: E552 if the curvature is not positive in every direction.
    """
    sites = likelihood.sites
    start = np.asarray(coordinates(sites, params))
    if not np.isfinite(start).all():
        return np.zeros_like(start), None
    covariance = _covariance(fit, likelihood, params)
    values = np.linalg.eigvalsh(covariance)
    is_positive = values.min(initial=np.inf) > LEAST_DEVIATION**2 * values.max(initial=0.0)
    has_priors = all(s.parameter.prior is not None for s in sites)
    if not (is_positive or has_priors):
        message = "the normal approximation of the posterior needs a curvature that is positive in every direction"
        raise fail("E552", message, help="give the parameters a prior, or fit from another start with `init=`")
    bounded = np.array([s.is_bounded for s in sites for _ in range(s.size)], bool)
    if not is_positive or (np.diag(covariance)[bounded] > WIDEST**2).any():
        return np.zeros_like(start), None
    return start, 0.5 * (covariance + covariance.T)


def _covariance(fit: FitRecord, likelihood: Likelihood, params: dict[str, jax.Array]) -> Array:
    """Return the inverse of the curvature of the objective, in coordinates.

    An entry that a laplace prior holds at its centre has the variance that the rows determine.
    """
    graph, fixed = fit.graph, frozenset(likelihood.objective.frame.fixed)
    laplace = fit.determined.get("laplace")
    if laplace is None or at_kinks(graph, tuple(fixed), params).any():
        objective = likelihood.objective
        laplace = curvature(objective, params, objective_colouring(objective)).laplace()
    basis = tangent(graph, fixed)
    inverse = np.linalg.pinv(jacobian(graph, likelihood.sites, params, basis))
    return inverse @ basis.T @ laplace @ basis @ inverse.T


def _draws_of(
    task: Task, evidence: Evidence, meta: JsonObject, params: Mapping[str, Any], how: Chains, calibrate: str | None, checkpoint: object
) -> Draws:
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        _verify_cost(task.likelihood, how, ADAPTED_STEPS if task.scale is None else SCALED_STEPS)
        options = {**dataclasses.asdict(how), "calibrate": calibrate}
        target = jax.tree.leaves((task.target, task.start, task.scale))
        with long_fit(checkpoint, lambda: evidence_identity(evidence, params, options, target)) as saved:
            vectors, stats = _drawn(task.target, task.start, task.scale, how, saved)
        draws, pointwise = _told(task.likelihood, task.moved(vectors))
    _announce(stats["diverging"])
    return _labelled(evidence, meta | {"seed": how.seed, "warmup": how.warmup}, draws, stats, {task.rows: pointwise}, task.words)


def _drawn(likelihood: Likelihood, start: Array, scale: Array | None, how: Chains, saved: LongFit) -> tuple[Array, dict[str, Array]]:
    """Return draws in coordinates, shape (chains, draws, size), with the statistics of each."""
    target = likelihood.of_any_rows, None if scale is None else on_device(scale)
    state = begun(*target, on_device(start), random_key(how.seed), how.chains, how.warmup)
    if not np.isfinite(np.asarray(state.potential_energy)).all():
        message = "a chain of the posterior has no start where its density is finite"
        raise fail("E509", message, help="look for a factor that is undefined there, such as the log of a negative number")
    vectors, *told = in_strides(lambda state, _: walked(*target, state, how.warmup), state, how.warmup, how.draws, saved)
    return vectors, dict(zip(("lp", "diverging", "n_steps", "acceptance_rate"), told, strict=True))


@quickly_compiled(lambda likelihood, *_: likelihood.cost < WORTH_MERGING)
def begun(likelihood: Likelihood, scale: jax.Array | None, start: jax.Array, key: jax.Array, chains: int, warmup: int) -> PyTree:
    """Return the initial states of NUTS, one for each chain.

    The chains start at draws of a normal distribution, whose covariance is also the inverse mass
    matrix. Without a covariance they start uniformly within 2 of the mean.

    Args:
        likelihood: the likelihood that is drawn from.
        scale: the covariance, in coordinates, or None.
        start: the mean of the starts, in coordinates.
        key: a JAX key.
        chains: the number of chains.
        warmup: the number of steps that adapt the step size.
    """

    def one(key: jax.Array) -> PyTree:
        first, rest = jax.random.split(key)
        if scale is None:
            steps = jax.random.uniform(first, (STARTS, *start.shape), start.dtype, -2, 2)
            energy, slope = jax.lax.map(jax.value_and_grad(potential(likelihood)), start + steps)
            step = steps[jnp.argmax(jnp.isfinite(energy) & jnp.isfinite(slope).all(axis=1))]
        else:
            step = jnp.linalg.cholesky(scale) @ jax.random.normal(first, start.shape, start.dtype)
        return _kernel(likelihood, scale).init(rest, warmup, start + step, (), {})

    return jax.vmap(one)(jax.random.split(key, chains))


@quickly_compiled(lambda likelihood, *_: likelihood.cost < WORTH_MERGING)
def walked(likelihood: Likelihood, scale: jax.Array | None, state: PyTree, warmup: int) -> tuple[PyTree, PyTree]:
    """Run STRIDE steps of each chain.

    Args:
        likelihood: the likelihood that is drawn from.
        scale: the inverse mass matrix, in coordinates; None if the warm-up adapts a diagonal one.
        state: the states of the chains.
        warmup: the number of steps of a chain that adapt the step size.
    """
    kernel = _kernel(likelihood, scale)

    def step(at: PyTree, _: None) -> tuple[PyTree, PyTree]:
        at = kernel.sample(at, (), {})
        return at, (at.z, -at.potential_energy, at.diverging, at.num_steps, at.accept_prob)

    def one(at: PyTree) -> tuple[PyTree, PyTree]:
        # NumPyro's kernel sets up its step function here; the returned state is not computed.
        kernel.init(at.rng_key, warmup, at.z, (), {})
        return jax.lax.scan(step, at, None, length=STRIDE)

    return jax.vmap(one)(state)


def _kernel(likelihood: Likelihood, scale: jax.Array | None) -> NUTS:
    from numpyro.infer import NUTS

    if scale is None:
        return NUTS(potential_fn=potential(likelihood))
    return NUTS(potential_fn=potential(likelihood), inverse_mass_matrix=scale, dense_mass=True, adapt_mass_matrix=False)


def potential(likelihood: Likelihood) -> Callable[[jax.Array], jax.Array]:
    """Return NumPyro's potential energy of the model as a function of the vector of coordinates."""
    from numpyro.infer.util import potential_energy

    model, sites = NumpyroModel("posterior", likelihood, ""), likelihood.sites

    def energy(vector: jax.Array) -> jax.Array:
        values, at = {}, 0
        for s in sites:
            values[s.name] = s.unflattened(vector[at : at + s.size])
            at += s.size
        return potential_energy(model, (), {}, values)  # pyright: ignore[reportReturnType]

    return energy


def _told(likelihood: Likelihood, vectors: Array) -> tuple[dict[str, Array], Array]:
    """Return parameters, and the log likelihood of each row, at coordinates.

    The coordinates have the shape (chains, draws, size).
    """
    lead, alone = vectors.shape[:-1], likelihood.of_any_rows
    flat, distinct = over_rows(lambda v: _at_draws(alone, v), vectors.reshape(-1, vectors.shape[-1]).T, (), likelihood.cost)
    draws = {k: np.moveaxis(v, -1, 0).reshape(*lead, *v.shape[:-1]) for k, v in flat.items()}
    return draws, likelihood.by_row(distinct.T).reshape(*lead, -1)


@bounded_jit
def _at_draws(likelihood: Likelihood, vectors: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """Return parameters and `Likelihood.distinct` at vectors of shape (size, draws).

    The axis of the draws is the last one of each result.
    """
    sites, held = likelihood.sites, likelihood.objective.held

    def at(vector: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        params = at_coordinates(sites, vector, held)
        return params, likelihood.distinct(params)

    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), jax.lax.map(at, vectors.T))


def _announce(diverging: Array) -> None:
    if diverging.any():
        text = f"{int(diverging.sum()):,} of {diverging.size:,} draws diverged: the posterior is far from normal. Look at R-hat and ESS"
        tell(text, SamplingWarning)


def _labelled(
    evidence: Evidence, meta: JsonObject, draws: dict[str, Array], stats: dict[str, Array], pointwise: dict[str, Array], calibration: str
) -> Draws:
    graph = evidence.lowered.graph
    dims, coords = axes_of_parameters(graph)
    observed = {v.name: decode(graph, evidence.codes, (evidence.codes.shape[1],))[v.name] for v in graph.observed}
    dims |= {v.name: list(v.dims) for v in graph.observed if v.name not in dims}
    coords |= {d: list(c) for v in graph.observed for d, c in zip(v.dims, v.coords, strict=True)}
    name = graph.observed[0].name if len(graph.observed) == 1 else meta["model"]
    attrs = {
        "model": meta["model"],
        "program_sha256": meta["sha256"],
        "versions": ", ".join(f"{k} {v}" for k, v in meta["versions"].items()),
        "inference": "NUTS",
        "mask": meta["mask_use"],
        "calibration": calibration,
        "seed": meta["seed"],
        "warmup": meta["warmup"],
    }
    by_row: dict[str, Any] = {kind: {name: values} for kind, values in pointwise.items()}
    return to_arviz(draws, dims, coords, stats, observed, attrs, texts=graph.texts, **by_row)


def in_strides(
    call: Callable[[PyTree, int], tuple[PyTree, PyTree]], state: PyTree, warmup: int, draws: int, saved: LongFit | None = None
) -> PyTree:
    """Return the recorded quantities of some steps of chains, on the host.

    Args:
        call: a function that runs STRIDE steps, from a state and the number of the first step. It
            returns the next state, and arrays with axes of chains and steps.
        state: the state before the first step.
        warmup: the number of steps that are not recorded.
        draws: the number of recorded steps after them.
        saved: the saved states of the run; None saves nothing.

    Returns:
        The arrays, with axes of chains and draws.
    """
    saved = saved or LongFit()
    parts: list[Sequence[np.ndarray]] = []
    at, first, size = 0, warmup - warmup % STRIDE, len(jax.tree.leaves(state))
    if saved.resumed() == [] and saved.unfinished is not None:
        at, state = int(saved.unfinished[0]), restored(saved.unfinished[1 : size + 1], state)
        parts = [saved.unfinished[size + 1 :]] if at > first else []
    while True:
        state, told = call(state, at)
        if at >= first:
            parts.append([np.asarray(a) for a in jax.tree.leaves(told)])
        if (at := at + STRIDE) >= warmup + draws:
            break
        # The last stride is not saved: the structure of what is recorded is that of a call.
        here = np.asarray(at), state
        saved.reached_within(lambda here=here: (*here, _joined(parts)))
    return jax.tree.unflatten(jax.tree.structure(told), [a[:, warmup - first : warmup - first + draws] for a in _joined(parts)])


def _joined(parts: list[Sequence[np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(a, axis=1) for a in zip(*parts, strict=True)]
